//! Damage shows: a record of each format is damaged, and every program that accepts the input exits with a code that
//! is not 0 and names the damage.

use super::ways::{ACCEPTING_PROGRAMS, format_of, samples, unpacked};
use crate::support::{Work, run_in};

/// How a sample is damaged.
enum Damage {
    /// A part of it is replaced by another.
    Changed(&'static str, &'static str),
    /// It ends in the middle of a record.
    Cut,
    /// The line in its middle ends after so many bytes.
    CutLine(usize),
}

impl Damage {
    /// The damage that a format can have; `None` for inputs without records.
    fn of_sample(name: &str) -> Option<Damage> {
        let is = |part: &str| name.contains(part);
        Some(match name {
            "a log" => Damage::Changed(" datatype ", " dat\u{1}type "),
            "a call table" => Damage::Changed("2,AllReduce,8", "2,AllReduce,x"),
            "calls as JSON lines" => Damage::Changed("\"count\":1", "\"count\":"),
            "UTF-16"
            | "MPI's calls"
            | "Inspector's records after a cut one"
            | "another table"
            | "another document" => return None,
            _ if is("cuda/") => Damage::CutLine(18),
            _ if is("snoopie") => Damage::CutLine(9),
            _ => Damage::Cut,
        })
    }

    fn apply(&self, sample: &[u8]) -> Vec<u8> {
        match self {
            Damage::Changed(from, to) => {
                let at = memchr::memmem::find(sample, from.as_bytes()).unwrap();
                let rest = &sample[at + from.len()..];
                [&sample[..at], to.as_bytes(), rest].concat()
            }
            Damage::Cut => sample[..sample.len() * 3 / 4].to_vec(),
            Damage::CutLine(keep) => {
                let middle = sample.len() / 2;
                let begin = memchr::memchr(b'\n', &sample[middle..]).unwrap() + middle + 1;
                let end = memchr::memchr(b'\n', &sample[begin..]).unwrap() + begin;
                assert!(end - begin > *keep);
                [&sample[..begin + keep], &sample[end..]].concat()
            }
        }
    }
}

#[test]
fn damage_shows_in_every_program_that_accepts_the_input() {
    let work = Work::new();
    let mut wrong = Vec::new();
    let mut judged = 0;
    let more = ["profiler", "kineto", "snoopie"]
        .into_iter()
        .flat_map(|folder| {
            let folder = crate::support::root().join("testdata").join(folder);
            let files = std::fs::read_dir(folder).unwrap();
            let files = files.map(|file| file.unwrap().path());
            let is_trace = |path: &std::path::PathBuf| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                path.is_file() && !name.ends_with(".md") && !name.contains(".log")
            };
            files
                .filter(is_trace)
                .map(|path| (path.display().to_string(), unpacked(&path)))
        });
    for (what, whole) in samples().into_iter().chain(more) {
        let Some(damage) = Damage::of_sample(&what) else {
            continue;
        };
        // Snoopie's names tell what a file has.
        let name = what.rsplit('/').next().unwrap().trim_end_matches(".gz");
        let name = if what.contains('/') { name } else { "sample" };
        let damaged = damage.apply(&whole);
        for program in ACCEPTING_PROGRAMS {
            // The page names the program that reads these sums, and has nothing of them.
            if program == "nccl-report" && what.ends_with("metrics.log") {
                continue;
            }
            let run = |bytes: &[u8]| {
                work.file(name, bytes);
                let args = [format_of(program), &[name]].concat();
                run_in(work.dir(), program, &args)
            };
            if run(&whole).code == Some(2) {
                continue;
            }
            judged += 1;
            let out = run(&damaged);
            let shows = !matches!(out.code, Some(0 | 3) | None);
            if !shows || !out.stderr.contains(name) {
                wrong.push(format!("{program}, {what}: {:?} {}", out.code, out.stderr));
            }
        }
    }
    assert!(judged > 40, "{judged}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
