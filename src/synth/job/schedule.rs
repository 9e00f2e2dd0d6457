//! The calls of a step, for every rank in program order, as Megatron-style training makes them.
//!
//! Sizes are chosen so that every bucket of `nccl-hist` is met, its edges included: a call of
//! exactly 64 KB, 1 MB and 16 MB, and one just below 64 KB.

use crate::job::call::{
    CallCount, CallDtype, CallOp, DISTINCT_TOKEN_COUNTS, ScheduledCall, token_count,
};
use crate::job::{CommPurpose, JobProcess, SynthJob};
use crate::options::{Nccl, Options, Strategy};
use crate::truth::cells::TruthCells;

/// The stretches of a job that have calls of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramStretch {
    /// A training step.
    Train,
    /// One batch of an evaluation.
    Eval,
    /// Saving.
    Checkpoint,
    /// After the last step.
    Tail,
}

/// The calls of one rank, as they are put together.
pub(crate) struct RankProgram<'a> {
    pub(crate) job: &'a SynthJob,
    pub(crate) proc: &'a JobProcess,
    cells: &'a mut TruthCells,
    calls: Vec<ScheduledCall>,
    pub(crate) half: CallDtype,
    nccl: Nccl,
    pub(crate) backward: bool,
    every: u64,
    place: u64,
}

/// The calls of one rank.
pub(crate) fn build_program(
    job: &SynthJob,
    rank: usize,
    options: &Options,
    stretch: ProgramStretch,
    cells: &mut TruthCells,
) -> Vec<ScheduledCall> {
    let half = if options.nccl.since(Nccl::V2_12) {
        CallDtype::Bf16
    } else {
        CallDtype::Fp16
    };
    let proc = &job.procs[rank];
    let mut p = RankProgram {
        job,
        proc,
        cells,
        calls: Vec::new(),
        half,
        nccl: options.nccl,
        backward: false,
        every: 1,
        place: 0,
    };
    let (pp, stage) = (options.pp, proc.stage);
    let layers = options.layers * (stage + 1) / pp - options.layers * stage / pp;
    let strategy = options.strategy;
    let megatron = strategy == Strategy::Megatron;
    match stretch {
        ProgramStretch::Train if !megatron => p.push_step(strategy, layers),
        ProgramStretch::Eval if !megatron => p.push_evaluation_batch(strategy, layers),
        ProgramStretch::Train => p.push_training_step(
            layers,
            if pp > 1 { 2 } else { 1 },
            options.shard_copies() as u64,
        ),
        ProgramStretch::Eval => {
            p.push_forward(layers.min(2));
            p.push_collective(CallOp::AllReduce, proc.world, 2, CallDtype::Fp64, 0);
            p.push_collective(CallOp::Reduce, proc.world, 1, CallDtype::Fp32, 0);
        }
        ProgramStretch::Checkpoint => {
            p.push_collective(CallOp::AllGather, proc.world, 1, CallDtype::Int64, 0);
            p.push_collective(CallOp::AllGather, proc.world, 8192, CallDtype::Uint8, 0);
            if options.nccl.since(Nccl::V2_28) {
                p.push_collective(CallOp::Gather, proc.world, 4096, CallDtype::Uint8, 0);
                p.push_collective(CallOp::Scatter, proc.world, 4096, CallDtype::Uint8, 0);
            }
            p.push_collective(CallOp::AllReduce, proc.world, 1, CallDtype::Int32, 0);
        }
        ProgramStretch::Tail => {
            p.push_collective(CallOp::AllReduce, proc.world, 1, CallDtype::Fp32, 0);
            p.push_collective(CallOp::Broadcast, proc.world, 64, CallDtype::Int8, 0);
        }
    }
    p.calls
}

impl RankProgram<'_> {
    pub(crate) fn push_collective(
        &mut self,
        op: CallOp,
        slot: usize,
        count: u64,
        dtype: CallDtype,
        redop: u32,
    ) {
        self.push_call(op, slot, CallCount::Fixed(count), dtype, redop, 0, 0, false);
    }

    #[expect(clippy::too_many_arguments, reason = "a call has that many fields")]
    pub(crate) fn push_call(
        &mut self,
        op: CallOp,
        slot: usize,
        count: CallCount,
        dtype: CallDtype,
        redop: u32,
        root: usize,
        task: u32,
        more: bool,
    ) {
        let kind = self.job.comms[self.proc.members[slot].comm].kind;
        let cell = match count {
            CallCount::Fixed(n) => self.cells.intern(op, dtype, n, kind),
            CallCount::Tokens { .. } => self.intern_token_cells(op, dtype, kind),
        };
        let (backward, every) = (self.backward, self.every);
        self.calls.push(ScheduledCall {
            op,
            slot,
            count,
            dtype,
            redop,
            root,
            backward,
            task,
            more,
            every,
            cell,
        });
    }

    /// The first of a run of cells: nothing, then every count.
    fn intern_token_cells(&mut self, op: CallOp, dtype: CallDtype, kind: CommPurpose) -> usize {
        self.cells.intern_run(
            op,
            dtype,
            kind,
            (0..=DISTINCT_TOKEN_COUNTS).map(token_count),
        )
    }

    /// A pipeline Send or Recv: the pair's other rank is the peer.
    fn push_pipeline_call(&mut self, op: CallOp, slot: Option<usize>) {
        if let Some(slot) = slot {
            let peer = 1 - self.proc.members[slot].rank;
            self.push_call(
                op,
                slot,
                CallCount::Fixed(4096 * 5120),
                self.half,
                0,
                peer,
                0,
                false,
            );
        }
    }

    /// Token routing: NCCL's own AlltoAll from 2.28 where all parts are equal; else, and
    /// always where they differ, PyTorch's grouped Send and Recv to every rank, itself too.
    fn push_token_exchange(&mut self, slot: usize, uneven: bool) {
        self.place += 1;
        if !uneven && self.nccl.since(Nccl::V2_28) {
            return self.push_collective(CallOp::AlltoAll, slot, 1_310_720, self.half, 0);
        }
        let member = &self.proc.members[slot];
        let (me, place) = (member.rank, self.place);
        let ranks = &self.job.comms[member.comm].ranks;
        let last = ranks.len() - 1;
        for (peer, &other) in ranks.iter().enumerate() {
            let (mine, other) = (ranks[me] as u64, other as u64);
            let send = CallCount::Tokens {
                place,
                from: mine,
                to: other,
            };
            let recv = CallCount::Tokens {
                place,
                from: other,
                to: mine,
            };
            let task = 2 * peer as u32;
            self.push_call(CallOp::Send, slot, send, self.half, 0, peer, task, true);
            self.push_call(
                CallOp::Recv,
                slot,
                recv,
                self.half,
                0,
                peer,
                task + 1,
                peer < last,
            );
        }
    }

    /// Ring attention: keys and values go once round the ranks of a context, on the way back with
    /// their gradients behind them (Megatron's `cp_comm_type` p2p).
    fn push_ring_attention(&mut self) {
        let Some(slot) = self.proc.cp else { return };
        let member = &self.proc.members[slot];
        let (me, ranks) = (member.rank, self.job.comms[member.comm].ranks.len());
        let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        let times = if self.backward { 2 } else { 1 };
        for _ in 0..times * (ranks - 1) {
            let count = CallCount::Fixed(1_048_576);
            self.push_call(CallOp::Send, slot, count, self.half, 0, next, 0, true);
            self.push_call(CallOp::Recv, slot, count, self.half, 0, previous, 1, false);
        }
    }

    fn push_layer(&mut self, layer: usize) {
        let tp = self.proc.tp;
        if self.is_sharded() {
            // 16 MB exactly, and 8 MB.
            self.push_collective(CallOp::AllGather, tp, 8_388_608, self.half, 0);
            self.push_collective(CallOp::ReduceScatter, tp, 4_194_304, self.half, 0);
            if layer % 2 == 1 {
                self.push_collective(CallOp::AllReduce, tp, 16_777_216, self.half, 0);
            }
        }
        self.push_ring_attention();
        if let Some(ep) = self.proc.ep {
            self.push_token_exchange(ep, layer % 2 == 1);
            self.push_token_exchange(ep, layer % 2 == 1);
        }
    }

    /// Megatron makes its groups of one too, but only sends its data through them.
    fn is_sharded(&self) -> bool {
        self.job.comms[self.proc.members[self.proc.tp].comm]
            .ranks
            .len()
            > 1
    }

    fn push_forward(&mut self, layers: usize) {
        self.backward = false;
        self.push_pipeline_call(CallOp::Recv, self.proc.before);
        for layer in 0..layers {
            self.push_layer(layer);
        }
        self.push_pipeline_call(CallOp::Send, self.proc.behind);
    }

    fn push_training_step(&mut self, layers: usize, micro_batches: usize, copies: u64) {
        let (world, tp) = (self.proc.world, self.proc.tp);
        self.push_collective(CallOp::Broadcast, tp, 30, CallDtype::Int64, 0);
        self.push_collective(CallOp::Broadcast, tp, 12_289, CallDtype::Int64, 0);
        for _ in 0..micro_batches {
            self.push_forward(layers);
        }
        for _ in 0..micro_batches {
            self.backward = true;
            self.push_pipeline_call(CallOp::Recv, self.proc.behind);
            for layer in (0..layers).rev() {
                self.push_layer(layer);
            }
            self.push_pipeline_call(CallOp::Send, self.proc.before);
        }
        if let Some(slot) = self.proc.dp {
            // Gradient buckets: equal ones and a smaller last one.
            for bucket in 0..layers.div_ceil(2) {
                let elements = if bucket == 0 { 6_400_000 } else { 40_000_000 };
                self.push_collective(
                    CallOp::ReduceScatter,
                    slot,
                    elements / copies,
                    CallDtype::Fp32,
                    0,
                );
            }
        }
        self.backward = false;
        if self.is_sharded() {
            // 64 KB exactly, two bytes less, and 1 MB exactly: norm and embedding gradients.
            self.push_collective(CallOp::AllReduce, tp, 32_768, self.half, 0);
            self.push_collective(CallOp::AllReduce, tp, 32_767, self.half, 0);
            self.push_collective(CallOp::AllReduce, tp, 524_288, self.half, 0);
        }
        self.push_collective(CallOp::AllReduce, world, 1, CallDtype::Fp32, 2);
        self.push_collective(CallOp::AllReduce, world, 1, CallDtype::Fp32, 0);
        if let Some(slot) = self.proc.dp {
            for bucket in 0..layers.div_ceil(2) {
                let elements = if bucket == 0 { 6_400_000 } else { 40_000_000 };
                // fp8 came with NCCL 2.24.
                let eighth = bucket % 2 == 1 && self.nccl.since(Nccl::V2_24);
                let dtype = if eighth {
                    CallDtype::Fp8E4m3
                } else {
                    self.half
                };
                self.push_collective(CallOp::AllGather, slot, elements / copies, dtype, 0);
            }
            // The mean loss; avg came with NCCL 2.10.
            let mean = if self.nccl.since(Nccl::V2_12) { 4 } else { 0 };
            self.push_collective(CallOp::AllReduce, slot, 1, CallDtype::Fp32, mean);
        }
        self.every = 4;
        self.push_collective(CallOp::Broadcast, world, 5, CallDtype::Int64, 0);
        self.every = 1;
        self.push_collective(CallOp::AllReduce, world, 1, CallDtype::Fp32, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::{CallOp, ProgramStretch, build_program};
    use crate::job::SynthJob;
    use crate::options::{Nccl, Options};
    use crate::truth::cells::TruthCells;

    #[test]
    fn what_one_rank_sends_its_peer_receives() {
        let options = Options {
            ranks: 16,
            ep: 2,
            pp: 2,
            cp: 2,
            layers: 4,
            nccl: Nccl::V2_22,
            zero_counts: true,
            ..Options::default()
        };
        options.check().unwrap();
        let (job, mut cells) = (SynthJob::new(&options, 0), TruthCells::default());
        // (comm, from, to) -> counts in order
        let mut sent = std::collections::BTreeMap::<_, Vec<u64>>::new();
        let mut received = sent.clone();
        for (rank, proc) in job.procs.iter().enumerate() {
            for call in build_program(&job, rank, &options, ProgramStretch::Train, &mut cells) {
                let member = &proc.members[call.slot];
                let (count, cell) = call.count_and_cell(&options, 3);
                assert_eq!(cells.count(cell), count);
                match call.op {
                    CallOp::Send => sent
                        .entry((member.comm, member.rank, call.root))
                        .or_default()
                        .push(count),
                    CallOp::Recv => received
                        .entry((member.comm, call.root, member.rank))
                        .or_default()
                        .push(count),
                    _ => {}
                }
            }
        }
        assert!(sent.len() > 10 && sent.values().flatten().any(|&n| n == 0));
        assert_eq!(sent, received);
    }

    #[test]
    fn alltoall_is_an_operation_only_from_2_28() {
        for (nccl, named) in [
            (Nccl::V2_27, false),
            (Nccl::V2_28, true),
            (Nccl::Rccl2_27, false),
        ] {
            let options = Options {
                ep: 2,
                nccl,
                ..Options::default()
            };
            let (job, mut cells) = (SynthJob::new(&options, 0), TruthCells::default());
            let calls = build_program(&job, 0, &options, ProgramStretch::Train, &mut cells);
            assert_eq!(
                calls.iter().any(|c| c.op == CallOp::AlltoAll),
                named,
                "{nccl:?}"
            );
        }
    }
}
