//! Damage to a COLL line on its way, and the file that processes overwrite for each other.

use crate::error::{Error, Result};
use crate::options::check::MAX_OVERWRITTEN_BYTES;
use crate::options::{Damage, Options};
use crate::rng::Rng;

/// The kinds a COLL line can meet on its own, with the rates added up.
#[derive(Debug)]
pub(crate) struct DamageRates {
    steps: Vec<(f64, Damage)>,
}

impl DamageRates {
    /// From the requested rates.
    pub(crate) fn new(options: &Options) -> Self {
        let kinds = [
            Damage::Torn,
            Damage::Cut,
            Damage::Glued,
            Damage::GluedCut,
            Damage::Orphan,
        ];
        let mut sum = 0.0;
        let steps = kinds.iter().filter_map(|&kind| {
            let rate = options.damage_rate(kind);
            sum += rate;
            (rate > 0.0).then_some((sum, kind))
        });
        Self {
            steps: steps.collect(),
        }
    }

    /// Draws the damage to the next line.
    pub(crate) fn draw_damage(&self, rng: &mut Rng) -> Option<Damage> {
        if self.steps.is_empty() {
            return None;
        }
        let u = rng.next_unit();
        self.steps
            .iter()
            .find(|(sum, _)| u < *sum)
            .map(|&(_, kind)| kind)
    }
}

/// A call's line in an overwritten file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenCallLine {
    /// The process.
    pub rank: usize,
    /// Offset of its first byte.
    pub from: usize,
    /// Offset after its last byte, without the newline.
    pub to: usize,
    /// Offset of the stream's value: a line cut inside it looks whole.
    pub stream: usize,
    /// Index of the call, for the caller.
    pub tag: usize,
}

/// One NCCL_DEBUG_FILE opened by every process with `fopen(name, "w")`: each keeps its own
/// offset, so bytes replace bytes (`src/debug.cc`; seen in public logs of 2.28.9).
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    bytes: Vec<u8>,
    /// Which process wrote a byte last.
    owner: Vec<u16>,
    offsets: Vec<usize>,
    calls: Vec<WrittenCallLine>,
}

impl SharedFile {
    /// Writes at the process's own offset, and returns that offset.
    pub(crate) fn write(&mut self, rank: usize, line: &[u8]) -> Result<usize> {
        if self.offsets.len() <= rank {
            self.offsets.resize(rank + 1, 0);
        }
        let at = self.offsets[rank];
        let end = at + line.len();
        if end as u64 > MAX_OVERWRITTEN_BYTES || rank > usize::from(u16::MAX) {
            return Err(Error::Usage(
                "--damage overwritten needs a log of up to 64M".into(),
            ));
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
            self.owner.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(line);
        self.owner[at..end].fill(rank as u16);
        self.offsets[rank] = end;
        Ok(at)
    }

    /// Remembers where a call's line went.
    pub(crate) fn remember_call(&mut self, written: WrittenCallLine) {
        self.calls.push(written);
    }

    /// The longest process's length: what the file has grown to.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The file as it lies on the disk.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The calls, whether their lines are still whole, and whether all but the end of the
    /// stream is.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (WrittenCallLine, bool, bool)> + '_ {
        self.calls.iter().map(|&w| {
            let kept = |to| {
                self.owner[w.from..to]
                    .iter()
                    .all(|&o| usize::from(o) == w.rank)
            };
            (w, kept(w.to), kept(w.to.min(w.stream + 3)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{SharedFile, WrittenCallLine};

    #[test]
    fn later_bytes_replace_earlier_ones_at_the_same_offset() {
        let mut file = SharedFile::default();
        for (rank, text) in [(0, "aaaaaaaa\n"), (1, "bbb\n"), (0, "cc\n")] {
            let from = file.write(rank, text.as_bytes()).unwrap();
            file.remember_call(WrittenCallLine {
                rank,
                from,
                to: from + text.len() - 1,
                stream: from,
                tag: 0,
            });
        }
        assert_eq!(file.bytes(), b"bbb\naaaa\ncc\n");
        let whole: Vec<bool> = file.calls().map(|(_, whole, _)| whole).collect();
        assert_eq!(whole, [false, true, true]);
    }
}
