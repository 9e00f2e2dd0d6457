//! A pipe's copy that does not grow with the pipe: lines that will not be asked for again are let go while
//! it is read, and read as blanks afterwards, so that places and line numbers stay what they are.
//!
//! What was read last lies in memory as it is. What is before is looked through once: lines that the
//! reader of the log gave a *note* are kept as long as it wants that note, all others for good. What is
//! kept is packed, in memory up to a limit and beyond it in a temporary file ([`Store`]). Once more than
//! half of the noted lines are no longer wanted, what is kept is packed anew without them.

use super::copy::{Store, failed};
use memchr::{memchr, memchr_iter};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How hard what is kept is packed.
const LEVEL: i32 = 1;

/// Bytes of a block of fresh text.
const BLOCK: usize = 1 << 20;

/// Bytes that are packed together.
const FRAME: usize = 1 << 20;

/// A line with a note is kept up to so many bytes as one.
const LONGEST: usize = 1 << 16;

/// Bytes of blanks that are written at a time.
const BLANKS: usize = 1 << 16;

/// The lines that may be let go, in order.
pub trait Notes {
    /// Where the next one begins, in bytes of the input. What begins in the middle of a line is not let go, nor
    /// is what is before it there.
    fn at(&mut self) -> Option<u64>;

    /// What is to be known of it where it is kept, `None` where it is let go; goes on to the one after it.
    fn take(&mut self) -> Option<&[u8]>;

    /// Whether this line has nothing else on it: else it is not let go.
    fn is_alone(&self, line: &[u8]) -> bool;
}

/// The copy of a pipe.
#[derive(Debug, Clone)]
pub struct Thin(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    fresh: Mutex<Fresh>,
    kept: Mutex<Kept>,
}

/// Text that was read and not looked through.
#[derive(Debug, Default)]
struct Fresh {
    blocks: VecDeque<Vec<u8>>,
    len: u64,
}

/// What is kept of what was looked through.
#[derive(Debug)]
struct Kept {
    frames: Frames,
    /// Where the text that was not looked through begins.
    until: u64,
    /// What was let go since the last piece that is kept: bytes, and lines.
    gap: (u64, u64),
    /// The beginning of a line that may be let go, whose end did not come yet.
    cut: Vec<u8>,
    /// The last byte that was looked through.
    last: u8,
    /// The note in hand.
    note: Vec<u8>,
}

/// Packed pieces, in order.
#[derive(Debug)]
struct Frames {
    store: Store,
    /// Where each is in the store, and its packed length.
    list: Vec<(u64, usize)>,
    len: u64,
    /// Pieces that are not packed yet.
    open: Vec<u8>,
}

/// A piece of what is kept: what was let go before it, its note, and its text.
#[derive(Debug, PartialEq, Eq)]
struct Piece<'p> {
    gap: (u64, u64),
    note: &'p [u8],
    text: &'p [u8],
}

impl Thin {
    /// An empty one.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub(super) fn new() -> io::Result<Thin> {
        let kept = Kept {
            frames: Frames::new()?,
            until: 0,
            gap: (0, 0),
            cut: Vec::new(),
            last: b'\n',
            note: Vec::new(),
        };
        Ok(Thin(Arc::new(Parts {
            fresh: Mutex::default(),
            kept: Mutex::new(kept),
        })))
    }

    fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was read.
    fn push(&self, bytes: &[u8]) {
        let mut fresh = self.fresh();
        fresh.len += bytes.len() as u64;
        match fresh.blocks.back_mut() {
            Some(last) if last.len() + bytes.len() <= BLOCK => last.extend_from_slice(bytes),
            _ => {
                let mut block = Vec::with_capacity(BLOCK.max(bytes.len()));
                block.extend_from_slice(bytes);
                fresh.blocks.push_back(block);
            }
        }
    }

    /// How many bytes lie in memory and were not looked through.
    pub fn waiting(&self) -> u64 {
        self.fresh().len
    }

    /// Where the text begins that was not looked through.
    pub fn until(&self) -> u64 {
        self.kept().until
    }

    /// Looks through the text up to about `until`, of which `notes` has the lines that may be let go. Gives
    /// up to where it did: lines that begin there or later are to be named again.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub fn look(&self, until: u64, notes: &mut impl Notes) -> io::Result<u64> {
        let mut kept = self.kept();
        loop {
            let mut fresh = self.fresh();
            let room = usize::try_from(until.saturating_sub(kept.until)).unwrap_or(usize::MAX);
            let Some(block) = fresh.pop(room) else {
                return Ok(kept.until - kept.cut.len() as u64);
            };
            drop(fresh);
            kept.block(&block, notes).map_err(copying)?;
        }
    }

    /// The same up to the input's end, where a line may have no end.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub fn look_at_all(&self, notes: &mut impl Notes) -> io::Result<()> {
        self.look(u64::MAX, notes)?;
        let mut kept = self.kept();
        let last = std::mem::take(&mut kept.cut);
        if last.is_empty() {
            return Ok(());
        }
        let kept = &mut *kept;
        kept.note.clear();
        kept.note
            .extend_from_slice(notes.take().unwrap_or_default());
        let noted = kept.noted(&[]).and_then(|()| kept.text(&last));
        noted.map_err(copying)
    }

    /// Lets go of the lines whose notes are not `wanted` any more, and packs the rest anew.
    ///
    /// # Errors
    /// What is kept cannot be read or written.
    pub fn sift(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut kept = self.kept();
        let mut new = Frames::new().map_err(copying)?;
        let mut gap = (0, 0);
        let sifted = kept.frames.each(|piece| {
            let (bytes, lines) = piece.gap;
            gap = (gap.0 + bytes, gap.1 + lines);
            if piece.note.is_empty() || wanted(piece.note) {
                return new.put(&mut gap, piece.note, piece.text);
            }
            gap.0 += piece.text.len() as u64;
            gap.1 += memchr_iter(b'\n', piece.text).count() as u64;
            Ok(())
        });
        sifted.map_err(copying)?;
        kept.gap = (kept.gap.0 + gap.0, kept.gap.1 + gap.1);
        kept.frames = new;
        Ok(())
    }

    /// All notes that are kept, in order.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub fn notes(&self, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        self.kept().frames.each(|piece| {
            if !piece.note.is_empty() {
                sink(piece.note);
            }
            Ok(())
        })
    }

    /// The text, with blanks for what was let go.
    pub(super) fn reader(&self) -> Box<dyn Read + Send> {
        Box::new(Reader::new(self.clone()))
    }

    /// How many bytes are kept, packed.
    pub fn packed(&self) -> u64 {
        self.kept().frames.len
    }
}

impl Fresh {
    /// The first bytes, up to so many.
    fn pop(&mut self, most: usize) -> Option<Vec<u8>> {
        let first = self.blocks.front_mut().filter(|_| most > 0)?;
        if first.len() > most {
            let rest = first.split_off(most);
            self.blocks.push_front(rest);
            self.blocks.swap(0, 1);
        }
        let first = self.blocks.pop_front()?;
        self.len -= first.len() as u64;
        Some(first)
    }
}

impl Kept {
    /// Looks through a block that follows what was looked through before.
    fn block(&mut self, block: &[u8], notes: &mut impl Notes) -> io::Result<()> {
        // A line that began at the end of the block before comes first.
        let mut joined = std::mem::take(&mut self.cut);
        let mut at = self.until - joined.len() as u64;
        self.until += block.len() as u64;
        let mut text = block;
        if !joined.is_empty() {
            joined.extend_from_slice(block);
            text = &joined;
        }
        while !text.is_empty() {
            let next = loop {
                match notes.at() {
                    Some(next) if next < at => drop(notes.take()),
                    next => break next.unwrap_or(u64::MAX),
                }
            };
            if next > at {
                let n = usize::try_from(next - at).map_or(text.len(), |n| n.min(text.len()));
                self.text(&text[..n])?;
                self.last = text[n - 1];
                (at, text) = (at + n as u64, &text[n..]);
                continue;
            }
            let end = memchr(b'\n', &text[..text.len().min(LONGEST)]);
            if end.is_none() && text.len() < LONGEST {
                self.cut = text.to_vec();
                return Ok(());
            }
            // What is far too long for a call is kept.
            let n = end.map_or(LONGEST, |end| end + 1);
            let line = &text[..n];
            self.note.clear();
            let is_wanted = notes.take().map(|note| self.note.extend_from_slice(note));
            let next = notes.at().unwrap_or(u64::MAX);
            let begins = matches!(self.last, b'\n') && next >= at + n as u64;
            let is_alone = begins && end.is_some() && notes.is_alone(line);
            let n = match is_alone {
                true => n,
                false => usize::try_from(next - at).map_or(n, |next| n.min(next)),
            };
            match (is_wanted, is_alone) {
                (Some(()), true) => self.noted(line)?,
                (None, true) => self.gap = (self.gap.0 + n as u64, self.gap.1 + 1),
                (wanted, false) => {
                    // What is sifted later is the note alone.
                    wanted.map_or(Ok(()), |()| self.noted(&[]))?;
                    self.text(&text[..n])?;
                }
            }
            self.last = text[n - 1];
            (at, text) = (at + n as u64, &text[n..]);
        }
        Ok(())
    }

    /// Keeps text without a note.
    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        let mut all = text.chunks(FRAME);
        all.try_for_each(|text| self.frames.put(&mut self.gap, &[], text))
    }

    /// Keeps a line with the note in hand.
    fn noted(&mut self, line: &[u8]) -> io::Result<()> {
        self.frames.put(&mut self.gap, &self.note, line)
    }
}

impl Frames {
    fn new() -> io::Result<Frames> {
        Ok(Frames {
            store: Store::new()?,
            list: Vec::new(),
            len: 0,
            open: Vec::new(),
        })
    }

    /// Adds a piece that comes behind a gap.
    fn put(&mut self, gap: &mut (u64, u64), note: &[u8], text: &[u8]) -> io::Result<()> {
        let gap = std::mem::take(gap);
        Piece { gap, note, text }.write(&mut self.open);
        if self.open.len() >= FRAME {
            let packed = zstd::bulk::compress(&self.open, LEVEL)?;
            self.store.write_all(&packed)?;
            self.list.push((self.len, packed.len()));
            self.len += packed.len() as u64;
            self.open.clear();
        }
        Ok(())
    }

    /// The pieces of a frame, by its number; those that are not packed yet are the last. `None` behind it.
    fn frame(&self, number: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(&(at, len)) = self.list.get(number) else {
            return Ok((number == self.list.len()).then(|| self.open.clone()));
        };
        let mut packed = vec![0; len];
        self.store.file()?.read_exact_at(&mut packed, at)?;
        // A piece is no longer than a frame, and a frame ends with the piece that fills it.
        zstd::bulk::decompress(&packed, 4 * FRAME).map(Some)
    }

    /// All pieces, in order.
    fn each(&self, mut sink: impl FnMut(Piece<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut number = 0;
        while let Some(frame) = self.frame(number)? {
            let mut at = 0;
            while at < frame.len() {
                let (piece, next) = Piece::read(&frame, at)?;
                sink(piece)?;
                at = next;
            }
            number += 1;
        }
        Ok(())
    }
}

impl<'p> Piece<'p> {
    fn write(&self, to: &mut Vec<u8>) {
        for number in [self.gap.0, self.gap.1, self.note.len() as u64] {
            number_to(to, number);
        }
        to.extend_from_slice(self.note);
        number_to(to, self.text.len() as u64);
        to.extend_from_slice(self.text);
    }

    /// The piece at a place, and where the next one is.
    fn read(from: &'p [u8], mut at: usize) -> io::Result<(Piece<'p>, usize)> {
        let number = |at: &mut usize| number_of(from, at).ok_or_else(broken);
        let gap = (number(&mut at)?, number(&mut at)?);
        let bytes = |at: &mut usize| {
            let len = usize::try_from(number(at)?).map_err(|_| broken())?;
            let end = at.checked_add(len).ok_or_else(broken)?;
            let bytes = from.get(*at..end).ok_or_else(broken)?;
            *at = end;
            Ok::<_, io::Error>(bytes)
        };
        let note = bytes(&mut at)?;
        let text = bytes(&mut at)?;
        Ok((Piece { gap, note, text }, at))
    }
}

/// The temporary file is not what was written.
fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// The copy cannot be written, or not be read.
fn copying(cause: io::Error) -> io::Error {
    io::Error::other(failed(&cause))
}

/// Writes a number, seven bits a byte.
fn number_to(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads such a number.
fn number_of(from: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *from.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Reads the text, with blanks for what was let go.
struct Reader {
    thin: Thin,
    /// The number of the next frame; behind them come the blocks that were not looked through.
    next: usize,
    frame: Vec<u8>,
    /// Where the next piece is in it.
    at: usize,
    /// Bytes and lines that are to be blank before the text in hand.
    gap: (u64, u64),
    /// The text in hand: where it is in the frame.
    text: Range<usize>,
    blanks: Vec<u8>,
    /// Blanks that were given.
    given: usize,
}

impl Reader {
    fn new(thin: Thin) -> Reader {
        Reader {
            thin,
            next: 0,
            frame: Vec::new(),
            at: 0,
            gap: (0, 0),
            text: 0..0,
            blanks: Vec::new(),
            given: 0,
        }
    }

    /// Text that is ready; none at the end.
    fn ready(&mut self) -> io::Result<&[u8]> {
        loop {
            if self.given == self.blanks.len() && self.gap.0 > 0 {
                self.blanks.clear();
                self.given = 0;
                blanks(&mut self.gap, &mut self.blanks);
            }
            if self.given < self.blanks.len() {
                return Ok(&self.blanks[self.given..]);
            }
            if !self.text.is_empty() {
                return Ok(&self.frame[self.text.clone()]);
            }
            if self.at < self.frame.len() {
                let (piece, next) = Piece::read(&self.frame, self.at)?;
                (self.gap, self.text) = (piece.gap, next - piece.text.len()..next);
                self.at = next;
            } else if !self.turn()? {
                return Ok(&[]);
            }
        }
    }

    /// Goes on to the next frame, or to what comes behind the last one; false at the end.
    fn turn(&mut self) -> io::Result<bool> {
        let kept = self.thin.kept();
        let number = self.next;
        self.next += 1;
        if let Some(frame) = kept.frames.frame(number)? {
            (self.frame, self.at) = (frame, 0);
            return Ok(true);
        }
        let (gap, text) = match number - kept.frames.list.len() {
            1 => (kept.gap, kept.cut.clone()),
            behind => match self.thin.fresh().blocks.get(behind - 2) {
                Some(block) => ((0, 0), block.clone()),
                None => return Ok(false),
            },
        };
        (self.gap, self.text, self.at) = (gap, 0..text.len(), text.len());
        drop(kept);
        self.frame = text;
        Ok(true)
    }

    fn gave(&mut self, n: usize) {
        match self.given < self.blanks.len() {
            true => self.given += n,
            false => self.text.start += n,
        }
    }
}

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let ready = self.ready()?;
        let n = ready.len().min(to.len());
        to[..n].copy_from_slice(&ready[..n]);
        self.gave(n);
        Ok(n)
    }
}

/// Writes some of the lines of a gap, about equally long.
fn blanks((bytes, lines): &mut (u64, u64), to: &mut Vec<u8>) {
    while *bytes > 0 && to.len() < BLANKS {
        // Only whole lines were let go.
        let len = bytes.div_ceil((*lines).max(1)).min(LONGEST as u64);
        to.resize(to.len() + len as usize, b' ');
        if let (Some(last), 1..) = (to.last_mut(), *lines) {
            *last = b'\n';
        }
        *bytes -= len;
        *lines = lines.saturating_sub(1);
    }
}

/// Gives what it reads, and copies it.
pub(super) struct Thinning<R> {
    inner: R,
    to: Thin,
}

impl<R> Thinning<R> {
    pub(super) fn new(inner: R, to: Thin) -> Thinning<R> {
        Thinning { inner, to }
    }
}

impl<R: Read> Read for Thinning<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(to)?;
        self.to.push(&to[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines that may be let go: where they are, and their notes.
    struct List(Vec<(u64, Option<Vec<u8>>)>, usize);

    impl Notes for List {
        fn at(&mut self) -> Option<u64> {
            self.0.get(self.1).map(|line| line.0)
        }

        fn take(&mut self) -> Option<&[u8]> {
            self.1 += 1;
            self.0.get(self.1 - 1)?.1.as_deref()
        }

        fn is_alone(&self, line: &[u8]) -> bool {
            line.ends_with(b"x\n")
        }
    }

    fn text(thin: &Thin, most: usize) -> Vec<u8> {
        let (mut reader, mut all, mut piece) = (thin.reader(), Vec::new(), vec![0; most]);
        loop {
            match reader.read(&mut piece).unwrap() {
                0 => return all,
                n => all.extend_from_slice(&piece[..n]),
            }
        }
    }

    /// The same with blanks where lines were let go: as many bytes and lines.
    fn same(text: &[u8], whole: &[u8], gone: &[(usize, usize)]) -> bool {
        let lines = |text: &[u8]| memchr_iter(b'\n', text).count();
        // Lines that follow each other are blank together.
        let mut all: Vec<(usize, usize)> = Vec::new();
        for &(from, to) in gone {
            match all.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => all.push((from, to)),
            }
        }
        let mut at = 0;
        let mut ends = all.iter().copied().chain([(whole.len(), whole.len())]);
        text.len() == whole.len()
            && ends.all(|(from, to)| {
                let is_kept = from < at || text[at..from] == whole[at..from];
                let is_blank = text[from..to].iter().all(u8::is_ascii_whitespace);
                at = to;
                is_kept && is_blank && lines(&text[..to]) == lines(&whole[..to])
            })
    }

    proptest! {
        /// Lines that are let go, kept with a note or not named, looked through in steps of any size, and
        /// then sifted.
        #[test]
        fn what_is_let_go_is_blank_and_all_else_is_as_it_was(
            lines in proptest::collection::vec((0..4_u8, 0..90_usize), 0..60),
            steps in proptest::collection::vec((1..900_usize, 0..900_u64), 1..20),
            most in 1..300_usize,
            ends: bool,
        ) {
            let (mut whole, mut list) = (Vec::new(), Vec::new());
            let (mut gone, mut sifted) = (Vec::new(), Vec::new());
            for (at, (kind, len)) in lines.iter().enumerate() {
                let from = whole.len();
                whole.extend(std::iter::repeat_n(b'a' + (at % 20) as u8, *len));
                whole.extend_from_slice(if kind % 2 == 0 { b"x\n" } else { b"yx\n" });
                let note = match kind {
                    0 => None,
                    1 => Some(vec![1, at as u8]),
                    2 => Some(vec![2, at as u8]),
                    _ => continue,
                };
                gone.extend(note.is_none().then_some((from, whole.len())));
                sifted.extend((*kind < 2).then_some((from, whole.len())));
                list.push((from as u64, note));
            }
            if !ends {
                // The last line has no end: it is kept.
                whole.pop();
                gone.retain(|line| line.1 <= whole.len());
                sifted.retain(|line| line.1 <= whole.len());
            }
            let thin = Thin::new().unwrap();
            let (mut notes, mut read) = (List(list.clone(), 0), 0);
            for (n, until) in steps.iter().cycle().take(4000) {
                let next = whole.len().min(read + n);
                thin.push(&whole[read..next]);
                read = next;
                let until = (read as u64).saturating_sub(*until);
                let at = thin.look(until, &mut notes).unwrap();
                notes.1 = list.partition_point(|line| line.0 < at);
            }
            prop_assert!(same(&text(&thin, most), &whole, &[]) || !gone.is_empty());
            thin.look_at_all(&mut notes).unwrap();
            prop_assert!(same(&text(&thin, most), &whole, &gone));
            let kept = |all: &[(u64, Option<Vec<u8>>)], kind: u8| -> Vec<Vec<u8>> {
                let notes = all.iter().filter_map(|line| line.1.clone());
                notes.filter(|note| note[0] >= kind).collect()
            };
            let seen = || {
                let mut seen = Vec::new();
                thin.notes(|note| seen.push(note.to_vec())).unwrap();
                seen
            };
            prop_assert_eq!(seen(), kept(&list, 1));
            thin.sift(|note| note[0] == 2).unwrap();
            prop_assert!(same(&text(&thin, most), &whole, &sifted));
            prop_assert_eq!(seen(), kept(&list, 2));
        }
    }

    #[test]
    fn what_is_kept_is_packed_and_what_is_let_go_takes_no_room() {
        for (line, is_let_go) in [
            ("a line let go x\n", true),
            ("a line that is kept\n", false),
        ] {
            let thin = Thin::new().unwrap();
            let lines = line.repeat(1000);
            let all = 300 * lines.len() as u64;
            for n in 0..300_u64 {
                let from = n * lines.len() as u64;
                let each = (0..1000).map(|at| (from + at * line.len() as u64, None));
                let mut notes = List(each.collect(), 0);
                thin.push(lines.as_bytes());
                thin.look(from + lines.len() as u64, &mut notes).unwrap();
            }
            assert!(thin.packed() < all / 20);
            assert_eq!(thin.packed() == 0, is_let_go);
            assert_eq!(text(&thin, 1 << 16).len() as u64, all);
        }
    }
}
