//! Finds the lines of evidence again, by number or by byte.

use super::finding::{Evidence, Finding, LineSpot};
use crate::error::{Error, Result};
use crate::grammar::message::setup::setting;
use crate::source::Input;
use crate::stages::check::limits::{EVIDENCE_READ_BYTES, MAX_EVIDENCE_LINE_BYTES};
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memchr;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Gives every piece of evidence its line's number and text.
///
/// # Errors
/// An input cannot be read again.
pub(crate) fn resolve_evidence(
    findings: &mut [Finding],
    open: impl Fn(u32) -> Result<Input>,
) -> Result<()> {
    let mut wanted: BTreeMap<u32, BTreeSet<LineSpot>> = BTreeMap::new();
    for evidence in findings.iter().flat_map(|f| &f.evidence) {
        let numbered = matches!(evidence.at, LineSpot::Line(_));
        if !numbered || evidence.text.is_none() {
            wanted
                .entry(evidence.at.input())
                .or_default()
                .insert(evidence.at);
        }
    }
    let mut lines: BTreeMap<LineSpot, (u64, Vec<u8>)> = BTreeMap::new();
    for (number, spots) in wanted {
        let input = open(number)?;
        let failed = |cause| Error::Input {
            path: input.name().into(),
            cause,
        };
        let found = find_lines(&mut *input.open_reader()?, &spots).map_err(failed)?;
        lines.extend(found);
    }
    for finding in findings {
        for Evidence { at, text } in &mut finding.evidence {
            if let Some(&(line, ref found)) = lines.get(at) {
                let input = at.input();
                *at = FirstReportLine { input, line }.into();
                text.get_or_insert_with(|| found.clone());
            }
            if let Some(masked) = text.as_deref().and_then(setting::mask_secret) {
                *text = Some(masked);
            }
        }
    }
    Ok(())
}

/// A line that was looked for: its number and text.
type EvidenceLine = (LineSpot, (u64, Vec<u8>));

/// The lines at `spots`, which are all of one input, with their numbers.
fn find_lines(
    reader: &mut dyn Read,
    spots: &BTreeSet<LineSpot>,
) -> std::io::Result<Vec<EvidenceLine>> {
    // Which comes first is known only where both are numbers of one kind.
    let mut by_line: BTreeMap<u64, LineSpot> = BTreeMap::new();
    let mut by_byte: BTreeMap<u64, LineSpot> = BTreeMap::new();
    for &spot in spots {
        match spot {
            LineSpot::Line(first) => by_line.insert(first.line, spot),
            LineSpot::Byte { at, .. } => by_byte.insert(at, spot),
        };
    }
    let mut found = Vec::with_capacity(spots.len());
    let mut piece = vec![0; EVIDENCE_READ_BYTES];
    // The line in hand: its number, its first byte's place in the input, its first bytes.
    let (mut number, mut begins, mut text) = (0_u64, 0_u64, Vec::<u8>::new());
    let mut at = 0_u64;
    let mut end_line = |number: u64, begins: u64, ends: u64, text: &mut Vec<u8>| {
        let mut keep = |spot: LineSpot| found.push((spot, (number, text.clone())));
        if let Some(spot) = by_line.remove(&number) {
            keep(spot);
        }
        while let Some((&byte, &spot)) = by_byte.range(begins..ends).next() {
            by_byte.remove(&byte);
            keep(spot);
        }
        text.clear();
        by_line.is_empty() && by_byte.is_empty()
    };
    loop {
        let n = match reader.read(&mut piece) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if n == 0 {
            if at > begins {
                end_line(number, begins, at, &mut text);
            }
            return Ok(found);
        }
        let mut rest = &piece[..n];
        // Lines before the next wanted one are only counted.
        while let Some(end) = memchr(b'\n', rest) {
            let room = MAX_EVIDENCE_LINE_BYTES.saturating_sub(text.len()).min(end);
            text.extend_from_slice(&rest[..room]);
            at += end as u64 + 1;
            if end_line(number, begins, at, &mut text) {
                return Ok(found);
            }
            (number, begins) = (number + 1, at);
            rest = &rest[end + 1..];
        }
        let room = MAX_EVIDENCE_LINE_BYTES
            .saturating_sub(text.len())
            .min(rest.len());
        text.extend_from_slice(&rest[..room]);
        at += rest.len() as u64;
    }
}
