//! A made log walked in pieces of any size: what comes out must not depend on them.

use crate::formats::log::walk::{self, Visit};
use crate::formats::log::{Log, Part};
use crate::grammar::trainer::Recogniser;
use crate::members::{Merged, Renumbered};
use crate::source::Place;
use crate::synth::{self, StreamSink};

/// The log of a job with all kinds of lines.
pub(super) fn made(nccl: &str) -> Vec<u8> {
    let options = synth::Options {
        ranks: 8,
        nodes: 2,
        tp: 2,
        pp: 2,
        layers: 2,
        steps: 2,
        nccl: nccl.parse().unwrap(),
        net: Some(synth::options::Net::Ib),
        nvls: true,
        tuning: true,
        ..synth::Options::default()
    };
    let mut bytes = Vec::new();
    synth::generate(&options, &mut StreamSink::new(&mut bytes)).unwrap();
    bytes
}

/// Walks `log` in pieces of about `size` bytes, cut at line ends.
pub(super) fn walk<V: Visit>(
    log: &[u8],
    size: usize,
    new: impl Fn() -> V,
    mut take: impl FnMut(Part<'_, V>),
) -> Merged {
    let (mut merged, mut whole) = (Merged::default(), Log::default());
    let (mut to, mut joined) = (Renumbered::default(), Vec::new());
    let mut from = 0;
    while from < log.len() {
        let near = (from + size).min(log.len());
        let end = log[near..].iter().position(|&b| b == b'\n');
        let end = end.map_or(log.len(), |at| near + at + 1);
        let (piece, offset) = (&log[from..end], from as u64);
        let quiet = walk::place(&log[..from], true) == Place::Quiet;
        let scanned = walk::scan(piece, (offset, quiet), &Recogniser::all(), false, new());
        take(whole.add(scanned, &mut merged, &mut to, &mut joined));
        from = end;
    }
    whole.end();
    merged
}
