//! Text that begins as UTF-16 and may go on as text of one byte for each letter: two programs wrote to one file.

use super::limits::{
    MIN_OTHER_LINE_UNITS, MIN_OTHER_TEXT_UNITS, MIN_UTF16_LETTERS, TEXT_READ_BYTES,
};
use super::packed::{UnpackDamageSlot, record_damage};
use std::io::{self, Read};

/// Begins a text, and is no letter of it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Which byte of a unit of UTF-16 comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the unit in the first two bytes of `pair`.
    pub(super) fn read_unit(self, pair: &[u8]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes([pair[0], pair[1]]),
            ByteOrder::Big => u16::from_be_bytes([pair[0], pair[1]]),
        }
    }

    fn mark(self) -> [u8; 2] {
        match self {
            ByteOrder::Little => [0xff, 0xfe],
            ByteOrder::Big => [0xfe, 0xff],
        }
    }
}

/// Reads such text as UTF-8. Bytes are held back only while they may be of either kind.
pub(super) struct MixedText<R> {
    inner: R,
    order: ByteOrder,
    is_in_utf16: bool,
    /// What was read and is not yet decoded.
    raw: Vec<u8>,
    text: Vec<u8>,
    /// How much of `text` is given.
    given: usize,
    has_ended: bool,
    damage: UnpackDamageSlot,
}

impl<R: Read> MixedText<R> {
    /// Text that begins as UTF-16. `damage` takes the first place where a byte is lost.
    pub(super) fn new(inner: R, order: ByteOrder, damage: UnpackDamageSlot) -> MixedText<R> {
        MixedText {
            inner,
            order,
            is_in_utf16: true,
            raw: Vec::new(),
            text: Vec::new(),
            given: 0,
            has_ended: false,
            damage,
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let held = self.raw.len();
        self.raw.resize(held + TEXT_READ_BYTES, 0);
        let read = self.inner.read(&mut self.raw[held..]);
        self.raw.truncate(held + *read.as_ref().unwrap_or(&0));
        self.has_ended = read? == 0;
        (self.given, self.text) = (0, std::mem::take(&mut self.text));
        self.text.clear();
        let mut raw = std::mem::take(&mut self.raw);
        let mut taken = 0;
        loop {
            let (until, is_next_utf16) = match self.is_in_utf16 {
                true => self.take_utf16(&raw[taken..]),
                false => self.take_bytes(&raw[taken..]),
            };
            taken += until;
            match is_next_utf16 {
                Some(is_utf16) => self.is_in_utf16 = is_utf16,
                None => break,
            }
        }
        raw.drain(..taken);
        self.raw = raw;
        Ok(())
    }

    /// Decodes UTF-16 up to where text of one byte for each letter begins: letters of UTF-16 whose both bytes are ASCII are
    /// rare one after another. Where a byte is lost, line ends have their bytes in the wrong order: Unicode lacks that
    /// letter.
    /// Returns how much was taken, and whether UTF-16 follows; `None` where more must be read.
    fn take_utf16(&mut self, raw: &[u8]) -> (usize, Option<bool>) {
        let (mut run, mut has_line_end, mut at) = (0, false, 0);
        for unit in raw.chunks_exact(2) {
            let is_swapped_line_end = self.order.read_unit(unit) == u16::from(b'\n').swap_bytes();
            if is_swapped_line_end {
                // The second byte begins a letter: the line end, or the one after it.
                self.decode_units(&raw[..at]);
                let what = "a byte of the UTF-16 text is lost: the line with it is unreadable";
                record_damage(&self.damage, what.to_owned(), true);
                return (at + 1, Some(true));
            }
            at += 2;
            if !unit.iter().all(|&byte| is_ascii_text(byte.into())) {
                (run, has_line_end) = (0, false);
                continue;
            }
            run += 1;
            has_line_end |= unit.contains(&b'\n');
            let enough = match has_line_end {
                true => MIN_OTHER_LINE_UNITS,
                false => MIN_OTHER_TEXT_UNITS,
            };
            if run >= enough {
                let until = at - 2 * run;
                self.decode_units(&raw[..until]);
                return (until, Some(false));
            }
        }
        if self.has_ended {
            self.decode_units(raw);
            if raw.len() > at {
                let what = "the UTF-16 text ends in the middle of a letter";
                record_damage(&self.damage, what.to_owned(), true);
            }
            return (raw.len(), None);
        }
        let mut until = at - 2 * run;
        let last = raw[..until].rchunks_exact(2).next();
        // The first half of a pair waits for the second.
        if last.is_some_and(|last| matches!(self.order.read_unit(last), 0xd800..0xdc00)) {
            until -= 2;
        }
        self.decode_units(&raw[..until]);
        (until, None)
    }

    fn decode_units(&mut self, raw: &[u8]) {
        let units = raw.chunks_exact(2).map(|pair| self.order.read_unit(pair));
        for letter in char::decode_utf16(units) {
            let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
            if letter == BYTE_ORDER_MARK {
                continue;
            }
            let mut text = [0; 4];
            self.text
                .extend_from_slice(letter.encode_utf8(&mut text).as_bytes());
        }
    }

    /// Takes text of one byte for each letter up to where UTF-16 begins: after its mark, or letters with a zero beside
    /// each. Returns as [`MixedText::take_utf16`] does.
    fn take_bytes(&mut self, raw: &[u8]) -> (usize, Option<bool>) {
        let mut at = 0;
        while let Some(found) = memchr::memchr3(0, 0xff, 0xfe, &raw[at..]) {
            self.text.extend_from_slice(&raw[at..at + found]);
            at += found;
            let rest = &raw[at..];
            let is_whole = |bytes: usize| rest.len() >= bytes || self.has_ended;
            let mut pairs = rest.chunks_exact(2).take(MIN_UTF16_LETTERS);
            let (is_begun, is_decided) = match rest[0] {
                0 => {
                    let is_letter = |pair: &[u8]| pair[0] == 0 && is_ascii_text(pair[1].into());
                    let is_text = pairs.all(is_letter);
                    let enough = 2 * MIN_UTF16_LETTERS;
                    (
                        is_text && rest.len() >= enough,
                        !is_text || is_whole(enough),
                    )
                }
                _ => (rest.starts_with(&self.order.mark()), is_whole(2)),
            };
            if is_begun {
                // The zero may be the second byte of a letter that was taken as a byte.
                let is_second = rest[0] == 0 && self.order == ByteOrder::Little;
                return (at + usize::from(is_second), Some(true));
            }
            if !is_decided {
                return (at, None);
            }
            self.text.push(rest[0]);
            at += 1;
        }
        self.text.extend_from_slice(&raw[at..]);
        (raw.len(), None)
    }
}

impl<R: Read> Read for MixedText<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() && !self.has_ended {
            self.read_more()?;
        }
        let n = to.len().min(self.text.len() - self.given);
        to[..n].copy_from_slice(&self.text[self.given..self.given + n]);
        self.given += n;
        Ok(n)
    }
}

pub(super) fn is_ascii_text(unit: u16) -> bool {
    matches!(unit, 0x09 | 0x0a | 0x0d | 0x1b | 0x20..=0x7e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn utf16(text: &str, order: ByteOrder) -> Vec<u8> {
        let bytes = |unit: u16| match order {
            ByteOrder::Little => unit.to_le_bytes(),
            ByteOrder::Big => unit.to_be_bytes(),
        };
        text.encode_utf16().flat_map(bytes).collect()
    }

    /// Gives the bytes in pieces.
    struct Pieces {
        bytes: Cursor<Vec<u8>>,
        most: usize,
    }

    impl Read for Pieces {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let most = self.most.min(to.len());
            self.bytes.read(&mut to[..most])
        }
    }

    /// Returns the text, and what is damaged.
    fn read_all(bytes: Vec<u8>, order: ByteOrder, most: usize) -> (String, Option<String>) {
        let bytes = Cursor::new(bytes);
        let slot = UnpackDamageSlot::default();
        let mut reader = MixedText::new(Pieces { bytes, most }, order, slot.clone());
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        let damage = slot.lock().unwrap().take().map(|damage| damage.what);
        (String::from_utf8(text).unwrap(), damage)
    }

    fn read(bytes: Vec<u8>, order: ByteOrder, most: usize) -> String {
        let (text, damage) = read_all(bytes, order, most);
        assert_eq!(damage, None);
        text
    }

    #[test]
    fn a_lost_byte_costs_its_line_and_is_reported() {
        for (order, most) in [(ByteOrder::Little, 7), (ByteOrder::Big, 300)] {
            let mut bytes = utf16(&SHORT.repeat(9), order);
            bytes.remove(2 * 4 * SHORT.len() + 11);
            let (text, damage) = read_all(bytes, order, most);
            assert!(text.starts_with(&SHORT.repeat(4)), "{text}");
            assert!(text.ends_with(&SHORT.repeat(3)), "{text}");
            assert!(damage.unwrap().contains("is lost"));
            let mut cut = utf16(SHORT, order);
            cut.push(0);
            let (text, damage) = read_all(cut, order, most);
            assert_eq!(text, SHORT);
            assert!(damage.unwrap().contains("middle of a letter"));
        }
    }

    const WIDE: &str = "host:1:2 [0] NCCL INFO \u{2588}\u{1f600} 训练日志：第一步开始了 上上\n";
    const OTHER: &str = "completed step: 5, seconds: 1.25\n";
    const SHORT: &str = "h:1:2 [0] NCCL INFO x\n";

    proptest! {
        #[test]
        fn text_of_both_kinds_is_read(
            parts in proptest::collection::vec((any::<bool>(), any::<bool>(), 1..4_usize), 0..9),
            is_big: bool,
            most in 1..70_usize,
        ) {
            let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
            let (mut bytes, mut wanted) = (utf16(WIDE, order), WIDE.to_owned());
            for (is_other, is_marked, times) in parts {
                let text = if is_other { [OTHER, SHORT][times % 2] } else { WIDE }.repeat(times);
                let mark: &[u8] = if is_marked && !is_other { &order.mark() } else { b"" };
                let text_bytes = if is_other { text.clone().into_bytes() } else { utf16(&text, order) };
                bytes.extend_from_slice(mark);
                bytes.extend(text_bytes);
                wanted += &text;
            }
            let text = read(bytes, order, most);
            prop_assert_eq!(text, wanted);
        }

        #[test]
        fn any_bytes_are_text_however_they_come(
            bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(b'a'), Just(b'\n'), any::<u8>()], 0..300),
            most in 1..70_usize,
        ) {
            let read = |most| {
                let bytes = Cursor::new(bytes.clone());
                let slot = UnpackDamageSlot::default();
                let mut reader =
                    MixedText::new(Pieces { bytes, most }, ByteOrder::Little, slot.clone());
                let mut text = Vec::new();
                reader.read_to_end(&mut text).unwrap();
                let damage = slot.lock().unwrap().take().map(|damage| damage.what);
                (text, damage)
            };
            prop_assert_eq!(read(most), read(300));
        }
    }

    #[test]
    fn a_line_is_given_before_more_is_read() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = Cursor::new(utf16(WIDE, order));
            let mut reader = MixedText::new(
                Pieces {
                    bytes,
                    most: 1 << 16,
                },
                order,
                UnpackDamageSlot::default(),
            );
            let mut text = vec![0; 1 << 16];
            let n = reader.read(&mut text).unwrap();
            assert_eq!(&text[..n], WIDE.as_bytes());
        }
    }
}
