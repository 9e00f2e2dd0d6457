//! Labels of jobs laid out by hand, the ones that are easily mistaken among them.

use super::CommunicatorsSummary;
use super::facts::CommunicatorFacts;
use super::fold::CommunicatorSide;
use super::identity::{self, MergedCommunicator};
use super::purpose::CommunicatorState;
use super::purpose_rules;
use super::wire_bytes::{WireBytes, compute_wire_bytes};
use crate::count::tally::{CallKey, CallVolume, NO_ROOT};
use crate::members::OpInterner;
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;

const BF16: u64 = 9;
const FP32: u64 = 7;
const SUM: u64 = 0;
const AVG: u64 = 4;
const MB: u64 = 1 << 20;

/// Equal calls of one member: operation, datatype, reduction, bytes, calls, peer.
type Use = (&'static str, u64, u64, u64, u64, Option<i64>);

/// A job of ranks with a GPU each, eight a host, over ten steps.
struct Job {
    sides: Vec<CommunicatorSide>,
    ops: OpInterner,
    ids: u64,
}

impl Job {
    fn new() -> Job {
        Job {
            sides: Vec::new(),
            ops: OpInterner::default(),
            ids: 0,
        }
    }

    /// A communicator of these ranks; `uses` gives the calls of a rank of it.
    fn group(&mut self, ranks: &[u32], uses: impl Fn(i64, i64) -> Vec<Use>) -> &mut Job {
        self.ids += 1;
        let nranks = u32::try_from(ranks.len()).unwrap();
        for (rank, &process) in (0..).zip(ranks) {
            let mut side = CommunicatorSide {
                process,
                comm: 0x1000 + self.ids,
                rank: Some(rank),
                nranks: Some(nranks),
                comm_id: Some(CommId::from_printed(self.ids)),
                dev: Some(process % 8),
                state: CommunicatorState::Ready,
                ..CommunicatorSide::default()
            };
            for (op, datatype, redop, bytes, calls, root) in
                uses(i64::from(rank), i64::from(nranks))
            {
                let key = CallKey {
                    member: 0,
                    op: self.ops.intern(op.as_bytes()).0,
                    datatype,
                    size: bytes,
                    nranks,
                    redop,
                    root: root.unwrap_or(NO_ROOT),
                };
                let mut value = CallVolume::default();
                value.add_calls(calls, Some(u128::from(bytes)));
                side.uses.push((key, value));
            }
            self.sides.push(side);
        }
        self
    }

    /// The same for several groups.
    fn groups(&mut self, all: &[&[u32]], uses: impl Fn(i64, i64) -> Vec<Use>) -> &mut Job {
        for ranks in all {
            self.group(ranks, &uses);
        }
        self
    }

    /// What each communicator's calls move, by the model.
    fn wires(&self) -> Vec<Option<WireBytes>> {
        let found = CommunicatorsSummary {
            inputs: Vec::new(),
            communicators: identity::group_sides(&self.sides),
            sides: self.sides.clone(),
            ops: self.ops.clone(),
            processes: self.processes(),
            ..CommunicatorsSummary::default()
        };
        let of = |c| compute_wire_bytes(&CommunicatorFacts::new(&found, c));
        found.communicators.iter().map(of).collect()
    }

    fn processes(&self) -> Vec<SpeakerProcess> {
        let most = self.sides.iter().map(|s| s.process).max().unwrap();
        (0..=most)
            .map(|p| SpeakerProcess {
                host: format!("h{}", p / 8).into_bytes().into(),
                pid: Some(u64::from(p) + 100),
            })
            .collect()
    }

    /// `label confidence` of each communicator.
    fn labels(&self) -> Vec<String> {
        let processes = self.processes();
        let mut all: Vec<MergedCommunicator> = identity::group_sides(&self.sides);
        identity::place_in_job(&mut all, &self.sides, &processes);
        purpose_rules::label_communicators(&mut all, &self.sides, &self.ops, 10);
        let text = |c: &MergedCommunicator| {
            let sure = if c.label.high { " high" } else { "" };
            format!("{}{sure}", c.label.of.name())
        };
        all.iter().map(text).collect()
    }
}

fn world(_: i64, _: i64) -> Vec<Use> {
    vec![("AllReduce", FP32, SUM, 4, 20, None)]
}

/// Sequence-parallel tensors: equal gathers and scatters, many a step.
fn tensor(_: i64, _: i64) -> Vec<Use> {
    vec![
        ("AllGather", BF16, SUM, 4 * MB, 600, None),
        ("ReduceScatter", BF16, SUM, 4 * MB, 400, None),
    ]
}

/// The buckets of DDP.
fn buckets(_: i64, _: i64) -> Vec<Use> {
    [25, 26, 31]
        .map(|n| ("AllReduce", BF16, SUM, n * MB, 10, None))
        .to_vec()
}

/// FSDP's units with bf16 sums, as old versions make them: nothing but their number tells them.
fn shards(_: i64, _: i64) -> Vec<Use> {
    vec![
        ("AllGather", BF16, SUM, 8 * MB, 320, None),
        ("ReduceScatter", BF16, SUM, 8 * MB, 160, None),
        ("AllGather", BF16, SUM, 9 * MB, 20, None),
        ("ReduceScatter", BF16, SUM, 9 * MB, 10, None),
    ]
}

/// Keys and values round a ring.
fn ring(rank: i64, n: i64) -> Vec<Use> {
    vec![
        ("Send", BF16, SUM, 2 * MB, 300, Some((rank + 1) % n)),
        ("Recv", BF16, SUM, 2 * MB, 300, Some((rank + n - 1) % n)),
    ]
}

/// Activations forth, gradients back.
fn stages(rank: i64, n: i64) -> Vec<Use> {
    let mut uses = Vec::new();
    for peer in [rank - 1, rank + 1] {
        if (0..n).contains(&peer) {
            uses.push(("Send", BF16, SUM, 2 * MB, 80, Some(peer)));
            uses.push(("Recv", BF16, SUM, 2 * MB, 80, Some(peer)));
        }
    }
    uses
}

const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const PAIRS: [&[u32]; 4] = [&[0, 1], &[2, 3], &[4, 5], &[6, 7]];
const HALVES: [&[u32]; 2] = [&[0, 1, 2, 3], &[4, 5, 6, 7]];

#[test]
fn tensor_and_data_stand_across_each_other() {
    let mut job = Job::new();
    job.group(&ALL, world).groups(&PAIRS, tensor);
    job.groups(&[&[0, 2, 4, 6], &[1, 3, 5, 7]], buckets);
    let expected = [&["world high"][..], &["tensor high"; 4], &["data high"; 2]];
    assert_eq!(job.labels(), expected.concat());
}

/// DTensor scatters a layer's parts once, as messages, and sums its small activations in each step.
#[test]
fn parts_that_are_sent_once_make_no_pipeline() {
    let split = |rank: i64, _| {
        let op = ["Send", "Recv"][rank as usize];
        let message = |bytes, calls| (op, FP32, SUM, bytes, calls, Some(1 - rank));
        let activations = ("AllReduce", FP32, SUM, 32 << 10, 60, None);
        vec![activations, message(128 << 10, 6), message(512, 3)]
    };
    let shards = |_, _| {
        let gather = ("AllGather", FP32, SUM, MB, 20, None);
        vec![gather, ("ReduceScatter", FP32, AVG, MB, 10, None)]
    };
    let mut job = Job::new();
    job.group(&ALL, world).groups(&PAIRS, split);
    job.groups(&[&[0, 2, 4, 6], &[1, 3, 5, 7]], shards);
    let expected = [&["world high"][..], &["tensor high"; 4], &["data high"; 2]];
    assert_eq!(job.labels(), expected.concat());
}

#[test]
fn without_all_ranks_or_all_members_nothing_is_sure() {
    let mut job = Job::new();
    job.groups(&PAIRS, tensor);
    job.groups(&[&[0, 2, 4, 6], &[1, 3, 5, 7]], buckets);
    assert_eq!(job.labels(), [&["tensor"; 4][..], &["data"; 2]].concat());
    // Two processes print nothing.
    let mut job = Job::new();
    job.group(&ALL, world).groups(&PAIRS, tensor);
    job.groups(&[&[0, 2, 4, 6], &[1, 3, 5, 7]], buckets);
    job.sides.retain(|side| side.process < 6);
    let labels = job.labels();
    assert!(!labels[0].ends_with("high"), "{labels:?}");
    assert_eq!(labels[1], "tensor");
}

#[test]
fn a_pipeline_in_one_communicator_is_no_ring_and_a_ring_is_no_pipeline() {
    let mut job = Job::new();
    let all: Vec<u32> = (0..16).collect();
    job.group(&all, world);
    let pairs: Vec<Vec<u32>> = (0..8).map(|d| vec![2 * d, 2 * d + 1]).collect();
    for pair in &pairs {
        job.group(pair, tensor);
    }
    for first in [0, 4, 8, 12] {
        job.group(&[first, first + 2], buckets);
        job.group(&[first + 1, first + 3], buckets);
    }
    for first in 0..4 {
        job.group(&[first, first + 4, first + 8, first + 12], stages);
    }
    let labels = job.labels();
    assert_eq!(labels[labels.len() - 4..], ["pipeline high"; 4]);

    // Context parallelism of 4 inside the gradients' group.
    let mut job = Job::new();
    job.group(&ALL, world);
    job.groups(&HALVES, ring);
    job.group(&ALL, buckets);
    assert_eq!(
        job.labels(),
        ["world high", "context high", "context high", "data high"]
    );
    // Of two ranks there is no direction: it is where it is that counts.
    let mut job = Job::new();
    job.group(&ALL, world);
    job.groups(&PAIRS, ring);
    job.groups(&HALVES, buckets);
    let labels = job.labels();
    assert_eq!(labels[1..5], ["context"; 4]);
}

#[test]
fn the_ends_of_a_pipeline_are_no_data_parallelism() {
    let mut job = Job::new();
    job.group(&ALL, world);
    job.groups(&[&[0, 2, 4, 6], &[1, 3, 5, 7]], stages);
    job.groups(&PAIRS, |_, _| {
        vec![("AllReduce", BF16, AVG, 25 * MB, 10, None)]
    });
    job.groups(&[&[0, 6], &[1, 7]], |_, _| {
        vec![("AllReduce", FP32, SUM, 128 * MB, 10, None)]
    });
    let expected = [
        &["world high"][..],
        &["pipeline high"; 2],
        &["data high"; 4],
        &["embedding high"; 2],
    ];
    assert_eq!(job.labels(), expected.concat());
}

#[test]
fn shards_on_a_node_are_not_taken_for_tensors() {
    // HSDP: shards within a half, copies across.
    let copies: [&[u32]; 4] = [&[0, 4], &[1, 5], &[2, 6], &[3, 7]];
    let again = |_: i64, _: i64| {
        vec![
            ("AllReduce", BF16, SUM, 8 * MB, 160, None),
            ("AllReduce", BF16, SUM, 9 * MB, 10, None),
        ]
    };
    let mut job = Job::new();
    job.group(&ALL, world).groups(&HALVES, shards);
    job.groups(&copies, again);
    let labels = job.labels();
    assert!(
        labels[1..3].iter().all(|l| l != "tensor high"),
        "{labels:?}"
    );
    // Gathered only once: as many gathers as scatters, like tensors.
    let once = |_: i64, _: i64| {
        vec![
            ("AllGather", BF16, SUM, 8 * MB, 160, None),
            ("ReduceScatter", BF16, SUM, 8 * MB, 160, None),
        ]
    };
    let mut job = Job::new();
    job.group(&ALL, world).groups(&HALVES, once);
    job.groups(&copies, again);
    let labels = job.labels();
    assert!(
        labels[1..3].iter().all(|l| l != "tensor high"),
        "{labels:?}"
    );
    // Sums that are averages are of gradients wherever they are.
    let mean = |_: i64, _: i64| vec![("ReduceScatter", BF16, AVG, 8 * MB, 160, None)];
    let mut job = Job::new();
    job.group(&ALL, world).groups(&HALVES, mean);
    job.groups(&copies, again);
    assert_eq!(job.labels()[1..3], ["data"; 2]);
}

#[test]
fn all_ranks_may_be_one_tensor_or_one_copy_and_then_it_is_not_sure() {
    let mut job = Job::new();
    job.group(&ALL, |_, _| vec![("AllReduce", BF16, SUM, MB, 6400, None)]);
    assert_eq!(job.labels(), ["tensor"]);
    let mut job = Job::new();
    job.group(&ALL, buckets);
    assert_eq!(job.labels(), ["data high"]);
    // Nothing is known of one that is not used, nor of one rank.
    let mut job = Job::new();
    job.group(&[0, 1], |_, _| Vec::new()).group(&[0], world);
    assert_eq!(job.labels()[1], "unknown");
}

#[test]
fn exchanges_are_sure_where_parts_differ_from_call_to_call() {
    // Each pair has as many sizes.
    let parts = |sizes: u64, unit: u64| {
        move |rank: i64, n: i64| -> Vec<Use> {
            let pairs = (0..n).flat_map(|peer| (0..sizes).map(move |size| (peer, size)));
            let part = |(peer, size): (i64, u64)| {
                let size = unit * (1 + size + sizes * (rank * n + peer).unsigned_abs());
                [
                    ("Send", BF16, SUM, size, 10, Some(peer)),
                    ("Recv", BF16, SUM, size, 10, Some(peer)),
                ]
            };
            pairs.flat_map(part).collect()
        }
    };
    let labels = |sizes, unit| {
        let mut job = Job::new();
        job.group(&ALL, world).groups(&HALVES, parts(sizes, unit));
        job.labels()[1..].to_vec()
    };
    assert_eq!(labels(6, 4096), ["expert high"; 2]);
    // A sequence's uneven parts are the same in each layer (Ulysses); objects are small.
    assert_eq!(labels(3, 4096), ["expert"; 2]);
    assert_eq!(labels(6, 16), ["expert"; 2]);
    // Equal parts may as well be heads of attention (Ulysses).
    let mut job = Job::new();
    job.group(&ALL, world);
    job.groups(&HALVES, |_, _| vec![("AlltoAll", BF16, SUM, MB, 640, None)]);
    assert_eq!(job.labels()[1..], ["expert"; 2]);
}

#[test]
fn zero_and_a_server_have_all_ranks_and_no_other_dimension() {
    let labels = |uses: &dyn Fn(i64, i64) -> Vec<Use>, steps: u64| {
        let mut job = Job::new();
        job.group(&ALL, uses);
        let processes = job.processes();
        let mut all = identity::group_sides(&job.sides);
        identity::place_in_job(&mut all, &job.sides, &processes);
        purpose_rules::label_communicators(&mut all, &job.sides, &job.ops, steps);
        all[0].label.of.name()
    };
    let updated = |_, _| -> Vec<Use> {
        let buckets = [25, 26, 31, 44].map(|n| ("AllReduce", BF16, SUM, n * MB, 40, None));
        let gathers = [12, 19].map(|n| ("AllGather", BF16, SUM, n * MB, 10, None));
        [&buckets[..], &gathers].concat()
    };
    assert_eq!(labels(&updated, 10), "data");
    let sharded = |_, _| -> Vec<Use> {
        vec![
            ("AllGather", BF16, SUM, 8 * MB, 330, None),
            ("ReduceScatter", BF16, SUM, 8 * MB, 160, None),
        ]
    };
    assert_eq!(labels(&sharded, 10), "data");
    // Sums of a prompt and of one token; gathers of what comes next.
    let served = |_, _| -> Vec<Use> {
        let sums =
            [4 << 10, 8 << 10, MB, 3 * MB, 8 * MB].map(|n| ("AllReduce", BF16, SUM, n, 48, None));
        [&sums[..], &[("AllGather", BF16, SUM, MB, 4, None)]].concat()
    };
    assert_eq!(labels(&served, 0), "tensor");
    assert_eq!(labels(&updated, 0), "data");
}

#[test]
fn what_shards_scattered_is_summed_over_the_copies() {
    let sharded = |_, _| -> Vec<Use> {
        vec![
            ("AllGather", BF16, SUM, 8 * MB, 100, None),
            ("ReduceScatter", BF16, SUM, 8 * MB, 50, None),
        ]
    };
    let mut job = Job::new();
    job.group(&ALL, world)
        .groups(&HALVES, sharded)
        .groups(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]], |_, _| {
            vec![("AllReduce", BF16, SUM, 8 * MB, 50, None)]
        });
    let labels = job.labels();
    assert_eq!(labels[3..], ["data high"; 4], "{labels:?}");
}

#[test]
fn the_model_splits_bytes_between_and_within_nodes() {
    // Ranks 0 to 7 are on one host, 8 to 15 on the next.
    let mut job = Job::new();
    let one = |op: &'static str| {
        move |_, n| vec![(op, BF16, SUM, if n == 3 { 900 } else { 800 }, 1, None)]
    };
    job.group(&[6, 7, 8, 9], one("AllReduce"))
        .group(&[6, 7, 8, 9], one("AllGather"))
        .group(&[6, 7, 8], one("AlltoAll"))
        .group(&[0, 1, 2, 3], one("AllReduce"))
        .group(&[0, 8], |rank, _| {
            let op = if rank == 0 { "Send" } else { "Recv" };
            vec![(op, BF16, SUM, 800, 1, Some(1 - rank))]
        })
        .group(&[0, 8], one("PutSignal"))
        .group(&[6, 7, 8, 9], |_, _| {
            vec![("Gather", BF16, SUM, 800, 1, Some(1))]
        })
        .group(&[7, 8, 9], |_, _| {
            vec![("Scatter", BF16, SUM, 900, 2, Some(0))]
        })
        .group(&[6, 7], |_, _| vec![("Gather", BF16, SUM, 800, 1, Some(5))]);
    let wire = |all, ring, tree| Some(WireBytes { all, ring, tree });
    assert_eq!(
        job.wires(),
        [
            // 2 x 3 x 800; two of four edges of the ring, one of three of the tree.
            wire(4800, 2400, 1600),
            // 4 x 3 x 800, half of it.
            wire(9600, 4800, 4800),
            // Six pairs, four of them on different hosts.
            wire(5400, 3600, 3600),
            wire(4800, 0, 0),
            wire(800, 800, 800),
            None,
            // Three parts, two of them from the other host.
            wire(2400, 1600, 1600),
            // Two calls of two parts, all to the other host.
            wire(3600, 3600, 3600),
            // That root is none of its ranks.
            None,
        ]
    );
}
