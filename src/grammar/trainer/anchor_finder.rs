//! Finds the words that betray a record in one pass, each with the readers of the record around it.

use super::facts::RecordReader;
use aho_corasick::{AhoCorasick, MatchKind, packed};

use super::parts::piece::LinePiece;
use super::{Trainer, TrainerRecord, evaluations_and_saves, launcher};

/// Returns every word once, with all readers of a record around it. No word contains another, so
/// that one pass without overlaps finds them all. None is shorter than four bytes, which the vector
/// search compares first.
fn collect_words() -> Vec<(&'static [u8], Vec<RecordReader>)> {
    let mut words: Vec<(&[u8], Vec<RecordReader>)> = Vec::new();
    let trainers = Trainer::all().flat_map(|trainer| trainer.facts().words);
    for &(word, read) in trainers
        .chain(evaluations_and_saves::EVALUATION_AND_SAVE_ANCHORS)
        .chain(launcher::LAUNCHER_ANCHORS)
    {
        match words.iter_mut().find(|(known, _)| *known == word) {
            Some((_, readers)) => readers.push(read),
            None => words.push((word, vec![read])),
        }
    }
    order_for_buckets(words)
}

/// Orders the words for the vector search (aho-corasick 1.1, `packed/teddy/generic.rs`), which puts
/// every eighth word into one bucket, or every sixteenth if there are more than 32, and looks closer
/// wherever the halves of four bytes are those of some words in a bucket. Words that begin alike
/// share a bucket to make that rare. 54 words were searched as quickly as 32 (0.94 and 1.01 GB/s); beyond
/// 64 the library refuses and the automaton is used.
fn order_for_buckets<T>(mut words: Vec<(&'static [u8], T)>) -> Vec<(&'static [u8], T)> {
    let bucket_count = if words.len() > 32 { 16 } else { 8 };
    let halves = |word: &[u8]| {
        let first = word.iter().take(4);
        let high: Vec<u8> = first.clone().map(|b| b >> 4).collect();
        let low: Vec<u8> = first.map(|b| b & 15).collect();
        (high, low)
    };
    words.sort_by_key(|(word, _)| halves(word));
    let all = words.len();
    let mut buckets: Vec<_> = (0..bucket_count).map(|_| Vec::new()).collect();
    for (at, word) in words.into_iter().enumerate() {
        buckets[at * bucket_count / all].push(word);
    }
    buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.len()));
    let mut buckets: Vec<_> = buckets.into_iter().map(Vec::into_iter).collect();
    let mut ordered = Vec::with_capacity(all);
    while ordered.len() < all {
        ordered.extend(buckets.iter_mut().filter_map(Iterator::next));
    }
    ordered
}

/// The search for the anchors.
#[derive(Debug, Clone)]
pub(super) struct AnchorFinder {
    search: AnchorSearch,
    words: Vec<(&'static [u8], Vec<RecordReader>)>,
}

/// With vector instructions where the machine has them.
#[derive(Debug, Clone)]
enum AnchorSearch {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
    /// Never for these anchors; the builder's error has nowhere better to go.
    Naive,
}

impl AnchorSearch {
    fn build_automaton(words: &[(&[u8], Vec<RecordReader>)]) -> AnchorSearch {
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(words.iter().map(|(word, _)| word))
            .map_or(AnchorSearch::Naive, AnchorSearch::Automaton)
    }
}

/// An anchor in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnchorHit<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    readers: &'a [RecordReader],
}

impl AnchorHit<'_> {
    /// Returns the record around it, from the first reader that knows its shape.
    pub(super) fn read_record(&self, piece: &LinePiece<'_>) -> Option<TrainerRecord> {
        self.readers.iter().find_map(|read| read(piece, self.start))
    }
}

impl AnchorFinder {
    /// The search for every trainer's anchors.
    pub(super) fn new() -> AnchorFinder {
        let words = collect_words();
        let packed = packed::Searcher::new(words.iter().map(|(word, _)| word));
        let search = packed.map_or_else(
            || AnchorSearch::build_automaton(&words),
            AnchorSearch::Packed,
        );
        AnchorFinder { search, words }
    }

    /// The next anchor from `at` on.
    pub(super) fn find_next(&self, text: &[u8], at: usize) -> Option<AnchorHit<'_>> {
        let (start, end, which) = self.find_word(text, at)?;
        let (_, readers) = self.words.get(which)?;
        Some(AnchorHit {
            start,
            end,
            readers,
        })
    }

    fn find_word(&self, text: &[u8], at: usize) -> Option<(usize, usize, usize)> {
        let rest = text.get(at..)?;
        let found = match &self.search {
            AnchorSearch::Packed(searcher) => searcher.find(rest),
            AnchorSearch::Automaton(automaton) => automaton.find(rest),
            AnchorSearch::Naive => {
                return self
                    .words
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
        let words = collect_words();
        assert!(words.iter().all(|(word, _)| word.len() >= 4));
        // The vector search refuses more.
        assert!(words.len() <= 64, "{}", words.len());
        for (at, (word, _)) in words.iter().enumerate() {
            for (other, _) in words.iter().skip(at + 1) {
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
        let words = collect_words();
        let text = words.iter().fold(Vec::new(), |text, (word, _)| {
            [&text[..], word, b" x "].concat()
        });
        for search in [
            AnchorFinder::new().search,
            AnchorSearch::build_automaton(&words),
            AnchorSearch::Naive,
        ] {
            let anchors = AnchorFinder {
                search,
                words: words.clone(),
            };
            let (mut at, mut which) = (0, Vec::new());
            while let Some((_, end, word)) = anchors.find_word(&text, at) {
                which.push(word);
                at = end;
            }
            assert_eq!(which, (0..words.len()).collect::<Vec<_>>());
        }
    }
}
