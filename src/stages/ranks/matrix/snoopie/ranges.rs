//! The range of an address. The tool never removes a range from its list and takes the first that contains the
//! address: if ranges overlap, memory was freed and reused.

use crate::formats::snoopie::tables::MemoryRange;

/// Ranges cut into parts that do not overlap, each with the first range that contains it.
#[derive(Debug, Default)]
pub(super) struct AddressRanges {
    /// First byte, end, and number of the range, by rising address.
    parts: Vec<(u64, u64, usize)>,
    /// The part that was found last: successive accesses are often in one part.
    last: usize,
}

impl AddressRanges {
    /// Builds the parts of the tool's list.
    pub(super) fn from_list(list: &[MemoryRange]) -> AddressRanges {
        let end = |range: &MemoryRange| range.start.saturating_add(range.size);
        let mut edges: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * list.len());
        for (at, range) in list.iter().enumerate().filter(|(_, range)| range.size > 0) {
            edges.push((range.start, true, at));
            edges.push((end(range), false, at));
        }
        edges.sort_unstable();
        let mut open = std::collections::BTreeSet::new();
        let mut parts: Vec<(u64, u64, usize)> = Vec::new();
        let mut from = 0;
        for (edge, opens, at) in edges {
            if let Some(&first) = open.first()
                && from < edge
            {
                match parts.last_mut() {
                    Some(last) if last.1 == from && last.2 == first => last.1 = edge,
                    _ => parts.push((from, edge, first)),
                }
            }
            from = edge;
            match opens {
                true => _ = open.insert(at),
                false => _ = open.remove(&at),
            }
        }
        AddressRanges { parts, last: 0 }
    }

    /// Returns the range of an address.
    #[inline]
    pub(super) fn find_range(&mut self, addr: u64) -> Option<usize> {
        if let Some(&(from, to, range)) = self.parts.get(self.last)
            && (from..to).contains(&addr)
        {
            return Some(range);
        }
        let after = self.parts.partition_point(|part| part.0 <= addr);
        let at = after.checked_sub(1)?;
        let &(_, to, range) = self.parts.get(at)?;
        (addr < to).then(|| {
            self.last = at;
            range
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u64, size: u64) -> MemoryRange {
        MemoryRange {
            start,
            size,
            object: None,
            device: None,
        }
    }

    proptest! {
        /// The naive twin looks through the list.
        #[test]
        fn the_first_range_that_has_an_address_has_it(
            list in proptest::collection::vec((0..60_u64, 0..20_u64), 0..12),
            addrs in proptest::collection::vec(0..90_u64, 1..40),
        ) {
            let list: Vec<MemoryRange> = list.into_iter().map(|(start, size)| range(start, size)).collect();
            let mut ranges = AddressRanges::from_list(&list);
            for addr in addrs {
                let has = |range: &MemoryRange| (range.start..range.start + range.size).contains(&addr);
                prop_assert_eq!(ranges.find_range(addr), list.iter().position(has), "{}", addr);
            }
        }
    }

    #[test]
    fn the_end_of_the_addresses_is_no_overflow() {
        let mut ranges = AddressRanges::from_list(&[range(u64::MAX - 3, u64::MAX)]);
        assert_eq!(
            (ranges.find_range(u64::MAX - 1), ranges.find_range(0)),
            (Some(0), None)
        );
    }
}
