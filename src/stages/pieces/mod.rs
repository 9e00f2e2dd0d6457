//! A made log walked in pieces of any size, each as if another machine had walked it: the results must not
//! depend on the pieces.

#[cfg(test)]
mod tests;

use crate::grammar::trainer::Recogniser;
use crate::log::walk::{self, ChunkResult, LogVisitor};
use crate::log::{LogState, MergedChunk};
use crate::members::{MergedMembers, MergedNumbers};
use crate::source::CutPlace;
use crate::stages::InputStage;
use crate::synth::{self, StreamSink};
use crate::testing::sent;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::LazyLock;

/// Returns the log of a job with all kinds of lines.
pub(super) fn made(nccl: &str) -> Vec<u8> {
    log(options(nccl))
}

fn options(nccl: &str) -> synth::Options {
    synth::Options {
        ranks: 8,
        nodes: 2,
        tp: 2,
        pp: 2,
        layers: 2,
        steps: 2,
        nccl: nccl.parse().unwrap(),
        net: Some(synth::options::SynthNet::Ib),
        nvls: true,
        tuning: true,
        ..synth::Options::default()
    }
}

/// Returns a log with time stamps on all calls and some torn lines.
pub(crate) fn stamped() -> Vec<u8> {
    log(synth::Options {
        timestamps: synth::options::Timestamps::Iso,
        damage: vec![(synth::options::Damage::Torn, 0.02)],
        tuning: false,
        ..options("2.29")
    })
}

fn log(options: synth::Options) -> Vec<u8> {
    let mut bytes = Vec::new();
    synth::generate(&options, &mut StreamSink::new(&mut bytes)).unwrap();
    bytes
}

/// Walks `log` in pieces of about `size` bytes, cut at line ends. A few are serialized and read again.
pub(crate) fn walk<V: LogVisitor + Serialize + DeserializeOwned>(
    log: &[u8],
    size: usize,
    new: impl Fn() -> V,
    take: impl FnMut(MergedChunk<'_, V>),
) -> MergedMembers {
    read(log, size, new, take).1
}

/// Like [`walk`]; returns also the state of the log.
fn read<V: LogVisitor + Serialize + DeserializeOwned>(
    log: &[u8],
    size: usize,
    new: impl Fn() -> V,
    take: impl FnMut(MergedChunk<'_, V>),
) -> (LogState, MergedMembers) {
    let mut merged = MergedMembers::default();
    (read_after(&mut merged, log, size, new, take), merged)
}

/// Like [`walk`] for a log that is read after others.
pub(crate) fn read_after<V: LogVisitor + Serialize + DeserializeOwned>(
    merged: &mut MergedMembers,
    log: &[u8],
    size: usize,
    new: impl Fn() -> V,
    mut take: impl FnMut(MergedChunk<'_, V>),
) -> LogState {
    let mut whole = LogState::default();
    let mut to = MergedNumbers::default();
    let mut from = 0;
    while from < log.len() {
        let near = (from + size).min(log.len());
        let end = log[near..].iter().position(|&b| b == b'\n');
        let end = end.map_or(log.len(), |at| near + at + 1);
        let piece = &log[from..end];
        let place = walk::ChunkPlace {
            offset: from as u64,
            is_quiet: is_quiet_after(&log[..from]),
        };
        let scanned: ChunkResult<V> =
            walk::walk_bytes(piece, place, &Recogniser::all(), false, new());
        // Sending takes longer than walking, so only few pieces are sent.
        let scanned = match size < log.len() && log.len() / size < 8 {
            true => sent(&scanned),
            false => scanned,
        };
        take(whole.add_chunk(scanned, merged, &mut to));
        from = end;
    }
    whole.end_log();
    whole
}

/// Returns whether no line waits for its tail after `before`, by as much of it as a cut is looked at by.
fn is_quiet_after(before: &[u8]) -> bool {
    let back = before.len().saturating_sub(48 << 10);
    let start = match back {
        0 => 0,
        _ => memchr::memchr(b'\n', &before[back..]).map_or(back, |at| back + at + 1),
    };
    walk::classify_cut(&before[start..], start == 0) == CutPlace::Quiet
}

/// Reads `files` into a stage, each in `pieces` that are sent, as if other machines had walked them; `end` gets
/// each file after its last piece.
pub(crate) fn read_apart<S: InputStage<Visit: Serialize + DeserializeOwned>>(
    stage: &mut S,
    files: &[Vec<u8>],
    pieces: usize,
    new: impl Fn() -> S::Visit,
    mut end: impl FnMut(&mut S, usize, LogState, &MergedMembers),
) -> MergedMembers {
    let mut merged = MergedMembers::default();
    for (at, file) in files.iter().enumerate() {
        merged.begin_next_input();
        stage.begin_input(at.to_string());
        let size = file.len().div_ceil(pieces).max(1);
        let log = read_after(&mut merged, file, size, &new, |part| stage.add_chunk(part));
        end(stage, at, log, &merged);
    }
    merged
}

/// The files of jobs: one without a fault, and some with one.
pub(crate) static JOBS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let of = |fault: Option<&str>| {
        files(&log(synth::Options {
            fault: fault.map(|fault| fault.parse().unwrap()),
            ..options("2.30")
        }))
    };
    let faults = [Some("count"), Some("stall,watchdog=on"), Some("recv")];
    std::iter::once(None).chain(faults).map(of).collect()
});

/// Divides a log into a file for each process; the first one has all lines without a header.
fn files(log: &[u8]) -> Vec<Vec<u8>> {
    let speaker = |line: &[u8]| {
        memchr::memmem::find(line, b" NCCL ")?;
        let pid = line.iter().position(|&b| b == b':')? + 1;
        let end = line[pid..].iter().position(|&b| b == b':')?;
        Some(line[..pid + end].to_vec())
    };
    let lines = || log.split_inclusive(|&b| b == b'\n');
    let mut files: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for name in lines().filter_map(speaker) {
        if !files.iter().any(|file| file.0 == name) {
            files.push((name, Vec::new()));
        }
    }
    for line in lines() {
        let name = speaker(line);
        let own = files.iter().position(|file| name.as_ref() == Some(&file.0));
        files[own.unwrap_or(0)].1.extend_from_slice(line);
    }
    files.into_iter().map(|file| file.1).collect()
}
