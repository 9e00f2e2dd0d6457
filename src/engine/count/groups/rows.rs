//! The rows of grouped calls: the group's columns, then what a stage makes of its calls.

use super::{GroupBy, GroupEntry, GroupedCalls, GroupsPart};
use crate::output::render::{Sheet, TableCell};

/// What the rows of a group depend on: groups with equal inputs have equal rows, which are not made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupRowInputs {
    /// The calls of each key and their bytes.
    Calls,
    /// That, and the least and the most bytes of a call.
    Sizes,
    /// More than the counts: every group's rows are made.
    More,
}

impl GroupRowInputs {
    /// Makes `words` what rows of a group are made of ([`crate::output::render::Sink::group`]).
    fn push_row_inputs(self, part: &GroupsPart<'_>, group: &[GroupEntry], words: &mut Vec<u64>) {
        words.clear();
        if self == GroupRowInputs::More {
            return;
        }
        let number = group.first().map(|e| part.groups.groups[e.key as usize]);
        words.extend(number.map(u64::from));
        let two = |n: u128| [n as u64, (n >> 64) as u64];
        for GroupEntry { key, value, .. } in group {
            words.extend([u64::from(*key), value.calls]);
            words.extend(two(value.bytes));
            if self == GroupRowInputs::Sizes {
                words.extend(two(value.min));
                words.extend(two(value.max));
            }
        }
    }
}

impl<'c> GroupedCalls<'c> {
    /// Builds the table of these calls: the columns of `by`, then `own`, which `rows` fills for each group.
    pub fn build_sheet(
        self,
        by: &[GroupBy],
        own: &[&str],
        made_of: GroupRowInputs,
        rows: impl Fn(&GroupsPart<'_>, &[GroupEntry], &mut dyn FnMut(&[TableCell<'_>])) + Sync + 'c,
    ) -> Sheet<'c> {
        let columns = by.iter().flat_map(|by| by.columns()).chain(own);
        Sheet {
            columns: columns.map(|&column| column.to_owned()).collect(),
            parts: self.split_parts(),
            rows: Box::new(move |part, sink| {
                let part = self.take_part(part);
                let (mut columns, mut words) = (Vec::new(), Vec::new());
                for group in part.iter_groups() {
                    columns.clear();
                    part.push_group_cells(&group[0], &mut columns);
                    made_of.push_row_inputs(&part, group, &mut words);
                    sink.group(&columns, &words, &mut |out| rows(&part, group, out));
                }
            }),
        }
    }
}
