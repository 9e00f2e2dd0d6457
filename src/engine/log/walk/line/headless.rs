//! NCCL lines without a whole header: quoted, cut, or of another process.

use super::prefix::{is_beheaded, is_header_end, is_prefix};
use super::tail::is_tail;
use super::verdict::{LineItem, LineVerdict};
use crate::grammar::coll;
use crate::grammar::header::{self, HeaderLevel};
use crate::grammar::message::setup::version::{self, ComponentVersion};
use crate::grammar::message::{self, NcclMessage};
use crate::grammar::short_header::{self, ShortLine};
use crate::grammar::trainer::{Recogniser, TrainerRecord};
use crate::grammar::values::is_known_op;
use crate::log::walk::{ChunkWalk, LogVisitor, TailLikeness};
use crate::report::account::LineClass;
use memchr::memmem;
use std::sync::LazyLock;

impl<'a, V: LogVisitor> ChunkWalk<'_, V> {
    /// Reads the bodies in a text without a header: their speaker is unknown.
    pub(super) fn read_bare_bodies(&mut self, text: &'a [u8], v: &mut LineVerdict<'a>) {
        let mut from = 0;
        while let Some(anchor) = coll::COLL_ANCHOR_FINDER
            .find(&text[from..])
            .map(|i| from + i)
        {
            match coll::parse_coll_at(text, anchor) {
                // Half a name reads as a name: without a header only a known one is accepted.
                Ok((op, coll, end)) if !is_whole_name(&text[..op], coll.op) => {
                    v.set_damage(anchor, "the beginning of an operation's name");
                    from = end;
                }
                Ok((op, coll, end)) => {
                    let speaker = self.unknown_speaker();
                    v.things.push((op, LineItem::Call(coll, speaker, b"")));
                    v.class = LineClass::Call;
                    from = end;
                }
                Err(e) => {
                    v.set_damage(text.len() - e.left.min(text.len()), e.what);
                    from = anchor + coll::COLL_ANCHOR.len();
                }
            }
        }
    }

    /// Reads a NCCL line without a whole header: a quoted one, a body alone, a cut one.
    pub(super) fn read_headless_line(
        &mut self,
        line: &'a [u8],
        found: &[TrainerRecord],
        v: &mut LineVerdict<'a>,
    ) {
        let end = found.first().map_or(line.len(), |f| f.start);
        let before = v.things.len();
        self.read_bare_bodies(&line[..end], v);
        if v.things.len() > before || v.damage.is_some() {
            return;
        }
        let version = version::parse_headerless_version(line);
        if is_tail(line) {
            v.add_tail(line, TailLikeness::Nccl);
        } else if version.is_some()
            || memmem::find(line, b"NCCL version ").is_some()
            || BARE_LEVELS
                .iter()
                .any(|level| memmem::find(line, level).is_some())
        {
            let account = &mut self.out.account;
            if is_beheaded(line) {
                account.headless += 1;
                account.firsts.headless.get_or_insert(account.lines);
            }
            self.read_headless_version(line, version, v);
            if v.things.len() == before && V::MESSAGES {
                self.read_headless_message(&line[..end], v);
            }
        }
    }

    /// Reads a line that is only a version: NCCL's own, or of RCCL's block.
    pub(super) fn read_headless_version(
        &mut self,
        line: &'a [u8],
        version: Option<ComponentVersion<'a>>,
        v: &mut LineVerdict<'a>,
    ) {
        v.class = LineClass::Other;
        if let Some(version) = version.filter(|_| V::MESSAGES) {
            let nobody = self.unknown_speaker();
            v.things.push((
                0,
                LineItem::Message(NcclMessage::Version(version), line, nobody, b""),
            ));
        }
    }

    /// Reads the message of a line without a whole header. Its speaker is unknown, so a line that
    /// names a process's communicator is of no use.
    fn read_headless_message(&mut self, line: &'a [u8], v: &mut LineVerdict<'a>) {
        static INFO: LazyLock<memmem::Finder<'static>> =
            LazyLock::new(|| memmem::Finder::new(b"NCCL INFO "));
        if let Some(warn) = parse_quoted_warn(line, self.recogniser) {
            let nobody = self.unknown_speaker();
            v.things
                .push((0, LineItem::Message(warn, line, nobody, b"")));
            return;
        }
        let Some(at) = INFO.find(line) else { return };
        let body = &line[at + b"NCCL INFO ".len()..];
        // Another line may begin inside it.
        if INFO.find(body).is_some() {
            return;
        }
        let message = message::parse_message(HeaderLevel::Info, body);
        if let Some(message) = message.filter(|message| !is_of_one_process(message)) {
            let nobody = self.unknown_speaker();
            v.things
                .push((at, LineItem::Message(message, line, nobody, b"")));
        }
    }

    /// Reads a line without NCCL's name, if it is NCCL's all the same. Returns false for any other line.
    pub(super) fn read_short_line(&mut self, line: &'a [u8], v: &mut LineVerdict<'a>) -> bool {
        let Some(short) = short_header::parse_short_line(line) else {
            return false;
        };
        let ShortLine {
            header,
            level_at,
            message,
        } = short;
        let speaker = match &header {
            Some(header) => {
                let clean = is_prefix(&line[..header.start], self.recogniser);
                Some(self.intern_header_speaker(header, clean))
            }
            // Prose may quote a line.
            None if !is_header_end(&line[..level_at], self.recogniser) => return false,
            None => None,
        };
        v.class = LineClass::Other;
        if V::MESSAGES && (speaker.is_some() || !is_of_one_process(&message)) {
            let start = header.map_or(0, |header| header.start);
            let time = header::find_time_stamp(&line[..start]);
            let speaker = speaker.unwrap_or_else(|| self.unknown_speaker());
            v.things.push((
                start,
                LineItem::Message(message, &line[start..], speaker, time),
            ));
        }
        true
    }
}

/// The levels that a line may have after its header is lost.
const BARE_LEVELS: [&[u8]; 5] = [
    b"NCCL INFO ",
    b"NCCL WARN ",
    b"NCCL ATTN ",
    b"NCCL DIAG ",
    b"NCCL CALL ",
];

/// Returns true for a message that is of no use without its process: it names a communicator by its
/// address there.
fn is_of_one_process(message: &NcclMessage<'_>) -> bool {
    matches!(
        message,
        NcclMessage::Init(_)
            | NcclMessage::Life(_)
            | NcclMessage::Layout(_)
            | NcclMessage::Timings(_)
            | NcclMessage::Named(_)
    )
}

/// Parses a WARN without a whole header, as people quote it, or a line that may be judged as one:
///
/// ```text
/// [1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'out of memory'
/// graph/xml.h: NCCL WARN Too many XML nodes
///  NCCL WARN Call to ibv_create_qp failed
/// NCCL DIAG [INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification
/// ```
fn parse_quoted_warn<'a>(line: &'a [u8], recogniser: &Recogniser) -> Option<NcclMessage<'a>> {
    const LEVELS: [(&[u8], HeaderLevel); 3] = [
        (b"NCCL WARN ", HeaderLevel::Warn),
        (b"NCCL ATTN ", HeaderLevel::Attention),
        (b"NCCL DIAG ", HeaderLevel::Diagnostic),
    ];
    let (before, level, rest) = LEVELS.iter().find_map(|(word, level)| {
        let at = memmem::find(line, word)?;
        Some((&line[..at], *level, &line[at + word.len()..]))
    })?;
    is_header_end(before, recogniser)
        .then(|| message::parse_message(level, rest))
        .flatten()
}

/// Returns true if `op`, after `before` and without a header, is certainly not the end of a longer
/// name: `AllReduce`, cut, ends in `Reduce`.
fn is_whole_name(before: &[u8], op: &[u8]) -> bool {
    before.ends_with(b"NCCL INFO ")
        || (is_known_op(op) && !matches!(op, b"Reduce" | b"Gather" | b"Scatter" | b"Signal"))
}
