//! The numbers of NVIDIA's driver for errors of a GPU (Xid), by the table `xids.txt`, which describes its rows; and
//! those of NVSwitch (SXid).

use super::report::{MachineClass, MachineReport, ReportNumber};
use crate::token::dec_u32;
use memchr::memmem;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const XIDS_TEXT: &str = include_str!("xids.txt");

/// The class, action and meaning of each number.
static XIDS: LazyLock<BTreeMap<u32, MachineReport>> =
    LazyLock::new(|| xid_rows().filter_map(parse_row).flatten().collect());

fn xid_rows() -> impl Iterator<Item = &'static str> {
    let table = XIDS_TEXT.split_once("\n\n").map_or("", |(_, table)| table);
    table.lines()
}

/// Parses `96-98,142 engine restart a video engine ..`.
fn parse_row(row: &'static str) -> Option<Vec<(u32, MachineReport)>> {
    let mut parts = row.splitn(4, ' ');
    let (numbers, class) = (parts.next()?, MachineClass::parse_word(parts.next()?)?);
    let (action, means) = (parts.next()?, parts.next()?);
    let mut all = Vec::new();
    for run in numbers.split(',') {
        let (from, to) = run.split_once('-').unwrap_or((run, run));
        for number in from.parse().ok()?..=to.parse().ok()? {
            let number_of = ReportNumber::Xid(number);
            all.push((
                number,
                MachineReport {
                    class,
                    action,
                    means,
                    number: Some(number_of),
                },
            ));
        }
    }
    Some(all)
}

/// Reads ` (PCI:0000:dc:00): 79, pid=81, ..`, the text after `NVRM: Xid`; `45, Ch 1 caused by previous Xid 149` is about the
/// previous one. Returns the address as printed too.
pub(crate) fn parse_xid(text: &[u8]) -> Option<(&[u8], MachineReport)> {
    let rest = text.strip_prefix(b" (")?;
    let end = memmem::find(rest, b"): ")?;
    let previous = memmem::find(rest, b"previous Xid ").map(|at| at + b"previous Xid ".len());
    let (_, number) = dec_u32(&rest[previous.unwrap_or(end + 3)..]).ok()?;
    let known = XIDS.get(&number).copied();
    let mut report = known.unwrap_or(MachineReport {
        class: MachineClass::Engine,
        action: "restart",
        means: "an error that NVIDIA's catalog does not explain",
        number: Some(ReportNumber::Xid(number)),
    });
    if memmem::find(rest, b" Nonfatal ").is_some() {
        report.class = MachineClass::Harmless;
    }
    Some((&rest[..end], report))
}

/// Reads ` (PCI:0000:c1:00.0): 20034, Fatal, Link 28 LTSSM Fault Up`, the text after `SXid`; `20034, Severity 1` is of the same
/// error (NVSWITCH_ERROR_SEVERITY_FATAL), and `20034, Data {..}` alone does not have the severity.
pub(super) fn parse_switch_xid(text: &[u8]) -> Option<MachineReport> {
    let rest = text.strip_prefix(b" (")?;
    let end = memmem::find(rest, b"): ")?;
    let (rest, number) = dec_u32(&rest[end + 3..]).ok()?;
    let is_fatal = [&b", Fatal"[..], b", Severity 1"];
    let is_not = [&b", Non-fatal"[..], b", Severity 0"];
    let begins = |words: [&[u8]; 2]| words.iter().any(|words| rest.starts_with(words));
    let known = begins(is_fatal) || begins(is_not);
    known.then(|| report_of_switch(number, begins(is_fatal)))
}

/// Reads `non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:c1:00.0 physical id 3 port 61`, the fabric manager's
/// text after `detected NVSwitch `.
pub(super) fn parse_fabric_report(text: &[u8]) -> Option<MachineReport> {
    let (is_fatal, rest) = match text.strip_prefix(b"non-fatal error ") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix(b"fatal error ")?),
    };
    Some(report_of_switch(dec_u32(rest).ok()?.1, is_fatal))
}

fn report_of_switch(number: u32, is_fatal: bool) -> MachineReport {
    let (class, means) = match is_fatal {
        true => (
            MachineClass::Switch,
            "a link or a unit of the switch failed",
        ),
        false => (
            MachineClass::Harmless,
            "an error of the switch that is not fatal",
        ),
    };
    MachineReport {
        class,
        action: "link",
        means,
        number: Some(ReportNumber::SwitchXid(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_no_number_has_two() {
        let numbers: Vec<u32> = xid_rows()
            .flat_map(|row| parse_row(row).unwrap_or_else(|| panic!("{row}")))
            .map(|(number, _)| number)
            .collect();
        assert_eq!(numbers.len(), XIDS.len());
        assert!(numbers.len() > 110 && numbers.contains(&155));
    }

    #[test]
    fn lines_have_the_class_of_their_number() {
        for (text, number, class) in [
            (
                " (PCI:0000:dc:00): 13, pid=81, name=python, Graphics SM Warp Exception",
                13,
                MachineClass::Program,
            ),
            (
                " (PCI:0000:dc:00): 31, pid=81, name=python, Ch 00000008, intr 00000000. MMU Fault",
                31,
                MachineClass::Program,
            ),
            (
                " (PCI:0000:dc:00): 43, pid=81, name=python, Ch 00000008",
                43,
                MachineClass::Follows,
            ),
            (
                " (PCI:0000:dc:00): 45, pid='<unknown>', name=<unknown>, Ch 00000008",
                45,
                MachineClass::Follows,
            ),
            (
                " (PCI:0000:dc:00): 45, pid=81, name=python, Ch 1 caused by previous Xid 94",
                94,
                MachineClass::Memory,
            ),
            (
                " (PCI:0000:dc:00): 48, pid=81, name=python, DBE (double bit error)",
                48,
                MachineClass::Memory,
            ),
            (
                " (PCI:0000:dc:00): 63, pid=81, Row Remapper: New row (0x00000005d28c03a0) marked for remapping",
                63,
                MachineClass::Harmless,
            ),
            (
                " (PCI:0000:dc:00): 74, pid=81, name=python, NVLink: fatal error detected on link 6(0x0, 0x0)",
                74,
                MachineClass::Link,
            ),
            (
                " (PCI:0000:dc:00): 119, pid=81, name=python, Timeout after 6s of waiting for RPC response",
                119,
                MachineClass::Gpu,
            ),
            (
                " (PCI:0000:dc:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x4 0x1)",
                145,
                MachineClass::Harmless,
            ),
            (
                " (PCI:0000:dc:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x11 0x0)",
                149,
                MachineClass::Link,
            ),
            (
                " (PCI:0000:dc:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
                154,
                MachineClass::Follows,
            ),
            (
                " (PCI:0000:dc:00): 9999, something new",
                9999,
                MachineClass::Engine,
            ),
        ] {
            let (address, report) = parse_xid(text.as_bytes()).unwrap();
            assert_eq!(address, b"PCI:0000:dc:00");
            assert_eq!(
                (report.number, report.class),
                (Some(ReportNumber::Xid(number)), class),
                "{text}"
            );
        }
        for none in ["", " (", " (PCI", " (PCI): ", " (PCI): x"] {
            assert_eq!(parse_xid(none.as_bytes()), None, "{none}");
        }
    }
}
