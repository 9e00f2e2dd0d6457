//! Which WARN came first, as far as stamps and places tell.

use super::comparable_stamps::comparable;
use super::warnings::Seen;
use crate::stages::check::wording::text;
use std::cmp::Ordering;

/// How lines are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// By their stamps.
    Stamps,
    /// By their place in the one input they are in.
    Lines,
    /// Not between inputs.
    Inputs,
}

impl Clock {
    /// The one that all lines allow.
    pub(crate) fn of(all: &[(u32, u32, &Seen)]) -> Clock {
        let Some((_, _, first)) = all.first() else {
            return Clock::Lines;
        };
        if all
            .iter()
            .all(|(_, _, seen)| comparable(&first.time, &seen.time))
        {
            return Clock::Stamps;
        }
        let one = all
            .iter()
            .all(|(_, _, seen)| seen.first.input == first.first.input);
        if one { Clock::Lines } else { Clock::Inputs }
    }

    /// The order in which lines are shown.
    pub(crate) fn order(self, a: &Seen, b: &Seen) -> Ordering {
        let stamps = match self {
            Clock::Stamps => a.time.cmp(&b.time),
            Clock::Lines | Clock::Inputs => Ordering::Equal,
        };
        stamps.then(a.first.cmp(&b.first))
    }

    /// True where `a` surely was printed before `b`.
    pub(crate) fn before(self, a: &Seen, b: &Seen) -> bool {
        match self {
            Clock::Stamps => a.time < b.time,
            Clock::Lines | Clock::Inputs => {
                a.first.input == b.first.input && a.first.line < b.first.line
            }
        }
    }

    /// By what the first line is called that.
    pub(crate) fn why(self, seen: &Seen) -> String {
        match self {
            Clock::Stamps => format!(
                "by its time stamp, {} (clocks of hosts may differ)",
                text(&seen.time)
            ),
            Clock::Lines => "by its position in the log".to_owned(),
            Clock::Inputs => "by its position in its file; without time stamps the order between \
                              files is unknown"
                .to_owned(),
        }
    }
}
