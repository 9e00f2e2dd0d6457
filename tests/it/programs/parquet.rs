//! The call table as a Parquet file: its rows are those of the CSV, whatever they come from.

use crate::support::{Csv, Work, arg, captured, root, run, run_in, sh};
use nccl_pipe::grammar::stamp::parse_stamp;
use nccl_pipe::output::table::COLUMNS;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::printer::print_schema;
use std::fs::File;
use std::path::Path;

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

/// The rows of a file as text; a time is its µs since 1970.
fn read_rows(path: &Path) -> Vec<Vec<String>> {
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Int(number) => number.to_string(),
        Field::Long(number) | Field::TimestampMicros(number) => number.to_string(),
        Field::Str(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let file = open(path);
    let rows = file.get_row_iter(None).unwrap();
    let rows = rows.map(|row| {
        let row = row.unwrap();
        row.get_column_iter()
            .map(|(_, field)| text(field))
            .collect()
    });
    rows.collect()
}

/// The rows of a CSV with the same times.
fn read_csv(text: &[u8]) -> Vec<Vec<String>> {
    let table = Csv::read(text);
    assert_eq!(table.columns, COLUMNS);
    let micros = |row: Vec<String>| {
        let stamp = parse_stamp(row[1].as_bytes());
        let time = stamp.map_or(String::new(), |stamp| stamp.ns.div_euclid(1000).to_string());
        let mut row = row;
        row[1] = time;
        row
    };
    table.rows.into_iter().map(micros).collect()
}

#[test]
fn every_row_is_that_of_the_csv() {
    let work = Work::new();
    let path = work.dir().join("calls.parquet");
    let times = "testdata/captured/ddp-inspector-2.28";
    for args in [
        "testdata/captured/megatron/nccl.log",
        "testdata/captured/megatron/nccl.log --unique",
        "testdata/captured/megatron/nccl.log --steps 12 --rank 3",
        "testdata/captured/fsdp/nccl.log.gz --order step",
        "testdata/captured/tp-stamps/nccl.log.gz",
        "testdata/captured/tp-files",
        "testdata/captured/ddp-all/nccl.log.gz --tuning",
        "testdata/captured/ddp-all/nccl.log.gz --tuning --unique",
        &format!("{times}/nccl.vm.3178.log.gz --times {times}/vm-pid3178.log.gz"),
        "testdata/nsys/ring.sqlite.gz",
        "testdata/captured/ddp-profiler",
        "testdata/kineto",
        "testdata/flight/nccl_trace_rank_0.gz",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let csv = run_in(root(), "nccl-comms", &args);
        let output = [&args[..], &["-o", arg(&path)]].concat();
        let file = run_in(root(), "nccl-comms", &output);
        assert_eq!((file.code, file.stdout), (csv.code, Vec::new()), "{args:?}");
        let rows = read_csv(&csv.stdout);
        assert!(!rows.is_empty(), "{args:?}");
        assert_eq!(read_rows(&path), rows, "{args:?}");
        // The same bytes go into a pipe.
        let piped = run_in(
            root(),
            "nccl-comms",
            &[&args[..], &["-f", "parquet"]].concat(),
        );
        assert!(piped.stdout == std::fs::read(&path).unwrap(), "{args:?}");
    }
}

#[test]
fn pipes_and_tables_give_the_same_rows() {
    let work = Work::new();
    let log = captured("tp-stamps").join("nccl.log.gz");
    let rows = read_csv(&run("nccl-comms", &["-q", arg(&log)]).ends(0).stdout);
    let script = format!("gzip -dc {} > nccl.log", arg(&log));
    sh(work.dir(), &script).ends(0);
    for command in [
        "cat nccl.log | nccl-comms -q -o calls.parquet",
        "cat nccl.log | nccl-comms -q -f parquet > calls.parquet",
        "nccl-comms -q nccl.log | nccl-comms -q -o calls.parquet",
        "nccl-comms -q nccl.log > calls.csv && nccl-comms -q calls.csv -o calls.parquet",
        "nccl-comms -q -f jsonl nccl.log | nccl-comms -q -o CALLS.PARQUET && mv CALLS.PARQUET calls.parquet",
    ] {
        sh(work.dir(), command).ends(0);
        let path = work.dir().join("calls.parquet");
        assert_eq!(read_rows(&path), rows, "{command}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_schema_is_the_committed_one() {
    let work = Work::new();
    let log = captured("megatron").join("nccl.log");
    let path = work.dir().join("calls.parquet");
    run("nccl-comms", &["-q", arg(&log), "-o", arg(&path)]).ends(0);
    let file = open(&path);
    let facts = file.metadata().file_metadata();
    let mut schema = Vec::new();
    print_schema(&mut schema, facts.schema());
    let kept = root().join("testdata/expect/calls.schema");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&kept, &schema).unwrap();
    }
    assert_eq!(
        String::from_utf8(schema).unwrap(),
        std::fs::read_to_string(kept).unwrap()
    );
    let version = facts.key_value_metadata().unwrap();
    assert_eq!(version[0].key, "nccl.schema");
    assert_eq!(version[0].value.as_deref(), Some("1"));
    // A reader leaves out groups by the least and greatest value of each column.
    let group = file.metadata().row_group(0);
    for column in group.columns() {
        let name = column.column_path().string();
        let statistics = column.statistics().unwrap();
        let nulls = statistics.null_count_opt().unwrap();
        let is_known = nulls < group.num_rows() as u64;
        assert_eq!(statistics.min_bytes_opt().is_some(), is_known, "{name}");
        assert_eq!(statistics.max_bytes_opt().is_some(), is_known, "{name}");
    }
}

/// Calls and bytes by operation.
fn sums(path: &Path) -> Vec<String> {
    let at = |name: &str| COLUMNS.iter().position(|column| *column == name).unwrap();
    let mut sums = std::collections::BTreeMap::<String, [u128; 2]>::new();
    for row in read_rows(path) {
        let number = |name: &str| row[at(name)].parse::<u128>().unwrap();
        let sum = sums.entry(row[at("op")].clone()).or_default();
        sum[0] += number("calls");
        sum[1] += number("calls") * number("bytes");
    }
    let line = |(op, [calls, bytes]): (&String, &[u128; 2])| format!("{op} {calls} {bytes}");
    sums.iter().map(line).collect()
}

#[test]
fn a_job_of_rank_files_has_the_sums_of_nccl_ops_in_four_bytes_a_call() {
    let work = Work::new();
    let job = "--ranks 64 --nodes 8 --tp 8 --pp 4 --layers 4 --steps 20 --net ib --timestamps iso \
               --layout per-rank -o ranks";
    let job: Vec<&str> = job.split_whitespace().collect();
    run_in(work.dir(), "nccl-synth", &job).ends(0);
    let path = work.dir().join("calls.parquet");
    for more in [&[][..], &["--unique"]] {
        let args = [&["-q", "ranks", "-o", "calls.parquet"], more].concat();
        run_in(work.dir(), "nccl-comms", &args).ends(0);
        let ops = Csv::of(&run_in(work.dir(), "nccl-ops", &["-q", "ranks"]).ends(0));
        assert_eq!(sums(&path), ops.pick(&["op", "calls", "total_bytes"]));
        let rows = open(&path).metadata().file_metadata().num_rows();
        let bytes = path.metadata().unwrap().len();
        let most = if more.is_empty() { 4 } else { 16 };
        assert!(
            bytes <= most * rows.unsigned_abs(),
            "{bytes} bytes for {rows} rows {more:?}"
        );
    }
}

#[test]
fn what_a_column_does_not_hold_is_null_and_counted() {
    let work = Work::new();
    let table = "op,count,datatype,time,dev\n\
                 AllReduce,18446744073709551615,fp32,yesterday,4294967295\n\
                 AllReduce,9223372036854775807,int8,2026-04-28 14:14:49.123456789,7\n\
                 Send,1,,14:14:49,\n";
    work.file("calls.csv", table);
    run_in(work.dir(), "nccl-comms", &["calls.csv", "-o", "x.parquet"])
        .ends(0)
        .says(&[
            "warning: time is null for 1 call: the time stamp is not a date and time of day",
            "warning: 3 numbers too large for Parquet's integers: the fields are null",
        ]);
    let rows = read_rows(&work.dir().join("x.parquet"));
    let at = |name: &str| COLUMNS.iter().position(|column| *column == name).unwrap();
    let of =
        |row: &Vec<String>| ["time", "count", "bytes", "dev"].map(|name| row[at(name)].clone());
    let rows: Vec<String> = rows.iter().map(|row| of(row).join(" ")).collect();
    assert_eq!(
        rows,
        [
            "   ",
            "1777385689123456 9223372036854775807 9223372036854775807 7",
            "51289000000 1  ",
        ]
    );
}

#[test]
fn what_is_no_rows_of_columns_is_refused() {
    let work = Work::new();
    let log = captured("megatron").join("nccl.log");
    for (options, says) in [
        ("--label a=b", "--label and --no-header are for rows"),
        ("--no-header", "--label and --no-header are for rows"),
        (
            "-f csv",
            "-o x.parquet and --format csv name different formats",
        ),
        (
            "-f chrome",
            "-o x.parquet and --format chrome name different",
        ),
        ("--steps 99..100", "step 99"),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        let args = [&["-q", arg(&log), "-o", "x.parquet"], &options[..]].concat();
        run_in(work.dir(), "nccl-comms", &args)
            .ends(2)
            .says(&[says]);
        assert!(!work.dir().join("x.parquet").exists());
    }
    // Without rows it is a file with all columns.
    let none = [arg(&log), "--op", "AlltoAll", "-o", "x.parquet"];
    run_in(work.dir(), "nccl-comms", &none).ends(0);
    let path = work.dir().join("x.parquet");
    assert_eq!(read_rows(&path), Vec::<Vec<String>>::new());
    let columns = open(&path)
        .metadata()
        .file_metadata()
        .schema_descr()
        .num_columns();
    assert_eq!(columns, COLUMNS.len());
}
