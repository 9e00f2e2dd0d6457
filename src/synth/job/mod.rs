//! The job that never ran: its processes, where they sit, and the communicators they share.

pub(crate) mod call;
pub(crate) mod kind;
pub(crate) mod schedule;
pub(super) mod split;
mod strategies;

pub(crate) use kind::CommPurpose;

use crate::options::{HostStyle, Options, Strategy};
use crate::rng::hash_parts;

/// A communicator.
#[derive(Debug, Clone)]
pub struct JobComm {
    /// Its purpose.
    pub kind: CommPurpose,
    /// The `commId` of its INIT lines: the only thing its members' lines have in common.
    pub id: u64,
    /// Its members' ranks in the job, by their rank in the communicator.
    pub ranks: Vec<usize>,
    /// The hosts its members sit on.
    pub nodes: usize,
}

/// A process's side of a communicator.
#[derive(Debug, Clone)]
pub struct JobCommMember {
    /// Index of the communicator in [`Job::comms`].
    pub comm: usize,
    /// Rank in the communicator.
    pub rank: usize,
    /// The pointer the COLL lines print. Other processes may have another communicator there.
    pub ptr: u64,
    /// NCCL's counter.
    pub op_count: u64,
}

/// One process with one GPU.
#[derive(Debug, Clone)]
pub struct JobProcess {
    /// Host name as NCCL prints it.
    pub host: String,
    /// Index of the host.
    pub node: usize,
    /// Process id; also the main thread's.
    pub pid: u64,
    /// Autograd's thread: backward calls come from it.
    pub backward_tid: u64,
    /// The thread that initialises communicators.
    pub init_tid: u64,
    /// CUDA device.
    pub dev: usize,
    /// PCI bus id as NCCL prints it.
    pub bus: u64,
    /// CUDA stream pointer.
    pub stream: u64,
    /// Communicators, in order of creation.
    pub members: Vec<JobCommMember>,
    /// Slots in `members`.
    pub world: usize,
    /// See `world`.
    pub tp: usize,
    /// See `world`; none where the group would have one member.
    pub dp: Option<usize>,
    /// See `dp`.
    pub ep: Option<usize>,
    /// See `dp`.
    pub cp: Option<usize>,
    /// See `dp`.
    pub shard: Option<usize>,
    /// The pair with the stage before.
    pub before: Option<usize>,
    /// The pair with the stage after.
    pub behind: Option<usize>,
    /// Pipeline stage.
    pub stage: usize,
}

/// One life of the job; a restart makes another.
#[derive(Debug, Clone)]
pub struct SynthJob {
    /// How often it was restarted before.
    pub segment: u64,
    /// By rank.
    pub procs: Vec<JobProcess>,
    /// In order of creation.
    pub comms: Vec<JobComm>,
}

fn host_name(options: &Options, node: usize) -> String {
    let h = hash_parts(options.seed, &[1, node as u64]);
    match options.host_style {
        HostStyle::Plain => format!("node{:02}", node + 1),
        // Container ids start with a digit often enough to fool a pattern that wants a letter.
        HostStyle::Digits => format!("{}{:011x}", h % 10, (h >> 8) & 0xfff_ffff_ffff),
        HostStyle::Dashes => format!("ip-172-31-{}-{}", node / 250, 4 + node % 250),
        // NCCL cuts the name at the first dot; some logs were rewritten with whole names.
        HostStyle::Dots => format!("gpu-{node:03}.cluster-a"),
    }
}

impl SynthJob {
    /// Lays out the ranks as Megatron does by default (tp fastest, then cp, dp, pp; experts within
    /// dp) and makes the communicators in the order Megatron makes its groups. Gradients are summed
    /// over dp and cp.
    pub fn new(options: &Options, segment: u64) -> Self {
        let (seed, ranks) = (options.seed, options.ranks);
        let stage = options.tp * options.shard_copies();
        let per_node = ranks / options.nodes;
        let procs = (0..ranks).map(|rank| {
            let (node, dev) = (rank / per_node, rank % per_node);
            let base = 20_000 + hash_parts(seed, &[2, node as u64, segment]) % 900_000;
            let pid = base + 13 * dev as u64;
            JobProcess {
                host: host_name(options, node),
                node,
                pid,
                backward_tid: pid + 700 + hash_parts(seed, &[3, rank as u64, segment]) % 90,
                init_tid: pid + 300 + hash_parts(seed, &[4, rank as u64, segment]) % 90,
                dev,
                bus: 0x1b000 + 0x11000 * dev as u64,
                stream: 0x5600_0000_0000
                    + (hash_parts(seed, &[5, rank as u64, segment]) & 0xfff_ffff0),
                members: Vec::new(),
                world: 0,
                tp: 0,
                dp: None,
                ep: None,
                cp: None,
                shard: None,
                before: None,
                behind: None,
                stage: rank / stage,
            }
        });
        let mut job = SynthJob {
            segment,
            procs: procs.collect(),
            comms: Vec::new(),
        };
        match options.strategy {
            Strategy::Megatron => job.add_megatron_groups(options),
            _ => strategies::add_groups(&mut job, options),
        }
        job
    }

    /// The communicators in the order in which Megatron makes its groups.
    fn add_megatron_groups(&mut self, options: &Options) {
        let Options {
            seed,
            ranks,
            tp,
            pp,
            ep,
            cp,
            ..
        } = *options;
        let (dp, copies) = (options.data_parallel_size(), options.shard_copies());
        // Copies of the model: the ranks of a context side by side.
        let at = |t: usize, copy: usize, p: usize| t + tp * (copy + copies * p);
        self.add_communicator(
            seed,
            CommPurpose::World,
            (0..ranks).collect(),
            |proc, slot| {
                proc.world = slot;
            },
        );
        for (p, d) in all_pairs(pp, copies) {
            let members = (0..tp).map(|t| at(t, d, p)).collect();
            self.add_communicator(seed, CommPurpose::Tp, members, |proc, slot| proc.tp = slot);
        }
        for (p, t) in all_pairs(pp, tp).filter(|_| copies > 1) {
            let members = (0..copies).map(|copy| at(t, copy, p)).collect();
            self.add_communicator(seed, CommPurpose::Dp, members, |proc, slot| {
                proc.dp = Some(slot);
            });
        }
        for (p, t) in all_pairs(pp, tp).filter(|_| cp > 1) {
            for d in 0..dp {
                let members = (0..cp).map(|c| at(t, c + cp * d, p)).collect();
                self.add_communicator(seed, CommPurpose::Cp, members, |proc, slot| {
                    proc.cp = Some(slot);
                });
            }
        }
        for (p, t) in all_pairs(pp, tp).filter(|_| ep > 1) {
            for (block, c) in all_pairs(dp / ep, cp) {
                let copy = |e| c + cp * (block * ep + e);
                let members = (0..ep).map(|e| at(t, copy(e), p)).collect();
                self.add_communicator(seed, CommPurpose::Ep, members, |proc, slot| {
                    proc.ep = Some(slot);
                });
            }
        }
        for (d, t) in all_pairs(copies, tp) {
            for p in 1..pp {
                let stage = p;
                self.add_communicator(
                    seed,
                    CommPurpose::Pp,
                    vec![at(t, d, p - 1), at(t, d, p)],
                    |proc, slot| {
                        if proc.stage == stage {
                            proc.before = Some(slot);
                        } else {
                            proc.behind = Some(slot);
                        }
                    },
                );
            }
        }
    }

    /// Makes a communicator; `note` keeps the slot it has in each member's process.
    pub(super) fn add_communicator(
        &mut self,
        seed: u64,
        kind: CommPurpose,
        ranks: Vec<usize>,
        mut note: impl FnMut(&mut JobProcess, usize),
    ) {
        let comm = self.comms.len();
        let mut nodes: Vec<usize> = ranks.iter().map(|&r| self.procs[r].node).collect();
        nodes.dedup();
        for (rank, &global) in ranks.iter().enumerate() {
            let proc = &mut self.procs[global];
            let slot = proc.members.len();
            // Same program, same allocator: neighbours often get the same address, which is why
            // a pointer without host and pid names nothing.
            let twin = hash_parts(seed, &[6, (global / 2) as u64, slot as u64, self.segment]);
            let ptr = 0x5500_0000_0000 + ((slot as u64) << 28) + (twin & 0xfff_fff0);
            proc.members.push(JobCommMember {
                comm,
                rank,
                ptr,
                op_count: 0,
            });
            note(proc, slot);
        }
        let id = hash_parts(seed, &[7, comm as u64, self.segment]) | 1;
        self.comms.push(JobComm {
            kind,
            id,
            ranks,
            nodes: nodes.len(),
        });
    }
}

fn all_pairs(outer: usize, inner: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..outer).flat_map(move |o| (0..inner).map(move |i| (o, i)))
}

#[cfg(test)]
mod tests {
    use super::{CommPurpose, SynthJob};
    use crate::options::Options;

    fn job() -> SynthJob {
        let options = Options {
            ranks: 16,
            nodes: 2,
            tp: 2,
            pp: 2,
            ep: 2,
            ..Options::default()
        };
        options.check().unwrap();
        SynthJob::new(&options, 0)
    }

    #[test]
    fn every_rank_is_in_one_group_of_each_kind() {
        let job = job();
        for kind in [
            CommPurpose::World,
            CommPurpose::Tp,
            CommPurpose::Dp,
            CommPurpose::Ep,
        ] {
            let mut seen: Vec<usize> = job
                .comms
                .iter()
                .filter(|c| c.kind == kind)
                .flat_map(|c| c.ranks.clone())
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..16).collect::<Vec<_>>(), "{kind:?}");
        }
    }

    #[test]
    fn a_context_is_side_by_side_inside_the_ranks_that_sum_gradients() {
        let options = Options {
            ranks: 16,
            tp: 2,
            cp: 2,
            ep: 2,
            pp: 2,
            ..Options::default()
        };
        options.check().unwrap();
        let job = SynthJob::new(&options, 0);
        let of = |kind: CommPurpose| -> Vec<Vec<usize>> {
            let comms = job.comms.iter().filter(|c| c.kind == kind);
            comms.map(|c| c.ranks.clone()).collect()
        };
        assert_eq!(of(CommPurpose::Dp)[..2], [[0, 2, 4, 6], [1, 3, 5, 7]]);
        assert_eq!(of(CommPurpose::Cp)[..3], [[0, 2], [4, 6], [1, 3]]);
        assert_eq!(of(CommPurpose::Ep)[..2], [[0, 4], [2, 6]]);
        assert_eq!(of(CommPurpose::Pp)[0], [0, 8]);
    }

    #[test]
    fn pipeline_pairs_join_neighbouring_stages() {
        let job = job();
        for pair in job.comms.iter().filter(|c| c.kind == CommPurpose::Pp) {
            let [a, b] = pair.ranks[..] else {
                panic!("not a pair: {:?}", pair.ranks)
            };
            assert_eq!((job.procs[a].stage, job.procs[b].stage, b - a), (0, 1, 8));
        }
    }

    #[test]
    fn a_pointer_is_unique_in_its_process_only() {
        let job = job();
        for proc in &job.procs {
            let mut ptrs: Vec<u64> = proc.members.iter().map(|m| m.ptr).collect();
            ptrs.sort_unstable();
            ptrs.dedup();
            assert_eq!(ptrs.len(), proc.members.len());
        }
        assert_eq!(job.procs[0].members[0].ptr, job.procs[1].members[0].ptr);
    }
}
