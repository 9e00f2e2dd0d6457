//! The verdict on a line.

use crate::grammar::coll::Coll;
use crate::grammar::message::NcclMessage;
use crate::grammar::message::communicator::init;
use crate::grammar::trainer::TrainerRecord;
use crate::log::walk::speaker::HeaderSpeaker;
use crate::log::walk::{TailLikeness, TornPiece};
use crate::report::account::{Account, LineClass};

/// Something on a line, by its place in it.
pub(super) enum LineItem<'a> {
    /// A line that is not NCCL's, beside others on a line of the file.
    Foreign(&'a [u8]),
    Mark(TrainerRecord),
    Call(Coll<'a>, HeaderSpeaker, &'a [u8]),
    Init(init::CommInit, HeaderSpeaker),
    Message(NcclMessage<'a>, &'a [u8], HeaderSpeaker, &'a [u8]),
    Fragment(TornPiece),
}

/// The verdict on a line.
pub(super) struct LineVerdict<'a> {
    pub(super) things: Vec<(usize, LineItem<'a>)>,
    pub(super) class: LineClass,
    pub(super) damage: Option<(usize, &'static str)>,
    pub(super) waits: bool,
    /// Counts pieces that may be no part of a NCCL line.
    pub(super) weak: usize,
}

impl<'a> LineVerdict<'a> {
    pub(super) fn new() -> LineVerdict<'a> {
        LineVerdict {
            things: Vec::new(),
            class: LineClass::Foreign,
            damage: None,
            waits: false,
            weak: 0,
        }
    }

    /// Sorts the items by their place.
    pub(super) fn sort_items(&mut self) {
        self.things.sort_by_key(|(at, _)| *at);
    }

    /// Adds the verdict on `line`, which begins at `start` of the current text.
    pub(super) fn add_line(
        &mut self,
        start: usize,
        line: &'a [u8],
        other: LineVerdict<'a>,
        foreign: bool,
    ) {
        let LineVerdict {
            things,
            class,
            damage,
            waits,
            weak,
        } = other;
        let moved = |(at, mut thing)| {
            match &mut thing {
                LineItem::Mark(mark) => {
                    mark.start += start;
                    mark.end += start;
                }
                LineItem::Fragment(TornPiece::Doubtful {
                    broken: Some(broken),
                    ..
                }) => broken.at += start,
                _ => {}
            }
            (at + start, thing)
        };
        self.things.extend(things.into_iter().map(moved));
        if foreign && class == LineClass::Foreign && !(waits && weak == 0) {
            self.things
                .push((start + line.len(), LineItem::Foreign(line)));
        }
        let weight = |class: LineClass| match class {
            LineClass::Foreign => 0,
            LineClass::Other => 1,
            LineClass::Truncated => 2,
            LineClass::Call | LineClass::Repaired => 3,
            LineClass::Damaged => 4,
        };
        if weight(class) > weight(self.class) {
            self.class = class;
        }
        self.damage = self.damage.or(damage.map(|(at, what)| (at + start, what)));
        self.waits |= waits;
        self.weak += weak;
    }

    /// Adds the line as a possible tail.
    pub(super) fn add_tail(&mut self, line: &[u8], looks: TailLikeness) {
        self.waits = true;
        self.weak += usize::from(looks != TailLikeness::Nccl);
        let text = line.into();
        self.things
            .push((0, LineItem::Fragment(TornPiece::Tail { text, looks })));
    }

    pub(super) fn set_damage(&mut self, at: usize, what: &'static str) {
        self.damage.get_or_insert((at, what));
        self.class = LineClass::Damaged;
    }

    pub(super) fn count_truncated(&mut self, account: &mut Account) {
        if self.class == LineClass::Other {
            self.class = LineClass::Truncated;
            account.firsts.truncated.get_or_insert(account.lines);
        }
    }
}
