//! The words that betray a record, found in one pass, and who reads the record around each.

use aho_corasick::{AhoCorasick, MatchKind, packed};

use super::Found;
use super::piece::Piece;
use super::{bar, between, deepspeed, fairseq, litgpt, maxtext, megatron, mlperf, nanotron, nemo};
use super::{described, other, reinforce, torchtitan};

/// Reads the record around an anchor, or refuses it.
pub(super) type Reader = fn(&Piece<'_>, usize) -> Option<Found>;

/// Words of which one stands in every record, and who reads the record. None holds another, so that
/// one pass without overlaps finds them all; several trainers share a word for the same reason.
/// None is shorter than four bytes, by which the vector search tells them apart.
const ANCHORS: &[(&[u8], Reader)] = &[
    (nemo::ANCHOR, nemo::printed),
    (bar::SLOW, bar::around),
    (bar::FAST, bar::around),
    (described::TIMING, bar::around),
    (megatron::ELAPSED, megatron::iteration),
    (megatron::CONSUMED, megatron::iteration),
    (megatron::STEP_TIME, megatron::step_time),
    (b"step:", step_colon),
    (b"step=", step_equals),
    (nanotron::ANCHOR, nanotron::iteration),
    (other::BATCH, other::composer),
    (reinforce::GLOBAL, reinforce::openrlhf),
    (fairseq::ANCHOR, fairseq::updates),
    (litgpt::ANCHOR, litgpt::closed),
    (litgpt::NANO, litgpt::nano),
    (litgpt::VAL, litgpt::validated),
    (mlperf::ANCHOR, mlperf::record),
    (other::STEP_TIME, other::colossal),
    (other::LOSS, other::torchtune),
    (deepspeed::SAMPLES, deepspeed::old_timer),
    (deepspeed::PIPELINE, deepspeed::pipeline),
    (between::MEGATRON_LOSS, between::sentence),
    (between::NEMO_VALIDATION, between::nemo),
    (between::NEMO_TEST, between::nemo),
    (between::HF_EVAL, between::hugging_face),
    (between::MEGATRON_SAVED, between::sentence),
    (between::SAVED, between::sentence),
    (between::TITAN_SAVED, between::sentence),
];

/// MaxText, verl and torchtitan with its validation.
fn step_colon(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    maxtext::completed(piece, hit)
        .or_else(|| reinforce::verl(piece, hit))
        .or_else(|| {
            piece
                .word_at(hit)
                .then(|| torchtitan::step(piece, hit))
                .flatten()
        })
}

/// DeepSpeed's engine and timer, OLMo, and NeMo 1's bar.
fn step_equals(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    deepspeed::engine(piece, hit)
        .or_else(|| deepspeed::timer(piece, hit))
        .or_else(|| other::olmo(piece, hit))
        .or_else(|| bar::around(piece, hit))
}

/// The search for the anchors, with vector instructions where the machine has them.
#[derive(Debug, Clone)]
pub(super) enum Anchors {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
    /// Never for these anchors; the builder's error has nowhere better to go.
    Naive,
}

impl Anchors {
    /// The search for every trainer's anchors.
    pub(super) fn new() -> Anchors {
        let words = || ANCHORS.iter().map(|(word, _)| word);
        if let Some(searcher) = packed::Searcher::new(words()) {
            return Anchors::Packed(searcher);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(words());
        automaton.map_or(Anchors::Naive, Anchors::Automaton)
    }

    /// The next anchor from `at` on: where it stands, where it ends and who reads it.
    pub(super) fn next(&self, text: &[u8], at: usize) -> Option<(usize, usize, Reader)> {
        let (start, end, which) = self.place(text, at)?;
        ANCHORS.get(which).map(|&(_, read)| (start, end, read))
    }

    fn place(&self, text: &[u8], at: usize) -> Option<(usize, usize, usize)> {
        let rest = text.get(at..)?;
        let found = match self {
            Anchors::Packed(searcher) => searcher.find(rest),
            Anchors::Automaton(automaton) => automaton.find(rest),
            Anchors::Naive => {
                return ANCHORS
                    .iter()
                    .enumerate()
                    .filter_map(|(which, (word, _))| {
                        let start = at + memchr::memmem::find(rest, word)?;
                        Some((start, start + word.len(), which))
                    })
                    .min();
            }
        }?;
        Some((
            at + found.start(),
            at + found.end(),
            found.pattern().as_usize(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_anchor_holds_another() {
        assert!(ANCHORS.iter().all(|(word, _)| word.len() >= 4));
        for (at, (word, _)) in ANCHORS.iter().enumerate() {
            for (other, _) in ANCHORS.iter().skip(at + 1) {
                let (long, short) = if word.len() < other.len() {
                    (other, word)
                } else {
                    (word, other)
                };
                assert!(
                    memchr::memmem::find(long, short).is_none(),
                    "{word:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn every_search_finds_the_same_anchors() {
        let words = || ANCHORS.iter().map(|(word, _)| word);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(words())
            .unwrap();
        let searches = [
            Anchors::new(),
            Anchors::Automaton(automaton),
            Anchors::Naive,
        ];
        let text = words().fold(Vec::new(), |text, word| [&text[..], b" x ", word].concat());
        for search in searches {
            let (mut at, mut which) = (0, Vec::new());
            while let Some((_, end, word)) = search.place(&text, at) {
                which.push(word);
                at = end;
            }
            assert_eq!(which, (0..ANCHORS.len()).collect::<Vec<_>>());
        }
    }
}
