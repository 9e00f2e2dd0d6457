//! Lines of NCCL with other headers than the usual one: older and newer versions, RCCL, and lines that
//! people and web pages shortened.

use crate::support::{Csv, feed};

/// The findings of nccl-check, but not of what was not judged: severity and kind.
fn findings(log: &str) -> Vec<String> {
    let out = feed("nccl-check", &["-q", "--format", "csv"], log).calm();
    let mut findings = Csv::of(&out).pick(&["severity", "finding", "host"]);
    findings.retain(|finding| !finding.contains("not_checked"));
    findings
}

/// What nccl-net says of a subject of the job; empty if it says nothing.
fn net(log: &str, subject: &str) -> String {
    let table = Csv::of(&feed("nccl-net", &["-q"], log).calm());
    let is_it = |row: &&Vec<String>| table.get(row, "subject") == subject;
    let row = table.rows.iter().find(is_it);
    row.map_or(String::new(), |row| table.get(row, "value").to_owned())
}

/// The last message of nccl-hist: the account of the lines.
fn account(log: &str) -> String {
    let out = feed("nccl-hist", &["-v"], log).calm();
    out.stderr.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn old_versions_do_not_print_their_name() {
    let log = "n1:70:81 [0] INFO NET : Using interface eth0:10.0.0.1<0>\n\
               NCCL version 2.2.13+cuda9.2\n\
               n1:71:82 [1] INFO Ring 00 : 0 -> 1 via P2P/direct pointer\n\
               \n\
               n1:70:81 [0] transport/p2p.cu:514 WARN failed to open CUDA IPC handle : 11 invalid\n\
               n1:70:81 [0] INFO transport/p2p.cu:526 -> 1\n";
    assert_eq!(net(log, "nic.Socket"), "eth0 IPv4");
    assert_eq!(net(log, "transport"), "P2P/direct pointer");
    assert_eq!(net(log, "job.hosts"), "1");
    assert_eq!(findings(log), ["error warn_ipc n1"]);
    let bare = log.replace("n1:70:81 ", "").replace("n1:71:82 ", "");
    assert_eq!(net(&bare, "nic.Socket"), "eth0 IPv4");
    assert_eq!(net(&bare, "job.hosts"), "unknown");
}

#[test]
fn errors_that_are_no_warn_lines_are_judged_as_such() {
    for prefix in ["n1:7:15 [1] ", "[1] ", ""] {
        let log = format!("{prefix}[FATAL ERROR]: HIP failure: 'invalid argument'\n");
        let host = if prefix.starts_with('n') { " n1" } else { " " };
        assert_eq!(
            findings(&log),
            [format!("error warn_hip_failure{host}")],
            "{log}"
        );
    }
    let attn = "n1:42:43 [0] net_ib/p2p.cc:9 (ncclIbTest) NCCL ATTN NET/IB: Got completion from peer \
                10.0.0.2<51161> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_1\n";
    assert!(findings(attn).contains(&"error warn_ib_retry_exceeded n1".to_owned()));
    let told = "n1:42:43 [0] net.cc:9 (ncclNetInit) NCCL ATTN Failed to initialize NET plugin IB\n";
    assert!(
        findings(told)
            .iter()
            .all(|finding| !finding.contains("warn_"))
    );
}

#[test]
fn checks_that_failed_are_told_from_those_that_did_not() {
    let log = "n1:42 NCCL DIAG === NCCL Diagnostics ===\n\
               n1:42 NCCL DIAG [OK]   net bw: skipped (single host or no network transport)\n\
               n1:42 NCCL DIAG [INFO] net bw: required external tool missing in comm 0x5\n";
    assert_eq!(
        account(log),
        "nccl-hist: 3 lines = 0 calls + 3 other NCCL + 0 foreign + 0 repaired + 0 damaged"
    );
    assert!(
        findings(log)
            .iter()
            .all(|finding| finding.starts_with("note "))
    );
    let wrong = format!(
        "{log}n1:42 NCCL DIAG [INFO] p2p: read mismatch srcRank=0 dstRank=1 path=SYS handle=CUMEM \
         expected=0x0000000000000001 got=0x0000000000000000; check the affected pair\n"
    );
    assert!(findings(&wrong).contains(&"error warn_diag_p2p_data n1".to_owned()));
}

#[test]
fn what_is_left_of_a_header_is_enough() {
    for line in [
        "graph/xml.h: NCCL WARN Too many XML nodes (max 256)",
        "[3] graph/xml.h:42 NCCL WARN Too many XML nodes (max 256)",
        "[xml.h:42](https://example.com/xml.h#L42) NCCL WARN Too many XML nodes (max 256)",
        "12:30:45 [3] graph/xml.h:42 NCCL WARN Too many XML nodes (max 256)",
    ] {
        assert_eq!(
            findings(&format!("{line}\n")),
            ["warning warn_topology_xml "],
            "{line}"
        );
    }
    let log =
        "[3] NCCL INFO NET/IB : No device found.\n12:30:45 [3] NCCL INFO cudaDriverVersion 13010\n";
    assert_eq!(
        (net(log, "nic.IB"), net(log, "job.hosts")),
        ("no device".to_owned(), "unknown".to_owned())
    );
    assert_eq!(net(log, "version.driver"), "13.1");
}

#[test]
fn lines_of_other_programs_stay_theirs() {
    let log = "12:30:45 [0] INFO epoch 3 begins\n[3] INFO Using device cuda:3\n[3] WARN Timeout\n\
               [2026-01-01 12:30:45] [FATAL ERROR]: config not found\n\
               2026-01-01T12:30:45 [0] WARN low memory\n";
    assert_eq!(
        account(log),
        "nccl-hist: 5 lines = 0 calls + 0 other NCCL + 5 foreign + 0 repaired + 0 damaged"
    );
    assert_eq!(net(log, "job.hosts"), "unknown");
}

#[test]
fn facts_of_new_versions_are_read() {
    let log = "n1:42:43 [0] NCCL INFO NCCL version 2.32.3 compiled with CUDA 12.9\n\
               n1:42:43 [0] NCCL INFO NVLS multicast support is available on dev 0, transport NVLS, symmetric multimem yes\n\
               n1:42:43 [0] NCCL INFO minCTAs 64 is larger than #channels upper limit 32, cap it to 32\n\
               n1:42:43 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9f3b - Init COMPLETE\n\
               n1:42:43 [0] NCCL INFO comm 0x55d0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x9f3b - Finalize COMPLETE\n";
    assert_eq!(
        (net(log, "version.nccl"), net(log, "version.cuda")),
        ("2.32.3".to_owned(), "12.9".to_owned())
    );
    let expected = feed("nccl-check", &["-q", "--expect", "nvls=available"], log);
    assert_eq!(expected.code, Some(0), "{}", expected.text());
    assert!(
        findings(log).contains(&"note setting_ignored n1".to_owned()),
        "{:?}",
        findings(log)
    );
    let table = Csv::of(&feed("nccl-communicators", &["-q"], log).calm());
    assert_eq!(table.column("state"), ["finalized"]);
}

/// Two processes of NCCL 2.29 and later, whose lines are torn at byte 128.
#[test]
fn torn_messages_are_joined_or_harmless() {
    let torn = |line: &str| {
        let (head, tail) = line.split_at(128);
        (head.to_owned(), tail.to_owned())
    };
    let init = |pid: u32| {
        format!(
            "node00:{pid}:{pid} [0] NCCL INFO ncclCommInitRankConfig comm 0x2c8a9db0 rank 0 nranks 4 cudaDev 0 \
             nvmlDev 0 busId 60 commId 0x7ef8b47e946b1d0d - Init COMPLETE"
        )
    };
    let timed = |pid: u32| {
        format!(
            "node00:{pid}:{pid} [0] NCCL INFO Init timings - ncclCommInitRankConfig: rank 0 nranks 4 total 9.08 \
             (kernels 7.46, alloc 0.01, bootstrap 1.39, connections 0.09, rest 0.00)"
        )
    };
    let (ha, ta) = torn(&init(2926));
    let (hb, tb) = torn(&timed(2931));
    let end = "node00:2926:2926 [0] NCCL INFO Connected all rings\n";
    for (log, counts) in [
        (
            format!("{ha}{hb}{ta}\n{tb}\n{end}"),
            "1 other NCCL + 0 foreign + 2 repaired + 0 damaged",
        ),
        (
            format!("{hb}{ha}{tb}\n{ta}\n{end}"),
            "1 other NCCL + 0 foreign + 2 repaired + 0 damaged",
        ),
    ] {
        assert!(account(&log).ends_with(counts), "{}\n{log}", account(&log));
        assert_eq!(feed("nccl-hist", &[], log.as_str()).code, Some(0));
    }
    let named = |pid: u32| {
        format!(
            "node00:{pid}:{pid} [0] NCCL INFO ncclOsDlopen(libnccl-profiler.so) failed: libnccl-profiler.so: cannot \
             open shared object file: No such file or directory"
        )
    };
    let (hc, tc) = torn(&named(2931));
    let log = format!("{hc}{end}{tc}\n");
    let out = feed("nccl-hist", &[], log.as_str());
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert!(
        out.stderr.contains("1 torn line without the other half"),
        "{}",
        out.stderr
    );
    // An INIT line without its end: what it names may be lost.
    assert_eq!(
        feed("nccl-hist", &[], format!("{ha}{end}{end}")).code,
        Some(1)
    );
}
