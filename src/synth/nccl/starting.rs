//! NCCL's lines before the first call and behind the last.

use crate::error::Result;
use crate::fault;
use crate::nccl::init;
use crate::nccl::said::Said;
use crate::options::{Damage, Layout, Timestamps};
use crate::stream::stretch::Mixer;
use crate::stream::writer::file_name;

/// `src/debug.cc`: a buffer of 1,024 bytes for the line, its end included, up to NCCL 2.28.
const NCCL_LINE: usize = 1023;

impl Mixer<'_> {
    /// All ranks start and make their communicators.
    pub(crate) fn initialise(&mut self) -> Result<()> {
        let mut waiting: Vec<_> = (0..self.options.ranks)
            .map(|rank| {
                let mut lines = init::lines(self.options, &self.job, rank);
                let odd = fault::apply(self.options, &self.job, rank, &mut lines);
                (rank, lines.into_iter(), odd)
            })
            .collect();
        while !waiting.is_empty() {
            let at = self.rng.below(waiting.len());
            let rank = waiting[at].0;
            for _ in 0..=self.rng.below(6) {
                let (_, lines, odd) = &mut waiting[at];
                // Counts down to the first line that is not as it should be.
                let wrong = odd.as_mut().is_some_and(|left| {
                    *left = left.wrapping_sub(1);
                    *left == usize::MAX
                });
                let Some(said) = lines.next() else {
                    waiting.swap_remove(at);
                    break;
                };
                if wrong {
                    self.seen(rank);
                }
                self.nccl_says(rank, &said)?;
                self.clock.advance(700);
            }
        }
        Ok(())
    }

    /// The job ends well.
    pub(crate) fn destroy(&mut self) -> Result<()> {
        for rank in 0..self.options.ranks {
            for body in init::destroyed(&self.job, rank) {
                self.nccl_says(rank, &Said::Info(body))?;
            }
        }
        Ok(())
    }

    /// The line that a rank writes now is the fault's, if it is the first.
    fn seen(&mut self, rank: usize) {
        let line = self.writer.line_number(rank);
        let file = file_name(&self.job.procs[rank]);
        let options = self.options;
        if let Some(fault) = &mut self.truth.fault
            && fault.line.is_none()
            && options.layout != Layout::Blocks
        {
            fault.line = Some(line);
            fault.file = (options.layout == Layout::PerRank).then_some(file);
        }
    }

    pub(crate) fn nccl_says(&mut self, rank: usize, said: &Said) -> Result<()> {
        let proc = &self.job.procs[rank];
        let header = format!(
            "{}:{}:{} [{}]",
            proc.host, proc.pid, proc.init_tid, proc.dev
        );
        let (stamps, text) = match said {
            Said::Bare(text) => (Timestamps::None, text.clone()),
            Said::Info(body) | Said::Trees(body) => (
                self.options.timestamps,
                format!("{header} NCCL INFO {body}"),
            ),
        };
        let mut line = Vec::new();
        self.prefixes.write(&mut line, rank, &self.clock);
        let own = line.len();
        self.clock.nccl(&mut line, stamps);
        line.extend_from_slice(text.as_bytes());
        if matches!(said, Said::Trees(_))
            && line.len() - own > NCCL_LINE
            && self.rng.chance(self.options.rate(Damage::Truncated))
        {
            line.truncate(own + NCCL_LINE);
            self.truth.hit(Damage::Truncated, 1, 0);
        }
        self.writer.line(rank, &line)?;
        self.truth.records.other += 1;
        Ok(())
    }
}
