//! The calls of a process in little memory.
//!
//! A rank makes few different calls again and again. So each call is a code, the place of its number in
//! a dictionary of the list: 1 byte a call up to 256 different ones, 2 bytes up to 65,536.

use super::limits::NO_CODE;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Numbers of calls, in order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CallList {
    /// The numbers that the codes represent.
    dictionary: Vec<u32>,
    codes: Codes,
    /// The codes of the first [`CallList::indexed`] numbers of the dictionary.
    #[serde(skip)]
    code_of: FxHashMap<u32, u32>,
    #[serde(skip)]
    indexed: usize,
}

/// Codes, as wide as the largest needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Codes {
    Bytes(Vec<u8>),
    Shorts(Vec<u16>),
    Words(Vec<u32>),
}

impl Default for Codes {
    fn default() -> Self {
        Codes::Bytes(Vec::new())
    }
}

/// Evaluates an expression with the vector or slice of codes, of any width.
macro_rules! with_codes {
    ($kind:ident, $codes:expr, $list:ident => $body:expr) => {
        match $codes {
            $kind::Bytes($list) => $body,
            $kind::Shorts($list) => $body,
            $kind::Words($list) => $body,
        }
    };
}

impl Codes {
    fn len(&self) -> usize {
        with_codes!(Codes, self, list => list.len())
    }

    #[inline]
    fn push(&mut self, code: u32) {
        match self {
            Codes::Bytes(list) => {
                if let Ok(code) = u8::try_from(code) {
                    return list.push(code);
                }
                let wide = list.iter().map(|&code| u16::from(code)).collect();
                *self = Codes::Shorts(wide);
                self.push(code);
            }
            Codes::Shorts(list) => {
                if let Ok(code) = u16::try_from(code) {
                    return list.push(code);
                }
                let wide = list.iter().map(|&code| u32::from(code)).collect();
                *self = Codes::Words(wide);
                self.push(code);
            }
            Codes::Words(list) => list.push(code),
        }
    }

    fn slice(&self, range: Range<usize>) -> CodeSlice<'_> {
        match self {
            Codes::Bytes(list) => CodeSlice::Bytes(&list[range]),
            Codes::Shorts(list) => CodeSlice::Shorts(&list[range]),
            Codes::Words(list) => CodeSlice::Words(&list[range]),
        }
    }
}

/// Codes of some calls next to each other.
#[derive(Debug, Clone, Copy)]
enum CodeSlice<'a> {
    Bytes(&'a [u8]),
    Shorts(&'a [u16]),
    Words(&'a [u32]),
}

impl CallList {
    pub(super) fn len(&self) -> usize {
        self.codes.len()
    }

    /// The bytes that the list takes, without reserved memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let width = match self.codes {
            Codes::Bytes(_) => 1,
            Codes::Shorts(_) => 2,
            Codes::Words(_) => 4,
        };
        // A number in the dictionary, and its code in a table that is half full.
        (self.len() * width + self.dictionary.len() * 20) as u64
    }

    /// A call's number.
    pub(super) fn get(&self, at: usize) -> Option<u32> {
        let code = with_codes!(Codes, &self.codes, list => u64::from(*list.get(at)?));
        self.dictionary.get(code as usize).copied()
    }

    /// All calls.
    pub(super) fn all(&self) -> CallSlice<'_> {
        self.slice(0..self.len())
    }

    /// The calls of a range, as far as it is one of this list.
    pub(super) fn slice(&self, range: Range<usize>) -> CallSlice<'_> {
        let end = range.end.min(self.len());
        CallSlice {
            dictionary: &self.dictionary,
            codes: self.codes.slice(range.start.min(end)..end),
        }
    }

    /// The code of a number; a new one is added to the dictionary.
    fn code_of(&mut self, number: u32) -> u32 {
        for at in self.indexed..self.dictionary.len() {
            self.code_of.insert(self.dictionary[at], at as u32);
        }
        let next = self.dictionary.len() as u32;
        let code = *self.code_of.entry(number).or_insert(next);
        if code == next {
            self.dictionary.push(number);
        }
        self.indexed = self.dictionary.len();
        code
    }

    /// Adds calls that have other numbers elsewhere: `numbers` gives those that they have here, and
    /// `codes` is a table of as many codes, [`NO_CODE`] before and after.
    pub(super) fn extend_renumbered(&mut self, calls: &[u32], numbers: &[u32], codes: &mut [u32]) {
        let mut known = Vec::new();
        for &call in calls {
            let at = call as usize;
            let code = match codes.get(at) {
                Some(&code) if code != NO_CODE => code,
                _ => {
                    let code = self.code_of(numbers.get(at).copied().unwrap_or(0));
                    if let Some(place) = codes.get_mut(at) {
                        *place = code;
                        known.push(at);
                    }
                    code
                }
            };
            self.codes.push(code);
        }
        known.into_iter().for_each(|at| codes[at] = NO_CODE);
    }

    /// Adds another list's calls.
    pub(super) fn append(&mut self, other: &CallList) {
        let codes: Vec<u32> = other
            .dictionary
            .iter()
            .map(|&number| self.code_of(number))
            .collect();
        with_codes!(Codes, &other.codes, list => {
            for &code in list {
                self.codes.push(codes.get(usize::from_code(code)).copied().unwrap_or(0));
            }
        });
    }

    /// Takes out the calls from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> CallList {
        let codes = match &mut self.codes {
            Codes::Bytes(list) => Codes::Bytes(list.split_off(at.min(list.len()))),
            Codes::Shorts(list) => Codes::Shorts(list.split_off(at.min(list.len()))),
            Codes::Words(list) => Codes::Words(list.split_off(at.min(list.len()))),
        };
        CallList {
            dictionary: self.dictionary.clone(),
            codes,
            ..CallList::default()
        }
    }

    /// Drops the first `n` calls.
    pub(super) fn drop_first(&mut self, n: usize) {
        with_codes!(Codes, &mut self.codes, list => drop(list.drain(..n.min(list.len()))));
    }

    /// Gives the numbers other ones.
    pub(super) fn renumber(&mut self, number: impl FnMut(&mut u32)) {
        self.dictionary.iter_mut().for_each(number);
        self.forget_index();
    }

    /// Forgets the numbers that no call has any more.
    pub(super) fn forget_unused(&mut self) {
        let mut list = CallList::default();
        let mut codes = vec![NO_CODE; self.dictionary.len()];
        with_codes!(Codes, &self.codes, old => {
            for &code in old {
                let at = usize::from_code(code);
                if codes[at] == NO_CODE {
                    codes[at] = list.dictionary.len() as u32;
                    list.dictionary.push(self.dictionary[at]);
                }
                list.codes.push(codes[at]);
            }
        });
        *self = list;
    }

    /// Gives back the memory that only further calls need.
    pub(super) fn forget_index(&mut self) {
        self.code_of = FxHashMap::default();
        self.indexed = 0;
    }
}

/// A code as a place in the dictionary.
trait FromCode<T> {
    fn from_code(code: T) -> Self;
}

impl FromCode<u8> for usize {
    fn from_code(code: u8) -> usize {
        usize::from(code)
    }
}

impl FromCode<u16> for usize {
    fn from_code(code: u16) -> usize {
        usize::from(code)
    }
}

impl FromCode<u32> for usize {
    fn from_code(code: u32) -> usize {
        code as usize
    }
}

/// Some calls of a list, next to each other.
#[derive(Debug, Clone, Copy)]
pub struct CallSlice<'a> {
    dictionary: &'a [u32],
    codes: CodeSlice<'a>,
}

impl Default for CallSlice<'_> {
    fn default() -> Self {
        CallSlice {
            dictionary: &[],
            codes: CodeSlice::Bytes(&[]),
        }
    }
}

impl<'a> CallSlice<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        with_codes!(CodeSlice, self.codes, list => list.len())
    }

    /// True where there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Their numbers.
    pub fn iter(self) -> CallNumbers<'a> {
        CallNumbers {
            calls: self,
            range: 0..self.len(),
        }
    }

    /// The number of a call.
    #[inline]
    pub(super) fn get(self, at: usize) -> Option<u32> {
        let code = with_codes!(CodeSlice, self.codes, list => u64::from(*list.get(at)?));
        self.dictionary.get(code as usize).copied()
    }

    /// Gives each number to `sink`: faster than [`CallSlice::iter`].
    #[inline]
    pub fn each_number(self, mut sink: impl FnMut(u32)) {
        let dictionary = self.dictionary;
        with_codes!(CodeSlice, self.codes, list => {
            for &code in list {
                if let Some(&number) = dictionary.get(usize::from_code(code)) {
                    sink(number);
                }
            }
        });
    }
}

impl PartialEq for CallSlice<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a> IntoIterator for CallSlice<'a> {
    type Item = u32;
    type IntoIter = CallNumbers<'a>;

    fn into_iter(self) -> CallNumbers<'a> {
        self.iter()
    }
}

/// The numbers of some calls, one after the other.
#[derive(Debug, Clone)]
pub struct CallNumbers<'a> {
    calls: CallSlice<'a>,
    range: Range<usize>,
}

impl Iterator for CallNumbers<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.range.next().and_then(|at| self.calls.get(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for CallNumbers<'_> {
    fn next_back(&mut self) -> Option<u32> {
        self.range.next_back().and_then(|at| self.calls.get(at))
    }
}

impl ExactSizeIterator for CallNumbers<'_> {}

#[cfg(test)]
impl From<&[u32]> for CallList {
    fn from(calls: &[u32]) -> CallList {
        let mut list = CallList::default();
        for &call in calls {
            let code = list.code_of(call);
            list.codes.push(code);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(list: &CallList) -> Vec<u32> {
        list.all().iter().collect()
    }

    proptest! {
        /// Few and many different numbers; the list is split, joined, shortened and renumbered.
        #[test]
        fn a_list_has_the_numbers_that_were_added(
            few in proptest::collection::vec(0..9_u32, 0..200),
            many in proptest::collection::vec(any::<u32>(), 0..400),
            at in 0..600_usize,
            gone in 0..600_usize,
        ) {
            let all = [few, many].concat();
            let same: Vec<u32> = (0..all.len() as u32).collect();
            let mut list = CallList::default();
            list.extend_renumbered(&same, &all, &mut vec![NO_CODE; all.len()]);
            prop_assert_eq!(numbers(&list), all.clone());
            prop_assert_eq!(numbers(&CallList::from(&all[..])), all.clone());
            let later = list.split_off(at.min(all.len()));
            prop_assert_eq!(numbers(&later), all[at.min(all.len())..].to_vec());
            list.append(&later);
            prop_assert_eq!(numbers(&list), all.clone());
            list.drop_first(gone);
            list.forget_unused();
            let mut left = all[gone.min(all.len())..].to_vec();
            prop_assert_eq!(numbers(&list), left.clone());
            prop_assert!(list.dictionary.len() <= left.len());
            list.renumber(|number| *number /= 2);
            list.append(&CallList::from(&[7, 1_u32 << 31][..]));
            left.iter_mut().for_each(|number| *number /= 2);
            left.extend([7, 1 << 31]);
            prop_assert_eq!(numbers(&list), left.clone());
            let back: Vec<u32> = list.all().iter().rev().collect();
            prop_assert_eq!(back, left.into_iter().rev().collect::<Vec<u32>>());
            let slice = list.slice(1..3);
            prop_assert!(slice == list.slice(1..3) && list.all().get(list.len()).is_none());
        }
    }

    #[test]
    fn codes_are_as_wide_as_the_numbers_need() {
        let all: Vec<u32> = (0..70_000).collect();
        for (n, bytes) in [(256, 1), (257, 2), (65_536, 2), (70_000, 4)] {
            let list = CallList::from(&all[..n]);
            assert_eq!(list.memory_bytes(), (n * (bytes + 20)) as u64);
            assert_eq!(numbers(&list), &all[..n]);
            let mut sum = 0;
            list.all().each_number(|number| sum += u64::from(number));
            assert_eq!(sum, (n as u64 * (n as u64 - 1)) / 2);
        }
    }
}
