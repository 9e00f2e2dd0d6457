//! The order of WARN lines, as far as stamps and places show it.

use super::comparable_stamps::are_stamps_comparable;
use super::warnings::WarningLines;
use crate::stages::check::wording::quote_text;
use std::cmp::Ordering;

/// An order of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarnOrder {
    /// By stamps.
    Stamps,
    /// By place in their one input.
    Lines,
    /// Unknown between inputs.
    Inputs,
}

impl WarnOrder {
    /// Returns the order that all lines allow.
    pub(crate) fn choose_order<'a>(
        all: impl Iterator<Item = &'a WarningLines> + Clone,
    ) -> WarnOrder {
        let Some(first) = all.clone().next() else {
            return WarnOrder::Lines;
        };
        let is_comparable = |seen: &WarningLines| are_stamps_comparable(&first.time, &seen.time);
        if all.clone().all(is_comparable) {
            return WarnOrder::Stamps;
        }
        let mut all = all;
        if all.all(|seen| seen.first.input == first.first.input) {
            WarnOrder::Lines
        } else {
            WarnOrder::Inputs
        }
    }

    /// The order in which lines are shown.
    pub(crate) fn compare(self, a: &WarningLines, b: &WarningLines) -> Ordering {
        let stamps = match self {
            WarnOrder::Stamps => a.time.cmp(&b.time),
            WarnOrder::Lines | WarnOrder::Inputs => Ordering::Equal,
        };
        stamps.then(a.first.cmp(&b.first))
    }

    /// True if `a` was printed before `b` in any case.
    pub(crate) fn is_before(self, a: &WarningLines, b: &WarningLines) -> bool {
        match self {
            WarnOrder::Stamps => a.time < b.time,
            WarnOrder::Lines | WarnOrder::Inputs => {
                a.first.input == b.first.input && a.first.line < b.first.line
            }
        }
    }

    /// Describes the first line by this order.
    pub(crate) fn describe_order(self, seen: &WarningLines) -> String {
        match self {
            WarnOrder::Stamps => format!(
                "by its time stamp, {} (clocks of hosts may differ)",
                quote_text(&seen.time)
            ),
            WarnOrder::Lines => "by its position in the log".to_owned(),
            WarnOrder::Inputs => {
                "by its position in its file; without time stamps the order between \
                              files is unknown"
                    .to_owned()
            }
        }
    }
}
