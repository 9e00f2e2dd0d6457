//! Dumps of real jobs, one dump in every form, and inputs that are no dumps.

use super::*;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::output::table::Row;
use crate::report::account::Account;
use crate::source::{self, InputName};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/flight")
        .join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    let origin = InputName::Path(file(name));
    let input = Input::open(&origin, source::Options::default(), BLOCK_REJOINER).unwrap();
    ordered::read_whole(&input, MAX_DUMP_BYTES).unwrap()
}

fn dump(name: &str) -> FlightDump {
    let (dump, cut) = parse_dump(&bytes(name), name, |_| {}).unwrap();
    assert_eq!((cut, dump.damaged), (None, 0));
    dump
}

/// The rows and the account of a dump, as a stage gets them.
fn table(name: &str) -> (Vec<String>, Account) {
    #[derive(Default)]
    struct Texts(Vec<String>);
    impl crate::formats::lines::RowVisitor for Texts {
        fn visit_row(&mut self, row: &Row<'_>) {
            let mut text = Vec::new();
            row.csv(&mut text);
            self.0.push(String::from_utf8(text).unwrap());
        }
    }
    let origin = InputName::Path(file(name));
    let input = Input::open(&origin, source::Options::default(), BLOCK_REJOINER).unwrap();
    let options = crate::formats::lines::Options {
        jobs: 1,
        strict: false,
    };
    let mut all = Vec::new();
    let sink = |Texts(rows)| {
        all.extend(rows);
        Ok(())
    };
    let account =
        ordered::read_ordered(read_calls, &input, options, Texts::default, |_| {}, sink).unwrap();
    (all, account)
}

/// `python3 -c 'import pickle, gzip; print(pickle.load(gzip.open("nccl_trace_rank_0.gz")))'`
#[test]
fn a_hung_rings_dump_is_what_python_reads() {
    let dump = dump("nccl_trace_rank_0.gz");
    assert_eq!((dump.version.as_str(), dump.rank), ("2.10", Some(0)));
    assert_eq!(dump.nccl_version.as_deref(), Some("2.28.9"));
    assert_eq!(dump.entries.len(), 240);
    let states = |state| dump.entries.iter().filter(|e| e.state == state).count();
    assert_eq!(
        (
            states(FlightCallState::Scheduled),
            states(FlightCallState::Completed)
        ),
        (154, 86)
    );
    let [world, context] = &dump.groups[..] else {
        panic!("{:?}", dump.groups);
    };
    assert_eq!(
        (&*world.name, &*world.desc, &*world.ranks),
        ("0", "default_pg", &[0, 1, 2, 3][..])
    );
    assert_eq!((&*context.name, &*context.desc), ("1", "context"));
    // The first send, of the group that record 4 launches.
    let send = &dump.entries[0];
    assert_eq!(send.op, FlightOp::Send { from: 0, to: 1 });
    assert_eq!(
        (send.state, send.coalesced),
        (FlightCallState::Scheduled, Some(FlightCallState::Completed))
    );
    assert_eq!((send.p2p_seq, send.op_id, send.pg_id), (1, 1, 1));
    assert_eq!(
        send.inputs.element_counts().collect::<Vec<_>>(),
        [Some(4 * 64 * 192)]
    );
    assert_eq!(&*send.inputs.types[0], "BFloat16");
    assert_eq!(send.created_ns, Some(1_795_306_166_459_380_467));
    let source = send.source_frame().unwrap();
    assert_eq!((source.line, source.file.ends_with("job.py")), (303, true));
    // Its launch is called through contextlib.
    let launch = &dump.entries[4];
    assert_eq!(
        (&launch.op, launch.source_frame().unwrap().line),
        (&FlightOp::Coalesced, 303)
    );
    // The last AllReduce was never started.
    let last = dump.entries.last().unwrap();
    assert_eq!(
        (last.collective_seq, last.reached_state()),
        (60, FlightCallState::Scheduled)
    );
    assert_eq!(last.source_frame().unwrap().line, 307);
}

#[test]
fn a_dumps_rows_are_its_calls() {
    let (rows, account) = table("nccl_trace_rank_0.gz");
    assert_eq!((rows.len(), account.calls, account.lines), (204, 204, 241));
    assert_eq!((account.other, account.damaged), (37, 0));
    assert_eq!(
        rows[0],
        ",,,,,,0,4,,,0,,Send,49152,bf16,,1,98304,,1,flight,,unix,\
         \"completed with its group, start is when it was enqueued\",1795306166459380467,,,,1,context,0,\n"
    );
    // A rank's place in each of its groups; a mesh's group is listed without its description.
    let (rows, _) = table("groups8.fr_rank4.pkl.gz");
    let has = |part: &str| rows.iter().filter(|row| row.contains(part)).count();
    assert!(
        rows[0].starts_with(",,,,,,0,2,,,0,,AllReduce,40000,bf16,,,80000,"),
        "{}",
        rows[0]
    );
    assert_eq!(has(",Recv,10000,bf16,,0,20000,"), 9);
    assert_eq!(dump("groups8.fr_rank4.pkl.gz").rank, Some(4));
}

#[test]
fn every_protocol_and_json_say_the_same() {
    let all: Vec<FlightDump> = (0..6)
        .map(|n| dump(&format!("protocol{n}.pkl.gz")))
        .collect();
    assert_eq!(all[0].entries.len(), 8);
    assert_eq!(all[0].entries[6].duration_ns, Some(1_250_000));
    assert_eq!(
        all[0].entries[6].started_ns,
        Some(1_795_306_167_000_000_001)
    );
    assert_eq!(all[0].entries[5].source_frame().unwrap().line, 307);
    for other in &all[1..] {
        assert_eq!(*other, all[0]);
    }
    let mut bare = all[0].clone();
    for entry in &mut bare.entries {
        entry.stack = [].into();
    }
    assert_eq!(dump("protocol.json.gz"), bare);
}

#[test]
fn each_form_is_known_by_its_keys() {
    for name in [
        "protocol0.pkl.gz",
        "protocol1.pkl.gz",
        "protocol5.pkl.gz",
        "nccl_trace_rank_0.gz",
    ] {
        let bytes = bytes(name);
        assert_eq!(
            (PICKLE.probe)(&InputHead::from_bytes(&bytes)),
            ProbeAnswer::Yes,
            "{name}"
        );
    }
    assert_eq!(
        (JSON.probe)(&InputHead::from_bytes(&bytes("protocol.json.gz"))),
        ProbeAnswer::Yes
    );
    assert_eq!(
        (JSON.probe)(&InputHead::from_bytes(b"{\"version\": 1, \"entries\": []}")),
        ProbeAnswer::No
    );
}

#[test]
fn a_pickle_that_would_run_code_is_refused() {
    // cos\nsystem\n(S'true'\ntR.
    for (pickle, at) in [
        (&b"\x80\x02cos\nsystem\n(X\x04\0\0\0truetR."[..], 2),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", 14),
        (b"\x80\x02}(X\x07\0\0\0entriesP1\n.", 16),
    ] {
        match parse_dump(pickle, "x", |_| {}) {
            Err(DumpRefusal::Pickle { at: found, why }) => {
                assert_eq!(found, at);
                assert!(why.contains("may run code"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A pickle of `{"version": "2.10", "entries": ENTRIES}`.
fn of_entries(entries: &[u8]) -> Vec<u8> {
    [
        b"\x80\x02}(X\x07\0\0\0versionX\x04\0\0\x002.10X\x07\0\0\0entries",
        entries,
        b"u.",
    ]
    .concat()
}

#[test]
fn bombs_stay_small() {
    // Each list holds the one before twice: 2^200 items, 200 lists.
    let mut nested = b"]q\0".to_vec();
    for _ in 0..200 {
        nested.extend_from_slice(b"0](h\0h\0eq\0");
    }
    let (dump, _) = parse_dump(&of_entries(&nested), "x", |_| {}).unwrap();
    assert_eq!((dump.entries.len(), dump.damaged), (0, 2));
    // A list that holds itself, as deep as one likes.
    let (dump, _) = parse_dump(&of_entries(b"]q\0h\0a"), "x", |_| {}).unwrap();
    assert_eq!((dump.entries.len(), dump.damaged), (0, 1));
    // One record a million times, and one stack of a million lines in each of many.
    let (dump, _) = parse_dump(
        &of_entries(&[b"](}q\x01", &b"h\x01".repeat(100_000)[..], b"e"].concat()),
        "x",
        |_| {},
    )
    .unwrap();
    assert_eq!((dump.entries.len(), dump.damaged), (0, 100_001));
    // Opened and never closed, and more values than any dump has.
    for (byte, n) in [
        (b'(', 10_000_000),
        (b']', 5_000_000),
        (b'N', 5_000_000),
        (b'}', 5_000_000),
    ] {
        let bytes = [&b"\x80\x02"[..], &vec![byte; n]].concat();
        assert!(parse_dump(&bytes, "x", |_| {}).is_err());
    }
    let deep = [&b"{\"entries\":"[..], &vec![b'['; 1_000_000]].concat();
    let (dump, cut) = parse_dump(&deep, "x", |_| {}).unwrap();
    assert_eq!(dump.entries.len(), 0);
    assert!(cut.is_some());
}

#[test]
fn shared_lists_are_not_walked_once_for_each_use() {
    // 3,000 records share one list of 3,000 shapes, and each shape is the same list of 3,000 numbers.
    let key = |name: &str| {
        [
            &b"X"[..],
            &(name.len() as u32).to_le_bytes(),
            name.as_bytes(),
        ]
        .concat()
    };
    let mut entry = b"}(".to_vec();
    for (name, value) in [
        ("record_id", &b"K\x01"[..]),
        ("collective_seq_id", b"K\x01"),
        ("profiling_name", b"X\x0f\0\0\0nccl:all_reduce"),
        ("state", b"X\x09\0\0\0completed"),
        ("process_group", b"X\x01\0\0\x000X\x01\0\0\x000\x86"),
        ("input_sizes", b"h\x02"),
    ] {
        entry.extend(key(name));
        entry.extend_from_slice(value);
    }
    entry.push(b'u');
    let dims = [&b"]("[..], &b"K\x07".repeat(3000), b"eq\x010"].concat();
    let shapes = [&b"]("[..], &b"h\x01".repeat(3000), b"eq\x020"].concat();
    let entries = [&dims[..], &shapes, b"](", &entry.repeat(3000), b"e"].concat();
    let mut taken = 0;
    let (dump, _) = parse_dump(&of_entries(&entries), "x", |_| taken += 1).unwrap();
    assert_eq!((dump.entries.len(), dump.damaged, taken), (0, 3000, 3000));
}

/// Cut anywhere: the records before the place, and nothing else.
#[test]
fn a_cut_dump_has_the_records_before_the_cut() {
    for (name, step) in [
        ("protocol2.pkl.gz", 7),
        ("protocol4.pkl.gz", 7),
        ("protocol.json.gz", 5),
    ] {
        let whole = bytes(name);
        let all = dump(name).entries;
        let mut most = 0;
        for cut in (1..whole.len()).step_by(step).chain([whole.len() - 1]) {
            let Ok((dump, place)) = parse_dump(&whole[..cut], name, |_| {}) else {
                continue;
            };
            assert!(place.is_some());
            assert!(dump.damaged <= 1, "{name} {cut}");
            for (entry, of) in dump.entries.iter().zip(&all) {
                assert_eq!((entry.record_id, &entry.name), (of.record_id, &of.name));
                assert_eq!(
                    (&entry.stack, &entry.inputs),
                    (&of.stack, &of.inputs),
                    "{name} {cut}"
                );
            }
            assert!(dump.entries.len() >= most || whole[0] == b'(');
            most = dump.entries.len();
        }
        assert!(most >= 7, "{name}: {most}");
    }
}

/// Bytes turned at random: no more records than there were, each of them counted.
#[test]
fn turned_bytes_invent_no_record() {
    // `FLIPS=10000 cargo test` for the full number.
    let flips = std::env::var("FLIPS").map_or(400, |n| n.parse().unwrap());
    for name in [
        "nccl_trace_rank_0.gz",
        "protocol0.pkl.gz",
        "protocol.json.gz",
    ] {
        let whole = bytes(name);
        let all = dump(name).entries.len() as u64;
        let mut seed = 7_u64;
        for _ in 0..flips {
            let mut bytes = whole.clone();
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] ^= (seed >> 20) as u8 | 1;
            let mut taken = 0;
            if let Ok((dump, _)) = parse_dump(&bytes, name, |_| taken += 1) {
                let found = dump.entries.len() as u64;
                assert_eq!(found + dump.damaged, taken);
                assert!(found <= all, "{name}: {found} of {all}, byte {at}");
            }
        }
    }
}
