//! Damage to a COLL line on its way into a stream that processes share.

use crate::error::Result;
use crate::job::call::ScheduledCall;
use crate::options::Damage;
use crate::stream::mixer::{BuiltCallLine, CallLineFate, LineMixer};

/// NCCL 2.29 writes through a FILE that splits its writes here (4 of 4 tears in public logs).
const MAX_UNTORN_BYTES: usize = 128;

impl LineMixer<'_> {
    /// The call kept back, `between` written into its line; a rank without calls prints only
    /// `between`.
    pub(crate) fn write_held_call(
        &mut self,
        programs: &[Vec<ScheduledCall>],
        rank: usize,
        between: &str,
    ) -> Result<bool> {
        self.cursors[rank].stop = programs[rank].len();
        let mut spliced = false;
        while self.skip_unmade_calls(&programs[rank], rank) {
            let Some(built) = self.build_line(&programs[rank], rank) else {
                self.writer.write_line(rank, &self.line)?;
                continue;
            };
            let marks = built.marks;
            // Not inside the stream's digits, where the head would look whole.
            let cut = marks.body + 1 + self.rng.below(marks.stream + 2 - marks.body);
            self.writer.write_bytes(rank, &self.line[..cut])?;
            self.writer.write_line(rank, between.as_bytes())?;
            let tail = self.line.split_off(cut);
            self.line.clear();
            self.prefixes
                .write_prefix(&mut self.line, rank, &self.clock);
            self.line.extend_from_slice(&tail);
            self.writer.write_line(rank, &self.line)?;
            self.count_call(built, CallLineFate::Whole);
            self.truth.joinable.spliced += 1;
            self.truth.count_damage(Damage::Spliced, 1, 1);
            spliced = true;
        }
        Ok(spliced)
    }

    pub(crate) fn write_next_line(
        &mut self,
        programs: &[Vec<ScheduledCall>],
        rank: usize,
    ) -> Result<()> {
        let built = self.build_line(&programs[rank], rank);
        // A line after a bar without a newline is damaged already.
        let safe = built.is_none() || self.writer.mid_line;
        let fate = if safe {
            None
        } else {
            self.fates.draw_damage(&mut self.rng)
        };
        let (Some(fate), Some(first)) = (fate, built) else {
            return self.write_whole_line(rank, built);
        };
        let marks = first.marks;
        let mut cut = marks.named + self.rng.below(marks.stream - marks.named);
        if cut == MAX_UNTORN_BYTES {
            // A line cut there by chance would look torn, and its end would be waited for.
            cut += 1;
        }
        if fate == Damage::Cut {
            self.writer.write_line(rank, &self.line[..cut])?;
            self.count_call(first, CallLineFate::Lost);
            self.truth.count_damage(fate, 1, 1);
            return Ok(());
        }
        if fate == Damage::Torn && self.line.len() <= MAX_UNTORN_BYTES {
            return self.write_whole_line(rank, built);
        }
        // A pipe is shared by the processes of a node.
        let beside = (fate == Damage::Torn).then_some(rank);
        let Some(other) = self.choose_other_rank(programs, &[rank], beside) else {
            return self.write_whole_line(rank, built);
        };
        match fate {
            Damage::Torn => return self.write_torn_lines(programs, first),
            Damage::GluedCut => {
                self.writer.write_bytes(rank, &self.line[..cut])?;
                self.count_call(first, CallLineFate::Lost);
            }
            Damage::Orphan => {
                let body = self.line.split_off(marks.body);
                self.writer.write_bytes(rank, &self.line)?;
                self.truth.joinable.orphan += 1;
                self.write_glued_line(programs, other)?;
                self.writer.write_line(rank, &body)?;
                self.count_call(first, CallLineFate::Whole);
                self.truth.count_damage(fate, 1, 1);
                return Ok(());
            }
            _ => {
                self.writer.write_bytes(rank, &self.line)?;
                self.count_call(first, CallLineFate::Whole);
            }
        }
        self.truth.count_damage(fate, 1, 1);
        self.write_glued_line(programs, other)
    }

    /// The next line of another rank, appended to the physical line.
    fn write_glued_line(&mut self, programs: &[Vec<ScheduledCall>], rank: usize) -> Result<()> {
        let built = self.build_line(&programs[rank], rank);
        self.writer.mid_line = false;
        self.write_whole_line(rank, built)
    }

    /// The first 128 bytes, one to three lines of other ranks right behind them (the first may
    /// tear too), then the tails, each on a line of its own. What stands on one line with them was
    /// written into the same pipe: it is of the same node. Whole lines may come from all nodes, for
    /// the program that merges their streams does it by line.
    fn write_torn_lines(
        &mut self,
        programs: &[Vec<ScheduledCall>],
        first: BuiltCallLine,
    ) -> Result<()> {
        let mut tails = vec![(first, self.line.split_off(MAX_UNTORN_BYTES))];
        self.writer.write_bytes(first.rank, &self.line)?;
        let mut wholes = 1 + self.rng.below(3);
        // The rank with its beginning at the end of the line so far.
        let mut open = Some(first.rank);
        while wholes > 0 {
            let mut busy: Vec<usize> = tails.iter().map(|(b, _)| b.rank).collect();
            let Some(other) = self.choose_other_rank(programs, &busy, open) else {
                break;
            };
            busy.push(other);
            let built = self.build_line(&programs[other], other);
            let long =
                tails.len() < 3 && self.line.len() > MAX_UNTORN_BYTES && self.rng.draw_chance(0.25);
            match built {
                // Something must end the physical line: a third rank's line. And an end names
                // its rank by its communicator's address alone, so that two lines with ends that
                // could be swapped are not torn together: a joinable line must be joinable.
                Some(next)
                    if long
                        && !tails
                            .iter()
                            .any(|(open, _)| self.share_an_address(*open, next))
                        && self
                            .choose_other_rank(programs, &busy, Some(other))
                            .is_some() =>
                {
                    tails.push((next, self.line.split_off(MAX_UNTORN_BYTES)));
                    self.writer.write_bytes(other, &self.line)?;
                    open = Some(other);
                }
                _ => {
                    self.writer.mid_line = false;
                    self.write_whole_line(other, built)?;
                    open = None;
                    wholes -= 1;
                }
            }
        }
        while !tails.is_empty() {
            let (built, tail) = tails.swap_remove(self.rng.below(tails.len()));
            self.writer.write_line(built.rank, &tail)?;
            self.count_call(built, CallLineFate::Whole);
            self.truth.joinable.torn += 1;
            self.truth.count_damage(Damage::Torn, 1, 1);
        }
        Ok(())
    }

    /// True where one's communicator has an address that is one of the other's process's too.
    fn share_an_address(&self, a: BuiltCallLine, b: BuiltCallLine) -> bool {
        let of = |built: BuiltCallLine| {
            self.job.procs[built.rank]
                .members
                .iter()
                .find(|m| m.comm == built.comm)
        };
        let has = |built: BuiltCallLine, ptr| {
            self.job.procs[built.rank]
                .members
                .iter()
                .any(|m| m.ptr == ptr)
        };
        of(a).is_some_and(|m| has(b, m.ptr)) || of(b).is_some_and(|m| has(a, m.ptr))
    }
}
