//! NCCL's lines before the first call and after the last.

use crate::error::Result;
use crate::fault;
use crate::nccl::init;
use crate::nccl::line::NcclLine;
use crate::options::{Damage, LogLayout, Timestamps};
use crate::stream::mixer::LineMixer;
use crate::stream::writer::file_name;

/// `src/debug.cc`: a buffer of 1,024 bytes for the line, its end included, up to NCCL 2.28.
const MAX_NCCL_LINE_BYTES: usize = 1023;

impl LineMixer<'_> {
    /// All ranks start and make their communicators.
    pub(crate) fn write_init_lines(&mut self) -> Result<()> {
        let mut waiting: Vec<_> = (0..self.options.ranks)
            .map(|rank| {
                let mut lines = init::init_lines(self.options, &self.job, rank);
                let odd = fault::edit_rank_lines(self.options, &self.job, rank, &mut lines);
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
                    self.note_fault_line(rank);
                }
                self.write_nccl_line(rank, &said)?;
                self.clock.advance(700);
            }
        }
        Ok(())
    }

    /// The job ends well.
    pub(crate) fn write_destroy_lines(&mut self) -> Result<()> {
        for rank in 0..self.options.ranks {
            for body in init::destroy_lines(&self.job, rank) {
                self.write_nccl_line(rank, &NcclLine::Info(body))?;
            }
        }
        Ok(())
    }

    /// The line that a rank writes now is the fault's, if it is the first.
    fn note_fault_line(&mut self, rank: usize) {
        let line = self.writer.line_number(rank);
        let file = file_name(&self.job.procs[rank]);
        let options = self.options;
        if let Some(fault) = &mut self.truth.fault
            && fault.line.is_none()
            && options.layout != LogLayout::Blocks
        {
            fault.line = Some(line);
            fault.file = (options.layout == LogLayout::PerRank).then_some(file);
        }
    }

    pub(crate) fn write_nccl_line(&mut self, rank: usize, said: &NcclLine) -> Result<()> {
        let proc = &self.job.procs[rank];
        let header = format!(
            "{}:{}:{} [{}]",
            proc.host, proc.pid, proc.init_tid, proc.dev
        );
        let (stamps, text) = match said {
            NcclLine::Bare(text) => (Timestamps::None, text.clone()),
            NcclLine::Info(body) | NcclLine::Trees(body) => (
                self.options.timestamps,
                format!("{header} NCCL INFO {body}"),
            ),
        };
        let mut line = Vec::new();
        self.prefixes.write_prefix(&mut line, rank, &self.clock);
        let own = line.len();
        self.clock.write_nccl_stamp(&mut line, stamps);
        line.extend_from_slice(text.as_bytes());
        if matches!(said, NcclLine::Trees(_))
            && line.len() - own > MAX_NCCL_LINE_BYTES
            && self
                .rng
                .draw_chance(self.options.damage_rate(Damage::Truncated))
        {
            line.truncate(own + MAX_NCCL_LINE_BYTES);
            self.truth.count_damage(Damage::Truncated, 1, 0);
        }
        self.writer.write_line(rank, &line)?;
        self.truth.records.other += 1;
        Ok(())
    }
}
