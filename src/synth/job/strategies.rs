//! The calls of a step where the model is not split by Megatron: what PyTorch's DDP and FSDP, the
//! ZeRO stages of DeepSpeed and a tensor-parallel server make.

use crate::job::call::{Count, Dtype, Op};
use crate::job::schedule::Program;
use crate::job::{Job, Kind};
use crate::options::{Options, Strategy};

/// Elements of a layer's parameters, of those beside the layers, and of DDP's buckets.
const LAYER: u64 = 12_582_912;
const EDGE: u64 = 8_388_608;
const BUCKET: u64 = 6_553_600;

/// The communicators of such a job.
pub(crate) fn groups(job: &mut Job, options: &Options) {
    let (seed, ranks) = (options.seed, options.ranks);
    let all = || (0..ranks).collect::<Vec<_>>();
    job.add(seed, Kind::World, all(), |proc, slot| proc.world = slot);
    match options.strategy {
        Strategy::Hsdp => {
            let shard = options.shard();
            for first in (0..ranks).step_by(shard) {
                let members = (first..first + shard).collect();
                job.add(seed, Kind::Shard, members, |proc, slot| {
                    proc.shard = Some(slot);
                });
            }
            for first in 0..shard {
                let members = (first..ranks).step_by(shard).collect();
                job.add(seed, Kind::Dp, members, |proc, slot| proc.dp = Some(slot));
            }
        }
        Strategy::Server => job.add(seed, Kind::Tp, all(), |proc, slot| proc.tp = slot),
        _ => {}
    }
}

impl Options {
    /// Ranks among which HSDP shards a model: those of a host, or half of one host's.
    pub(crate) fn shard(&self) -> usize {
        match self.nodes {
            1 => (self.ranks / 2).max(1),
            nodes => self.ranks / nodes,
        }
    }
}

impl Program<'_> {
    /// A training step, or one of a server.
    pub(crate) fn step_of(&mut self, strategy: Strategy, layers: usize) {
        let world = self.proc.world;
        let n = self.members(world);
        match strategy {
            Strategy::Megatron => {}
            Strategy::Ddp => {
                self.backward = true;
                // Buckets are ready from the last layer on.
                self.coll(Op::AllReduce, world, EDGE, Dtype::Fp32, 0);
                for _ in 0..layers {
                    self.coll(Op::AllReduce, world, BUCKET, Dtype::Fp32, 0);
                }
                self.backward = false;
            }
            Strategy::Fsdp => self.sharded_step(world, None, layers),
            Strategy::Hsdp => {
                let (shard, copies) = (self.proc.shard, self.proc.dp);
                self.sharded_step(shard.unwrap_or(world), copies, layers);
            }
            Strategy::Zero2 => {
                self.backward = true;
                // Each rank owns a part of the gradients: they are summed up at it.
                for part in 0..layers + 1 {
                    let root = part % n as usize;
                    let count = Count::Fixed(LAYER / n);
                    self.push(Op::Reduce, world, count, self.half, 0, root, 0, false);
                }
                self.backward = false;
                self.coll(Op::AllReduce, world, 1, Dtype::Uint8, 2);
                self.coll(Op::AllReduce, world, 1, Dtype::Fp32, 0);
                for _ in 0..layers.div_ceil(2) {
                    self.coll(Op::AllGather, world, 2 * LAYER / n, self.half, 0);
                }
            }
            Strategy::Zero3 => {
                self.gathered(world, layers);
                self.backward = true;
                for _ in 0..layers {
                    self.coll(Op::AllGather, world, LAYER / n, self.half, 0);
                    self.coll(Op::ReduceScatter, world, LAYER / n, self.half, 0);
                }
                self.backward = false;
                self.coll(Op::AllReduce, world, 1, Dtype::Uint8, 2);
                self.coll(Op::AllReduce, world, 1, Dtype::Fp32, 0);
            }
            Strategy::Server => {
                let tp = self.proc.tp;
                self.coll(Op::Broadcast, world, 96, Dtype::Int64, 0);
                self.coll(Op::Broadcast, world, 4096, Dtype::Uint8, 0);
                for _ in 0..2 * layers {
                    self.coll(Op::AllReduce, tp, 64 * 8192, self.half, 0);
                }
                self.coll(Op::AllGather, tp, 64 * 16_032, self.half, 0);
                return;
            }
        }
        // The mean loss.
        self.coll(Op::AllReduce, world, 1, Dtype::Fp32, 0);
    }

    /// A batch of an evaluation.
    pub(crate) fn look_at(&mut self, strategy: Strategy, layers: usize) {
        let world = self.proc.world;
        match strategy {
            Strategy::Fsdp | Strategy::Zero3 => self.gathered(world, layers),
            Strategy::Hsdp => self.gathered(self.proc.shard.unwrap_or(world), layers),
            _ => {}
        }
        self.coll(Op::AllReduce, world, 2, Dtype::Fp64, 0);
    }

    /// Parameters are gathered for each layer and for what is beside them.
    fn gathered(&mut self, slot: usize, layers: usize) {
        let n = self.members(slot);
        self.coll(Op::AllGather, slot, EDGE / n, self.half, 0);
        for _ in 0..layers {
            self.coll(Op::AllGather, slot, LAYER / n, self.half, 0);
        }
    }

    /// FSDP: on the way back a layer's parameters are asked for before the gradients of the one
    /// behind it are shared out; HSDP then sums these over the copies.
    fn sharded_step(&mut self, slot: usize, copies: Option<usize>, layers: usize) {
        let n = self.members(slot);
        self.gathered(slot, layers);
        self.backward = true;
        for layer in 0..=layers {
            if layer < layers {
                self.coll(Op::AllGather, slot, LAYER / n, self.half, 0);
            }
            let elements = if layer == 0 { EDGE } else { LAYER };
            self.coll(Op::ReduceScatter, slot, elements / n, Dtype::Fp32, 0);
            if let Some(copies) = copies {
                self.coll(Op::AllReduce, copies, elements / n, Dtype::Fp32, 0);
            }
        }
        self.backward = false;
        // The norm of the gradients.
        self.coll(Op::AllReduce, slot, 1, Dtype::Fp32, 0);
    }

    fn members(&self, slot: usize) -> u64 {
        self.job.comms[self.proc.members[slot].comm].ranks.len() as u64
    }
}
