use super::*;
use crate::formats::machine::parse_machine_messages;
use crate::members::SpeakerProcess;
use crate::stages::check::finding::{About, Confidence, Kind};
use crate::stages::communicators::CommunicatorSide;

/// Two hosts with a process each, on the GPU 0000:dc:00.
fn job() -> CommunicatorsSummary {
    let mut found = CommunicatorsSummary::default();
    for (at, host) in (0_u32..).zip(["n1", "n2"]) {
        found.processes.push(SpeakerProcess {
            host: host.as_bytes().into(),
            pid: Some(u64::from(81 + at)),
        });
        found.sides.push(CommunicatorSide {
            process: at,
            rank: Some(at),
            nvml_dev: Some(3),
            bus_id: Some(0xdc000),
            ..CommunicatorSide::default()
        });
    }
    found
}

fn timed_out() -> Finding {
    let line =
        b"[rank1]:[E1127 20:57:54.123456 x.cpp:9] Watchdog caught collective operation timeout";
    Finding {
        evidence: vec![crate::stages::check::finding::Evidence {
            at: crate::stages::net::net_stage::FirstReportLine { input: 0, line: 0 }.into(),
            text: Some(line.to_vec()),
        }],
        ..Finding::of_kind(Kind::WatchdogTimeout, Confidence::High, "x".to_owned())
    }
}

/// The findings on messages of the file `name`, beside `log`.
fn judge(found: &CommunicatorsSummary, log: &[Finding], name: &str, text: &str) -> Vec<Finding> {
    let read = parse_machine_messages(text.as_bytes());
    let inputs = MachineInputs {
        names: vec![name.to_owned()],
        events: read
            .events
            .into_iter()
            .map(|event| NumberedEvent { input: 0, event })
            .collect(),
    };
    let mut findings = log.to_vec();
    inputs.merge_machine_findings(1, found, true, &mut findings);
    findings.split_off(log.len())
}

fn told(log: &[Finding], name: &str, text: &str) -> Vec<(Kind, Severity, Confidence)> {
    let found = judge(&job(), log, name, text);
    found.iter().map(|f| (f.kind, f.severity, f.sure)).collect()
}

const LOST: &str =
    "NVRM: Xid (PCI:0000:dc:00): 79, pid=7, name=python, GPU has fallen off the bus.\n";
const KILLED: &str = "Out of memory: Killed process 82 (python) total-vm:8kB\n";
const DOWN: &str = "mlx5_core 0000:3b:00.0 ib0: Link down\n";

#[test]
fn a_message_is_a_cause_only_of_what_it_names() {
    use Confidence::{High, Low, Medium};
    use Severity::{Error, Note, Warning};
    let failed = [timed_out()];
    let at = |host: &str, text: &str| format!("Nov 27 20:57:24 {host} kernel: {text}");
    for (name, text, expected) in [
        ("dmesg.txt", at("n2", LOST), (Kind::GpuFailed, Error, High)),
        (
            "dmesg.txt",
            at("n2.cluster.local", LOST),
            (Kind::GpuFailed, Error, High),
        ),
        (
            "dmesg.n2.txt",
            LOST.to_owned(),
            (Kind::GpuFailed, Error, Medium),
        ),
        (
            "n2/dmesg.txt",
            LOST.to_owned(),
            (Kind::GpuFailed, Error, Medium),
        ),
        (
            "dmesg.txt",
            LOST.to_owned(),
            (Kind::MachineMessage, Warning, Low),
        ),
        (
            "dmesg.txt",
            at("n9", LOST),
            (Kind::MachineMessage, Note, High),
        ),
        (
            "dmesg.txt",
            at("n2", &LOST.replace("dc", "d1")),
            (Kind::MachineMessage, Note, High),
        ),
        (
            "dmesg.txt",
            at("n2", LOST).replace("20:57:24", "21:05:24"),
            (Kind::MachineMessage, Note, High),
        ),
        (
            "dmesg.txt",
            at("n2", LOST).replace("Nov 27", "Nov 20"),
            (Kind::MachineMessage, Note, High),
        ),
        (
            "dmesg.txt",
            at("n2", &LOST.replace(": 79,", ": 94,")).replace("Nov 27 20", "Nov 27 12"),
            (Kind::MachineMessage, Warning, Low),
        ),
        (
            "dmesg.txt",
            at("n2", &LOST.replace("79, pid=7", "31, pid=82")),
            (Kind::GpuProgramError, Error, Medium),
        ),
        (
            "dmesg.txt",
            at("n2", &LOST.replace(": 79,", ": 45,")),
            (Kind::MachineMessage, Note, High),
        ),
        (
            "dmesg.txt",
            KILLED.to_owned(),
            (Kind::HostOutOfMemory, Error, High),
        ),
        (
            "dmesg.txt",
            at("n1", KILLED),
            (Kind::MachineMessage, Warning, Low),
        ),
        ("dmesg.txt", at("n2", DOWN), (Kind::LinkDown, Error, Medium)),
        (
            "dmesg.n2",
            DOWN.to_owned(),
            (Kind::MachineMessage, Warning, Low),
        ),
        (
            "dmesg.txt",
            at("n2", DOWN) + &at("n2", "mlx5_core 0000:3b:00.0 ib0: Link up\n"),
            (Kind::MachineMessage, Warning, Low),
        ),
    ] {
        assert_eq!(told(&failed, name, &text)[0], expected, "{name}: {text}");
    }
    // Without a failure of the log only a process that was killed is one.
    assert_eq!(
        told(&[], "x", &at("n2", LOST))[0],
        (Kind::MachineMessage, Warning, Medium)
    );
    assert_eq!(
        told(&[], "x", KILLED)[0],
        (Kind::HostOutOfMemory, Error, High)
    );
}

#[test]
fn a_kill_under_another_number_is_that_of_the_only_rank_that_ended() {
    let ended = |host: &[u8]| Finding {
        about: About {
            host: Some(host.into()),
            pid: Some(82),
            ..About::default()
        },
        ..Finding::of_kind(Kind::RankKilled, Confidence::High, "x".to_owned())
    };
    let killed =
        "Nov 27 20:57:24 n2 kernel: Out of memory: Killed process 9182 (python) total-vm:8kB\n";
    let found = judge(&job(), &[ended(b"n2")], "x", killed);
    assert_eq!(
        (found[0].kind, found[0].sure, found[0].about.pid),
        (Kind::HostOutOfMemory, Confidence::Medium, Some(82))
    );
    assert_eq!(told(&[ended(b"n1")], "x", killed)[0].1, Severity::Warning);
}

#[test]
fn every_action_has_its_advice() {
    let tables = [
        include_str!("../../../grammar/machine/messages.txt"),
        include_str!("../../../grammar/machine/xids.txt"),
        include_str!("../../../engine/formats/machine/states.txt"),
    ];
    let is_word = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase());
    for (table, at) in tables.iter().zip([1, 2, 1]) {
        let rows = table.lines().filter(|row| !row.starts_with('#'));
        let heads =
            rows.filter(|row| at == 2 || row.split(' ').count() == 2 || row.contains(" | "));
        let words = heads
            .filter_map(|row| row.split(' ').nth(at))
            .filter(is_word);
        for word in words {
            assert!(!words::advise_by_word(word).is_empty(), "{word}");
        }
    }
}

#[test]
fn messages_alone_are_an_answer() {
    let none = CommunicatorsSummary::default();
    let all = format!("{LOST}{LOST}{KILLED}[  9.1] AER: Corrected error received: 0000:dc:00.0\n");
    let found = judge(&none, &[], "dmesg", &all);
    let says: Vec<&str> = found.iter().map(|f| &*f.says).collect();
    assert_eq!(
        says,
        [
            "GPU 0000:dc:00 failed: Xid 79, the GPU fell off the bus: it cannot be reached over PCIe (twice)",
            "python (pid 82) was killed: the host was out of memory",
            "a host reports: errors of PCIe were corrected",
        ]
    );
}
