//! What a reader finds by hand in the real logs, the programs say: `testdata/facts.txt`.

use crate::support::{Csv, arg, data, run};
use std::collections::{BTreeMap, HashMap};

const FACTS: &str = include_str!("../../../testdata/facts.txt");

/// A fact, with the number of its line in the table.
struct Fact<'t> {
    number: usize,
    log: &'t str,
    proofs: Vec<Proof<'t>>,
    program: &'t str,
    args: Vec<&'t str>,
    wanted: Vec<(&'t str, &'t str)>,
}

/// What shows that a fact is one.
enum Proof<'t> {
    /// A line, from 1, has these words.
    At(usize, &'t str),
    /// So many lines have them.
    Count(usize, &'t str),
}

fn facts() -> Vec<Fact<'static>> {
    let mut log = "";
    let mut facts = Vec::new();
    for (at, line) in FACTS.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            log = name;
            continue;
        }
        let (proofs, says) = line.split_once(" => ").unwrap();
        let (command, wanted) = says.split_once(": ").unwrap();
        let mut command = command.split(' ');
        facts.push(Fact {
            number: at + 1,
            log,
            proofs: proofs.split(" & ").map(proof).collect(),
            program: command.next().unwrap(),
            args: command.collect(),
            wanted: pairs(wanted),
        });
    }
    facts
}

fn proof(text: &str) -> Proof<'_> {
    let (number, words) = text.split_once(' ').unwrap();
    match number.strip_prefix('*') {
        Some(count) => Proof::Count(count.parse().unwrap(), words),
        None => Proof::At(number.parse().unwrap(), words),
    }
}

/// `column=value; column=value`; a value may hold `; ` where no column follows.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((column, after)) = rest.split_once('=') {
        let is_column = |c: &str| {
            let name = c.split('=').next().unwrap_or("");
            c.contains('=')
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b"_.".contains(&b))
        };
        let end = after
            .match_indices("; ")
            .find(|(at, _)| is_column(&after[at + 2..]));
        let (value, next) = match end {
            Some((at, _)) => (&after[..at], &after[at + 2..]),
            None => (after, ""),
        };
        pairs.push((column, value));
        rest = next;
    }
    pairs
}

impl Fact<'_> {
    /// What of the proofs does not hold in the log.
    fn unproven(&self, lines: &[String]) -> Option<String> {
        self.proofs.iter().find_map(|proof| match *proof {
            Proof::At(line, words) => {
                let is = lines.get(line.wrapping_sub(1)).map_or("", |l| l);
                (!is.contains(words)).then(|| format!("line {line} has no `{words}`: {is}"))
            }
            Proof::Count(count, words) => {
                let is = lines.iter().filter(|l| l.contains(words)).count();
                (is != count).then(|| format!("{is} lines have `{words}`, not {count}"))
            }
        })
    }

    /// What the program's table lacks of it.
    fn unsaid(&self, table: &Csv) -> Option<String> {
        let is_cell = |column: &str| column != "rows" && !column.starts_with("sum.");
        let cells = || self.wanted.iter().filter(|(column, _)| is_cell(column));
        let rows: Vec<&Vec<String>> = table
            .rows
            .iter()
            .filter(|row| cells().all(|(column, value)| table.get(row, column) == *value))
            .collect();
        let mut counted = false;
        for (column, value) in self.wanted.iter().filter(|(column, _)| !is_cell(column)) {
            counted = true;
            let is = match column.strip_prefix("sum.") {
                Some(column) => rows
                    .iter()
                    .map(|row| table.get(row, column).parse::<usize>().unwrap())
                    .sum(),
                None => rows.len(),
            };
            if is.to_string() != *value {
                return Some(format!("{column} is {is}, not {value}"));
            }
        }
        (rows.is_empty() && !counted).then(|| "no such row".to_owned())
    }
}

#[test]
fn the_programs_say_what_a_reader_finds_by_hand() {
    let mut texts: HashMap<&str, Vec<String>> = HashMap::new();
    let mut tables: HashMap<(&str, &str, Vec<&str>), Csv> = HashMap::new();
    let mut wrong = Vec::new();
    for fact in facts() {
        let Some(path) = data(&format!("nccl-logs/{}", fact.log)) else {
            return;
        };
        let lines = texts.entry(fact.log).or_insert_with(|| {
            let bytes = std::fs::read(&path).unwrap();
            let lines = bytes.split(|&b| b == b'\n');
            lines
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect()
        });
        let key = (fact.log, fact.program, fact.args.clone());
        let table = tables.entry(key).or_insert_with(|| {
            let args = [&[arg(&path)], &fact.args[..]].concat();
            Csv::of(&run(fact.program, &args).calm())
        });
        if let Some(why) = fact.unproven(lines).or_else(|| fact.unsaid(table)) {
            let (number, log) = (fact.number, fact.log);
            let wanted = &fact.wanted;
            wrong.push(format!("facts.txt:{number}: {log}: {why}: {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_real_log_has_its_facts() {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for fact in facts() {
        *count.entry(fact.log).or_default() += 1;
    }
    let few: Vec<_> = count
        .iter()
        .filter(|(log, n)| !log.contains('/') && **n < 12)
        .collect();
    assert!(few.is_empty(), "{few:?}");
    let Some(folder) = data("nccl-logs") else {
        return;
    };
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !name.ends_with(".log") || count.contains_key(&name[..]),
            "{name} has no facts"
        );
    }
}
