//! Groups of rows as text, each made once: the steps of a job are alike, and a group with the calls
//! of an earlier step has the same rows after other columns.

use super::{OwnColumns, TableCell};
use crate::output::limits::{
    MAX_CACHED_BYTES, MAX_CACHED_FRACTIONS, MAX_CACHED_GROUP_WORDS, MAX_CACHED_GROUPS,
};
use crate::output::table::push_csv_text;

/// The format of a row.
pub(super) trait RowSyntax {
    /// Begins a row.
    fn begin(&self, out: &mut Vec<u8>);
    /// Appends the cell of the column `at`, with the separator to the next.
    fn cell(&self, at: usize, cell: &TableCell<'_>, numbers: &mut FractionCache, out: &mut Vec<u8>);
    /// Ends a row.
    fn end(&self, out: &mut Vec<u8>);
}

/// Fields with commas between them.
pub(super) struct CsvSyntax;

impl RowSyntax for CsvSyntax {
    fn begin(&self, _: &mut Vec<u8>) {}

    fn cell(&self, _: usize, cell: &TableCell<'_>, numbers: &mut FractionCache, out: &mut Vec<u8>) {
        match cell {
            TableCell::Text(text) => push_csv_text(text, out),
            cell => numbers.append_number(cell, out),
        }
        out.push(b',');
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.pop();
        out.push(b'\n');
    }
}

/// An object with a value under each column's name, and its separator; null is unknown.
pub(super) struct JsonSyntax<'a>(pub(super) &'a [String], pub(super) &'static [u8]);

impl RowSyntax for JsonSyntax<'_> {
    fn begin(&self, out: &mut Vec<u8>) {
        out.push(b'{');
    }

    fn cell(
        &self,
        at: usize,
        cell: &TableCell<'_>,
        numbers: &mut FractionCache,
        out: &mut Vec<u8>,
    ) {
        out.push(b'"');
        out.extend_from_slice(self.0[at].as_bytes());
        out.extend_from_slice(b"\":");
        match cell {
            TableCell::Empty => out.extend_from_slice(b"null"),
            // As in CSV, an empty field is unknown.
            TableCell::Text(text) if text.is_empty() => out.extend_from_slice(b"null"),
            TableCell::Text(text) => {
                let text = String::from_utf8_lossy(text);
                // Writing a string to a buffer cannot fail.
                let _ = serde_json::to_writer(&mut *out, &*text);
            }
            cell => numbers.append_number(cell, out),
        }
        out.push(b',');
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.pop_if(|last| *last == b',');
        out.push(b'}');
        out.extend_from_slice(self.1);
    }
}

/// Rows as text, in memory that is reused.
pub(super) struct RenderedRows {
    /// The rows.
    pub(super) text: Vec<u8>,
    /// The columns in front of the current group.
    front: Vec<u8>,
    numbers: FractionCache,
    /// The last form of each group, by number.
    known: Vec<CachedGroupRows>,
    /// How many bytes of them are kept.
    kept: usize,
    /// A group that is not kept.
    other: CachedGroupRows,
}

/// The rows of a group after its columns.
#[derive(Debug, Default, Clone)]
struct CachedGroupRows {
    made_of: Vec<u64>,
    text: Vec<u8>,
    /// The end of each row's text.
    ends: Vec<usize>,
}

impl CachedGroupRows {
    fn count_bytes(&self) -> usize {
        8 * (self.made_of.len() + self.ends.len()) + self.text.len()
    }
}

impl RenderedRows {
    pub(super) fn new() -> RenderedRows {
        RenderedRows {
            text: Vec::new(),
            front: Vec::new(),
            numbers: FractionCache::new(),
            known: Vec::new(),
            kept: 0,
            other: CachedGroupRows::default(),
        }
    }

    /// Appends the rows of a group; see [`super::RowGroupSink::group`].
    pub(super) fn append_group(
        &mut self,
        form: &impl RowSyntax,
        columns: &[TableCell<'_>],
        made_of: &[u64],
        own: &mut OwnColumns<'_>,
    ) {
        let (front, numbers) = (&mut self.front, &mut self.numbers);
        front.clear();
        form.begin(front);
        for (at, cell) in columns.iter().enumerate() {
            form.cell(at, cell, numbers, front);
        }
        let rows = cached_rows(&mut self.known, &mut self.other, self.kept, made_of);
        if made_of.is_empty() || rows.made_of != made_of {
            self.kept -= rows.count_bytes().min(self.kept);
            rows.made_of.clear();
            rows.made_of.extend_from_slice(made_of);
            rows.text.clear();
            rows.ends.clear();
            own(&mut |cells| {
                for (at, cell) in (columns.len()..).zip(cells) {
                    form.cell(at, cell, numbers, &mut rows.text);
                }
                form.end(&mut rows.text);
                rows.ends.push(rows.text.len());
            });
            self.kept += rows.count_bytes();
        }
        self.text
            .reserve(rows.text.len() + rows.ends.len() * front.len());
        let mut from = 0;
        for &end in &rows.ends {
            self.text.extend_from_slice(front);
            self.text.extend_from_slice(&rows.text[from..end]);
            from = end;
        }
    }
}

/// Returns the slot of a group's rows.
fn cached_rows<'r>(
    known: &'r mut Vec<CachedGroupRows>,
    other: &'r mut CachedGroupRows,
    kept: usize,
    made_of: &[u64],
) -> &'r mut CachedGroupRows {
    match made_of.first() {
        Some(&number) if number < MAX_CACHED_GROUPS && made_of.len() <= MAX_CACHED_GROUP_WORDS => {
            let at = number as usize;
            if known.len() <= at {
                known.resize(at + 1, CachedGroupRows::default());
            }
            if kept < MAX_CACHED_BYTES || known[at].made_of == made_of {
                &mut known[at]
            } else {
                other
            }
        }
        _ => other,
    }
}

/// Fractions as text. The steps of a job are alike and so are their shares: a lookup is cheaper
/// than the search for the shortest form.
pub(super) struct FractionCache {
    known: Vec<(u64, String)>,
}

impl FractionCache {
    fn new() -> FractionCache {
        // No finite number has these bits.
        FractionCache {
            known: vec![(u64::MAX, String::new()); MAX_CACHED_FRACTIONS],
        }
    }

    /// Appends a number, or nothing.
    fn append_number(&mut self, cell: &TableCell<'_>, out: &mut Vec<u8>) {
        match cell {
            TableCell::Int(n) => match u64::try_from(*n) {
                Ok(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
                Err(_) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
            },
            TableCell::Float(x) | TableCell::Share(x) => {
                let bits = x.to_bits();
                let place = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
                let (known, text) = &mut self.known[place as usize];
                if *known != bits {
                    (*known, *text) = (bits, format_fraction(*x));
                }
                out.extend_from_slice(text.as_bytes());
            }
            TableCell::Text(_) | TableCell::Empty => {}
        }
    }
}

/// Formats a number with nine significant digits, of larger ones with six decimals, and from a million on with three, in its
/// shortest form; a whole one in full. So milliseconds and microseconds keep their nanoseconds.
pub(crate) fn format_fraction(x: f64) -> String {
    let rounded = match x.abs() {
        _ if x.fract() == 0.0 => return x.to_string(),
        1e3..1e6 => format!("{x:.6}"),
        1e6..1e12 => format!("{x:.3}"),
        _ => format!("{x:.8e}"),
    };
    rounded.parse().unwrap_or(x).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::render::{RowGroupSink, Sheet};
    use proptest::prelude::*;

    #[test]
    fn fractions_keep_nanoseconds_and_whole_numbers_all() {
        let of = [
            1.0 / 3.0,
            1_234_567_890_123.5,
            28_300_174.25,
            1e15,
            -0.1,
            2e-9 / 3.0,
            1_650.960_241,
        ];
        let expected = [
            "0.333333333",
            "1234567890000",
            "28300174.25",
            "1000000000000000",
            "-0.1",
            "0.000000000666666667",
            "1650.960241",
        ];
        assert_eq!(of.map(format_fraction), expected);
    }

    proptest! {
        /// Groups of a few steps: some have the same slot, and some are too large to be kept.
        #[test]
        fn rows_that_come_again_are_those_that_are_made_anew(
            parts in proptest::collection::vec(proptest::collection::vec((
                prop_oneof![0..3_u64, Just(MAX_CACHED_GROUPS)],
                prop_oneof![
                    9 => proptest::collection::vec(0..3_u64, 0..4),
                    1 => proptest::collection::vec(0..3_u64, MAX_CACHED_GROUP_WORDS - 1..MAX_CACHED_GROUP_WORDS + 1),
                ],
                proptest::option::of(0..9_u64),
            ), 0..20), 0..6),
            jobs in 1..4_usize,
        ) {
            let name = |group: u64| format!("\"a\",{group}").into_bytes();
            let sheet = Sheet {
                columns: ["step", "name", "n", "share"].map(str::to_owned).into(),
                parts: (0..parts.len()).map(|at| at..at + 1).collect(),
                rows: Box::new(|part, sink: &mut dyn RowGroupSink| {
                    for (group, words, step) in &parts[part.start] {
                        let made_of = [&[*group][..], words].concat();
                        sink.group(&[(*step).into()], &made_of, &mut |out| {
                            for (at, &n) in words.iter().enumerate() {
                                let share = TableCell::share_of(at as f64, n as f64);
                                out(&[name(*group).into(), n.into(), share]);
                            }
                        });
                    }
                }),
            };
            // A grid does not know what its rows are made of.
            let anew = Sheet::from(sheet.to_grid());
            let (mut got, mut want) = (Vec::new(), Vec::new());
            sheet.write_csv(jobs, &mut got).unwrap();
            anew.write_csv(1, &mut want).unwrap();
            sheet.write_jsonl(jobs, &mut got).unwrap();
            anew.write_jsonl(1, &mut want).unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&want));
        }
    }
}
