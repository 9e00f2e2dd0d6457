//! Finds the message that a text of the kernel is, by the table `messages.txt`, which describes its rows.

use super::process::{PciAddress, find_pci_address, find_process};
use super::report::{MachineClass, MachineReport};
use super::xid::{parse_fabric_report, parse_switch_xid, parse_xid};
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::sync::LazyLock;

/// A message that explains a failure, or that a person asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMessage<'a> {
    /// What it reports.
    pub report: MachineReport,
    /// The device.
    pub device: Option<PciAddress>,
    /// The process.
    pub pid: Option<u64>,
    /// The name of its program.
    pub process: Option<&'a [u8]>,
}

/// A row of the table.
struct MessageRow {
    texts: Vec<&'static str>,
    report: MachineReport,
}

const MESSAGES_TEXT: &str = include_str!("messages.txt");

static ROWS: LazyLock<Vec<MessageRow>> =
    LazyLock::new(|| message_rows().filter_map(parse_row).collect());

fn message_rows() -> impl Iterator<Item = &'static str> {
    MESSAGES_TEXT.trim_end().split("\n\n").skip(1)
}

fn parse_row(row: &'static str) -> Option<MessageRow> {
    let mut lines = row.lines();
    let (class, action) = lines.next()?.split_once(' ')?;
    let (mut texts, mut means) = (Vec::new(), None);
    for line in lines {
        match line.split_once(' ')? {
            ("text", text) => texts.push(text),
            ("means", text) => means = Some(text),
            ("like", _) => {}
            _ => return None,
        }
    }
    Some(MessageRow {
        texts,
        report: MachineReport {
            class: MachineClass::parse_word(class)?,
            action,
            number: None,
            means: means?,
        },
    })
}

/// Finds the first part of each text of the table, and those of the numbers, in one pass.
struct MessageFinder {
    parts: AhoCorasick,
    /// By part: the row, and its text.
    texts: Vec<(usize, &'static str)>,
}

static FINDER: LazyLock<Option<MessageFinder>> = LazyLock::new(|| {
    let rows = ROWS.iter().enumerate();
    let texts: Vec<(usize, &str)> = rows
        .flat_map(|(at, row)| row.texts.iter().map(move |text| (at, *text)))
        .collect();
    let first = |text: &'static str| text.split('*').next().unwrap_or(text);
    let parts = texts.iter().map(|(_, text)| first(text));
    let parts = AhoCorasick::new([XID, SWITCH_XID, FABRIC].into_iter().chain(parts));
    parts.ok().map(|parts| MessageFinder { parts, texts })
});

const XID: &str = "NVRM: Xid";
const SWITCH_XID: &str = ": SXid";
const FABRIC: &str = "detected NVSwitch ";

/// Finds the message in a text of the kernel, without its stamp.
pub fn find_machine_message(text: &[u8]) -> Option<MachineMessage<'_>> {
    let finder = FINDER.as_ref()?;
    let mut found: Option<usize> = None;
    for hit in finder.parts.find_overlapping_iter(text) {
        let rest = &text[hit.end()..];
        let number = match hit.pattern().as_usize() {
            0 => parse_xid(rest).map(|(_, report)| report),
            1 => parse_switch_xid(rest),
            2 => parse_fabric_report(rest),
            part => {
                let (row, pattern) = finder.texts[part - 3];
                let is_first = found.is_none_or(|known| row < known);
                if is_first && contains_parts(rest, pattern) {
                    found = Some(row);
                }
                None
            }
        };
        if let Some(report) = number {
            return Some(complete_message(text, report));
        }
    }
    found.map(|row| complete_message(text, ROWS[row].report))
}

/// True if the parts of a pattern after its first are in a text, in their order.
fn contains_parts(mut text: &[u8], pattern: &str) -> bool {
    pattern.split('*').skip(1).all(|part| {
        let at = memmem::find(text, part.as_bytes());
        text = at.map_or(&[], |at| &text[at + part.len()..]);
        at.is_some()
    })
}

fn complete_message(text: &[u8], report: MachineReport) -> MachineMessage<'_> {
    let process = find_process(text);
    MachineMessage {
        report,
        device: find_pci_address(text),
        pid: process.pid,
        process: process.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(row: &'static str) -> impl Iterator<Item = &'static str> {
        row.lines().filter_map(|line| line.strip_prefix("like "))
    }

    #[test]
    fn every_sample_is_found_by_its_row() {
        assert_eq!(ROWS.len(), message_rows().count());
        for (row, text) in ROWS.iter().zip(message_rows()) {
            assert!(samples(text).count() > 0, "{text}");
            for sample in samples(text) {
                let found = find_machine_message(sample.as_bytes());
                let report = found.map(|found| found.report);
                assert_eq!(report, Some(row.report), "{sample}");
                let named = found.unwrap();
                let is_about_process = matches!(
                    row.report.class,
                    MachineClass::Oom | MachineClass::Crash | MachineClass::Hung
                );
                if is_about_process {
                    assert_eq!(
                        (named.pid, named.process),
                        (Some(81), Some(&b"python"[..])),
                        "{sample}"
                    );
                }
            }
            for text in &row.texts {
                let text = text.replace('*', " x ");
                let found = find_machine_message(text.as_bytes());
                assert!(
                    found
                        .is_some_and(|found| ROWS[..].iter().any(|row| row.report == found.report)),
                    "{text}"
                );
            }
        }
        let switch =
            b"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28 LTSSM Fault Up";
        let found = find_machine_message(switch).unwrap();
        assert_eq!(found.report.class, MachineClass::Switch);
        assert_eq!(found.device, Some(PciAddress(0xc1000)));
        let minor =
            b"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress error";
        assert_eq!(
            find_machine_message(minor).unwrap().report.class,
            MachineClass::Harmless
        );
        for (fabric, class) in [
            ("non-fatal error 12028", MachineClass::Harmless),
            ("fatal error 20034", MachineClass::Switch),
        ] {
            let text = format!(
                "[ERROR] [tid 81] detected NVSwitch {fabric} on fid 0 on NVSwitch pci bus id 00000000:c1:00.0 physical id 3 port 61"
            );
            let found = find_machine_message(text.as_bytes()).unwrap();
            assert_eq!(
                (found.report.class, found.device),
                (class, Some(PciAddress(0xc1000)))
            );
        }
        for none in [
            "",
            "NVRM: loading",
            "mlx5_core 0000:3b:00.0: firmware version: 28.39",
            "EXT4-fs (sda1): mounted",
        ] {
            assert_eq!(find_machine_message(none.as_bytes()), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(row in 0usize..64, at in 0usize..200, bytes in proptest::collection::vec(any::<u8>(), 0..9)) {
            let all: Vec<&str> = message_rows().flat_map(samples).collect();
            let mut text = all[row % all.len()].as_bytes().to_vec();
            let at = at % text.len();
            let to = text.len().min(at + bytes.len() / 2);
            text.splice(at..to, bytes);
            let _ = find_machine_message(&text);
            let _ = crate::machine::parse_kernel_line(&text);
            let _ = crate::machine::find_wall_time(&text);
        }
    }
}
