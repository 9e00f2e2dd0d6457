//! Decides whether a head and a tail make one line.

use super::pending_half::{PendingHead, PendingTail, TailFit};
use crate::grammar::coll::{self, Coll};
use crate::grammar::header;
use crate::grammar::message::communicator::init;
use crate::grammar::message::{self, NcclMessage};
use crate::grammar::values::Datatype;
use crate::log::mend::limits::MAX_TAIL_BYTES;
use crate::log::walk::TEAR_STRIDE_BYTES;
use crate::members::MergedMembers;
use memchr::memmem;

/// The content of a whole line.
pub(super) enum JoinedLineContent<'a> {
    /// A call.
    Call {
        /// The whole line.
        line: &'a [u8],
        /// Where the operation begins in it.
        start: usize,
        /// Its content.
        coll: Coll<'a>,
    },
    /// An INIT line: the meaning of a communicator's address.
    Init(init::CommInit),
    /// Something else that is understood.
    Other,
}

/// Reads the line that `head` and `tail` make, if they make one. Text that is not NCCL's may follow
/// the head's `own` tail, as it may follow any whole line.
pub(super) fn read_joined_line<'t>(
    head: &[u8],
    tail: &[u8],
    own: bool,
    text: &'t mut Vec<u8>,
) -> Option<JoinedLineContent<'t>> {
    text.clear();
    text.extend_from_slice(head);
    text.extend_from_slice(tail);
    let text: &'t [u8] = text;
    let anchor = coll::COLL_ANCHOR_FINDER.find(text);
    if let Some(found) = anchor.map(|anchor| coll::parse_coll_at(text, anchor)) {
        let (start, coll, end) = found.ok()?;
        let whole = end > head.len() && (own || text[end..].trim_ascii().is_empty());
        let peer = u32::try_from(coll.root).ok();
        let root = coll
            .nranks
            .is_none_or(|n| peer.is_some_and(|root| root < n));
        let line = text;
        return (whole && root).then_some(JoinedLineContent::Call { line, start, coll });
    }
    let header = header::find_header(text, 0)?;
    let body = &text[header.body..];
    if init::event_of_line_end(body).is_some() {
        return init::parse_init(body).map(JoinedLineContent::Init);
    }
    match message::parse_message(header.level, body) {
        None | Some(NcclMessage::Plain(..)) => None,
        Some(_) => Some(JoinedLineContent::Other),
    }
}

/// Reads the call that both make, without its name, and whether the tear is in its communicator's
/// address; the inner `None` is another line.
fn read_joined_call(
    head: &[u8],
    tail: &[u8],
    own: bool,
    text: &mut Vec<u8>,
) -> Option<Option<(Coll<'static>, bool)>> {
    Some(match read_joined_line(head, tail, own, text)? {
        JoinedLineContent::Call { coll, .. } => {
            let word = memchr::memrchr(b' ', head).map_or(head, |blank| &head[blank..]);
            let split = word.starts_with(b" 0x") && coll::find_tail_comm(tail).is_none();
            Some((Coll { op: b"", ..coll }, split))
        }
        JoinedLineContent::Init(_) | JoinedLineContent::Other => None,
    })
}

/// Returns how `tail` continues `head`, if it does; `own` if it is right after the head on its
/// line.
pub(super) fn fit_tail_on_head(
    head: &PendingHead,
    tail: &PendingTail,
    own: bool,
    text: &mut Vec<u8>,
) -> Option<TailFit> {
    let rest = text_after_label(head, tail)?;
    let skipped = tail.text.len() - rest.len();
    let mut found = |from: usize| {
        let own = own && from == 0;
        let call = read_joined_call(&head.text, rest.get(from..)?, own, text)?;
        let fit = TailFit {
            head: head.id,
            from: Some(from + skipped),
            comm: call.map(|(coll, _)| coll.comm),
            split: call.is_some_and(|(_, split)| split),
        };
        Some((fit, call.map(|(coll, _)| coll)))
    };
    if let Some((fit, _)) = found(0) {
        return Some(fit);
    }
    // More of its own line may be in front of it.
    let first = rest.len().saturating_sub(MAX_TAIL_BYTES);
    let first = first
        .next_multiple_of(TEAR_STRIDE_BYTES)
        .max(TEAR_STRIDE_BYTES);
    let more = (first..rest.len()).step_by(TEAR_STRIDE_BYTES);
    let follows_head = tail.follows_head() && !own;
    if let Some((fit, _)) = more.filter(|_| follows_head).find_map(&mut found) {
        return Some(fit);
    }
    if !tail.is_sure() {
        return None;
    }
    // Or text that is not NCCL's and has no line end is in front of it. Its end is known if every
    // place gives the same call: the addresses of buffers are not kept.
    let places = rest.len().saturating_sub(TEAR_STRIDE_BYTES).max(1)..rest.len();
    let mut places = places.filter_map(found).filter(|(_, call)| {
        let datatype = call.map(|call| Datatype(call.datatype));
        datatype.is_some_and(|datatype| datatype.size().is_some())
    });
    let (fit, call) = places.next()?;
    Some(TailFit {
        from: fit.from.filter(|_| places.all(|(_, other)| other == call)),
        ..fit
    })
}

/// Returns the tail's text after the launcher's label that the head has too; `None` if the labels
/// differ.
fn text_after_label<'e>(head: &PendingHead, tail: &'e PendingTail) -> Option<&'e [u8]> {
    if head.label.is_empty() {
        return Some(&tail.text);
    }
    if let Some(at) = memmem::rfind(&tail.text, &head.label) {
        return Some(&tail.text[at + head.label.len()..]);
    }
    let stamped = !header::find_time_stamp(&head.label).is_empty();
    (stamped || tail.label == head.label).then_some(&tail.text[..])
}

/// How a process uses an address, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressUse {
    /// It uses the address.
    Known,
    /// The address has no known user, or the process uses none.
    New,
    /// As `New`, and the tear is in the address: another tail would have made another one.
    Split,
    /// Others use the address, and the process uses other ones.
    Others,
}

/// Keeps the fits that can be true: a process that is known to use the communicator's address wrote
/// the line. A line that looks whole is not taken from a process that nothing is known about: `own`
/// is the head of that line.
pub(super) fn keep_likely_fits(
    fits: &[TailFit],
    own: Option<u32>,
    process: impl Fn(u32) -> Option<u32>,
    merged: &MergedMembers,
) -> Vec<TailFit> {
    // If processes have equal addresses, others may have this one too.
    let is_distinct = |process: u32| merged.knows_addresses(process);
    let use_of = |fit: &TailFit| {
        let (Some(comm), Some(process)) = (fit.comm, process(fit.head)) else {
            return AddressUse::New;
        };
        if merged.is_user(process, comm) {
            return AddressUse::Known;
        }
        let is_used = merged.users_of_address(comm).next().is_some();
        match merged.uses_any_address(process) {
            true if is_used && is_distinct(process) => AddressUse::Others,
            true if fit.split => AddressUse::Split,
            _ => AddressUse::New,
        }
    };
    let alive = fits.iter().filter(|fit| process(fit.head).is_some());
    let all: Vec<(TailFit, AddressUse)> = alive.map(|fit| (*fit, use_of(fit))).collect();
    let is_own = |fit: &TailFit| own == Some(fit.head);
    let known = |fit: &TailFit| {
        let mut known = all.iter().filter(|(_, of)| *of == AddressUse::Known);
        known.any(|(of, _)| process(fit.head).is_some_and(is_distinct) || is_own(of))
            && !is_own(fit)
    };
    // Whole lines of processes that share a communicator's address are taken for what they look
    // like: a tail that changed places with one of the same communicator reads the same.
    let whole = |(fit, of): &(TailFit, AddressUse)| *of == AddressUse::Known && is_own(fit);
    if all.iter().any(whole) {
        return all.into_iter().filter(whole).map(|(fit, _)| fit).collect();
    }
    let any = |wanted: AddressUse| all.iter().any(|(_, of)| *of == wanted);
    let split = all
        .iter()
        .filter(|(_, of)| *of == AddressUse::Split)
        .count();
    all.iter()
        .filter(|(fit, of)| match of {
            AddressUse::Known => true,
            AddressUse::New => !known(fit),
            AddressUse::Split => !any(AddressUse::Known) && (split > 1 || is_own(fit)),
            AddressUse::Others => false,
        })
        .map(|&(fit, of)| {
            let split = of == AddressUse::Split;
            TailFit { split, ..fit }
        })
        .collect()
}
