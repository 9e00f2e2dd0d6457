//! A frame: some megabytes of text as columns, by itself.
//!
//! Its columns are: the templates; the number of each line's template, 0 for a line that is kept whole; the
//! runs of digits, a column for each place; `opCount`, as the difference to the template's last one; the
//! addresses, if they are kept; the text of all other lines.

use super::PartDamage;
use super::columns::{ColumnPacker, ColumnReader, ColumnUnpacker, Last, write_varint};
use super::digits::{DigitPlace, count_hex_at};
use super::known_lines::KnownLines;
use super::limits::{FRAME_TEXT_BYTES, MAX_DIGIT_RUNS, MAX_TEMPLATES};
use super::line_split::SplitLine;
use super::line_template::CallLineTemplate;
use rustc_hash::FxHashMap;
use std::io;

/// Makes frames of text.
pub(super) struct FrameEncoder {
    packer: ColumnPacker,
    split: SplitLine,
    known: KnownLines,
    numbers: FxHashMap<Vec<u8>, usize>,
    parsed: Vec<CallLineTemplate>,
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
            known: KnownLines::default(),
            numbers: FxHashMap::default(),
            parsed: Vec::new(),
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
        let mut rest = ColumnReader::new(text);
        while let Ok(line) = rest.take_line() {
            lines += 1;
            let body = line.strip_suffix(b"\n");
            let call = body.and_then(|line| Some((self.number_template(line)?, line)));
            let number = call.map_or(0, |(number, _)| number as u64 + 1);
            write_varint(number, &mut self.lines);
            match call {
                Some((number, line)) => self.add_numbers(number, line, keeps_addresses),
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
        self.known = KnownLines::default();
        self.numbers.clear();
        self.parsed.clear();
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

    /// Returns the number of the template of a call's line.
    fn number_template(&mut self, line: &[u8]) -> Option<usize> {
        let op_count = self.split.find_op_count(line)?;
        let known = self.known.find_template(line, op_count, &self.parsed);
        known.or_else(|| self.split_call(line, op_count))
    }

    /// Takes a call's line apart and returns the number of its template.
    fn split_call(&mut self, line: &[u8], op_count: usize) -> Option<usize> {
        if !self.split.split_line(line, op_count) {
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
        let parsed = CallLineTemplate::parse_template(template)?;
        self.known.add_template(number, &parsed);
        self.parsed.push(parsed);
        self.numbers.insert(template.clone(), number);
        self.op_counts.push(Last::default());
        write_varint(template.len() as u64, &mut self.templates);
        self.templates.extend_from_slice(template);
        Some(number)
    }

    /// Adds the numbers of a line to their columns.
    fn add_numbers(&mut self, number: usize, line: &[u8], keeps_addresses: bool) {
        let template = &self.parsed[number];
        if template.digits.len() > self.digits.len() {
            self.digits
                .resize_with(template.digits.len(), Default::default);
        }
        // An iterator over both would be a call where it is not inlined.
        for (number, run) in template.digits.iter().enumerate() {
            let (column, last) = &mut self.digits[number];
            last.write_next(run.read_decimal(line), column);
        }
        let op_digits = template.op_count.map_or(0, |at| {
            let digits = count_hex_at(line, at);
            let value = DigitPlace { at, digits }.read_hex(line);
            self.op_counts[number].write_next(value, &mut self.op_count);
            digits
        });
        if keeps_addresses {
            let (column, last) = &mut self.addresses;
            for place in template.addresses_after(op_digits) {
                last.write_next(place.read_hex(line), column);
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
            let op_count = match template.op_count {
                Some(_) => op_count.take_next(&mut op_counts[at])?,
                None => 0,
            };
            let (line, op_digits) = template.write_line(op_count, out);
            if template.digits.len() > digits.len() {
                return Err(PartDamage::Columns);
            }
            for (number, &place) in template.digits.iter().enumerate() {
                let (column, last) = &mut digits[number];
                place.write_decimal(column.take_next(last)?, line);
            }
            if keeps_addresses {
                for place in template.addresses_after(op_digits) {
                    place.write_hex(addresses.0.take_next(&mut addresses.1)?, line);
                }
            }
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
        let mut text_bytes = 0;
        while !bytes.is_empty() {
            let len = bytes.take_length()?;
            let template = CallLineTemplate::parse_template(bytes.take_bytes(len)?);
            let template = template.ok_or(PartDamage::Columns)?;
            // Each template has at least one line in the frame.
            text_bytes += template.text.len();
            templates.push(template);
            if templates.len() > MAX_TEMPLATES || text_bytes > FRAME_TEXT_BYTES {
                return Err(PartDamage::Columns);
            }
        }
        Ok(templates)
    }
}
