//! The tables beside the main log. Their rows are read by rules of their own: names have commas and quotes
//! that are never closed (`"/a/b.py,12`), which a reader of CSV would take for the rows after them too.

use super::access::hex;
use crate::grammar::token::dec_u64;
use crate::output::table::Lacks;
use rustc_hash::FxHashMap;

/// Which table a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// `codeline_log`: static instructions with their lines.
    Lines,
    /// `mem_alloc_site_log`: places in the program by address.
    Sites,
    /// `address_range_log`: what was allocated.
    Ranges,
    /// `data_object_log`: data objects, each with the call stack that allocated it.
    Objects,
    /// `exec_site_log`: places of launches.
    ExecSites,
    /// `exec_context_log`: call stacks of launches.
    Contexts,
}

impl Table {
    pub(super) const EXPECTED: Lacks = "a row of this table";
}

/// The table that a header is of.
pub(super) fn kind(header: &[u8]) -> Option<Table> {
    const HEADERS: [(&[u8], Table); 7] = [
        (b"code_line_index, dir_path, file, ", Table::Lines),
        (b"pc,func_name,file_name,line_no", Table::Sites),
        (b"offset,size,obj_id,dev_id", Table::Ranges),
        (b"obj_id,var_name,call_stack", Table::Objects),
        // Its rows are those of the ranges.
        (b"offset, size, device_id, var_name, ", Table::Ranges),
        (b"site_id,file,code_linenum", Table::ExecSites),
        (b"context_id,call_stack", Table::Contexts),
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
pub struct Site {
    /// Its name.
    pub function: Box<[u8]>,
    /// The source.
    pub file: Box<[u8]>,
    /// Its line, from 1.
    pub line: u64,
}

/// Memory that was allocated. It is never taken off the tool's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Its first address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The object that was allocated: a key of [`Tables::objects`].
    pub object: Option<u64>,
    /// The device whose memory it is.
    pub device: Option<i64>,
}

/// No table has more rows: those that have were not written by the tool.
const ROWS: usize = 1 << 20;
/// A call stack has no more frames.
const FRAMES: usize = 1 << 10;

/// The tables of a process.
#[derive(Debug, Default)]
pub struct Tables {
    /// Lines by their number.
    pub lines: FxHashMap<u64, CodeLine>,
    /// Where objects were allocated, by address.
    pub sites: FxHashMap<u64, Site>,
    /// In the order of the file: the tool takes the first that fits.
    pub ranges: Vec<Range>,
    /// Addresses of the frames, the innermost first.
    pub objects: FxHashMap<u64, Vec<u64>>,
    /// Where kernels were started, by number.
    pub exec_sites: FxHashMap<u64, Site>,
    /// Sites of the frames, the innermost first.
    pub contexts: FxHashMap<u64, Vec<u64>>,
}

impl Tables {
    /// Adds a row; false where it is none.
    pub(super) fn row(&mut self, table: Table, row: &[u8]) -> bool {
        match table {
            Table::Lines => add(&mut self.lines, code_line(row)),
            Table::Sites => add(&mut self.sites, site(row)),
            Table::Ranges => {
                let range = range(row).filter(|_| self.ranges.len() < ROWS);
                let is_row = range.is_some();
                self.ranges.extend(range);
                is_row
            }
            Table::Objects => add(&mut self.objects, object(row)),
            Table::ExecSites => add(&mut self.exec_sites, exec_site(row)),
            Table::Contexts => add(&mut self.contexts, context(row)),
        }
    }

    /// Memory of which a line of the main log tells.
    pub(super) fn allocated(&mut self, device: Option<i64>, start: u64, size: u64) {
        if self.ranges.len() < ROWS {
            self.ranges.push(Range {
                start,
                size,
                object: None,
                device,
            });
        }
    }
}

fn add<T>(rows: &mut FxHashMap<u64, T>, row: Option<(u64, T)>) -> bool {
    match row {
        Some((key, value)) if rows.len() < ROWS => {
            rows.entry(key).or_insert(value);
            true
        }
        _ => false,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    match dec_u64(text.trim_ascii()) {
        Ok((b"", n)) => Some(n),
        _ => None,
    }
}

/// What is before the first comma, and what is behind it.
fn front(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b',', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// What is before the last comma, and what is behind it.
fn back(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b',', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// A name without quotes around it, closed or not.
fn bare(name: &[u8]) -> Box<[u8]> {
    let name = name.trim_ascii();
    let name = name.strip_prefix(b"\"").unwrap_or(name);
    name.strip_suffix(b"\"").unwrap_or(name).into()
}

/// `1586,/h,j.cu,125,1`
fn code_line(row: &[u8]) -> Option<(u64, CodeLine)> {
    let (index, rest) = front(row)?;
    let (rest, status) = back(rest)?;
    let (rest, line) = back(rest)?;
    let (dir, file) = back(rest)?;
    let status = status.trim_ascii();
    let line = CodeLine {
        dir: bare(dir),
        file: bare(file),
        line: number(line)?,
        is_estimated: status == b"2",
    };
    number(index)
        .filter(|_| matches!(status, b"1" | b"2" | b"0" | b"-1"))
        .map(|index| (index, line))
}

/// `5,"f<int, 3>(char const*)",b.cu,9`
fn site(row: &[u8]) -> Option<(u64, Site)> {
    let (pc, rest) = front(row)?;
    let (rest, line) = back(rest)?;
    let (function, file) = back(rest)?;
    let site = Site {
        function: bare(function),
        file: bare(file),
        line: number(line)?,
    };
    Some((number(pc)?, site))
}

/// `0x00007fa571a00000,1052672,6,0`
fn range(row: &[u8]) -> Option<Range> {
    let (start, rest) = front(row)?;
    let (size, rest) = front(rest)?;
    let (object, device) = front(rest)?;
    let device = device.trim_ascii();
    let (sign, digits) = match device.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, device),
    };
    Some(Range {
        start: hex(start.trim_ascii())?,
        size: number(size)?,
        object: Some(number(object)?),
        device: Some(sign * i64::try_from(number(digits)?).ok()?),
    })
}

/// `6,,1<2`: the name is always empty.
fn object(row: &[u8]) -> Option<(u64, Vec<u64>)> {
    let (id, rest) = front(row)?;
    let (_, stack) = back(rest)?;
    Some((number(id)?, frames(stack)?))
}

/// `77,"/a/b.py,12`
fn exec_site(row: &[u8]) -> Option<(u64, Site)> {
    let (id, rest) = front(row)?;
    let (file, line) = back(rest)?;
    let site = Site {
        function: Box::default(),
        file: bare(file),
        line: number(line)?,
    };
    Some((number(id)?, site))
}

/// `1,77<78`
fn context(row: &[u8]) -> Option<(u64, Vec<u64>)> {
    let (id, stack) = front(row)?;
    Some((number(id)?, frames(stack)?))
}

/// `77<78`; empty where there are none.
fn frames(stack: &[u8]) -> Option<Vec<u64>> {
    let stack = stack.trim_ascii();
    if stack.is_empty() {
        return Some(Vec::new());
    }
    stack
        .split(|&b| b == b'<')
        .take(FRAMES)
        .map(number)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_open_quotes_are_a_names_own() {
        let mut tables = Tables::default();
        assert!(tables.row(Table::Sites, b"5,\"f<int, 3>(char const*)\",b.cu,9"));
        assert_eq!(*tables.sites[&5].function, *b"f<int, 3>(char const*)");
        assert!(tables.row(Table::ExecSites, b"77,\"/a/b.py,12"));
        assert!(tables.row(Table::ExecSites, b"78,\"/a/c.py,13"));
        assert_eq!(
            (&*tables.exec_sites[&77].file, tables.exec_sites[&78].line),
            (&b"/a/b.py"[..], 13)
        );
        assert!(tables.row(Table::Objects, b"6,,1<2") && tables.row(Table::Objects, b"7,,5"));
        assert_eq!(
            (&tables.objects[&6][..], &tables.objects[&7][..]),
            (&[1, 2][..], &[5][..])
        );
        assert!(tables.row(Table::Contexts, b"2,77"));
        assert!(tables.row(Table::Ranges, b"0x00007fa870c00000,4194304,7,-1"));
        assert_eq!(tables.ranges[0].device, Some(-1));
        assert!(
            tables.row(Table::Lines, b"1586,/h,j.cu,125,1") && tables.row(Table::Lines, b"0,,,0,2")
        );
        assert_eq!(tables.lines[&1586].line, 125);
        for (table, row) in [
            (Table::Ranges, &b"0x00007fa870c00000,4194304,7"[..]),
            (Table::Lines, b"1586,/h,j.cu,12x,1"),
            (Table::Contexts, b"1,77<7x"),
            (Table::Sites, b"5,f"),
        ] {
            assert!(!tables.row(table, row), "{}", row.escape_ascii());
        }
    }
}
