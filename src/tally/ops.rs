//! Operations by number.

use crate::records::{Kind, kind};
use rustc_hash::FxHashMap;

/// The operations met, numbered.
#[derive(Debug, Clone, Default)]
pub struct Ops {
    names: Vec<(Tag, Box<[u8]>, Kind)>,
    /// The numbers of those from [`FEW`] on: a table may have any names in any number.
    others: FxHashMap<Box<[u8]>, u32>,
}

/// How many operations are looked for one by one; NCCL has fewer.
const FEW: usize = 16;

/// A name's length, its first eight bytes and its last: of up to 16 bytes, all of it.
type Tag = (usize, u64, u64);

#[inline]
fn tag(name: &[u8]) -> Tag {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let n = name.len();
    match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => (n, u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (n, word(name), 0),
    }
}

impl Ops {
    /// The number and kind of `name`. There are a handful of operations, so a walk through them
    /// beats a hash.
    #[inline]
    pub fn intern(&mut self, name: &[u8]) -> (u32, Kind) {
        let tag = tag(name);
        for (at, (known, text, kind)) in (0_u32..).zip(self.names.iter().take(FEW)) {
            if *known == tag && (name.len() <= 16 || **text == *name) {
                return (at, *kind);
            }
        }
        self.intern_other(name, tag)
    }

    /// The same for a name that is none of the first few.
    #[cold]
    fn intern_other(&mut self, name: &[u8], tag: Tag) -> (u32, Kind) {
        if let Some(&at) = self.others.get(name) {
            return (at, self.names[at as usize].2);
        }
        let at = self.names.len() as u32;
        if self.names.len() >= FEW {
            self.others.insert(name.into(), at);
        }
        let kind = kind(name);
        self.names.push((tag, name.into(), kind));
        (at, kind)
    }

    /// All names, by number.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|(_, name, _)| &**name)
    }

    /// The kind of a number.
    pub(super) fn kind(&self, op: u32) -> Kind {
        self.names.get(op as usize).map_or(Kind::Other, |n| n.2)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.names.len() as u32
    }

    /// True where none was met.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a number.
    pub fn name(&self, op: u32) -> &[u8] {
        &self.names[op as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_has_the_number_of_its_first_appearance(
            names in proptest::collection::vec("[ab]{0,3}|[ab]{8}[ab]{0,12}", 0..80),
        ) {
            let mut ops = Ops::default();
            let mut naive: Vec<&str> = Vec::new();
            for name in &names {
                let expect = naive.iter().position(|n| n == name).unwrap_or_else(|| {
                    naive.push(name);
                    naive.len() - 1
                });
                prop_assert_eq!(ops.intern(name.as_bytes()).0 as usize, expect);
                prop_assert_eq!(ops.name(expect as u32), name.as_bytes());
            }
            prop_assert_eq!(ops.len() as usize, naive.len());
        }
    }
}
