//! The calls of a step where the model is not split by Megatron: what PyTorch's DDP and FSDP, the
//! ZeRO stages of DeepSpeed and a tensor-parallel server make.

use crate::job::call::{CallCount, CallDtype, CallOp};
use crate::job::schedule::RankProgram;
use crate::job::{CommPurpose, SynthJob};
use crate::options::{Options, Strategy};

/// Elements of a layer's parameters, of those beside the layers, and of DDP's buckets.
const LAYER_ELEMENTS: u64 = 12_582_912;
const EMBEDDING_ELEMENTS: u64 = 8_388_608;
const DDP_BUCKET_ELEMENTS: u64 = 6_553_600;

/// The communicators of such a job.
pub(crate) fn add_groups(job: &mut SynthJob, options: &Options) {
    let (seed, ranks) = (options.seed, options.ranks);
    let all = || (0..ranks).collect::<Vec<_>>();
    job.add_communicator(seed, CommPurpose::World, all(), |proc, slot| {
        proc.world = slot;
    });
    match options.strategy {
        Strategy::Hsdp => {
            let shard = options.shard_size();
            for first in (0..ranks).step_by(shard) {
                let members = (first..first + shard).collect();
                job.add_communicator(seed, CommPurpose::Shard, members, |proc, slot| {
                    proc.shard = Some(slot);
                });
            }
            for first in 0..shard {
                let members = (first..ranks).step_by(shard).collect();
                job.add_communicator(seed, CommPurpose::Dp, members, |proc, slot| {
                    proc.dp = Some(slot);
                });
            }
        }
        Strategy::Server => {
            job.add_communicator(seed, CommPurpose::Tp, all(), |proc, slot| proc.tp = slot);
        }
        _ => {}
    }
}

impl Options {
    /// Ranks among which HSDP shards a model: those of a host, or half of one host's.
    pub(crate) fn shard_size(&self) -> usize {
        match self.nodes {
            1 => (self.ranks / 2).max(1),
            nodes => self.ranks / nodes,
        }
    }
}

impl RankProgram<'_> {
    /// A training step, or one of a server.
    pub(crate) fn push_step(&mut self, strategy: Strategy, layers: usize) {
        let world = self.proc.world;
        match strategy {
            Strategy::Megatron => {}
            Strategy::Ddp => self.push_ddp_step(world, layers),
            Strategy::Fsdp => self.push_sharded_step(world, None, layers),
            Strategy::Hsdp => {
                let (shard, copies) = (self.proc.shard, self.proc.dp);
                self.push_sharded_step(shard.unwrap_or(world), copies, layers);
            }
            Strategy::Zero2 => self.push_zero2_step(world, layers),
            Strategy::Zero3 => self.push_zero3_step(world, layers),
            Strategy::Server => return self.push_server_step(world, layers),
        }
        // The mean loss.
        self.push_fp32_sum(world, 1);
    }

    fn push_ddp_step(&mut self, world: usize, layers: usize) {
        self.backward = true;
        // Buckets are ready from the last layer on.
        self.push_fp32_sum(world, EMBEDDING_ELEMENTS);
        for _ in 0..layers {
            self.push_fp32_sum(world, DDP_BUCKET_ELEMENTS);
        }
        self.backward = false;
    }

    fn push_zero2_step(&mut self, world: usize, layers: usize) {
        let n = self.count_members(world);
        self.backward = true;
        // Each rank owns a part of the gradients: they are summed up at it.
        for part in 0..layers + 1 {
            let root = part % n as usize;
            let count = CallCount::Fixed(LAYER_ELEMENTS / n);
            self.push_call(CallOp::Reduce, world, count, self.half, 0, root, 0, false);
        }
        self.backward = false;
        self.push_collective(CallOp::AllReduce, world, 1, CallDtype::Uint8, 2);
        self.push_fp32_sum(world, 1);
        for _ in 0..layers.div_ceil(2) {
            self.push_gather(world, 2 * LAYER_ELEMENTS / n);
        }
    }

    fn push_zero3_step(&mut self, world: usize, layers: usize) {
        let n = self.count_members(world);
        self.push_gathers(world, layers);
        self.backward = true;
        for _ in 0..layers {
            self.push_gather(world, LAYER_ELEMENTS / n);
            self.push_collective(
                CallOp::ReduceScatter,
                world,
                LAYER_ELEMENTS / n,
                self.half,
                0,
            );
        }
        self.backward = false;
        self.push_collective(CallOp::AllReduce, world, 1, CallDtype::Uint8, 2);
        self.push_fp32_sum(world, 1);
    }

    fn push_server_step(&mut self, world: usize, layers: usize) {
        let tp = self.proc.tp;
        self.push_collective(CallOp::Broadcast, world, 96, CallDtype::Int64, 0);
        self.push_collective(CallOp::Broadcast, world, 4096, CallDtype::Uint8, 0);
        for _ in 0..2 * layers {
            self.push_collective(CallOp::AllReduce, tp, 64 * 8192, self.half, 0);
        }
        self.push_gather(tp, 64 * 16_032);
    }

    /// A batch of an evaluation.
    pub(crate) fn push_evaluation_batch(&mut self, strategy: Strategy, layers: usize) {
        let world = self.proc.world;
        match strategy {
            Strategy::Fsdp | Strategy::Zero3 => self.push_gathers(world, layers),
            Strategy::Hsdp => self.push_gathers(self.proc.shard.unwrap_or(world), layers),
            _ => {}
        }
        self.push_collective(CallOp::AllReduce, world, 2, CallDtype::Fp64, 0);
    }

    /// Gathers the parameters of each layer and of the parts beside the layers.
    fn push_gathers(&mut self, slot: usize, layers: usize) {
        let n = self.count_members(slot);
        self.push_gather(slot, EMBEDDING_ELEMENTS / n);
        for _ in 0..layers {
            self.push_gather(slot, LAYER_ELEMENTS / n);
        }
    }

    /// FSDP: in the backward pass a layer's parameters are gathered before the gradients of the next layer are
    /// reduced and scattered; HSDP then sums these over the copies.
    fn push_sharded_step(&mut self, slot: usize, copies: Option<usize>, layers: usize) {
        let n = self.count_members(slot);
        self.push_gathers(slot, layers);
        self.backward = true;
        for layer in 0..=layers {
            if layer < layers {
                self.push_gather(slot, LAYER_ELEMENTS / n);
            }
            let elements = if layer == 0 {
                EMBEDDING_ELEMENTS
            } else {
                LAYER_ELEMENTS
            };
            self.push_collective(
                CallOp::ReduceScatter,
                slot,
                elements / n,
                CallDtype::Fp32,
                0,
            );
            if let Some(copies) = copies {
                self.push_fp32_sum(copies, elements / n);
            }
        }
        self.backward = false;
        // The norm of the gradients.
        self.push_fp32_sum(slot, 1);
    }

    fn push_gather(&mut self, slot: usize, elements: u64) {
        self.push_collective(CallOp::AllGather, slot, elements, self.half, 0);
    }

    fn push_fp32_sum(&mut self, slot: usize, elements: u64) {
        self.push_collective(CallOp::AllReduce, slot, elements, CallDtype::Fp32, 0);
    }

    fn count_members(&self, slot: usize) -> u64 {
        self.job.comms[self.proc.members[slot].comm].ranks.len() as u64
    }
}
