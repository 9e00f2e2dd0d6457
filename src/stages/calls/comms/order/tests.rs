use super::live_order::ChunkCall;
use super::*;
use crate::error::Result;
use crate::log::placement::Placement;
use crate::log::timeline::{self, StepTimeline};
use proptest::prelude::*;
use std::sync::Arc;

/// A call: the gap of its line, that it was made in, and who made it.
type Made = (u32, u32, u32);

/// A log's stretches and calls.
#[derive(Debug, Clone)]
struct Job {
    timeline: StepTimeline,
    calls: Vec<Made>,
}

impl Job {
    /// Stretches of so many gaps; `calls` are the stretch of a line, how far from it the call was made,
    /// and by whom. A process's calls are made in their order.
    fn of(stretches: &[usize], calls: &[(usize, i8, u32)]) -> Job {
        let gaps = stretches.iter().zip(0..).flat_map(|(&n, step)| {
            let gap = timeline::GapKind::Step(step);
            std::iter::repeat_n(gap, n)
        });
        let gaps: Vec<timeline::GapKind> = gaps.collect();
        let mut ends: Vec<u32> = Vec::new();
        for &n in stretches {
            ends.push(ends.last().map_or(n as u32 - 1, |last| last + n as u32));
        }
        let mut lines: Vec<u32> = calls
            .iter()
            .map(|(line, ..)| (line % gaps.len()) as u32)
            .collect();
        lines.sort_unstable();
        let last = ends.len() as i64 - 1;
        let own: Vec<(u32, u32)> = lines
            .iter()
            .zip(calls)
            .map(|(line, &(_, far, process))| {
                let own = ends.partition_point(|end| end < line) as i64;
                let made = (own + i64::from(far)).clamp(0, last);
                (process, ends[made as usize])
            })
            .collect();
        let mut made: Vec<Vec<u32>> = vec![Vec::new(); 4];
        for &(process, gap) in own.iter().rev() {
            made[process as usize].push(gap);
        }
        for gaps in &mut made {
            gaps.sort_unstable_by(|a, b| b.cmp(a));
        }
        let calls = lines.iter().zip(&own).map(|(&line, &(process, _))| {
            let gap = made[process as usize].pop().unwrap();
            (line, gap, process)
        });
        Job {
            calls: calls.collect(),
            timeline: StepTimeline {
                gaps: gaps.into(),
                ..StepTimeline::default()
            },
        }
    }

    fn placement(&self) -> Placement {
        let mut placement = Placement::default();
        let cuts = (0..4).map(|process| {
            let own = self.calls.iter().filter(|call| call.2 == process);
            (1..).zip(own).map(|(n, call)| (call.1, n)).collect()
        });
        placement.cuts = Vec::from_iter(cuts).into();
        placement
    }

    /// The order as `order/mod.rs` describes it, stretch by stretch.
    fn naive(&self, reach: u64) -> Vec<usize> {
        let (mut rows, mut ahead) = (Vec::new(), Vec::<usize>::new());
        let mut start = 0;
        let take = |ahead: &mut Vec<usize>, rows: &mut Vec<usize>, end: u32| {
            let mut due = ahead.clone();
            due.retain(|&at| self.calls[at].1 <= end);
            due.sort_by_key(|&at| (self.calls[at].1, at));
            ahead.retain(|&at| self.calls[at].1 > end);
            rows.extend(due);
        };
        while (start as usize) < self.timeline.gaps.len() {
            let end = self.timeline.stretch_end(start);
            let lines = 0..self.calls.len();
            let lines = lines.filter(|&at| (start..=end).contains(&self.calls[at].0));
            let (mut late, mut others) = (Vec::new(), Vec::new());
            let is_near = |at: usize| {
                ahead
                    .first()
                    .is_none_or(|&first| at as u64 - (first as u64) < reach)
            };
            for at in lines {
                match self.calls[at].1 < start && (others.len() as u64) < reach && is_near(at) {
                    true => late.push(at),
                    false => others.push(at),
                }
            }
            rows.extend(late);
            take(&mut ahead, &mut rows, end);
            for at in others {
                while ahead
                    .first()
                    .is_some_and(|first| *first as u64 + reach <= at as u64)
                {
                    rows.push(ahead.remove(0));
                }
                match self.calls[at].1 > end {
                    true => ahead.push(at),
                    false => rows.push(at),
                }
            }
            start = end + 1;
        }
        take(&mut ahead, &mut rows, u32::MAX);
        rows
    }

    /// The same of chunks of so many calls.
    fn whole(&self, reach: u64, sizes: &[usize]) -> Vec<usize> {
        let mut order = WholeLogOrder::new(&self.timeline, &self.placement(), reach);
        let mut runs = Vec::new();
        for chunk in self.chunks(sizes) {
            let chunk = Arc::new(chunk);
            let mut lines: Vec<(u32, usize)> = Vec::new();
            for (at, call) in (1..).zip(&chunk.calls) {
                match lines.last_mut() {
                    Some(last) if last.0 == call.0 => last.1 = at,
                    _ => lines.push((call.0, at)),
                }
            }
            order.add_chunk(&chunk, |at| Some(chunk.calls[at].1), &lines);
            runs.extend(order.take_ready_runs());
        }
        runs.extend(order.take_remaining_runs());
        let calls = runs.into_iter();
        calls
            .flat_map(|(chunk, calls)| calls.map(move |at| chunk.first + at))
            .collect()
    }

    /// The same of chunks that come one after another; after some of them a few more stretches are settled.
    fn growing(&self, reach: u64, sizes: &[usize], pauses: &[(bool, u32)]) -> Vec<usize> {
        let mut rows = Vec::new();
        let mut order = LiveRowOrder::new(reach);
        let mut came = Came::default();
        let mut settled: Option<u32> = None;
        let mut take = |chunk: &Arc<Piece>, call: ChunkCall, gap: Option<u32>| {
            assert_eq!(gap, Some(chunk.calls[call.at].1));
            rows.push(chunk.first + call.at);
            Ok(())
        };
        for (chunk, &(is_pause, further)) in
            self.chunks(sizes).into_iter().zip(pauses.iter().cycle())
        {
            let last = chunk.calls.last().unwrap().0;
            came.chunks.push(Some(Arc::new(chunk)));
            if !is_pause {
                continue;
            }
            for _ in 0..further {
                let next = settled.map_or(0, |settled| settled + 1);
                let end = self.timeline.stretch_end(next);
                settled = Some(end).filter(|end| *end < last).or(settled);
            }
            let known = So { job: self, settled };
            order.take_ready(&mut came, &known, &mut take).unwrap();
        }
        let known = So {
            job: self,
            settled: Some(u32::MAX),
        };
        assert!(order.take_remaining(&mut came, &known, &mut take).unwrap());
        rows
    }

    fn chunks(&self, sizes: &[usize]) -> Vec<Piece> {
        let (mut chunks, mut first) = (Vec::new(), 0);
        for size in sizes.iter().cycle() {
            let rest = &self.calls[first..];
            if rest.is_empty() {
                return chunks;
            }
            let calls = rest[..rest.len().min(*size)].to_vec();
            let next = first + calls.len();
            chunks.push(Piece { first, calls });
            first = next;
        }
        chunks
    }
}

/// A chunk, with the number of its first call.
#[derive(Debug)]
struct Piece {
    first: usize,
    calls: Vec<Made>,
}

impl OrderedChunk for Arc<Piece> {
    fn len(&self) -> usize {
        self.calls.len()
    }

    fn gap_of_line(&self, call: usize) -> u32 {
        self.calls[call].0
    }

    fn process_of_call(&self, call: usize) -> u32 {
        self.calls[call].2
    }
}

#[derive(Default)]
struct Came {
    chunks: Vec<Option<Arc<Piece>>>,
}

impl ChunkQueue for Came {
    type Chunk = Arc<Piece>;

    fn get_chunk(&mut self, number: u64) -> Result<Option<Arc<Piece>>> {
        let chunk = self.chunks.get(number as usize);
        Ok(chunk.map(|chunk| chunk.clone().expect("it was let go")))
    }

    fn drop_chunks_before(&mut self, number: u64) -> Result<()> {
        self.chunks[..number as usize].fill(None);
        Ok(())
    }
}

struct So<'j> {
    job: &'j Job,
    settled: Option<u32>,
}

impl KnownPlaces for So<'_> {
    fn last_settled_gap(&self) -> Option<u32> {
        self.settled
    }

    fn stretch_end(&self, gap: u32) -> u32 {
        self.job.timeline.stretch_end(gap)
    }

    fn find_cut(&self, process: u32, number: u32) -> (CallGap, u32) {
        let own = self.job.calls.iter().filter(|call| call.2 == process);
        let mut rest = own.skip(number as usize).map(|call| call.1);
        match rest.next() {
            Some(gap) if Some(gap) <= self.settled => {
                let alike = rest.take_while(|next| *next == gap).count();
                (CallGap::Of(gap), number + 1 + alike as u32)
            }
            _ => (CallGap::Later, u32::MAX),
        }
    }
}

proptest! {
    /// Files and pipes have one order, however they are cut and whenever it is known where calls were made.
    #[test]
    fn the_order_is_that_of_its_naive_twin(
        stretches in proptest::collection::vec(1..3_usize, 1..7),
        calls in proptest::collection::vec((0..16_usize, -2..3_i8, 0..4_u32), 0..80),
        reach in 1..24_u64,
        sizes in proptest::collection::vec(1..9_usize, 1..5),
        pauses in proptest::collection::vec((any::<bool>(), 0..3_u32), 1..9),
    ) {
        let job = Job::of(&stretches, &calls);
        let naive = job.naive(reach);
        prop_assert_eq!(job.whole(reach, &sizes), naive.clone());
        prop_assert_eq!(job.growing(reach, &sizes, &pauses), naive.clone());
        let mut all = naive.clone();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..calls.len()));
        // The shortest reach is the order of the lines.
        prop_assert!(job.naive(1).into_iter().eq(0..calls.len()));
        // A process's calls stay in their order.
        for process in 0..4 {
            let own = naive.iter().filter(|at| job.calls[**at].2 == process);
            prop_assert!(own.is_sorted());
        }
    }
}

#[test]
fn a_call_that_was_made_in_a_stretch_before_after_all_is_told_of() {
    let job = Job::of(&[1, 1], &[(0, 0, 0), (0, 0, 1), (1, 0, 0)]);
    let mut came = Came::default();
    came.chunks.push(Some(Arc::new(job.chunks(&[3]).remove(0))));
    let (mut order, mut rows) = (LiveRowOrder::new(MAX_ROW_MOVE_CALLS), Vec::new());
    let mut take = |_: &_, call: ChunkCall, _| {
        rows.push(call.at);
        Ok(())
    };
    let first = Seen { to: 1, settled: 0 };
    order.take_ready(&mut came, &first, &mut take).unwrap();
    let all = So {
        job: &job,
        settled: Some(u32::MAX),
    };
    assert!(!order.take_remaining(&mut came, &all, &mut take).unwrap());
    assert_eq!(rows, [0, 1, 2]);
}

/// The first calls of so many processes are known, in a stretch that is settled.
struct Seen {
    to: u32,
    settled: u32,
}

impl KnownPlaces for Seen {
    fn last_settled_gap(&self) -> Option<u32> {
        Some(self.settled)
    }

    fn stretch_end(&self, gap: u32) -> u32 {
        gap
    }

    fn find_cut(&self, process: u32, number: u32) -> (CallGap, u32) {
        match process < self.to && number == 0 {
            true => (CallGap::Of(self.settled), 1),
            false => (CallGap::Later, u32::MAX),
        }
    }
}

#[test]
fn a_rank_that_runs_ahead_keeps_nobody_waiting() {
    // The second rank begins the next step before the first one has made its last call.
    let job = Job::of(&[1, 1], &[(0, 0, 0), (0, 1, 1), (0, 0, 0), (1, 0, 0)]);
    assert_eq!(job.naive(MAX_ROW_MOVE_CALLS), [0, 2, 1, 3]);
    // The rows of the first step come at the pause, though that call's step is not known yet.
    let known = So {
        job: &job,
        settled: Some(0),
    };
    let (mut order, mut rows) = (LiveRowOrder::new(MAX_ROW_MOVE_CALLS), Vec::new());
    let mut came = Came::default();
    came.chunks
        .extend(job.chunks(&[4]).into_iter().map(|c| Some(Arc::new(c))));
    let take = |_: &_, call: ChunkCall, _| {
        rows.push(call.at);
        Ok(())
    };
    order.take_ready(&mut came, &known, take).unwrap();
    assert_eq!(rows, [0, 2]);
}
