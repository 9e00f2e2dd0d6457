//! What each gap between marks is.

use super::evaluation::Stretch;
use super::{Gap, Marker, Step};

/// What each of the `marks + 1` gaps is: the steps by their lines, without the stretches in which
/// nothing is trained; where a launcher ended an attempt (`cuts`), what came since the last step's
/// line is of no step.
pub(super) fn named(
    marks: usize,
    steps: &[Step],
    stretches: &[Stretch],
    cuts: &[usize],
    marker: Marker,
) -> Vec<Gap> {
    let mut gaps = match marker {
        Marker::End => vec![Gap::After; marks + 1],
        Marker::Start => vec![Gap::Before; marks + 1],
    };
    let mut from = 0;
    for (at, step) in (0..).zip(steps) {
        let next = || steps.get(at as usize + 1).map_or(marks, |next| next.mark);
        let of = match marker {
            Marker::End => from..=step.mark,
            Marker::Start => step.mark + 1..=next(),
        };
        gaps[of].fill(Gap::Step(at));
        from = step.mark + 1;
    }
    let mut lines = steps.iter().map(|step| step.mark).peekable();
    let mut from = 0;
    for (to, end) in ends(stretches, cuts) {
        while let Some(line) = lines.next_if(|line| *line < to) {
            from = line + 1;
        }
        match (end, marker) {
            (End::Of(Some(begin)), _) => gaps[begin + 1..=to].fill(Gap::Between),
            (End::Of(None), Marker::End) => gaps[from..=to].fill(Gap::Between),
            // Where lines begin steps, only what is since the mark before is surely not of one.
            (End::Of(None), Marker::Start) => gaps[to] = Gap::Between,
            (End::Attempt, Marker::End) => gaps[from..=to].fill(Gap::After),
            // What was begun is its step's; then nothing is until the next begins.
            (End::Attempt, Marker::Start) => {
                let next = lines.peek().copied().unwrap_or(marks);
                gaps[to + 1..=next].fill(Gap::Before);
            }
        }
        from = to + 1;
    }
    gaps
}

/// What ends at a mark.
enum End {
    /// A stretch, with the mark that it begins after.
    Of(Option<usize>),
    /// An attempt.
    Attempt,
}

/// The ends of stretches and attempts, in the order of their marks.
fn ends(stretches: &[Stretch], cuts: &[usize]) -> Vec<(usize, End)> {
    let of = |stretch: &Stretch| (stretch.to, End::Of(stretch.from));
    let mut ends: Vec<_> = stretches.iter().map(of).collect();
    ends.extend(cuts.iter().map(|&cut| (cut, End::Attempt)));
    ends.sort_by_key(|(mark, _)| *mark);
    ends
}
