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
    input: u32,
    identity: u32,
    first: u64,
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

/// The stretches of each stream in all inputs so far, by identity and first call.
#[derive(Debug, Default)]
pub(super) struct StreamStretches(FxHashMap<CountedStream, Vec<KnownStretch>>);

impl StreamStretches {
    /// Adds the stretch of a stream; calls `take` with an earlier input that has calls of it, for each communicator that
    /// the address may mean.
    pub(super) fn add_stretch(
        &mut self,
        stream: CountedStream,
        stretch: StreamStretch,
        mut take: impl FnMut(u32),
    ) {
        let known = self.0.entry(stream).or_default();
        let mut rest = &known[..];
        while let Some(next) = rest.first() {
            let identity = next.identity;
            let (same, others) = rest.split_at(count_leading(rest, |s| s.identity <= identity));
            rest = others;
            let may_be_same = identity == stretch.identity || identity.min(stretch.identity) == 0;
            let found = may_be_same.then(|| find_overlap(same, &stretch)).flatten();
            // Torn lines name more than one member of one input.
            found.filter(|&input| input != stretch.input).map(&mut take);
        }
        insert_stretch(known, &stretch);
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
    let (before, after) = same.split_at(count_leading(same, |other| other.first <= stretch.first));
    let nearest = before.last();
    let equal = nearest.filter(|other| other.first == stretch.first);
    let begins = equal.or(after.first());
    let begins = begins.filter(|other| Some(other.first) < stretch.last);
    let reaches = nearest.filter(|other| stretch.first < other.reach);
    let reaches = reaches.map(|other| other.reached_by);
    reaches.or(begins.map(|other| other.input))
}

fn insert_stretch(known: &mut Vec<KnownStretch>, stretch: &StreamStretch) {
    let (identity, first) = (stretch.identity, stretch.first);
    let at = count_leading(known, |other| {
        (other.identity, other.first) <= (identity, first)
    });
    let own = (stretch.last.unwrap_or(0), stretch.input);
    let before = at.checked_sub(1).map(|before| known[before]);
    let before = before.filter(|other| other.identity == identity);
    let before = before.map_or(own, |other| (other.reach, other.reached_by));
    let (reach, reached_by) = if before.0 < own.0 { own } else { before };
    let new = KnownStretch {
        input: stretch.input,
        identity,
        first,
        reach,
        reached_by,
    };
    known.insert(at, new);
    let later = known[at + 1..].iter_mut();
    let shorter = |other: &&mut KnownStretch| other.identity == identity && other.reach < reach;
    for other in later.take_while(shorter) {
        (other.reach, other.reached_by) = (reach, reached_by);
    }
}
