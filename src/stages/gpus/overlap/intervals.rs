//! Sets of time intervals: unions, intersections and their lengths, exact in ns.

/// Begin, and exclusive end.
pub type Interval = (i64, i64);

/// Makes intervals disjoint and sorted; intervals that touch become one.
pub fn union(intervals: &mut Vec<Interval>) {
    intervals.retain(|(from, to)| from < to);
    if !intervals.is_sorted() {
        intervals.sort_unstable();
    }
    let mut kept = 0;
    for at in 1..intervals.len() {
        let (from, to) = intervals[at];
        if from <= intervals[kept].1 {
            intervals[kept].1 = intervals[kept].1.max(to);
        } else {
            kept += 1;
            intervals[kept] = (from, to);
        }
    }
    intervals.truncate(kept + 1);
}

/// Returns the total length of disjoint intervals.
pub fn total_length(intervals: &[Interval]) -> u64 {
    let one = |(from, to): &Interval| to.abs_diff(*from);
    intervals.iter().map(one).fold(0, u64::saturating_add)
}

/// Returns the intersections of two lists of disjoint intervals, in order.
pub fn shared_intervals<'i>(
    a: &'i [Interval],
    b: &'i [Interval],
) -> impl Iterator<Item = Interval> + 'i {
    // Only the part of a long list within the other's range is searched.
    let (mut a, mut b) = (clip_to_reach(a, b), clip_to_reach(b, a));
    std::iter::from_fn(move || {
        loop {
            let (&(a_from, a_to), &(b_from, b_to)) = (a.first()?, b.first()?);
            if a_to <= b_to {
                a = &a[1..];
            } else {
                b = &b[1..];
            }
            let (from, to) = (a_from.max(b_from), a_to.min(b_to));
            if from < to {
                return Some((from, to));
            }
        }
    })
}

/// Returns the part of `of` that may intersect `with`.
fn clip_to_reach<'i>(of: &'i [Interval], with: &[Interval]) -> &'i [Interval] {
    let (Some((from, _)), Some((_, to))) = (with.first(), with.last()) else {
        return &[];
    };
    let begin = of.partition_point(|(_, end)| end <= from);
    let end = of.partition_point(|(begin, _)| begin < to);
    of.get(begin..end).unwrap_or_default()
}

/// Returns the total length of the intersections.
pub fn shared_length(a: &[Interval], b: &[Interval]) -> u64 {
    let one = |(from, to): Interval| to.abs_diff(from);
    shared_intervals(a, b).map(one).fold(0, u64::saturating_add)
}

/// Returns the length of the union of lists of disjoint intervals, each within `window`.
pub fn union_length<const N: usize>(lists: [&[Interval]; N], window: &[Interval]) -> u64 {
    let mut ends = lists.map(|list| shared_intervals(list, window).peekable());
    let (mut sum, mut until) = (0_u64, i64::MIN);
    loop {
        let first = ends.iter_mut().enumerate();
        let first = first
            .filter_map(|(at, list)| Some((*list.peek()?, at)))
            .min();
        let Some(((from, to), at)) = first else {
            return sum;
        };
        ends[at].next();
        if to > until {
            sum = sum.saturating_add(to.abs_diff(from.max(until)));
            until = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        let one = (-30..30_i64, 0..12_i64).prop_map(|(from, took)| (from, from + took));
        proptest::collection::vec(one, 0..12)
    }

    /// Whether each ns is in one of them.
    fn grid(intervals: &[Interval]) -> Vec<bool> {
        let is_in = |at: i64| intervals.iter().any(|&(from, to)| (from..to).contains(&at));
        (-40..60).map(is_in).collect()
    }

    fn count<const N: usize>(grids: [&[bool]; N], is: fn([bool; N]) -> bool) -> u64 {
        let all = (0..grids[0].len()).filter(|&at| is(grids.map(|grid| grid[at])));
        all.count() as u64
    }

    proptest! {
        /// Each ns by itself gives the same.
        #[test]
        fn sums_are_those_of_single_ns(a in intervals(), b in intervals(), c in intervals(), w in intervals()) {
            let grids = [grid(&a), grid(&b), grid(&c), grid(&w)];
            let [ga, gb, gc, gw] = grids.each_ref().map(Vec::as_slice);
            let disjoint = |mut list| {
                union(&mut list);
                list
            };
            let (a, b, c, w) = (disjoint(a), disjoint(b), disjoint(c), disjoint(w));
            prop_assert!(a.windows(2).all(|two| two[0].1 < two[1].0));
            prop_assert_eq!(total_length(&a), count([ga], |[a]| a));
            prop_assert_eq!(shared_length(&a, &b), count([ga, gb], |[a, b]| a && b));
            let within: Vec<_> = shared_intervals(&a, &w).collect();
            prop_assert_eq!(shared_length(&within, &b), count([ga, gb, gw], |[a, b, w]| a && b && w));
            let any = union_length([&a, &b, &c], &w);
            prop_assert_eq!(any, count([ga, gb, gc, gw], |[a, b, c, w]| w && (a || b || c)));
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut all = vec![(i64::MIN, 0), (5, 5), (0, i64::MAX)];
        union(&mut all);
        assert_eq!(all, [(i64::MIN, i64::MAX)]);
        assert_eq!(
            (total_length(&all), shared_length(&all, &[])),
            (u64::MAX, 0)
        );
        let mut none: Vec<Interval> = Vec::new();
        union(&mut none);
        assert!(none.is_empty());
    }
}
