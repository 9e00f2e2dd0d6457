//! What scripts ask for around rows: labels, no header, tabs.

use crate::support::{Csv, Work, run, sh};

/// A log of two ranks that the repository has.
const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/captured/ddp");

#[test]
fn rows_have_their_labels_in_front_whatever_the_program_and_the_format() {
    for program in [
        "nccl-hist",
        "nccl-ops",
        "nccl-comms",
        "nccl-communicators",
        "nccl-check",
    ] {
        let rows = |args: &[&str]| run(program, &[&["-q", LOG], args].concat()).calm().text();
        let plain = rows(&["--format", "csv"]);
        let labelled = rows(&["--format", "csv", "--label", "job=a,b", "--label", "try=2"]);
        let expected = plain.lines().enumerate().map(|(at, line)| match at {
            0 => format!("job,try,{line}\n"),
            _ => format!("\"a,b\",2,{line}\n"),
        });
        assert_eq!(labelled, expected.collect::<String>(), "{program}");
        let bare = rows(&["--format", "csv", "--no-header"]);
        assert_eq!(
            Some(bare.as_str()),
            plain.split_once('\n').map(|(_, rest)| rest),
            "{program}"
        );
        let tabs = rows(&["--format", "tsv"]);
        let fields = |text: &str, by: u8| {
            let mut reader = csv::ReaderBuilder::new();
            reader.delimiter(by).has_headers(false);
            let mut reader = reader.from_reader(text.as_bytes());
            reader.records().map(Result::unwrap).collect::<Vec<_>>()
        };
        assert_eq!(fields(&tabs, b'\t'), fields(&plain, b','), "{program}");
        let json = rows(&["--format", "jsonl"]);
        let labelled = rows(&["--format", "jsonl", "--label", "job=1", "--no-header"]);
        let expected = json
            .lines()
            .map(|line| format!("{{\"job\":\"1\",{}\n", &line[1..]));
        assert_eq!(labelled, expected.collect::<String>(), "{program}");
    }
}

#[test]
fn a_label_that_no_row_can_have_is_refused() {
    run("nccl-ops", &[LOG, "--label", "job"])
        .ends(2)
        .says(&["expected a column and its value, such as job=123"]);
    run("nccl-ops", &["-q", LOG, "--label", "op=1"])
        .ends(2)
        .says(&["--label op: the rows have a column op already"]);
    run(
        "nccl-ops",
        &["-q", LOG, "--label", "a=1", "--format", "table"],
    )
    .ends(2)
    .says(&["--label and --no-header are for rows: use --format csv, tsv or jsonl"]);
}

#[test]
fn what_is_no_rows_has_no_labels() {
    for args in [
        "nccl-matrix -q --format dot --no-header",
        "nccl-matrix -q --format table --label a=1",
        "nccl-agg -q --format nccl-tests --label a=1",
        "nccl-check -q --format text --label a=1",
        "nccl-check -q --format github --label a=1",
        "nccl-report -q --label a=1",
        "nccl-steps -q --no-header",
        "nccl-hist -q --format awk --label a=1",
    ] {
        let mut words: Vec<&str> = args.split(' ').collect();
        words.push(LOG);
        run(words[0], &words[1..]).ends(2).says(&["are for rows"]);
    }
}

#[test]
fn rows_of_a_growing_log_have_their_labels_too() {
    let work = Work::new();
    let early = "nccl-steps --list --label job=7 --no-header -q | cut -d, -f1-3";
    let piped = sh(work.dir(), &format!("zcat {LOG}/*.log.gz | {early}"))
        .ends(0)
        .text();
    let whole = sh(
        work.dir(),
        &format!("zcat {LOG}/*.log.gz > log; nccl-steps log --list -q | cut -d, -f1-2"),
    );
    let whole = whole.ends(0).text();
    let expected = whole.lines().skip(1).map(|line| format!("7,{line}\n"));
    assert_eq!(piped, expected.collect::<String>());
    assert!(
        Csv::of(&run("nccl-ops", &["-q", LOG, "--label", "x="]))
            .column("x")
            .iter()
            .all(String::is_empty)
    );
}

/// A log whose two ranks make different calls, with what must be escaped in it.
fn hung() -> String {
    format!(
        "{}/testdata/captured/ddp-skip/nccl.log.gz",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn a_ci_server_gets_a_case_for_each_finding() {
    let log = hung();
    let rows = Csv::of(&run("nccl-check", &["-q", &log]).ends(1));
    let wrong = rows
        .column("severity")
        .iter()
        .filter(|s| *s != "note")
        .count();
    let xml = run(
        "nccl-check",
        &["-q", &log, "--format", "junit", "--label", "job=<7>"],
    );
    let xml = xml.ends(1).text();
    let head = format!(
        "<testsuites><testsuite name=\"nccl-check\" tests=\"{}\" failures=\"{wrong}\" errors=\"0\"",
        rows.rows.len()
    );
    assert!(xml.contains(&head), "{xml}");
    assert!(
        xml.contains("<property name=\"job\" value=\"&lt;7&gt;\"/>"),
        "{xml}"
    );
    assert_eq!(xml.matches("<testcase ").count(), rows.rows.len());
    assert_eq!(xml.matches("<failure type=").count(), wrong);
    for says in rows.column("says") {
        let text = says
            .replace('\'', "&#39;")
            .replace('>', "&gt;")
            .replace('<', "&lt;");
        assert!(xml.contains(&format!("name=\"{text}\"")), "{text} in {xml}");
    }
    let expect = [
        "-q",
        &log,
        "--format",
        "junit",
        "--expect",
        "mismatch=0,nvls=used,warn=0",
    ];
    let xml = run("nccl-check", &expect).calm().text();
    assert!(xml.contains("tests=\"3\" failures=\"1\""), "{xml}");
    // A job with nothing to find is a case that passed.
    let clean = run("nccl-check", &["-q", LOG, "--format", "junit"])
        .calm()
        .text();
    assert!(
        clean.contains("failures=\"0\"") && clean.contains("<testcase "),
        "{clean}"
    );
}

#[test]
fn a_workflow_gets_a_line_for_each_finding() {
    let log = hung();
    let rows = Csv::of(&run("nccl-check", &["-q", &log]).ends(1));
    let out = run("nccl-check", &["-q", &log, "--format", "github"]).ends(1);
    let lines = out.lines();
    assert_eq!(lines.len(), rows.rows.len());
    for (line, row) in lines.iter().zip(&rows.rows) {
        let level = match rows.get(row, "severity") {
            "note" => "notice",
            level => level,
        };
        let begin = format!("::{level} title={},file=", rows.get(row, "finding"));
        assert!(line.starts_with(&begin), "{line}");
        assert!(
            line.contains(&format!(",line={}::", rows.get(row, "line"))),
            "{line}"
        );
        assert!(
            line.contains(&rows.get(row, "says").replace('%', "%25")),
            "{line}"
        );
    }
}

#[test]
fn prometheus_gets_gauges_with_the_labels() {
    let log = hung();
    let args = ["-q", &log, "--format", "prometheus", "--label", "job=a\"b"];
    let text = run("nccl-check", &args).ends(1).text();
    for line in [
        "# TYPE nccl_check_findings gauge",
        "nccl_check_findings{job=\"a\\\"b\",severity=\"error\",finding=\"redop_mismatch\"} 1",
        "nccl_check_severity{job=\"a\\\"b\",severity=\"error\"} 1",
        "nccl_check_severity{job=\"a\\\"b\",severity=\"warning\"} 0",
        "nccl_check_compared_communicators{job=\"a\\\"b\"} 1",
    ] {
        assert!(text.lines().any(|is| is == line), "{line} in {text}");
    }
    run(
        "nccl-check",
        &["-q", &log, "--format", "prometheus", "--label", "a-b=1"],
    )
    .ends(2)
    .says(&["--label a-b: Prometheus takes letters, digits and _"]);
}

#[test]
fn a_job_is_a_row_of_a_table_that_grows() {
    let work = Work::new();
    let log = hung();
    let row = |more: &str| {
        sh(
            work.dir(),
            &format!("nccl-report -q {log} --summary {more}"),
        )
        .ends(0)
        .text()
    };
    let table = row("--label job=1") + &row("--label job=2 --no-header");
    let mut lines = table.lines();
    let header = lines.next().unwrap();
    assert!(
        header.starts_with("job,hosts,ranks,nccl,cuda,network,"),
        "{header}"
    );
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].strip_prefix("1,"), rows[1].strip_prefix("2,"));
    // Each value is that of the program that has it.
    let known: Vec<&str> = rows[0].split(',').collect();
    let value = |name: &str| known[header.split(',').position(|is| is == name).unwrap()];
    let ops = Csv::of(&run("nccl-ops", &["-q", &log]));
    let calls: u64 = ops
        .column("calls")
        .iter()
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    assert_eq!(value("calls"), calls.to_string());
    let timing = Csv::of(&run("nccl-timing", &["-q", &log]));
    assert_eq!(value("step_time_p50_s"), timing.get(&timing.rows[0], "p50"));
    assert_eq!(value("steps"), timing.get(&timing.rows[0], "steps"));
    assert_eq!(
        (value("errors"), value("warnings"), value("ranks")),
        ("1", "0", "4")
    );
    run("nccl-report", &["-q", &log, "--format", "csv"]).ends(2);
    run(
        "nccl-report",
        &["-q", &log, "--summary", "--format", "html"],
    )
    .ends(2);
}
