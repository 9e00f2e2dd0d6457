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

impl StreamStretch {
    /// True if the other begins with a call of this one. The calls of a group share their count, and an input may
    /// end in a group: the last count shows nothing.
    fn has_first_call_of(&self, other: &StreamStretch) -> bool {
        let is_same = self.identity == other.identity || self.identity.min(other.identity) == 0;
        is_same && self.first <= other.first && Some(other.first) < self.last
    }
}

/// The calls of a process at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CountedStream {
    /// The hash of the process.
    pub(super) who: u64,
    /// The communicator's address.
    pub(super) comm: u64,
}

/// The stretches of each stream in all inputs so far.
#[derive(Debug, Default)]
pub(super) struct StreamStretches(FxHashMap<CountedStream, NamedStretches>);

#[derive(Debug, Default)]
struct NamedStretches {
    /// Those with a last call.
    ending: Vec<StreamStretch>,
    others: Vec<StreamStretch>,
}

impl StreamStretches {
    /// Adds the stretch of a stream; calls `take` with each earlier input that has calls of it.
    pub(super) fn add_stretch(
        &mut self,
        stream: CountedStream,
        stretch: StreamStretch,
        mut take: impl FnMut(u32),
    ) {
        let known = self.0.entry(stream).or_default();
        let others = match stretch.last {
            Some(_) => &known.others[..],
            None => &[],
        };
        for other in known.ending.iter().chain(others) {
            // Torn lines name more than one member.
            if other.input == stretch.input {
                continue;
            }
            if other.has_first_call_of(&stretch) || stretch.has_first_call_of(other) {
                take(other.input);
            }
        }
        match stretch.last {
            Some(_) => known.ending.push(stretch),
            None => known.others.push(stretch),
        }
    }
}
