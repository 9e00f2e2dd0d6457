//! The help, the short letters, completions and man pages of all programs.

use crate::support::{ALL, Work, run, sh};
use nccl_pipe::grammar::trainer::Trainer;
use nccl_pipe::program::cli::OPTION_HEADINGS;
use std::collections::BTreeMap;
use std::process::Command;

/// The lines of a help with an option: its letter, if it has one, and its long name.
fn options(help: &str) -> Vec<(Option<char>, String)> {
    let of = |line: &str| {
        let line = line.trim_start();
        let letter = line.strip_prefix('-').and_then(|rest| rest.chars().next());
        let letter = letter.filter(|letter| *letter != '-');
        let long = match letter {
            Some(_) => line.get(2..)?.strip_prefix(", --")?,
            None => line.strip_prefix("--")?,
        };
        let end = long.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        Some((letter, long[..end.unwrap_or(long.len())].to_owned()))
    };
    help.lines()
        // What is deeper is the text of an option.
        .filter(|line| matches!(line.len() - line.trim_start().len(), 2 | 6))
        .filter_map(of)
        .collect()
}

#[test]
fn the_short_help_fits_a_terminal_and_has_the_same_headings_in_the_same_order() {
    for program in ALL {
        let help = run(program, &["-h"]).ends(0).text();
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{program}: {widest} columns");
        let lines = help.lines().count();
        assert!(lines <= 45, "{program}: {lines} lines");
        let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
        let headings: Vec<&str> = help.lines().filter(is_heading).collect();
        let (examples, headings) = headings.split_last().unwrap();
        assert_eq!(*examples, "Examples:", "{program}");
        let places: Vec<usize> = headings
            .iter()
            .map(|heading| {
                let place = OPTION_HEADINGS
                    .iter()
                    .position(|is| format!("{is}:") == **heading);
                place.unwrap_or_else(|| panic!("{program}: {heading}"))
            })
            .collect();
        assert!(places.is_sorted(), "{program}: {headings:?}");
        assert!(
            headings.len() >= 2 && headings.contains(&"Output:"),
            "{program}"
        );
        if program != "nccl-synth" {
            assert_eq!(headings[0], "Input:", "{program}");
        }
        let shown: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Examples:")
            .collect();
        assert!(
            shown[1..].iter().all(|line| line.contains("nccl-")),
            "{program}"
        );
        assert!(shown.len() >= 3, "{program}: {shown:?}");
        // All of it is in the long one, and more.
        let long = run(program, &["--help"]).ends(0).text();
        let of_long = options(&long);
        for option in options(&help) {
            assert!(of_long.contains(&option), "{program}: {option:?}");
        }
        assert!(
            of_long.iter().any(|(_, name)| name == "generate"),
            "{program}"
        );
        for heading in long.lines().filter(is_heading) {
            let known = OPTION_HEADINGS.iter().any(|is| format!("{is}:") == heading);
            let text = ["Examples:", "With --expect:"].contains(&heading);
            assert!(
                known || text || !heading.ends_with("ptions:"),
                "{program}: {heading}"
            );
        }
    }
}

#[test]
fn a_letter_means_the_same_in_every_program() {
    let mut letters: BTreeMap<char, (String, &str)> = BTreeMap::new();
    let mut names: BTreeMap<String, (char, &str)> = BTreeMap::new();
    for program in ALL {
        let long = run(program, &["--help"]).ends(0).text();
        for (letter, name) in options(&long) {
            let Some(letter) = letter else {
                // What has a letter in one program has it in all.
                assert!(!names.contains_key(&name), "{program} --{name}: {names:?}");
                continue;
            };
            let (known, of) = letters.entry(letter).or_insert((name.clone(), program));
            assert_eq!(*known, name, "-{letter} of {of} and {program}");
            names.insert(name, (letter, program));
        }
    }
    for (letter, name) in [
        ('s', "steps"),
        ('f', "format"),
        ('o', "output"),
        ('n', "top"),
        ('j', "jobs"),
        ('v', "verbose"),
        ('q', "quiet"),
    ] {
        assert_eq!(letters[&letter].0, name, "{letters:?}");
    }
    for program in ALL {
        let long = run(program, &["--help"]).ends(0).text();
        let has = |name: &str| options(&long).iter().any(|(_, is)| is == name);
        // nccl-watch writes what happens; the call table is as long as the log, and not kept.
        let rows = ![
            "nccl-watch",
            "nccl-synth",
            "nccl-report",
            "nccl-comms",
            "nccl-pack",
            "nccl-collect",
        ]
        .contains(&program);
        assert_eq!((has("sort"), has("top")), (rows, rows), "{program}");
        let has_output = !["nccl-watch", "nccl-pack"].contains(&program);
        assert_eq!(has("output"), has_output, "{program}");
    }
}

/// Whether a program can be run here.
fn has(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").output();
    found.is_ok_and(|out| out.status.success())
}

#[test]
fn completions_name_all_trainers_and_columns() {
    let work = Work::new();
    for program in ALL {
        let takes_trainers = run(program, &["--help"])
            .ends(0)
            .text()
            .contains("--trainer");
        for shell in ["bash", "zsh", "fish"] {
            let what = format!("complete-{shell}");
            let text = run(program, &["--generate", &what]).ends(0).text();
            for trainer in Trainer::all().filter(|_| takes_trainers && program != "nccl-synth") {
                let name = trainer.name();
                assert!(text.contains(name), "{program} {shell}: {name}");
            }
            work.file(&format!("{program}.{shell}"), &text);
            if has(shell) {
                sh(work.dir(), &format!("{shell} -n {program}.{shell}")).ends(0);
            }
        }
    }
    // As bash calls it when the tabulator key is pressed.
    let completed = |program: &str, words: &str| {
        let script = format!(
            "source {program}.bash; COMP_WORDS=({program} {words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             f=$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
             $f {program} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        sh(work.dir(), &script).ends(0).lines()
    };
    let trainers = completed("nccl-hist", "--trainer mega");
    assert_eq!(trainers, ["megatron", "megatron-deepspeed"]);
    for (program, part, whole) in [
        ("nccl-ops", "comm", vec!["comm", "comm_id"]),
        ("nccl-kernels", "g", vec!["grid"]),
        ("nccl-overlap", "st", vec!["step"]),
        ("nccl-proxy", "ch", vec!["channel"]),
        ("nccl-matrix", "li", vec!["line"]),
    ] {
        assert_eq!(
            completed(program, &format!("--by {part}")),
            whole,
            "{program}"
        );
    }
    assert_eq!(completed("nccl-steps", "-f js"), ["jsonl"]);
    if has("fish") {
        let out = sh(
            work.dir(),
            "fish -c 'source nccl-hist.fish; complete -C \"nccl-hist --trainer torcht\"'",
        );
        let names: Vec<String> = out.ends(0).lines();
        let names = names.iter().map(|line| line.trim());
        assert_eq!(names.collect::<Vec<_>>(), ["torchtitan", "torchtune"]);
    }
}

#[test]
fn man_pages_have_examples_exit_codes_and_neighbours() {
    let work = Work::new();
    for program in ALL {
        let man = run(program, &["--generate", "man"]).ends(0).text();
        let mut at = 0;
        for section in [".SH EXAMPLES", ".SH \"EXIT STATUS\"", ".SH \"SEE ALSO\""] {
            let found = man[at..].find(section);
            at += found.unwrap_or_else(|| panic!("{program}: no {section} after {at}"));
        }
        let also: Vec<&str> = man[at..]
            .lines()
            .filter_map(|line| line.strip_prefix(".BR "))
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert!(also.len() >= 2 && also.is_sorted(), "{program}: {also:?}");
        for other in also {
            assert!(
                ALL.contains(&other) && other != program,
                "{program}: {other}"
            );
        }
        assert!(!man.contains("EXTRA"), "{program}");
        work.file(&format!("{program}.1"), &man);
        if has("groff") {
            let out = sh(
                work.dir(),
                &format!("groff -k -ww -man -Tutf8 {program}.1 >{program}.txt"),
            );
            // A list of long words cannot fill its line.
            let said = out.ends(0).stderr;
            let wrong = |line: &&str| !line.contains("cannot adjust line");
            assert_eq!(said.lines().find(wrong), None, "{program}");
        }
    }
}
