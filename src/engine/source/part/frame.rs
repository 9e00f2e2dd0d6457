//! A frame: some megabytes of text as columns, by itself.
//!
//! Its columns are: the templates; the number of each line's template, 0 for a line that is kept whole; the
//! runs of digits, a column for each place; `opCount`, as the difference to the template's last one; the
//! addresses, if they are kept; the text of all other lines.

use super::PartDamage;
use super::columns::{ColumnPacker, ColumnReader, ColumnUnpacker, Last, write_varint};
use super::limits::{FRAME_TEXT_BYTES, MAX_DIGIT_RUNS, MAX_TEMPLATES};
use super::line_split::{CallLineTemplate, Hole, SplitLine};
use rustc_hash::FxHashMap;
use std::io;

/// Makes frames of text.
pub(super) struct FrameEncoder {
    packer: ColumnPacker,
    split: SplitLine,
    numbers: FxHashMap<Vec<u8>, usize>,
    /// The last `opCount` of each template.
    op_counts: Vec<Last>,
    templates: Vec<u8>,
    lines: Vec<u8>,
    digits: Vec<(Vec<u8>, Last)>,
    op_count: Vec<u8>,
    addresses: (Vec<u8>, Last),
    text: Vec<u8>,
}

impl FrameEncoder {
    pub(super) fn new() -> io::Result<FrameEncoder> {
        Ok(FrameEncoder {
            packer: ColumnPacker::new()?,
            split: SplitLine::default(),
            numbers: FxHashMap::default(),
            op_counts: Vec::new(),
            templates: Vec::new(),
            lines: Vec::new(),
            digits: Vec::new(),
            op_count: Vec::new(),
            addresses: Default::default(),
            text: Vec::new(),
        })
    }

    /// Adds `text` as a frame to `out`; returns how many lines it has.
    ///
    /// # Errors
    /// zstd has no memory.
    pub(super) fn encode_frame(
        &mut self,
        text: &[u8],
        keeps_addresses: bool,
        out: &mut Vec<u8>,
    ) -> io::Result<u64> {
        self.clear();
        let mut lines = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            lines += 1;
            let body = line.strip_suffix(b"\n");
            let number = body.and_then(|line| self.split_call(line));
            write_varint(
                number.map_or(0, |number| number as u64 + 1),
                &mut self.lines,
            );
            match number {
                Some(number) => self.add_numbers(number, keeps_addresses),
                None => self.text.extend_from_slice(line),
            }
        }
        write_varint(text.len() as u64, out);
        write_varint(self.digits.len() as u64, out);
        let digits = self.digits.iter().map(|(column, _)| column);
        let columns = [&self.templates, &self.lines].into_iter().chain(digits);
        let columns = columns.chain([&self.op_count, &self.addresses.0, &self.text]);
        for column in columns {
            self.packer.pack_column(column, out)?;
        }
        Ok(lines)
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.op_counts.clear();
        self.digits.clear();
        self.addresses = Default::default();
        for column in [
            &mut self.templates,
            &mut self.lines,
            &mut self.op_count,
            &mut self.text,
        ] {
            column.clear();
        }
    }

    /// Takes a call's line apart and returns the number of its template.
    fn split_call(&mut self, line: &[u8]) -> Option<usize> {
        if !self.split.split_line(line) {
            return None;
        }
        let template = &self.split.template;
        if let Some(&number) = self.numbers.get(&template[..]) {
            return Some(number);
        }
        let number = self.numbers.len();
        if number == MAX_TEMPLATES {
            return None;
        }
        self.numbers.insert(template.clone(), number);
        self.op_counts.push(Last::default());
        write_varint(template.len() as u64, &mut self.templates);
        self.templates.extend_from_slice(template);
        Some(number)
    }

    fn add_numbers(&mut self, template: usize, keeps_addresses: bool) {
        let mut runs = 0;
        for &(hole, value) in &self.split.holes {
            match hole {
                Hole::Digits(_) => {
                    if runs == self.digits.len() {
                        self.digits.push(Default::default());
                    }
                    let (column, last) = &mut self.digits[runs];
                    last.write_next(value, column);
                    runs += 1;
                }
                Hole::OpCount => self.op_counts[template].write_next(value, &mut self.op_count),
                Hole::Address(_) if keeps_addresses => {
                    let (column, last) = &mut self.addresses;
                    last.write_next(value, column);
                }
                Hole::Address(_) => {}
            }
        }
    }
}

/// The columns of a frame, unpacked.
struct FrameColumns {
    templates: Vec<u8>,
    lines: Vec<u8>,
    digits: Vec<Vec<u8>>,
    op_count: Vec<u8>,
    addresses: Vec<u8>,
    text: Vec<u8>,
}

/// Writes the text of `frame` to `out`.
///
/// # Errors
/// It is damaged, or zstd has no memory.
pub(super) fn decode_frame(
    frame: &[u8],
    keeps_addresses: bool,
    out: &mut Vec<u8>,
) -> Result<(), PartDamage> {
    let mut frame = ColumnReader::new(frame);
    let (len, runs) = (frame.take_length()?, frame.take_length()?);
    if len > FRAME_TEXT_BYTES || runs > MAX_DIGIT_RUNS {
        return Err(PartDamage::Columns);
    }
    let mut zstd = ColumnUnpacker::new().map_err(|_| PartDamage::Columns)?;
    let mut next = || zstd.unpack_column(&mut frame);
    let columns = FrameColumns {
        templates: next()?,
        lines: next()?,
        digits: (0..runs).map(|_| next()).collect::<Result<_, _>>()?,
        op_count: next()?,
        addresses: next()?,
        text: next()?,
    };
    columns.join_lines(keeps_addresses, out.len() + len, out)
}

impl FrameColumns {
    /// Writes the lines to `out`, up to its length `end`.
    fn join_lines(
        &self,
        keeps_addresses: bool,
        end: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), PartDamage> {
        let templates = self.read_templates()?;
        let mut op_counts = vec![Last::default(); templates.len()];
        let mut digits: Vec<_> = self
            .digits
            .iter()
            .map(|column| (ColumnReader::new(column), Last::default()))
            .collect();
        let mut op_count = ColumnReader::new(&self.op_count);
        let mut addresses = (ColumnReader::new(&self.addresses), Last::default());
        let mut text = ColumnReader::new(&self.text);
        let mut lines = ColumnReader::new(&self.lines);
        while !lines.is_empty() {
            let Some(at) = lines.take_length()?.checked_sub(1) else {
                out.extend_from_slice(text.take_line()?);
                continue;
            };
            let template = templates.get(at).ok_or(PartDamage::Columns)?;
            let mut runs = digits.iter_mut();
            template.join_line(
                |hole| match hole {
                    Hole::Digits(_) => {
                        let (column, last) = runs.next().ok_or(PartDamage::Columns)?;
                        column.take_next(last)
                    }
                    Hole::OpCount => op_count.take_next(&mut op_counts[at]),
                    Hole::Address(_) if keeps_addresses => addresses.0.take_next(&mut addresses.1),
                    Hole::Address(_) => Ok(0),
                },
                out,
            )?;
            out.push(b'\n');
            if out.len() > end {
                return Err(PartDamage::Columns);
            }
        }
        let is_whole = text.is_empty() && out.len() == end;
        is_whole.then_some(()).ok_or(PartDamage::Columns)
    }

    fn read_templates(&self) -> Result<Vec<CallLineTemplate>, PartDamage> {
        let mut bytes = ColumnReader::new(&self.templates);
        let mut templates = Vec::new();
        while !bytes.is_empty() {
            let len = bytes.take_length()?;
            let template = CallLineTemplate::parse_template(bytes.take_bytes(len)?);
            templates.push(template.ok_or(PartDamage::Columns)?);
            if templates.len() > MAX_TEMPLATES {
                return Err(PartDamage::Columns);
            }
        }
        Ok(templates)
    }
}
