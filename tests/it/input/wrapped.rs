//! What stands around a line changes no row of any program: each wrapping against the bare log.

use crate::support::{Csv, Out, Proc, Work, feed, gzip, nemo, procs, run_in};
use std::fmt::Write as _;

/// The programs and what of them is compared.
const PROGRAMS: [&[&str]; 14] = [
    &["nccl-comms"],
    &["nccl-hist", "--by", "step,rank,comm_id"],
    &["nccl-ops"],
    &["nccl-agg"],
    &["nccl-steps", "--list"],
    &["nccl-timing", "--per-step"],
    &["nccl-communicators", "--format", "csv"],
    &["nccl-communicators", "--members", "--format", "csv"],
    &["nccl-net", "--format", "csv"],
    &["nccl-net", "--pairs", "--format", "csv"],
    &["nccl-tuning", "--format", "csv"],
    &["nccl-check", "--format", "csv"],
    &["nccl-check", "--coverage", "--format", "csv"],
    &[
        "nccl-check",
        "--expect",
        "net=ib,gdr=on,nodes=2,versions=1,mismatch=0",
        "--format",
        "csv",
    ],
];

/// Columns whose values are where a line stands and what it is.
const PLACES: [&str; 4] = ["line", "text", "first_line", "last_line"];

/// What a program says of a log: its rows without `left_out`, its words and its code.
fn said(program: &[&str], log: &[u8], left_out: &[&str]) -> String {
    let work = Work::new();
    work.file("log", log);
    let args = [&program[1..], &["-v", "log"]].concat();
    let out = run_in(work.dir(), program[0], &args);
    assert!(!out.stderr.contains("panicked"), "{}", out.stderr);
    let table = Csv::of(&out);
    let kept: Vec<&str> = table
        .columns
        .iter()
        .map(String::as_str)
        .filter(|column| !left_out.contains(column))
        .collect();
    let rows: Vec<Vec<&str>> = table
        .rows
        .iter()
        .map(|row| kept.iter().map(|column| table.get(row, column)).collect())
        .collect();
    let words = if left_out.len() > 1 {
        String::new()
    } else {
        out.stderr
    };
    format!("{:?} {rows:#?} {words}", out.code)
}

fn call(rank: &Proc, step: u64) -> String {
    let line = rank.call("AllReduce", 64 + step, 7);
    line.replace("opCount 2c", &format!("opCount {step:x}"))
}

/// A log with a line of each family: two hosts, four ranks, a hang at the end.
fn log() -> Vec<String> {
    let ranks: Vec<Proc> = (0..4)
        .map(|r| Proc {
            host: ["gpu-a", "ip-10-0-3-7"][r as usize / 2],
            nranks: 4,
            ..procs(4)[r as usize]
        })
        .collect();
    let mut lines = vec![
        "+ python train.py --name \"a & b\" <x> 'y'".to_owned(),
        "NCCL version 2.28.9+cuda13.0".to_owned(),
    ];
    for (r, rank) in ranks.iter().enumerate() {
        let (head, comm) = (rank.head(), rank.comm);
        let start = format!(
            "[Rank {r}] ncclCommInitRankConfig comm {comm:#x} rank {r} nranks 4 cudaDev {r} \
             nvmlDev {r} busId 1b000 commId 0x9f2c81 - Init START"
        );
        let layout = format!(
            "comm {comm:#x} rank {r} nRanks 4 nNodes 2 localRanks 2 localRank {} MNNVL 0",
            r % 2
        );
        let next = (r + 1) % 4;
        let via = if r % 2 == 0 {
            "P2P/CUMEM"
        } else {
            "NET/IB/0/GDRDMA"
        };
        let side = if r % 2 == 0 { "" } else { " [send]" };
        let connection = format!("Channel 00/0 : {r}[{r}] -> {next}[{next}]{side} via {via}");
        for body in [
            "NCCL version 2.28.9+cuda13.0",
            "Bootstrap: Using eth0:10.0.0.1<0>",
            "NCCL_IB_DISABLE set by environment to 0.",
            "NCCL_IB_HCA set by environment to \"mlx5_0\"",
            "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "Using network IB",
            &start,
            &layout,
            "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1",
            &connection,
            "Connected all rings, use ring PXN 0 GDR 1",
        ] {
            lines.push(format!("{head}{body}"));
        }
        lines.push(rank.init(r as u32, 0x9f_2c81));
    }
    for step in 0..3 {
        for (r, rank) in ranks.iter().enumerate() {
            lines.push(call(rank, step));
            if r == 0 {
                lines.push(format!(
                    "{}AllReduce: 256 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..1}}",
                    rank.head()
                ));
            }
        }
        lines.push(nemo(step));
    }
    for (r, rank) in ranks.iter().enumerate().skip(1) {
        lines.push(call(rank, 3));
        lines.push(format!(
            "[rank{r}]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:607] [Rank {r}] Watchdog caught \
             collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=67, \
             NumelOut=67, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
        ));
    }
    for line in [
        "gpu-a:7011:7012 NCCL CALL ncclGroupStart()",
        "[2026-02-03 04:05:06] gpu-a:7011:7012 [1] transport/net_ib.cc:789 NCCL WARN NET/IB: Got \
         completion from peer 10.0.0.2<51161> with status=12 opcode=0 len=0 vendor err 129 (Send)",
        "gpu-a:7011:7012 [1] NCCL INFO transport/net.cc:1302 -> 6",
        "Traceback (most recent call last): \\ \"NCCL error\"",
    ] {
        lines.push(line.to_owned());
    }
    lines
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

type Wrap = (&'static str, fn(&str) -> String);

const WRAPS: [Wrap; 17] = [
    ("a notebook", |l| {
        format!("      {},", json(&format!("{l}\n")))
    }),
    ("Docker", |l| {
        let log = json(&format!("{l}\n")).replace('<', "\\u003c");
        format!(
            "{{\"log\":{},\"stream\":\"stderr\",\"time\":\"2026-02-03T04:05:06.1Z\"}}",
            log.replace('>', "\\u003e")
        )
    }),
    ("CloudWatch", |l| {
        format!(
            "{{\"timestamp\": 1745850000123, \"message\": {}, \"n\": null}}",
            json(l)
        )
    }),
    ("a pretty record", |l| {
        format!("    \"textPayload\": {},", json(l))
    }),
    ("a record in a record", |l| {
        let inner = format!("{{\"message\": {}}}", json(l));
        format!(
            "{{\"kubernetes\":{{\"pod\":\"x\"}},\"log\":{}}}",
            json(&format!("{inner}\n"))
        )
    }),
    ("colours in Docker", |l| {
        format!("{{\"log\":{}}}", json(&format!("\x1b[36;1m{l}\x1b[0m\r\n")))
    }),
    ("CSV", |l| {
        format!("1745850000123,\"{}\",stdout", l.replace('"', "\"\""))
    }),
    ("HTML", html),
    ("colours", |l| format!("\x1b[36;1m{l}\x1b[0m")),
    ("a colour within", |l| {
        l.replace("NCCL", "\x1b[32mNCCL\x1b[0m")
    }),
    ("a reset", |l| format!("{l}\x1b[0m")),
    ("a title", |l| format!("\x1b]0;job\x07{l}\x1b[K")),
    ("cat -v", |l| format!("^[[36m{l}^[[0m")),
    ("rsyslog", |l| format!("#033[36m{l}#033[0m")),
    ("backticks", |l| format!("`{l}`")),
    ("a byte order mark", |l| format!("\u{feff}{l}")),
    ("returns", |l| format!("{l}\r")),
];

/// What launchers put in front of each line.
const LABELS: [&str; 4] = [
    "",
    " 0: ",
    "[1,26]<stdout>:",
    "\x1b[36m(Worker pid=5, ip=10.0.0.2)\x1b[0m ",
];

fn text(lines: &[String], wrap: impl Fn(&str) -> String) -> Vec<u8> {
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{}", wrap(line)).unwrap();
    }
    text.into_bytes()
}

#[test]
fn every_program_gives_the_rows_of_the_bare_log() {
    let lines = log();
    for label in LABELS {
        let labelled: Vec<String> = lines.iter().map(|line| format!("{label}{line}")).collect();
        let bare = text(&labelled, str::to_owned);
        // Behind a label the wrappings are others' work: one of each kind is enough.
        let step = if label.is_empty() { 1 } else { 5 };
        for program in PROGRAMS {
            let expected = said(program, &bare, &["text"]);
            for (name, wrap) in WRAPS.iter().step_by(step) {
                let got = said(program, &text(&labelled, wrap), &["text"]);
                assert!(
                    got == expected,
                    "{program:?} {name} {label:?}:\n{got}\n{expected}"
                );
            }
        }
    }
}

#[test]
fn the_bare_log_says_what_it_should() {
    let bare = text(&log(), str::to_owned);
    let net = said(&["nccl-net", "--format", "csv"], &bare, &[]);
    for words in ["mlx5_0:1/RoCE", "\"mlx5_0\"", "NET/IB GDRDMA", "2.28.9"] {
        assert!(net.contains(&words.replace('"', "\\\"")), "{words}: {net}");
    }
    let check = said(&["nccl-check", "--format", "csv"], &bare, &[]);
    assert!(
        check.contains("watchdog") && check.contains("rank_behind"),
        "{check}"
    );
}

/// All lines in one of the file.
/// A name, and how lines are put into one.
type InOne = (&'static str, fn(&[String]) -> String);

const IN_ONE: [InOne; 3] = [
    ("a list", |lines| {
        let all: Vec<String> = lines.iter().map(|l| format!("{l}\n")).collect();
        serde_json::to_string(&all).unwrap()
    }),
    ("records", |lines| {
        let all: Vec<String> = lines
            .iter()
            .map(|l| format!("{{\"ts\":1,\"message\":{}}}", json(l)))
            .collect();
        format!("{{\"events\":[{}]}}", all.join(","))
    }),
    ("a string", |lines| json(&lines.join("\n"))),
];

#[test]
fn a_line_of_the_file_may_hold_all_lines_of_the_log() {
    let lines = log();
    let bare = text(&lines, str::to_owned);
    for (name, wrap) in IN_ONE {
        let one = format!("{}\n", wrap(&lines)).into_bytes();
        for program in PROGRAMS {
            // Which findings share a line is another matter there.
            if program[0] == "nccl-check" && program.len() == 3 {
                continue;
            }
            let expected = said(program, &bare, &PLACES);
            let got = said(program, &one, &PLACES);
            assert!(got == expected, "{program:?} {name}:\n{got}\n{expected}");
        }
        // Cut where a step ends, each part gives its own calls.
        for steps in ["0..0", "1..1", "1..2"] {
            let window = ["--steps", steps];
            let whole = feed("nccl-hist", &window, one.clone()).ends(0);
            let part = feed(
                "nccl-steps",
                &[&window[..], &["--keep-init"]].concat(),
                one.clone(),
            );
            let piped = feed("nccl-hist", &[], part.ends(0).stdout).ends(0);
            assert_eq!(piped.text(), whole.text(), "{name} {steps}");
            let ranks = feed(
                "nccl-steps",
                &["--steps", steps, "--keep-init"],
                one.clone(),
            );
            let ranks = Csv::of(&feed("nccl-comms", &[], ranks.ends(0).stdout).ends(0));
            assert!(
                ranks.column("comm_id").iter().all(|id| id == "0x9f2c81"),
                "{name} {steps}"
            );
        }
    }
}

#[test]
fn steps_passes_the_lines_of_the_file_as_they_stand() {
    let lines = log();
    let docker = text(&lines, WRAPS[1].1);
    let out = feed("nccl-steps", &["--steps", "1..1"], docker.clone()).ends(0);
    let from = out.text();
    assert!(String::from_utf8(docker).unwrap().contains(&from));
    assert_eq!(from.lines().count(), 6, "{from}");
    assert!(
        from.lines().all(|line| line.starts_with("{\"log\":")),
        "{from}"
    );
}

#[test]
fn a_place_of_damage_is_one_in_the_file() {
    let line = "h:1:2 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count x";
    let docker = format!("{{\"log\":{}}}\n", json(&format!("{line}\n")));
    let out = feed("nccl-comms", &["-v"], docker.clone()).ends(1);
    let column = docker.find("x\\n").unwrap() + 1;
    let place = format!("stdin:1:{column}: damaged: expected a decimal number, found `x\\n");
    out.says(&[&place]);
}

#[test]
fn a_step_line_in_a_record_of_the_trainers_own_is_found() {
    let rank = procs(1)[0];
    // A pattern that is written for the line as it stands in the file.
    let own = (1..4).map(|step| {
        let record = format!("{{\"step\": {step}, \"message\": \"loss 1\\n\"}}");
        format!("{}\n{record}\n", rank.call("AllReduce", step, 7))
    });
    let own: String = own.collect();
    let args = ["--list", "--step-regex", r#""step": (?P<step>\d+)"#];
    let list = Csv::of(&feed("nccl-steps", &args, own).ends(0));
    assert_eq!(list.column("step"), ["1", "2", "3"]);
    // And quotes within quotes.
    let record = |step: u64| {
        format!(
            ":::MLLOG {{\"namespace\": \"\", \"time_ms\": {step}000, \"event_type\": \
             \"POINT_IN_TIME\", \"key\": \"tracked_stats\", \"value\": {{\"train_step_time\": \
             1.5}}, \"metadata\": {{\"file\": \"a.py\", \"step\": {step}}}}}"
        )
    };
    let lines: Vec<String> = (1..4)
        .flat_map(|step| [rank.call("AllReduce", step, 7), record(step)])
        .collect();
    for (name, wrap) in WRAPS.iter().filter(|(name, _)| *name != "a colour within") {
        let list = feed("nccl-steps", &["--list"], text(&lines, wrap)).ends(0);
        let bare = feed("nccl-steps", &["--list"], text(&lines, str::to_owned)).ends(0);
        assert_eq!(list.text(), bare.text(), "{name}");
    }
}

/// UTF-16, with or without its mark, the low byte first or last.
fn utf16(text: &[u8], mark: bool, big: bool) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let mark = mark.then_some(0xfeff);
    let of = |unit: u16| {
        if big {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        }
    };
    mark.into_iter()
        .chain(text.encode_utf16())
        .flat_map(of)
        .collect()
}

#[test]
fn utf_16_is_read_as_utf_8_however_it_comes() {
    let mut lines = log();
    lines.insert(0, "loss \u{2588}\u{1f600}".to_owned());
    lines.insert(0, "a first line of some length".to_owned());
    let bare = text(&lines, |line| format!("{line}\r"));
    let work = Work::new();
    let same = |program: &str, got: Out, expected: &Out| {
        let rows = got.text().replace("log.gz", "log");
        assert!(
            rows == expected.text() && got.code == expected.code,
            "{program}: {rows}"
        );
        let said = got.stderr.contains("note: ") && got.stderr.contains("UTF-16");
        assert!(said, "{}", got.stderr);
    };
    for (mark, big) in [(true, false), (true, true), (false, false), (false, true)] {
        let bytes = utf16(&bare, mark, big);
        for program in PROGRAMS {
            let (name, args) = (program[0], &program[1..]);
            same(
                name,
                feed(name, args, bytes.clone()),
                &feed(name, args, bare.clone()),
            );
            let args = |path: &'static str| [args, &[path]].concat();
            work.file("log", &bare);
            let expected = run_in(work.dir(), name, &args("log"));
            work.file("log", &bytes);
            work.file("log.gz", gzip(&bytes));
            for path in ["log", "log.gz"] {
                same(name, run_in(work.dir(), name, &args(path)), &expected);
            }
        }
        let read = run_in(work.dir(), "nccl-hist", &["--no-mmap", "log"]);
        same("nccl-hist", read, &feed("nccl-hist", &[], bare.clone()));
    }
    // A table that PowerShell wrote, too.
    let calls = feed("nccl-comms", &[], bare.clone());
    let table = utf16(&calls.stdout, true, false);
    same(
        "nccl-hist",
        feed("nccl-hist", &[], table),
        &feed("nccl-hist", &[], bare),
    );
}
