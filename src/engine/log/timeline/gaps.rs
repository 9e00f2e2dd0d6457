//! What each gap between marks is.

use super::evaluation::EvaluationSpan;
use super::{GapKind, MarkerSide, TrainStep};

/// What each of the `marks + 1` gaps is: the steps by their lines, without the stretches in which
/// nothing is trained; where a launcher ended an attempt (`cuts`), what came since the last step's
/// line is of no step.
pub(super) fn name_gaps(
    marks: usize,
    steps: &[TrainStep],
    stretches: &[EvaluationSpan],
    cuts: &[usize],
    marker: MarkerSide,
) -> Vec<GapKind> {
    let mut gaps = match marker {
        MarkerSide::End => vec![GapKind::After; marks + 1],
        MarkerSide::Start => vec![GapKind::Before; marks + 1],
    };
    let mut from = 0;
    for (at, step) in (0..).zip(steps) {
        let next = || steps.get(at as usize + 1).map_or(marks, |next| next.mark);
        let of = match marker {
            MarkerSide::End => from..=step.mark,
            MarkerSide::Start => step.mark + 1..=next(),
        };
        gaps[of].fill(GapKind::Step(at));
        from = step.mark + 1;
    }
    let mut lines = steps.iter().map(|step| step.mark).peekable();
    let mut from = 0;
    for (to, end) in order_ends(stretches, cuts) {
        while let Some(line) = lines.next_if(|line| *line < to) {
            from = line + 1;
        }
        match (end, marker) {
            (EvaluationOrAttemptEnd::Of(Some(begin)), _) => {
                gaps[begin + 1..=to].fill(GapKind::Between);
            }
            (EvaluationOrAttemptEnd::Of(None), MarkerSide::End) => {
                gaps[from..=to].fill(GapKind::Between);
            }
            // Where lines begin steps, only the gap since the mark before is surely not a step's.
            (EvaluationOrAttemptEnd::Of(None), MarkerSide::Start) => gaps[to] = GapKind::Between,
            (EvaluationOrAttemptEnd::Attempt, MarkerSide::End) => {
                gaps[from..=to].fill(GapKind::After);
            }
            // What was begun is its step's; then nothing is until the next begins.
            (EvaluationOrAttemptEnd::Attempt, MarkerSide::Start) => {
                let next = lines.peek().copied().unwrap_or(marks);
                gaps[to + 1..=next].fill(GapKind::Before);
            }
        }
        from = to + 1;
    }
    gaps
}

/// What ends at a mark.
enum EvaluationOrAttemptEnd {
    /// A stretch, with the mark that it begins after.
    Of(Option<usize>),
    /// An attempt.
    Attempt,
}

/// The ends of stretches and attempts, in the order of their marks.
fn order_ends(
    stretches: &[EvaluationSpan],
    cuts: &[usize],
) -> Vec<(usize, EvaluationOrAttemptEnd)> {
    let of = |stretch: &EvaluationSpan| (stretch.to, EvaluationOrAttemptEnd::Of(stretch.from));
    let mut ends: Vec<_> = stretches.iter().map(of).collect();
    ends.extend(
        cuts.iter()
            .map(|&cut| (cut, EvaluationOrAttemptEnd::Attempt)),
    );
    ends.sort_by_key(|(mark, _)| *mark);
    ends
}
