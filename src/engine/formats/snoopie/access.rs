//! A row of the main log. Versions by their columns: 8 (2023-04, f2c9be9), 10 (2023-07, 55bcd65) and 11
//! (2024, with `code_line_context`). The header names them; without it their number shows the version.
//! Before that a row was JSON with four members.

use super::limits::MAX_COLUMNS;
use crate::formats::whole_number::{parse_address, parse_decimal};
use crate::output::table::Lacks;

/// What a damaged line should have been.
pub(super) const EXPECTED_ACCESS: Lacks = "a row of 8, 10 or 11 columns, or a header";

/// An access to memory, of one lane of a warp; or a copy that the host began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnoopieAccess<'l> {
    /// The instruction, or the driver's function.
    pub op: &'l [u8],
    /// The address.
    pub addr: u64,
    /// The global number of the first thread of the warp: all lanes of a warp have the same.
    pub thread: Option<u64>,
    /// The device that runs it; for a copy the source.
    pub running: i64,
    /// The device with the memory, as the tool stamped the warp: -1 host memory or unknown, 999 pinned
    /// memory of the host. For a copy the destination.
    pub owner: i64,
    /// The line of the program, if known.
    pub line: Option<u64>,
    /// The instruction's number in the table of code lines.
    pub line_index: Option<u64>,
    /// Where the kernel was launched when it was first instrumented.
    pub context: Option<u64>,
    /// The bytes of a copy; the constant 4 of an instruction.
    pub(crate) range: Option<u64>,
}

impl SnoopieAccess<'_> {
    /// Returns the bytes that it moves: by the name of an instruction, or by the size of a copy.
    pub fn moved_bytes(&self) -> Option<u64> {
        let (_, width) = super::op::parse_instruction(self.op)?;
        width.or(self.range)
    }
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SnoopieLine<'l> {
    Access(SnoopieAccess<'l>),
    /// An allocation, in the version that wrote JSON: device, first address, bytes.
    Range(Option<i64>, u64, u64),
    /// A header, a blank line, or the program's own output beside the JSON.
    Other,
    Damaged,
}

/// The fields that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnoopieField {
    Op,
    Addr,
    Thread,
    Running,
    Owner,
    Line,
    LineIndex,
    Context,
    Range,
    Other,
}

impl SnoopieField {
    fn from_name(name: &[u8]) -> SnoopieField {
        match name.trim_ascii() {
            b"op_code" => Op,
            b"addr" => Addr,
            b"thread_indx" => Thread,
            b"running_dev_id" => Running,
            b"mem_dev_id" => Owner,
            b"code_linenum" => LineNumber,
            b"code_line_index" => LineIndex,
            b"code_line_context" => Context,
            b"mem_range" => Range,
            _ => Other,
        }
    }
}

/// The fields of the columns, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SnoopieColumns {
    fields: [SnoopieField; MAX_COLUMNS],
    len: usize,
}

use SnoopieField::{
    Addr, Context, Line as LineNumber, LineIndex, Op, Other, Owner, Range, Running, Thread,
};

impl SnoopieColumns {
    const fn new(list: &[SnoopieField]) -> SnoopieColumns {
        let mut fields = [Other; MAX_COLUMNS];
        let mut at = 0;
        while at < list.len() && at < MAX_COLUMNS {
            fields[at] = list[at];
            at += 1;
        }
        SnoopieColumns { fields, len: at }
    }

    /// Reads the columns of a header line.
    fn from_header(line: &[u8]) -> Option<SnoopieColumns> {
        if !is_header(line) {
            return None;
        }
        let names = line.split(|&b| b == b',');
        let list: Vec<SnoopieField> = names.map(SnoopieField::from_name).collect();
        let has = |field| list.contains(&field);
        let is_known = [Op, Addr, Running, Owner].into_iter().all(has);
        (is_known && list.len() <= MAX_COLUMNS).then(|| SnoopieColumns::new(&list))
    }
}

/// The versions, by the number of their columns.
const COLUMN_ORDERS: [SnoopieColumns; 3] = [
    SnoopieColumns::new(&[
        Op, Addr, Thread, Running, Owner, LineNumber, LineIndex, Context, Other, Other, Range,
    ]),
    SnoopieColumns::new(&[
        Op, Addr, Thread, Running, Owner, LineNumber, LineIndex, Other, Other, Range,
    ]),
    SnoopieColumns::new(&[
        Op, Addr, Thread, Running, Owner, LineNumber, LineIndex, Other,
    ]),
];

/// Returns true for a header.
pub(super) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b"op_code,") && memchr::memmem::find(line, b"mem_dev_id").is_some()
}

/// Reads the lines of a log in their order.
#[derive(Debug, Default)]
pub(super) struct SnoopieReader {
    /// The columns of the header, after it was read.
    shape: Option<SnoopieColumns>,
    /// The log is of the version that wrote JSON, among the program's own output.
    is_old: bool,
}

impl SnoopieReader {
    /// Goes on after a header, or after none.
    pub(super) fn after_header(header: &[u8]) -> SnoopieReader {
        SnoopieReader {
            shape: SnoopieColumns::from_header(header.trim_ascii_end()),
            is_old: false,
        }
    }

    pub(super) fn has_header(&self) -> bool {
        self.shape.is_some() || self.is_old
    }

    /// The next line.
    #[inline]
    pub(super) fn read_line<'l>(&mut self, line: &'l [u8]) -> SnoopieLine<'l> {
        let is_whole = line.ends_with(b"\n");
        let line = line.trim_ascii_end();
        // After the header, a row with another number of columns is damaged.
        let access = match &self.shape {
            Some(shape) => parse_by_columns(shape, line),
            None => parse_row(line),
        };
        if let Some(access) = access {
            return classify_cut_line(access, is_whole);
        }
        if let Some(shape) = SnoopieColumns::from_header(line) {
            self.shape = Some(shape);
            return SnoopieLine::Other;
        }
        match super::is_old_line(line) || line.starts_with(b"{\"op\"") {
            true => {
                self.is_old = true;
                parse_json_line(line)
            }
            false if self.is_old || line.is_empty() || !looks_like_row(line) => SnoopieLine::Other,
            false => SnoopieLine::Damaged,
        }
    }
}

/// A last line without its end may lack digits of its last number.
fn classify_cut_line(access: SnoopieAccess<'_>, is_whole: bool) -> SnoopieLine<'_> {
    match is_whole {
        true => SnoopieLine::Access(access),
        false => SnoopieLine::Damaged,
    }
}

/// Returns true for a part of a row, and false for the output of the tool or program around the log.
fn looks_like_row(line: &[u8]) -> bool {
    let is_part = |part: &[u8]| memchr::memmem::find(line, part).is_some();
    is_part(b",0x")
        || is_part(b"0x0000")
        || super::op::parse_instruction(line.split(|&b| b == b',').next().unwrap_or_default())
            .is_some()
}

/// Reads a row by the number of its columns.
#[inline]
pub(super) fn parse_row(line: &[u8]) -> Option<SnoopieAccess<'_>> {
    let commas = memchr::memchr_iter(b',', line).count();
    let shape = COLUMN_ORDERS.iter().find(|shape| shape.len == commas + 1)?;
    parse_by_columns(shape, line.trim_ascii_end())
}

/// Reads a row with these columns; each must be present and have a valid value.
#[inline]
fn parse_by_columns<'l>(shape: &SnoopieColumns, line: &'l [u8]) -> Option<SnoopieAccess<'l>> {
    let mut access = SnoopieAccess::default();
    let mut rest = line;
    for at in 0..shape.len {
        let field = match memchr::memchr(b',', rest) {
            Some(end) if at + 1 < shape.len => {
                let (field, after) = rest.split_at(end);
                rest = after.get(1..)?;
                field
            }
            None if at + 1 == shape.len => rest,
            _ => return None,
        };
        match shape.fields.get(at)? {
            Op => access.op = parse_name(field)?,
            Addr => access.addr = parse_address(field)?,
            Thread => access.thread = parse_known(field)?,
            Running => access.running = parse_signed(field)?,
            Owner => access.owner = parse_signed(field)?,
            LineNumber => access.line = parse_known(field)?,
            LineIndex => access.line_index = parse_known(field)?,
            Context => access.context = parse_known(field)?,
            Range => access.range = Some(parse_decimal(field)?),
            Other => {}
        }
    }
    Some(access)
}

/// The name of an instruction or a function.
fn parse_name(text: &[u8]) -> Option<&[u8]> {
    let is = |&b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_');
    let begins = text.first().is_some_and(u8::is_ascii_alphabetic);
    (begins && text.len() <= 64 && text.iter().all(is)).then_some(text)
}

/// A number; -1 is not known.
fn parse_known(text: &[u8]) -> Option<Option<u64>> {
    match text {
        b"-1" => Some(None),
        text => parse_decimal(text).map(Some),
    }
}

/// The number of a device.
fn parse_signed(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let n = i64::try_from(parse_decimal(digits)?).ok()?;
    (n <= i64::from(i32::MAX)).then_some(sign * n)
}

/// A line of the version that wrote JSON.
fn parse_json_line(line: &[u8]) -> SnoopieLine<'_> {
    let member = |key: &str| {
        let key = format!("\"{key}\":");
        let at = memchr::memmem::find(line, key.as_bytes())?;
        let value = line.get(at + key.len()..)?.trim_ascii_start();
        let end = value.iter().position(|b| matches!(b, b',' | b'}'))?;
        let value = value.get(..end)?.trim_ascii();
        Some(
            value
                .strip_prefix(b"\"")
                .and_then(|v| v.strip_suffix(b"\""))
                .unwrap_or(value),
        )
    };
    if !line.ends_with(b"}") {
        return SnoopieLine::Damaged;
    }
    let read = || {
        let op = member("op")?;
        if op == b"mem_alloc" {
            let start = member("start").and_then(parse_address)?;
            let size = member("bytesize").and_then(parse_decimal)?;
            let device = match member("device_id").or_else(|| member("dev_id")) {
                Some(device) => Some(parse_signed(device)?),
                None => None,
            };
            return Some(SnoopieLine::Range(device, start, size));
        }
        Some(SnoopieLine::Access(SnoopieAccess {
            op: parse_name(op)?,
            addr: member("addr").and_then(parse_address)?,
            running: member("running_device_id").and_then(parse_signed)?,
            owner: member("mem_device_id").and_then(parse_signed)?,
            ..SnoopieAccess::default()
        }))
    };
    read().unwrap_or(SnoopieLine::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"op_code, addr, thread_indx, running_dev_id, mem_dev_id, code_linenum, code_line_index, code_line_context, code_line_estimated_status, obj_offset, mem_range\n";

    fn read(lines: &[&[u8]]) -> Vec<String> {
        let mut reader = SnoopieReader::default();
        lines
            .iter()
            .map(|line| format!("{:?}", reader.read_line(line)))
            .collect()
    }

    #[test]
    fn rows_of_each_version_are_read_wherever_the_header_is() {
        let new = b"LDG.E.128.SYS,0x00007fa571b00504,10240,1,0,125,1586,7,1,0x00007fa571a00000,4\n";
        let old = b"STG.E,0x00007fa571b00504,10240,1,0,125,1586,1,0x00007fa571a00000,4\n";
        let oldest = b"STG.E,0x00007fa571b00504,10240,1,0,125,1586,1\n";
        let copy = b"cuMemcpyDtoDAsync_v2,0x00007fa571b00000,-1,1,0,-1,-1,1,-1,0x0000000000000000,1048576\n";
        let all = read(&[new, old, oldest, HEADER, new, copy, b"\n", old]);
        assert_eq!(all[7], "Damaged");
        assert!(
            all[0].contains("context: Some(7)") && all[0] == all[4],
            "{all:?}"
        );
        assert!(all[1].contains("context: None, range: Some(4)"), "{all:?}");
        assert!(all[2].contains("line: Some(125)") && all[2].contains("range: None"));
        assert!(all[5].contains("thread: None") && all[5].contains("range: Some(1048576)"));
        assert_eq!((&all[3][..], &all[6][..]), ("Other", "Other"));
    }

    #[test]
    fn a_header_in_another_order_is_followed() {
        let all = read(&[
            b"op_code, mem_dev_id, running_dev_id, addr, new_column\n",
            b"STG.E,3,1,0x10,x\n",
        ]);
        assert!(
            all[1].contains("addr: 16") && all[1].contains("running: 1, owner: 3"),
            "{all:?}"
        );
    }

    #[test]
    fn what_is_cut_is_no_access() {
        for line in [
            &b"STG.E,0x00007fa571b00504,10240,1,0,125,1586,1,0x00007fa571a00000,4"[..],
            b"STG.E,0x00007fa571b00504,10240,1,0,125,1586,1,0x00007fa571a0\n",
            b"STG.E,0x00007fa571b0050g,10240,1,0,125,1586,1,0x00007fa571a00000,4\n",
            b"STG.E,0x00007fa571b00504,10240,1,0,125,158611,1,0x00007fa571a00000,4\n",
            b"STG.E,0x00007fa571b00504,10240,1,99999999999,125,1586,1,0x00007fa571a00000,4\n",
            b"571b00504,10240,1,0,125,1586,1,0x00007fa571a00000,4\n",
            b"{\"op\": \"STG.E\", \"addr\": \"0x14\", \"running_device_id\": 2, \"mem_de\n",
        ] {
            let all = read(&[HEADER, line]);
            assert_eq!(all[1], "Damaged", "{}", line.escape_ascii());
        }
    }

    #[test]
    fn lines_of_json_are_rows() {
        let all = read(&[
            b"Execution time:   1.0159 s\n",
            b"{\"op\": \"STG.E\", \"addr\": \"0x000014b1afe41584\", \"running_device_id\": 2, \"mem_device_id\": 3}\n",
            b"{\"op\": \"mem_alloc\", \"bytesize\": 266240, \"start\": \"0x000014b1afe00000\", \"end\": \"0x000014b1afe41000\"}\n",
        ]);
        assert!(all[1].contains("running: 2, owner: 3"), "{all:?}");
        assert_eq!(all[2], "Range(None, 22753392459776, 266240)");
    }
}
