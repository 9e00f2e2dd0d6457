//! Reads a pickle as data: numbers, texts, lists and dictionaries. What makes an object of a class
//! is refused, since that is how a pickle runs code; nothing is ever called here.
//!
//! The opcodes are those of Python's `pickletools`, protocols 0 to 5. PyTorch writes protocol 2.

use super::value::{DumpValue, DumpValues, ValueId, ValuesFull};
use memchr::memchr;
use rustc_hash::FxHashMap;

/// What ended the reading of a pickle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PickleEnd {
    /// Its STOP: the document is the value of that number.
    Whole(ValueId),
    /// Its bytes end, or have no meaning at that place: the value is as far as it is known.
    Cut {
        /// What is known.
        root: Option<ValueId>,
        /// The byte.
        at: usize,
    },
    /// It would make objects, or is larger than is read.
    Refused {
        /// Why.
        why: &'static str,
        /// The byte.
        at: usize,
    },
}

/// How deep the stack may be, and how many values may be remembered.
const MAX_STACK_OR_MEMO: usize = 4 << 20;

/// Reads all of `bytes`.
pub(super) fn read_pickle(bytes: &[u8], values: &mut DumpValues) -> PickleEnd {
    let mut machine = PickleMachine {
        bytes,
        at: 0,
        values,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: FxHashMap::default(),
    };
    loop {
        let at = machine.at;
        match machine.run_opcode() {
            Ok(None) => {}
            Ok(Some(root)) => return PickleEnd::Whole(root),
            Err(PickleStop::Refused(why)) => return PickleEnd::Refused { why, at },
            Err(PickleStop::Damaged) => {
                return match machine.close_open_values() {
                    Ok(root) => PickleEnd::Cut { root, at },
                    Err(ValuesFull) => PickleEnd::Refused { why: TOO_LARGE, at },
                };
            }
        }
    }
}

const TOO_LARGE: &str = "it has more values than a dump";
const MAKES_OBJECTS: &str = "it makes objects of classes, which may run code; a dump has none";

/// Why a step was not done.
enum PickleStop {
    Damaged,
    Refused(&'static str),
}

impl From<ValuesFull> for PickleStop {
    fn from(_: ValuesFull) -> PickleStop {
        PickleStop::Refused(TOO_LARGE)
    }
}

type PickleResult<T> = Result<T, PickleStop>;

struct PickleMachine<'m> {
    bytes: &'m [u8],
    at: usize,
    values: &'m mut DumpValues,
    stack: Vec<ValueId>,
    /// How deep the stack was at each open MARK.
    marks: Vec<usize>,
    memo: FxHashMap<u32, ValueId>,
}

impl<'m> PickleMachine<'m> {
    /// The next opcode; the document at its end.
    fn run_opcode(&mut self) -> PickleResult<Option<ValueId>> {
        match self.take_byte()? {
            b'.' => return self.pop().map(Some),
            // PROTO, FRAME.
            0x80 => _ = self.take_bytes(1)?,
            0x95 => _ = self.take_bytes(8)?,
            b'(' => {
                self.check_room(self.marks.len())?;
                self.marks.push(self.stack.len());
            }
            b'0' => _ = self.pop()?,
            b'1' => _ = self.pop_to_mark()?,
            b'2' => {
                let top = *self.stack.last().ok_or(PickleStop::Damaged)?;
                self.push(top)?;
            }
            b'N' => self.push_value(DumpValue::None)?,
            0x88 => self.push_value(DumpValue::Bool(true))?,
            0x89 => self.push_value(DumpValue::Bool(false))?,
            b'K' => {
                let n = self.take_byte()?;
                self.push_value(DumpValue::Int(n.into()))?;
            }
            b'M' => {
                let n = u16::from_le_bytes(self.take_array()?);
                self.push_value(DumpValue::Int(n.into()))?;
            }
            b'J' => {
                let n = i32::from_le_bytes(self.take_array()?);
                self.push_value(DumpValue::Int(n.into()))?;
            }
            // LONG1, LONG4: little-endian, as short as it can be.
            0x8a => {
                let n = self.take_byte()?.into();
                self.take_long(n)?;
            }
            0x8b => {
                let n = u32::from_le_bytes(self.take_array()?);
                self.take_long(n as usize)?;
            }
            b'G' => {
                let n = f64::from_be_bytes(self.take_array()?);
                self.push_value(DumpValue::Float(n))?;
            }
            // INT, LONG, FLOAT, UNICODE as text.
            b'I' => {
                let value = match self.take_line()? {
                    b"00" => DumpValue::Bool(false),
                    b"01" => DumpValue::Bool(true),
                    digits => parse_int(digits)?,
                };
                self.push_value(value)?;
            }
            b'L' => {
                let digits = self.take_line()?;
                let value = parse_int(digits.strip_suffix(b"L").unwrap_or(digits))?;
                self.push_value(value)?;
            }
            b'F' => {
                let text =
                    std::str::from_utf8(self.take_line()?).map_err(|_| PickleStop::Damaged)?;
                let n = text.parse().map_err(|_| PickleStop::Damaged)?;
                self.push_value(DumpValue::Float(n))?;
            }
            b'V' => {
                let text = decode_raw_unicode(self.take_line()?);
                self.push_value(DumpValue::Text(text.into()))?;
            }
            // Texts with their length: BINUNICODE, SHORT_, 8, and Python 2's.
            b'X' | b'T' => {
                let n = u32::from_le_bytes(self.take_array()?);
                self.push_text(n.into())?;
            }
            0x8c | b'U' => {
                let n = self.take_byte()?;
                self.push_text(n.into())?;
            }
            0x8d => {
                let n = u64::from_le_bytes(self.take_array()?);
                self.push_text(n)?;
            }
            // Bytes: BINBYTES, SHORT_, 8.
            b'B' => {
                let n = u32::from_le_bytes(self.take_array()?);
                self.push_blob(n.into())?;
            }
            b'C' => {
                let n = self.take_byte()?;
                self.push_blob(n.into())?;
            }
            0x8e => {
                let n = u64::from_le_bytes(self.take_array()?);
                self.push_blob(n)?;
            }
            b']' | b')' => self.push_value(DumpValue::List(Vec::new()))?,
            b'}' => self.push_value(DumpValue::Dict(Vec::new()))?,
            b'a' => self.append_items(1)?,
            b's' => self.append_items(2)?,
            // APPENDS, SETITEMS.
            b'e' => self.fill_container(false)?,
            b'u' => self.fill_container(true)?,
            // TUPLE1 to TUPLE3, LIST and TUPLE, DICT.
            tuple @ 0x85..=0x87 => {
                let from = self.index_below_top(usize::from(tuple - 0x84))?;
                let items = self.stack.split_off(from);
                self.collect_items(DumpValue::List(Vec::new()), &items)?;
            }
            b'l' | b't' => {
                let items = self.pop_to_mark()?;
                self.collect_items(DumpValue::List(Vec::new()), &items)?;
            }
            b'd' => {
                let items = self.pop_to_mark()?;
                self.collect_items(DumpValue::Dict(Vec::new()), &items)?;
            }
            // BINPUT, LONG_BINPUT, PUT, MEMOIZE and their gets.
            b'q' => {
                let n = self.take_byte()?;
                self.remember_value(n.into())?;
            }
            b'r' => {
                let n = u32::from_le_bytes(self.take_array()?);
                self.remember_value(n)?;
            }
            b'p' => {
                let n = self.take_number()?;
                self.remember_value(n)?;
            }
            0x94 => {
                let n = u32::try_from(self.memo.len()).map_err(|_| PickleStop::Damaged)?;
                self.remember_value(n)?;
            }
            b'h' => {
                let n = self.take_byte()?;
                self.recall_value(n.into())?;
            }
            b'j' => {
                let n = u32::from_le_bytes(self.take_array()?);
                self.recall_value(n)?;
            }
            b'g' => {
                let n = self.take_number()?;
                self.recall_value(n)?;
            }
            // GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ(_EX), EXT1 to EXT4, PERSID.
            b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | 0x82..=0x84 | b'P' | b'Q' => {
                return Err(PickleStop::Refused(MAKES_OBJECTS));
            }
            _ => return Err(PickleStop::Damaged),
        }
        Ok(None)
    }

    fn take_bytes(&mut self, n: u64) -> PickleResult<&'m [u8]> {
        let n = usize::try_from(n).map_err(|_| PickleStop::Damaged)?;
        let end = self.at.checked_add(n).ok_or(PickleStop::Damaged)?;
        let bytes: &'m [u8] = self.bytes;
        let taken = bytes.get(self.at..end).ok_or(PickleStop::Damaged)?;
        self.at = end;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> PickleResult<[u8; N]> {
        self.take_bytes(N as u64)?
            .try_into()
            .map_err(|_| PickleStop::Damaged)
    }

    fn take_byte(&mut self) -> PickleResult<u8> {
        let [byte] = self.take_array()?;
        Ok(byte)
    }

    /// What is up to the next line end.
    fn take_line(&mut self) -> PickleResult<&'m [u8]> {
        let bytes: &'m [u8] = self.bytes;
        let rest = bytes.get(self.at..).unwrap_or_default();
        let n = memchr(b'\n', rest).ok_or(PickleStop::Damaged)?;
        self.at += n + 1;
        Ok(&rest[..n])
    }

    fn take_number(&mut self) -> PickleResult<u32> {
        let text = std::str::from_utf8(self.take_line()?).map_err(|_| PickleStop::Damaged)?;
        text.parse().map_err(|_| PickleStop::Damaged)
    }

    fn take_long(&mut self, n: usize) -> PickleResult<()> {
        let bytes = self.take_bytes(n as u64)?;
        let value = match (bytes.len(), bytes.last()) {
            (_, None) => DumpValue::Int(0),
            (1..=8, Some(last)) => {
                let mut all = [if last & 0x80 == 0 { 0 } else { 0xff }; 8];
                all[..bytes.len()].copy_from_slice(bytes);
                DumpValue::Int(i64::from_le_bytes(all))
            }
            _ => DumpValue::Other,
        };
        self.push_value(value)
    }

    fn push_text(&mut self, n: u64) -> PickleResult<()> {
        let text = String::from_utf8_lossy(self.take_bytes(n)?).into();
        self.push_value(DumpValue::Text(text))
    }

    fn push_blob(&mut self, n: u64) -> PickleResult<()> {
        self.take_bytes(n)?;
        self.push_value(DumpValue::Other)
    }

    fn check_room(&self, len: usize) -> PickleResult<()> {
        (len < MAX_STACK_OR_MEMO)
            .then_some(())
            .ok_or(ValuesFull.into())
    }

    fn push(&mut self, id: ValueId) -> PickleResult<()> {
        self.check_room(self.stack.len())?;
        self.stack.push(id);
        Ok(())
    }

    fn push_value(&mut self, value: DumpValue) -> PickleResult<()> {
        let id = self.values.add_value(value)?;
        self.push(id)
    }

    /// Where the top `n` values begin, none of them below the last MARK.
    fn index_below_top(&self, n: usize) -> PickleResult<usize> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let from = self.stack.len().checked_sub(n);
        from.filter(|&from| from >= bottom)
            .ok_or(PickleStop::Damaged)
    }

    fn pop(&mut self) -> PickleResult<ValueId> {
        self.index_below_top(1)?;
        self.stack.pop().ok_or(PickleStop::Damaged)
    }

    /// What is above the last MARK.
    fn pop_to_mark(&mut self) -> PickleResult<Vec<ValueId>> {
        let mark = self.marks.pop().ok_or(PickleStop::Damaged)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn collect_items(&mut self, empty: DumpValue, items: &[ValueId]) -> PickleResult<()> {
        self.push_value(empty)?;
        self.add_items(items)
    }

    /// APPEND, SETITEM.
    fn append_items(&mut self, n: usize) -> PickleResult<()> {
        let from = self.index_below_top(n + 1)? + 1;
        let items = self.stack.split_off(from);
        self.add_items(&items)
    }

    fn fill_container(&mut self, is_dict: bool) -> PickleResult<()> {
        let mark = *self.marks.last().ok_or(PickleStop::Damaged)?;
        let target = mark.checked_sub(1).and_then(|at| self.stack.get(at));
        let fits = target.is_some_and(|&id| match self.values.get(id) {
            DumpValue::List(_) => !is_dict,
            DumpValue::Dict(_) => is_dict && (self.stack.len() - mark).is_multiple_of(2),
            _ => false,
        });
        // Asked before the mark is taken, so that what is above it is not lost.
        if !fits {
            return Err(PickleStop::Damaged);
        }
        let items = self.pop_to_mark()?;
        self.add_items(&items)
    }

    /// Adds to the list or dictionary on top.
    fn add_items(&mut self, items: &[ValueId]) -> PickleResult<()> {
        let top = *self.stack.last().ok_or(PickleStop::Damaged)?;
        let is_done =
            self.values.extend_list(top, items)? || self.values.insert_pairs(top, items)?;
        is_done.then_some(()).ok_or(PickleStop::Damaged)
    }

    fn remember_value(&mut self, key: u32) -> PickleResult<()> {
        self.check_room(self.memo.len())?;
        let top = *self.stack.last().ok_or(PickleStop::Damaged)?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall_value(&mut self, key: u32) -> PickleResult<()> {
        let id = *self.memo.get(&key).ok_or(PickleStop::Damaged)?;
        self.push(id)
    }

    /// Puts what is open into what it belongs to, as if the document ended here; each such list
    /// and dictionary is marked as cut. The outermost one.
    fn close_open_values(&mut self) -> Result<Option<ValueId>, ValuesFull> {
        // An empty one on top may have been about to be filled.
        if let Some(&top) = self.stack.last()
            && matches!(self.values.get(top), DumpValue::Dict(pairs) if pairs.is_empty())
        {
            self.values.mark_cut(top);
        }
        while let Some(mark) = self.marks.pop() {
            let items = self.stack.split_off(mark.min(self.stack.len()));
            let Some(&target) = self.stack.last() else {
                continue;
            };
            self.values.mark_cut(target);
            if !self.values.extend_list(target, &items)? {
                self.values.insert_pairs(target, &items)?;
            }
        }
        Ok(self.stack.first().copied())
    }
}

fn parse_int(digits: &[u8]) -> PickleResult<DumpValue> {
    let text = std::str::from_utf8(digits).map_err(|_| PickleStop::Damaged)?;
    match text.parse() {
        Ok(n) => Ok(DumpValue::Int(n)),
        Err(_) if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => Ok(DumpValue::Other),
        Err(_) => Err(PickleStop::Damaged),
    }
}

/// A text of protocol 0: Latin-1 with `\uXXXX` for other characters.
fn decode_raw_unicode(text: &[u8]) -> String {
    let latin: String = text.iter().map(|&b| char::from(b)).collect();
    let mut parts = latin.split("\\u");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match code.and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                out.push_str(&part[4..]);
            }
            None => {
                out.push_str("\\u");
                out.push_str(part);
            }
        }
    }
    out
}
