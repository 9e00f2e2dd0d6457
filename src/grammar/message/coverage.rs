//! How much of real logs is understood. Those of others are not part of the package: without them
//! their tests report it and pass.

use super::{MessageFamily, NcclMessage, parse_message};
use crate::header::{self, HeaderLevel};
use memchr::memmem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was understood, weighted.
#[derive(Default)]
struct Coverage {
    /// Lines with values that are read, and lines that are known by their family only.
    by_family: BTreeMap<MessageFamily, (u64, u64)>,
    /// Lines with a second header: the rest of the first is damaged.
    glued: u64,
    missed: BTreeMap<String, u64>,
}

impl Coverage {
    /// Counts the first message of a line, if it has one that is no call's.
    fn add(&mut self, line: &[u8], weight: u64) {
        let Some(header) = header::find_header(line, 0) else {
            return;
        };
        let next = header::find_header(line, header.body);
        let body = &line[header.body..next.map_or(line.len(), |next| next.start)];
        if memmem::find(body, b": opCount ").is_some() {
            return;
        }
        if next.is_some() {
            self.glued += weight;
            return;
        }
        match parse_message(header.level, body) {
            Some(message) => {
                let (read, known) = self.by_family.entry(message.family()).or_default();
                match message {
                    NcclMessage::Plain(..) => *known += weight,
                    _ => *read += weight,
                }
            }
            None => {
                let text: String = String::from_utf8_lossy(body).chars().take(110).collect();
                let text: String = text
                    .chars()
                    .map(|c| if c.is_ascii_digit() { 'N' } else { c })
                    .collect();
                let level = if header.level == HeaderLevel::Info {
                    ""
                } else {
                    "(not INFO) "
                };
                *self.missed.entry(format!("{level}{text}")).or_default() += weight;
            }
        }
    }

    /// Prints the table, and gives the shares that were understood and read.
    fn shares(&self, of: &str) -> (f64, f64) {
        let (read, known) = self
            .by_family
            .values()
            .fold((0, 0), |(read, known), (r, k)| (read + r, known + k));
        let missed: u64 = self.missed.values().sum();
        let all = read + known + missed;
        let share = |n: u64| n as f64 / all.max(1) as f64;
        println!("{of}: of {all} messages {read} are read, {known} known by their beginning,");
        println!("  {missed} missed; {} glued lines are left out", self.glued);
        for (family, (read, known)) in &self.by_family {
            println!("  {family:<10?} {read:>8} read {known:>8} known");
        }
        let mut missed: Vec<_> = self.missed.iter().collect();
        missed.sort_by_key(|(text, n)| (std::cmp::Reverse(**n), text.as_str()));
        for (text, n) in missed.iter().take(20) {
            println!("  missed {n:>6} {text}");
        }
        (share(read + known), share(read))
    }
}

fn logs() -> Option<PathBuf> {
    crate::shared::data("nccl-logs")
}

/// Returns a log's bytes, unpacked.
fn read_log(path: &Path) -> Vec<u8> {
    let raw = std::fs::read(path).unwrap();
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return raw;
    }
    let mut log = Vec::new();
    let mut reader = flate2::read::MultiGzDecoder::new(&raw[..]);
    std::io::Read::read_to_end(&mut reader, &mut log).unwrap();
    log
}

/// Appends the logs of a folder and of the folders in it.
fn list_logs(folder: &Path, logs: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path.is_dir() {
            list_logs(&path, logs);
        } else if name.ends_with(".log") || name.ends_with(".log.gz") {
            logs.push(path);
        }
    }
}

#[test]
fn of_real_templates_99_in_100_are_understood() {
    let Some(table) = logs().and_then(|logs| std::fs::read(logs.join("templates.tsv")).ok()) else {
        return;
    };
    let mut coverage = Coverage::default();
    for row in table.split(|&b| b == b'\n') {
        // count, files, template, example
        let mut cells = row.splitn(4, |&b| b == b'\t');
        let count = cells
            .next()
            .and_then(|c| std::str::from_utf8(c).ok()?.parse().ok());
        if let (Some(count), Some(example)) = (count, cells.nth(2)) {
            coverage.add(example, count);
        }
    }
    let (understood, read) = coverage.shares("templates");
    assert!(understood >= 0.99 && read >= 0.8, "{understood} {read}");
}

#[test]
fn of_real_logs_99_in_100_lines_are_understood() {
    let Some(logs) = logs() else { return };
    let mut paths = Vec::new();
    list_logs(&logs, &mut paths);
    if let Some(recorded) = crate::shared::data("gpu") {
        list_logs(&recorded, &mut paths);
    }
    paths.sort();
    let mut all = Coverage::default();
    for path in &paths {
        for line in read_log(path).split(|&b| b == b'\n') {
            all.add(line.strip_suffix(b"\r").unwrap_or(line), 1);
        }
    }
    let (understood, read) = all.shares("logs");
    assert!(understood >= 0.99 && read >= 0.5, "{understood} {read}");
}

#[test]
fn of_captured_logs_99_in_100_lines_are_understood() {
    let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captured");
    let mut all = Coverage::default();
    for name in ["3d", "ddp-all", "ddp-sockets", "torchtitan", "tp-torn"] {
        for line in read_log(&captured.join(name).join("nccl.log.gz")).split(|&b| b == b'\n') {
            all.add(line, 1);
        }
    }
    let (understood, read) = all.shares("captured");
    assert!(understood >= 0.99 && read >= 0.5, "{understood} {read}");
}
