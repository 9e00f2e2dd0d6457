//! Finds the template of a line that looks like one that was split before, without splitting it.
//!
//! A line is known by its text with zeros for its numbers. In front of `opCount`, the line shows where its digits
//! are; behind it, addresses are expected where other lines had them. If the text with zeros is the text of a
//! template, and the template has its addresses there, then
//! [`SplitLine`](super::line_split::SplitLine) makes that template of the line: the words that it searches have
//! characters that no number has, so they are at the same places in both. A property test holds the two against
//! each other.

use super::digits::{DigitPlace, count_hex_at};
use super::limits::{MAX_ADDRESS_LAYOUTS, MAX_HEX_DIGITS, MAX_KNOWN_LINE_BYTES};
use super::line_template::CallLineTemplate;
use crate::grammar::fast_coll::equal_bytes;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher as _;

/// The lines of a frame's templates.
#[derive(Debug)]
pub(super) struct KnownLines {
    /// By the hash of the text with zeros: the template's number, and that of the layout of its addresses.
    templates: FxHashMap<u64, (usize, usize)>,
    layouts: Vec<AddressLayout>,
    /// The layout of the line before.
    last: usize,
    /// The text with zeros.
    text: [u8; MAX_KNOWN_LINE_BYTES],
}

impl Default for KnownLines {
    fn default() -> KnownLines {
        KnownLines {
            templates: FxHashMap::default(),
            layouts: Vec::new(),
            last: 0,
            text: [0; MAX_KNOWN_LINE_BYTES],
        }
    }
}

impl KnownLines {
    pub(super) fn clear(&mut self) {
        self.templates.clear();
        self.layouts.clear();
        self.last = 0;
    }

    /// Returns which of `templates` the line has, which has `opCount` at `op_count`; `None` if it must be
    /// split.
    #[inline]
    pub(super) fn find_template(
        &mut self,
        line: &[u8],
        op_count: usize,
        templates: &[CallLineTemplate],
    ) -> Option<usize> {
        let digits = count_hex_at(line, op_count);
        let is_shortest = digits == 1 || line.get(op_count) != Some(&b'0');
        if !(1..=MAX_HEX_DIGITS).contains(&digits) || !is_shortest {
            return None;
        }
        let tail = &line[op_count + digits..];
        let text = self.text.get_mut(..op_count + tail.len())?;
        for (to, from) in text[..op_count].iter_mut().zip(line) {
            *to = if from.is_ascii_digit() { b'0' } else { *from };
        }
        for number in std::iter::once(self.last).chain(0..self.layouts.len()) {
            let layout = self.layouts.get(number)?;
            if layout.copy_without_addresses(tail, &mut text[op_count..])
                && let Some(&(template, its_layout)) =
                    self.templates.get(&hash_line(text, op_count))
                && its_layout == number
                && templates[template].op_count == Some(op_count)
                && equal_bytes(&templates[template].text, text)
            {
                self.last = number;
                return Some(template);
            }
        }
        None
    }

    /// Lets lines of `template` be found, unless it is an unusual one.
    pub(super) fn add_template(&mut self, number: usize, template: &CallLineTemplate) {
        let text = &template.text[..];
        let Some((op_count, layout)) = AddressLayout::of_template(template) else {
            return;
        };
        let known = self.layouts.iter().position(|known| *known == layout);
        let at = known.unwrap_or(self.layouts.len());
        // In front of `opCount`, every digit must be a number's.
        let digits = text[..op_count].iter().filter(|b| b.is_ascii_digit());
        let run_digits: usize = template.digits.iter().map(|run| run.digits).sum();
        let is_usual = digits.count() == run_digits
            && text.len() <= MAX_KNOWN_LINE_BYTES
            && at < MAX_ADDRESS_LAYOUTS;
        if is_usual {
            if known.is_none() {
                self.layouts.push(layout);
            }
            self.templates
                .insert(hash_line(text, op_count), (number, at));
        }
    }
}

fn hash_line(text: &[u8], op_count: usize) -> u64 {
    let mut hash = FxHasher::default();
    hash.write(text);
    hash.write_usize(op_count);
    hash.finish()
}

/// The places of addresses after `opCount`.
#[derive(Debug, PartialEq, Eq)]
struct AddressLayout {
    places: Vec<DigitPlace>,
    /// How far from the end the last one begins: the numbers in front of it have more or fewer digits.
    last_from_end: usize,
}

impl AddressLayout {
    /// Returns the place of `opCount` with the layout; `None` if `opCount` is no hole.
    fn of_template(template: &CallLineTemplate) -> Option<(usize, AddressLayout)> {
        let op_count = template.op_count?;
        let mut places = template.addresses.clone();
        for place in &mut places {
            place.at = place.at.checked_sub(op_count)?;
        }
        let last = places.last_mut().map(|last| std::mem::take(&mut last.at));
        let last_from_end = last.map_or(0, |at| template.text.len() - op_count - at);
        Some((
            op_count,
            AddressLayout {
                places,
                last_from_end,
            },
        ))
    }

    /// Copies `tail` to `text` with zeros for the addresses. Returns false if it does not have digits there.
    #[inline]
    fn copy_without_addresses(&self, tail: &[u8], text: &mut [u8]) -> bool {
        text.copy_from_slice(tail);
        for &place in &self.places {
            // Only the last one has no place from the start.
            let at = match place.at {
                0 => tail.len().checked_sub(self.last_from_end),
                at => Some(at),
            };
            let place = at.map(|at| DigitPlace { at, ..place });
            match place.filter(|place| place.is_hex(tail)) {
                Some(place) => place.write_zeros(text),
                None => return false,
            }
        }
        true
    }
}
