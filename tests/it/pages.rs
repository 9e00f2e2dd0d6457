//! README.md and the pages in docs/: their commands print what stands below them, the README is
//! short, and no program and no page uses a phrase that was found hard to read.
//!
//! A ```console block has commands (`$ ...`), each with what it prints on stdout and stderr below
//! it. A page's commands run one after the other in a folder of the page's own, where `testdata`
//! is the package's and `nccl.log` the sample log. A block with a name after its language (```sh epilog) is
//! a file of that name there. What needs Python runs where its modules are. `BLESS=1` writes what they print now, and the
//! columns of the call table and the trainers where a page marks the place (`<!-- columns: ... -->`,
//! `<!-- trainers -->`).

use crate::support::{ALL, Work, files, root, run, sh, skipped};
use nccl_pipe::grammar::trainer::Trainer;
use nccl_pipe::output::table::{COLUMNS, MEANINGS};
use regex::Regex;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The README and all pages of docs/.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages.insert(0, root().join("README.md"));
    pages
}

/// A command of a page as the test runs it: what cargo would build is built already. `None` for
/// the tests themselves.
fn runnable(command: &str, dir: &Path) -> Option<String> {
    let script = command.strip_prefix("python3 ");
    let script = script.and_then(|rest| rest.split(' ').next());
    if command.starts_with("cargo test") || script.is_some_and(|name| !has_modules(&dir.join(name)))
    {
        return None;
    }
    let cargo = command.strip_prefix("cargo run --bin ");
    Some(cargo.map_or(command.to_owned(), |rest| rest.replacen(" -- ", " ", 1)))
}

/// Whether the modules are there that a script imports; Spark also needs Java.
fn has_modules(script: &Path) -> bool {
    let text = std::fs::read_to_string(script).unwrap();
    let words = text
        .lines()
        .map(|line| line.split(['.', ' ']).collect::<Vec<_>>());
    let module = |words: Vec<&str>| match words[..] {
        ["import" | "from", module, ..] => Some(module.to_owned()),
        _ => None,
    };
    let modules: Vec<String> = words.filter_map(module).collect();
    let names = modules.join(", ");
    let java = if modules.contains(&"pyspark".to_owned()) {
        "java -version && "
    } else {
        ""
    };
    let found = sh(root(), &format!("{java}python3 -c 'import {names}'")).code == Some(0);
    if !found {
        skipped(&format!("no python3 with {names}"));
    }
    found
}

/// True where `shown` is the lines of `out` and of `err`, each in their order, however mixed: of
/// two programs of a pipe either may write first.
fn is_mix(shown: &[&str], out: &[&str], err: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return out.is_empty() && err.is_empty();
    };
    let of_out = out.split_first().filter(|(line, _)| *line == first);
    let of_err = err.split_first().filter(|(line, _)| *line == first);
    of_out.is_some_and(|(_, out)| is_mix(rest, out, err))
        || of_err.is_some_and(|(_, err)| is_mix(rest, out, err))
}

/// Where what [`columns`] writes ends.
const END: &str = "<!-- end of columns -->";

/// The columns of the call table as they are declared: what each is, or only their names.
fn columns(what: &str) -> String {
    let mut text = String::new();
    if what == "table -->" {
        text += "| column | meaning |\n|---|---|\n";
        for (name, meaning) in COLUMNS.iter().zip(MEANINGS) {
            writeln!(text, "| `{name}` | {} |", meaning.replace('<', "\\<")).unwrap();
        }
    } else {
        text += "\n";
        let mut width = 0;
        for name in COLUMNS {
            let end = if name == COLUMNS[COLUMNS.len() - 1] {
                "."
            } else {
                ","
            };
            let word = format!("`{name}`{end}");
            let before = match width {
                0 => "",
                _ if width + word.len() >= 120 => "\n",
                _ => " ",
            };
            width = if before == " " { width + 1 } else { 0 } + word.len();
            text += &(before.to_owned() + &word);
        }
        text += "\n\n";
    }
    text
}

/// Where what [`trainers`] writes ends.
const TRAINERS_END: &str = "<!-- end of trainers -->";

/// The trainers with known step lines, as they are declared.
fn trainers() -> String {
    let mut text = "\n".to_owned();
    for trainer in Trainer::all() {
        let (name, what) = (trainer.name(), trainer.line_description());
        writeln!(text, "- `{name}`: {what}").unwrap();
    }
    text + "\n"
}

/// The page with what its commands print now, and the columns and trainers as they are declared now.
fn rerun(page: &str) -> String {
    let work = Work::new();
    let testdata = root().join("testdata");
    std::os::unix::fs::symlink(&testdata, work.dir().join("testdata")).unwrap();
    let sample = testdata.join("captured/megatron/nccl.log");
    std::fs::copy(sample, work.dir().join("nccl.log")).unwrap();
    let mut new = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(new, "{line}").unwrap();
        if let Some(what) = line.strip_prefix("<!-- columns: ") {
            while lines.next_if(|line| *line != END).is_some() {}
            new += &columns(what);
        }
        if line == "<!-- trainers -->" {
            while lines.next_if(|line| *line != TRAINERS_END).is_some() {}
            new += &trainers();
        }
        let file = line.strip_prefix("```").and_then(|of| of.split_once(' '));
        if let Some((_, name)) = file {
            let mut text = String::new();
            while let Some(line) = lines.next_if(|line| *line != "```") {
                writeln!(text, "{line}").unwrap();
            }
            new += &text;
            std::fs::write(work.dir().join(name), text).unwrap();
        }
        if line != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != "```") {
            let command = line
                .strip_prefix("$ ")
                .expect("a block begins with a command");
            let mut shown = Vec::new();
            while let Some(line) = lines.next_if(|l| *l != "```" && !l.starts_with("$ ")) {
                shown.push(line);
            }
            writeln!(new, "$ {command}").unwrap();
            let Some(script) = runnable(command, work.dir()) else {
                // It stays as it is.
                for line in shown {
                    writeln!(new, "{line}").unwrap();
                }
                continue;
            };
            let got = sh(work.dir(), &script);
            let text = got.text();
            let out: Vec<&str> = text.lines().collect();
            let err: Vec<&str> = got.stderr.lines().collect();
            if !is_mix(&shown, &out, &err) {
                // The notes of a program come after its table.
                shown = out.into_iter().chain(err).collect();
            }
            for line in shown {
                writeln!(new, "{line}").unwrap();
            }
        }
    }
    new
}

fn check(path: &Path) -> Result<(), String> {
    let page = std::fs::read_to_string(path).unwrap();
    let new = rerun(&page);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, new).unwrap();
        return Ok(());
    }
    let differs = |(_, (a, b)): &(usize, (&str, &str))| a != b;
    let mut lines = (1..).zip(page.lines().zip(new.lines()));
    match lines.find(differs) {
        None if page == new => Ok(()),
        None => Err(format!("{}: one is longer", path.display())),
        Some((number, (page, now))) => Err(format!(
            "{}:{number}: (BLESS=1 writes what is printed now)\n  page {page}\n  now  {now}",
            path.display()
        )),
    }
}

#[test]
fn every_command_of_every_page_prints_what_the_page_shows() {
    let pages = pages();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let checks: Vec<_> = pages
            .iter()
            .map(|p| scope.spawn(move || check(p)))
            .collect();
        let results = checks.into_iter().map(|check| check.join().unwrap());
        results.filter_map(Result::err).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_is_short_and_its_links_lead_somewhere() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(
        readme.len() <= 12_288,
        "README.md has {} bytes",
        readme.len()
    );
    let links = Regex::new(r"\]\(([^)#:]*)#?([^):]*)\)").unwrap();
    let paths = Regex::new("`((?:src|tests|testdata|benches|docs)/[a-z_0-9./-]+)`").unwrap();
    for path in [pages(), vec![root().join("testdata/README.md")]].concat() {
        let page = std::fs::read_to_string(&path).unwrap();
        for link in links.captures_iter(&page) {
            let [file, section] = [1, 2].map(|group| link[group].to_owned());
            let target = match &file[..] {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let there = std::fs::read_to_string(&target).unwrap_or_default();
            let found = section.is_empty() || sections(&there).contains(&section);
            assert!(target.exists() && found, "{}: {}", path.display(), &link[0]);
        }
        for named in paths.captures_iter(&page) {
            let exists = root().join(&named[1]).exists();
            assert!(exists, "{}: {}", path.display(), &named[0]);
        }
    }
}

/// The names by which links reach the sections of a page.
fn sections(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let name = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        words
            .replace(|c: char| !c.is_alphanumeric() && !" -_".contains(c), "")
            .replace(' ', "-")
    };
    headings.map(name).collect()
}

/// Phrases that readers stumbled over. What replaces them: report (not say, tell of), after (not
/// behind, of time), be or appear (not stand), NIC (not card), compare (not hold against), rejoin
/// (not put together), median (not the middle one), must not (not may not).
const HARD: [&str; 97] = [
    "a row a ",
    "anew",
    "are no ",
    "are said",
    "as it was set",
    "be told",
    "begins anew",
    "both ends in:",
    "both in it",
    "call of nccl's",
    "cannot tell",
    "cards",
    "cost once what",
    "did instead:",
    "do instead what",
    "facts behind",
    "far behind each",
    "found out",
    "front of it",
    "given up without",
    "goes without",
    "held against",
    "how sure",
    "in step with",
    "in vain",
    "is no ",
    "is nothing",
    "is said",
    "is told",
    "it says",
    "its card",
    "its digits need",
    "known to v/n",
    "loaded anew",
    "log says",
    "longer the end of",
    "many by which.",
    "may not be",
    "may not have",
    "may not reach",
    "middle one",
    "nccl says",
    "network card",
    "no line says",
    "no such line of",
    "none is taken",
    "not told",
    "nothing need",
    "of ranks 0",
    "of two moments",
    "on and on on",
    "one behind the other",
    "one row a ",
    "passed over",
    "put together",
    "pytorch says",
    "raised too",
    "rid of",
    "right behind",
    "right side of",
    "said to",
    "say it",
    "say of",
    "say so",
    "says nothing",
    "says so",
    "so long silent",
    "stand behind",
    "stand for",
    "stand in",
    "stand together",
    "standing in",
    "stands",
    "tell of",
    "telling of",
    "tells of",
    "tells which",
    "told apart",
    "turns off",
    "unlike others",
    "warned of",
    "what bytes mean",
    "what could not be",
    "what is true of",
    "what it contains",
    "what it is for (",
    "what it writes",
    "what must hold",
    "what the input has",
    "what the log lacks",
    "where ranks part",
    "whichever rank",
    "who is behind",
    "who is in them",
    "who reaches",
    "whose line came",
    "without a word",
];

/// The hard phrases of a text, wherever its lines break.
fn hard(name: &str, text: &str) -> Vec<String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut text = format!(" {} ", words.join(" "));
    for plain in ["there is no ", "there are no "] {
        text = text.replace(plain, "");
    }
    let found = HARD
        .iter()
        .filter(|phrase| text.contains(&format!(" {phrase}")));
    found.map(|phrase| format!("{name}: {phrase}")).collect()
}

/// The texts in a source file, without its comments and its tests.
fn literals(source: &str) -> String {
    let source = source
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let token = r##"(?s)//[^\n]*|r"([^"]*)"|r#"(.*?)"#|"((?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\[^']*)'"##;
    let broken = Regex::new(r"\\\n\s*").unwrap();
    let mut all = String::new();
    for text in Regex::new(token).unwrap().captures_iter(source) {
        let text = [1, 2, 3].iter().find_map(|&group| text.get(group));
        let text = text.map_or("", |text| text.as_str());
        writeln!(all, "{}.", broken.replace_all(text, "")).unwrap();
    }
    all
}

#[test]
fn no_program_and_no_page_uses_a_hard_phrase() {
    let (mut found, mut words) = (Vec::new(), 0);
    for program in ALL {
        let help = run(program, &["--help"]).ends(0).text();
        found.extend(hard(&format!("{program} --help"), &help));
    }
    let testdata = root().join("testdata");
    let texts = [
        pages(),
        files(&testdata.join("expect")),
        vec![testdata.join("README.md"), root().join("CHANGELOG.md")],
    ];
    for path in texts.concat() {
        let text = std::fs::read(&path).unwrap();
        found.extend(hard(
            &path.display().to_string(),
            &String::from_utf8_lossy(&text),
        ));
    }
    // Not src/synth and src/grammar: theirs are the words of NCCL, of trainers and of launchers.
    let sources = ["src", "src/engine"].map(|folder| files(&root().join(folder)));
    for path in sources.concat() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name.ends_with("tests.rs") {
            continue;
        }
        let texts = literals(&std::fs::read_to_string(&path).unwrap());
        words += texts.split_whitespace().count();
        found.extend(hard(&name, &texts));
    }
    // All findings, notes and errors: a walk that loses a folder must not pass.
    assert!(words > 10_000, "only {words} words in the texts of src");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_map_names_what_is_there() {
    let map = std::fs::read_to_string(root().join("docs/internals.md")).unwrap();
    let path = Regex::new(r"`((?:src|tests|docs|testdata|benches)/[\w./-]*)`").unwrap();
    let named: Vec<String> = path
        .captures_iter(&map)
        .map(|found| found[1].to_owned())
        .collect();
    assert!(named.len() > 40, "only {} paths in the map", named.len());
    let gone: Vec<&String> = named
        .iter()
        .filter(|path| !root().join(path).exists())
        .collect();
    assert!(
        gone.is_empty(),
        "docs/internals.md names what is not there: {gone:?}"
    );
}
