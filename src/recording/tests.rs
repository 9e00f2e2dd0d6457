//! What is written is read again, whatever happens to the file.

use crate::limits::MAX_STALE_FRAMES;
use crate::names::{OPS, UNKNOWN};
use crate::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn facts(comm: u32) -> CommFacts {
    CommFacts {
        id: u64::MAX - u64::from(comm),
        name: b"dp"[..].into(),
        nranks: 8,
        nnodes: 2,
        rank: Some(comm % 8),
    }
}

fn thread_of(event: &TimedEvent) -> u32 {
    event.time_ns as u32 % 3
}

/// Writes a file: each inner list is a frame.
fn write(frames: &[Vec<TimedEvent>]) -> Vec<u8> {
    let (mut file, mut encoder, mut body) = (MAGIC.to_vec(), EventEncoder::default(), Vec::new());
    ProcessFacts::default().encode(&mut body);
    append_frame(&mut file, FrameKind::Process, 0, &body);
    for (number, events) in frames.iter().enumerate() {
        encoder.begin_frame(1_000_000);
        for event in events {
            encoder.add_event(thread_of(event), event, facts);
        }
        append_frame(
            &mut file,
            FrameKind::Events,
            number as u32 + 1,
            encoder.body(),
        );
    }
    file
}

/// What is in a file.
#[derive(Debug, Default, PartialEq)]
struct Read {
    events: Vec<TimedEvent>,
    threads: Vec<u32>,
    comms: HashMap<u32, CommFacts>,
    damage: Vec<RecordingDamage>,
}

/// Reads a file of the writer's: each event has its thread.
fn read(file: &[u8]) -> Read {
    let found = read_any(file);
    let own = found.events.iter().map(thread_of);
    assert!(own.eq(found.threads.iter().copied()));
    found
}

fn read_any(file: &[u8]) -> Read {
    let (mut reader, mut found) = (RecordingReader::new(file), Read::default());
    let mut take = |item: RecordingItem<'_>| match item {
        RecordingItem::Comm(number, facts) => _ = found.comms.insert(number, facts),
        RecordingItem::Event(thread, event) => {
            found.threads.push(thread);
            found.events.push(event);
        }
        RecordingItem::Damage(damage) => found.damage.push(damage),
        RecordingItem::Process(_) | RecordingItem::End => {}
    };
    while reader.read_frame(&mut take).unwrap() {}
    found
}

fn shapes() -> impl Strategy<Value = RecordedShape> {
    let op = prop_oneof![Just(4_u8), Just(6), 0..OPS.len() as u8, Just(UNKNOWN)];
    let sizes = (
        prop_oneof![Just(1024_u64), any::<u64>()],
        any::<i32>(),
        any::<u16>(),
    );
    (op, sizes, any::<[u8; 4]>(), any::<bool>()).prop_map(|(op, sizes, codes, is_plain)| {
        let (count, peer, channels) = sizes;
        let [datatype, redop, algo, proto] = if is_plain { [7, UNKNOWN, 1, 2] } else { codes };
        let stream = if is_plain { 0x7f00_1234_5678 } else { count };
        RecordedShape {
            count,
            stream,
            peer,
            channels,
            op,
            datatype,
            redop,
            algo,
            proto,
        }
    })
}

fn events() -> impl Strategy<Value = TimedEvent> {
    let number = || prop_oneof![0_u64..20, any::<u64>()];
    let comm = 0_u32..3;
    let seq = prop_oneof![Just(None), (0..u64::MAX).prop_map(Some)];
    let call = (number(), number(), shapes(), any::<[bool; 2]>());
    let span = (0_u32..40, 0_u32..40, number(), number());
    let proxy = (
        prop::option::of(number()),
        any::<[u32; 4]>(),
        any::<[u64; 5]>(),
        any::<bool>(),
    );
    let event = (comm, 0..8_u8, call, seq, span, proxy);
    let event = event.prop_map(|(comm, kind, call, seq, span, proxy)| {
        let (number, second, shape, [is_captured, is_launch]) = call;
        let (begun, ended, start_ns, stop_ns) = span;
        match kind {
            0 => Event::CommBegun(comm),
            1 => Event::CommEnded(comm),
            2 => {
                let ordinal = second;
                Event::Call(CallBegun {
                    comm,
                    number,
                    ordinal,
                    shape,
                    is_captured,
                    is_launch,
                })
            }
            3 => Event::Task(TaskBegun {
                comm,
                number,
                call: second,
                seq,
                shape,
            }),
            4 => Event::TaskEnded { comm, number },
            5 => {
                let span = KernelSpan {
                    begun,
                    ended,
                    start_ns,
                    stop_ns,
                };
                Event::Kernel { comm, number, span }
            }
            6 => {
                let (task, [steps, chunk_bytes, ended, peer], [dur_ns, bytes, w, x, y], is_send) =
                    proxy;
                let (peer, channel, waits_ns) = (peer as i32, steps as u8, [w, x, y]);
                Event::Proxy(ProxyEnded {
                    comm,
                    task,
                    peer,
                    channel,
                    is_send,
                    steps,
                    chunk_bytes,
                    dur_ns,
                    bytes,
                    ended,
                    waits_ns,
                })
            }
            _ => Event::Dropped(number),
        }
    });
    (prop_oneof![1_000_000_u64..2_000_000, any::<u64>()], event)
        .prop_map(|(time_ns, event)| TimedEvent { time_ns, event })
}

fn frames() -> impl Strategy<Value = Vec<Vec<TimedEvent>>> {
    prop::collection::vec(prop::collection::vec(events(), 0..12), 0..8)
}

/// The joiner without a bound, without an order of its own: every part is looked up among all calls.
fn join_naively(events: &[TimedEvent]) -> Vec<RecordingCall> {
    let mut all: Vec<RecordingCall> = Vec::new();
    let blank = |begun_ns| RecordingCall {
        thread: 0,
        call: None,
        begun_ns,
        task: None,
        launched_ns: None,
        enqueued_ns: None,
        kernel: None,
        kernel_seen_ns: None,
    };
    for &TimedEvent { time_ns, event } in events {
        let find = |all: &mut [RecordingCall], comm, number| {
            let of = |known: &RecordingCall| {
                known
                    .task
                    .is_some_and(|t| (t.comm, t.number) == (comm, number))
            };
            all.iter().rposition(of)
        };
        match event {
            Event::Call(call) => all.push(RecordingCall {
                call: Some(call),
                ..blank(time_ns)
            }),
            Event::Task(task) => {
                let of = |known: &RecordingCall| {
                    known
                        .call
                        .is_some_and(|call| (call.comm, call.number) == (task.comm, task.call))
                };
                let free = all
                    .iter()
                    .rposition(of)
                    .filter(|&at| all[at].task.is_none());
                let at = free.unwrap_or_else(|| {
                    all.push(blank(time_ns));
                    all.len() - 1
                });
                (all[at].task, all[at].launched_ns) = (Some(task), Some(time_ns));
            }
            Event::TaskEnded { comm, number } => {
                if let Some(at) = find(&mut all, comm, number) {
                    all[at].enqueued_ns = Some(time_ns);
                }
            }
            Event::Kernel { comm, number, span } => {
                if let Some(at) = find(&mut all, comm, number) {
                    all[at].kernel.get_or_insert_default().merge(span);
                    if span.ended > 0 {
                        all[at].kernel_seen_ns = all[at].kernel_seen_ns.max(Some(time_ns));
                    }
                }
            }
            _ => {}
        }
    }
    all
}

/// Events of calls as a recorder makes them: each part once, after the one before it.
fn calls() -> impl Strategy<Value = Vec<TimedEvent>> {
    let one = (0_u32..2, shapes(), 0_u8..5, 0_usize..30);
    prop::collection::vec(one, 0..40).prop_map(|all| {
        let (mut placed, mut numbers) = (Vec::new(), [0_u64; 2]);
        for (at, (comm, shape, parts, later)) in all.into_iter().enumerate() {
            let number = numbers[comm as usize];
            numbers[comm as usize] += 1;
            let (is_captured, is_launch) = (false, false);
            let span = KernelSpan {
                begun: 1,
                ended: 1,
                start_ns: 7,
                stop_ns: 9,
            };
            let events = [
                Event::Call(CallBegun {
                    comm,
                    number,
                    ordinal: number,
                    shape,
                    is_captured,
                    is_launch,
                }),
                Event::Task(TaskBegun {
                    comm,
                    number,
                    call: number,
                    seq: None,
                    shape,
                }),
                Event::TaskEnded { comm, number },
                Event::Kernel { comm, number, span },
            ];
            for (part, event) in events.into_iter().take(usize::from(parts)).enumerate() {
                placed.push((at * 3 + part * (1 + later), event));
            }
        }
        placed.sort_by_key(|(at, _)| *at);
        let timed = |(at, event)| TimedEvent {
            time_ns: 1_000_000 + at as u64,
            event,
        };
        placed.into_iter().map(timed).collect()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in frames()) {
        let found = read(&write(&frames));
        prop_assert_eq!(&found.damage, &vec![]);
        prop_assert_eq!(found.events, frames.concat());
        for (number, comm) in found.comms {
            prop_assert_eq!(comm, facts(number));
        }
    }

    #[test]
    fn a_file_cut_anywhere_is_read_to_its_last_frame(frames in frames(), at in any::<prop::sample::Index>()) {
        let file = write(&frames);
        let cut = read(&file[..at.index(file.len())]);
        let all = frames.concat();
        prop_assert_eq!(&cut.events[..], &all[..cut.events.len()]);
        prop_assert!(cut.damage.len() <= 1 && cut.damage.iter().all(|damage| damage.is_end));
        let ends: Vec<usize> = (0..=frames.len()).map(|to| frames[..to].concat().len()).collect();
        prop_assert!(ends.contains(&cut.events.len()));
    }

    #[test]
    fn a_damaged_byte_makes_no_event(frames in frames(), at in any::<prop::sample::Index>(), with in 1_u8..) {
        let mut file = write(&frames);
        let at = at.index(file.len());
        file[at] ^= with;
        let found = read(&file);
        prop_assert!(!found.damage.is_empty());
        let all = frames.concat();
        let mut rest = all.iter();
        prop_assert!(found.events.iter().all(|event| rest.any(|known| known == event)));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(mut bytes in prop::collection::vec(any::<u8>(), 0..400), is in any::<bool>()) {
        if is {
            let body = std::mem::take(&mut bytes);
            bytes.extend_from_slice(MAGIC);
            append_frame(&mut bytes, FrameKind::Events, 0, &[&[1, 0][..], &body].concat());
        }
        let found = read_any(&bytes);
        let damaged: u64 = found.damage.iter().map(|damage| damage.bytes).sum();
        prop_assert!(damaged <= bytes.len() as u64);
    }

    #[test]
    fn calls_are_joined_as_the_naive_twin_does(events in calls(), has_kernels in any::<bool>()) {
        // Parts that come after a call is complete are none of it, unless kernels are awaited.
        let is_part = |timed: &&TimedEvent| has_kernels || !matches!(timed.event, Event::Kernel { .. });
        let events: Vec<TimedEvent> = events.iter().filter(is_part).copied().collect();
        let (mut joiner, mut joined) = (CallJoiner::new(has_kernels), Vec::new());
        for event in &events {
            joiner.add_event(0, event, |call| joined.push(*call));
        }
        joiner.finish(|call| joined.push(*call));
        prop_assert_eq!(joined, join_naively(&events));
    }
}

fn a_call(number: u64) -> [TimedEvent; 3] {
    let shape = RecordedShape {
        count: 4096,
        op: 4,
        datatype: 7,
        ..RecordedShape::default()
    };
    let task_shape = RecordedShape {
        channels: 16,
        algo: 1,
        proto: 2,
        ..shape
    };
    let (comm, is_captured, is_launch) = (0, false, false);
    let seq = Some(number);
    [
        Event::Call(CallBegun {
            comm,
            number,
            ordinal: number,
            shape,
            is_captured,
            is_launch,
        }),
        Event::Task(TaskBegun {
            comm,
            number,
            call: number,
            seq,
            shape: task_shape,
        }),
        Event::TaskEnded { comm, number },
    ]
    .map(|event| TimedEvent {
        time_ns: 1_000_000 + number * 7_000,
        event,
    })
}

#[test]
fn a_call_takes_at_most_24_bytes() {
    let frames: Vec<Vec<TimedEvent>> = (0..50)
        .map(|frame| (frame * 128..(frame + 1) * 128).flat_map(a_call).collect())
        .collect();
    let bytes = write(&frames).len();
    assert!(
        bytes < 50 * 128 * 16,
        "{} bytes a call",
        bytes as f64 / (50.0 * 128.0)
    );
}

#[test]
fn reading_goes_on_at_a_fresh_frame() {
    let frames: Vec<Vec<TimedEvent>> = (0..MAX_STALE_FRAMES as u64 * 2)
        .map(|n| a_call(n).to_vec())
        .collect();
    let mut file = write(&frames);
    let at = file.len() / 4;
    file[at] ^= 1;
    let found = read(&file);
    // The frames after the damaged one, up to the next fresh one, refer to what it may have defined.
    let missing = frames.len() - found.events.len() / 3;
    assert!(
        (1..=MAX_STALE_FRAMES as usize).contains(&missing),
        "{missing}"
    );
    assert_eq!(found.events.last(), frames.concat().last());
}

#[test]
fn a_file_of_false_frames_is_read_in_time() {
    let mut file = MAGIC.to_vec();
    for _ in 0..200_000 {
        file.extend_from_slice(b"\xf5NF\x02\0\0\0\0\0\0\x0f\0\0\0\0\0");
    }
    assert!(read(&file).events.is_empty());
}
