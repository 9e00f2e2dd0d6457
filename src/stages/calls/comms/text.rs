//! Rows as text, of repeated pieces: the columns of a speaker and of a call are formatted once and then copied.

use super::RowForm;
use crate::by_number::ByNumber;
use crate::count::caller::{Caller, caller_in};
use crate::members::MergedMembers;
use crate::members::job_ranks::JobRanks;
use crate::output::table::{Part, Row};
use rustc_hash::FxHashMap;
use std::ptr;
use std::sync::Arc;

/// A member, with the columns that all its calls share.
pub(super) struct SpeakerColumns {
    who: Caller,
    nranks: Option<u32>,
    process: Vec<u8>,
    member: Vec<u8>,
    job_rank: Vec<u8>,
}

impl SpeakerColumns {
    /// Its columns as rows of `form` have them.
    pub(super) fn new(who: Caller, nranks: Option<u32>, form: RowForm) -> SpeakerColumns {
        let mut speaker = SpeakerColumns {
            who,
            nranks,
            process: Vec::new(),
            member: Vec::new(),
            job_rank: Vec::new(),
        };
        let [process, member, job_rank] =
            [Part::Process, Part::Member, Part::JobRank].map(|part| {
                let mut text = Vec::new();
                form.write_part(&speaker.fill_row(Row::default()), part, &mut text);
                text
            });
        (speaker.process, speaker.member) = (process, member);
        speaker.job_rank = job_rank;
        speaker
    }

    /// The rank in the job.
    pub(super) fn global_rank(&self) -> Option<u32> {
        self.who.global_rank
    }

    /// Returns `row` with the speaker's columns.
    #[inline(always)]
    pub(super) fn fill_row<'a>(&'a self, row: Row<'a>) -> Row<'a> {
        let Caller {
            host,
            pid,
            dev,
            comm,
            comm_id,
            rank,
            global_rank,
            ..
        } = &self.who;
        Row {
            host,
            pid: *pid,
            dev: *dev,
            rank: *rank,
            nranks: self.nranks,
            comm: *comm,
            comm_id: *comm_id,
            global_rank: *global_rank,
            ..row
        }
    }
}

/// The speakers so far, by merged member.
pub(super) struct SpeakerCache {
    form: RowForm,
    ranks: Arc<JobRanks>,
    known: ByNumber<Option<Arc<SpeakerColumns>>>,
}

impl SpeakerCache {
    /// `ranks` are those of the processes' jobs.
    pub(super) fn new(ranks: Arc<JobRanks>, form: RowForm) -> SpeakerCache {
        SpeakerCache {
            form,
            ranks,
            known: ByNumber::default(),
        }
    }

    /// Returns the columns of a member; `all` and `renamed` as in [`caller_in`].
    pub(super) fn find_speaker(
        &mut self,
        merged: &MergedMembers,
        all: &MergedMembers,
        renamed: &FxHashMap<u32, u32>,
        at: u32,
    ) -> Arc<SpeakerColumns> {
        let new = || {
            let member = merged.origins.members.get(at);
            let who = caller_in(merged, all, renamed, &self.ranks, member);
            Arc::new(SpeakerColumns::new(who, member.nranks, self.form))
        };
        Arc::clone(self.known.entry(at).get_or_insert_with(new))
    }
}

/// Pieces of text, each at the place its key points to: a row's is mostly there already.
struct TextMemo<K> {
    places: Vec<(Option<K>, Vec<u8>)>,
}

impl<K: PartialEq + Copy> TextMemo<K> {
    /// `places` is a power of two.
    fn new(places: usize) -> TextMemo<K> {
        TextMemo {
            places: vec![(None, Vec::new()); places],
        }
    }

    #[inline(always)]
    fn copy_or_make(
        &mut self,
        key: K,
        mixed: u64,
        out: &mut Vec<u8>,
        make: impl FnOnce(&mut Vec<u8>),
    ) {
        let place = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        let last = self.places.len() - 1;
        let (known, text) = &mut self.places[place & last];
        if *known != Some(key) {
            *known = Some(key);
            text.clear();
            make(text);
        }
        out.extend_from_slice(text);
    }
}

/// The columns of a call: operation, count, datatype, reduction, root. The operation by its address: the names
/// of a block's chunk do not move.
type CallTextKey = (usize, u64, u32, u64, i64);

/// The columns after these but the last: the stream, and the timing by its address, which is stable in a run.
type RowTailKey = (u64, usize);

/// The text of rows of one chunk.
pub(super) struct RowTextBuffer {
    form: RowForm,
    what: TextMemo<CallTextKey>,
    rest: TextMemo<RowTailKey>,
    /// The text so far.
    pub(super) out: Vec<u8>,
}

impl RowTextBuffer {
    /// Rows to be written after `out`.
    pub(super) fn new(form: RowForm, out: Vec<u8>) -> RowTextBuffer {
        let places = if form.has_parts() { 256 } else { 1 };
        RowTextBuffer {
            form,
            what: TextMemo::new(places),
            rest: TextMemo::new(places),
            out,
        }
    }

    /// Appends a row of `speaker`.
    #[inline(always)]
    pub(super) fn push_row(&mut self, row: &Row<'_>, speaker: &SpeakerColumns) {
        let form = self.form;
        if !form.has_parts() {
            return form.write_row(row, &mut self.out);
        }
        let out = &mut self.out;
        form.write_part(row, Part::When, out);
        out.extend_from_slice(&speaker.process);
        form.write_part(row, Part::Thread, out);
        out.extend_from_slice(&speaker.member);
        form.write_part(row, Part::Order, out);
        let number = |n: Option<u64>| n.unwrap_or(u64::MAX);
        let what = (
            row.op.as_ptr() as usize,
            // A log's line has one.
            row.count.unwrap_or(u64::MAX),
            row.datatype.map_or(u32::MAX, |d| d.0),
            number(row.redop.map(|r| r.0)),
            row.root.unwrap_or(i64::MIN),
        );
        let mixed = what.1 ^ (row.root.unwrap_or(0).cast_unsigned() << 48) ^ (what.0 as u64) << 32;
        self.what.copy_or_make(what, mixed, out, |text| {
            form.write_part(row, Part::What, text);
        });
        let stream = number(row.stream);
        let timing = row
            .timing
            .map_or(0, |timing| ptr::from_ref(timing) as usize);
        let mixed = stream ^ (timing as u64) << 24;
        self.rest
            .copy_or_make((stream, timing), mixed, out, |text| {
                form.write_part(row, Part::Rest, text);
                form.write_part(row, Part::Timing, text);
            });
        out.extend_from_slice(&speaker.job_rank);
    }
}
