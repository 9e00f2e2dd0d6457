//! Reads a pickle as data: numbers, texts, lists and dictionaries. Opcodes that make objects are
//! refused, since they can run code.
//!
//! The opcodes are those of Python's `pickletools`, protocols 0 to 5. PyTorch writes protocol 2.

use super::limits::MAX_STACK_OR_MEMO;
use super::value::{DumpValue, DumpValues, ValueId, ValuesFull};
use memchr::memchr;
use rustc_hash::FxHashMap;
use std::str::FromStr;

/// How the reading of a pickle ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PickleEnd {
    /// Its STOP: the document is the value of that number.
    Whole(ValueId),
    /// Its bytes end or are invalid there; the values before that are kept.
    Cut {
        /// The outermost value, if any was read.
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
    /// Runs the next opcode; returns the document at its end.
    fn run_opcode(&mut self) -> PickleResult<Option<ValueId>> {
        let opcode = self.take_byte()?;
        if opcode == b'.' {
            return self.pop().map(Some);
        }
        let is_run = self.run_stack_opcode(opcode)?
            || self.run_number_opcode(opcode)?
            || self.run_text_opcode(opcode)?
            || self.run_container_opcode(opcode)?
            || self.run_memo_opcode(opcode)?;
        match opcode {
            _ if is_run => Ok(None),
            // GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ(_EX), EXT1 to EXT4, PERSID.
            b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | 0x82..=0x84 | b'P' | b'Q' => {
                Err(PickleStop::Refused(MAKES_OBJECTS))
            }
            _ => Err(PickleStop::Damaged),
        }
    }

    /// Runs an opcode that moves values on the stack or is skipped; returns false for any other one.
    fn run_stack_opcode(&mut self, opcode: u8) -> PickleResult<bool> {
        match opcode {
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
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Pushes None, a truth value or a number; returns false for any other opcode.
    fn run_number_opcode(&mut self, opcode: u8) -> PickleResult<bool> {
        let value = match opcode {
            b'N' => DumpValue::None,
            0x88 => DumpValue::Bool(true),
            0x89 => DumpValue::Bool(false),
            // BININT1, BININT2, BININT.
            b'K' => DumpValue::Int(self.take_unsigned(1)?.cast_signed()),
            b'M' => DumpValue::Int(self.take_unsigned(2)?.cast_signed()),
            b'J' => decode_int(self.take_bytes(4)?),
            // LONG1, LONG4.
            0x8a => decode_int(self.take_counted_bytes(1)?),
            0x8b => decode_int(self.take_counted_bytes(4)?),
            b'G' => DumpValue::Float(f64::from_bits(self.take_unsigned(8)?.swap_bytes())),
            // INT, LONG, FLOAT as text.
            b'I' => match self.take_line()? {
                b"00" => DumpValue::Bool(false),
                b"01" => DumpValue::Bool(true),
                digits => parse_int(digits)?,
            },
            b'L' => {
                let digits = self.take_line()?;
                parse_int(digits.strip_suffix(b"L").unwrap_or(digits))?
            }
            b'F' => DumpValue::Float(self.take_parsed()?),
            _ => return Ok(false),
        };
        self.push_value(value)?;
        Ok(true)
    }

    /// Pushes a text or bytes; returns false for any other opcode.
    fn run_text_opcode(&mut self, opcode: u8) -> PickleResult<bool> {
        let value = match opcode {
            // UNICODE as a line.
            b'V' => DumpValue::Text(decode_raw_unicode(self.take_line()?).into()),
            // BINUNICODE, SHORT_, 8, and Python 2's BINSTRING, SHORT_.
            b'X' | b'T' => self.take_counted_text(4)?,
            0x8c | b'U' => self.take_counted_text(1)?,
            0x8d => self.take_counted_text(8)?,
            // BINBYTES, SHORT_, 8.
            b'B' => self.take_counted_bytes(4).map(|_| DumpValue::Other)?,
            b'C' => self.take_counted_bytes(1).map(|_| DumpValue::Other)?,
            0x8e => self.take_counted_bytes(8).map(|_| DumpValue::Other)?,
            _ => return Ok(false),
        };
        self.push_value(value)?;
        Ok(true)
    }

    /// Makes or fills a list, tuple or dictionary; returns false for any other opcode.
    fn run_container_opcode(&mut self, opcode: u8) -> PickleResult<bool> {
        match opcode {
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
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Stores the top value in the memo, or pushes a stored one; returns false for any other opcode.
    fn run_memo_opcode(&mut self, opcode: u8) -> PickleResult<bool> {
        // BINPUT and BINGET, LONG_, as text, MEMOIZE.
        let key = match opcode {
            b'q' | b'h' => u32::try_from(self.take_unsigned(1)?),
            b'r' | b'j' => u32::try_from(self.take_unsigned(4)?),
            b'p' | b'g' => Ok(self.take_parsed()?),
            0x94 => u32::try_from(self.memo.len()),
            _ => return Ok(false),
        };
        let key = key.map_err(|_| PickleStop::Damaged)?;
        match opcode {
            b'h' | b'j' | b'g' => self.recall_value(key)?,
            _ => self.remember_value(key)?,
        }
        Ok(true)
    }

    fn take_bytes(&mut self, n: u64) -> PickleResult<&'m [u8]> {
        let n = usize::try_from(n).map_err(|_| PickleStop::Damaged)?;
        let end = self.at.checked_add(n).ok_or(PickleStop::Damaged)?;
        let bytes: &'m [u8] = self.bytes;
        let taken = bytes.get(self.at..end).ok_or(PickleStop::Damaged)?;
        self.at = end;
        Ok(taken)
    }

    fn take_byte(&mut self) -> PickleResult<u8> {
        self.take_bytes(1).map(|bytes| bytes[0])
    }

    /// Takes a little-endian number of `width` bytes, at most 8.
    fn take_unsigned(&mut self, width: u64) -> PickleResult<u64> {
        let bytes = self.take_bytes(width)?.iter().rev();
        Ok(bytes.fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    /// Takes the bytes up to the next line end.
    fn take_line(&mut self) -> PickleResult<&'m [u8]> {
        let bytes: &'m [u8] = self.bytes;
        let rest = bytes.get(self.at..).unwrap_or_default();
        let n = memchr(b'\n', rest).ok_or(PickleStop::Damaged)?;
        self.at += n + 1;
        Ok(&rest[..n])
    }

    fn take_parsed<T: FromStr>(&mut self) -> PickleResult<T> {
        let text = std::str::from_utf8(self.take_line()?).map_err(|_| PickleStop::Damaged)?;
        text.parse().map_err(|_| PickleStop::Damaged)
    }

    /// Takes the bytes after their number, which has `width` bytes.
    fn take_counted_bytes(&mut self, width: u64) -> PickleResult<&'m [u8]> {
        let n = self.take_unsigned(width)?;
        self.take_bytes(n)
    }

    fn take_counted_text(&mut self, width: u64) -> PickleResult<DumpValue> {
        let bytes = self.take_counted_bytes(width)?;
        Ok(DumpValue::Text(String::from_utf8_lossy(bytes).into()))
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

    /// Returns where the top `n` values begin, none of them below the last MARK.
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

    /// Takes the values above the last MARK.
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
        // Checked while the mark is still there, so that the values above it are not lost.
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

    /// Puts the values above each MARK into their list or dictionary, and marks those as cut. Returns
    /// the outermost value.
    fn close_open_values(&mut self) -> Result<Option<ValueId>, ValuesFull> {
        // An empty dictionary on top may have been about to be filled.
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

/// Reads a little-endian number with a sign, which pickles shorten as far as possible.
fn decode_int(bytes: &[u8]) -> DumpValue {
    match (bytes.len(), bytes.last()) {
        (_, None) => DumpValue::Int(0),
        (1..=8, Some(last)) => {
            let mut all = [if last & 0x80 == 0 { 0 } else { 0xff }; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            DumpValue::Int(i64::from_le_bytes(all))
        }
        _ => DumpValue::Other,
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
