use super::*;
use proptest::prelude::*;

const HEADER: &str = "#       size         count      type   redop    root     time   algbw   busbw \
     #wrong     time   algbw   busbw #wrong";
const OLD_HEADER: &str = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   \
     busbw  error";

fn columns(header: &str) -> TableColumns {
    match parse_benchmark_line(header.as_bytes()) {
        Some(BenchmarkLine::Columns(columns)) => columns,
        other => panic!("{other:?}"),
    }
}

/// The values of each group: time, bus bandwidth, wrong.
fn values(row: &TableRow<'_>) -> Vec<Option<(f64, f64, Option<f64>)>> {
    let of = |v: &BenchmarkValues| (v.time_us.unwrap(), v.busbw.unwrap(), v.wrong);
    row.values.iter().map(|v| v.as_ref().map(of)).collect()
}

#[test]
fn rows_of_all_versions_are_read_by_their_header() {
    for (header, row, want) in [
        (
            HEADER,
            "          16             4     float     sum      -1    297.3    0.00    0.01      4    298.8    0.00    0.00      4",
            [
                Some((297.3, 0.01, Some(4.0))),
                Some((298.8, 0.0, Some(4.0))),
            ],
        ),
        (
            HEADER,
            "2024-05-01T10:00:00.1Z stdout F           16             4  bfloat16    none       0    297.3    0.00    0.01      0    298.8    0.00    0.00    N/A",
            [Some((297.3, 0.01, Some(0.0))), Some((298.8, 0.0, None))],
        ),
        (
            OLD_HEADER,
            "0:           16             4   float     sum    42.86    0.00    0.00  1e-07    42.51    0.00    0.00  0e+00",
            [Some((42.86, 0.0, None)), Some((42.51, 0.0, None))],
        ),
        (
            "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
            "16 4 float sum -1 1.0e1 0.00 0.00 0 11 0.00 0.00 0",
            [Some((10.0, 0.0, Some(0.0))), Some((11.0, 0.0, Some(0.0)))],
        ),
        (
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong  #bitdiff    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong  #bitdiff    i_min    i_max    i_p99    i_cv%           timestamp",
            "          16             4     float     sum      -1    10.00    0.00    0.50       2         0     9.00    12.00    11.00     3.10    20.00    0.00    0.25       0         0    19.00    22.00    21.00     3.20  2026-05-01 10:00:00",
            [Some((10.0, 0.5, Some(2.0))), Some((20.0, 0.25, Some(0.0)))],
        ),
        (
            HEADER,
            "          16             4     float     sum      -1                                     298.8    0.00    0.20      4",
            [None, Some((298.8, 0.2, Some(4.0)))],
        ),
    ] {
        assert!(may_be_benchmark_line(header.as_bytes()) && may_be_benchmark_line(row.as_bytes()));
        assert_eq!(
            parse_benchmark_line(row.as_bytes()),
            Some(BenchmarkLine::Row)
        );
        let columns = columns(header);
        let row = columns.read_row(row.as_bytes()).unwrap();
        assert_eq!((row.size, row.count), (16, 4));
        assert_eq!(values(&row), want);
    }
}

#[test]
fn a_row_with_nccls_lines_between_is_read_in_pieces() {
    let columns = columns(HEADER);
    for (host, start, out) in [
        ("mew0:9:9", "sum      -1", "      0"),
        ("38dcf168f605:9:9", "sum      -1", "      0"),
    ] {
        let text = format!(
            "   268435456      67108864     float     {start}{host} [0] NCCL INFO AllReduce: 5 Bytes"
        );
        let mut row = columns.read_row(text.as_bytes()).unwrap();
        assert_eq!(
            (row.size, row.root, row.redop),
            (268_435_456, Some(-1), &b"sum"[..])
        );
        assert_eq!(values(&row), [None, None]);
        let text = format!("   1185.5  226.43  339.65{out}{host} [0] NCCL INFO x: 1");
        assert!(may_be_benchmark_line(text.as_bytes()));
        assert_eq!(
            parse_benchmark_line(text.as_bytes()),
            Some(BenchmarkLine::Values)
        );
        assert!(row.add_values(&columns, text.as_bytes()));
        let text = b"  1190.17  225.54  338.32      3";
        assert!(row.add_values(&columns, text));
        assert_eq!(
            values(&row),
            [
                Some((1185.5, 339.65, Some(0.0))),
                Some((1190.17, 338.32, Some(3.0)))
            ]
        );
        assert!(!row.add_values(&columns, text));
    }
    let old = self::columns(
        "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
    );
    let text = b"          64            16     float     sumoneflow-27:4:8 [5] NCCL INFO AllReduce: opCount 0";
    let row = old.read_row(text).unwrap();
    assert_eq!((row.redop, row.datatype), (&b"sum"[..], &b"float"[..]));
}

#[test]
fn tags_of_mpirun_are_removed_between_the_writes_of_a_row() {
    let columns = columns(HEADER);
    let line = b"[1,0]<stdout>:           8             2     float     sum      -1[1,0]<stdout>:    85.70    0.00    0.00      0[p-7@1,0]<stdout>:    74.97    0.00    0.00      2";
    let clean = remove_output_tags(line);
    let row = columns.read_row(&clean).unwrap();
    assert_eq!(
        values(&row),
        [Some((85.7, 0.0, Some(0.0))), Some((74.97, 0.0, Some(2.0)))]
    );
    assert_eq!(&*remove_output_tags(b"a]<stdx [b]<stderr>:c"), b"a]<stdx c");
}

#[test]
fn what_runs_and_its_verdict_are_read() {
    for (line, want) in [
        (
            "[1,0]# Collective test starting: all_reduce_perf",
            BenchmarkLine::Program(b"all_reduce"),
        ),
        (
            "mpirun -np 8 /opt/nccl-tests/build/alltoall_perf -b 8 -e 1G",
            BenchmarkLine::Program(b"alltoall"),
        ),
        (
            "0: # nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 graph: 0",
            BenchmarkLine::Setup(BenchmarkSetup {
                min_bytes: 8,
                max_bytes: 64,
            }),
        ),
        (
            "#   Rank  3 Pid 226099 on node05 device  0 [0x1a] TITAN Xp",
            BenchmarkLine::Device(3),
        ),
        (
            "# Out of bounds values : 6 FAILED",
            BenchmarkLine::OutOfBounds {
                count: 6,
                failed: true,
            },
        ),
        (
            "# Out of bounds values : 0 OK",
            BenchmarkLine::OutOfBounds {
                count: 0,
                failed: false,
            },
        ),
        (
            "# Avg bus bandwidth    : 0.0003 ",
            BenchmarkLine::AverageBandwidth {
                gb_per_s: 0.0003,
                failed: false,
            },
        ),
        (
            "n1: Test NCCL failure common.cu:958 'unhandled system error'",
            BenchmarkLine::Failure,
        ),
        (
            " .. n1 pid 7: Test failure common.cu:1080",
            BenchmarkLine::Failure,
        ),
    ] {
        assert!(may_be_benchmark_line(line.as_bytes()), "{line}");
        assert_eq!(parse_benchmark_line(line.as_bytes()), Some(want), "{line}");
    }
    for line in [
        "step 10 20 of loss 3",
        "# size of the batch: 8",
        "make: all_reduce_perf all_gather_perf -j",
        "using all_reduce_perf from /x",
        "Test failure in test_x",
        "# Rank 3 of 8",
        "1.5 2 3",
        "",
    ] {
        assert_eq!(parse_benchmark_line(line.as_bytes()), None, "{line}");
    }
}

proptest! {
    #[test]
    fn any_line_is_read_without_panic(line in "[ -~]{0,80}", bytes: Vec<u8>, cut in 0..120_usize) {
        let row = b"   268435456      67108864     float     sum      -1mew0:9:9 [0] NCCL INFO 1185.5  226.43 339.65 0";
        let spliced = [&row[..cut.min(row.len())], line.as_bytes(), &bytes].concat();
        for text in [&spliced[..], line.as_bytes(), &bytes] {
            let clean = remove_output_tags(text);
            let _ = parse_benchmark_line(&clean);
            for header in [HEADER, OLD_HEADER] {
                let columns = columns(header);
                if let Some(mut row) = columns.read_row(&clean) {
                    row.add_values(&columns, &spliced);
                    prop_assert!(row.size > 0 || row.datatype.len() < 200);
                }
            }
        }
    }
}
