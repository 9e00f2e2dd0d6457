//! Which calls belong together, and what their callers must agree on.
//!
//! The members of a communicator make the same collectives in the same order; what one sends, its peer
//! receives. A one-sided operation belongs to no other call.

use crate::grammar::coll::Coll;
use crate::grammar::values::{OpKind, op_kind};
use serde::{Deserialize, Serialize};

/// Calls that several ranks make in one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sequence<C> {
    /// The communicator.
    pub comm: C,
    /// Which of its calls.
    pub kind: SequenceKind,
}

/// Which calls of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SequenceKind {
    /// The collectives of all members.
    Collective,
    /// The messages from one rank to another.
    Message {
        /// The rank that sends.
        from: i64,
        /// The rank that receives.
        to: i64,
    },
}

/// One member's part of a sequence, as far as its own calls show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StreamKind {
    /// Its collectives.
    Collective,
    /// Its messages to this rank.
    Send(i64),
    /// Its messages from this rank.
    Recv(i64),
}

impl StreamKind {
    /// The stream of a call; `root` is the peer of a message. `None` for a one-sided operation.
    #[inline]
    pub fn of_call(op: OpKind, root: i64) -> Option<StreamKind> {
        match op {
            OpKind::Send => Some(StreamKind::Send(root)),
            OpKind::Recv => Some(StreamKind::Recv(root)),
            OpKind::OneSided => None,
            _ => Some(StreamKind::Collective),
        }
    }

    /// The stream of a call by its operation's name.
    pub fn of_coll(coll: &Coll<'_>) -> Option<StreamKind> {
        StreamKind::of_call(op_kind(coll.op), coll.root)
    }

    /// The sequence that a stream of rank `own` is part of.
    pub fn sequence_of<C>(self, comm: C, own: i64) -> Sequence<C> {
        let kind = match self {
            StreamKind::Collective => SequenceKind::Collective,
            StreamKind::Send(to) => SequenceKind::Message { from: own, to },
            StreamKind::Recv(from) => SequenceKind::Message { from, to: own },
        };
        Sequence { comm, kind }
    }
}

/// True for names of collectives. One comparison, for the walk over every call.
#[inline(always)]
pub fn is_collective_name(op: &[u8]) -> bool {
    !matches!(op.last_chunk::<4>(), Some(b"Send" | b"Recv" | b"gnal"))
}

/// What the callers of a call must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content<'a> {
    /// The operation; empty for a message: its ends have different ones.
    pub op: &'a [u8],
    /// Elements.
    pub count: u64,
    /// The datatype's code.
    pub datatype: u32,
    /// The reduction's code, one for all reductions of users; 0 for a message.
    pub redop: u64,
    /// The root; 0 for a message: its ends name each other.
    pub root: i64,
}

/// The first property in which two calls differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContentDifference {
    /// The operation.
    Op,
    /// The number of elements.
    Count,
    /// The datatype.
    Datatype,
    /// The reduction.
    Redop,
    /// The root.
    Root,
}

impl<'a> Content<'a> {
    /// The content of a collective.
    #[inline(always)]
    pub fn of_collective(coll: &Coll<'a>) -> Content<'a> {
        Content {
            op: coll.op,
            count: coll.count,
            datatype: coll.datatype,
            // NCCL has reductions 0 to 4. Each process numbers those of the user for itself.
            redop: coll.redop.min(5),
            root: coll.root,
        }
    }

    /// The content of a call of a stream.
    pub fn of_call(coll: &Coll<'a>, stream: StreamKind) -> Content<'a> {
        match stream {
            StreamKind::Collective => Content::of_collective(coll),
            StreamKind::Send(_) | StreamKind::Recv(_) => Content {
                op: b"",
                count: coll.count,
                datatype: coll.datatype,
                redop: 0,
                root: 0,
            },
        }
    }

    /// The content as one number.
    #[inline(always)]
    pub fn mark(&self) -> u64 {
        let root = self.root.cast_unsigned().rotate_left(20);
        let kind = u64::from(self.datatype) << 8 ^ self.redop ^ root;
        mix_bits(mix_bits(hash_op_name(self.op) ^ self.count) ^ kind)
    }

    /// The first property in which another content differs, or `None`.
    pub fn find_difference(&self, other: &Content<'_>) -> Option<ContentDifference> {
        let differs = [
            (self.op != other.op, ContentDifference::Op),
            (self.count != other.count, ContentDifference::Count),
            (self.datatype != other.datatype, ContentDifference::Datatype),
            (self.redop != other.redop, ContentDifference::Redop),
            (self.root != other.root, ContentDifference::Root),
        ];
        differs
            .into_iter()
            .find_map(|(is, what)| is.then_some(what))
    }
}

/// An operation's name as a number.
#[inline(always)]
fn hash_op_name(op: &[u8]) -> u64 {
    op.chunks(8).fold(op.len() as u64, |hash, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        mix_bits(hash ^ u64::from_le_bytes(word))
    })
}

/// Spreads each bit over the lower ones.
#[inline(always)]
pub(super) fn mix_bits(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coll(op: &[u8]) -> Coll<'_> {
        Coll {
            op,
            op_count: 0,
            count: 8,
            datatype: 7,
            redop: 0,
            root: 3,
            comm: 1,
            nranks: None,
            stream: 0,
        }
    }

    #[test]
    fn both_ends_of_a_message_are_one_sequence_with_one_content() {
        let (send, recv) = (
            coll(b"Send"),
            Coll {
                root: 2,
                ..coll(b"Recv")
            },
        );
        let [to, from] = [&send, &recv].map(|coll| StreamKind::of_coll(coll).unwrap());
        assert_eq!(to.sequence_of(0, 2), from.sequence_of(0, 3));
        let [a, b] = [(&send, to), (&recv, from)].map(|(coll, kind)| Content::of_call(coll, kind));
        assert_eq!((a.find_difference(&b), a.mark()), (None, b.mark()));
    }

    #[test]
    fn a_one_sided_operation_belongs_to_no_sequence() {
        for name in [&b"PutSignal"[..], b"Signal", b"WaitSignal"] {
            assert_eq!(StreamKind::of_coll(&coll(name)), None);
            assert!(!is_collective_name(name));
        }
        assert_eq!(
            StreamKind::of_coll(&coll(b"New")),
            Some(StreamKind::Collective)
        );
        assert!(is_collective_name(b"New") && is_collective_name(b"AllReduce"));
    }

    #[test]
    fn reductions_of_users_are_one() {
        let by = |redop| Coll {
            redop,
            ..coll(b"AllReduce")
        };
        let of = |coll: &Coll<'_>| Content::of_collective(coll).mark();
        assert_eq!(of(&by(9)), of(&by(17)));
        let (sum, max) = (by(0), by(2));
        let difference =
            Content::of_collective(&sum).find_difference(&Content::of_collective(&max));
        assert_eq!(difference, Some(ContentDifference::Redop));
    }
}
