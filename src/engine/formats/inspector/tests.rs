use super::scan::{mark_specials, scan_record};
use super::*;
use crate::formats::{InputHead, ProbeAnswer};
use proptest::prelude::*;
use serde_json::Value;

#[test]
fn both_forms_are_known_by_their_first_line() {
    let is = |format: &InputFormat, text: &str| {
        (format.probe)(&InputHead::from_bytes(text.as_bytes())) == ProbeAnswer::Yes
    };
    let record = "{\"header\":{\"id\":\"0xe6\",\"rank\":4},\"metadata\":\
                  {\"inspector_output_format_version\":\"v4.0\"},\"coll_perf\":{}}\n";
    assert!(is(&FORMAT, record) && !is(&FORMAT, "{\"header\":{\"id\":4}}\n"));
    assert!(is(
        &FORMAT,
        "{\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":1}}\n"
    ));
    let metric = "nccl_bus_bandwidth_gbs{version=\"v5.1\",node=\"a\"} 0.621034\n";
    assert!(is(&METRICS, metric) && is(&METRICS, "# HELP nccl_bus_bandwidth_gbs The bus\n"));
    assert!(!is(&METRICS, "nccl_test: started\n") && !is(&METRICS, record));
}

proptest! {
    #[test]
    fn special_bytes_are_found_among_any(bytes in any::<[u8; 8]>()) {
        let is = |b: u8| matches!(b, b'"' | b'\\') || !matches!(b, b' '..=b'~');
        let expected = bytes.map(|b| if is(b) { 0x80 } else { 0 });
        let found = mark_specials(u64::from_le_bytes(bytes));
        prop_assert_eq!(found.to_le_bytes(), expected);
    }
}

/// Rows as text, and the account.
fn read(text: &str) -> (Vec<String>, Account) {
    let (mut rows, mut account) = (Vec::new(), Account::default());
    let (mut scratch, mut context) = (InspectorScratch::default(), &b""[..]);
    for line in text.as_bytes().split_inclusive(|&b| b == b'\n') {
        if InspectorFormat::sets_context(line) {
            context = line;
        }
        let mut take = |row: &Row<'_>| {
            let mut text = Vec::new();
            row.csv(&mut text);
            rows.push(String::from_utf8(text).unwrap().trim_end().to_owned());
        };
        let record = RecordText {
            context,
            ..RecordText::from_bytes(line)
        };
        let read = InspectorFormat.read_record(&mut scratch, record, &mut take);
        if let Err(what) = read {
            rows.push(what.to_owned());
        }
    }
    InspectorFormat::report_context(&mut scratch, &mut account);
    (rows, account)
}

/// A record as Inspector writes it, with what differs between versions.
#[derive(Debug, Clone)]
struct Made {
    name: Option<&'static str>,
    rank: u32,
    host: &'static str,
    op: &'static str,
    sn: u64,
    bytes: u64,
    us: u64,
    tuned: bool,
    channels: Option<usize>,
    header: bool,
}

fn made() -> impl Strategy<Value = Made> {
    let name = prop_oneof![
        Just(None),
        Just(Some("DP group 0")),
        Just(Some("TP\\/PP \\\"1\\\"")),
        Just(Some("caf\u{e9}")),
    ];
    let op = prop_oneof![Just("AllReduce"), Just("AllGather"), Just("Send")];
    let host = prop_oneof![Just("vm"), Just("node-1.cluster"), Just("a\\/b"), Just("")];
    let small = (
        any::<u32>(),
        any::<bool>(),
        proptest::option::of(0..4_usize),
        any::<bool>(),
    );
    let numbers = (0..u64::MAX / 2, 0..u64::MAX / 2, 0..9_000_000_u64);
    (name, op, host, small, numbers).prop_map(|(name, op, host, small, (sn, bytes, us))| Made {
        name,
        rank: small.0,
        host,
        op,
        sn,
        bytes,
        us,
        tuned: small.1,
        channels: small.2,
        header: small.3,
    })
}

impl Made {
    fn head(&self) -> String {
        let name = self
            .name
            .map_or(String::new(), |name| format!("\"comm_name\":\"{name}\","));
        format!(
            "\"header\":{{\"id\":\"0xe62dedaa97644a\",{name}\"rank\":{},\"n_ranks\":8,\"nnodes\":2}},\
             \"metadata\":{{\"inspector_output_format_version\":\"v4.0\",\"git_rev\":\"lab\",\
             \"rec_mechanism\":\"nccl_profiler_interface\",\"dump_timestamp_us\":1795164013385963,\
             \"hostname\":\"{}\",\"pid\":12903}},",
            self.rank, self.host
        )
    }

    fn line(&self) -> String {
        let head = if self.header {
            self.head()
        } else {
            String::new()
        };
        let (part, short) = match self.op {
            "Send" => ("p2p_perf", "p2p"),
            _ => ("coll_perf", "coll"),
        };
        let tuned = match self.tuned {
            true => "\"coll_algo\":\"RING\",\"coll_proto\":\"unknown\",",
            false => "",
        };
        let events = |with: &str| {
            let event = |n| format!("{{\"channel_id\":{n},\"kernel_start_{with}\":2}}");
            let events = (0..self.channels.unwrap_or(0))
                .map(event)
                .collect::<Vec<_>>();
            format!(
                ",\"event_trace_{with}\":{{\"{short}_start_{with}\":1795164013385902,\
                 \"kernel_events\":[{}]}}",
                events.join(",")
            )
        };
        let trace = match self.channels {
            Some(_) => events("sn") + &events("ts"),
            None => String::new(),
        };
        format!(
            "{{{head}\"{part}\":{{\"{short}\":\"{}\",{tuned}\"{short}_sn\":{},\"p2p_peer\":3,\
             \"{short}_msg_size_bytes\":{},\"{short}_exec_time_us\":{},\
             \"{short}_timing_source\":\"kernel_gpu\",\"{short}_algobw_gbs\":0.107789,\
             \"{short}_busbw_gbs\":\"nan\"{trace}}}}}",
            self.op, self.sn, self.bytes, self.us
        )
    }

    /// The beginning of a dump of v4.3.
    fn stats(&self) -> String {
        let head = self.head();
        format!(
            "{{{head}\"dump_stats\":{{\"coll_records\":1,\"coll_dropped_total\":{}}}}}",
            self.rank
        )
    }
}

/// What the slow way gives.
fn slow(text: &[u8], is: impl FnOnce(Option<InspectorRecord<'_>>)) {
    let value: Option<Value> = serde_json::from_slice(text).ok();
    is(value.as_ref().and_then(InspectorRecord::from_object));
}

proptest! {
    /// What Inspector writes goes the fast way, but for escapes and letters beyond ASCII; and both
    /// ways give the same.
    #[test]
    fn the_fast_way_gives_what_the_slow_way_gives(made in made(), stats in any::<bool>()) {
        let line = if stats { made.stats() } else { made.line() };
        let fast = scan_record(line.as_bytes());
        let is_odd = made.host.contains('\\') || made.name.is_some_and(|name| !name.is_ascii());
        let has_head = stats || made.header;
        prop_assert_eq!(fast.is_some(), !(is_odd && has_head));
        if let Some(fast) = fast {
            slow(line.as_bytes(), |slow| assert_eq!(slow, Some(fast)));
        }
        // With blanks, and keys in another order, only the slow way reads it: to the same row.
        let value: Value = serde_json::from_str(&line).unwrap();
        let spaced = value.to_string().replace("\":", "\": ");
        prop_assert_eq!(read(&spaced).0, read(&line).0);
    }

    /// After any change of bytes: if the fast way reads a record, the slow way reads the same.
    #[test]
    fn no_damage_parts_the_two_ways(
        made in made(),
        at in any::<prop::sample::Index>(),
        len in 0..30_usize,
        other in "[{}\\[\\]\":,0-9a-z\\\\. \\-]{0,3}|\"coll_sn\":7,|\"rank\":\"x\",",
    ) {
        let mut line = made.line().into_bytes();
        let at = at.index(line.len());
        let end = (at + len).min(line.len());
        line.splice(at..end, other.into_bytes());
        if let Some(fast) = scan_record(&line) {
            slow(&line, |slow| assert_eq!(slow, Some(fast), "{}", String::from_utf8_lossy(&line)));
        }
    }
}

/// A batch of v4.3 with what may come between.
pub(in super::super) fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = (made(), 0..12_u8).prop_map(|(mut made, what)| match what {
        0..2 => made.stats(),
        2 => String::new(),
        3 => "{\"coll_perf\":{\"coll\":\"All".to_owned(),
        4 => made.stats()[..60].to_owned(),
        5 => "{\"proxy_trace\":{\"record_type\":\"proxy_op\"}}".to_owned(),
        6..9 => made.line(),
        _ => {
            made.header = false;
            made.line()
        }
    });
    proptest::collection::vec(line, 0..30)
}

/// Reads these lines one after the other: the naive twin of reading by chunks.
pub(in super::super) fn one_by_one(lines: &[String]) -> Vec<(String, String)> {
    let (mut rows, mut host) = (Vec::new(), String::new());
    for line in lines {
        let value: Option<Value> = serde_json::from_str(line).ok();
        let own = value
            .as_ref()
            .and_then(|v| v["metadata"]["hostname"].as_str());
        let is_part = ["{\"coll_perf", "{\"p2p_perf", "{\"proxy_trace"];
        if !line.is_empty() && !is_part.iter().any(|part| line.starts_with(part)) {
            host = own.unwrap_or_default().to_owned();
        }
        let Some(value) = &value else { continue };
        for (part, short) in [("coll_perf", "coll"), ("p2p_perf", "p2p")] {
            if let Some(op) = value[part][short].as_str() {
                rows.push((op.to_owned(), host.clone()));
            }
        }
    }
    rows
}

const V43: &str = "{\"header\":{\"id\":\"0x7f8c496ae9f661\",\"rank\":2,\"n_ranks\":8,\"nnodes\":1},\
    \"metadata\":{\"inspector_output_format_version\":\"v4.3\",\"git_rev\":\"\",\
    \"rec_mechanism\":\"nccl_profiler_interface\",\"dump_timestamp_us\":1748030377748202,\
    \"hostname\":\"example-hostname\",\"pid\":1639453},\"dump_stats\":{\"coll_records\":1,\
    \"coll_dropped_total\":4096,\"coll_dropped_since_last_dump\":512,\"p2p_records\":0,\
    \"p2p_dropped_total\":0,\"p2p_dropped_since_last_dump\":0,\"proxy_records\":2,\
    \"proxy_dropped_total\":0,\"proxy_dropped_since_last_dump\":0,\"proxy_ops_dropped_total\":3,\
    \"proxy_ops_dropped_since_last_dump\":1,\"proxy_pxn_skipped_process_total\":5,\
    \"proxy_steps_enabled\":1}}\n\
    {\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_algo\":\"RING\",\"coll_proto\":\"LL\",\"coll_sn\":1407,\
    \"coll_msg_size_bytes\":17179869184,\"coll_exec_time_us\":61974,\"coll_algobw_gbs\":277.210914,\
    \"coll_busbw_gbs\":485.119099}}\n";

/// The README's sample of the coming format.
#[test]
fn a_record_without_a_header_is_of_the_dump_before_it() {
    let (rows, account) = read(V43);
    let row = ",,example-hostname,1639453,,,2,8,,0x7f8c496ae9f661,1407,,AllReduce,,,,,17179869184,,1,\
               inspector,61974000,,,,RING,LL,,,,,";
    assert_eq!(rows, [row]);
    assert_eq!(account.unrecorded.sum_drops(), [4096, 0, 0, 3]);
    assert_eq!(account.unrecorded.count_missing_calls(), 1407);
    // Without the first line the call is read, and its owner is unknown.
    let (rows, _) = read(V43.split_inclusive('\n').nth(1).unwrap());
    assert_eq!(
        rows,
        [",,,,,,,,,,1407,,AllReduce,,,,,17179869184,,1,inspector,61974000,,,,RING,LL,,,,,"]
    );
}

#[test]
fn what_is_no_call_is_no_row_and_what_is_no_record_is_damage() {
    let lines = "{\"proxy_trace\":{\"record_type\":\"proxy_op\",\"rank\":2}}\n\
                 {\"header\":{\"id\":\"0x7\",\"rank\":1},\"some_new_part\":{}}\n\
                 {\"coll_perf\":{\"coll\":\"AllReduce\"}}\n\
                 {\"step\":1}\n\
                 {\"coll_perf\":{\"coll\":\"AllRe\n";
    let (rows, _) = read(lines);
    let bytes = "a valid coll_msg_size_bytes or p2p_msg_size_bytes";
    assert_eq!(rows, [bytes, NO_RECORD, NO_RECORD]);
}

/// Cut at each place and with each byte changed: the account adds up, and no call is invented.
#[test]
fn damage_makes_no_call() {
    let line = "{\"header\":{\"id\":\"0xe62dedaa97644a\",\"rank\":4,\"n_ranks\":8,\"nnodes\":2},\"metadata\":\
                {\"inspector_output_format_version\":\"v4.0\",\"hostname\":\"vm\",\"pid\":12903},\
                \"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":0,\"coll_msg_size_bytes\":4096,\
                \"coll_exec_time_us\":38,\"coll_timing_source\":\"kernel_gpu\"}}\n";
    let text = [line, V43, line].concat();
    let whole = read(&text).0;
    assert_eq!(whole.len(), 3);
    for cut in 0..text.len() {
        let rows = read(&text[..cut]).0;
        let calls = rows.iter().filter(|row| row.contains(','));
        assert!(calls.clone().all(|row| whole.contains(row)), "{cut}");
    }
    for at in 0..text.len() {
        for byte in ["\0", "}", "\"", "9", "\n", ","] {
            let mut damaged = text.clone();
            damaged.replace_range(at..=at, byte);
            let rows = read(&damaged).0;
            assert!(
                rows.iter().filter(|row| row.contains(',')).count() <= 3,
                "{at}"
            );
        }
    }
}

/// The records of captured jobs cut at 200 places and with bytes turned: no call is invented.
#[test]
fn damage_in_real_records_makes_no_call() {
    // `FLIPS=10000 cargo test` for the full number.
    let flips: usize = std::env::var("FLIPS").map_or(40, |n| n.parse().unwrap());
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/captured");
    for name in ["ddp-inspector-2.28/vm-pid3178", "fsdp-inspector/vm-pid3753"] {
        let packed = std::fs::File::open(format!("{here}/{name}.log.gz")).unwrap();
        let mut text = String::new();
        let mut unpacker = flate2::read::MultiGzDecoder::new(packed);
        std::io::Read::read_to_string(&mut unpacker, &mut text).unwrap();
        let calls = |text: &str| {
            let mut rows = read(text).0;
            rows.retain(|row| row.contains(','));
            rows
        };
        let whole = calls(&text);
        assert!(whole.len() > 50 && text.is_ascii());
        for cut in (0..200).map(|n| n * text.len() / 200) {
            let kept = calls(&text[..cut]);
            assert_eq!(kept[..], whole[..kept.len()], "{name} {cut}");
        }
        let mut seed = 7_u64;
        for _ in 0..flips {
            let mut damaged = text.clone();
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % text.len();
            let byte = char::from((seed >> 20) as u8 & 0x7f);
            damaged.replace_range(at..=at, &byte.to_string());
            let kept = calls(&damaged).len();
            assert!(kept <= whole.len() && kept + 3 > whole.len(), "{name} {at}");
        }
    }
}

/// Channels of a kernel begin together, and the host sees them run: a record with channels that are far apart, or that were
/// seen for less than half of their time, has the times of other calls. Its duration is left out.
#[test]
fn a_time_that_its_channels_contradict_is_withheld() {
    let record = |first: u64, second: u64, end: u64| {
        format!(
            "{{\"header\":{{\"id\":\"0x1\",\"rank\":0,\"n_ranks\":2}},\"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_sn\":1,\
             \"coll_msg_size_bytes\":8,\"coll_exec_time_us\":27,\"coll_timing_source\":\"kernel_gpu\",\"event_trace_ts\":\
             {{\"coll_start_ts\":1058672,\"kernel_events\":[{{\"channel_id\":0,\"kernel_start_ts\":1180473,\
             \"kernel_stop_ts\":{first}}},{{\"channel_id\":1,\"kernel_start_ts\":{second},\"kernel_stop_ts\":{end}}}]}}}}}}"
        )
    };
    for (first, second, end, is_own) in [
        (1_180_529, 1_180_474, 1_180_530, true),
        (1_180_529, 1_180_474, 0, true),
        (1_180_529, 1_181_529, 1_181_600, true),
        (1_180_529, 1_191_832, 1_191_835, false),
        (1_180_486, 1_180_474, 1_180_486, true),
        (1_180_485, 1_180_474, 1_180_485, false),
    ] {
        let text = record(first, second, end);
        let value = serde_json::from_str(&text).unwrap();
        let slow = InspectorRecord::from_object(&value).unwrap();
        let fast = scan_record(text.as_bytes()).unwrap();
        assert_eq!(fast, slow);
        let timing = slow.timing();
        assert_eq!(timing.dur_ns, is_own.then_some(27_000), "{second}");
        let quality: &[u8] = if is_own {
            b"kernel_gpu, without its launch"
        } else {
            b"kernel times withheld"
        };
        assert_eq!((timing.quality, timing.nchannels), (quality, Some(2)));
    }
}
