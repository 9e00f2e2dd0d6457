//! The calls of a step, for every rank in program order, as Megatron-style training makes them.
//!
//! Sizes are chosen so that every bucket of `nccl-hist` is met, its edges included: a call of
//! exactly 64 KB, 1 MB and 16 MB, and one just below 64 KB.

use crate::job::call::{Call, Count, Dtype, Op, TOKEN_COUNTS, token_count};
use crate::job::{Job, Kind, Proc};
use crate::options::{Nccl, Options, Strategy};
use crate::truth::cells::Cells;

/// The stretches of a job that have calls of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stretch {
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
pub(crate) struct Program<'a> {
    pub(crate) job: &'a Job,
    pub(crate) proc: &'a Proc,
    cells: &'a mut Cells,
    calls: Vec<Call>,
    pub(crate) half: Dtype,
    nccl: Nccl,
    pub(crate) backward: bool,
    every: u64,
    place: u64,
}

/// The calls of one rank.
pub(crate) fn program(
    job: &Job,
    rank: usize,
    options: &Options,
    stretch: Stretch,
    cells: &mut Cells,
) -> Vec<Call> {
    let half = if options.nccl.since(Nccl::V2_12) {
        Dtype::Bf16
    } else {
        Dtype::Fp16
    };
    let proc = &job.procs[rank];
    let mut p = Program {
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
        Stretch::Train if !megatron => p.step_of(strategy, layers),
        Stretch::Eval if !megatron => p.look_at(strategy, layers),
        Stretch::Train => p.train(layers, if pp > 1 { 2 } else { 1 }, options.copies() as u64),
        Stretch::Eval => {
            p.forward(layers.min(2));
            p.coll(Op::AllReduce, proc.world, 2, Dtype::Fp64, 0);
            p.coll(Op::Reduce, proc.world, 1, Dtype::Fp32, 0);
        }
        Stretch::Checkpoint => {
            p.coll(Op::AllGather, proc.world, 1, Dtype::Int64, 0);
            p.coll(Op::AllGather, proc.world, 8192, Dtype::Uint8, 0);
            if options.nccl.since(Nccl::V2_28) {
                p.coll(Op::Gather, proc.world, 4096, Dtype::Uint8, 0);
                p.coll(Op::Scatter, proc.world, 4096, Dtype::Uint8, 0);
            }
            p.coll(Op::AllReduce, proc.world, 1, Dtype::Int32, 0);
        }
        Stretch::Tail => {
            p.coll(Op::AllReduce, proc.world, 1, Dtype::Fp32, 0);
            p.coll(Op::Broadcast, proc.world, 64, Dtype::Int8, 0);
        }
    }
    p.calls
}

impl Program<'_> {
    pub(crate) fn coll(&mut self, op: Op, slot: usize, count: u64, dtype: Dtype, redop: u32) {
        self.push(op, slot, Count::Fixed(count), dtype, redop, 0, 0, false);
    }

    #[expect(clippy::too_many_arguments, reason = "a call has that many fields")]
    pub(crate) fn push(
        &mut self,
        op: Op,
        slot: usize,
        count: Count,
        dtype: Dtype,
        redop: u32,
        root: usize,
        task: u32,
        more: bool,
    ) {
        let kind = self.job.comms[self.proc.members[slot].comm].kind;
        let cell = match count {
            Count::Fixed(n) => self.cells.intern(op, dtype, n, kind),
            Count::Tokens { .. } => self.tokens_cell(op, dtype, kind),
        };
        let (backward, every) = (self.backward, self.every);
        self.calls.push(Call {
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
    fn tokens_cell(&mut self, op: Op, dtype: Dtype, kind: Kind) -> usize {
        self.cells
            .intern_run(op, dtype, kind, (0..=TOKEN_COUNTS).map(token_count))
    }

    /// A pipeline Send or Recv: the pair's other rank is the peer.
    fn neighbour(&mut self, op: Op, slot: Option<usize>) {
        if let Some(slot) = slot {
            let peer = 1 - self.proc.members[slot].rank;
            self.push(
                op,
                slot,
                Count::Fixed(4096 * 5120),
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
    fn tokens(&mut self, slot: usize, uneven: bool) {
        self.place += 1;
        if !uneven && self.nccl.since(Nccl::V2_28) {
            return self.coll(Op::AlltoAll, slot, 1_310_720, self.half, 0);
        }
        let member = &self.proc.members[slot];
        let (me, place) = (member.rank, self.place);
        let ranks = &self.job.comms[member.comm].ranks;
        let last = ranks.len() - 1;
        for (peer, &other) in ranks.iter().enumerate() {
            let (mine, other) = (ranks[me] as u64, other as u64);
            let send = Count::Tokens {
                place,
                from: mine,
                to: other,
            };
            let recv = Count::Tokens {
                place,
                from: other,
                to: mine,
            };
            let task = 2 * peer as u32;
            self.push(Op::Send, slot, send, self.half, 0, peer, task, true);
            self.push(
                Op::Recv,
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
    fn attention(&mut self) {
        let Some(slot) = self.proc.cp else { return };
        let member = &self.proc.members[slot];
        let (me, ranks) = (member.rank, self.job.comms[member.comm].ranks.len());
        let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        let times = if self.backward { 2 } else { 1 };
        for _ in 0..times * (ranks - 1) {
            let count = Count::Fixed(1_048_576);
            self.push(Op::Send, slot, count, self.half, 0, next, 0, true);
            self.push(Op::Recv, slot, count, self.half, 0, previous, 1, false);
        }
    }

    fn layer(&mut self, layer: usize) {
        let tp = self.proc.tp;
        if self.sharded() {
            // 16 MB exactly, and 8 MB.
            self.coll(Op::AllGather, tp, 8_388_608, self.half, 0);
            self.coll(Op::ReduceScatter, tp, 4_194_304, self.half, 0);
            if layer % 2 == 1 {
                self.coll(Op::AllReduce, tp, 16_777_216, self.half, 0);
            }
        }
        self.attention();
        if let Some(ep) = self.proc.ep {
            self.tokens(ep, layer % 2 == 1);
            self.tokens(ep, layer % 2 == 1);
        }
    }

    /// Megatron makes its groups of one too, but only sends its data through them.
    fn sharded(&self) -> bool {
        self.job.comms[self.proc.members[self.proc.tp].comm]
            .ranks
            .len()
            > 1
    }

    fn forward(&mut self, layers: usize) {
        self.backward = false;
        self.neighbour(Op::Recv, self.proc.before);
        for layer in 0..layers {
            self.layer(layer);
        }
        self.neighbour(Op::Send, self.proc.behind);
    }

    fn train(&mut self, layers: usize, micro_batches: usize, copies: u64) {
        let (world, tp) = (self.proc.world, self.proc.tp);
        self.coll(Op::Broadcast, tp, 30, Dtype::Int64, 0);
        self.coll(Op::Broadcast, tp, 12_289, Dtype::Int64, 0);
        for _ in 0..micro_batches {
            self.forward(layers);
        }
        for _ in 0..micro_batches {
            self.backward = true;
            self.neighbour(Op::Recv, self.proc.behind);
            for layer in (0..layers).rev() {
                self.layer(layer);
            }
            self.neighbour(Op::Send, self.proc.before);
        }
        if let Some(slot) = self.proc.dp {
            // Gradient buckets: equal ones and a smaller last one.
            for bucket in 0..layers.div_ceil(2) {
                let elements = if bucket == 0 { 6_400_000 } else { 40_000_000 };
                self.coll(Op::ReduceScatter, slot, elements / copies, Dtype::Fp32, 0);
            }
        }
        self.backward = false;
        if self.sharded() {
            // 64 KB exactly, two bytes less, and 1 MB exactly: norm and embedding gradients.
            self.coll(Op::AllReduce, tp, 32_768, self.half, 0);
            self.coll(Op::AllReduce, tp, 32_767, self.half, 0);
            self.coll(Op::AllReduce, tp, 524_288, self.half, 0);
        }
        self.coll(Op::AllReduce, world, 1, Dtype::Fp32, 2);
        self.coll(Op::AllReduce, world, 1, Dtype::Fp32, 0);
        if let Some(slot) = self.proc.dp {
            for bucket in 0..layers.div_ceil(2) {
                let elements = if bucket == 0 { 6_400_000 } else { 40_000_000 };
                // fp8 came with NCCL 2.24.
                let eighth = bucket % 2 == 1 && self.nccl.since(Nccl::V2_24);
                let dtype = if eighth { Dtype::Fp8E4m3 } else { self.half };
                self.coll(Op::AllGather, slot, elements / copies, dtype, 0);
            }
            // The mean loss; avg came with NCCL 2.10.
            let mean = if self.nccl.since(Nccl::V2_12) { 4 } else { 0 };
            self.coll(Op::AllReduce, slot, 1, Dtype::Fp32, mean);
        }
        self.every = 4;
        self.coll(Op::Broadcast, world, 5, Dtype::Int64, 0);
        self.every = 1;
        self.coll(Op::AllReduce, world, 1, Dtype::Fp32, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Op, Stretch, program};
    use crate::job::Job;
    use crate::options::{Nccl, Options};
    use crate::truth::cells::Cells;

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
        let (job, mut cells) = (Job::new(&options, 0), Cells::default());
        // (comm, from, to) -> counts in order
        let mut sent = std::collections::BTreeMap::<_, Vec<u64>>::new();
        let mut received = sent.clone();
        for (rank, proc) in job.procs.iter().enumerate() {
            for call in program(&job, rank, &options, Stretch::Train, &mut cells) {
                let member = &proc.members[call.slot];
                let (count, cell) = call.resolve(&options, 3);
                assert_eq!(cells.count(cell), count);
                match call.op {
                    Op::Send => sent
                        .entry((member.comm, member.rank, call.root))
                        .or_default()
                        .push(count),
                    Op::Recv => received
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
            let (job, mut cells) = (Job::new(&options, 0), Cells::default());
            let calls = program(&job, 0, &options, Stretch::Train, &mut cells);
            assert_eq!(
                calls.iter().any(|c| c.op == Op::AlltoAll),
                named,
                "{nccl:?}"
            );
        }
    }
}
