use super::*;
use crate::grammar::trainer::{Recogniser, TrainerMark};
use crate::log;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::log::timeline;
use crate::members::MergedMembers;
use crate::shared::data;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Returns the proposals for lines with `apart` lines of the log between them.
fn of_lines(lines: &[Vec<u8>], apart: u64) -> Vec<StepProposal> {
    let mut table = TemplateTable::default();
    for (at, line) in (0..).zip(lines) {
        table.add_log_line(line, apart * at);
    }
    proposal_ranking::best_proposals(&table.finish(), apart * lines.len() as u64)
}

/// The steps that a recogniser finds in lines.
fn steps(recogniser: &Recogniser, lines: &[Vec<u8>]) -> Vec<u64> {
    let mut found = Vec::new();
    lines
        .iter()
        .for_each(|line| recogniser.marks(line, &mut found));
    let step = |mark: &TrainerMark| match mark {
        TrainerMark::Step(line) => Some(line.step),
        _ => None,
    };
    found.iter().filter_map(|found| step(&found.mark)).collect()
}

/// The same by the pattern of a proposal.
fn proposed(proposal: &StepProposal, lines: &[Vec<u8>]) -> Vec<u64> {
    steps(&Recogniser::for_pattern(&proposal.pattern).unwrap(), lines)
}

/// Twelve lines: `line` with the numbers `step` in it, then with those that follow, its fractions
/// a little different each time.
fn more(line: &[u8], step: u64) -> Vec<Vec<u8>> {
    // NeMo 1 counts from 0, and its bar from 1.
    let is_bar = memchr::memmem::find(line, b"train_step_timing in s=").is_some();
    let mut parts = Vec::new();
    template::split_into_parts(line, &mut parts);
    let as_next = |k: u64| -> Vec<u8> {
        let next = |part: &template::TemplatePart| -> Vec<u8> {
            let text = part.slice_of(line);
            let is_number = part.kind == template::TemplatePartKind::Number;
            match (
                series::parse_trainer_integer(text),
                series::parse_trainer_number(text),
            ) {
                (Some(n), _) if is_number && (n == step || is_bar && n == step + 1) => {
                    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
                    let next = format!("{:>digits$}", n + k);
                    [next.as_bytes(), &text[digits..]].concat()
                }
                (None, Some(value)) if is_number && !text.contains(&b',') => {
                    let point = text.iter().rposition(|b| *b == b'.');
                    let decimals = point.map_or(0, |at| text.len() - at - 1);
                    let value = value * (1.0 + 0.01 * (k * 7 % 5) as f64);
                    format!("{value:.decimals$}").into_bytes()
                }
                _ => text.to_vec(),
            }
        };
        parts.iter().flat_map(next).collect()
    };
    (0..12).map(as_next).collect()
}

/// Real lines of every known trainer, as if none was known: for nearly all the first proposal is
/// the step line with the right number.
#[test]
fn the_known_trainers_lines_are_proposed() {
    let Some(folder) = data("trainers") else {
        return;
    };
    let mut files: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        let name = entry.file_name().into_string().unwrap();
        let lines = bytes.split(|&b| b == b'\n');
        for line in lines.filter(|line| !line.starts_with(b"#@")) {
            let line = line.split(|b| *b == b'\r').next().unwrap();
            let [step] = steps(&Recogniser::all(), &[line.to_vec()])[..] else {
                continue;
            };
            let lines = more(line, step);
            let known = steps(&Recogniser::all(), &lines);
            let found = of_lines(&lines, 20);
            let (good, all) = files.entry(name.clone()).or_default();
            *all += 1;
            // NeMo 1's bars are numbered by `n - 1`.
            let is_known =
                |got: Vec<u64>| got == known || got.iter().map(|n| n - 1).eq(known.iter().copied());
            *good += u32::from(found.first().is_some_and(|f| is_known(proposed(f, &lines))));
        }
    }
    let (good, all) = files
        .values()
        .fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    eprintln!("{files:?}: {good} of {all}");
    assert!(20 * good >= 19 * all, "{files:?}");
    let misses = files.values().filter(|(good, _)| *good == 0).count();
    assert!(misses == 0, "{files:?}");
}

/// Logs of real jobs, as if their trainers were not known.
#[test]
fn the_steps_of_real_jobs_are_proposed() {
    for (job, base) in [
        ("ddp", 0),
        ("fsdp", 0),
        ("ep", 0),
        ("pp", 0),
        ("torchtitan", 0),
        ("hf", 1),
        ("lightning", 1),
    ] {
        let path = format!(
            "{}/../../testdata/captured/{job}/nccl.log.gz",
            env!("CARGO_MANIFEST_DIR")
        );
        let origin = InputName::Path(path.into());
        let input = Input::open(&origin, source::Options { mmap: true }, BLOCK_REJOINER).unwrap();
        let steps = |recogniser| {
            let options = log::Options {
                jobs: 1,
                recogniser,
                strict: false,
                keep_init_lines: false,
                keep_marks: true,
            };
            let merged = &mut MergedMembers::default();
            let log = log::read_log(&input, &options, merged, || (), |_| {}, |_| Ok(())).unwrap();
            let options = timeline::Options::default();
            let found = log.build_timeline(&options);
            let steps = found.steps.iter().map(|step| step.step);
            // A bar is drawn before its first step too.
            steps.filter(|step| *step >= base).collect::<Vec<u64>>()
        };
        let first = &propose_from_log(&input).unwrap()[0];
        let pattern = Recogniser::for_pattern(&first.pattern).unwrap();
        assert_eq!(steps(pattern), steps(Recogniser::all()), "{job}: {first:?}");
    }
}

#[test]
fn an_evaluation_and_what_is_counted_once_are_not_proposed_before_the_steps() {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut say = |line: String| lines.push(line.into_bytes());
    (0..32).for_each(|layer| say(format!("built layer {layer} of 32")));
    for step in 1..=40 {
        say(format!(
            "2024-01-17 13:{:02}:{:02},500 trainer: pass {} done, took 5.01 s, samples: {}",
            step * 5 / 60,
            step * 5 % 60,
            step * 20,
            step * 5120
        ));
        if step % 8 == 0 {
            (1..=50).for_each(|n| say(format!("scored {n}/50 [00:{n:02}<00:01, 24.67it/s]")));
        }
    }
    let found = of_lines(&lines, 1);
    let first = &found[0];
    let known: Vec<u64> = (1..=40).map(|step| step * 20).collect();
    assert_eq!(proposed(first, &lines), known, "{found:?}");
    let text = first.describe_proposal();
    assert!(text.starts_with("40 lines, 20 to 800 by 20:\n"), "{text}");
    // Twenty steps in five seconds: not the time of one.
    assert!(!first.pattern.contains("time_s"), "{text}");
}

#[test]
fn a_proposal_is_fit_for_a_terminal_and_a_shell() {
    let line = |n: u64| {
        format!(
            "it's \x1b[2J\u{9b}1m update no. {n} ✨ 'x' {}\u{7f}\u{202e}",
            n * n
        )
    };
    let lines: Vec<Vec<u8>> = (1..40).map(|n| line(n).into_bytes()).collect();
    let found = of_lines(&lines, 1);
    assert_eq!(proposed(&found[0], &lines), (1..40).collect::<Vec<u64>>());
    let text = found[0].describe_proposal();
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert_eq!(found[0].pattern.matches('\'').count(), 0);
}

proptest! {
    /// Every proposal can be pasted and matches its own example.
    #[test]
    fn any_lines_can_be_looked_at(
        words in proptest::collection::vec(
            prop_oneof![
                "[ -~]{0,12}",
                "\\PC{0,6}",
                Just("\u{1b}[31m".to_owned()),
                Just("\r".to_owned()),
            ],
            1..6,
        ),
        bytes: Vec<u8>,
        by in 1..u64::MAX / 64,
        first: u64,
    ) {
        let line = |n: u64| {
            let n = first.saturating_add(by.saturating_mul(n)).to_string();
            [words.join(&n).as_bytes(), &bytes, n.as_bytes()].concat()
        };
        let lines: Vec<Vec<u8>> = (0..32).map(line).collect();
        for proposal in of_lines(&lines, 7) {
            prop_assert!(!proposal.pattern.contains('\''));
            prop_assert!(Recogniser::for_pattern(&proposal.pattern).is_ok(), "{}", proposal.pattern);
            prop_assert!(!proposed(&proposal, &lines).is_empty(), "{}", proposal.pattern);
        }
    }
}
