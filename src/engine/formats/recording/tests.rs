//! Recordings made here, and what their rows are.

use super::*;
use crate::formats::InputHead;
use crate::report::account::Account;
use nccl_pipe_recording::*;

fn shape(op: u8, count: u64, peer: i32) -> RecordedShape {
    let datatype = 7;
    RecordedShape {
        op,
        count,
        peer,
        datatype,
        ..RecordedShape::default()
    }
}

/// A recording of two ranks' first: AllReduce, Send to 3, a call that is not launched.
fn recording() -> Vec<u8> {
    let process = ProcessFacts {
        pid: 41,
        host: b"n1"[..].into(),
        realtime_ns: 1_700_000_000_000_000_000,
        monotonic_ns: 1_000,
        interface: 6,
        event_mask: 0x1646,
        rank: Some(9),
        world_size: Some(16),
    };
    let call = |number, ordinal, shape| {
        let (comm, is_captured, is_launch) = (0, false, false);
        Event::Call(CallBegun {
            comm,
            number,
            ordinal,
            shape,
            is_captured,
            is_launch,
        })
    };
    let task = |number, seq, shape: RecordedShape| {
        let shape = RecordedShape {
            algo: 1,
            proto: 2,
            channels: 2,
            ..shape
        };
        let (comm, call) = (0, number);
        Event::Task(TaskBegun {
            comm,
            number,
            call,
            seq,
            shape,
        })
    };
    let ended = |number| Event::TaskEnded { comm: 0, number };
    let span = KernelSpan {
        begun: 2,
        ended: 2,
        start_ns: 5_000,
        stop_ns: 8_000,
    };
    let events = [
        call(0, 0, shape(4, 1024, 0)),
        task(0, Some(0), shape(4, 1024, 0)),
        ended(0),
        call(1, 0, shape(6, 10, -1)),
        task(1, None, shape(6, 10, 3)),
        ended(1),
        Event::Kernel {
            comm: 0,
            number: 0,
            span,
        },
        call(2, 1, shape(0, 7, 1)),
    ];
    let (mut file, mut body) = (MAGIC.to_vec(), Vec::new());
    process.encode(&mut body);
    append_frame(&mut file, FrameKind::Process, 0, &body);
    let mut encoder = EventEncoder::default();
    encoder.begin_frame(2_000);
    for (at, event) in (0..).zip(events) {
        let time_ns = 2_000 + 100 * at;
        encoder.add_event(7, &TimedEvent { time_ns, event }, |_| CommFacts {
            id: 0xabc,
            nranks: 4,
            rank: Some(2),
            ..CommFacts::default()
        });
    }
    append_frame(&mut file, FrameKind::Events, 1, encoder.body());
    file
}

fn read(bytes: &[u8]) -> (String, Account) {
    let mut out = Vec::new();
    let mut take = |row: &crate::output::table::Row<'_>| {
        row.csv(&mut out);
        Ok(())
    };
    let mut taking = RowTaker::for_tests(&mut take);
    read_frames(bytes, "r", &mut taking).unwrap();
    let account = taking.account;
    (String::from_utf8(out).unwrap(), account)
}

#[test]
fn calls_have_their_rows() {
    let (rows, account) = read(&recording());
    let expected = "\
,,n1,41,7,,2,4,,0xabc,0,,AllReduce,1024,fp32,,,4096,,1,recorder,3000,gpu,\"kernel, without its launch\",5000,RING,SIMPLE,2,,,9,1700000000000001000
,,n1,41,7,,2,4,,0xabc,0,,Send,10,fp32,,3,40,,1,recorder,,unix,enqueue only,1700000000000001400,RING,SIMPLE,2,,,9,1700000000000001300
,,n1,41,7,,2,4,,0xabc,1,,Broadcast,7,fp32,,1,28,,1,recorder,,unix,API call only,1700000000000001700,,,,,,9,1700000000000001700
";
    assert_eq!(rows, expected);
    assert_eq!((account.calls, account.lines), (3, 2));
    assert_eq!(account.remarks.len(), 1, "{:?}", account.remarks);
}

#[test]
fn a_cut_recording_is_read_to_its_last_frame() {
    let all = recording();
    let (rows, account) = read(&all[..all.len() - 1]);
    assert_eq!((rows.as_str(), account.damaged), ("", 1));
}

#[test]
fn a_recording_is_known_by_its_first_bytes() {
    let is = |bytes: &[u8]| (FORMAT.probe)(&InputHead::from_bytes(bytes)) == ProbeAnswer::Yes;
    assert!(is(&recording()) && !is(b"") && !is(b"NPREC"));
}
