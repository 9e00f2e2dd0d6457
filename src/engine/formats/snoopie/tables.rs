//! The tables beside the main log. Their rows are read by rules of their own: names have commas and quotes
//! that are never closed (`"/a/b.py,12`), which a reader of CSV would take for the rows after them too.

use super::limits::{MAX_STACK_FRAMES, MAX_TABLE_ROWS};
use crate::formats::whole_number::{parse_address, parse_decimal};
use crate::output::table::Lacks;
use rustc_hash::FxHashMap;

/// The kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnoopieTable {
    /// `codeline_log`: static instructions with their lines.
    Lines,
    /// `mem_alloc_site_log`: places in the program by address.
    Sites,
    /// `address_range_log`: allocations.
    Ranges,
    /// `data_object_log`: data objects, each with the call stack that allocated it.
    Objects,
    /// `exec_site_log`: places of launches.
    ExecSites,
    /// `exec_context_log`: call stacks of launches.
    Contexts,
}

impl SnoopieTable {
    pub(super) const EXPECTED_ROW: Lacks = "a row of this table";
}

/// Returns the table of a header.
pub(super) fn table_of_header(header: &[u8]) -> Option<SnoopieTable> {
    const HEADERS: [(&[u8], SnoopieTable); 7] = [
        (b"code_line_index, dir_path, file, ", SnoopieTable::Lines),
        (b"pc,func_name,file_name,line_no", SnoopieTable::Sites),
        (b"offset,size,obj_id,dev_id", SnoopieTable::Ranges),
        (b"obj_id,var_name,call_stack", SnoopieTable::Objects),
        // Its rows are those of the ranges.
        (b"offset, size, device_id, var_name, ", SnoopieTable::Ranges),
        (b"site_id,file,code_linenum", SnoopieTable::ExecSites),
        (b"context_id,call_stack", SnoopieTable::Contexts),
    ];
    let known = HEADERS.iter().find(|(begin, _)| header.starts_with(begin));
    known.map(|(_, table)| *table)
}

/// A line of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeLine {
    /// The folder of the source.
    pub dir: Box<[u8]>,
    /// The source.
    pub file: Box<[u8]>,
    /// Its line, from 1.
    pub line: u64,
    /// It was taken from the instruction before.
    pub is_estimated: bool,
}

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeSite {
    /// Its name.
    pub function: Box<[u8]>,
    /// The source.
    pub file: Box<[u8]>,
    /// Its line, from 1.
    pub line: u64,
}

/// Memory that was allocated. It is never taken off the tool's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRange {
    /// Its first address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The object that was allocated: a key of [`SnoopieTables::objects`].
    pub object: Option<u64>,
    /// The device that has it.
    pub device: Option<i64>,
}

/// The tables of a process.
#[derive(Debug, Default)]
pub struct SnoopieTables {
    /// Lines by their number.
    pub lines: FxHashMap<u64, CodeLine>,
    /// Where objects were allocated, by address.
    pub sites: FxHashMap<u64, CodeSite>,
    /// In the order of the file: the tool takes the first that fits.
    pub ranges: Vec<MemoryRange>,
    /// Addresses of the frames, the innermost first.
    pub objects: FxHashMap<u64, Vec<u64>>,
    /// Where kernels were started, by number.
    pub exec_sites: FxHashMap<u64, CodeSite>,
    /// Sites of the frames, the innermost first.
    pub contexts: FxHashMap<u64, Vec<u64>>,
}

impl SnoopieTables {
    /// Adds a row; returns false if it is none.
    pub(super) fn add_row(&mut self, table: SnoopieTable, row: &[u8]) -> bool {
        match table {
            SnoopieTable::Lines => insert_row(&mut self.lines, parse_code_line(row)),
            SnoopieTable::Sites => insert_row(&mut self.sites, parse_site(row)),
            SnoopieTable::Ranges => {
                let range = parse_range(row).filter(|_| self.ranges.len() < MAX_TABLE_ROWS);
                let is_row = range.is_some();
                self.ranges.extend(range);
                is_row
            }
            SnoopieTable::Objects => insert_row(&mut self.objects, parse_object(row)),
            SnoopieTable::ExecSites => insert_row(&mut self.exec_sites, parse_exec_site(row)),
            SnoopieTable::Contexts => insert_row(&mut self.contexts, parse_context(row)),
        }
    }

    /// Adds an allocation of the main log.
    pub(super) fn add_allocation(&mut self, device: Option<i64>, start: u64, size: u64) {
        if self.ranges.len() < MAX_TABLE_ROWS {
            self.ranges.push(MemoryRange {
                start,
                size,
                object: None,
                device,
            });
        }
    }
}

fn insert_row<T>(rows: &mut FxHashMap<u64, T>, row: Option<(u64, T)>) -> bool {
    match row {
        Some((key, value)) if rows.len() < MAX_TABLE_ROWS => {
            rows.entry(key).or_insert(value);
            true
        }
        _ => false,
    }
}

fn parse_number(text: &[u8]) -> Option<u64> {
    parse_decimal(text.trim_ascii())
}

/// Splits a text at its first comma.
fn split_first_comma(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b',', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Splits a text at its last comma.
fn split_last_comma(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b',', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// A name without quotes around it, closed or not.
fn strip_quotes(name: &[u8]) -> Box<[u8]> {
    let name = name.trim_ascii();
    let name = name.strip_prefix(b"\"").unwrap_or(name);
    name.strip_suffix(b"\"").unwrap_or(name).into()
}

/// `1586,/h,j.cu,125,1`
fn parse_code_line(row: &[u8]) -> Option<(u64, CodeLine)> {
    let (index, rest) = split_first_comma(row)?;
    let (rest, status) = split_last_comma(rest)?;
    let (rest, line) = split_last_comma(rest)?;
    let (dir, file) = split_last_comma(rest)?;
    let status = status.trim_ascii();
    let line = CodeLine {
        dir: strip_quotes(dir),
        file: strip_quotes(file),
        line: parse_number(line)?,
        is_estimated: status == b"2",
    };
    parse_number(index)
        .filter(|_| matches!(status, b"1" | b"2" | b"0" | b"-1"))
        .map(|index| (index, line))
}

/// `5,"f<int, 3>(char const*)",b.cu,9`
fn parse_site(row: &[u8]) -> Option<(u64, CodeSite)> {
    let (pc, rest) = split_first_comma(row)?;
    let (rest, line) = split_last_comma(rest)?;
    let (function, file) = split_last_comma(rest)?;
    let site = CodeSite {
        function: strip_quotes(function),
        file: strip_quotes(file),
        line: parse_number(line)?,
    };
    Some((parse_number(pc)?, site))
}

/// `0x00007fa571a00000,1052672,6,0`
fn parse_range(row: &[u8]) -> Option<MemoryRange> {
    let (start, rest) = split_first_comma(row)?;
    let (size, rest) = split_first_comma(rest)?;
    let (object, device) = split_first_comma(rest)?;
    let device = device.trim_ascii();
    let (sign, digits) = match device.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, device),
    };
    Some(MemoryRange {
        start: parse_address(start.trim_ascii())?,
        size: parse_number(size)?,
        object: Some(parse_number(object)?),
        device: Some(sign * i64::try_from(parse_number(digits)?).ok()?),
    })
}

/// `6,,1<2`: the name is always empty.
fn parse_object(row: &[u8]) -> Option<(u64, Vec<u64>)> {
    let (id, rest) = split_first_comma(row)?;
    let (_, stack) = split_last_comma(rest)?;
    Some((parse_number(id)?, parse_frames(stack)?))
}

/// `77,"/a/b.py,12`
fn parse_exec_site(row: &[u8]) -> Option<(u64, CodeSite)> {
    let (id, rest) = split_first_comma(row)?;
    let (file, line) = split_last_comma(rest)?;
    let site = CodeSite {
        function: Box::default(),
        file: strip_quotes(file),
        line: parse_number(line)?,
    };
    Some((parse_number(id)?, site))
}

/// `1,77<78`
fn parse_context(row: &[u8]) -> Option<(u64, Vec<u64>)> {
    let (id, stack) = split_first_comma(row)?;
    Some((parse_number(id)?, parse_frames(stack)?))
}

/// `77<78`; may be empty.
fn parse_frames(stack: &[u8]) -> Option<Vec<u64>> {
    let stack = stack.trim_ascii();
    if stack.is_empty() {
        return Some(Vec::new());
    }
    stack
        .split(|&b| b == b'<')
        .take(MAX_STACK_FRAMES)
        .map(parse_number)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_open_quotes_are_a_names_own() {
        let mut tables = SnoopieTables::default();
        assert!(tables.add_row(SnoopieTable::Sites, b"5,\"f<int, 3>(char const*)\",b.cu,9"));
        assert_eq!(*tables.sites[&5].function, *b"f<int, 3>(char const*)");
        assert!(tables.add_row(SnoopieTable::ExecSites, b"77,\"/a/b.py,12"));
        assert!(tables.add_row(SnoopieTable::ExecSites, b"78,\"/a/c.py,13"));
        assert_eq!(
            (&*tables.exec_sites[&77].file, tables.exec_sites[&78].line),
            (&b"/a/b.py"[..], 13)
        );
        assert!(
            tables.add_row(SnoopieTable::Objects, b"6,,1<2")
                && tables.add_row(SnoopieTable::Objects, b"7,,5")
        );
        assert_eq!(
            (&tables.objects[&6][..], &tables.objects[&7][..]),
            (&[1, 2][..], &[5][..])
        );
        assert!(tables.add_row(SnoopieTable::Contexts, b"2,77"));
        assert!(tables.add_row(SnoopieTable::Ranges, b"0x00007fa870c00000,4194304,7,-1"));
        assert_eq!(tables.ranges[0].device, Some(-1));
        assert!(
            tables.add_row(SnoopieTable::Lines, b"1586,/h,j.cu,125,1")
                && tables.add_row(SnoopieTable::Lines, b"0,,,0,2")
        );
        assert_eq!(tables.lines[&1586].line, 125);
        for (table, row) in [
            (SnoopieTable::Ranges, &b"0x00007fa870c00000,4194304,7"[..]),
            (SnoopieTable::Lines, b"1586,/h,j.cu,12x,1"),
            (SnoopieTable::Contexts, b"1,77<7x"),
            (SnoopieTable::Sites, b"5,f"),
        ] {
            assert!(!tables.add_row(table, row), "{}", row.escape_ascii());
        }
    }
}
