//! Lines that NCCL 2.29 and later tear in two writes: which beginning an end belongs to is told by
//! the communicator that it names and by a launcher's label, never by its place alone.

use crate::support::{Account, Csv, Proc, feed, procs};

const TEAR: usize = 128;

/// A call's line in two.
fn halves(p: Proc, op: &str, count: u64) -> (String, String) {
    let line = p.call(op, count, 7);
    let (head, tail) = line.split_at(TEAR);
    (head.to_owned(), tail.to_owned())
}

/// The rows of a log: process, operation, count; and the damaged lines.
fn rows(log: &str) -> (Vec<String>, u64) {
    let out = feed("nccl-comms", &["-v"], log).calm();
    let table = Csv::of(&out);
    let of = |row: &Vec<String>| {
        let cell = |column| table.get(row, column).to_owned();
        [cell("pid"), cell("op"), cell("count")].join(" ")
    };
    (
        table.rows.iter().map(of).collect(),
        Account::of(&out).damaged,
    )
}

fn init(all: &[Proc]) -> String {
    let line = |(rank, p): (u32, &Proc)| p.init(rank, 0x9f3b) + "\n";
    (0..).zip(all).map(line).collect()
}

/// What two processes of NCCL 2.29 write, as it comes to be in the file: each line's calls in the
/// order of the lines that complete them, and the damaged lines.
#[test]
fn what_becomes_of_torn_lines() {
    let all = procs(8);
    let (a, b, c) = (all[0], all[1], all[2]);
    let whole = |p: Proc, op| p.call(op, 64, 7);
    let (wa, wb) = (whole(a, "AllReduce"), whole(b, "AllGather"));
    let (ha, ta) = wa.split_at(TEAR);
    let (hb, tb) = wb.split_at(TEAR);
    let wc = whole(c, "Broadcast");
    let (hc, tc) = wc.split_at(TEAR);
    let (early, late) = wa.split_at(TEAR - 1);
    let step = crate::support::nemo(0);
    // A name, the lines, who calls, and how many lines are damaged.
    let cases = [
        ("none is torn", format!("{wa}\n{wb}\n"), "ab", 0),
        ("a line between", format!("{ha}{wb}\n{ta}\n"), "ba", 0),
        (
            "two lines between",
            format!("{ha}{wb}\n{wc}\n{ta}\n"),
            "bca",
            0,
        ),
        (
            "an end behind the next beginning",
            format!("{ha}{hb}{ta}\n{tb}\n"),
            "ab",
            0,
        ),
        (
            "ends in the other order",
            format!("{ha}{hb}{tb}\n{ta}\n"),
            "ba",
            0,
        ),
        (
            "three at once",
            format!("{ha}{hb}{hc}{tb}\n{tc}\n{ta}\n"),
            "bca",
            0,
        ),
        ("an empty line between", format!("{ha}\n{ta}\n"), "a", 0),
        ("a step line between", format!("{ha}{step}\n{ta}\n"), "a", 0),
        (
            "a stranger's line between",
            format!("{ha}hello\n{ta}\n"),
            "a",
            0,
        ),
        ("a beginning without an end", format!("{ha}{wb}\n"), "b", 1),
        (
            "an end without a beginning",
            format!("{wb}\n{ta}\n"),
            "b",
            1,
        ),
        (
            "an end that comes twice",
            format!("{ha}{wb}\n{ta}\n{ta}\n"),
            "ba",
            1,
        ),
        (
            "an end of another communicator",
            format!("{ha}{wc}\n{tb}\n"),
            "c",
            2,
        ),
        (
            "cut a byte before the tear",
            format!("{early}{wb}\n{late}\n"),
            "b",
            2,
        ),
        ("the end came first", format!("{ta}\n{ha}{wb}\n"), "b", 2),
    ];
    let known = init(&all);
    for (name, lines, who, damaged) in cases {
        let (rows, found) = rows(&format!("{known}{lines}"));
        let calls = who.chars().map(|who| {
            let (p, op) = match who {
                'a' => (a, "AllReduce"),
                'b' => (b, "AllGather"),
                _ => (c, "Broadcast"),
            };
            format!("{} {op} 64", p.pid)
        });
        let calls: Vec<String> = calls.collect();
        assert_eq!((rows, found), (calls, damaged), "{name}");
    }
}

#[test]
fn an_end_behind_another_beginning_goes_to_whom_its_communicator_is() {
    let all = procs(8);
    // Of one host and of two.
    for (a, b) in [(all[0], all[1]), (all[0], all[5])] {
        let (ha, ta) = halves(a, "AllReduce", 640);
        let (hb, tb) = halves(b, "AllGather", 320);
        let known = init(&[a, b]);
        let wanted = |first: &str, second: &str| vec![first.to_owned(), second.to_owned()];
        let of = |p: Proc, what: &str| format!("{} {what}", p.pid);
        let (ra, rb) = (of(a, "AllReduce 640"), of(b, "AllGather 320"));
        let log = format!("{known}{ha}{hb}{ta}\n{tb}\n");
        assert_eq!(rows(&log), (wanted(&ra, &rb), 0), "{log}");
        let log = format!("{known}{ha}{hb}{tb}\n{ta}\n");
        assert_eq!(rows(&log), (wanted(&rb, &ra), 0), "{log}");
    }
}

#[test]
fn a_step_line_between_the_halves_parts_nothing() {
    let all = procs(2);
    let (head, tail) = halves(all[0], "AllReduce", 640);
    let step = crate::support::nemo(0);
    let known = init(&all);
    for log in [
        format!("{known}{head}{step}\n{tail}\n"),
        format!("{known}{head}{step}{tail}\n\n"),
    ] {
        assert_eq!(
            rows(&log),
            (vec!["7000 AllReduce 640".to_owned()], 0),
            "{log}"
        );
    }
}

#[test]
fn a_launchers_label_names_the_process() {
    let all = procs(2);
    let (ha, ta) = halves(all[0], "AllReduce", 640);
    let (hb, tb) = halves(all[1], "AllReduce", 320);
    let wanted = ["7000 AllReduce 640", "7011 AllReduce 320"].map(str::to_owned);
    let sorted = |log: &str| {
        let (mut told, damaged) = rows(log);
        told.sort();
        (told, damaged)
    };
    for (a, b) in [
        ("[1,0]<stdout>:", "[1,1]<stdout>:"),
        ("[default0]:", "[default1]:"),
        (" 0: ", " 1: "),
    ] {
        // Nothing but the labels says who uses which communicator.
        let log = format!("{a}{ha}{b}{hb}{a}{ta}\n{b}{tb}\n");
        assert_eq!(sorted(&log), (wanted.to_vec(), 0), "{log}");
        let log = format!("{a}{ha}{a}{ta}\n{b}{hb}\n{b}{tb}\n");
        assert_eq!(sorted(&log), (wanted.to_vec(), 0), "{log}");
    }
}

/// `mpirun --tag-output` cuts lines anywhere, a step line too, and the tag tells whose each piece is.
#[test]
fn a_line_that_tags_cut_anywhere_is_whole() {
    let all = procs(2);
    let tags = ["[1,0]<stdout>:", "[1,1]<stdout>:"];
    let mut log = String::new();
    for (tag, line) in tags.iter().zip(init(&all).lines()) {
        log += &format!("{tag}{line}\n");
    }
    let call = |rank: usize, count, n: usize| {
        let line = all[rank].call("AllReduce", count, 7);
        line.replace("opCount 2c", &format!("opCount {n}"))
    };
    let [x, y] = tags;
    for (n, cut) in [40, 101, 128, 150].into_iter().enumerate() {
        let (one, two) = (call(0, 640, n), call(1, 640, n));
        let (a, b) = one.split_at(cut);
        let (c, d) = two.split_at(cut + 3);
        log += &format!("{x}{a}{y}{c}{x}{b}\n{y}{d}{y}\n");
    }
    let (last, odd) = (call(0, 640, 4), call(1, 320, 4));
    let (a, b) = odd.split_at(120);
    log += &format!("{y}{a}{x}{last}\n{y}{b}\n");
    log += &format!("{x}{}\n{y}{}\n", call(0, 640, 5), call(1, 640, 5));
    let (told, damaged) = rows(&log);
    assert_eq!((told.len(), damaged), (12, 0), "{told:?}");
    let found = Csv::of(&feed("nccl-check", &[], log.as_str()).ends(1));
    let told: Vec<_> = found
        .rows
        .iter()
        .map(|row| found.get(row, "finding"))
        .collect();
    assert_eq!(told, ["count_mismatch"]);
}

#[test]
fn a_process_that_goes_on_tells_which_end_was_its_own() {
    let all = procs(2);
    let (ha, ta) = halves(all[0], "AllReduce", 640);
    let (hb, tb) = halves(all[1], "AllReduce", 320);
    let next = |p: Proc| p.call("Broadcast", 1, 7) + "\n";
    let before = all[1].call("AllGather", 8, 7);
    let after = next(all[0]) + &next(all[1]);
    let log = format!("{before}\n{ha}{hb}{ta}\n{tb}\n{after}");
    let (mut told, damaged) = rows(&log);
    told.sort();
    let wanted = [
        "7000 AllReduce 640",
        "7000 Broadcast 1",
        "7011 AllGather 8",
        "7011 AllReduce 320",
        "7011 Broadcast 1",
    ];
    assert_eq!(
        (told, damaged),
        (wanted.map(str::to_owned).to_vec(), 0),
        "{log}"
    );
}

#[test]
fn what_two_processes_may_have_written_is_nobodys() {
    let all = procs(2);
    let (ha, ta) = halves(all[0], "AllReduce", 640);
    let (hb, tb) = halves(all[1], "AllReduce", 320);
    // Nothing is known of either, and nothing follows.
    let (told, damaged) = rows(&format!("{ha}{hb}{ta}\n{tb}\n"));
    assert!(told.is_empty() && damaged == 2, "{told:?} {damaged}");
}

#[test]
fn another_lines_beginning_is_told_from_the_calls_end_behind_it() {
    let all = procs(2);
    let (ha, ta) = halves(all[0], "AllReduce", 640);
    let other = format!("{}{}", all[1].head(), "x".repeat(300));
    let log = format!("{}{ha}{}{ta}\n", init(&all), &other[..TEAR]);
    assert_eq!(rows(&log).0, ["7000 AllReduce 640"], "{log}");
}

#[test]
fn a_connection_goes_by_the_torn_call_before_it() {
    let p = procs(2)[0];
    let second = Proc {
        comm: 0x55d0_b000_0000,
        ..p
    };
    let known = p.init(0, 0x9f3b) + "\n" + &second.init(0, 0x7a11) + "\n";
    let first = p.call("AllReduce", 64, 7);
    let (head, tail) = halves(second, "AllReduce", 640);
    let other = procs(2)[1].call("AllReduce", 64, 7);
    let tid = p.pid + 1;
    let connects = format!(
        "{}:{}:{tid} [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
        p.host, p.pid
    );
    let log = format!("{known}{first}\n{head}{other}\n{tail}\n{connects}\n");
    let out = feed("nccl-net", &["--pairs", "--format", "csv"], log.as_str()).calm();
    assert_eq!(Csv::of(&out).column("comm_id"), ["0x7a11"], "{log}");
}

#[test]
fn a_split_has_its_id_in_every_table_and_an_address_used_again_is_another() {
    let p = procs(2)[0];
    let split = |child: u32, end: &str| {
        format!(
            "{}ncclCommSplit comm 0x55d0c0000000 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 \
             parent {:#x} splitCount {child} color 7 key 0{end}\n",
            p.head(),
            p.comm
        )
    };
    let made = |child| split(child, "- Init START") + &split(child, " - Init COMPLETE");
    let of = Proc {
        comm: 0x55d0_c000_0000,
        ..p
    };
    let call = |count| of.call("AllReduce", count, 7) + "\n";
    let end = format!(
        "{}comm 0x55d0c0000000 rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n",
        p.head()
    );
    let world = p.init(0, 0x9f3b) + "\n";
    let log = format!("{world}{}{}{end}{}{}", made(1), call(1), made(2), call(2));
    let ids = ["0x9f3b/1.7", "0x9f3b/2.7"];
    let out = feed("nccl-comms", &[], log.as_str()).calm();
    assert_eq!(Csv::of(&out).column("comm_id"), ids);
    let again = feed(
        "nccl-agg",
        &["--by", "comm_id", "--format", "csv"],
        out.text(),
    )
    .calm();
    assert_eq!(Csv::of(&again).column("comm_id"), ids);
    let one = feed("nccl-comms", &["--comm", ids[1]], log.as_str()).calm();
    assert_eq!(Csv::of(&one).column("count"), ["2"]);
    let found = feed("nccl-communicators", &["--format", "csv"], log.as_str()).calm();
    let column = Csv::of(&found).column("comm_id");
    assert!(
        ids.iter().all(|id| column.iter().any(|of| of == id)),
        "{column:?}"
    );
}
