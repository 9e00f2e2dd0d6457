//! Heads and tails that wait for each other, and the rules that decide which belong together.

use super::pending_half::{PendingHead, PendingTail, PrecedingHead, TailFit};
use super::tail_fit::{JoinedLineContent, fit_tail_on_head, keep_likely_fits, read_joined_line};
use super::undecided_lines::{PieceOutcome, UndecidedLines};
use super::{JoinMoment, JoinedCall};
use crate::grammar::coll::{self, Coll};
use crate::grammar::values::Datatype;
use crate::log::mend::limits::{HEAD_WAIT_LINES, MAX_NARROWED_ADDRESSES, MAX_PENDING_PIECES};
use crate::log::walk::{LineHead, TEAR_STRIDE_BYTES, is_call};
use crate::members::MergedMembers;
use crate::report::account::Account;
use rustc_hash::FxHashMap;

/// Heads and tails that wait.
#[derive(Debug, Default)]
pub(super) struct PendingPieces {
    heads: Vec<PendingHead>,
    tails: Vec<PendingTail>,
    next: u32,
    /// The line from which on nothing waits unless another torn line comes: walks do not look for
    /// tails there.
    until: u64,
    /// For an address without a known user: the processes that may have written every tail that
    /// names it.
    users: FxHashMap<u64, Vec<u32>>,
    /// Memory for joined lines.
    text: Vec<u8>,
}

impl PendingPieces {
    /// Returns a head with the next number.
    pub(super) fn number_head(
        &mut self,
        head: LineHead,
        line: u64,
        merged: &MergedMembers,
    ) -> PendingHead {
        self.next = self.next.wrapping_add(1);
        let LineHead {
            place,
            label,
            text,
            time,
        } = head;
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

    /// Notes that a line is torn.
    pub(super) fn note_tear(&mut self, line: u64) {
        self.until = line + HEAD_WAIT_LINES;
    }

    /// Returns true if what looks like a whole call is one, since no other process waits for a tail
    /// that may be on its line, or since its process is known to use its communicator. Whole lines
    /// of processes that share a communicator are taken for what they look like.
    pub(super) fn is_whole_call(
        &mut self,
        head: &LineHead,
        line: u64,
        now: &mut JoinMoment<'_>,
    ) -> bool {
        let process = now.merged.origins.places.get(head.place).process;
        let found = coll::COLL_ANCHOR_FINDER
            .find(&head.text)
            .map(|at| coll::parse_coll_at(&head.text, at));
        let Some(Ok((op, coll, _))) = found else {
            return false;
        };
        let waits = |head: &PendingHead| head.is_call && !head.lost && head.process != process;
        if self.heads.iter().any(waits) && !now.merged.is_user(process, coll.comm) {
            return false;
        }
        self.end_line_of(process, now);
        let is_own = now.lines.is_alone(line);
        // The head, and what may be another line's tail.
        now.settle_piece(line, PieceOutcome::Own);
        now.settle_piece(line, PieceOutcome::Own);
        now.emit_call(&WholeCall {
            line: &head.text,
            op,
            coll,
            place: head.place,
            time: &head.time,
            at: now.at,
            is_own,
        });
        true
    }

    /// Adds a head ; its tail is still to come.
    pub(super) fn add_head(&mut self, head: PendingHead, now: &mut JoinMoment<'_>) {
        if self.heads.len() >= MAX_PENDING_PIECES
            && let Some(id) = self.heads.first().map(|head| head.id)
        {
            self.lose_head(id, now);
            self.heads.retain(|head| head.id != id);
            self.decide_certain(now);
        }
        self.heads.push(head);
    }

    /// Adds a tail; `own` is the head right in front of it, if there is one.
    pub(super) fn add_tail(
        &mut self,
        mut tail: PendingTail,
        own: Option<PendingHead>,
        now: &mut JoinMoment<'_>,
    ) {
        tail.own = own.as_ref().map(|own| own.id);
        let taken = self.heads_with_waiting_tails(now);
        let mut text = std::mem::take(&mut self.text);
        let others = self.heads.iter().filter(|head| {
            let of_own = own.as_ref().is_some_and(|own| own.process == head.process);
            !head.lost && !of_own && tail.may_end_head(head) && !taken.contains(&head.id)
        });
        let all = others.map(|head| (head, false));
        tail.fits = all
            .chain(own.iter().map(|own| (own, true)))
            .filter_map(|(head, is_own)| fit_tail_on_head(head, &tail, is_own, &mut text))
            .collect();
        self.text = text;
        if own.is_none() && tail.fits.is_empty() {
            return now.settle_piece(tail.line, tail.outcome_without_head());
        }
        let is_message = tail.preceding == Some(PrecedingHead::Message);
        if let (Some(own), true, true) = (&own, is_message, tail.fits.is_empty()) {
            // It is as it looks: a line without values that are read.
            self.end_line_of(own.process, now);
            now.settle_piece(tail.line, PieceOutcome::Foreign);
            return now.settle_piece(tail.line, PieceOutcome::Foreign);
        }
        if let Some(mut own) = own {
            // No head fits: it is more likely the rest of its own line, with a byte that NCCL did
            // not write.
            own.clean &= (tail.is_sure() || is_message) && !tail.fits.is_empty();
            let of = |id: u32| {
                let mut all = self.heads.iter().chain([&own]);
                all.find(|head| head.id == id).map(|head| head.process)
            };
            // If no other process can have written it, the address on it is its own from here on.
            if let [fit] = keep_likely_fits(&tail.fits, tail.own, of, now.merged)[..]
                && let (true, Some(comm)) = (fit.head == own.id, fit.comm)
            {
                now.merged.add_address_use(own.process, comm);
            }
            self.end_line_of(own.process, now);
            self.add_head(own, now);
        }
        self.learn_address_user(&tail, now);
        if self.tails.len() >= MAX_PENDING_PIECES {
            let tail = self.tails.remove(0);
            now.settle_piece(tail.line, tail.outcome_without_head());
        }
        self.tails.push(tail);
        self.decide_certain(now);
    }

    /// Learns from a tail which process alone can use the address that it names.
    fn learn_address_user(&mut self, tail: &PendingTail, now: &mut JoinMoment<'_>) {
        let Some(comm) = tail.fits.first().and_then(|fit| fit.comm) else {
            return;
        };
        let one = tail
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
        let those: Vec<u32> = tail.fits.iter().filter_map(process).collect();
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

    /// A process writes its next line, so the line before it has its tail.
    pub(super) fn end_line_of(&mut self, process: u32, now: &mut JoinMoment<'_>) {
        let of = |head: &&PendingHead| head.process == process && !head.lost;
        let Some((id, clean)) = self.heads.iter().find(of).map(|h| (h.id, h.clean)) else {
            return;
        };
        self.decide_certain(now);
        if !self.heads.iter().any(|head| head.id == id) {
            return;
        }
        let those: Vec<(usize, TailFit)> = (0..self.tails.len())
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
        let text =
            |&(at, fit): &(usize, TailFit)| fit.from.map(|from| &self.tails[at].text[from..]);
        let same = those.windows(2).all(|two| text(&two[0]) == text(&two[1]));
        match those.first() {
            Some(&(at, fit)) if same && clean && !fit.split => self.join_tail(at, fit, now),
            // Its tail is one of several, or did not come.
            _ => {
                self.lose_head(id, now);
                self.forget_lost_heads();
            }
        }
        self.decide_certain(now);
    }

    /// Gives up what has waited for too many lines.
    pub(super) fn expire_waiting(&mut self, line: u64, now: &mut JoinMoment<'_>) {
        let over = line >= self.until;
        let old = |at: u64| over || at + HEAD_WAIT_LINES <= line;
        if !self.heads.first().is_some_and(|head| old(head.line))
            && !self.tails.first().is_some_and(|tail| old(tail.line))
        {
            return;
        }
        while let Some(tail) = self.tails.first().filter(|tail| old(tail.line)) {
            now.settle_piece(tail.line, tail.outcome_without_head());
            self.tails.remove(0);
        }
        let ids: Vec<u32> = self
            .heads
            .iter()
            .filter(|head| old(head.line))
            .map(|head| head.id)
            .collect();
        for id in ids {
            self.lose_head(id, now);
        }
        self.forget_lost_heads();
    }

    /// Gives up all that waits.
    pub(super) fn give_up_all(&mut self, lines: &mut UndecidedLines, account: &mut Account) {
        for tail in self.tails.drain(..) {
            lines.settle_piece(tail.line, tail.outcome_without_head(), account);
        }
        for head in self.heads.drain(..).filter(|head| !head.lost) {
            lines.settle_piece(head.line, head.outcome_without_tail(), account);
        }
    }

    /// Gives up a head. The tails that may be its own stay so.
    fn lose_head(&mut self, id: u32, now: &mut JoinMoment<'_>) {
        if let Some(head) = self.heads.iter_mut().find(|head| head.id == id)
            && !head.lost
        {
            head.lost = true;
            let outcome = head.outcome_without_tail();
            now.settle_piece(head.line, outcome);
        }
    }

    /// Forgets heads that were given up and that no tail fits.
    fn forget_lost_heads(&mut self) {
        let tails = &self.tails;
        let wanted = |id: u32| {
            tails
                .iter()
                .any(|tail| tail.fits.iter().any(|f| f.head == id))
        };
        self.heads.retain(|head| !head.lost || wanted(head.id));
    }

    /// Returns the fits of a tail that are still possible.
    fn remaining_fits(&self, tail: usize, now: &JoinMoment<'_>) -> Vec<TailFit> {
        let process = |id: u32| {
            let mut heads = self.heads.iter();
            heads.find(|head| head.id == id).map(|head| head.process)
        };
        let PendingTail { fits, own, .. } = &self.tails[tail];
        keep_likely_fits(fits, *own, process, now.merged)
    }

    /// Returns the heads with tails that must be among those that wait: a group of tails that fit
    /// no more heads than there are tails.
    fn heads_with_waiting_tails(&self, now: &JoinMoment<'_>) -> Vec<u32> {
        let mut groups: Vec<(usize, Vec<u32>)> = Vec::new();
        for tail in 0..self.tails.len() {
            let mut tails = 1;
            let mut heads: Vec<u32> = self
                .remaining_fits(tail, now)
                .iter()
                .map(|fit| fit.head)
                .collect();
            groups.retain(|(n, of)| {
                let apart = !of.iter().any(|id| heads.contains(id));
                if !apart {
                    tails += n;
                    heads.extend(of);
                }
                apart
            });
            heads.sort_unstable();
            heads.dedup();
            groups.push((tails, heads));
        }
        let full = groups.into_iter().filter(|(n, of)| *n >= of.len());
        full.flat_map(|(_, of)| of).collect()
    }

    /// Decides what can be in one way only, until nothing more follows.
    fn decide_certain(&mut self, now: &mut JoinMoment<'_>) {
        let mut at = 0;
        while at < self.tails.len() {
            let alive = self.remaining_fits(at, now);
            let tail = &self.tails[at];
            match alive[..] {
                [fit] => self.join_tail(at, fit, now),
                // A tail that any writer may have written does not wait.
                [] => self.give_up_tail(at, now),
                _ if !tail.is_sure() => self.give_up_tail(at, now),
                // All heads that it fits are given up.
                _ if alive.iter().all(|fit| self.is_lost(fit.head)) => {
                    self.give_up_tail(at, now);
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

    fn give_up_tail(&mut self, at: usize, now: &mut JoinMoment<'_>) {
        let tail = self.tails.remove(at);
        now.settle_piece(tail.line, tail.outcome_without_head());
        self.forget_lost_heads();
    }

    /// Joins a tail with the one head that it belongs to.
    fn join_tail(&mut self, at: usize, fit: TailFit, now: &mut JoinMoment<'_>) {
        let tail = self.tails.remove(at);
        let Some(head) = self.heads.iter().position(|head| head.id == fit.head) else {
            return now.settle_piece(tail.line, tail.outcome_without_head());
        };
        let from = match fit.from {
            Some(from) if !self.heads[head].lost => from,
            _ => {
                self.lose_head(fit.head, now);
                now.settle_piece(tail.line, PieceOutcome::Lost);
                self.heads.retain(|head| head.id != fit.head);
                return self.forget_lost_heads();
            }
        };
        let head = self.heads.remove(head);
        // More of its own line may be in front of it.
        if let Some(own) = self.heads.iter_mut().find(|own| Some(own.id) == tail.own) {
            own.extend_head(&tail.text[..from - from % TEAR_STRIDE_BYTES]);
        }
        let is_own = tail.own == Some(head.id) && from == 0;
        let outcome = if is_own {
            PieceOutcome::Own
        } else {
            now.account.count_torn_line(head.line);
            PieceOutcome::Joined
        };
        let is_alone = is_own && now.lines.is_alone(head.line);
        now.settle_piece(head.line, outcome);
        now.settle_piece(tail.line, outcome);
        let mut text = std::mem::take(&mut self.text);
        match read_joined_line(&head.text, &tail.text[from..], is_own, &mut text) {
            Some(JoinedLineContent::Call { line, start, coll }) => {
                now.emit_call(&WholeCall {
                    line,
                    op: start,
                    coll,
                    place: head.place,
                    time: &head.time,
                    at: tail.at,
                    is_own: is_alone,
                });
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
    /// Decides one piece of a line.
    fn settle_piece(&mut self, line: u64, outcome: PieceOutcome) {
        self.lines.settle_piece(line, outcome, self.account);
    }

    /// Hands out a line that is a whole call.
    fn emit_call(&mut self, found: &WholeCall<'_>) {
        let WholeCall { line, coll, .. } = found;
        let member = self
            .merged
            .merge_joined_member(found.place, coll.comm, coll.nranks, found.at);
        self.account.calls += 1;
        if Datatype(coll.datatype).size().is_none() {
            let unknown = &mut self.account.unknown_datatypes;
            *unknown.entry(coll.datatype).or_default() += 1;
        }
        self.out.push(JoinedCall {
            slot: self.slot,
            at: found.at,
            text: (*line).into(),
            time: found.time.into(),
            coll: Coll { op: b"", ..*coll },
            op: found.op..found.op + coll.op.len(),
            member,
            is_own: found.is_own,
        });
    }
}

/// A call on a line that is whole now.
struct WholeCall<'t> {
    line: &'t [u8],
    /// Where the operation begins in the line.
    op: usize,
    coll: Coll<'t>,
    /// The process and device that made the call.
    place: u32,
    /// The time stamp in front of the line.
    time: &'t [u8],
    /// Where its tail is, in bytes of the input.
    at: u64,
    /// The line is alone on one line of the log.
    is_own: bool,
}
