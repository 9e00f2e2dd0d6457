//! The fast way to a record: compact JSON as Inspector writes it. Other spellings are left to
//! serde_json, and a property test compares the two.

use super::limits::MAX_VALUE_DEPTH;
use super::record::{InspectorRecord, InspectorScalar, RecordSection};
use crate::grammar::token::{bytes_equal_to, zero_bytes};

/// Reads the record of a line; `None` if it is no record or not spelled as Inspector does.
#[inline]
pub(super) fn scan_record(line: &[u8]) -> Option<InspectorRecord<'_>> {
    let mut text = LineCursor(line);
    let mut record = InspectorRecord::default();
    let mut met = 0_u8;
    text.take_object(|text, key| {
        let Some(section) = RecordSection::from_key(key) else {
            return text.skip_value(MAX_VALUE_DEPTH);
        };
        if text.0.first() != Some(&b'{') {
            return text.skip_value(MAX_VALUE_DEPTH);
        }
        // serde_json takes the last of repeated keys.
        let bit = 1 << section as u8;
        if met & bit != 0 {
            return None;
        }
        met |= bit;
        record.begin_section(section);
        scan_section(text, section, &mut record)
    })?;
    text.0.is_empty().then_some(record)
}

/// Reads the fields of a section.
fn scan_section<'v>(
    text: &mut LineCursor<'v>,
    section: RecordSection,
    record: &mut InspectorRecord<'v>,
) -> Option<()> {
    let mut has_trace = false;
    text.take_object(|text, key| {
        if key != b"event_trace_ts" {
            let value = text.take_scalar(key)?;
            record.set_field(section, key, value);
            return Some(());
        }
        if text.0.first() != Some(&b'{') || std::mem::replace(&mut has_trace, true) {
            return None;
        }
        if !matches!(section, RecordSection::Coll | RecordSection::P2p) {
            return text.skip_value(MAX_VALUE_DEPTH);
        }
        let mut has_events = false;
        text.take_object(|text, key| {
            if key != b"kernel_events" {
                let value = text.take_scalar(key)?;
                record.set_trace_field(key, value);
                return Some(());
            }
            if text.0.first() != Some(&b'[') || std::mem::replace(&mut has_events, true) {
                return None;
            }
            let mut n = 0;
            text.take_list(|text| {
                n += 1;
                let (mut begin, mut end) = (None, None);
                text.take_object(|text, key| {
                    let time = text.take_scalar(key)?.as_u64();
                    match key {
                        b"kernel_start_ts" => begin = time,
                        b"kernel_stop_ts" => end = time,
                        _ => {}
                    }
                    Some(())
                })?;
                record.channels.add_channel(begin, end);
                Some(())
            })?;
            record.set_channels(n);
            Some(())
        })
    })
}

/// Marks the high bit of each byte that is a quote, a backslash, or no printable ASCII.
#[inline(always)]
pub(super) fn mark_specials(word: u64) -> u64 {
    let is = |byte| bytes_equal_to(byte, word);
    let controls = zero_bytes(word & u64::from_le_bytes([0xe0; 8]));
    let highs = word & u64::from_le_bytes([0x80; 8]);
    is(b'"') | is(b'\\') | is(0x7f) | controls | highs
}

/// The rest of a line.
struct LineCursor<'v>(&'v [u8]);

impl<'v> LineCursor<'v> {
    /// Takes a byte.
    #[inline(always)]
    fn take_byte(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Takes an object; `field` takes each value.
    #[inline(always)]
    fn take_object(
        &mut self,
        mut field: impl FnMut(&mut Self, &'v [u8]) -> Option<()>,
    ) -> Option<()> {
        self.take_byte(b'{')?;
        if self.take_byte(b'}').is_some() {
            return Some(());
        }
        loop {
            let (key, is_plain) = self.take_string()?;
            if !is_plain {
                return None;
            }
            self.take_byte(b':')?;
            field(self, key)?;
            if self.take_byte(b',').is_none() {
                return self.take_byte(b'}');
            }
        }
    }

    /// Takes a list; `item` takes each value.
    #[inline(always)]
    fn take_list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take_byte(b'[')?;
        if self.take_byte(b']').is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.take_byte(b',').is_none() {
                return self.take_byte(b']');
            }
        }
    }

    /// Takes a text in ASCII; false for one with escapes.
    #[inline(always)]
    fn take_string(&mut self) -> Option<(&'v [u8], bool)> {
        self.take_byte(b'"')?;
        let text = self.0;
        let (mut at, mut is_plain) = (0, true);
        loop {
            // Keys and values are short, and most of a line is in them.
            while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
                let special = mark_specials(u64::from_le_bytes(*word));
                at += special.trailing_zeros() as usize / 8;
                if special != 0 {
                    break;
                }
            }
            match *text.get(at)? {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    match text.get(at + 1)? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                        _ => return None,
                    }
                }
                b' '..=b'~' => at += 1,
                _ => return None,
            }
        }
        let (inside, rest) = text.split_at_checked(at)?;
        self.0 = rest.get(1..)?;
        Some((inside, is_plain))
    }

    /// Takes a value; of one that is nested nothing is known.
    #[inline(always)]
    fn take_scalar(&mut self, key: &[u8]) -> Option<InspectorScalar<'v>> {
        match self.0.first()? {
            b'"' => match self.take_string()? {
                (text, true) => Some(InspectorScalar::Text(text)),
                // No call needs those.
                (_, false) if matches!(key, b"comm_name" | b"git_rev") => {
                    Some(InspectorScalar::Other)
                }
                (_, false) => None,
            },
            b'0'..=b'9' => match self.take_number()? {
                Some(n) => Some(InspectorScalar::Int(n)),
                None if key.ends_with(b"_time_us") => None,
                None => Some(InspectorScalar::Other),
            },
            _ => {
                self.skip_value(MAX_VALUE_DEPTH)?;
                Some(InspectorScalar::Other)
            }
        }
    }

    /// Takes a number without a sign or an exponent; that of an integer.
    #[inline(always)]
    fn take_number(&mut self) -> Option<Option<u64>> {
        let (whole, digits) = self.peek_digits()?;
        // JSON has no leading zeros, and more digits may not fit into 64 bits.
        if digits > 19 || (digits > 1 && self.0.first() == Some(&b'0')) {
            return None;
        }
        self.0 = self.0.get(digits..)?;
        match self.0.first() {
            Some(b'.') => {
                self.take_byte(b'.')?;
                let (_, digits) = self.peek_digits()?;
                self.0 = self.0.get(digits..)?;
                let is_end = !matches!(self.0.first(), Some(b'e' | b'E'));
                (is_end && digits <= 19).then_some(None)
            }
            Some(b'e' | b'E') => None,
            _ => Some(Some(whole)),
        }
    }

    /// The digits that come, and how many.
    #[inline(always)]
    fn peek_digits(&self) -> Option<(u64, usize)> {
        let (mut n, mut digits) = (0_u64, 0);
        while let Some(digit @ b'0'..=b'9') = self.0.get(digits) {
            n = n.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            digits += 1;
        }
        (digits > 0).then_some((n, digits))
    }

    /// Skips a value.
    fn skip_value(&mut self, depth: u8) -> Option<()> {
        let deeper = depth.checked_sub(1)?;
        match self.0.first()? {
            b'{' => self.take_object(|text, _| text.skip_value(deeper)),
            b'[' => self.take_list(|text| text.skip_value(deeper)),
            b'"' => self.take_string().map(|_| ()),
            b'0'..=b'9' => self.take_number().map(|_| ()),
            // Signs and words: rare.
            _ => None,
        }
    }
}
