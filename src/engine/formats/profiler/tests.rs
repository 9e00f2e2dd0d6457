//! Traces of every version; the numbers in comments are lines of the traces.

use super::*;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::shared::data;
use crate::source::{self, InputName};
use std::path::Path;

/// What a trace has.
#[derive(Default)]
struct Kept {
    rows: Vec<String>,
    ops: Vec<ProxyOp>,
    account: Account,
}

impl ProfilerVisitor for Kept {
    fn visit_call(&mut self, row: &Row<'_>) -> Result<()> {
        let text = String::from_utf8_lossy;
        let time = row.times();
        let word = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        self.rows.push(format!(
            "{} seq {} count {} {} = {} B, {} from {} on {}: {}",
            text(row.op),
            word(row.seq),
            row.count.unwrap_or_default(),
            row.datatype.map_or("?".to_owned(), |d| d.to_string()),
            row.bytes().map_or("?".to_owned(), |n| n.to_string()),
            word(time.dur_ns),
            word(time.start_ns),
            text(time.clock),
            text(time.quality),
        ));
        Ok(())
    }

    fn visit_proxy_op(&mut self, op: &ProxyOp) {
        self.ops.push(op.clone());
    }
}

fn of(bytes: &[u8]) -> Kept {
    let mut kept = Kept::default();
    let account = walk_trace(&mut &bytes[..], "x", &mut kept).unwrap();
    assert_eq!(account.count_decided_lines(), account.lines);
    assert_eq!(
        account.lines as usize,
        bytes.split_inclusive(|&b| b == b'\n').count()
    );
    kept.account = account;
    kept
}

fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/profiler")
        .join(name);
    let input = Input::open(
        &InputName::Path(path),
        source::Options::default(),
        BLOCK_REJOINER,
    )
    .unwrap();
    let mut bytes = Vec::new();
    input
        .open_reader()
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn repaired(kept: &Kept, what: &str) -> u64 {
    kept.account.repairs.get(what).copied().unwrap_or(0)
}

/// NCCL's README and an issue show these traces. `None` where that text is not at hand.
const README: &str =
    "nccl-profiler/from-docs/readme_v2.28-v2.30_trace_curly_quote_and_truncation.txt";
const ISSUE: &str = "nccl-profiler/from-docs/issue1973_real_v6_kernelch.txt";

fn shown(name: &str) -> Option<Vec<u8>> {
    Some(std::fs::read(data(name)?).unwrap())
}

const ALL: [&str; 7] = [
    "v1.json.gz",
    "v3.json.gz",
    "v4.json.gz",
    "v4-cut.json.gz",
    "v5.json.gz",
    "v6.json.gz",
    "v6-ce.json.gz",
];

#[test]
fn version_1_has_numbers_for_types() {
    let kept = of(&bytes("v1.json.gz"));
    // 3, 4 and the ends of its proxy operations.
    assert_eq!(kept.rows.len(), 7);
    assert!(kept.rows[0].starts_with("AllReduce seq 0 count 262144 fp32 = 1048576 B, "));
    assert!(kept.rows[0].ends_with(" from 46483 on plugin: from enqueue to the proxy's end"));
    // 99: bytes, as NCCL counts them there.
    assert!(kept.rows[1].starts_with("AllGather seq 0 count 1048576 int8 = 1048576 B, "));
    assert_eq!(repaired(&kept, "counts in bytes"), 2);
    // 4 to 23: 2741.875291 - 121.806595 us.
    let op = &kept.ops[0];
    assert_eq!(
        (op.side, op.channel, op.peer, op.steps, op.steps_seen()),
        (TransferSide::Send, 0, 1, 3, 3)
    );
    assert_eq!((op.begin, op.end), (Some(121_806), Some(2_741_875)));
    assert_eq!(
        op.phases,
        Some(ProxyPhases {
            posted: 3,
            ready: 3,
            transmitted: 3,
            done: 3
        })
    );
    // 7, 8 and 13, 14 and 19, 20: SendGpuWait.
    let gpu = (1_773_671 - 1_600_274) + (2_177_646 - 2_004_359) + (2_580_181 - 2_408_305);
    assert_eq!(op.waits[ProxyWait::Gpu as usize], (3, gpu));
    assert_eq!((op.bytes, op.is_complete()), (Some(49_152), true));
    assert_eq!(kept.account.repairs.len(), 1);
}

#[test]
fn version_3_keeps_events_of_calls_before() {
    let kept = of(&bytes("v3.json.gz"));
    assert_eq!(
        (kept.rows.len(), repaired(&kept, "events of earlier calls")),
        (16, 658)
    );
    // 3: the first AllGather is number 8, so 0 to 7 are gone; 8 of ReduceScatter (131), 9 of
    // AllReduce (259).
    assert_eq!(kept.account.missing, 25);
    // 5: its steps are from 42221.064257 us, before the call at 115007.479920.
    assert_eq!(kept.ops[0].steps_seen(), 2);
}

#[test]
fn version_4_has_the_kernels_times() {
    let kept = of(&bytes("v4.json.gz"));
    // 4: 1756135989725484345 - 1756135989724672000 ns.
    assert!(
        kept.rows[0]
            .contains(", 812345 from 1756135989724672000 on gpu: kernel, without its launch"),
        "{}",
        kept.rows[0]
    );
    // 5 to 31: scheduled 147.323787, taken up 256.318292, ended 1769.190531.
    let op = &kept.ops[0];
    assert_eq!(
        (op.scheduled, op.begin, op.end),
        (Some(147_323), Some(256_318), Some(1_769_190))
    );
    assert_eq!(
        (op.side, op.peer, op.steps_seen(), op.net_bytes),
        (TransferSide::Recv, 3, 3, 3 * 16_384)
    );
    assert_eq!(kept.account.damaged, 0);
}

#[test]
fn versions_5_and_6_have_the_callers_count() {
    for name in ["v5.json.gz", "v6.json.gz"] {
        let kept = of(&bytes(name));
        // Line 130: COLL has 1048576 of int8; the API call before it (129) 524288 of bf16.
        assert!(
            kept.rows[1].starts_with("AllGather seq 0 count 524288 bf16 = 1048576 B"),
            "{}",
            kept.rows[1]
        );
        assert!(
            kept.rows[0].ends_with("kernel, without its launch, some channels only"),
            "{}",
            kept.rows[0]
        );
        assert_eq!(repaired(&kept, "starts printed as 0"), 13);
        let bare = if name.starts_with("v5") { 13 } else { 0 };
        assert_eq!(repaired(&kept, "texts without quotes"), bare);
    }
    let kept = of(&bytes("v6-ce.json.gz"));
    // 148: duration_gpu_us 37.
    assert_eq!(
        kept.rows[2],
        "AllGather seq - count 1048576 fp32 = 4194304 B, 37000 from 8000686 on plugin: copy engine, \
         duration by the GPU"
    );
}

#[test]
fn a_trace_that_was_cut_has_what_is_before_the_cut() {
    let kept = of(&bytes("v4-cut.json.gz"));
    assert_eq!((kept.rows.len(), kept.account.damaged), (3, 1));
    let last = kept.ops.last().unwrap();
    assert!(!last.is_complete() && last.end.is_none());
    assert_eq!((last.last, last.steps), (Some(ProxyWait::Gpu), 2));
}

/// The trace of the plugin's README is cut between the steps and the end.
#[test]
fn an_operation_whose_steps_are_all_done_has_ended() {
    let text = |steps: u64, done_us: u64| {
        format!(
            "{{\"name\": \"AllReduce\", \"cat\": \"COLL\", \"ph\": \"b\", \"id\": 0, \"pid\": 7, \"tid\": 1, \"ts\": \
             100.0, \"args\": {{\"SeqNum\": 0, \"CommHash\": 5, \"Rank\": 1, \"Count\": 8, \"Datatype\": \
             \"ncclFloat32\", \"Algorithm\": \"RING\", \"Protocol\": \"LL\", \"nMaxChannels\": 2}}}},\n\
             {{\"name\": \"Recv\", \"cat\": \"PROXY\", \"ph\": \"b\", \"id\": 0, \"pid\": 7, \"tid\": 1, \"ts\": 200.0, \
             \"args\": {{\"Channel\": 0, \"Peer\": 0, \"Steps\": {steps}, \"ChunkSize\": 32, \"transSize\": 64, \
             \"POSTED\": {{\"step\": 14, \"ts\": 300.0}}, \"RECEIVED\": {{\"step\": 14, \"ts\": 310.0}}, \
             \"TRANSMITTED\": {{\"step\": 14, \"ts\": 320.0}}, \"DONE\": {{\"step\": 14, \"ts\": {done_us}.0}}}}}},\n\
             {{\"name\": \"AllReduce\", \"cat\": \"COLL\", \"ph\": \"e\", \"id\": 0, \"pid\": 7, \"tid\": 1, \"ts\": \
             400.0}},\n"
        )
    };
    let kept = of(text(14, 330).as_bytes());
    assert!(kept.ops[0].is_complete());
    let row = &kept.rows[0];
    let whole = "230000 from 100000 on plugin: from enqueue to the proxy's end";
    assert!(row.ends_with(whole), "{row}");
    // A step is left, or the time is an earlier operation's.
    for (steps, done_us) in [(15, 330), (14, 150)] {
        let kept = of(text(steps, done_us).as_bytes());
        assert!(!kept.ops[0].is_complete());
        assert!(kept.rows[0].ends_with("enqueue only"), "{}", kept.rows[0]);
    }
}

#[test]
fn a_trace_of_the_readme_has_curly_quotes_and_is_cut() {
    let Some(readme) = shown(README) else { return };
    let kept = of(&readme);
    assert_eq!(
        (repaired(&kept, "curly quotes"), kept.account.foreign),
        (1, 1)
    );
}

/// The rows of calls that are each in a group of its own: when it was made in us, and when the channels of its
/// kernel began on the GPU's clock, which is ahead by 1 s.
fn rows_of_kernels(calls: &[(u64, &[u64])]) -> Kept {
    let event = |name: &str, cat: &str, phase: &str, ts: u64, args: &str| {
        format!(
            "{{\"name\": \"{name}\", \"cat\": \"{cat}\", \"ph\": \"{phase}\", \"id\": 0, \"pid\": 7, \
             \"tid\": 1, \"ts\": {ts}.000000{args}}},\n"
        )
    };
    let mut text = String::new();
    for (seq, (made, starts)) in calls.iter().enumerate() {
        let args = format!(
            ", \"args\": {{\"SeqNum\": {seq}, \"CommHash\": 5, \"Rank\": 0, \"Count\": 8, \"Datatype\": \
             \"ncclFloat32\", \"Algorithm\": \"RING\", \"Protocol\": \"LL\", \"nChannels\": 1}}"
        );
        text += &event("Group", "GROUP", "b", *made, "");
        text += &event("AllReduce", "COLL", "b", made + 1, &args);
        for (channel, start) in starts.iter().enumerate() {
            let clocks = format!(
                ", \"args\": {{\"Channel\": {channel}, \"StartGpuClk\": {start}, \"StopGpuClk\": {}}}",
                start + 20_000
            );
            let seen = (start - 1_000_000_000) / 1000 + 30;
            text += &event("KernelCh", "GPU", "b", made + 9, &clocks);
            text += &event("KernelCh", "GPU", "e", seen, "");
        }
        text += &event("AllReduce", "COLL", "e", made + 2, "");
        text += &event("Group", "GROUP", "e", made + 3, "");
    }
    of(text.as_bytes())
}

#[test]
fn kernel_times_that_contradict_each_other_are_withheld() {
    const AHEAD: u64 = 1_000_000_000;
    let at = |us: u64| AHEAD + us * 1000;
    let whole: [&[u64]; 3] = [
        &[at(1010), at(1011)],
        &[at(9010), at(9040)],
        &[at(9900), at(9901)],
    ];
    let made = [1000, 9000, 9100];
    let kept = rows_of_kernels(&[0, 1, 2].map(|n| (made[n], whole[n])));
    assert!(
        kept.rows
            .iter()
            .all(|row| row.ends_with(": kernel, without its launch")),
        "{:?}",
        kept.rows
    );
    assert!(
        kept.rows[1].contains(" 50000 from 1009010000 on gpu"),
        "{:?}",
        kept.rows
    );
    // A channel has the times of the next call's kernel, or of one before: then none of the communicator's is
    // certain. One that only began before its call was made is withheld alone.
    let wrong: [(&[u64], usize, u64); 3] = [
        (&[at(1010), at(9950)], 1, 3),
        (&[at(9040), at(9910)], 2, 3),
        (&[at(5000)], 1, 1),
    ];
    for (wrong, place, withheld) in wrong {
        let mut calls = [0, 1, 2].map(|n| (made[n], whole[n]));
        calls[place].1 = wrong;
        let kept = rows_of_kernels(&calls);
        let quality = "on plugin: enqueue only, kernel times withheld";
        let without = kept.rows.iter().filter(|row| row.ends_with(quality));
        assert_eq!(without.count() as u64, withheld, "{:?}", kept.rows);
        let what = "kernel times withheld as other calls'";
        assert_eq!(repaired(&kept, what), withheld);
    }
}

/// Cut anywhere and with bytes turned: all lines are counted, and no call is invented.
#[test]
fn damage_invents_no_call() {
    // `FLIPS=10000 cargo test` for the full number.
    let flips: usize = std::env::var("FLIPS").map_or(40, |n| n.parse().unwrap());
    let own = ALL.iter().map(|name| (*name, bytes(name)));
    let shown = [README, ISSUE]
        .into_iter()
        .filter_map(|name| Some((name, shown(name)?)));
    for (name, whole) in own.chain(shown) {
        let all = of(&whole);
        for cut in (0..200).map(|n| n * whole.len() / 200) {
            let kept = of(&whole[..cut]);
            assert!(kept.rows.len() <= all.rows.len() && kept.ops.len() <= all.ops.len());
            assert!(kept.account.damaged <= 1, "{name} {cut}");
        }
        let mut seed = 7_u64;
        for _ in 0..flips {
            let mut bytes = whole.clone();
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] ^= (seed >> 20) as u8 | 1;
            let kept = of(&bytes);
            assert!(kept.rows.len() <= all.rows.len(), "{name} {at}");
        }
    }
}

#[test]
fn a_line_without_end_is_one_damaged_line() {
    let text = [&b"[\n{\"name\": \"x"[..], &vec![b'x'; 300_000], b"\n{}]\n"].concat();
    let kept = of(&text);
    assert_eq!((kept.account.lines, kept.account.damaged), (3, 1));
}
