//! What the packages are made of names every program (docs/packaging.md).

use crate::support::{ALL, Work, arg, bins, captured, procs, root, run, sh};
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn names(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).unwrap();
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|file| stem(&file.unwrap().path())).collect()
}

#[test]
fn every_list_of_programs_has_all_of_them() {
    let programs = names("src/bin");
    assert_eq!(programs, ALL.map(str::to_owned).into());
    assert_eq!(programs, names("packaging/wheel/scripts"));
    let launcher = read("packaging/launcher");
    let all = read("packaging/all.rs");
    let readme = read("README.md");
    let mut listed = 0;
    for program in &programs {
        assert_eq!(
            read(&format!("packaging/wheel/scripts/{program}")),
            launcher
        );
        let module = program.strip_prefix("nccl-").unwrap();
        assert!(
            all.contains(&format!("\"../src/bin/{program}.rs\"")),
            "{program}"
        );
        assert!(
            all.contains(&format!("    (\"{program}\", {module}),\n")),
            "{program}"
        );
        listed += 1;
        // packaging/all.rs calls it.
        let main = "\npub(crate) fn main() -> ExitCode {\n";
        assert!(
            read(&format!("src/bin/{program}.rs")).contains(main),
            "{program}"
        );
        assert!(
            readme.contains(&format!("](docs/{program}.md")),
            "{program} has no row in the README"
        );
    }
    assert_eq!(all.matches("    (\"nccl-").count(), listed);
}

/// A link is the program of its name; `nccl-pipe` takes names with and without `nccl-`.
#[test]
fn nccl_pipe_is_every_program() {
    let work = Work::new();
    std::os::unix::fs::symlink(bins().join("nccl-pipe"), work.dir().join("nccl-hist")).unwrap();
    let log = captured("ddp-skip");
    let expect = run("nccl-hist", &[arg(&log)]).ends(0);
    let commands = ["./nccl-hist", "nccl-pipe hist", "nccl-pipe nccl-hist"];
    for command in commands {
        let out = sh(work.dir(), &format!("{command} {}", arg(&log))).ends(0);
        assert_eq!(
            (&out.stdout, &out.stderr),
            (&expect.stdout, &expect.stderr),
            "{command}"
        );
    }
    let version = sh(work.dir(), "nccl-pipe --version").ends(0).text();
    assert_eq!(
        version,
        format!("nccl-pipe {}\n", env!("CARGO_PKG_VERSION"))
    );
    // Each line of the list is the program's own.
    let list = sh(work.dir(), "nccl-pipe help").ends(0).text();
    for asks in ["< /dev/null", "-h"] {
        assert_eq!(
            sh(work.dir(), &format!("nccl-pipe {asks}")).ends(0).text(),
            list
        );
    }
    for program in ALL {
        let help = run(program, &["--help"]).ends(0).text();
        let short = program.strip_prefix("nccl-").unwrap();
        let about: Vec<&str> = help
            .split("\n\n")
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        // The beginning of the program's own line, on one line.
        let line = list
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(short)?.strip_prefix(' '));
        let line = line.unwrap_or_default().trim();
        assert!(
            line.len() > 10 && about.join(" ").starts_with(line),
            "{short}: {line} in {list}"
        );
        let asked = sh(work.dir(), &format!("nccl-pipe help {short}"))
            .ends(0)
            .text();
        assert_eq!(asked, help, "{program}");
    }
}

#[test]
fn nccl_pipe_writes_the_page_and_the_commands_that_tell_more() {
    let work = Work::new();
    let page = |input: &str| {
        let pipe = run("nccl-pipe", &[input]).ends(0);
        let report = run("nccl-report", &[input]).ends(0);
        let (text, own) = (pipe.text(), report.text());
        assert!(text.starts_with(&own), "{text}");
        assert_eq!(
            pipe.stderr,
            report.stderr.replace("nccl-report:", "nccl-pipe:")
        );
        let names = text[own.len()..].lines().filter_map(|line| {
            let command = line.strip_prefix("  nccl-pipe ")?;
            assert!(command.contains(&format!(" {input} ")), "{line}");
            command.split(' ').next().map(str::to_owned)
        });
        names.collect::<Vec<_>>().join(" ")
    };
    let testdata = |name: &str| arg(&root().join("testdata").join(name)).to_owned();
    let log = testdata("captured/ddp-skip/nccl.log.gz");
    let of_log = "check timing hist ops skew communicators net steps comms matrix diff";
    assert_eq!(page(&log), of_log);
    assert_eq!(
        page(&testdata("kineto/ep-rank0.json.gz")),
        "hist ops ops overlap comms kernels"
    );
    assert_eq!(
        page(&testdata("flight/protocol0.pkl.gz")),
        "check hist ops ops comms"
    );
    assert_eq!(
        page(&testdata("cuda/timeline.log")),
        "hist ops ops comms cuda"
    );
    let init: String = (0..2)
        .zip(procs(2))
        .map(|(rank, p)| p.init(rank, 7) + "\n")
        .collect();
    assert_eq!(
        page(arg(&work.file("init.log", init))),
        "check communicators net"
    );
    let plain = work.file("a b.log", "nothing\n");
    let text = run("nccl-pipe", &[&plain]).text();
    assert!(
        text.contains(&format!("nccl-pipe check '{}'", plain.display())),
        "{text}"
    );
}

#[test]
fn a_word_that_nccl_pipe_does_not_know_is_refused() {
    for (word, says) in [
        (
            "hsit",
            "no program and no file is called hsit: did you mean hist?",
        ),
        ("nccl-step", "did you mean steps?"),
        (
            "today.log",
            "no program and no file is called today.log; nccl-pipe help lists",
        ),
    ] {
        run("nccl-pipe", &[word]).ends(2).says(&[says]);
    }
}

#[test]
fn packages_say_what_cargo_says() {
    let cargo = read("Cargo.toml");
    // The version is said once, in Cargo.toml.
    let python = read("pyproject.toml");
    assert!(python.contains("dynamic = [\"version\", ") && python.contains("name = \"nccl-pipe\""));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(read(licence).len() > 500);
    }
    for folder in [
        "usr/bin/",
        "usr/share/man/man1/",
        "usr/share/bash-completion/completions/",
    ] {
        assert!(
            cargo.contains(&format!("\"{folder}\"")),
            "the .deb has no {folder}"
        );
    }
}
