//! Inputs that overlap by NCCL's own count: a part of a rotated log that begins with lines of the part before it, a
//! log beside its tail.

use rustc_hash::FxHashMap;

/// The calls of one process on one communicator in one input.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamStretch {
    pub(super) input: u32,
    /// Which communicator the address means; 0 if no line made it.
    pub(super) identity: u32,
    /// The opCount of the first call.
    pub(super) first: u64,
    /// That of the last call: known of the stream that ends its input.
    pub(super) last: Option<u64>,
}

/// A stretch among those of its stream, in the order of their first calls.
#[derive(Debug, Clone, Copy)]
struct KnownStretch {
    own: StreamStretch,
    /// The greatest last call of this one and all before it, and the input that has it.
    reach: u64,
    reached_by: u32,
}

/// The calls of a process at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CountedStream {
    /// The hash of the process.
    pub(super) who: u64,
    /// The communicator's address.
    pub(super) comm: u64,
}

/// The stretches of a stream in all inputs so far, by identity and first call.
#[derive(Debug, Default)]
struct ComparedStream {
    known: Vec<KnownStretch>,
    /// The input and the identity of the stretch that was added last.
    latest: (u32, u32),
    /// The address means several communicators, by what one input has of it: only lines that make them separate
    /// stretches of the first from those of the next, which counts again from the beginning.
    is_reused: bool,
}

/// All streams.
#[derive(Debug, Default)]
pub(super) struct StreamStretches(FxHashMap<CountedStream, ComparedStream>);

impl StreamStretches {
    /// Adds the stretch of a stream; calls `take` with an earlier input that has calls of it, for each communicator that
    /// the address may mean.
    pub(super) fn add_stretch(
        &mut self,
        stream: CountedStream,
        stretch: StreamStretch,
        mut take: impl FnMut(u32),
    ) {
        let compared = self.0.entry(stream).or_default();
        compared.note_reuse(&stretch);
        let is_reused = compared.is_reused;
        let known = &mut compared.known;
        let mut rest = &known[..];
        while let Some(next) = rest.first() {
            let identity = next.own.identity;
            let (same, others) = rest.split_at(count_leading(rest, |s| s.own.identity <= identity));
            rest = others;
            let is_unknown = identity.min(stretch.identity) == 0;
            let may_be_same = match is_unknown {
                true => !is_reused,
                false => identity == stretch.identity,
            };
            let found = may_be_same.then(|| find_overlap(same, &stretch)).flatten();
            // Torn lines name more than one member of one input.
            found.filter(|&input| input != stretch.input).map(&mut take);
        }
        insert_stretch(known, &stretch);
    }
}

impl ComparedStream {
    /// Notes whether an input shows that the address is used again: it has two communicators of it, or ends with a
    /// lower count than it begins with.
    fn note_reuse(&mut self, stretch: &StreamStretch) {
        let own = (stretch.input, stretch.identity);
        let is_other = !self.known.is_empty() && self.latest.0 == own.0 && self.latest.1 != own.1;
        self.is_reused |= is_other || stretch.last.is_some_and(|last| last < stretch.first);
        self.latest = own;
    }
}

/// Counts the leading stretches of which `is_before` is true. Parts of a log come in order: mostly these are all.
fn count_leading(known: &[KnownStretch], is_before: impl Fn(&KnownStretch) -> bool) -> usize {
    match known.last() {
        Some(last) if is_before(last) => known.len(),
        _ => known.partition_point(is_before),
    }
}

/// Returns an input whose stretch begins with a call of this one, or the other way round. The calls of a group share
/// their count, and an input may end in a group: the last count shows nothing.
fn find_overlap(same: &[KnownStretch], stretch: &StreamStretch) -> Option<u32> {
    let (before, after) = same.split_at(count_leading(same, |other| {
        other.own.first <= stretch.first
    }));
    let nearest = before.last();
    let equal = nearest.filter(|other| other.own.first == stretch.first);
    let begins = equal.or(after.first()).map(|other| other.own);
    let begins = begins.filter(|other| Some(other.first) < stretch.last);
    let reaches = nearest.filter(|other| stretch.first < other.reach);
    let reaches = reaches.map(|other| other.reached_by);
    reaches.or(begins.map(|other| other.input))
}

fn insert_stretch(known: &mut Vec<KnownStretch>, own: &StreamStretch) {
    let place = |stretch: &StreamStretch| (stretch.identity, stretch.first);
    let at = count_leading(known, |other| place(&other.own) <= place(own));
    let mut new = KnownStretch {
        own: *own,
        reach: own.last.unwrap_or(0),
        reached_by: own.input,
    };
    let is_of_same = |other: &KnownStretch| other.own.identity == own.identity;
    if let Some(before) = at.checked_sub(1).map(|before| known[before])
        && is_of_same(&before)
        && before.reach >= new.reach
    {
        (new.reach, new.reached_by) = (before.reach, before.reached_by);
    }
    known.insert(at, new);
    for other in &mut known[at + 1..] {
        if !is_of_same(other) || other.reach >= new.reach {
            break;
        }
        (other.reach, other.reached_by) = (new.reach, new.reached_by);
    }
}
