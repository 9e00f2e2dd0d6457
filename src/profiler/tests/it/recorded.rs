//! What is in the files of a folder.

use crate::truth::TrueCall;
use nccl_pipe_recording::{
    CallJoiner, CommFacts, Event, ProcessFacts, ProxyEnded, RecordingCall, RecordingDamage,
    RecordingItem, RecordingReader,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) process: ProcessFacts,
    pub(crate) comms: BTreeMap<u32, CommFacts>,
    pub(crate) calls: Vec<RecordingCall>,
    pub(crate) proxies: Vec<ProxyEnded>,
    pub(crate) comms_ended: usize,
    pub(crate) dropped: u64,
    pub(crate) events: u64,
    /// Events that are counts of drops.
    pub(crate) drop_events: u64,
    pub(crate) damage: Vec<RecordingDamage>,
    pub(crate) has_end: bool,
    pub(crate) bytes: u64,
}

/// Reads the files of a folder, the smallest process first.
pub(crate) fn read_folder(folder: &Path) -> Vec<Recorded> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<Recorded> = entries
        .map(|entry| read_file(&entry.unwrap().path()))
        .collect();
    all.sort_by_key(|file| file.process.pid);
    all
}

fn read_file(path: &Path) -> Recorded {
    let file = File::open(path).unwrap();
    let mut found = Recorded {
        bytes: file.metadata().unwrap().len(),
        ..Recorded::default()
    };
    let mut reader = RecordingReader::new(BufReader::new(file));
    let (mut joiner, mut calls) = (None, Vec::new());
    while reader
        .read_frame(|item| match item {
            RecordingItem::Process(process) => {
                found.process = process.clone();
                joiner = Some(CallJoiner::new(process.event_mask & 64 != 0));
            }
            RecordingItem::Comm(number, facts) => _ = found.comms.insert(number, facts),
            RecordingItem::Event(thread, timed) => {
                found.events += 1;
                match timed.event {
                    Event::Dropped(count) => {
                        found.dropped += count;
                        found.drop_events += 1;
                    }
                    Event::CommEnded(_) => found.comms_ended += 1,
                    Event::Proxy(ended) => found.proxies.push(ended),
                    _ => {}
                }
                joiner
                    .as_mut()
                    .unwrap()
                    .add_event(thread, &timed, |call| calls.push(*call));
            }
            RecordingItem::Damage(damage) => found.damage.push(damage),
            RecordingItem::End => found.has_end = true,
        })
        .unwrap()
    {}
    if let Some(mut joiner) = joiner {
        joiner.finish(|call| calls.push(*call));
    }
    found.calls = calls;
    found
}

impl Recorded {
    /// Returns the calls of the communicator with a hash, in the order of their numbers.
    pub(crate) fn calls_of(&self, id: u64) -> Vec<RecordingCall> {
        let comm = self.comms.iter().find(|(_, facts)| facts.id == id);
        let comm = *comm.unwrap_or_else(|| panic!("{id:x}: {:?}", self.comms)).0;
        let mut calls: Vec<RecordingCall> = self
            .calls
            .iter()
            .filter(|call| call.comm() == comm)
            .copied()
            .collect();
        calls.sort_by_key(|call| call.call.map(|call| call.number));
        calls
    }
}

/// Compares calls of one communicator with the truth, call by call.
pub(crate) fn assert_equal(calls: &[RecordingCall], truth: &[TrueCall], version: u32) {
    assert_eq!(calls.len(), truth.len());
    let mut ordinals = [0_u64; 2];
    for (number, (joined, truth)) in calls.iter().zip(truth).enumerate() {
        let (call, task) = (joined.call.unwrap(), joined.task.unwrap());
        let ordinal = &mut ordinals[usize::from(truth.seq.is_none())];
        assert_eq!((call.number, call.ordinal), (number as u64, *ordinal));
        *ordinal += 1;
        for shape in [call.shape, task.shape] {
            assert_eq!(
                (shape.op, shape.count, shape.datatype),
                (truth.op, truth.count, truth.datatype)
            );
        }
        assert_eq!(task.seq, truth.seq);
        assert_eq!(
            (task.shape.algo, task.shape.proto),
            (truth.algo, truth.proto)
        );
        assert_eq!(task.shape.peer, truth.peer);
        // Interfaces 1 to 3 do not have the channels of a message.
        if truth.seq.is_some() || version >= 4 {
            assert_eq!(task.shape.channels, truth.channels);
        }
        assert_eq!(call.is_launch, version < 5);
        if version >= 5 {
            assert_eq!(call.shape.stream, 0x7f12_3456_7890);
        }
        assert!(joined.begun_ns <= joined.launched_ns.unwrap());
        assert!(joined.launched_ns <= joined.enqueued_ns);
    }
}
