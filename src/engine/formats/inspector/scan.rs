//! The fast way to a record: JSON as Inspector writes it, compact. Whatever is spelled otherwise is
//! left to serde_json, and a property test holds the two together.

use super::record::{Record, Scalar, Section};
use crate::grammar::token::{bytes_that_are, zeros};

/// The record of a line; `None` for one that is not spelled as Inspector does, or is none.
#[inline]
pub(super) fn scan(line: &[u8]) -> Option<Record<'_>> {
    let mut text = Text(line);
    let mut record = Record::default();
    let mut met = 0_u8;
    text.object(|text, key| {
        let Some(section) = Section::named(key) else {
            return text.skip(DEPTH);
        };
        if text.0.first() != Some(&b'{') {
            return text.skip(DEPTH);
        }
        // Of keys that come twice serde_json takes the last.
        let bit = 1 << section as u8;
        if met & bit != 0 {
            return None;
        }
        met |= bit;
        record.begin(section);
        section_of(text, section, &mut record)
    })?;
    text.0.is_empty().then_some(record)
}

/// How deep values may be nested.
const DEPTH: u8 = 8;

/// The fields of a part.
fn section_of<'v>(text: &mut Text<'v>, section: Section, record: &mut Record<'v>) -> Option<()> {
    let mut has_trace = false;
    text.object(|text, key| {
        if key != b"event_trace_ts" {
            let value = text.scalar(key)?;
            record.set(section, key, value);
            return Some(());
        }
        if text.0.first() != Some(&b'{') || std::mem::replace(&mut has_trace, true) {
            return None;
        }
        if !matches!(section, Section::Coll | Section::P2p) {
            return text.skip(DEPTH);
        }
        let mut has_events = false;
        text.object(|text, key| {
            if key != b"kernel_events" {
                let value = text.scalar(key)?;
                record.trace(key, value);
                return Some(());
            }
            if text.0.first() != Some(&b'[') || std::mem::replace(&mut has_events, true) {
                return None;
            }
            let mut n = 0;
            text.list(|text| {
                n += 1;
                text.skip(DEPTH)
            })?;
            record.channels(n);
            Some(())
        })
    })
}

/// The high bit of each byte of a word that is a quote, a backslash, or no printable ASCII.
#[inline(always)]
pub(super) fn specials(word: u64) -> u64 {
    let is = |byte| bytes_that_are(byte, word);
    let controls = zeros(word & u64::from_le_bytes([0xe0; 8]));
    let highs = word & u64::from_le_bytes([0x80; 8]);
    is(b'"') | is(b'\\') | is(0x7f) | controls | highs
}

/// What is left of a line.
struct Text<'v>(&'v [u8]);

impl<'v> Text<'v> {
    /// Takes a byte.
    #[inline(always)]
    fn byte(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Takes an object; `field` takes each value.
    #[inline(always)]
    fn object(&mut self, mut field: impl FnMut(&mut Self, &'v [u8]) -> Option<()>) -> Option<()> {
        self.byte(b'{')?;
        if self.byte(b'}').is_some() {
            return Some(());
        }
        loop {
            let (key, is_plain) = self.string()?;
            if !is_plain {
                return None;
            }
            self.byte(b':')?;
            field(self, key)?;
            if self.byte(b',').is_none() {
                return self.byte(b'}');
            }
        }
    }

    /// Takes a list; `item` takes each value.
    #[inline(always)]
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.byte(b'[')?;
        if self.byte(b']').is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.byte(b',').is_none() {
                return self.byte(b']');
            }
        }
    }

    /// Takes a text in ASCII; false for one with escapes.
    #[inline(always)]
    fn string(&mut self) -> Option<(&'v [u8], bool)> {
        self.byte(b'"')?;
        let text = self.0;
        let (mut at, mut is_plain) = (0, true);
        loop {
            // Keys and values are short, and most of a line is in them.
            while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
                let special = specials(u64::from_le_bytes(*word));
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
    fn scalar(&mut self, key: &[u8]) -> Option<Scalar<'v>> {
        match self.0.first()? {
            b'"' => match self.string()? {
                (text, true) => Some(Scalar::Text(text)),
                // No call needs those.
                (_, false) if matches!(key, b"comm_name" | b"git_rev") => Some(Scalar::Other),
                (_, false) => None,
            },
            b'0'..=b'9' => match self.number()? {
                Some(n) => Some(Scalar::Int(n)),
                None if key.ends_with(b"_time_us") => None,
                None => Some(Scalar::Other),
            },
            _ => {
                self.skip(DEPTH)?;
                Some(Scalar::Other)
            }
        }
    }

    /// Takes a number without a sign or an exponent; that of an integer.
    #[inline(always)]
    fn number(&mut self) -> Option<Option<u64>> {
        let (whole, digits) = self.digits()?;
        // JSON has no leading zeros, and what is longer is not an integer of 64 bits.
        if digits > 19 || (digits > 1 && self.0.first() == Some(&b'0')) {
            return None;
        }
        self.0 = self.0.get(digits..)?;
        match self.0.first() {
            Some(b'.') => {
                self.byte(b'.')?;
                let (_, digits) = self.digits()?;
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
    fn digits(&self) -> Option<(u64, usize)> {
        let (mut n, mut digits) = (0_u64, 0);
        while let Some(digit @ b'0'..=b'9') = self.0.get(digits) {
            n = n.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            digits += 1;
        }
        (digits > 0).then_some((n, digits))
    }

    /// Takes a value of which nothing is kept.
    fn skip(&mut self, depth: u8) -> Option<()> {
        let deeper = depth.checked_sub(1)?;
        match self.0.first()? {
            b'{' => self.object(|text, _| text.skip(deeper)),
            b'[' => self.list(|text| text.skip(deeper)),
            b'"' => self.string().map(|_| ()),
            b'0'..=b'9' => self.number().map(|_| ()),
            // Signs and words: rare.
            _ => None,
        }
    }
}
