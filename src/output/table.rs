//! The wire between the programs: the call table, one row a call, found by column name.
//!
//! Written by hand into the worker's buffer instead of through the csv crate's writer: a row is
//! mostly integers, there are millions of them, and the text fields are quoted by the same rule
//! (a property test reads the rows back with the csv crate).

use crate::grammar::values::{Datatype, RedOp};
use crate::members::comm_id::CommId;
use std::io::Write;

/// The columns, in order. New ones go last; readers find them by name.
pub const COLUMNS: [&str; 24] = [
    "step", "time", "host", "pid", "tid", "dev", "rank", "nranks", "comm", "comm_id", "seq",
    "op_count", "op", "count", "datatype", "redop", "root", "bytes", "stream", "calls", "src",
    "dur_ns", "clock", "quality",
];

/// One call, or `calls` equal ones. An empty text and `None` mean not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row<'a> {
    /// The trainer's number of its step.
    pub step: Option<u64>,
    /// The line's time stamp as printed.
    pub time: &'a [u8],
    /// The host as printed.
    pub host: &'a [u8],
    /// The process.
    pub pid: Option<u64>,
    /// The thread.
    pub tid: Option<u64>,
    /// The CUDA device current at print time, not a rank.
    pub dev: Option<u32>,
    /// The rank in the communicator.
    pub rank: Option<u32>,
    /// Size of the communicator.
    pub nranks: Option<u32>,
    /// The communicator's address in its process.
    pub comm: Option<u64>,
    /// The id that all its members share.
    pub comm_id: Option<CommId>,
    /// 0, 1, 2 ... in line order over the collectives of (host, pid, communicator).
    pub seq: Option<u64>,
    /// NCCL's opCount.
    pub op_count: Option<u64>,
    /// The operation.
    pub op: &'a [u8],
    /// Elements.
    pub count: u64,
    /// Their type; `None` for a name this version does not know.
    pub datatype: Option<Datatype>,
    /// The reduction, where it means something.
    pub redop: Option<RedOp>,
    /// The root or the peer, where it means something.
    pub root: Option<i64>,
    /// The CUDA stream's address.
    pub stream: Option<u64>,
    /// How many equal calls the row stands for.
    pub calls: u64,
    /// What the row comes from: `log`, ...
    pub src: &'a [u8],
    /// Nanoseconds, if the source has a duration; of several calls together.
    pub dur_ns: Option<u64>,
    /// Which clock the duration is on.
    pub clock: &'a [u8],
    /// What limits the duration.
    pub quality: &'a [u8],
}

/// Columns that stand together and change together from row to row, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `step`, `time`.
    When,
    /// `host`, `pid`.
    Process,
    /// `tid`.
    Thread,
    /// `dev`, `rank`, `nranks`, `comm`, `comm_id`.
    Member,
    /// `seq`, `op_count`.
    Order,
    /// `op`, `count`, `datatype`, `redop`, `root`, `bytes`.
    What,
    /// `stream` and all behind it.
    Rest,
}

impl Part {
    const ALL: [Part; 7] = [
        Part::When,
        Part::Process,
        Part::Thread,
        Part::Member,
        Part::Order,
        Part::What,
        Part::Rest,
    ];
}

impl Row<'_> {
    /// Bytes on the API basis: count × element size.
    pub fn bytes(&self) -> Option<u128> {
        let size = self.datatype?.size()?;
        Some(u128::from(self.count) * u128::from(size))
    }

    /// Appends the row as CSV.
    pub fn csv(&self, out: &mut Vec<u8>) {
        for part in Part::ALL {
            self.csv_part(part, out);
        }
    }

    /// Appends some columns of the row as CSV, each with the comma or the line end behind it.
    #[inline(always)]
    pub fn csv_part(&self, part: Part, out: &mut Vec<u8>) {
        let mut w = Csv { out };
        match part {
            Part::When => {
                w.number(self.step);
                w.text(self.time);
            }
            Part::Process => {
                w.text(self.host);
                w.number(self.pid);
            }
            Part::Thread => w.number(self.tid),
            Part::Member => {
                w.number(self.dev);
                w.number(self.rank);
                w.number(self.nranks);
                w.pointer(self.comm);
                w.show(self.comm_id);
            }
            Part::Order => {
                w.number(self.seq);
                w.number(self.op_count);
            }
            Part::What => {
                w.text(self.op);
                w.number(Some(self.count));
                w.word(self.datatype, Datatype::name);
                w.word(self.redop, RedOp::name);
                w.number(self.root);
                w.number(self.bytes());
            }
            Part::Rest => {
                w.pointer(self.stream);
                w.number(Some(self.calls));
                w.text(self.src);
                w.number(self.dur_ns);
                w.text(self.clock);
                w.text(self.quality);
                w.out.pop();
                w.out.push(b'\n');
            }
        }
    }

    /// Appends the row as a line of JSON; what is not known is null, so that every line has
    /// the same keys.
    pub fn jsonl(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut w = Json { out, first: true };
        w.number("step", self.step);
        w.text("time", self.time);
        w.text("host", self.host);
        w.number("pid", self.pid);
        w.number("tid", self.tid);
        w.number("dev", self.dev);
        w.number("rank", self.rank);
        w.number("nranks", self.nranks);
        w.pointer("comm", self.comm);
        w.show("comm_id", self.comm_id);
        w.number("seq", self.seq);
        w.number("op_count", self.op_count);
        w.text("op", self.op);
        w.number("count", Some(self.count));
        w.show("datatype", self.datatype);
        w.show("redop", self.redop);
        w.number("root", self.root);
        w.number("bytes", self.bytes());
        w.pointer("stream", self.stream);
        w.number("calls", Some(self.calls));
        w.text("src", self.src);
        w.number("dur_ns", self.dur_ns);
        w.text("clock", self.clock);
        w.text("quality", self.quality);
        out.extend_from_slice(b"}\n");
    }

    /// Appends the row as the AWK chain's second script prints it: `op count datatype bytes`.
    pub fn chain(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.op);
        out.push(b' ');
        out.extend_from_slice(itoa::Buffer::new().format(self.count).as_bytes());
        out.push(b' ');
        if let Some(datatype) = self.datatype {
            show(datatype, out);
        }
        out.push(b' ');
        if let Some(bytes) = self.bytes() {
            out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
        }
        out.push(b'\n');
    }
}

/// Writes to a buffer, which cannot fail.
fn show(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    let _ = write!(out, "{value}");
}

/// Appends `0x` and the pointer in hexadecimal.
fn hex(value: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; 18];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = DIGITS[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(b"0x");
    out.extend_from_slice(&text[at..]);
}

/// Fields, each with a comma behind it.
struct Csv<'o> {
    out: &'o mut Vec<u8>,
}

impl Csv<'_> {
    fn number(&mut self, value: Option<impl itoa::Integer>) {
        if let Some(value) = value {
            let mut text = itoa::Buffer::new();
            self.out.extend_from_slice(text.format(value).as_bytes());
        }
        self.out.push(b',');
    }

    fn pointer(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            hex(value, self.out);
        }
        self.out.push(b',');
    }

    fn show(&mut self, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            show(value, self.out);
        }
        self.out.push(b',');
    }

    /// A value that mostly has a name, which is copied and not formatted.
    fn word<T: std::fmt::Display + Copy>(
        &mut self,
        value: Option<T>,
        name: fn(T) -> Option<&'static str>,
    ) {
        match value.map(|value| (name(value), value)) {
            Some((Some(name), _)) => self.out.extend_from_slice(name.as_bytes()),
            Some((None, value)) => show(value, self.out),
            None => {}
        }
        self.out.push(b',');
    }

    fn text(&mut self, text: &[u8]) {
        csv_text(text, self.out);
        self.out.push(b',');
    }
}

/// Appends a field of CSV, in quotes where it needs them.
pub(crate) fn csv_text(text: &[u8], out: &mut Vec<u8>) {
    if text
        .iter()
        .any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r'))
    {
        out.push(b'"');
        for &b in text {
            if b == b'"' {
                out.push(b'"');
            }
            out.push(b);
        }
        out.push(b'"');
    } else {
        out.extend_from_slice(text);
    }
}

struct Json<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl Json<'_> {
    /// A key, and the value that `write` appends; null where there is none.
    fn value<T>(&mut self, key: &str, value: Option<T>, write: impl FnOnce(T, &mut Vec<u8>)) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        match value {
            Some(value) => write(value, self.out),
            None => self.out.extend_from_slice(b"null"),
        }
    }

    fn number(&mut self, key: &str, value: Option<impl itoa::Integer>) {
        self.value(key, value, |value, out| {
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        });
    }

    fn pointer(&mut self, key: &str, value: Option<u64>) {
        self.value(key, value, |value, out| {
            out.push(b'"');
            hex(value, out);
            out.push(b'"');
        });
    }

    fn show(&mut self, key: &str, value: Option<impl std::fmt::Display>) {
        self.value(key, value, |value, out| {
            out.push(b'"');
            show(value, out);
            out.push(b'"');
        });
    }

    fn text(&mut self, key: &str, text: &[u8]) {
        self.value(key, (!text.is_empty()).then_some(text), |text, out| {
            // A string into a buffer: neither can fail.
            let _ = serde_json::to_writer(out, &*String::from_utf8_lossy(text));
        });
    }
}

/// The header line of the call table.
pub fn csv_header() -> String {
    COLUMNS.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Row<'static> {
        Row {
            step: Some(45),
            time: b"2026-04-28 14:14:49,123",
            host: b"we\"ird",
            pid: Some(1),
            comm: Some(0x55d0),
            op: b"AllReduce",
            count: u64::MAX,
            datatype: Some(Datatype(7)),
            redop: Some(RedOp(4)),
            root: Some(-1),
            stream: Some(0),
            calls: 1,
            src: b"log",
            ..Row::default()
        }
    }

    #[test]
    fn a_row_reads_back_as_csv_with_its_columns() {
        let mut out = csv_header().into_bytes();
        full().csv(&mut out);
        let mut reader = csv::Reader::from_reader(&out[..]);
        let header = reader.byte_headers().unwrap().clone();
        let row = reader.byte_records().next().unwrap().unwrap();
        let of = |name: &str| {
            let at = header.iter().position(|h| h == name.as_bytes()).unwrap();
            String::from_utf8_lossy(&row[at]).into_owned()
        };
        assert_eq!(row.len(), COLUMNS.len());
        assert_eq!(of("time"), "2026-04-28 14:14:49,123");
        assert_eq!(of("host"), "we\"ird");
        assert_eq!(of("bytes"), (u128::from(u64::MAX) * 4).to_string());
        assert_eq!((of("comm"), of("stream")), ("0x55d0".into(), "0x0".into()));
        assert_eq!(
            (of("redop"), of("root"), of("rank")),
            ("avg".into(), "-1".into(), "".into())
        );
    }

    #[test]
    fn a_row_is_valid_json_with_null_for_what_is_not_known() {
        let mut out = Vec::new();
        full().jsonl(&mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["host"], "we\"ird");
        assert_eq!(value["count"], u64::MAX);
        assert_eq!(value.get("rank"), Some(&serde_json::Value::Null));
        // Every row has every column, in their order.
        let mut empty = Vec::new();
        Row::default().jsonl(&mut empty);
        let keys = |line: &[u8]| {
            let text = String::from_utf8_lossy(line).into_owned();
            let at = |name: &&str| text.find(&format!("\"{name}\":"));
            let places: Vec<_> = COLUMNS.iter().map(at).collect();
            assert!(
                places.iter().all(Option::is_some) && places.is_sorted(),
                "{text}"
            );
        };
        keys(&out);
        keys(&empty);
    }
}
