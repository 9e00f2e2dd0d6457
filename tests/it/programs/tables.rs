//! nccl-ops, nccl-hist and nccl-agg: their numbers by hand.

use crate::support::{Csv, feed, procs};

/// One process; `(op, count, datatype)` each, 4 ranks.
fn log(calls: &[(&str, u64, u32)]) -> String {
    let mut p = procs(4)[0];
    p.nranks = 4;
    calls
        .iter()
        .map(|(op, count, datatype)| p.call(op, *count, *datatype) + "\n")
        .collect()
}

#[test]
fn buckets_are_half_open_at_their_edges() {
    let at = [65_535, 65_536, 1_048_575, 1_048_576, 16_777_215, 16_777_216];
    let calls: Vec<_> = at.iter().map(|&n| ("AllReduce", n, 0)).collect();
    let table = Csv::of(&feed("nccl-hist", &[], log(&calls)).ends(0));
    let rows = table.pick(&["bucket", "from_bytes", "to_bytes", "calls", "total_bytes"]);
    let expect = [
        "1MB-16MB 1048576 16777216 2 17825791",
        "64KB-1MB 65536 1048576 2 1114111",
        "<64KB 0 65536 1 65535",
        ">=16MB 16777216  1 16777216",
    ];
    assert_eq!(rows, expect);
    let table = Csv::of(&feed("nccl-hist", &["--edges", "64KB,1GB"], log(&calls)).ends(0));
    assert_eq!(table.column("calls"), ["1", "5"]);
    let table = Csv::of(&feed("nccl-hist", &["--log2"], log(&calls)).ends(0));
    assert_eq!(table.sum("calls"), 6);
    for row in &table.rows {
        let from: u128 = table.get(row, "from_bytes").parse().unwrap();
        let to: u128 = table.get(row, "to_bytes").parse().unwrap();
        assert!(from.is_power_of_two() && to == from * 2, "{row:?}");
    }
}

#[test]
fn sums_beyond_64_bits_are_exact() {
    let most = u64::MAX;
    let calls = vec![("AllReduce", most, 8); 40];
    let total = u128::from(most) * 8 * 40;
    for program in ["nccl-hist", "nccl-ops", "nccl-agg"] {
        let out = feed(program, &[], log(&calls)).ends(0);
        assert_eq!(
            Csv::of(&out).column("total_bytes"),
            [total.to_string()],
            "{program}"
        );
    }
    let table = Csv::of(&feed("nccl-ops", &[], log(&calls)).ends(0));
    let one = (u128::from(most) * 8).to_string();
    assert_eq!(table.column("min_bytes"), [one.as_str()]);
    assert_eq!(table.column("max_bytes"), [one.as_str()]);
}

#[test]
fn the_basis_of_bytes_is_as_named() {
    let calls = [
        ("AllReduce", 1000, 7),
        ("AllGather", 1000, 7),
        ("ReduceScatter", 1000, 7),
        ("Broadcast", 1000, 7),
        ("Send", 1000, 7),
        ("AlltoAll", 1000, 7),
    ];
    let total = |basis: &str| {
        let out = feed("nccl-ops", &["--basis", basis], log(&calls)).ends(0);
        Csv::of(&out).pick(&["op", "total_bytes"])
    };
    let of = |list: [u32; 6]| {
        let names = [
            "AllGather",
            "AllReduce",
            "AlltoAll",
            "Broadcast",
            "ReduceScatter",
            "Send",
        ];
        let rows = names.iter().zip(list).map(|(n, b)| format!("{n} {b}"));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(total("api"), of([4000; 6]));
    assert_eq!(
        total("message"),
        of([16000, 4000, 16000, 4000, 16000, 4000])
    );
    assert_eq!(total("wire"), of([12000, 6000, 12000, 4000, 12000, 4000]));
}

#[test]
fn statistics_are_exact_where_they_say_so() {
    let calls: Vec<_> = (1..=100).map(|n| ("AllReduce", n * 1000, 0)).collect();
    let table = Csv::of(&feed("nccl-ops", &[], log(&calls)).ends(0));
    let row = &table.rows[0];
    for (column, value) in [
        ("calls", "100"),
        ("min_bytes", "1000"),
        ("mean_bytes", "50500"),
        ("max_bytes", "100000"),
        ("total_bytes", "5050000"),
    ] {
        assert_eq!(table.get(row, column), value, "{column}");
    }
    for (column, value) in [
        ("p50_bytes", 50e3),
        ("p95_bytes", 95e3),
        ("p99_bytes", 99e3),
    ] {
        let got: f64 = table.get(row, column).parse().unwrap();
        assert!((got - value).abs() <= value * 0.01, "{column}: {got}");
    }
}

#[test]
fn an_unknown_datatype_counts_its_calls_and_no_bytes() {
    let calls = [("AllReduce", 8, 7), ("AllReduce", 8, 12), ("Send", 1, 99)];
    for program in ["nccl-hist", "nccl-ops", "nccl-agg"] {
        let out = feed(program, &[], log(&calls)).ends(1);
        let table = Csv::of(&out);
        assert_eq!(table.sum("calls"), 3, "{program}");
        assert_eq!(table.sum("total_bytes"), 32, "{program}");
        out.says(&["datatype 12", "datatype 99"]);
    }
    let out = feed("nccl-agg", &[], log(&calls)).ends(1);
    assert_eq!(
        Csv::of(&out).column("datatype"),
        ["fp32", "type<12>", "type<99>"]
    );
}

#[test]
fn shares_of_a_group_add_up_to_one() {
    let calls = [
        ("AllReduce", 8, 7),
        ("AllGather", 1 << 24, 7),
        ("Send", 1 << 18, 9),
    ];
    let args = ["--by", "datatype"];
    let table = Csv::of(&feed("nccl-hist", &args, log(&calls)).ends(0));
    for datatype in ["fp32", "bf16"] {
        for column in ["share_calls", "share_bytes"] {
            let sum: f64 = table
                .rows
                .iter()
                .filter(|r| table.get(r, "datatype") == datatype)
                .map(|r| table.get(r, column).parse::<f64>().unwrap())
                .sum();
            assert!((sum - 1.0).abs() < 1e-8, "{datatype} {column}: {sum}");
        }
    }
    assert_eq!(table.columns[0], "datatype");
}

#[test]
fn calls_per_gpu_count_the_gpus_that_made_them() {
    let p = procs(4);
    let mut log = String::new();
    for (i, p) in p.iter().enumerate() {
        for _ in 0..=i {
            log.push_str(&(p.call("AllReduce", 8, 7) + "\n"));
        }
    }
    let table = Csv::of(&feed("nccl-hist", &[], log).ends(0));
    assert_eq!(
        table.pick(&["calls", "gpus", "calls_per_gpu"]),
        ["10 4 2.5"]
    );
}

#[test]
fn ops_reports_how_long_calls_took() {
    let head = "step,op,count,datatype,calls,src,dur_ns,clock\n";
    let time = |rows: &str, more: &[&str]| {
        let options = [&["--time"], more].concat();
        feed("nccl-ops", &options, format!("{head}{rows}"))
    };
    let rows = "1,Send,5,int8,1,profiler,1500,gpu\n1,Send,9,int8,1,profiler,2500,gpu\n\
                2,Send,5,int8,1,profiler,8000,gpu\n2,Send,5,int8,4,profiler,9,gpu\n\
                2,Recv,5,int8,1,profiler,,gpu\n";
    let out = time(rows, &[]).ends(0);
    assert_eq!(
        out.text(),
        "op,calls,total_us,mean_us,p50_us,p95_us,p99_us,max_us,algbw_gbs,busbw_gbs,min_us\n\
         Recv,0,,,,,,,,,\nSend,3,12,4,2.5,8,8,8,0.00158333333,0.00158333333,1.5\n"
    );
    let note = "5 of 8 calls have no duration";
    assert!(out.stderr.contains(note), "{}", out.stderr);
    let by_step = time(rows, &["--by", "step", "--steps", "1..2"])
        .ends(0)
        .text();
    assert_eq!(
        by_step.lines().skip(1).collect::<Vec<_>>(),
        [
            "1,Send,2,4,2,1.5,2.5,2.5,2.5,0.0035,0.0035,1.5",
            "2,Recv,0,,,,,,,,,",
            "2,Send,1,8,8,8,8,8,8,0.000625,0.000625,8"
        ]
    );
    assert_eq!(
        time(rows, &["--steps", "2"]).ends(0).text().lines().nth(2),
        Some("Send,1,8,8,8,8,8,8,0.000625,0.000625,8")
    );
    let other = format!("{rows}2,Send,5,int8,1,inspector,7,cpu\n");
    for (rows, says) in [
        (&*other, "durations of different sources must not be added"),
        (
            "1,Send,5,int8,1,log,,\n",
            "no call has a duration of its own",
        ),
    ] {
        let out = time(rows, &[]).ends(2);
        assert!(out.stderr.contains(says), "{}", out.stderr);
    }
    // Two clocks of one source have rows of their own.
    let two = format!("{rows}2,Send,5,int8,1,profiler,7,plugin\n");
    let note = "the durations are of different kinds, each with rows of its own: 3 are unknown (clock gpu), 1 are";
    let out = time(&two, &[]).ends(0);
    assert!(out.stderr.contains(note), "{}", out.stderr);
    let text = out.text();
    let mut sends = text.lines().filter(|row| row.starts_with("Send,"));
    let plugin = "Send,plugin,,1,0.007,0.007,0.007,0.007,0.007,0.007,0.714285714,0.714285714,0.007";
    assert!(
        sends.clone().count() == 2 && sends.next_back() == Some(plugin),
        "{text}"
    );
    let awk = time(rows, &["--format", "awk"]).ends(2);
    assert!(
        awk.stderr
            .contains("the AWK chain has no table of durations"),
        "{}",
        awk.stderr
    );
}
