//! The keys of calls.

pub use crate::count::limits::{
    BYTE_DATATYPE, NO_REDUCTION, NO_ROOT, UNKNOWN_SIZE, UNNAMED_DATATYPE,
};
use crate::grammar::coll::Coll;
use crate::grammar::values::{ByteBasis, Datatype, OpKind};
use serde::{Deserialize, Serialize};

/// How a call's size enters its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeKey {
    /// Its element count, exactly (nccl-agg).
    Count,
    /// Its bytes to three significant digits, as the histogram of percentiles keeps them
    /// (nccl-ops).
    Digits,
    /// Its bucket: the edges in bytes, rising; bucket i is from edge i-1 up to edge i
    /// (nccl-hist).
    Bucket(Vec<u128>),
}

/// What a tally distinguishes besides operation and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// How sizes enter the key.
    pub sizing: SizeKey,
    /// What bytes mean.
    pub basis: ByteBasis,
    /// Distinguish members (for their rank, host, communicator, GPU).
    pub members: bool,
    /// Distinguish datatypes.
    pub datatypes: bool,
    /// Distinguish steps.
    pub steps: bool,
    /// Distinguish also the communicator's size, the reduction and the root.
    pub exact: bool,
    /// Keep how long each call took, of rows that have it.
    pub durations: bool,
    /// Distinguish algorithm and protocol, of rows that have them.
    pub served: bool,
}

/// The fields of a call that may enter its key.
#[derive(Debug, Clone, Copy)]
pub struct TallyCall {
    /// The operation's number.
    pub op: u32,
    /// The member's number.
    pub member: u32,
    /// The datatype's code, [`UNNAMED_DATATYPE`] or [`BYTE_DATATYPE`].
    pub datatype: u64,
    /// Elements.
    pub count: u64,
    /// The communicator's size.
    pub nranks: Option<u32>,
    /// The reduction, or [`NO_REDUCTION`].
    pub redop: u64,
    /// The root, or [`NO_ROOT`].
    pub root: i64,
    /// Its bytes on the basis asked for.
    pub bytes: Option<u128>,
}

/// The key of equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// The member's number; 0 unless members are distinguished.
    pub member: u32,
    /// The operation's number in [`Ops`](super::OpInterner).
    pub op: u32,
    /// The datatype's code, [`UNNAMED_DATATYPE`] or [`BYTE_DATATYPE`]; 0 unless datatypes are distinguished.
    pub datatype: u64,
    /// The size by [`SizeKey`]; [`UNKNOWN_SIZE`] if the bytes are unknown.
    pub size: u64,
    /// The communicator's size, where it decides the bytes or [`Options::exact`] asks; else 0.
    pub nranks: u32,
    /// The reduction under [`Options::exact`], else [`NO_REDUCTION`].
    pub redop: u64,
    /// The root under [`Options::exact`], else [`NO_ROOT`].
    pub root: i64,
}

// Two or three words instead of seven fields: this is done for every call.
impl std::hash::Hash for CallKey {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.member) << 32 | u64::from(self.op));
        let small = self.datatype.rotate_left(56) ^ u64::from(self.nranks).rotate_left(32);
        state.write_u64(self.size ^ small);
        if (self.redop, self.root) != (NO_REDUCTION, NO_ROOT) {
            state.write_u64(self.redop ^ self.root.cast_unsigned().rotate_left(32));
        }
    }
}

impl CallKey {
    /// Returns the elements and bytes of a key with a datatype and the size [`SizeKey::Count`]. The elements
    /// are unknown if only the bytes are known, or neither.
    pub fn elements_and_bytes(&self) -> (Option<u64>, Option<u128>) {
        if self.datatype == BYTE_DATATYPE {
            return (None, Some(self.size.into()));
        }
        if (self.datatype, self.size) == (UNNAMED_DATATYPE, UNKNOWN_SIZE) {
            return (None, None);
        }
        let size = Datatype::from_code(self.datatype).and_then(Datatype::size);
        let bytes = size.map(|size| u128::from(self.size) * u128::from(size));
        (Some(self.size), bytes)
    }
}

impl Options {
    /// Distinguishes only operations and sizes.
    pub fn by_size(sizing: SizeKey, basis: ByteBasis) -> Options {
        Options {
            sizing,
            basis,
            members: false,
            datatypes: false,
            steps: false,
            exact: false,
            durations: false,
            served: false,
        }
    }

    /// Returns the key and bytes of a logged call.
    #[inline(always)]
    pub(super) fn key_of_logged(
        &self,
        op: u32,
        kind: OpKind,
        member: u32,
        coll: &Coll<'_>,
    ) -> (CallKey, Option<u128>) {
        let size = Datatype(coll.datatype).size();
        let api = size.map(|size| u128::from(coll.count) * u128::from(size));
        let bytes = api.and_then(|api| self.basis.bytes_on_basis(kind, api, coll.nranks));
        let call = TallyCall {
            op,
            member,
            datatype: coll.datatype.into(),
            count: coll.count,
            nranks: coll.nranks,
            redop: coll.redop,
            root: coll.root,
            bytes,
        };
        (self.key_of_call(&call), bytes)
    }

    /// Returns the key of a call.
    #[inline(always)]
    pub fn key_of_call(&self, call: &TallyCall) -> CallKey {
        let size = match (&self.sizing, call.bytes) {
            (SizeKey::Count, _) => call.count,
            (_, None) => UNKNOWN_SIZE,
            (SizeKey::Digits, Some(bytes)) => round_to_three_digits(bytes),
            (SizeKey::Bucket(edges), Some(bytes)) => {
                edges.iter().take_while(|&&edge| edge <= bytes).count() as u64
            }
        };
        let by_nranks =
            self.exact || (self.basis != ByteBasis::Api && self.sizing == SizeKey::Count);
        CallKey {
            member: if self.members { call.member } else { 0 },
            op: call.op,
            datatype: if self.datatypes { call.datatype } else { 0 },
            size,
            nranks: call.nranks.filter(|_| by_nranks).unwrap_or(0),
            redop: if self.exact { call.redop } else { NO_REDUCTION },
            root: if self.exact { call.root } else { NO_ROOT },
        }
    }
}

impl Options {
    /// Returns the key here of a key of `finer`, which is exact and by the bytes of the API, as this is.
    pub fn coarsen_key(&self, finer: &Options, key: &CallKey) -> CallKey {
        self.coarsen_key_of(finer, key, OpKind::Other)
    }

    /// Like [`Options::coarsen_key`] for an operation of `kind`, on any basis: `finer` has the same one.
    pub(in crate::count) fn coarsen_key_of(
        &self,
        finer: &Options,
        key: &CallKey,
        kind: OpKind,
    ) -> CallKey {
        let nranks = (key.nranks > 0).then_some(key.nranks);
        let api = key.elements_and_bytes().1;
        let call = TallyCall {
            op: key.op,
            member: key.member,
            datatype: key.datatype,
            count: key.size,
            nranks,
            redop: key.redop,
            root: key.root,
            bytes: api.and_then(|api| self.basis.bytes_on_basis(kind, api, nranks)),
        };
        let mut coarse = self.key_of_call(&call);
        if self.sizing == finer.sizing {
            coarse.size = key.size;
        }
        coarse
    }
}

/// Rounds `bytes` down to what a histogram of three significant digits keeps: 11 bits.
pub fn round_to_three_digits(bytes: u128) -> u64 {
    let bytes = u64::try_from(bytes).unwrap_or(UNKNOWN_SIZE - 1);
    let drop = (64 - bytes.leading_zeros()).saturating_sub(11);
    bytes >> drop << drop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_exact_below_2048_and_close_above() {
        for bytes in [0, 1, 1023, 2047] {
            assert_eq!(u128::from(round_to_three_digits(bytes)), bytes);
        }
        for bytes in [2049_u128, 1 << 20, 123_456_789, 1 << 40, (1 << 63) + 12345] {
            let kept = u128::from(round_to_three_digits(bytes));
            assert!(
                kept <= bytes && bytes - kept <= bytes / 1024,
                "{bytes} {kept}"
            );
        }
        assert!(round_to_three_digits(u128::MAX) < UNKNOWN_SIZE);
    }

    #[test]
    fn buckets_are_half_open() {
        let edges = vec![65536, 1 << 20, 16 << 20];
        let options = Options::by_size(SizeKey::Bucket(edges), ByteBasis::Api);
        let call = |bytes| TallyCall {
            op: 0,
            member: 0,
            datatype: 0,
            count: 0,
            nranks: None,
            redop: NO_REDUCTION,
            root: NO_ROOT,
            bytes: Some(bytes),
        };
        let bucket = |bytes: u128| options.key_of_call(&call(bytes)).size;
        assert_eq!(
            [65535, 65536, (1 << 20) - 1, 1 << 20, 16 << 20].map(bucket),
            [0, 1, 1, 2, 3]
        );
    }
}
