//! The program's source with the accesses of each line, in the form of gcov.

use super::runs::SnoopieRuns;
use super::views::source_place;
use crate::error::{Error, Result};
use crate::report::{Report, escape_for_terminal};
use crate::stages::matrix::limits::MAX_SOURCE_BYTES;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes each file with lines that access memory, if it is found below `folder`.
///
/// # Errors
/// The output cannot be written.
pub fn write_annotated_sources(
    runs: &SnoopieRuns,
    folder: &Path,
    report: &Report,
    out: &mut dyn Write,
) -> Result<()> {
    let mut files: BTreeMap<Box<[u8]>, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut unknown = 0_u64;
    for run in runs.by.values() {
        for (key, cell) in run.fold.iter_cells() {
            let (file, line, _) = source_place(&run.tables, key);
            let n = runs.scale_sampled(cell.accesses, key.kind);
            match line {
                Some(line) if !file.is_empty() => {
                    let of = files.entry(file).or_default().entry(line).or_default();
                    *of = of.saturating_add(n);
                }
                _ => unknown = unknown.saturating_add(n),
            }
        }
    }
    if unknown > 0 {
        report.note(&format!("{unknown} accesses have no line of a known file"));
    }
    for (name, lines) in files {
        write_annotated_file(&name, &lines, folder, report, out).map_err(Error::Output)?;
    }
    Ok(())
}

fn write_annotated_file(
    name: &[u8],
    lines: &BTreeMap<u64, u64>,
    folder: &Path,
    report: &Report,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let shown = String::from_utf8_lossy(name);
    let all = lines.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
    let Some(text) = find_source_text(&shown, folder) else {
        report.warn(&format!(
            "{} is not below {}: the table of lines (--by line) needs no source",
            escape_for_terminal(&shown, false),
            folder.display()
        ));
        return Ok(());
    };
    writeln!(
        out,
        "{:>14} {:>7}  {}",
        "accesses",
        "share",
        escape_for_terminal(&shown, false)
    )?;
    let mut last = 0;
    for (number, line) in (1_u64..).zip(text.lines()) {
        last = number;
        let n = lines.get(&number).copied();
        let counted = n.map_or("-".to_owned(), |n| n.to_string());
        let share = n.map_or(String::new(), |n| {
            format!("{:.2} %", n as f64 / all.max(1) as f64 * 100.0)
        });
        writeln!(
            out,
            "{counted:>14} {share:>7}  {number:>5}: {}",
            escape_for_terminal(&line.replace('\t', "    "), false)
        )?;
    }
    if let Some((line, _)) = lines.range(last + 1..).next() {
        report.warn(&format!(
            "{}: the file has {last} lines and line {line} makes accesses: it is not the one that was compiled",
            escape_for_terminal(&shown, false)
        ));
    }
    writeln!(out)
}

/// Returns the text of a file: below the folder by the compiler's path, or by its name alone.
fn find_source_text(name: &str, folder: &Path) -> Option<String> {
    let parts = Path::new(name).components().filter_map(|part| match part {
        std::path::Component::Normal(part) => Some(part),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    let mut tries = (0..parts.len()).map(|from| parts[from..].iter().collect::<PathBuf>());
    let path = tries.find_map(|path| {
        let path = folder.join(path);
        let is_file = path
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_SOURCE_BYTES);
        is_file.then_some(path)
    })?;
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
