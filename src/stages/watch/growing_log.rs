//! A growing log: whole lines are walked as they come.

use super::calls::{CallsByOp, WatchChunk, WatchedMemberCalls};
use crate::log::timeline::{self, TrainStep};
use crate::log::walk;
use crate::log::{LogState, Options};
use crate::members::{CommIdentity, MergedMembers, MergedNumbers, SpeakerProcess};
use crate::source::CutPlace;
use crate::stages::watch::limits::{MARKS_KEPT, MAX_WAITING_LINE_BYTES};
use memchr::{memchr, memrchr};

/// The contents of new lines.
#[derive(Debug, Default)]
pub(super) struct GrowthNews {
    /// The lines.
    pub(super) text: Vec<u8>,
    /// Steps that have ended, in order.
    pub(super) ended: Vec<TrainStep>,
    pub(super) calls: CallsByOp,
    /// Texts of WARN lines.
    pub(super) warned: Vec<Vec<u8>>,
    /// Calls by member.
    pub(super) by_member: Vec<MemberNews>,
    /// Lines that identify communicators.
    pub(super) inits: Vec<u8>,
    /// A call was made.
    pub(super) has_calls: bool,
    /// Bytes of an over-long line that were not read.
    pub(super) dropped: u64,
}

/// A member's new calls.
#[derive(Debug)]
pub(super) struct MemberNews {
    pub(super) process: SpeakerProcess,
    /// Its communicator and rank, if an INIT line names them.
    pub(super) identity: Option<CommIdentity>,
    pub(super) calls: WatchedMemberCalls,
}

/// How a growing log is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrowthOptions<'o> {
    pub(super) log: &'o Options,
    pub(super) steps: &'o timeline::Options,
}

/// A log that grows.
#[derive(Debug, Default)]
pub(super) struct GrowingLog {
    log: LogState,
    merged: MergedMembers,
    /// A line without its end.
    rest: Vec<u8>,
    /// Bytes of that line over the limit, which are not kept.
    dropped: u64,
    /// Bytes walked.
    offset: u64,
    /// The last piece ends where a line may wait for the next one.
    is_loud: bool,
    /// Marks of steps that were reported.
    reported_marks: usize,
}

impl GrowingLog {
    /// Reads new bytes; `anew` if they are the beginning of another file.
    pub(super) fn read_growth(
        &mut self,
        mut bytes: &[u8],
        anew: bool,
        options: GrowthOptions<'_>,
    ) -> GrowthNews {
        if self.dropped > 0 && !anew {
            let (over, after) = bytes.split_at(memchr(b'\n', bytes).unwrap_or(bytes.len()));
            self.dropped += over.len() as u64;
            bytes = after;
        }
        if anew && !self.rest.is_empty() {
            self.rest.push(b'\n');
        }
        let before = self.rest.len();
        self.rest.extend_from_slice(bytes);
        // The waiting line may end in these bytes.
        let line_end = memchr(b'\n', bytes)
            .filter(|_| !anew)
            .map(|end| before + end);
        if let Some(end) = line_end.filter(|&end| end > MAX_WAITING_LINE_BYTES) {
            self.dropped += (end - MAX_WAITING_LINE_BYTES) as u64;
            self.rest.drain(MAX_WAITING_LINE_BYTES..end);
        }
        let end = match find_cut(&self.rest, before) {
            Some(end) => end,
            None if anew => before,
            None if self.rest.len() <= MAX_WAITING_LINE_BYTES => return GrowthNews::default(),
            None if bytes.contains(&b'\n') => self.rest.len(),
            None => {
                self.dropped += (self.rest.len() - MAX_WAITING_LINE_BYTES) as u64;
                self.rest.truncate(MAX_WAITING_LINE_BYTES);
                return GrowthNews::default();
            }
        };
        let rest = self.rest.split_off(end);
        let piece = std::mem::replace(&mut self.rest, rest);
        self.walk_piece(piece, options)
    }

    /// Reads a last line without an end.
    pub(super) fn read_last_line(&mut self, options: GrowthOptions<'_>) -> GrowthNews {
        let piece = std::mem::take(&mut self.rest);
        self.walk_piece(piece, options)
    }

    fn walk_piece(&mut self, piece: Vec<u8>, options: GrowthOptions<'_>) -> GrowthNews {
        let place = walk::ChunkPlace {
            offset: self.offset,
            is_quiet: !self.is_loud,
        };
        let scanned = walk::walk_bytes(
            &piece,
            place,
            &options.log.recogniser,
            true,
            WatchChunk::default(),
        );
        let inits = copy_lines(&piece, self.offset, &scanned.init_lines);
        self.offset += piece.len() as u64;
        self.is_loud = walk::classify_cut(&piece, !self.is_loud) != CutPlace::Quiet;
        let mut to = MergedNumbers::default();
        let before = self.log.account.calls;
        let part = self.log.add_chunk(scanned, &mut self.merged, &mut to);
        let WatchChunk {
            calls,
            warned,
            by_member,
        } = part.visit;
        let merged = part.merged;
        let news_of_member = |(&member, turns)| {
            let member = merged.origins.members.get(member);
            let place = merged.origins.places.get(member.place);
            let process = merged.origins.processes.get(place.process);
            MemberNews {
                process: process.clone(),
                identity: merged.identity_of(member),
                calls: turns,
            }
        };
        let each = part.to.members.iter().zip(by_member);
        let each = each.filter(|(_, turns)| *turns != WatchedMemberCalls::default());
        let by_member = each.map(news_of_member).collect();
        self.log.init_lines.clear();
        let mut news = GrowthNews {
            text: piece,
            dropped: std::mem::take(&mut self.dropped),
            calls,
            warned,
            by_member,
            inits,
            has_calls: self.log.account.calls > before,
            ..GrowthNews::default()
        };
        if self.log.marks.len() == self.reported_marks {
            return news;
        }
        let timeline = timeline::resolve_timeline(&self.log.marks, &[], options.steps);
        let steps = timeline.steps.remaining();
        let first = steps.partition_point(|step| step.mark < self.reported_marks);
        news.ended = steps[first..].to_vec();
        self.reported_marks = self.log.marks.len();
        self.forget_marks();
        news
    }

    /// Its processes and communicators.
    pub(super) fn members(&self) -> &MergedMembers {
        &self.merged
    }

    /// Returns the line that has no end yet.
    pub(super) fn unfinished_line(&self) -> &[u8] {
        &self.rest
    }

    /// Forgets marks that are no longer needed.
    fn forget_marks(&mut self) {
        let marks = &mut self.log.marks;
        if marks.len() >= 2 * MARKS_KEPT {
            marks.keep_last(MARKS_KEPT);
            self.reported_marks = marks.len();
        }
    }
}

/// Returns the end of the last line in `bytes` that need not be walked with the next one; `None` if no such
/// line ends after the byte `from`. Whole lines before it are known to wait for the next one.
fn find_cut(bytes: &[u8], from: usize) -> Option<usize> {
    let mut end = from + memrchr(b'\n', &bytes[from..])? + 1;
    loop {
        let begin = memrchr(b'\n', &bytes[..end - 1]).map_or(0, |before| before + 1);
        match walk::classify_cut(&bytes[begin..end], true) {
            CutPlace::Within if begin <= from => return None,
            CutPlace::Within => end = begin,
            CutPlace::Loud | CutPlace::Quiet => return Some(end),
        }
    }
}

/// Copies lines out of a piece that begins at `offset` of its log, each with a line end.
fn copy_lines(piece: &[u8], offset: u64, lines: &[(u64, u64)]) -> Vec<u8> {
    let mut copy = Vec::new();
    let within = |at: u64| usize::try_from(at.saturating_sub(offset)).ok();
    for &(begin, end) in lines {
        let line = within(begin).zip(within(end));
        let line = line.and_then(|(begin, end)| piece.get(begin..end));
        copy.extend_from_slice(line.unwrap_or_default());
        if copy.last().is_some_and(|&last| last != b'\n') {
            copy.push(b'\n');
        }
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::options::Damage;
    use crate::synth::{self, StreamSink};
    use crate::testing;
    use proptest::prelude::*;

    const DAMAGE: [Damage; 6] = [
        Damage::Torn,
        Damage::Spliced,
        Damage::Cut,
        Damage::Glued,
        Damage::GluedCut,
        Damage::Orphan,
    ];

    fn make_damaged_log(seed: u64, damage: Damage) -> Vec<u8> {
        let options = synth::Options {
            ranks: 2,
            steps: 3,
            layers: 1,
            seed,
            damage: vec![(damage, 0.2)],
            ..synth::Options::default()
        };
        let mut log = Vec::new();
        synth::generate(&options, &mut StreamSink::new(&mut log)).unwrap();
        log
    }

    /// Returns the calls and steps of a log that comes in `pieces`.
    fn count_growth<'l>(pieces: impl IntoIterator<Item = &'l [u8]>) -> (u64, usize) {
        let read = testing::options(1, false);
        let options = GrowthOptions {
            log: &read.log,
            steps: &read.timeline,
        };
        let mut log = GrowingLog::default();
        let grown = pieces
            .into_iter()
            .map(|piece| log.read_growth(piece, false, options));
        let mut all: Vec<GrowthNews> = grown.collect();
        all.push(log.read_last_line(options));
        let calls = |news: &GrowthNews| news.calls.total().calls;
        let steps = all.iter().map(|news| news.ended.len()).sum();
        (all.iter().map(calls).sum(), steps)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn pieces_do_not_change_what_is_counted(
            seed in 0..1000_u64,
            damage in proptest::sample::select(&DAMAGE[..]),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let log = make_damaged_log(seed, damage);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(log.len() + 1)).collect();
            cuts.extend([0, log.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|ends| &log[ends[0]..ends[1]]);
            prop_assert_eq!(count_growth([&log[..]]), count_growth(pieces));
        }
    }
}
