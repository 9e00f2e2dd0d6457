//! What a line turned out to be.

use crate::grammar::coll::Coll;
use crate::grammar::message::Message;
use crate::grammar::message::communicator::init;
use crate::grammar::trainer::Found;
use crate::log::walk::{Looks, Piece, Speaker};
use crate::report::account::{Account, Class};

/// Something on a line, by its place in it.
pub(super) enum Thing<'a> {
    /// A line that is not NCCL's, beside others on a line of the file.
    Foreign(&'a [u8]),
    Mark(Found),
    Call(Coll<'a>, Speaker, &'a [u8]),
    Init(init::Init, Speaker),
    Message(Message<'a>, &'a [u8], Speaker, &'a [u8]),
    Fragment(Piece),
}

/// What a line turned out to be.
pub(super) struct Verdict<'a> {
    pub(super) things: Vec<(usize, Thing<'a>)>,
    pub(super) class: Class,
    pub(super) damage: Option<(usize, &'static str)>,
    pub(super) waits: bool,
    /// Pieces that may be no piece of a NCCL line.
    pub(super) weak: usize,
}

impl<'a> Verdict<'a> {
    pub(super) fn new() -> Verdict<'a> {
        Verdict {
            things: Vec::new(),
            class: Class::Foreign,
            damage: None,
            waits: false,
            weak: 0,
        }
    }

    /// Puts what was found in the line's order.
    pub(super) fn sort(&mut self) {
        self.things.sort_by_key(|(at, _)| *at);
    }

    /// Adds what `line` turned out to be, which begins at `start` of the lines in hand.
    pub(super) fn add(&mut self, start: usize, line: &'a [u8], other: Verdict<'a>, foreign: bool) {
        let Verdict {
            things,
            class,
            damage,
            waits,
            weak,
        } = other;
        let moved = |(at, mut thing)| {
            match &mut thing {
                Thing::Mark(mark) => {
                    mark.start += start;
                    mark.end += start;
                }
                Thing::Fragment(Piece::Doubtful {
                    broken: Some(broken),
                    ..
                }) => broken.at += start,
                _ => {}
            }
            (at + start, thing)
        };
        self.things.extend(things.into_iter().map(moved));
        if foreign && class == Class::Foreign && !(waits && weak == 0) {
            self.things.push((start + line.len(), Thing::Foreign(line)));
        }
        let weight = |class: Class| match class {
            Class::Foreign => 0,
            Class::Other => 1,
            Class::Truncated => 2,
            Class::Call | Class::Repaired => 3,
            Class::Damaged => 4,
        };
        if weight(class) > weight(self.class) {
            self.class = class;
        }
        self.damage = self.damage.or(damage.map(|(at, what)| (at + start, what)));
        self.waits |= waits;
        self.weak += weak;
    }

    /// The line may be the end of another.
    pub(super) fn tail(&mut self, line: &[u8], looks: Looks) {
        self.waits = true;
        self.weak += usize::from(looks != Looks::Nccl);
        let text = line.into();
        self.things
            .push((0, Thing::Fragment(Piece::Tail { text, looks })));
    }

    pub(super) fn damaged(&mut self, at: usize, what: &'static str) {
        self.damage.get_or_insert((at, what));
        self.class = Class::Damaged;
    }

    pub(super) fn truncated(&mut self, account: &mut Account) {
        if self.class == Class::Other {
            self.class = Class::Truncated;
            account.firsts.truncated.get_or_insert(account.lines);
        }
    }
}
