//! What happens to a COLL line on its way into a stream that processes share.

use crate::error::Result;
use crate::job::call::Call;
use crate::options::Damage;
use crate::stream::stretch::{Built, Came, Mixer};

/// NCCL 2.29 writes through a FILE whose writes split here (4 of 4 tears in public logs).
const TEAR: usize = 128;

impl Mixer<'_> {
    /// The call kept back, `between` written into its line; a rank without calls prints only
    /// `between`.
    pub(crate) fn held(
        &mut self,
        programs: &[Vec<Call>],
        rank: usize,
        between: &str,
    ) -> Result<bool> {
        self.cursors[rank].stop = programs[rank].len();
        let mut spliced = false;
        while self.ready(&programs[rank], rank) {
            let Some(built) = self.build(&programs[rank], rank) else {
                self.writer.line(rank, &self.line)?;
                continue;
            };
            let marks = built.marks;
            // Not inside the stream's digits, where the head would look whole.
            let cut = marks.body + 1 + self.rng.below(marks.stream + 2 - marks.body);
            self.writer.put(rank, &self.line[..cut])?;
            self.writer.line(rank, between.as_bytes())?;
            let tail = self.line.split_off(cut);
            self.line.clear();
            self.prefixes.write(&mut self.line, rank, &self.clock);
            self.line.extend_from_slice(&tail);
            self.writer.line(rank, &self.line)?;
            self.count(built, Came::Whole);
            self.truth.joinable.spliced += 1;
            self.truth.hit(Damage::Spliced, 1, 1);
            spliced = true;
        }
        Ok(spliced)
    }

    pub(crate) fn emit(&mut self, programs: &[Vec<Call>], rank: usize) -> Result<()> {
        let built = self.build(&programs[rank], rank);
        // A line behind a bar without newline has met its share of damage.
        let safe = built.is_none() || self.writer.mid_line;
        let fate = if safe {
            None
        } else {
            self.fates.draw(&mut self.rng)
        };
        let (Some(fate), Some(first)) = (fate, built) else {
            return self.whole(rank, built);
        };
        let marks = first.marks;
        let mut cut = marks.named + self.rng.below(marks.stream - marks.named);
        if cut == TEAR {
            // A line cut there by chance would look torn, and its end would be waited for.
            cut += 1;
        }
        if fate == Damage::Cut {
            self.writer.line(rank, &self.line[..cut])?;
            self.count(first, Came::Lost);
            self.truth.hit(fate, 1, 1);
            return Ok(());
        }
        if fate == Damage::Torn && self.line.len() <= TEAR {
            return self.whole(rank, built);
        }
        // A pipe is shared by the processes of a node.
        let beside = (fate == Damage::Torn).then_some(rank);
        let Some(other) = self.other(programs, &[rank], beside) else {
            return self.whole(rank, built);
        };
        match fate {
            Damage::Torn => return self.torn(programs, first),
            Damage::GluedCut => {
                self.writer.put(rank, &self.line[..cut])?;
                self.count(first, Came::Lost);
            }
            Damage::Orphan => {
                let body = self.line.split_off(marks.body);
                self.writer.put(rank, &self.line)?;
                self.truth.joinable.orphan += 1;
                self.behind(programs, other)?;
                self.writer.line(rank, &body)?;
                self.count(first, Came::Whole);
                self.truth.hit(fate, 1, 1);
                return Ok(());
            }
            _ => {
                self.writer.put(rank, &self.line)?;
                self.count(first, Came::Whole);
            }
        }
        self.truth.hit(fate, 1, 1);
        self.behind(programs, other)
    }

    /// The next line of another rank, behind what stands on the physical line already.
    fn behind(&mut self, programs: &[Vec<Call>], rank: usize) -> Result<()> {
        let built = self.build(&programs[rank], rank);
        self.writer.mid_line = false;
        self.whole(rank, built)
    }

    /// The first 128 bytes, one to three lines of other ranks right behind them (the first may
    /// tear too), then the tails, each on a line of its own. What stands on one line with them was
    /// written into the same pipe: it is of the same node. Whole lines may come from all nodes, for
    /// whatever puts their streams together does it by line.
    fn torn(&mut self, programs: &[Vec<Call>], first: Built) -> Result<()> {
        let mut tails = vec![(first, self.line.split_off(TEAR))];
        self.writer.put(first.rank, &self.line)?;
        let mut wholes = 1 + self.rng.below(3);
        // Whose beginning the line ends with so far.
        let mut open = Some(first.rank);
        while wholes > 0 {
            let mut busy: Vec<usize> = tails.iter().map(|(b, _)| b.rank).collect();
            let Some(other) = self.other(programs, &busy, open) else {
                break;
            };
            busy.push(other);
            let built = self.build(&programs[other], other);
            let long = tails.len() < 3 && self.line.len() > TEAR && self.rng.chance(0.25);
            match built {
                // Something must end the physical line: a third rank's line. And an end says
                // whose it is by its communicator's address alone, so that two lines whose ends
                // could be swapped are not torn together: joinable is to mean it.
                Some(next)
                    if long
                        && !tails.iter().any(|(open, _)| self.alike(*open, next))
                        && self.other(programs, &busy, Some(other)).is_some() =>
                {
                    tails.push((next, self.line.split_off(TEAR)));
                    self.writer.put(other, &self.line)?;
                    open = Some(other);
                }
                _ => {
                    self.writer.mid_line = false;
                    self.whole(other, built)?;
                    open = None;
                    wholes -= 1;
                }
            }
        }
        while !tails.is_empty() {
            let (built, tail) = tails.swap_remove(self.rng.below(tails.len()));
            self.writer.line(built.rank, &tail)?;
            self.count(built, Came::Whole);
            self.truth.joinable.torn += 1;
            self.truth.hit(Damage::Torn, 1, 1);
        }
        Ok(())
    }

    /// True where one's communicator has an address that is one of the other's process's too.
    fn alike(&self, a: Built, b: Built) -> bool {
        let of = |built: Built| {
            self.job.procs[built.rank]
                .members
                .iter()
                .find(|m| m.comm == built.comm)
        };
        let has = |built: Built, ptr| {
            self.job.procs[built.rank]
                .members
                .iter()
                .any(|m| m.ptr == ptr)
        };
        of(a).is_some_and(|m| has(b, m.ptr)) || of(b).is_some_and(|m| has(a, m.ptr))
    }
}
