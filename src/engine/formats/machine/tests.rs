use super::*;
use crate::formats::HeadEnd;
use crate::grammar::machine::{MachineClass, ReportNumber};

const DMESG: &str = "\
[    0.000000] Linux version 6.8.0 (gcc)
[12345.678901] NVRM: Xid (PCI:0000:dc:00): 79, pid=81, name=python, GPU has fallen off the bus.
[12345.678902] NVRM: Xid (PCI:0000:dc:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
[12346.000000] NVRM: Xid (PCI:0000:dc:00): 79, pid=81, name=python, GPU has fallen off the bus.
[12350.000000] Out of memory: Killed process 82 (python3) total-vm:9kB
";

const SMI: &str = "
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 27 20:56:54 2026
Attached GPUs                             : 2
GPU 00000000:D9:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Uncorrectable            : 3
    Remapped Rows
        Uncorrectable Error               : 1
        Pending                           : No
        Remapping Failure Occurred        : No
GPU 00000000:DC:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU Reset Status
        Reset Required                    : Yes
    GPU Recovery Action                   : Reset
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Power Brake Slowdown       : Not Active
    ECC Errors
        Volatile
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 0
    Remapped Rows
        Pending                           : Yes
        Remapping Failure Occurred        : Yes
";

const DIAG: &str = "\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
| PCIe                      | Pass - All                                     |
| GPU Memory                | Fail - GPU: 3                                  |
| Warning                   | GPU 3: a test of its memory found a difference |
";

const HEALTH: &str = "\
+----------------------------------------------------------------------------+
| Health Monitor Report                                                      |
+============================================================================+
| Group 1                   | Overall Health: Failure                        |
| GPU ID: 3                 | Failure                                        |
|                           | Memory system: Failure - a page is not retired |
";

const LINKS: &str = "\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
\t Link 0: Replay Errors: 0
\t Link 1: CRC Errors: 12
";

fn kinds(text: &str) -> Vec<(MachineClass, Option<u32>, u64)> {
    let read = parse_machine_messages(text.as_bytes());
    let events = read.events.iter();
    events
        .map(|of| (of.report.class, of.gpu, of.count))
        .collect()
}

#[test]
fn equal_messages_are_counted_together() {
    let read = parse_machine_messages(DMESG.as_bytes());
    let [lost, asks, killed] = &read.events[..] else {
        panic!("{:?}", read.events);
    };
    assert_eq!(lost.report.number, Some(ReportNumber::Xid(79)));
    assert_eq!(
        (lost.count, lost.line, lost.last_line, lost.pid),
        (2, 1, 3, Some(81))
    );
    assert_eq!(asks.report.class, MachineClass::Follows);
    assert_eq!(
        (killed.pid, killed.process.as_deref()),
        (Some(82), Some(&b"python3"[..]))
    );
}

#[test]
fn a_line_of_the_journal_has_its_host() {
    let line = br#"{"__REALTIME_TIMESTAMP":"1795812714000000","_HOSTNAME":"n1","_TRANSPORT":"kernel","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"Out of memory: Killed process 81 (python) total-vm:8kB"}"#;
    let read = parse_machine_messages(line);
    assert_eq!(read.events[0].host.as_deref(), Some(&b"n1"[..]));
    assert_eq!(read.events[0].pid, Some(81));
    let other = String::from_utf8_lossy(line).replace("kernel", "sshd");
    assert_eq!(parse_machine_messages(other.as_bytes()).events, []);
}

#[test]
fn tools_show_the_errors_of_each_gpu() {
    use MachineClass::*;
    assert_eq!(
        kinds(SMI),
        [
            (Harmless, None, 1),
            (Gpu, None, 1),
            (Gpu, None, 1),
            (Slow, None, 1),
            (Memory, None, 1),
            (Harmless, None, 1),
            (Memory, None, 1)
        ]
    );
    let devices = parse_machine_messages(SMI.as_bytes()).events;
    let devices: Vec<u64> = devices.iter().map(|of| of.device.unwrap().0).collect();
    assert_eq!(
        devices,
        [
            0xd9000, 0xdc000, 0xdc000, 0xdc000, 0xdc000, 0xdc000, 0xdc000
        ]
    );
    assert_eq!(kinds(DIAG), [(Gpu, Some(3), 1)]);
    assert_eq!(kinds(HEALTH), [(Gpu, Some(3), 2)]);
    assert_eq!(kinds(LINKS), [(Harmless, Some(0), 1)]);
}

#[test]
fn only_a_text_of_a_machine_is_one() {
    let probe = |format: &InputFormat, text: &str| {
        (format.probe)(&InputHead {
            bytes: text.as_bytes(),
            end: HeadEnd::Whole,
        })
    };
    for text in [
        DMESG,
        "NVRM: Xid (PCI:0000:dc:00): 79, pid=81, GPU has fallen off the bus.\n",
        "Nov 27 20:56:54 n1 sshd[9]: x\nNov 27 20:56:54 n1 kernel: y\n",
        "{\"__REALTIME_TIMESTAMP\":\"1\",\"MESSAGE\":\"x\"}\n",
    ] {
        assert_eq!(probe(&KERNEL, text), ProbeAnswer::Yes, "{text}");
        let log = format!("{text}n1:81:81 [0] NCCL INFO x\n");
        assert_eq!(probe(&KERNEL, &log), ProbeAnswer::No, "{log}");
    }
    for text in [SMI, DIAG, HEALTH, LINKS] {
        assert_eq!(probe(&TOOLS, text), ProbeAnswer::Yes, "{text}");
    }
    for text in [
        "",
        "step 1\n[  123.4] NVRM: loading\n",
        "[  123.4] step 1\n[  123.5] step 2\n",
        "[  123.4] NVRM: loading\nstep 1\nstep 2\nstep 3\n",
        "Nov 27 20:56:54 n1 python[81]: step 1\n",
        "2026-11-27 20:56:54 INFO trainer: step 1\n",
        "GPU 0 is ready\nstep 1\n",
    ] {
        assert_eq!(probe(&KERNEL, text), ProbeAnswer::No, "{text}");
        assert_eq!(probe(&TOOLS, text), ProbeAnswer::No, "{text}");
    }
}

#[test]
fn every_state_is_read() {
    assert!(tools::state_rows().all(|row| tools::parse_row(row).is_some()));
}

#[test]
fn damaged_texts_are_read() {
    for text in [DMESG, SMI, DIAG, HEALTH, LINKS] {
        for at in 0..text.len() {
            let bytes = text.as_bytes();
            _ = parse_machine_messages(&bytes[at..]);
            let mut changed = bytes.to_vec();
            changed[at] = b"\xff|:[{ "[at % 6];
            _ = parse_machine_messages(&changed);
        }
    }
    let many: String = (0..5000)
        .map(|pid| format!("Out of memory: Killed process {pid} (a)\n"))
        .collect();
    let read = parse_machine_messages(many.as_bytes());
    assert_eq!((read.events.len(), read.omitted), (4096, 904));
}
