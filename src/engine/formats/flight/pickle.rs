//! Reads a pickle as data: numbers, texts, lists and dictionaries. What makes an object of a class
//! is refused, since that is how a pickle runs code; nothing is ever called here.
//!
//! The opcodes are those of Python's `pickletools`, protocols 0 to 5. PyTorch writes protocol 2.

use super::value::{Full, Id, Value, Values};
use memchr::memchr;
use rustc_hash::FxHashMap;

/// What ended the reading of a pickle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Its STOP: the document is the value of that number.
    Whole(Id),
    /// Its bytes end, or have no meaning at that place: the value is as far as it is known.
    Cut {
        /// What is known.
        root: Option<Id>,
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
const MOST: usize = 4 << 20;

/// Reads all of `bytes`.
pub(super) fn read(bytes: &[u8], values: &mut Values) -> End {
    let mut machine = Machine {
        bytes,
        at: 0,
        values,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: FxHashMap::default(),
    };
    loop {
        let at = machine.at;
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => return End::Whole(root),
            Err(Stop::Refused(why)) => return End::Refused { why, at },
            Err(Stop::Damaged) => {
                return match machine.close() {
                    Ok(root) => End::Cut { root, at },
                    Err(Full) => End::Refused { why: TOO_LARGE, at },
                };
            }
        }
    }
}

const TOO_LARGE: &str = "it has more values than a dump";
const OBJECTS: &str = "it makes objects of classes, which may run code; a dump has none";

/// Why a step was not done.
enum Stop {
    Damaged,
    Refused(&'static str),
}

impl From<Full> for Stop {
    fn from(_: Full) -> Stop {
        Stop::Refused(TOO_LARGE)
    }
}

type Step<T> = Result<T, Stop>;

struct Machine<'m> {
    bytes: &'m [u8],
    at: usize,
    values: &'m mut Values,
    stack: Vec<Id>,
    /// How deep the stack was at each open MARK.
    marks: Vec<usize>,
    memo: FxHashMap<u32, Id>,
}

impl<'m> Machine<'m> {
    /// The next opcode; the document at its end.
    fn step(&mut self) -> Step<Option<Id>> {
        match self.byte()? {
            b'.' => return self.pop().map(Some),
            // PROTO, FRAME.
            0x80 => _ = self.take(1)?,
            0x95 => _ = self.take(8)?,
            b'(' => {
                self.room(self.marks.len())?;
                self.marks.push(self.stack.len());
            }
            b'0' => _ = self.pop()?,
            b'1' => _ = self.marked()?,
            b'2' => {
                let top = *self.stack.last().ok_or(Stop::Damaged)?;
                self.push(top)?;
            }
            b'N' => self.value(Value::None)?,
            0x88 => self.value(Value::Bool(true))?,
            0x89 => self.value(Value::Bool(false))?,
            b'K' => {
                let n = self.byte()?;
                self.value(Value::Int(n.into()))?;
            }
            b'M' => {
                let n = u16::from_le_bytes(self.array()?);
                self.value(Value::Int(n.into()))?;
            }
            b'J' => {
                let n = i32::from_le_bytes(self.array()?);
                self.value(Value::Int(n.into()))?;
            }
            // LONG1, LONG4: little-endian, as short as it can be.
            0x8a => {
                let n = self.byte()?.into();
                self.long(n)?;
            }
            0x8b => {
                let n = u32::from_le_bytes(self.array()?);
                self.long(n as usize)?;
            }
            b'G' => {
                let n = f64::from_be_bytes(self.array()?);
                self.value(Value::Float(n))?;
            }
            // INT, LONG, FLOAT, UNICODE as text.
            b'I' => {
                let value = match self.line()? {
                    b"00" => Value::Bool(false),
                    b"01" => Value::Bool(true),
                    digits => int(digits)?,
                };
                self.value(value)?;
            }
            b'L' => {
                let digits = self.line()?;
                let value = int(digits.strip_suffix(b"L").unwrap_or(digits))?;
                self.value(value)?;
            }
            b'F' => {
                let text = std::str::from_utf8(self.line()?).map_err(|_| Stop::Damaged)?;
                let n = text.parse().map_err(|_| Stop::Damaged)?;
                self.value(Value::Float(n))?;
            }
            b'V' => {
                let text = raw_unicode(self.line()?);
                self.value(Value::Text(text.into()))?;
            }
            // Texts with their length: BINUNICODE, SHORT_, 8, and Python 2's.
            b'X' | b'T' => {
                let n = u32::from_le_bytes(self.array()?);
                self.text(n.into())?;
            }
            0x8c | b'U' => {
                let n = self.byte()?;
                self.text(n.into())?;
            }
            0x8d => {
                let n = u64::from_le_bytes(self.array()?);
                self.text(n)?;
            }
            // Bytes: BINBYTES, SHORT_, 8.
            b'B' => {
                let n = u32::from_le_bytes(self.array()?);
                self.blob(n.into())?;
            }
            b'C' => {
                let n = self.byte()?;
                self.blob(n.into())?;
            }
            0x8e => {
                let n = u64::from_le_bytes(self.array()?);
                self.blob(n)?;
            }
            b']' | b')' => self.value(Value::List(Vec::new()))?,
            b'}' => self.value(Value::Dict(Vec::new()))?,
            b'a' => self.append(1)?,
            b's' => self.append(2)?,
            // APPENDS, SETITEMS.
            b'e' => self.fill(false)?,
            b'u' => self.fill(true)?,
            // TUPLE1 to TUPLE3, LIST and TUPLE, DICT.
            tuple @ 0x85..=0x87 => {
                let from = self.below(usize::from(tuple - 0x84))?;
                let items = self.stack.split_off(from);
                self.collect(Value::List(Vec::new()), &items)?;
            }
            b'l' | b't' => {
                let items = self.marked()?;
                self.collect(Value::List(Vec::new()), &items)?;
            }
            b'd' => {
                let items = self.marked()?;
                self.collect(Value::Dict(Vec::new()), &items)?;
            }
            // BINPUT, LONG_BINPUT, PUT, MEMOIZE and their gets.
            b'q' => {
                let n = self.byte()?;
                self.put(n.into())?;
            }
            b'r' => {
                let n = u32::from_le_bytes(self.array()?);
                self.put(n)?;
            }
            b'p' => {
                let n = self.number()?;
                self.put(n)?;
            }
            0x94 => {
                let n = u32::try_from(self.memo.len()).map_err(|_| Stop::Damaged)?;
                self.put(n)?;
            }
            b'h' => {
                let n = self.byte()?;
                self.recall(n.into())?;
            }
            b'j' => {
                let n = u32::from_le_bytes(self.array()?);
                self.recall(n)?;
            }
            b'g' => {
                let n = self.number()?;
                self.recall(n)?;
            }
            // GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ(_EX), EXT1 to EXT4, PERSID.
            b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | 0x82..=0x84 | b'P' | b'Q' => {
                return Err(Stop::Refused(OBJECTS));
            }
            _ => return Err(Stop::Damaged),
        }
        Ok(None)
    }

    fn take(&mut self, n: u64) -> Step<&'m [u8]> {
        let n = usize::try_from(n).map_err(|_| Stop::Damaged)?;
        let end = self.at.checked_add(n).ok_or(Stop::Damaged)?;
        let bytes: &'m [u8] = self.bytes;
        let taken = bytes.get(self.at..end).ok_or(Stop::Damaged)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        self.take(N as u64)?.try_into().map_err(|_| Stop::Damaged)
    }

    fn byte(&mut self) -> Step<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// What is up to the next line end.
    fn line(&mut self) -> Step<&'m [u8]> {
        let bytes: &'m [u8] = self.bytes;
        let rest = bytes.get(self.at..).unwrap_or_default();
        let n = memchr(b'\n', rest).ok_or(Stop::Damaged)?;
        self.at += n + 1;
        Ok(&rest[..n])
    }

    fn number(&mut self) -> Step<u32> {
        let text = std::str::from_utf8(self.line()?).map_err(|_| Stop::Damaged)?;
        text.parse().map_err(|_| Stop::Damaged)
    }

    fn long(&mut self, n: usize) -> Step<()> {
        let bytes = self.take(n as u64)?;
        let value = match (bytes.len(), bytes.last()) {
            (_, None) => Value::Int(0),
            (1..=8, Some(last)) => {
                let mut all = [if last & 0x80 == 0 { 0 } else { 0xff }; 8];
                all[..bytes.len()].copy_from_slice(bytes);
                Value::Int(i64::from_le_bytes(all))
            }
            _ => Value::Other,
        };
        self.value(value)
    }

    fn text(&mut self, n: u64) -> Step<()> {
        let text = String::from_utf8_lossy(self.take(n)?).into();
        self.value(Value::Text(text))
    }

    fn blob(&mut self, n: u64) -> Step<()> {
        self.take(n)?;
        self.value(Value::Other)
    }

    fn room(&self, len: usize) -> Step<()> {
        (len < MOST).then_some(()).ok_or(Full.into())
    }

    fn push(&mut self, id: Id) -> Step<()> {
        self.room(self.stack.len())?;
        self.stack.push(id);
        Ok(())
    }

    fn value(&mut self, value: Value) -> Step<()> {
        let id = self.values.add(value)?;
        self.push(id)
    }

    /// Where the top `n` values begin, none of them below the last MARK.
    fn below(&self, n: usize) -> Step<usize> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let from = self.stack.len().checked_sub(n);
        from.filter(|&from| from >= bottom).ok_or(Stop::Damaged)
    }

    fn pop(&mut self) -> Step<Id> {
        self.below(1)?;
        self.stack.pop().ok_or(Stop::Damaged)
    }

    /// What is above the last MARK.
    fn marked(&mut self) -> Step<Vec<Id>> {
        let mark = self.marks.pop().ok_or(Stop::Damaged)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn collect(&mut self, empty: Value, items: &[Id]) -> Step<()> {
        self.value(empty)?;
        self.add(items)
    }

    /// APPEND, SETITEM.
    fn append(&mut self, n: usize) -> Step<()> {
        let from = self.below(n + 1)? + 1;
        let items = self.stack.split_off(from);
        self.add(&items)
    }

    fn fill(&mut self, is_dict: bool) -> Step<()> {
        let mark = *self.marks.last().ok_or(Stop::Damaged)?;
        let target = mark.checked_sub(1).and_then(|at| self.stack.get(at));
        let fits = target.is_some_and(|&id| match self.values.get(id) {
            Value::List(_) => !is_dict,
            Value::Dict(_) => is_dict && (self.stack.len() - mark).is_multiple_of(2),
            _ => false,
        });
        // Asked before the mark is taken, so that what is above it is not lost.
        if !fits {
            return Err(Stop::Damaged);
        }
        let items = self.marked()?;
        self.add(&items)
    }

    /// Adds to the list or dictionary on top.
    fn add(&mut self, items: &[Id]) -> Step<()> {
        let top = *self.stack.last().ok_or(Stop::Damaged)?;
        let is_done = self.values.extend(top, items)? || self.values.insert(top, items)?;
        is_done.then_some(()).ok_or(Stop::Damaged)
    }

    fn put(&mut self, key: u32) -> Step<()> {
        self.room(self.memo.len())?;
        let top = *self.stack.last().ok_or(Stop::Damaged)?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Step<()> {
        let id = *self.memo.get(&key).ok_or(Stop::Damaged)?;
        self.push(id)
    }

    /// Puts what is open into what it belongs to, as if the document ended here; each such list
    /// and dictionary is marked as cut. The outermost one.
    fn close(&mut self) -> Result<Option<Id>, Full> {
        // An empty one on top may have been about to be filled.
        if let Some(&top) = self.stack.last()
            && matches!(self.values.get(top), Value::Dict(pairs) if pairs.is_empty())
        {
            self.values.cut(top);
        }
        while let Some(mark) = self.marks.pop() {
            let items = self.stack.split_off(mark.min(self.stack.len()));
            let Some(&target) = self.stack.last() else {
                continue;
            };
            self.values.cut(target);
            if !self.values.extend(target, &items)? {
                self.values.insert(target, &items)?;
            }
        }
        Ok(self.stack.first().copied())
    }
}

fn int(digits: &[u8]) -> Step<Value> {
    let text = std::str::from_utf8(digits).map_err(|_| Stop::Damaged)?;
    match text.parse() {
        Ok(n) => Ok(Value::Int(n)),
        Err(_) if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => Ok(Value::Other),
        Err(_) => Err(Stop::Damaged),
    }
}

/// A text of protocol 0: Latin-1 with `\uXXXX` for other characters.
fn raw_unicode(text: &[u8]) -> String {
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
