//! The rank of a process, by the name of its file or by a line before its stacks.

use super::limits::{MAX_COUNTED_PROCESSES, MAX_RANK_DIGITS, MAX_RANK_LINE_BYTES};

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

/// Finds the number of processes in a person's label before a stack: `6 processes are in:`, `2 of them:`.
pub(super) fn find_count_in_label(line: &str) -> Option<u32> {
    let label = line
        .trim_end()
        .trim_end_matches(['*', '`'])
        .strip_suffix(':')?;
    let words: Vec<&str> = label.split([' ', '(']).collect();
    let counted = words.windows(2).find_map(|pair| {
        let begins = ["process", "procs", "rank", "worker", "GPU", "of"];
        let is_noun = begins.iter().any(|noun| pair[1].starts_with(noun));
        pair[0].parse::<u32>().ok().filter(|_| is_noun)
    });
    counted.filter(|count| (2..=MAX_COUNTED_PROCESSES).contains(count))
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

    #[test]
    fn a_label_counts_processes() {
        for (line, count) in [
            ("6 processes are in:", Some(6)),
            ("**The other 3 ranks:**", Some(3)),
            ("2 of them:", Some(2)),
            ("on node 4 (7 workers):", Some(7)),
            ("6 processes are in train", None),
            ("after 900 steps:", None),
            ("99999999 processes:", None),
        ] {
            assert_eq!(find_count_in_label(line), count, "{line}");
        }
    }
}
