//! The rank of a process, by the name of its file or by a line before its stacks.

use super::limits::{MAX_RANK_DIGITS, MAX_RANK_LINE_BYTES};

/// Finds the rank in the name of a file: `rank3`, `rank_3`, or the last number in `stack.3.txt`. A number that is
/// the process id is none, and one that begins the name may be the number of anything.
pub(super) fn find_rank_in_name(name: &str, pid: Option<u64>) -> Option<u32> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    find_named_rank(file).or_else(|| {
        let words = file.split(['.', '_', '-', ' ']).skip(1);
        let numbers = words.filter_map(parse_rank);
        let rank = numbers.last()?;
        (pid != Some(u64::from(rank))).then_some(rank)
    })
}

/// Finds the rank in the name of a file after the word `rank`.
pub(super) fn find_word_rank_in_name(name: &str) -> Option<u32> {
    find_named_rank(name.rsplit(['/', '\\']).next().unwrap_or(name))
}

/// Finds the rank in a line that a person's script printed before the stacks: `=== rank 3 ===`.
pub(super) fn find_rank_in_line(line: &str) -> Option<u32> {
    (line.len() <= MAX_RANK_LINE_BYTES).then(|| find_named_rank(line))?
}

/// Finds a number after the word `rank`.
fn find_named_rank(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let mut rest = &lower[..];
    while let Some(at) = rest.find("rank") {
        let is_local = rest[..at].ends_with("local_") || rest[..at].ends_with("local-");
        rest = &rest[at + 4..];
        let after = rest.trim_start_matches(['_', '-', '.', '=', ':', ' ', '#']);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 && !is_local {
            return parse_rank(&after[..digits]);
        }
    }
    None
}

fn parse_rank(text: &str) -> Option<u32> {
    let is_short = text.len() <= MAX_RANK_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    is_short.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_found_in_a_name() {
        for (name, rank) in [
            ("stack.rank3.txt", Some(3)),
            ("a/rank_12/py-spy.txt", None),
            ("Rank-07.json", Some(7)),
            ("stacks.3.txt", Some(3)),
            ("3.txt", None),
            ("node1_local_rank_2.txt", Some(2)),
            ("dump_603.txt", None),
            ("stack.txt", None),
            ("rank99999999999.txt", None),
        ] {
            assert_eq!(find_rank_in_name(name, Some(603)), rank, "{name}");
        }
        assert_eq!(find_rank_in_line("=== rank 3 ==="), Some(3));
        assert_eq!(find_rank_in_line("Thread 603 (idle)"), None);
    }
}
