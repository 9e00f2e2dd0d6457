//! Exports that are made here, of the schema of 2022 and with NCCL's patched texts, and real ones that are
//! cut and damaged.

use super::*;
use crate::formats::gpu::{ActivityKind, GpuActivity, GpuVisitor, NamedRange, RecorderSession};
use crate::formats::lines;
use crate::formats::lines::RowVisitor;
use crate::formats::ordered;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::output::table::{Row, csv_header};
use crate::report::account::Account;
use crate::source::{self, InputName};
use proptest::prelude::*;
use rusqlite::Connection;
use std::io::Read as _;
use std::path::Path;

/// What a timeline has, as text.
#[derive(Default)]
struct Seen {
    activities: Vec<String>,
    ranges: Vec<String>,
    session: RecorderSession,
    notes: Vec<String>,
}

impl GpuVisitor for Seen {
    fn visit_activity(&mut self, a: &GpuActivity<'_>) -> Result<()> {
        assert!(a.start_ns <= a.end_ns);
        self.activities.push(format!(
            "{:?} {} {} {}..{}",
            a.kind,
            String::from_utf8_lossy(a.name),
            a.device,
            a.start_ns,
            a.end_ns
        ));
        Ok(())
    }

    fn visit_range(&mut self, r: &NamedRange<'_>) {
        let name = String::from_utf8_lossy(r.name);
        self.ranges
            .push(format!("{name} {}..{}", r.start_ns, r.end_ns));
    }

    fn visit_session(&mut self, session: &RecorderSession) {
        self.session = session.clone();
    }

    fn add_note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// Rows as CSV.
#[derive(Default)]
struct Texts(Vec<u8>);

impl RowVisitor for Texts {
    fn visit_row(&mut self, row: &Row<'_>) {
        row.csv(&mut self.0);
    }
}

fn input(path: &Path) -> Input {
    Input::open(
        &InputName::Path(path.to_owned()),
        source::Options::default(),
        BLOCK_REJOINER,
    )
    .unwrap()
}

/// The call table of a file, and its account.
fn calls(path: &Path) -> Result<(String, Account)> {
    let options = lines::Options {
        jobs: 1,
        strict: false,
    };
    let mut text = csv_header().into_bytes();
    let sink = |Texts(rows)| {
        text.extend(rows);
        Ok(())
    };
    let account = ordered::read_ordered(
        read_calls,
        &input(path),
        options,
        Texts::default,
        |_| {},
        sink,
    )?;
    Ok((String::from_utf8_lossy(&text).into_owned(), account))
}

/// Some columns of a call table.
fn columns(table: &str, wanted: &[&str]) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at: Vec<usize> = wanted
        .iter()
        .map(|name| header.iter().position(|known| known == *name).unwrap())
        .collect();
    let row = |row: csv::StringRecord| at.iter().map(|&at| &row[at]).collect::<Vec<_>>().join(" ");
    reader
        .records()
        .map(|record| row(record.unwrap()))
        .collect()
}

/// A kept export, unpacked.
fn kept(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/nsys")
        .join(name);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

const SCHEMA_2022: &str = "
    CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);
    INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_SCHEMA_VERSION', '3.0.0');
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO StringIds VALUES (1, 'ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm *)'),
        (2, 'ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *)'), (3, 'gemm'), (9, 'SECRET=x');
    CREATE TABLE ANALYSIS_DETAILS (duration INTEGER, startTime INTEGER, stopTime INTEGER);
    INSERT INTO ANALYSIS_DETAILS VALUES (900, 100, 1000);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (5000000000, '', '');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
        blockX INTEGER, blockY INTEGER, blockZ INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER,
        text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, jsonText TEXT);";

/// The process 7, and its thread 7.
const PROCESS: i64 = 7 << 24;
const THREAD: i64 = PROCESS + 7;

/// Writes an export of 2022 with a NCCL that names its arguments in texts.
fn old(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch(SCHEMA_2022).unwrap();
    let kernel = |start: i64, id: i64, process: i64, name: i64| {
        let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?1 + 50, 0, 1, 7, ?2, ?3, ?4, ?4, 2, 1, 1, 64, 1, 1)";
        db.execute(sql, (start, id, process, name)).unwrap();
    };
    let launch = |at: i64, id: i64| {
        let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?1 + 1, 0, ?2, ?3, 1, 0)";
        db.execute(sql, (at, THREAD, id)).unwrap();
    };
    let range = |from: i64, to: i64, text: &str| {
        let sql = "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, ?3, ?4, NULL, 1, NULL)";
        db.execute(sql, (from, to, text, THREAD)).unwrap();
    };
    let arguments = "stream 0x7f00, data_size 4096, type_size 4";
    range(
        200,
        210,
        &format!("ncclAllReduce(): commHash 0x5f, {arguments}, red_op 0, pid 7"),
    );
    launch(205, 11);
    kernel(300, 11, PROCESS, 1);
    // Another process' kernel has the same number.
    kernel(1, 11, 8 << 24, 1);
    range(220, 221, "ncclGroupStart(): pid 7");
    range(
        222,
        223,
        &format!("ncclSend(): commHash 0x5f, {arguments}, receiver_rank 1, pid 7"),
    );
    range(
        224,
        225,
        &format!("ncclRecv(): commHash 0x5f, {arguments}, sender_rank 1, pid 7"),
    );
    range(226, 240, "ncclGroupEnd(): pid 7");
    launch(230, 12);
    kernel(400, 12, PROCESS, 2);
    kernel(410, 13, PROCESS, 3);
    range(
        250,
        251,
        &format!("ncclBroadcast(): commHash 0x5f, {arguments}, root 1, pid 7"),
    );
    range(100, 900, "iteration 1");
}

#[test]
fn an_export_of_2022_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a ?#%.sqlite");
    old(&path);
    let mut seen = Seen::default();
    let account = read_timeline(&input(&path), &mut seen).unwrap();
    assert_eq!(account.damaged, 0, "{:?}", account.places);
    assert_eq!(
        (seen.session.window, seen.session.utc_ns),
        (Some((100, 1000)), Some(5_000_000_000))
    );
    assert_eq!(seen.activities.len(), 4);
    assert_eq!(seen.activities[3], "Kernel gemm 0 410..460");
    assert!(
        seen.ranges.contains(&"iteration 1 100..900".to_owned()),
        "{:?}",
        seen.ranges
    );
    let (table, account) = calls(&path).unwrap();
    assert_eq!(
        (account.damaged, account.calls),
        (0, 4),
        "{:?}",
        account.places
    );
    let wanted = [
        "op", "bytes", "root", "redop", "comm_id", "stream", "start_ns", "dur_ns", "clock",
        "quality",
    ];
    assert_eq!(
        columns(&table, &wanted),
        [
            "AllReduce 4096  sum 0x5f 0x7f00 5000000300 50 gpu kernel, without its launch",
            "Send 4096 1  0x5f 0x7f00 5000000400 50 gpu kernel of a group",
            "Recv 4096 1  0x5f 0x7f00 5000000400 50 gpu kernel of a group",
            "Broadcast 4096 1  0x5f 0x7f00 5000000250  unix enqueue only",
        ]
    );
    assert!(!table.contains("SECRET"));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn every_table_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.sqlite");
    old(&whole);
    let names: Vec<String> = {
        let db = Connection::open(&whole).unwrap();
        let mut names = db.prepare("SELECT name FROM sqlite_master").unwrap();
        names
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    for name in names {
        let path = dir.path().join(format!("{name}.sqlite"));
        old(&path);
        Connection::open(&path)
            .unwrap()
            .execute(&format!("DROP TABLE {name}"), [])
            .unwrap();
        let mut seen = Seen::default();
        let account = read_timeline(&input(&path), &mut seen).unwrap();
        assert_eq!(account.damaged, 0, "{name}: {:?}", account.places);
        let (_, account) = calls(&path).unwrap();
        let expected = if name == "NVTX_EVENTS" { 0 } else { 4 };
        assert_eq!((account.damaged, account.calls), (0, expected), "{name}");
        extract_log(&input(&path), false).unwrap();
    }
}

#[test]
fn a_process_with_several_gpus_is_told_by_communicator() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(SCHEMA_2022).unwrap();
    let insert = |sql: &str| {
        db.execute(&sql.replace("THREAD", &THREAD.to_string()), [])
            .unwrap()
    };
    for (comm, device) in [("0xa", 0), ("0xb", 1)] {
        insert(&format!(
            "INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, NULL, 'ncclCommInitRank(): commHash {comm} rank {device} \
             nranks 2 cudaDev {device}', THREAD, NULL, 1, NULL)"
        ));
        insert(&format!(
            "INSERT INTO NVTX_EVENTS VALUES (12, 13, 59, NULL, 'ncclAllReduce(): commHash {comm}, data_size 8', \
             THREAD, NULL, 1, NULL)"
        ));
        insert(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, 30, 0, THREAD, {device}, 1, 0)",
            22 + device
        ));
        insert(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, {}, {device}, 1, 7, {device}, {PROCESS}, 1, 1, 2, 1, \
             1, 64, 1, 1)",
            40 + device
        ));
    }
    insert(
        "INSERT INTO NVTX_EVENTS VALUES (10, 11, 59, NULL, 'ncclGroupStart', THREAD, NULL, 1, NULL)",
    );
    insert(
        "INSERT INTO NVTX_EVENTS VALUES (20, 29, 59, NULL, 'ncclGroupEnd', THREAD, NULL, 1, NULL)",
    );
    let (table, _) = calls(&path).unwrap();
    let wanted = [
        "comm_id", "dev", "rank", "nranks", "seq", "bytes", "dur_ns", "quality",
    ];
    assert_eq!(
        columns(&table, &wanted),
        [
            "0xa 0 0 2 0 8 10 kernel of a group",
            "0xb 1 1 2 0 8 11 kernel of a group"
        ]
    );
}

#[test]
fn graphs_are_activities_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("infer.sqlite");
    std::fs::write(&path, kept("infer.sqlite.gz")).unwrap();
    let mut seen = Seen::default();
    read_timeline(&input(&path), &mut seen).unwrap();
    let graphs = seen
        .activities
        .iter()
        .filter(|text| text.starts_with(&format!("{:?}", ActivityKind::Graph)));
    assert_eq!(graphs.count(), 4);
    assert!(
        seen.notes
            .iter()
            .any(|note| note.contains("recorded as a whole")),
        "{:?}",
        seen.notes
    );
    assert_eq!(&*seen.session.host, b"node00");
    assert!(
        seen.ranges
            .iter()
            .any(|range| range.starts_with("NCCL:ncclAllReduce "))
    );
}

/// Reads a file in every way; none may panic or take long.
fn survives(path: &Path) -> (bool, bool) {
    let mut seen = Seen::default();
    let timeline = read_timeline(&input(path), &mut seen);
    let calls = calls(path);
    if let Ok((text, account)) = &calls {
        assert_eq!(account.count_decided_lines(), account.lines);
        assert!(!text.contains("SECRET_TOKEN"));
    }
    for all in [false, true] {
        if let Ok(Some(log)) = extract_log(&input(path), all) {
            let mut text = Vec::new();
            log.open_document().unwrap().read_to_end(&mut text).unwrap();
        }
    }
    let is_damaged = timeline.as_ref().is_ok_and(|account| account.damaged > 0);
    (timeline.is_ok(), is_damaged)
}

#[test]
fn an_export_that_is_cut_is_read_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.sqlite");
    let whole = kept("ring.sqlite.gz");
    for tenth in 0..=10 {
        std::fs::write(&path, &whole[..whole.len() * tenth / 10]).unwrap();
        let (is_read, is_damaged) = survives(&path);
        assert_eq!(
            (is_read, is_damaged),
            (tenth > 1, (2..10).contains(&tenth)),
            "{tenth}"
        );
    }
    // The rows before the cut are read.
    std::fs::write(&path, &whole[..whole.len() * 7 / 10]).unwrap();
    let mut seen = Seen::default();
    let account = read_timeline(&input(&path), &mut seen).unwrap();
    assert!(!seen.activities.is_empty() && account.places[0].what.contains("ends too early"));
}

#[test]
fn a_journal_beside_an_export_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    old(&path);
    std::fs::write(dir.path().join("a.sqlite-journal"), b"x").unwrap();
    let (_, account) = calls(&path).unwrap();
    assert!(
        account.places[0].what.contains("still being written"),
        "{:?}",
        account.places
    );
}

#[test]
fn tables_that_only_look_like_those_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    let db = Connection::open(&path).unwrap();
    // It would never end.
    db.execute_batch(
        "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)
             SELECT start, start AS end, 59 AS eventType, 'ncclSend' AS text FROM n;
         CREATE TABLE TARGET_INFO_GPU (id INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start TEXT, end BLOB, x AS (zeroblob(1000000000)));
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('a', x'00');",
    )
    .unwrap();
    drop(db);
    let (_, account) = calls(&path).unwrap();
    assert_eq!(account.calls, 0);
    let mut seen = Seen::default();
    let account = read_timeline(&input(&path), &mut seen).unwrap();
    assert_eq!((account.damaged, seen.activities.len()), (1, 0));
}

static RING: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| kept("ring.sqlite.gz"));

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn damaged_exports_are_read_as_far_as_they_go(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        near in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flipped.sqlite");
        let mut bytes = RING.clone();
        // The header, the schema and the roots of trees are near the beginning.
        let most = if near { 4096 } else { bytes.len() };
        for (at, value) in flips {
            let at = at.index(most);
            bytes[at] = value;
        }
        bytes[..SQLITE_MAGIC.len()].copy_from_slice(SQLITE_MAGIC);
        std::fs::write(&path, bytes).unwrap();
        survives(&path);
    }
}
