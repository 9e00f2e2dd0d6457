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
#[derive(Debug, Default)]
pub(super) struct KnownLines {
    /// By the hash of the text with zeros: the template's number, and that of the layout of its addresses.
    templates: FxHashMap<u64, (usize, usize)>,
    layouts: Vec<AddressLayout>,
    /// The layout of the line before.
    last: usize,
    /// The text with zeros.
    text: Vec<u8>,
}

/// The places of addresses, counted from the end of `opCount`; that of the last one is counted back from the
/// end of the line, as the numbers in front of it have more or fewer digits.
type AddressLayout = Vec<DigitPlace>;

impl KnownLines {
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
        let is_usual = (1..=MAX_HEX_DIGITS).contains(&digits) && is_shortest;
        if !is_usual || line.len() > MAX_KNOWN_LINE_BYTES {
            return None;
        }
        let (head, tail) = (&line[..op_count], &line[op_count + digits..]);
        self.text.clear();
        self.text.extend_from_slice(head);
        for byte in &mut self.text {
            *byte = if byte.is_ascii_digit() { b'0' } else { *byte };
        }
        for number in std::iter::once(self.last).chain(0..self.layouts.len()) {
            self.text.truncate(op_count);
            self.text.extend_from_slice(tail);
            if clear_addresses(self.layouts.get(number)?, &mut self.text[op_count..])
                && let Some(&(template, layout)) =
                    self.templates.get(&hash_line(&self.text, op_count))
                && layout == number
                && templates[template].op_count == Some(op_count)
                && equal_bytes(&templates[template].text, &self.text)
            {
                self.last = number;
                return Some(template);
            }
        }
        None
    }

    /// Lets lines of `template` be found, unless it is an unusual one.
    pub(super) fn add_template(&mut self, number: usize, template: &CallLineTemplate) {
        let (text, Some(op_count)) = (&template.text[..], template.op_count) else {
            return;
        };
        // In front of `opCount`, every digit must be a number's.
        let digits = text[..op_count].iter().filter(|b| b.is_ascii_digit());
        let run_digits: usize = template.digits.iter().map(|run| run.digits).sum();
        let mut layout = template.addresses.clone();
        if let Some((last, first)) = layout.split_last_mut() {
            first.iter_mut().for_each(|place| place.at -= op_count);
            last.at = text.len() - last.at;
        }
        let known = self.layouts.iter().position(|known| *known == layout);
        let at = known.unwrap_or(self.layouts.len());
        if digits.count() == run_digits && at < MAX_ADDRESS_LAYOUTS {
            self.layouts.extend(known.is_none().then_some(layout));
            self.templates
                .insert(hash_line(text, op_count), (number, at));
        }
    }
}

#[inline]
fn hash_line(text: &[u8], op_count: usize) -> u64 {
    let mut hash = FxHasher::default();
    hash.write(text);
    hash.write_usize(op_count);
    hash.finish()
}

/// Writes zeros for the addresses of a text after `opCount`. Returns false if it has no digits there.
#[inline]
fn clear_addresses(layout: &AddressLayout, text: &mut [u8]) -> bool {
    for (number, &place) in layout.iter().enumerate() {
        let at = match number + 1 == layout.len() {
            true => text.len().checked_sub(place.at),
            false => Some(place.at),
        };
        let place = at.map(|at| DigitPlace { at, ..place });
        let Some(place) = place.filter(|place| place.is_hex(text)) else {
            return false;
        };
        text[place.at..place.at + place.digits].fill(b'0');
    }
    true
}
