//! Tables of nccl-tests, made of its lines in their order.

use super::fold::BenchmarkPartial;
use super::limits::{MAX_BENCHMARK_LINES, MAX_VALUE_LINES, MIN_LOOSE_ROWS};
use crate::grammar::nccl_tests::{
    BenchmarkLine, BenchmarkSetup, BenchmarkValues, TableColumns, TableRow, parse_benchmark_line,
};

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchmarkRow {
    /// Its line in the input, from 0.
    pub(crate) line: u64,
    /// Bytes, by nccl-tests' own measure.
    pub(crate) size: u64,
    /// `float`.
    pub(crate) datatype: Box<[u8]>,
    /// `sum`; empty where the table has no such column.
    pub(crate) redop: Box<[u8]>,
    /// The root; `None` where the table has no such column or the operation has no root.
    pub(crate) root: Option<i64>,
    /// Out of place and in place.
    pub(crate) values: [Option<BenchmarkValues>; 2],
}

/// The program's verdict on a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BenchmarkVerdict<T> {
    /// The number that is judged.
    pub(crate) value: T,
    /// The program calls it a failure.
    pub(crate) failed: bool,
    /// Its line in the input, from 0.
    pub(crate) line: u64,
}

/// What a run of nccl-tests prints before its table.
#[derive(Debug, Clone, Default, PartialEq)]
struct BenchmarkStart {
    program: Option<Box<[u8]>>,
    setup: Option<BenchmarkSetup>,
    /// The number of ranks, from the list of devices.
    ranks: u64,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchmarkTable {
    /// The line of its header in the input, from 0.
    pub(crate) line: u64,
    /// The operation, `all_reduce`, if a line names it.
    pub(crate) program: Option<Box<[u8]>>,
    /// Its first and last size, if a line has them.
    pub(crate) setup: Option<BenchmarkSetup>,
    /// The number of ranks; 0 if it is unknown.
    pub(crate) ranks: u64,
    /// The rows, in order; the last may be unfinished.
    pub(crate) rows: Vec<BenchmarkRow>,
    /// The size and the line of a row that has begun and has no values.
    pub(crate) begun: Option<(u64, u64)>,
    /// The number of values out of bounds.
    pub(crate) out_of_bounds: Option<BenchmarkVerdict<u64>>,
    /// The mean bus bandwidth in GB/s.
    pub(crate) average: Option<BenchmarkVerdict<f64>>,
    /// The program reports that it failed.
    pub(crate) failed: bool,
    /// Later lines were not kept.
    pub(crate) is_cut: bool,
    /// The text begins after its header: the columns are those that the rows show.
    pub(crate) lacks_header: bool,
}

impl BenchmarkTable {
    /// True if the program printed what comes after the last row, or if that is not known.
    pub(crate) fn has_ended(&self) -> bool {
        let has_verdict = self.out_of_bounds.is_some() || self.average.is_some() || self.failed;
        has_verdict || self.is_cut || self.lacks_header
    }
}

/// The tables of an input so far.
#[derive(Debug, Default)]
pub(crate) struct BenchmarkTables {
    tables: Vec<BenchmarkTable>,
    next: BenchmarkStart,
    /// A table belongs to `next` already: what comes is of another run.
    is_used: bool,
    columns: Option<TableColumns>,
    /// The beginning of a row that lacks values.
    open: Option<OpenRow>,
    lines: usize,
    /// The last rows without a header before them.
    loose: Vec<(u64, Box<[u8]>)>,
}

/// A row that lacks values.
#[derive(Debug)]
struct OpenRow {
    /// Its beginning.
    text: Box<[u8]>,
    /// Its line.
    number: u64,
    /// Lines with values since.
    values: Vec<Box<[u8]>>,
}

impl BenchmarkTables {
    /// Adds a chunk that begins at line `from` of the input.
    pub(crate) fn add_chunk(&mut self, part: BenchmarkPartial, from: u64) {
        for (number, line) in part.lines {
            self.take_line(&line, from + number);
        }
    }

    /// Returns the tables.
    pub(crate) fn finish(mut self) -> Vec<BenchmarkTable> {
        self.end_row();
        if let Some(last) = self.tables.last_mut() {
            last.is_cut = self.lines >= MAX_BENCHMARK_LINES;
        }
        self.tables
    }

    fn take_line(&mut self, line: &[u8], number: u64) {
        let Some(what) = parse_benchmark_line(line) else {
            return;
        };
        if matches!(what, BenchmarkLine::Values) {
            return self.take_values(line);
        }
        self.end_row();
        if self.lines >= MAX_BENCHMARK_LINES {
            return;
        }
        self.lines += 1;
        match what {
            BenchmarkLine::Program(name) => self.start_run().program = Some(name.into()),
            BenchmarkLine::Setup(setup) => {
                // The program's name comes before.
                let start = self.start_run();
                start.setup = Some(setup);
                start.ranks = 0;
            }
            BenchmarkLine::Device(rank) => {
                let start = self.start_run();
                start.ranks = start.ranks.max(rank.saturating_add(1));
            }
            BenchmarkLine::Columns(columns) => self.begin_table(columns, number),
            BenchmarkLine::Row => self.begin_row(line, number),
            BenchmarkLine::Values => {}
            BenchmarkLine::OutOfBounds { count, failed } => {
                if let Some(table) = self.tables.last_mut() {
                    table.out_of_bounds = Some(BenchmarkVerdict {
                        value: count,
                        failed,
                        line: number,
                    });
                }
                self.columns = None;
            }
            BenchmarkLine::AverageBandwidth { gb_per_s, failed } => {
                if let Some(table) = self.tables.last_mut() {
                    table.average = Some(BenchmarkVerdict {
                        value: gb_per_s,
                        failed,
                        line: number,
                    });
                }
                self.columns = None;
            }
            BenchmarkLine::Failure => {
                if let Some(table) = self.tables.last_mut() {
                    table.failed = true;
                }
            }
        }
    }

    /// Returns the start of the run that the next table is of.
    fn start_run(&mut self) -> &mut BenchmarkStart {
        if std::mem::take(&mut self.is_used) {
            self.next = BenchmarkStart::default();
        }
        &mut self.next
    }

    fn begin_table(&mut self, columns: TableColumns, line: u64) {
        let start = self.start_run().clone();
        self.is_used = true;
        self.columns = Some(columns);
        self.tables.push(BenchmarkTable {
            line,
            program: start.program,
            setup: start.setup,
            ranks: start.ranks,
            rows: Vec::new(),
            begun: None,
            out_of_bounds: None,
            average: None,
            failed: false,
            is_cut: false,
            lacks_header: false,
        });
    }

    /// Takes a row before any header: rows of one shape are a table.
    fn take_loose_row(&mut self, line: &[u8], number: u64) {
        self.loose.push((number, line.into()));
        if self.loose.len() < MIN_LOOSE_ROWS {
            return;
        }
        let lines: Vec<&[u8]> = self.loose.iter().map(|(_, line)| &**line).collect();
        let Some(columns) = TableColumns::guess_columns(&lines) else {
            self.loose.remove(0);
            return;
        };
        let loose = std::mem::take(&mut self.loose);
        self.begin_table(columns, loose[0].0);
        for table in &mut self.tables {
            table.lacks_header = true;
        }
        for (number, line) in &loose {
            self.add_row(line, *number, &[]);
        }
    }

    fn begin_row(&mut self, line: &[u8], number: u64) {
        if self.columns.is_none() && self.tables.is_empty() {
            return self.take_loose_row(line, number);
        }
        let Some(row) = self.columns.as_ref().and_then(|c| c.read_row(line)) else {
            return;
        };
        if self.lacks_values(&row) {
            self.open = Some(OpenRow {
                text: line.into(),
                number,
                values: Vec::new(),
            });
        } else {
            self.add_row(line, number, &[]);
        }
    }

    fn lacks_values(&self, row: &TableRow<'_>) -> bool {
        let groups = self.columns.as_ref().map_or(0, TableColumns::group_count);
        row.values[..groups.min(2)].last() == Some(&None)
    }

    /// Takes values for the row that lacks them.
    fn take_values(&mut self, line: &[u8]) {
        let Some(OpenRow { values, .. }) = &mut self.open else {
            return;
        };
        if values.len() < MAX_VALUE_LINES {
            values.push(line.into());
        }
        // Two groups are a whole row, on one line or two.
        if self
            .read_open_row()
            .is_none_or(|row| !self.lacks_values(&row))
        {
            self.end_row();
        }
    }

    fn read_open_row(&self) -> Option<TableRow<'_>> {
        let columns = self.columns.as_ref()?;
        let open = self.open.as_ref()?;
        let mut row = columns.read_row(&open.text)?;
        for values in &open.values {
            row.add_values(columns, values);
        }
        Some(row)
    }

    /// Ends the row that lacks values: there are no more.
    fn end_row(&mut self) {
        if let Some(open) = self.open.take() {
            self.add_row(&open.text, open.number, &open.values);
        }
    }

    fn add_row(&mut self, line: &[u8], number: u64, values: &[Box<[u8]>]) {
        let (Some(columns), Some(table)) = (&self.columns, self.tables.last_mut()) else {
            return;
        };
        let Some(mut row) = columns.read_row(line) else {
            return;
        };
        for values in values {
            row.add_values(columns, values);
        }
        if row.values == [None, None] {
            table.begun = Some((row.size, number));
            return;
        }
        table.begun = None;
        table.rows.push(BenchmarkRow {
            line: number,
            size: row.size,
            datatype: row.datatype.into(),
            redop: row.redop.into(),
            root: row.root.filter(|root| *root >= 0),
            values: row.values,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::walk::LogVisitor;

    const LOG: &str = "\
# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5
#  Rank  0 Group  0 Pid    100 on         n1 device  0 [0x01] NVIDIA RTX A2000
#  Rank  1 Group  0 Pid    100 on         n1 device  1 [0x03] NVIDIA RTX A2000
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    297.3    0.00    0.00      0    298.8    0.00    0.00      0
          16             4     float     sum      -1n1:1:2 [0] NCCL INFO AllReduce: 5 Bytes
   297.3    0.00    0.00      4n1:1:2 [0] NCCL INFO AllReduce: 5 Bytes
n1:1:2 [0] NCCL INFO AllReduce: 5 Bytes
   298.8    0.00    0.00      0
    1.0 2.0 3.0 4
          32             8     float     sum      -1n1:1:2 [0] NCCL INFO AllReduce: 5 Bytes
# Out of bounds values : 1 FAILED
# Collective test starting: all_gather_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
          64             8     float    none      -1n1:1:2 [0] NCCL INFO AllReduce: 5 Bytes
";

    #[test]
    fn rows_of_one_shape_need_no_header() {
        let tables = |text: &str| {
            let mut tables = BenchmarkTables::default();
            for (line, number) in text.lines().zip(0..) {
                tables.take_line(line.as_bytes(), number);
            }
            tables.finish()
        };
        let row = |size: u64, wrong: &str| {
            format!(
                " {size} {} float sum -1 12.8 1.59 2.98 {wrong} 12.1 1.60 2.99 {wrong}\n",
                size / 4
            )
        };
        let text: String = [(8, "0"), (16, "0"), (32, "7")]
            .map(|(size, wrong)| row(size, wrong))
            .concat();
        let found = tables(&text);
        let [table] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((table.rows.len(), table.has_ended()), (3, true));
        assert_eq!(table.rows[2].values[1].unwrap().wrong, Some(7.0));
        // Old versions print the greatest error.
        let old: String = [8, 16, 32].map(|size| row(size, "2e-07")).concat();
        assert_eq!(tables(&old)[0].rows[0].values[0].unwrap().wrong, None);
        // Two rows, or rows of different shapes, may be anything.
        assert!(tables(&[row(8, "0"), row(16, "0")].concat()).is_empty());
        assert!(tables(&[row(8, "0"), row(16, "0 9"), row(32, "0")].concat()).is_empty());
    }

    /// The tables of a log that is cut into chunks of so many lines.
    fn of_chunks(lines: usize) -> Vec<BenchmarkTable> {
        let mut tables = BenchmarkTables::default();
        let all: Vec<&str> = LOG.lines().collect();
        let mut from = 0;
        for chunk in all.chunks(lines) {
            let mut part = BenchmarkPartial::default();
            for (at, line) in (0..).zip(chunk) {
                part.benchmark_line(line.as_bytes(), at);
            }
            tables.add_chunk(part, from);
            from += chunk.len() as u64;
        }
        tables.finish()
    }

    #[test]
    fn tables_do_not_depend_on_chunks() {
        let whole = of_chunks(100);
        for lines in 1..=16 {
            assert_eq!(of_chunks(lines), whole, "{lines}");
        }
        let [first, second] = &whole[..] else {
            panic!("{whole:?}");
        };
        assert_eq!(
            (first.ranks, first.rows.len(), first.begun),
            (2, 2, Some((32, 10)))
        );
        assert_eq!(first.setup.map(|setup| setup.max_bytes), Some(64));
        let wrong = first.rows[1].values.map(|v| v.and_then(|v| v.wrong));
        assert_eq!(wrong, [Some(4.0), Some(0.0)]);
        assert!(
            first
                .out_of_bounds
                .is_some_and(|v| v.failed && v.value == 1)
        );
        assert_eq!(second.program.as_deref(), Some(&b"all_gather"[..]));
        assert_eq!((second.ranks, second.begun), (0, Some((64, 14))));
        assert!(!second.has_ended());
    }
}
