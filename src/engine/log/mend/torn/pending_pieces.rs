//! The lines that were begun, and the ends of which it is not yet known whose they are.

use super::pending_half::{PendingHead, PendingTail, TailFit};
use super::tail_fit::{JoinedLineContent, fit_tail_on_head, keep_likely_fits, read_joined_line};
use super::undecided_lines::{PieceOutcome, UndecidedLines};
use super::{JoinMoment, JoinedCall};
use crate::grammar::coll::{self, Coll};
use crate::grammar::values::Datatype;
use crate::log::walk::{CALL_END_WAIT_LINES, LineHead, TEAR_STRIDE_BYTES, is_call};
use crate::members::MergedMembers;
use crate::report::account::Account;
use rustc_hash::FxHashMap;

/// Beginnings and ends that wait at a time; with more, the oldest is given up.
const MAX_PENDING_PIECES: usize = 256;

/// For how many lines a beginning waits for its end.
const HEAD_WAIT_LINES: u64 = CALL_END_WAIT_LINES;

/// Addresses of which it is narrowed down who uses them, at a time.
const MAX_NARROWED_ADDRESSES: usize = 4096;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct PendingPieces {
    heads: Vec<PendingHead>,
    ends: Vec<PendingTail>,
    next: u32,
    /// From which line on nothing waits, if no more lines are begun that are seen to be torn: no
    /// walk looks for ends there.
    until: u64,
    /// Who may use an address that nobody is known to use: whoever may have written all ends that
    /// name it.
    users: FxHashMap<u64, Vec<u32>>,
    /// Memory for joined lines.
    text: Vec<u8>,
}

impl PendingPieces {
    /// A beginning, numbered.
    pub(super) fn number_head(
        &mut self,
        begun: LineHead,
        line: u64,
        merged: &MergedMembers,
    ) -> PendingHead {
        self.next = self.next.wrapping_add(1);
        let LineHead {
            place,
            label,
            text,
            time,
        } = begun;
        let is_call = is_call(&text);
        PendingHead {
            is_call,
            id: self.next,
            process: merged.origins.places.get(place).process,
            place,
            label,
            text: text.into(),
            time,
            line,
            clean: true,
            lost: false,
        }
    }

    /// A line is seen to be torn.
    pub(super) fn note_tear(&mut self, line: u64) {
        self.until = line + HEAD_WAIT_LINES;
    }

    /// A whole call by its looks: true where it is one, since nobody waits for an end that it may
    /// have, or since its process is known to use its communicator. Of processes that share
    /// a communicator whole lines are what they look like.
    pub(super) fn is_whole_call(
        &mut self,
        begun: &LineHead,
        line: u64,
        lines: &mut UndecidedLines,
        now: &mut JoinMoment<'_>,
    ) -> bool {
        let process = now.merged.origins.places.get(begun.place).process;
        let found = coll::COLL_ANCHOR_FINDER
            .find(&begun.text)
            .map(|at| coll::parse_coll_at(&begun.text, at));
        let Some(Ok((start, coll, _))) = found else {
            return false;
        };
        let waits = |head: &PendingHead| head.is_call && !head.lost && head.process != process;
        if self.heads.iter().any(waits) && !now.merged.is_user(process, coll.comm) {
            return false;
        }
        self.end_line_of(process, lines, now);
        let is_alone = lines.is_alone(line);
        lines.settle_piece(line, PieceOutcome::Own, now.account);
        lines.settle_piece(line, PieceOutcome::Own, now.account);
        let (place, time, at) = (begun.place, &begun.time, now.at);
        now.emit_joined_call(place, time, (&begun.text, is_alone), (start, &coll), at);
        true
    }

    /// A line was begun, and its end is to come.
    pub(super) fn add_head(
        &mut self,
        head: PendingHead,
        lines: &mut UndecidedLines,
        now: &mut JoinMoment<'_>,
    ) {
        if self.heads.len() >= MAX_PENDING_PIECES
            && let Some(id) = self.heads.first().map(|head| head.id)
        {
            self.lose_head(id, lines, now.account);
            self.heads.retain(|head| head.id != id);
            self.decide_certain(lines, now);
        }
        self.heads.push(head);
    }

    /// An end comes; `own` is the beginning right in front of it, if there is one.
    pub(super) fn add_tail(
        &mut self,
        mut end: PendingTail,
        own: Option<PendingHead>,
        lines: &mut UndecidedLines,
        now: &mut JoinMoment<'_>,
    ) {
        end.own = own.as_ref().map(|own| own.id);
        let taken = self.heads_with_waiting_tails(now);
        let mut text = std::mem::take(&mut self.text);
        let others = self.heads.iter().filter(|head| {
            let of_own = own.as_ref().is_some_and(|own| own.process == head.process);
            !head.lost && !of_own && end.may_end_head(head) && !taken.contains(&head.id)
        });
        let all = others.map(|head| (head, false));
        end.fits = all
            .chain(own.iter().map(|own| (own, true)))
            .filter_map(|(head, is_own)| fit_tail_on_head(head, &end, is_own, &mut text))
            .collect();
        self.text = text;
        if own.is_none() && end.fits.is_empty() {
            return lines.settle_piece(end.line, end.outcome_without_head(), now.account);
        }
        if let Some(mut own) = own {
            // Nobody's end: rather its own, with a byte that is not what NCCL wrote.
            own.clean &= end.is_sure() && !end.fits.is_empty();
            let of = |id: u32| {
                let mut all = self.heads.iter().chain([&own]);
                all.find(|head| head.id == id).map(|head| head.process)
            };
            // What it says of itself, if nobody else can have written it, is known from here on.
            if let [fit] = keep_likely_fits(&end.fits, end.own, of, now.merged)[..]
                && let (true, Some(comm)) = (fit.head == own.id, fit.comm)
            {
                now.merged.add_address_use(own.process, comm);
            }
            self.end_line_of(own.process, lines, now);
            self.add_head(own, lines, now);
        }
        self.learn_address_user(&end, now);
        if self.ends.len() >= MAX_PENDING_PIECES {
            let end = self.ends.remove(0);
            lines.settle_piece(end.line, end.outcome_without_head(), now.account);
        }
        self.ends.push(end);
        self.decide_certain(lines, now);
    }

    /// Learns from an end who alone can use the address that it names.
    fn learn_address_user(&mut self, end: &PendingTail, now: &mut JoinMoment<'_>) {
        let Some(comm) = end.fits.first().and_then(|fit| fit.comm) else {
            return;
        };
        let one = end
            .fits
            .iter()
            .all(|fit| fit.comm == Some(comm) && !fit.split);
        if !one || now.merged.users_of_address(comm).next().is_some() {
            return;
        }
        let process = |fit: &TailFit| {
            let head = self.heads.iter().find(|head| head.id == fit.head)?;
            Some(head.process)
        };
        let those: Vec<u32> = end.fits.iter().filter_map(process).collect();
        if self.users.len() >= MAX_NARROWED_ADDRESSES {
            self.users.clear();
        }
        let users = self.users.entry(comm).or_insert_with(|| those.clone());
        users.retain(|user| those.contains(user));
        match users[..] {
            [user] => {
                now.merged.add_address_use(user, comm);
                self.users.remove(&comm);
            }
            [] => *users = those,
            _ => {}
        }
    }

    /// A process writes its next line: the one that it began before has its end.
    pub(super) fn end_line_of(
        &mut self,
        process: u32,
        lines: &mut UndecidedLines,
        now: &mut JoinMoment<'_>,
    ) {
        let of = |head: &&PendingHead| head.process == process && !head.lost;
        let Some((id, clean)) = self.heads.iter().find(of).map(|h| (h.id, h.clean)) else {
            return;
        };
        self.decide_certain(lines, now);
        if !self.heads.iter().any(|head| head.id == id) {
            return;
        }
        let those: Vec<(usize, TailFit)> = (0..self.ends.len())
            .filter_map(|at| {
                Some((
                    at,
                    *self
                        .remaining_fits(at, now)
                        .iter()
                        .find(|fit| fit.head == id)?,
                ))
            })
            .collect();
        let text = |&(at, fit): &(usize, TailFit)| fit.from.map(|from| &self.ends[at].text[from..]);
        let same = those.windows(2).all(|two| text(&two[0]) == text(&two[1]));
        match those.first() {
            Some(&(at, fit)) if same && clean && !fit.split => self.join_tail(at, fit, lines, now),
            // It is one of several, or did not come.
            _ => {
                self.lose_head(id, lines, now.account);
                self.forget_lost_heads();
            }
        }
        self.decide_certain(lines, now);
    }

    /// Gives up what has waited for too many lines.
    pub(super) fn expire_waiting(
        &mut self,
        line: u64,
        lines: &mut UndecidedLines,
        now: &mut JoinMoment<'_>,
    ) {
        let over = line >= self.until;
        let old = |at: u64| over || at + HEAD_WAIT_LINES <= line;
        if !self.heads.first().is_some_and(|head| old(head.line))
            && !self.ends.first().is_some_and(|end| old(end.line))
        {
            return;
        }
        while let Some(end) = self.ends.first().filter(|end| old(end.line)) {
            lines.settle_piece(end.line, end.outcome_without_head(), now.account);
            self.ends.remove(0);
        }
        let ids: Vec<u32> = self
            .heads
            .iter()
            .filter(|head| old(head.line))
            .map(|head| head.id)
            .collect();
        for id in ids {
            self.lose_head(id, lines, now.account);
        }
        self.forget_lost_heads();
    }

    /// Gives up all that waits.
    pub(super) fn give_up_all(&mut self, lines: &mut UndecidedLines, account: &mut Account) {
        for end in std::mem::take(&mut self.ends) {
            lines.settle_piece(end.line, end.outcome_without_head(), account);
        }
        for head in std::mem::take(&mut self.heads) {
            if !head.lost {
                lines.settle_piece(head.line, PieceOutcome::Lost, account);
            }
        }
    }

    /// The beginning's end is not to be had. What may be its end stays so.
    fn lose_head(&mut self, id: u32, lines: &mut UndecidedLines, account: &mut Account) {
        if let Some(head) = self.heads.iter_mut().find(|head| head.id == id)
            && !head.lost
        {
            head.lost = true;
            lines.settle_piece(head.line, PieceOutcome::Lost, account);
        }
    }

    /// Forgets beginnings that were given up and that no end may belong to.
    fn forget_lost_heads(&mut self) {
        let ends = &self.ends;
        let wanted = |id: u32| ends.iter().any(|end| end.fits.iter().any(|f| f.head == id));
        self.heads.retain(|head| !head.lost || wanted(head.id));
    }

    /// Of the ways in which an end may go on those that are left.
    fn remaining_fits(&self, end: usize, now: &JoinMoment<'_>) -> Vec<TailFit> {
        let process = |id: u32| {
            let mut heads = self.heads.iter();
            heads.find(|head| head.id == id).map(|head| head.process)
        };
        let PendingTail { fits, own, .. } = &self.ends[end];
        keep_likely_fits(fits, *own, process, now.merged)
    }

    /// The beginnings whose ends are among those that wait: as many ends as beginnings that they
    /// may belong to.
    fn heads_with_waiting_tails(&self, now: &JoinMoment<'_>) -> Vec<u32> {
        let mut groups: Vec<(usize, Vec<u32>)> = Vec::new();
        for end in 0..self.ends.len() {
            let mut ends = 1;
            let mut heads: Vec<u32> = self
                .remaining_fits(end, now)
                .iter()
                .map(|fit| fit.head)
                .collect();
            groups.retain(|(n, of)| {
                let apart = !of.iter().any(|id| heads.contains(id));
                if !apart {
                    ends += n;
                    heads.extend(of);
                }
                apart
            });
            heads.sort_unstable();
            heads.dedup();
            groups.push((ends, heads));
        }
        let full = groups.into_iter().filter(|(n, of)| *n >= of.len());
        full.flat_map(|(_, of)| of).collect()
    }

    /// Decides what can only be one way, as long as that leaves less for the rest.
    fn decide_certain(&mut self, lines: &mut UndecidedLines, now: &mut JoinMoment<'_>) {
        let mut at = 0;
        while at < self.ends.len() {
            let alive = self.remaining_fits(at, now);
            let end = &self.ends[at];
            match alive[..] {
                [fit] => self.join_tail(at, fit, lines, now),
                // What may be anybody's does not wait.
                [] => self.give_up_tail(at, lines, now),
                _ if !end.is_sure() => self.give_up_tail(at, lines, now),
                // Whoever began it, that line is given up.
                _ if alive.iter().all(|fit| self.is_lost(fit.head)) => {
                    self.give_up_tail(at, lines, now);
                }
                _ => {
                    at += 1;
                    continue;
                }
            }
            at = 0;
        }
    }

    fn is_lost(&self, id: u32) -> bool {
        let mut heads = self.heads.iter();
        heads.any(|head| head.id == id && head.lost)
    }

    fn give_up_tail(&mut self, at: usize, lines: &mut UndecidedLines, now: &mut JoinMoment<'_>) {
        let end = self.ends.remove(at);
        lines.settle_piece(end.line, end.outcome_without_head(), now.account);
        self.forget_lost_heads();
    }

    /// An end goes on the one beginning that it belongs to.
    fn join_tail(
        &mut self,
        at: usize,
        fit: TailFit,
        lines: &mut UndecidedLines,
        now: &mut JoinMoment<'_>,
    ) {
        let end = self.ends.remove(at);
        let Some(head) = self.heads.iter().position(|head| head.id == fit.head) else {
            return lines.settle_piece(end.line, end.outcome_without_head(), now.account);
        };
        let from = match fit.from {
            Some(from) if !self.heads[head].lost => from,
            _ => {
                self.lose_head(fit.head, lines, now.account);
                lines.settle_piece(end.line, PieceOutcome::Lost, now.account);
                self.heads.retain(|head| head.id != fit.head);
                return self.forget_lost_heads();
            }
        };
        let head = self.heads.remove(head);
        // More of the line that it is on may be in front.
        if let Some(own) = self.heads.iter_mut().find(|own| Some(own.id) == end.own) {
            own.extend_head(&end.text[..from - from % TEAR_STRIDE_BYTES]);
        }
        let is_own = end.own == Some(head.id) && from == 0;
        let outcome = if is_own {
            PieceOutcome::Own
        } else {
            now.account.count_torn_line(head.line);
            PieceOutcome::Joined
        };
        let is_alone = is_own && lines.is_alone(head.line);
        lines.settle_piece(head.line, outcome, now.account);
        lines.settle_piece(end.line, outcome, now.account);
        let mut text = std::mem::take(&mut self.text);
        match read_joined_line(&head.text, &end.text[from..], is_own, &mut text) {
            Some(JoinedLineContent::Call { line, start, coll }) => {
                now.emit_joined_call(
                    head.place,
                    &head.time,
                    (line, is_alone),
                    (start, &coll),
                    end.at,
                );
            }
            Some(JoinedLineContent::Init(init)) => {
                now.merged.add_joined_init(head.process, &init, now.at);
            }
            Some(JoinedLineContent::Other) | None => {}
        }
        self.text = text;
        self.forget_lost_heads();
    }
}

impl JoinMoment<'_> {
    /// A `line` is whole and says a call of a place, which begins at `start`; its end is `at`. It may be
    /// on one line.
    fn emit_joined_call(
        &mut self,
        place: u32,
        time: &[u8],
        (line, is_own): (&[u8], bool),
        (start, coll): (usize, &Coll<'_>),
        at: u64,
    ) {
        let member = self
            .merged
            .merge_joined_member(place, coll.comm, coll.nranks, at);
        self.account.calls += 1;
        if Datatype(coll.datatype).size().is_none() {
            let unknown = &mut self.account.unknown_datatypes;
            *unknown.entry(coll.datatype).or_default() += 1;
        }
        self.out.push(JoinedCall {
            slot: self.slot,
            at,
            text: line.into(),
            time: time.into(),
            says: Coll { op: b"", ..*coll },
            op: start..start + coll.op.len(),
            member,
            is_own,
        });
    }
}
