//! The trees of a communicator.
//!
//! ```text
//! Trees [0] 1/-1/-1->0->-1 [1] ...            children -> rank -> parent
//! Trees [0] 15/-1/-1->12->8|8->12->15/-1/-1   2.5-2.7: up, then down
//! Trees [0] 0->2->3/-1/-1                     2.4: parent -> rank -> children
//! Tree 0 : -1 -> 0 -> 1/-1/-1
//! ```
//!
//! From `src/init.cc` and `src/graph/connect.cc`. NCCL's own buffer cuts the list at 1,022 bytes, and its
//! line at 1,023 with the header; RCCL's buffer at 2,047, with a whole tail after.

use crate::message::communicator::rccl_tail::{RcclTail, split_rccl_tail};
use crate::token::{PResult, dec_i32, dec_u32, fail, whole, word};
use memchr::memmem;

/// A rank's place in the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeList<'a> {
    list: &'a [u8],
    /// The line was cut: there may be more trees.
    pub cut: bool,
    /// The communicator; printed by RCCL.
    pub of: Option<RcclTail>,
}

/// A rank's place in one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreePosition {
    /// The tree.
    pub index: u32,
    /// The rank.
    pub rank: u32,
    /// The rank it hands on to.
    pub parent: Option<u32>,
    /// The ranks it takes from.
    pub children: [Option<u32>; 3],
}

impl<'a> TreeList<'a> {
    /// The trees in the line's order.
    pub fn iter(&self) -> impl Iterator<Item = TreePosition> + use<'a> {
        let mut rest = self.list;
        std::iter::from_fn(move || {
            let (after, tree) = tree(rest).ok()?;
            rest = after;
            Some(tree)
        })
    }
}

/// Where NCCL's and RCCL's own buffers for the trees end.
const NCCL_TREES_BUFFER_END: usize = 1018;
const RCCL_TREES_BUFFER_END: usize = 2040;

/// True for the bytes of a list of trees.
fn is_tree_byte(b: u8) -> bool {
    b.is_ascii_digit() || b"-/>|[] ".contains(&b)
}

/// Reads the trees after `Trees`. `cut` is true if the line's end is missing.
pub(crate) fn parse_trees(text: &[u8], cut: bool) -> Option<TreeList<'_>> {
    let (list, of) = if cut {
        (text, None)
    } else {
        split_rccl_tail(text)
    };
    let longest = if of.is_some() {
        RCCL_TREES_BUFFER_END
    } else {
        NCCL_TREES_BUFFER_END
    };
    let (mut rest, mut last) = (list, list);
    while let Ok((after, _)) = tree(rest) {
        (last, rest) = (rest, after);
    }
    // All have both directions or none has.
    let twice = |item: &[u8]| memchr::memchr(b'|', item).is_some();
    let first_is = memmem::find(&list[1.min(list.len())..], b" [").map(|end| twice(&list[..end]));
    let half = rest.is_empty() && first_is.is_some_and(|first| first != twice(last));
    let end = if cut || half || list.len() >= longest {
        // The last one may be half a number.
        Some(memmem::rfind(list, b" [")?)
    } else {
        (!rest.is_empty()).then_some(list.len() - rest.len())
    };
    if !rest.iter().all(|&b| is_tree_byte(b)) {
        return None;
    }
    let (list, cut) = end.map_or((list, false), |end| (&list[..end], true));
    let trees = TreeList { list, cut, of };
    trees.iter().next().map(|_| trees)
}

/// ` [0] 1/-1/-1->0->-1` and the older shapes.
fn tree(input: &[u8]) -> PResult<'_, TreePosition> {
    let (i, _) = word(" [", "a tree's number")(input)?;
    let (i, index) = dec_u32(i)?;
    let (i, _) = word("] ", "the end of a tree's number")(i)?;
    let (i, tree) = tree_around_arrow(i, index, "->")?;
    // Up and down repeat each other.
    match i.strip_prefix(b"|") {
        Some(i) => tree_around_arrow(i, index, "->"),
        None => Ok((i, tree)),
    }
}

/// `children->rank->parent` or `parent->rank->children`: the children are those with strokes.
fn tree_around_arrow<'a>(
    input: &'a [u8],
    index: u32,
    arrow: &'static str,
) -> PResult<'a, TreePosition> {
    let (i, left) = tree_neighbours(input)?;
    let (i, _) = word(arrow, "the rank")(i)?;
    let (i, rank) = dec_u32(i)?;
    let (i, _) = word(arrow, "the other side")(i)?;
    let (i, right) = tree_neighbours(i)?;
    let (children, parent) = match (left, right) {
        ((children, true), (parent, false)) | ((parent, false), (children, true)) => {
            (children, parent[0])
        }
        _ => return fail(input, "children and a parent"),
    };
    Ok((
        i,
        TreePosition {
            index,
            rank,
            parent,
            children,
        },
    ))
}

/// `1/-1/-1` or `-1`, and whether it is three.
fn tree_neighbours(input: &[u8]) -> PResult<'_, ([Option<u32>; 3], bool)> {
    let rank = |input| dec_i32(input).map(|(i, n)| (i, u32::try_from(n).ok()));
    let (i, first) = rank(input)?;
    let Some(i) = i.strip_prefix(b"/") else {
        return Ok((i, ([first, None, None], false)));
    };
    let (i, second) = rank(i)?;
    let (i, _) = word("/", "a third child")(i)?;
    let (i, third) = rank(i)?;
    Ok((i, ([first, second, third], true)))
}

/// The tree after `Tree `: `0 : -1 -> 0 -> 1/-1/-1`.
pub(crate) fn parse_single_tree(text: &[u8]) -> Option<TreePosition> {
    let (text, _) = split_rccl_tail(text);
    let (i, index) = dec_u32(text).ok()?;
    let (i, _) = word(" : ", "a colon")(i).ok()?;
    whole(tree_around_arrow(i, index, " -> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees_of(text: &'static str) -> Vec<TreePosition> {
        let trees = parse_trees(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"));
        assert!(!trees.cut, "{text}");
        trees.iter().collect()
    }

    #[test]
    fn trees_of_all_versions_say_parent_and_children() {
        let (index, rank, parent) = (0, 12, Some(8));
        let children = [Some(15), Some(3), None];
        let tree = TreePosition {
            index,
            rank,
            parent,
            children,
        };
        assert_eq!(trees_of(" [0] 15/3/-1->12->8"), [tree]);
        assert_eq!(trees_of(" [0] 15/3/-1->12->8|8->12->15/3/-1"), [tree]);
        assert_eq!(trees_of(" [0] 8->12->15/3/-1"), [tree]);
        assert_eq!(parse_single_tree(b"0 : 8 -> 12 -> 15/3/-1"), Some(tree));
        let two = " [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1 comm 0x3d nRanks 02 busId 97000";
        let list = trees_of(two);
        assert_eq!(
            (list.len(), list[0].parent, list[1].parent),
            (2, None, Some(1))
        );
    }

    #[test]
    fn of_cut_trees_only_whole_ones_are_given() {
        let line = b" [0] 15/-1/-1->12->8 [1] 8/-1/-1->12->15 [2] 15/-1/-1->12->88";
        let all: Vec<_> = parse_trees(line, false).unwrap().iter().collect();
        for cut in 0..line.len() {
            if let Some(trees) = parse_trees(&line[..cut], true) {
                let got: Vec<_> = trees.iter().collect();
                assert!(trees.cut && all.starts_with(&got), "{cut} {got:?}");
            }
        }
        // RCCL's own buffer is full, and a tail follows.
        let mut long = b"".to_vec();
        let mut n = 0;
        while long.len() < 2045 {
            long.extend_from_slice(format!(" [{n}] -1/-1/-1->0->12").as_bytes());
            n += 1;
        }
        long.extend_from_slice(b" comm 0x3d nRanks 02 busId 97000");
        let full = parse_trees(&long, false).unwrap();
        assert_eq!((full.cut, full.iter().count()), (true, n - 1));
    }

    #[test]
    fn a_cut_that_shows_is_flagged() {
        for text in [
            " [0] 1/-1/-1->0->-1 [1] -1/-1/-1",
            " [0] 1/-1/-1->0->-1 [1",
            " [0] 1/-1/-1->0->-1|-1->0->1/-1/-1 [1] 1/-1/-1->0->1",
            " [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0-> comm 0x3d nRanks 01 busId 77000",
        ] {
            let trees = parse_trees(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((trees.cut, trees.iter().count()), (true, 1), "{text}");
        }
        assert_eq!(parse_trees(b" [0] 1/-1/-1->0->-1 [1] host1:5", false), None);
    }
}
