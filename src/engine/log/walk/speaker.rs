//! The speakers of a chunk: which process and device a header names, and which member makes a call.

use super::limits::MAX_SPEAKER_TEXTS;
use super::{ChunkWalk, LineHead, LogCall, LogVisitor, TornPiece, line};
use crate::grammar::coll::Coll;
use crate::grammar::header::{self, LineHeader};
use crate::grammar::message::communicator::init::{CommInit, InitEvent};
use crate::grammar::values::Datatype;
use crate::grammar::wrap;
use crate::members::duplicate_inputs;
use crate::members::{InitPosition, SpeakerComm};

/// The speaker of a header.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeaderSpeaker {
    pub(super) place: u32,
    pub(super) process: u32,
    pub(super) tid: Option<u64>,
}

/// The placeholder for no member: no place has this number.
pub(super) const NO_MEMBER: SpeakerComm = SpeakerComm {
    place: u32::MAX,
    comm: 0,
    nranks: None,
    identity: 0,
};

impl<'a, V: LogVisitor> ChunkWalk<'a, V> {
    /// Leaves a whole line that begins with its header to the merge.
    #[cold]
    pub(super) fn leave_to_merge(&mut self, start: usize, line: &[u8], place: u32) {
        let begun = LineHead {
            place,
            label: Box::default(),
            text: if self.is_look {
                Box::default()
            } else {
                line.into()
            },
            time: Box::default(),
        };
        let piece = TornPiece::Doubtful {
            begun,
            broken: None,
        };
        let number = self.out.account.lines;
        self.add_fragment(piece, number, 0, start);
        self.out.account.lines += 1;
    }

    /// A process writes its next line, so the line before it has its tail.
    pub(super) fn note_speaker(&mut self, process: u32, start: usize) {
        if self.waiting.may_end_within(1) && self.waiting.end_line_of(self.process_if_sure(process))
        {
            let number = self.out.account.lines;
            self.add_fragment(TornPiece::Heard { process }, number, 0, start);
        }
    }

    /// Returns true for a call that the merge would leave to its speaker although another line's
    /// tail may be in it ([`TornPiece::Doubtful`]): its process certainly used this communicator in
    /// this chunk.
    pub(super) fn is_certain(
        &self,
        comm: u64,
        nranks: Option<u32>,
        speaker: HeaderSpeaker,
    ) -> bool {
        let (member, at) = self.find_member(comm, nranks, speaker);
        self.members[at].0 == member && self.process_if_sure(speaker.process).is_some()
    }

    /// Returns a process if its name is sure: else it may be another one.
    pub(super) fn process_if_sure(&self, process: u32) -> Option<u32> {
        self.out.origins.is_clean(process).then_some(process)
    }

    /// Returns the member that makes a call on a communicator of that size, and its place in
    /// `members`. The rest of the call is no argument: the compiler then leaves out what a stage
    /// does not read.
    #[inline(always)]
    pub(super) fn find_member(
        &self,
        comm: u64,
        nranks: Option<u32>,
        speaker: HeaderSpeaker,
    ) -> (SpeakerComm, usize) {
        let generation = if self.generations.is_empty() {
            self.learnt
        } else {
            let given = self.generations.get(&(speaker.process, comm));
            given.map_or(0, |given| given.0).max(self.learnt)
        };
        let member = SpeakerComm {
            place: speaker.place,
            comm,
            nranks,
            identity: generation,
        };
        let mixed = (comm ^ u64::from(speaker.place)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (member, (mixed >> 40) as usize & (self.members.len() - 1))
    }

    /// Returns the speaker of the text `start..op` if it is a plain header, and the stamp in it.
    #[inline]
    pub(super) fn parse_speaker(
        &mut self,
        start: usize,
        op: usize,
    ) -> Option<(HeaderSpeaker, &'a [u8])> {
        let text = &self.bytes[start..op];
        if let Some(&(speaker, host)) = self.speakers.get(text) {
            self.remember_header(start, host, speaker, b"");
            return Some((speaker, b""));
        }
        // A wrapping, such as a colour, may be in front of the host; from there on there is none.
        let unwrapped = wrap::unwrap_line(text, &|text| line::is_wanted(text, self.recogniser));
        let plain = unwrapped.as_ref().map_or(text, |text| text.text());
        let header = header::find_header(plain, 0)?;
        let host = text.len().checked_sub(plain.len() - header.start)?;
        let is_clean = header.body == plain.len()
            && line::is_prefix(&plain[..header.start], self.recogniser)
            && text[host..] == plain[header.start..];
        let time = header::find_time_stamp(&text[..host]);
        let is_same_time = unwrapped.is_none()
            || (time.is_empty() && header::find_time_stamp(&plain[..header.start]).is_empty());
        if !is_clean || !is_same_time {
            return None;
        }
        self.line = start;
        let speaker = self.intern_header_speaker(&header, true);
        self.remember_header(start, host, speaker, time);
        if time.is_empty() && self.speakers.len() < MAX_SPEAKER_TEXTS {
            self.speakers.insert(text, (speaker, host));
        }
        Some((speaker, time))
    }

    /// Returns the speaker of a header; `clean` if no other text can be glued to its host.
    pub(super) fn intern_header_speaker(
        &mut self,
        header: &LineHeader<'_>,
        clean: bool,
    ) -> HeaderSpeaker {
        let at = self.offset + self.line as u64;
        let origins = &mut self.out.origins;
        let process = origins.intern_speaker(header.host, Some(header.pid), clean, at);
        let place = self.out.origins.intern_device(process, header.dev);
        HeaderSpeaker {
            place,
            process,
            tid: header.tid,
        }
    }

    /// Returns the speaker of a body without a header.
    pub(super) fn unknown_speaker(&mut self) -> HeaderSpeaker {
        let at = self.offset + self.line as u64;
        let process = self.out.origins.intern_speaker(b"", None, true, at);
        HeaderSpeaker {
            place: self.out.origins.intern_device(process, None),
            process,
            tid: None,
        }
    }

    // Inlined whole, so that a stage that does not use a field does not pay for reading it.
    #[inline(always)]
    pub(super) fn visit_call(
        &mut self,
        coll: Coll<'_>,
        speaker: HeaderSpeaker,
        is_sure: bool,
        time: &[u8],
        at: usize,
    ) {
        let (member, place) = self.find_member(coll.comm, coll.nranks, speaker);
        let slot = &mut self.members[place];
        if slot.0 != member {
            let bytes = &self.bytes[at..];
            let print = || duplicate_inputs::fingerprint_call_line(bytes);
            let at = self.offset + at as u64;
            *slot = (member, self.out.origins.intern_member(member, at, print));
        }
        let member = slot.1;
        self.out.account.calls += 1;
        if Datatype(coll.datatype).size().is_none() {
            *self
                .out
                .account
                .unknown_datatypes
                .entry(coll.datatype)
                .or_default() += 1;
        }
        self.out.visit.call(&LogCall {
            coll,
            member,
            process: speaker.process,
            is_sure,
            tid: speaker.tid,
            time,
            at: self.offset + at as u64,
        });
    }

    pub(super) fn add_init_line(&mut self, init: CommInit, speaker: HeaderSpeaker, at: usize) {
        let key = (speaker.process, init.comm);
        // A name that is not sure may be this process's, and this one may be another's: only the
        // merge knows the meaning before.
        let is_sure = !self.out.origins.has_glued();
        let before = self.generations.get(&key);
        if is_sure && before.is_some_and(|(_, before)| before.is_same_life(&init)) {
            return;
        }
        self.moments += 1;
        self.generations.insert(key, (self.moments, init));
        if !is_sure {
            self.learnt = self.moments;
        }
        self.out.inits.push(InitPosition {
            process: speaker.process,
            init,
            at: self.offset + at as u64,
        });
        debug_assert!(matches!(init.event, InitEvent::Init | InitEvent::End));
    }
}
