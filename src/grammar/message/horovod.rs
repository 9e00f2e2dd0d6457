//! Horovod's report of tensors that some ranks have submitted and others have not.
//!
//! ```text
//! Stalled ops:HorovodBroadcast_dense_bias_0 [missing ranks: 1, 3]
//! [2019-04-13 13:55:31.9: W horovod/common/operations.cc:588] HorovodBroadcast_dense_kernel_0 [missing ranks: 1]
//! Stalled ops: allreduce.conv1.weight [ready ranks: 1, 7, 5, 4, 6, 0], allreduce.bn1.bias [ready ranks: 1, 7, 5, 4, 6, 0]
//! 3: [HorovodAllreduce_gradients_0, HorovodAllreduce_gradients_1 ...]            the missing rank, since 0.19
//! ```
//!
//! From `operations.cc` and `stall_inspector.cc` in `horovod/common`.

use crate::token::dec_u32;
use memchr::memmem;

/// A tensor that waits for ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StalledTensor<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The ranks, as the line lists them.
    pub ranks: &'a [u8],
    /// The ranks have submitted it; else they have not.
    pub are_ready: bool,
}

impl<'a> StalledTensor<'a> {
    /// The listed ranks, up to the first word that is none.
    pub fn listed_ranks(&self) -> impl Iterator<Item = u32> + 'a {
        let each = self.ranks.split(|&b| b == b',').map(<[u8]>::trim_ascii);
        each.map_while(|rank| match dec_u32(rank) {
            Ok((b"", rank)) => Some(rank),
            _ => None,
        })
    }
}

const MISSING: &[u8] = b" [missing ranks: ";
const READY: &[u8] = b" [ready ranks: ";
/// What follows the rank in the report of newer versions.
const LISTED: [&[u8]; 4] = [
    b": [Horovod",
    b": [allreduce.",
    b": [broadcast.",
    b": [allgather.",
];

/// The tensors of a line, wherever it begins.
pub fn parse_stalled_tensors(line: &[u8]) -> impl Iterator<Item = StalledTensor<'_>> {
    let listed = parse_listed(line);
    let all = [(MISSING, false), (READY, true)].into_iter();
    let of_words = all.flat_map(move |(words, are_ready)| {
        memmem::find_iter(line, words).filter_map(move |at| {
            let ranks = &line[at + words.len()..];
            let ranks = &ranks[..memchr::memchr(b']', ranks)?];
            let name = line[..at].rsplit(|b| b" :,".contains(b)).next()?;
            Some(StalledTensor {
                name,
                ranks,
                are_ready,
            })
        })
    });
    listed.into_iter().chain(of_words)
}

/// `3: [HorovodAllreduce_x, ...`.
fn parse_listed(line: &[u8]) -> Option<StalledTensor<'_>> {
    let at = LISTED.iter().find_map(|words| memmem::find(line, words))?;
    let digits = line[..at].iter().rev().take_while(|b| b.is_ascii_digit());
    let rank = at - digits.count();
    let begins = rank == 0 || b" \t>:]|".contains(&line[rank - 1]);
    let name = &line[at + b": [".len()..];
    let end = name.iter().position(|b| b",]".contains(b));
    (rank < at && begins).then(|| StalledTensor {
        name: &name[..end.unwrap_or(name.len())],
        ranks: &line[rank..at],
        are_ready: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_names_the_ranks() {
        let of = |line: &'static str| -> Vec<(&str, Vec<u32>, bool)> {
            let all = parse_stalled_tensors(line.as_bytes());
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            all.map(|t| (text(t.name), t.listed_ranks().collect(), t.are_ready))
                .collect()
        };
        assert_eq!(
            of("[1,0]<stderr>:Stalled ops:HorovodBroadcast_dense_0 [missing ranks: 1, 3]"),
            [("HorovodBroadcast_dense_0", vec![1, 3], false)]
        );
        assert_eq!(
            of("Stalled ops: allreduce.a [ready ranks: 1, 0], allreduce.b [ready ranks: 0, 2]"),
            [
                ("allreduce.a", vec![1, 0], true),
                ("allreduce.b", vec![0, 2], true)
            ]
        );
        assert_eq!(
            of("3: [HorovodAllreduce_x_0, HorovodAllreduce_y_0 ...]"),
            [("HorovodAllreduce_x_0", vec![3], false)]
        );
        for none in ["x [missing ranks: 1", "map: [allreduce.x]", "[ready ranks"] {
            assert!(
                of(none).iter().all(|(_, ranks, _)| ranks.is_empty()),
                "{none}"
            );
        }
    }
}
