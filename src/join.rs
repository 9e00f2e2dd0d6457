//! Joins the pieces of torn lines where only one way of joining them can be true.
//!
//! NCCL 2.29.2+ writes a line in pieces of 128 bytes, so that on a pipe shared by several
//! processes another process's line may stand between a line's beginning and its end. An end
//! says which communicator's address it is about; if the lines before say which process uses
//! that address, there is one beginning it belongs to. Where it is not known and one beginning
//! waits, that is the one. In all other cases nothing is joined: both pieces are damaged.

use crate::account::{Account, Class};
use crate::grammar::coll::{self, Coll};
use crate::grammar::header;
use crate::grammar::message::init;
use crate::origin::Merged;
use crate::scan::{Fragment, Piece, TEAR};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A call whose line was not simply whole.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The slot of the chunk at which it comes in.
    pub slot: u32,
    /// The line, joined.
    text: Box<[u8]>,
    /// The time stamp in front of it.
    time: Box<[u8]>,
    /// What it says, but for the operation's name, which stands in the line.
    says: Coll<'static>,
    op: Range<usize>,
    /// Who said it: a merged member's number.
    pub member: u32,
    /// Where the piece that completes it stands, in bytes of the input.
    pub at: u64,
}

impl Joined {
    /// The line of `head`, complete now, whose body begins at `start` and says `coll`.
    fn of(
        head: &Head,
        (slot, at): (u32, u64),
        member: u32,
        (start, coll): (usize, &Coll<'_>),
    ) -> Joined {
        Joined {
            slot,
            at,
            text: head.text[..].into(),
            time: head.time.clone(),
            says: Coll { op: b"", ..*coll },
            op: start..start + coll.op.len(),
            member,
        }
    }

    /// What the line says.
    pub fn coll(&self) -> Coll<'_> {
        Coll {
            op: &self.text[self.op.clone()],
            ..self.says
        }
    }

    /// Its line, joined.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The thread that said it, and the time stamp.
    pub fn header(&self) -> (Option<u64>, &[u8]) {
        (header::find(&self.text, 0).map(|h| h.tid), &self.time)
    }
}

/// Beginnings that wait at a time; with more, the oldest is given up.
const OPEN: usize = 256;

/// The pieces of one input that wait for their other half.
#[derive(Debug, Default)]
pub struct Joiner {
    open: VecDeque<Head>,
    lines: BTreeMap<u64, Pending>,
}

#[derive(Debug)]
struct Head {
    process: u32,
    place: u32,
    text: Vec<u8>,
    time: Box<[u8]>,
    line: u64,
}

impl Head {
    fn new(place: u32, text: Box<[u8]>, time: Box<[u8]>, line: u64, merged: &Merged) -> Head {
        Head {
            process: merged.origins.places.get(place).process,
            place,
            text: text.into(),
            time,
            line,
        }
    }
}

/// A line whose class depends on its pieces.
#[derive(Debug)]
struct Pending {
    column: usize,
    left: usize,
    /// Something else on it is lost already, and its place noted.
    damaged: bool,
    failed: bool,
    joined: bool,
    /// Where its last piece breaks off, and what was expected instead of what.
    broken: Option<(usize, &'static str, Box<[u8]>)>,
}

impl Joiner {
    /// Takes a chunk's fragment; its line counts from the start of the input, its place is
    /// merged. A call that is complete now goes to `out`.
    pub fn feed(
        &mut self,
        fragment: Fragment,
        merged: &mut Merged,
        account: &mut Account,
        out: &mut Vec<Joined>,
    ) {
        let Fragment {
            piece,
            line,
            column,
            at,
            slot,
            damaged,
            of_line: left,
        } = fragment;
        if !matches!(piece, Piece::Close) {
            let new = || Pending {
                column,
                left,
                damaged,
                failed: false,
                joined: false,
                broken: None,
            };
            self.lines.entry(line).or_insert_with(new);
        }
        match piece {
            Piece::Close => self.close(account),
            Piece::Head { place, text, time } => {
                self.head(Head::new(place, text, time, line, merged), account);
            }
            Piece::Tail { text } => match self.owner(&text, at, merged) {
                Some(index) => {
                    self.join(index, &text, slot, at, merged, account, out);
                    self.settle(line, false, true, account);
                }
                None => self.settle(line, true, false, account),
            },
            Piece::Doubtful {
                place,
                text,
                time,
                broken,
            } => {
                let pending = self.lines.get_mut(&line);
                if let (Some(pending), Some((at, what))) = (pending, broken) {
                    let left = text.get(at.saturating_sub(column)..).unwrap_or_default();
                    pending.broken = Some((at, what, left.into()));
                }
                let head = Head::new(place, text, time, line, merged);
                self.doubtful(head, (slot, at), merged, account, out);
            }
        }
    }

    /// A line that may hold, behind its own first 128 bytes, the end of another's.
    fn doubtful(
        &mut self,
        mut head: Head,
        (slot, at): (u32, u64),
        merged: &mut Merged,
        account: &mut Account,
        out: &mut Vec<Joined>,
    ) {
        let rest = head.text.get(TEAR..).unwrap_or_default();
        let Some((start, coll, _)) = whole(&head.text) else {
            // Its own end is still to come: what follows its beginning is another's.
            let owner = self.owner(rest, at, merged);
            let Some(index) = owner.filter(|_| !rest.is_empty()) else {
                return self.settle(head.line, true, false, account);
            };
            let rest = head.text.split_off(TEAR);
            self.join(index, &rest, slot, at, merged, account, out);
            return self.wait(head, account);
        };
        let known = |p: u32| merged.users_before(coll.comm, at).any(|user| user == p);
        let other = if !known(head.process) && merged.is_using(head.process, at) {
            self.sole_owner(rest, known)
        } else {
            None
        };
        match other {
            Some(index) => {
                let rest = head.text.split_off(TEAR);
                self.join(index, &rest, slot, at, merged, account, out);
                self.wait(head, account);
            }
            None => {
                let member = merged.joined(head.place, coll.comm, coll.nranks, at);
                account.calls += 1;
                out.push(Joined::of(&head, (slot, at), member, (start, &coll)));
                self.settle(head.line, false, false, account);
            }
        }
    }

    /// Gives up every beginning that waits: the input ends, or a step line was passed.
    pub fn close(&mut self, account: &mut Account) {
        while let Some(head) = self.open.pop_front() {
            self.settle(head.line, true, false, account);
        }
    }

    /// The beginning of a line whose rest was the end of another: it waits for its own.
    fn wait(&mut self, head: Head, account: &mut Account) {
        let line = head.line;
        self.head(head, account);
        if let Some(pending) = self.lines.get_mut(&line) {
            pending.joined = true;
        }
    }

    fn head(&mut self, head: Head, account: &mut Account) {
        // A process writes the end of a line before it begins another.
        if let Some(at) = self.open.iter().position(|h| h.process == head.process)
            && let Some(old) = self.open.remove(at)
        {
            self.settle(old.line, true, false, account);
        }
        if self.open.len() == OPEN
            && let Some(old) = self.open.pop_front()
        {
            self.settle(old.line, true, false, account);
        }
        self.open.push_back(head);
    }

    /// The one beginning that `tail` can belong to.
    fn owner(&self, tail: &[u8], at: u64, merged: &Merged) -> Option<usize> {
        let Some(comm) = coll::tail_comm(tail) else {
            // The beginning has the first half of the address, or it is no call's.
            return self.only(|head| {
                let joined = [&head.text, tail].concat();
                let known = |comm| {
                    let mut users = merged.users_before(comm, at);
                    users.any(|user| user == head.process)
                };
                let call = whole(&joined).filter(|_| fits(&head.text, tail));
                call.is_some_and(|(_, coll, _)| known(coll.comm)) || init_in(&joined).is_some()
            });
        };
        let mut users = merged.users_before(comm, at).peekable();
        if users.peek().is_none() {
            return self.only(|head| fits(&head.text, tail));
        }
        let known: Vec<u32> = users.collect();
        self.sole_owner(tail, |process| known.contains(&process))
    }

    fn sole_owner(&self, tail: &[u8], known: impl Fn(u32) -> bool) -> Option<usize> {
        self.only(|head| known(head.process) && fits(&head.text, tail))
    }

    fn only(&self, is: impl Fn(&Head) -> bool) -> Option<usize> {
        let mut those = self.open.iter().enumerate().filter(|(_, head)| is(head));
        match (those.next(), those.next()) {
            (Some((index, _)), None) => Some(index),
            _ => None,
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn join(
        &mut self,
        index: usize,
        tail: &[u8],
        slot: u32,
        at: u64,
        merged: &mut Merged,
        account: &mut Account,
        out: &mut Vec<Joined>,
    ) {
        let Some(mut head) = self.open.remove(index) else {
            return;
        };
        account.torn(head.line);
        self.settle(head.line, false, true, account);
        head.text.extend_from_slice(tail);
        if let Some(init) = init_in(&head.text) {
            return merged.joined_init(head.process, &init, at);
        }
        if let Some((start, coll, _)) = whole(&head.text) {
            let member = merged.joined(head.place, coll.comm, coll.nranks, at);
            account.calls += 1;
            out.push(Joined::of(&head, (slot, at), member, (start, &coll)));
        }
    }

    /// One piece of a line is decided; with its last one the line is counted.
    fn settle(&mut self, line: u64, failed: bool, joined: bool, account: &mut Account) {
        let Some(pending) = self.lines.get_mut(&line) else {
            return;
        };
        pending.left -= 1;
        pending.failed |= failed;
        pending.joined |= joined;
        if pending.left > 0 {
            return;
        }
        let Some(Pending {
            column,
            damaged,
            failed,
            joined,
            broken,
            ..
        }) = self.lines.remove(&line)
        else {
            return;
        };
        match broken {
            // Its end did not come.
            Some((at, what, left)) if failed && !damaged => account.place(line, at, what, &left),
            None if failed => {
                account.place(line, column, "the other half of a torn NCCL line", b"");
            }
            _ => {}
        }
        // The line itself was counted when it was met.
        account.lines -= 1;
        account.line(match (damaged || failed, joined) {
            (true, _) => Class::Damaged,
            (false, true) => Class::Repaired,
            (false, false) => Class::Call,
        });
    }
}

/// The call of a whole line, with where its body begins and ends.
fn whole(text: &[u8]) -> Option<(usize, Coll<'_>, usize)> {
    let anchor = coll::FINDER.find(text)?;
    coll::at(text, anchor).ok()
}

/// True where `head` and `tail` make one whole COLL line that goes through the joint.
fn fits(head: &[u8], tail: &[u8]) -> bool {
    let joined = [head, tail].concat();
    whole(&joined)
        .is_some_and(|(_, _, end)| end > head.len() && joined[end..].trim_ascii().is_empty())
}

fn init_in(joined: &[u8]) -> Option<init::Init> {
    // Nearly every joined line is a call's: the end says so before a header is looked for.
    init::event(joined)?;
    let header = header::find(joined, 0)?;
    init::message(&joined[header.body..])
}
