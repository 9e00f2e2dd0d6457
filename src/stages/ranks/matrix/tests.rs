//! The matrix against a naive twin, and under damage.

use super::cells::{TrafficBasis, TrafficMatrix};
use super::{EndpointLevel, Options, read_matrix};
use crate::filter::CallFilter;
use crate::report::Report;
use crate::source::InputName;
use crate::testing::{Nobody, options};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;

/// The matrix of one input of these bytes.
fn of(bytes: &[u8], own: &Options, jobs: usize) -> crate::error::Result<TrafficMatrix> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("input");
    std::fs::write(&path, bytes).unwrap();
    let mut report = Report::new("a", false, true).silenced();
    let origins = [InputName::Path(path)];
    read_matrix(
        &origins,
        &options(jobs, false),
        own,
        &CallFilter::default(),
        &mut report,
        &Nobody,
    )
}

/// Calls and bytes by both ends as they are written, and basis.
type Cells = BTreeMap<(String, String, &'static str), (u64, u128)>;

fn cells(matrix: &TrafficMatrix) -> Cells {
    let text = |end: &super::endpoints::Endpoint| String::from_utf8(end.to_text()).unwrap();
    let entries = matrix.entries();
    let cells = entries.iter().map(|e| {
        let key = (text(e.from), text(e.to), e.basis.name());
        (key, (e.sum.calls, e.sum.all_bytes().unwrap()))
    });
    cells.collect()
}

/// A row of a call table: which communicator, the rank in it, what, the peer and the elements.
#[derive(Debug, Clone)]
struct Row {
    comm: usize,
    rank: usize,
    op: &'static str,
    root: usize,
    count: u64,
    calls: u64,
}

/// The communicators of a job of four ranks: their members' ranks in the job. The first has all.
const COMMS: [&[usize]; 4] = [&[0, 1, 2, 3], &[0, 2], &[3, 1], &[2, 0, 3]];

fn rows() -> impl Strategy<Value = (Vec<Row>, bool)> {
    let op = prop::sample::select(vec![
        "Send", "Recv", "Send", "Recv", "AlltoAll", "Gather", "Scatter",
    ]);
    let row = (0..4_usize, 0..4_usize, op, 0..4_usize, 0..5_u64, 1..3_u64);
    let row = row.prop_map(|(comm, rank, op, root, count, calls)| {
        let size = COMMS[comm].len();
        Row {
            comm,
            rank: rank % size,
            op,
            root: root % size,
            count,
            calls,
        }
    });
    let rows = (prop::collection::vec(row, 0..30), any::<bool>());
    rows.prop_map(|(mut rows, is_whole)| {
        for row in rows.iter_mut().filter(|row| row.comm == 0 && !is_whole) {
            row.rank %= 2;
        }
        (rows, is_whole)
    })
}

/// The table: each rank of the first communicator makes a call on it, or only half of them, which name no job.
fn table(rows: &[Row], is_whole: bool) -> String {
    let mut text = "host,pid,dev,rank,nranks,comm_id,op,count,datatype,root,calls\n".to_owned();
    let mut line = |comm: usize, rank: usize, rest: String| {
        let job = COMMS[comm][rank];
        let (host, size) = (job / 2, COMMS[comm].len());
        writeln!(
            text,
            "h{host},{},{job},{rank},{size},{:#x},{rest}",
            10 + job,
            0xa0 + comm
        )
        .unwrap();
    };
    for rank in 0..if is_whole { 4 } else { 2 } {
        line(0, rank, "AllReduce,1,int8,,1".to_owned());
    }
    for row in rows {
        let root = match row.op {
            "AlltoAll" => String::new(),
            _ => row.root.to_string(),
        };
        let rest = format!("{},{},int32,{root},{}", row.op, row.count, row.calls);
        line(row.comm, row.rank, rest);
    }
    text
}

/// The same, row by row.
fn naive(rows: &[Row], is_whole: bool, ends: EndpointLevel) -> Cells {
    let mut heard: BTreeSet<(usize, usize)> = rows.iter().map(|r| (r.comm, r.rank)).collect();
    heard.extend((0..if is_whole { 4 } else { 2 }).map(|rank| (0, rank)));
    let name = |comm: usize, rank: usize| {
        let job = COMMS[comm][rank];
        match (heard.contains(&(comm, rank)), ends) {
            (true, EndpointLevel::Ranks) if is_whole => job.to_string(),
            (true, EndpointLevel::Devices) => format!("h{}/gpu{job}", job / 2),
            (true, EndpointLevel::Hosts) => format!("h{}", job / 2),
            _ => format!("{:#x}:{rank}", 0xa0 + comm),
        }
    };
    let mut cells = Cells::new();
    let mut add = |comm: usize, from: usize, to: usize, basis, row: &Row| {
        let cell = cells.entry((name(comm, from), name(comm, to), basis));
        let (calls, bytes) = cell.or_default();
        *calls += row.calls;
        *bytes += u128::from(4 * row.count * row.calls);
    };
    let exchange = |row: &&Row| !matches!(row.op, "Send" | "Recv");
    for row in rows {
        match row.op {
            "Send" => add(row.comm, row.rank, row.root, "sent", row),
            "Recv" if !heard.contains(&(row.comm, row.root)) => {
                add(row.comm, row.root, row.rank, "received", row);
            }
            _ => {}
        }
    }
    for (comm, members) in COMMS.iter().enumerate() {
        let those = || rows.iter().filter(exchange).filter(|row| row.comm == comm);
        let Some(lowest) = those().map(|row| row.rank).min() else {
            continue;
        };
        for rank in 0..members.len() {
            let of = if heard.contains(&(comm, rank)) {
                rank
            } else {
                lowest
            };
            for row in those().filter(|row| row.rank == of) {
                for other in (0..members.len()).filter(|other| *other != rank) {
                    let sends = match row.op {
                        "AlltoAll" => true,
                        "Gather" => row.root == other,
                        _ => row.root == rank,
                    };
                    if sends {
                        add(comm, rank, other, "definition", row);
                    }
                }
            }
        }
    }
    cells
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn it_is_what_a_naive_reader_finds((rows, is_whole) in rows(), ends in 0..3_usize) {
        let ends = [EndpointLevel::Ranks, EndpointLevel::Devices, EndpointLevel::Hosts][ends];
        let own = Options { ends, ..Options::default() };
        let table = table(&rows, is_whole);
        let found = of(table.as_bytes(), &own, 1).unwrap();
        prop_assert_eq!(cells(&found), naive(&rows, is_whole, ends), "{}", table);
        // Hosts are what folding makes of ranks, where all ends are known.
        let recorded = Options { recorded: true, ..own };
        let found = of(table.as_bytes(), &recorded, 2).unwrap();
        let mut naive = naive(&rows, is_whole, ends);
        naive.retain(|(.., basis), _| *basis != "definition");
        prop_assert_eq!(cells(&found), naive);
    }
}

/// The bytes of a test file that is packed.
fn unpacked(path: &str) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// `FLIPS` sets how many.
#[test]
fn cuts_and_flips_invent_nothing() {
    let flips: usize = std::env::var("FLIPS").map_or(12, |n| n.parse().unwrap());
    let bytes = unpacked("testdata/stopped/ring.log.gz");
    let messages = bytecount(&bytes, b"INFO Send: ") + bytecount(&bytes, b"INFO Recv: ");
    let own = Options::default();
    let mut next = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        (next % below.max(1) as u64) as usize
    };
    for _ in 0..flips {
        let mut damaged = bytes.clone();
        for _ in 0..random(200) {
            let at = random(damaged.len());
            damaged[at] = random(256) as u8;
        }
        damaged.truncate(random(bytes.len()));
        // What is left may not be a log.
        let Ok(matrix) = of(&damaged, &own, 1) else {
            continue;
        };
        let calls = |of: TrafficBasis| {
            let totals = matrix.totals_by_basis();
            let of = totals.iter().find(|(basis, _)| *basis == of);
            of.map_or(0, |(_, sum)| sum.calls)
        };
        assert!(calls(TrafficBasis::Sent) + calls(TrafficBasis::Received) <= messages);
        assert_eq!(calls(TrafficBasis::Copied) + calls(TrafficBasis::Pairs), 0);
    }
}

fn bytecount(bytes: &[u8], word: &[u8]) -> u64 {
    memchr::memmem::find_iter(bytes, word).count() as u64
}

/// A line may say any size of communicator.
#[test]
fn a_size_that_cannot_be_is_not_walked_through() {
    let text = "rank,nranks,comm_id,op,count,datatype,root\n\
                1,4294967295,0x1,AlltoAll,1,int8,\n\
                4294967294,4294967295,0x2,Gather,18446744073709551615,fp64,4294967295\n\
                4294967295,3,0x3,Send,18446744073709551615,fp64,9223372036854775807\n\
                0,2,0x4,Send,18446744073709551615,fp64,-1\n\
                0,2,0x5,Recv,1,type<77>,1\n";
    let found = of(text.as_bytes(), &Options::default(), 1).unwrap();
    let calls: Vec<_> = found
        .totals_by_basis()
        .iter()
        .map(|(of, sum)| (*of, sum.calls))
        .collect();
    assert_eq!(
        calls,
        [(TrafficBasis::Sent, 2), (TrafficBasis::Received, 1)]
    );
}
