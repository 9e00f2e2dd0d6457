//! A real trace in every form, its damage, and traces of other programs.

use super::scan::{self, KinetoEvent, KinetoVisitor};
use super::*;
use crate::formats::gpu::{GpuActivity, GpuVisitor, NamedRange, RecorderSession};
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::source::{self, InputName};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The trace of a rank of a job with expert parallelism, as PyTorch 2.11 wrote it.
static TRACE: LazyLock<String> = LazyLock::new(|| {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/kineto/ep-rank0.json.gz"
    );
    let origin = InputName::Path(path.into());
    let input = Input::open(&origin, source::Options::default(), BLOCK_REJOINER).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut input.open_reader().unwrap(), &mut text).unwrap();
    text
});

/// The sample with one of 40 events.
static SHORT: LazyLock<String> = LazyLock::new(|| {
    let (header, rest) = TRACE.split_once("\"traceEvents\": [\n").unwrap();
    let (events, end) = rest.rsplit_once("\n  ],\n").unwrap();
    let events: Vec<&str> = events.split("\n  },\n").step_by(40).collect();
    let events = events.join("\n  },\n");
    format!("{header}\"traceEvents\": [\n{events}\n  }}\n  ],\n{end}")
});

/// All of a timeline, as text.
#[derive(Debug, Default, PartialEq)]
struct All {
    activities: Vec<String>,
    ranges: Vec<String>,
    session: Option<RecorderSession>,
    notes: Vec<String>,
}

impl GpuVisitor for All {
    fn visit_activity(&mut self, a: &GpuActivity<'_>) -> Result<()> {
        let text = format!("{a:?} {}", String::from_utf8_lossy(a.name));
        self.activities.push(text);
        Ok(())
    }
    fn visit_range(&mut self, range: &NamedRange<'_>) {
        self.ranges.push(format!("{range:?}"));
    }
    fn visit_session(&mut self, session: &RecorderSession) {
        assert!(self.session.is_none());
        self.session = Some(session.clone());
    }
    fn add_note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

fn input(bytes: &[u8]) -> (tempfile::NamedTempFile, Input) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    let origin = InputName::Path(file.path().to_owned());
    let input = Input::open(&origin, source::Options::default(), BLOCK_REJOINER).unwrap();
    (file, input)
}

fn read_all(bytes: &[u8]) -> Result<(All, Account)> {
    let (_file, input) = input(bytes);
    let mut all = All::default();
    let account = read_timeline(&input, &mut all)?;
    assert_eq!(account.count_decided_lines(), account.lines);
    Ok((all, account))
}

/// The rows, as CSV, and the account.
fn rows(bytes: &[u8]) -> Result<(Vec<String>, Account)> {
    #[derive(Default)]
    struct Texts(Vec<String>);
    impl crate::formats::lines::RowVisitor for Texts {
        fn visit_row(&mut self, row: &crate::output::table::Row<'_>) {
            let mut text = Vec::new();
            row.csv(&mut text);
            self.0.push(String::from_utf8(text).unwrap());
        }
    }
    let (_file, input) = input(bytes);
    let options = crate::formats::lines::Options {
        jobs: 1,
        strict: false,
    };
    let mut all = Vec::new();
    let sink = |Texts(rows)| {
        all.extend(rows);
        Ok(())
    };
    let new = Texts::default;
    let account =
        crate::formats::ordered::read_ordered(read_calls, &input, options, new, |_| {}, sink)?;
    assert_eq!(account.count_decided_lines(), account.lines);
    Ok((all, account))
}

#[test]
fn a_trace_is_what_python_reads() {
    let (all, account) = read_all(TRACE.as_bytes()).unwrap();
    let doc: Value = serde_json::from_str(&TRACE).unwrap();
    let events = doc["traceEvents"].as_array().unwrap();
    assert_eq!(account.lines, events.len() as u64 + 1);
    assert_eq!((account.damaged, all.notes.len()), (0, 0));
    let of = |cat: &str| events.iter().filter(|e| e["cat"] == cat).count();
    let gpu = of("kernel") + of("gpu_memcpy") + of("gpu_memset");
    assert_eq!(all.activities.len(), gpu);
    assert_eq!(account.other, gpu as u64 + 1);
    assert_eq!(
        all.ranges.len(),
        of("user_annotation") + of("gpu_user_annotation")
    );
    let session = all.session.unwrap();
    assert_eq!(session.rank, Some(0));
    assert_eq!(
        session.utc_ns.map(|ns| ns.to_string()),
        Some(doc["baseTimeNanoseconds"].to_string())
    );
    assert!(session.window.is_some());
}

#[test]
fn calls_have_counts_types_ranks_and_times() {
    let (rows, account) = rows(TRACE.as_bytes()).unwrap();
    assert_eq!((rows.len(), account.calls, account.damaged), (168, 168, 0));
    assert!(
        rows.iter()
            .all(|row| row.contains(",kineto,") && !row.ends_with(",,\n"))
    );
    let with = |part: &str| rows.iter().filter(|row| row.contains(part)).count();
    assert_eq!(
        (with(",Send,"), with(",Recv,"), with(",AlltoAll,")),
        (64, 64, 8)
    );
    assert_eq!(with("part of an AlltoAll"), 128);
    assert_eq!(with("counted as equal parts"), 8);
    assert_eq!(with("888,888,0,0,2"), with("888,888,"));
    assert!(rows[0].starts_with("5,,,888,"), "{}", rows[0]);
}

#[test]
fn kernels_are_calls_by_their_names_where_no_call_has_arguments() {
    let mut doc: Value = serde_json::from_str(&TRACE).unwrap();
    let events = doc["traceEvents"].as_array_mut().unwrap();
    let is_nccl = |e: &Value| e["cat"] == "kernel" && e["name"].as_str().unwrap().contains("nccl");
    let kernels = events.iter().filter(|e| is_nccl(e)).count();
    for event in events {
        let Some(args) = event["args"].as_object_mut() else {
            continue;
        };
        args.retain(|key, _| matches!(key.as_str(), "External id" | "device" | "stream"));
    }
    let (rows, account) = rows(doc.to_string().as_bytes()).unwrap();
    assert_eq!((rows.len(), account.calls), (kernels, kernels as u64));
    let is_by_name = |row: &String| row.contains("known by the kernel's name only");
    assert!(kernels > 20 && rows.iter().all(is_by_name));
    assert!(account.remarks[0].starts_with("the trace has no arguments of calls"));
}

#[test]
fn a_trace_that_is_cut_gives_what_is_before() {
    let whole = read_all(SHORT.as_bytes()).unwrap().0;
    assert!(whole.activities.len() > 20, "{}", whole.activities.len());
    for n in 1..200 {
        let at = SHORT.len() * n / 200;
        let cut = read_all(&SHORT.as_bytes()[..at]);
        let Ok((part, account)) = cut else {
            // There is nothing yet to know it by.
            assert!(n < 5, "{n}");
            continue;
        };
        assert!(
            whole.activities.starts_with(&part.activities),
            "cut at {at}"
        );
        assert!(whole.ranges.starts_with(&part.ranges), "cut at {at}");
        assert_eq!(account.damaged, 1, "cut at {at}: {account:?}");
        assert!(part.notes[0].contains("ends in the middle"), "cut at {at}");
        let _ = rows(&SHORT.as_bytes()[..at]);
    }
}

#[test]
fn a_byte_that_is_flipped_costs_one_event_or_two() {
    let whole = read_all(SHORT.as_bytes()).unwrap().0;
    let has = |all: &[String], one: &String| all.contains(one);
    for n in 0..1000_usize {
        let mut bytes = SHORT.clone().into_bytes();
        let at = bytes.len() * n / 1000;
        bytes[at] ^= 1 << (n % 8);
        let Ok((all, _)) = read_all(&bytes) else {
            continue;
        };
        let lost = whole
            .activities
            .iter()
            .filter(|one| !has(&all.activities, one))
            .count();
        let new = all
            .activities
            .iter()
            .filter(|one| !has(&whole.activities, one))
            .count();
        // A digit that is another is no damage that can be seen.
        assert!(
            new <= 1 && lost <= 2,
            "byte {at}: {new} invented, {lost} lost"
        );
        if n % 20 == 0 {
            let _ = rows(&bytes);
        }
    }
}

/// Events of the trace as JSON, in another order and form.
fn events() -> Vec<Value> {
    let doc: Value = serde_json::from_str(&SHORT).unwrap();
    doc["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn every_form_of_a_trace_gives_the_same() {
    // Python writes times as numbers of 64 bits: they are the same here, in µs with three digits.
    let whole = read_all(SHORT.as_bytes()).unwrap().0;
    let events = events();
    let base = "1790857026000000000";
    let compact = serde_json::to_string(&events).unwrap();
    let header = format!(
        "{{\"schemaVersion\":1,\"baseTimeNanoseconds\":{base},\"distributedInfo\":{{\"rank\":0}},"
    );
    let before = format!("{header}\"traceEvents\":{compact}}}");
    let behind = format!(
        "{{\"traceEvents\":{},\n{}}}",
        serde_json::to_string_pretty(&events).unwrap(),
        header.trim_matches(['{', ','])
    );
    for text in [&before, &behind] {
        let (all, account) = read_all(text.as_bytes()).unwrap();
        assert_eq!(
            (&all.activities, &all.ranges),
            (&whole.activities, &whole.ranges)
        );
        assert_eq!((account.damaged, all.session), (0, whole.session.clone()));
    }
    // A bare list, which may lack its end.
    for text in [compact.as_str(), compact.trim_end_matches(']')] {
        let (all, account) = read_all(text.as_bytes()).unwrap();
        assert_eq!(
            (&all.activities, &all.ranges),
            (&whole.activities, &whole.ranges)
        );
        assert_eq!((account.damaged, all.session.unwrap().utc_ns), (0, None));
    }
}

#[test]
fn numbers_that_json_does_not_have_are_read() {
    let text = "{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k \\\"q\\\" \
                \\u00e9\",\"pid\":0,\"tid\":7,\"ts\":1.5,\"dur\":2,\"args\":{\"warps per SM\":inf,\"x\":NaN,\
                \"y\":-Infinity,\"grid\":[1,[2]],\"device\":3,\"stream\":7}},]}";
    let (all, account) = read_all(text.as_bytes()).unwrap();
    assert_eq!((all.activities.len(), account.damaged), (1, 0));
    let one = &all.activities[0];
    assert!(
        one.contains("device: 3") && one.ends_with("k \"q\" é"),
        "{one}"
    );
    assert!(one.contains("start_ns: 1500, end_ns: 3500"), "{one}");
    let (all, account) = read_all(text.replace("\"dur\":2", "\"dur\":-2").as_bytes()).unwrap();
    assert_eq!((all.activities.len(), account.damaged), (0, 1));
}

/// PyTorch 2.1: whole microseconds since 1970, kernels without arguments, lists that are no texts.
#[test]
fn older_traces_are_joined_by_their_external_ids() {
    let record = |id: u32, ts: u64, more: &str| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":9,"tid":8,"ts":{ts},"dur":5,
            "args":{{"External id":{id},"dtype":"Half","In split size":[],"Out split size":[],
            "Process Group Ranks":[4,6],"Group size":2,"Process Group Name":"3",{more}}}}}"#
        )
    };
    let kernel = |id: u32, ts: u64| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*)","pid":1,
            "tid":20,"ts":{ts},"dur":7,"args":{{"External id":{id},"device":1,"stream":20}}}}"#
        )
    };
    let t = 1_700_000_000_000_000_u64;
    let events = [
        kernel(3, t + 40),
        kernel(1, t + 20),
        // Of a batch: its calls have no kernel of their own.
        kernel(77, t + 60),
        record(
            1,
            t,
            r#""Collective name":"allreduce","In msg nelems":10,"Out msg nelems":10"#,
        ),
        record(
            2,
            t + 1,
            r#""Collective name":"send","In msg nelems":5,"Out msg nelems":5,"Rank":1"#,
        ),
        record(
            4,
            t + 2,
            r#""Collective name":"recv","In msg nelems":6,"Out msg nelems":6,"Src Rank":6,"Process Group Description":"pipeline""#,
        ),
        record(
            5,
            t + 3,
            r#""Collective name":"wait","In msg nelems":0,"Out msg nelems":0"#,
        ),
        record(
            6,
            t + 4,
            r#""Collective name":"barrier","In msg nelems":0,"Out msg nelems":0"#,
        ),
        record(
            3,
            t + 5,
            r#""Collective name":"broadcast","In msg nelems":8,"Out msg nelems":8,"Rank":1"#,
        ),
        record(
            7,
            t + 6,
            r#""Collective name":"all_gather","In msg nelems":3,"Out msg nelems":6,"Seq":9"#,
        ),
        record(
            8,
            t + 7,
            r#""Collective name":"reduce_scatter","In msg nelems":6,"Out msg nelems":3"#,
        ),
    ];
    let header = r#""schemaVersion":1,"distributedInfo":{"rank":6,"backend":"nccl",
        "pg_config":[{"pg_name":"3","pg_desc":"mesh \u00e9"},{"pg_name":"4"}]}"#;
    let text = format!("{{{header},\"traceEvents\":[{}]}}", events.join(","));
    let (rows, account) = rows(text.as_bytes()).unwrap();
    assert_eq!(account.damaged, 0);
    let picked = rows.iter().map(|row| {
        let fields: Vec<&str> = row.trim_end().split(',').collect();
        // dev, rank, nranks, seq, op, count, datatype, root, dur_ns, start_ns
        [5, 6, 7, 10, 12, 13, 14, 16, 21]
            .map(|at| fields[at])
            .join(" ")
    });
    let picked: Vec<String> = picked.collect();
    assert_eq!(
        picked,
        [
            "1 1 2  AllReduce 10 fp16  7000",
            " 1 2  Send 5 fp16 1 ",
            " 1 2  Recv 6 fp16 1 ",
            "1 1 2  Broadcast 8 fp16 1 7000",
            " 1 2 8 AllGather 3 fp16  ",
            " 1 2  ReduceScatter 3 fp16  ",
        ]
    );
    assert!(
        rows[0].contains(",unix,\"kernel on the GPU, without its launch\",1700000000000020000,"),
        "{}",
        rows[0]
    );
    // The description is the header's where the call has none.
    assert!(
        rows[0].contains(",,,,3,mesh é,6,17000000000"),
        "{}",
        rows[0]
    );
    assert!(
        rows[2].contains(",,,,3,pipeline,6,17000000000"),
        "{}",
        rows[2]
    );
}

#[test]
fn the_trace_of_another_program_is_refused() {
    let text = r#"{"traceEvents":[{"ph":"X","name":"x","cat":"devtools.timeline","pid":1,"tid":2,"ts":3,"dur":1}]}"#;
    let error = read_all(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("not of torch.profiler"), "{error}");
    assert!(rows(text.as_bytes()).is_err());
}

/// Returns the keys of a text's events, by a scan in blocks.
fn scanned(text: &[u8], block: usize) -> (Vec<String>, u64, bool) {
    #[derive(Default)]
    struct Keep(Vec<String>, u64);
    impl KinetoVisitor for Keep {
        fn visit_member(&mut self, key: &[u8], value: &[u8]) {
            self.0
                .push(format!("{} {}", key.escape_ascii(), value.escape_ascii()));
        }
        fn visit_event(&mut self, event: &KinetoEvent<'_>) -> Result<()> {
            self.0.push(format!("{event:?}"));
            Ok(())
        }
        fn visit_damaged(&mut self, _: Lacks, _: &[u8]) {
            self.1 += 1;
        }
        fn progress(&mut self, _: u64) {}
    }
    let mut keep = Keep::default();
    let mut reader = text;
    let end = scan::scan_by_blocks(&mut reader, block, &mut keep)
        .unwrap()
        .unwrap();
    (keep.0, keep.1, end.is_cut)
}

/// Pieces of traces, in any order.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => r#"\{"ph":"X","cat":"(kernel|cpu_op)","ts":[0-9]{1,4},"args":\{"a":\[1,"x"\]\}\}"#,
        4 => ", \n?",
        1 => r#"\{"traceEvents":\["#,
        1 => r#"\],"x":1\}"#,
        2 => r#"[\[\]{}",:\\a1\n ]{1,4}"#,
    ]
}

proptest! {
    /// Wherever blocks end.
    #[test]
    fn blocks_give_what_the_whole_gives(pieces in proptest::collection::vec(piece(), 0..20), block in 1..99_usize) {
        let text = pieces.concat();
        prop_assert_eq!(scanned(text.as_bytes(), block), scanned(text.as_bytes(), 1 << 20));
    }

    /// What serde_json reads of a whole trace.
    #[test]
    fn events_are_those_of_a_json_reader(
        events in proptest::collection::vec(
            proptest::collection::btree_map("ph|cat|name|ts|dur|tid|x", r#"[a-c"\\{}\[\],: ]{0,9}"#, 0..6), 0..9),
        pretty: bool,
    ) {
        let events: Vec<BTreeMap<String, String>> = events;
        let doc = serde_json::json!({"traceEvents": events, "zz": {"a": [1]}});
        let text = if pretty { serde_json::to_string_pretty(&doc) } else { serde_json::to_string(&doc) };
        let (found, damaged, is_cut) = scanned(text.unwrap().as_bytes(), 64);
        prop_assert_eq!((found.len(), damaged, is_cut), (events.len() + 1, 0, false));
        for (found, event) in found.iter().zip(&events) {
            let quoted = |key: &str| event.get(key).map_or(String::new(), |v| serde_json::to_string(v).unwrap());
            let (ph, cat, name) = (quoted("ph"), quoted("cat"), quoted("name"));
            let (ts, dur, tid) = (quoted("ts"), quoted("dur"), quoted("tid"));
            let expected = KinetoEvent {
                ph: ph.as_bytes(),
                cat: cat.as_bytes(),
                name: name.as_bytes(),
                ts: ts.as_bytes(),
                dur: dur.as_bytes(),
                tid: tid.as_bytes(),
                ..KinetoEvent::default()
            };
            prop_assert_eq!(found, &format!("{expected:?}"));
        }
    }
}
