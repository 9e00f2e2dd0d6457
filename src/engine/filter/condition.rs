//! A column compared with values.

use crate::grammar::expression::Relation;
use crate::grammar::token::hex_u64;
use crate::grammar::values::{ByteSize, Datatype, RedOp};
use crate::members::comm_id::CommId;
use crate::output::table::{COLUMNS, Column, ComparedAs, FieldValue, Row};
use std::collections::BTreeMap;
use std::fmt;

/// The ranks in the job.
#[derive(Debug, Clone, Default)]
pub struct JobRankTable {
    /// Those of each communicator's members, in the order of their ranks there.
    pub communicators: BTreeMap<CommId, Vec<u32>>,
    /// Those of processes with one rank, by host and pid: before NCCL 2.18 lines give no ids.
    pub processes: BTreeMap<(Box<[u8]>, Option<u64>), u32>,
}

impl JobRankTable {
    /// The rank of a communicator's member.
    pub fn rank_of_member(&self, id: CommId, rank: u32) -> Option<u32> {
        self.communicators.get(&id)?.get(rank as usize).copied()
    }

    fn rank_of_row(&self, row: &Row<'_>) -> Option<u32> {
        let by_member = row.comm_id.zip(row.rank);
        let by_member = by_member.and_then(|(id, rank)| self.rank_of_member(id, rank));
        by_member.or_else(|| self.processes.get(&(row.host.into(), row.pid)).copied())
    }
}

/// Finds a column by its name.
///
/// # Errors
/// There is none; the text lists all.
pub(super) fn parse_column(name: &[u8]) -> Result<Column, String> {
    let known = |column: &&Column| COLUMNS[**column as usize].as_bytes() == name;
    let found = Column::ALL.iter().find(known);
    found.copied().ok_or_else(|| {
        format!(
            "unknown column `{}`; the columns are {}",
            String::from_utf8_lossy(name),
            COLUMNS.join(", ")
        )
    })
}

/// A column's value in a row. The rank in the job also follows from the communicator and the rank in it.
pub(super) fn value_of_column<'r>(
    column: Column,
    row: &Row<'r>,
    ranks: &JobRankTable,
) -> FieldValue<'r> {
    if column != Column::global_rank || row.global_rank.is_some() {
        return row.get_field(column);
    }
    let rank = ranks.rank_of_row(row);
    rank.map_or(FieldValue::Unknown, |rank| FieldValue::Number(rank.into()))
}

/// A value that a column is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    /// A number, or all from one to another.
    Numbers(i128, i128),
    /// A text.
    Text(Box<[u8]>),
    /// A communicator's id.
    Id(CommId),
}

impl Operand {
    /// Reads a value as it is typed for a column.
    fn parse(column: Column, text: &[u8]) -> Result<Operand, String> {
        let code = |code: Option<u64>| code.map(|code| Operand::Numbers(code.into(), code.into()));
        let lower = text.to_ascii_lowercase();
        let (found, expected) = match column.compares_as() {
            ComparedAs::Text | ComparedAs::Name => (Some(Operand::Text(text.into())), ""),
            ComparedAs::Number => (
                parse_range(text),
                "a number, a size such as 64K or 1MB (of 1024), or a range such as 8-15",
            ),
            ComparedAs::Pointer => {
                let pointer = text.strip_prefix(b"0x").map(hex_u64);
                let pointer = pointer
                    .and_then(Result::ok)
                    .filter(|found| found.0.is_empty());
                (
                    code(pointer.map(|found| found.1)),
                    "0x and hexadecimal digits",
                )
            }
            ComparedAs::Id => (
                CommId::parse(text).map(Operand::Id),
                "0x and hexadecimal digits",
            ),
            ComparedAs::Word if column == Column::datatype => (
                code(Datatype::from_name(&lower).map(|d| d.0.into())),
                "a datatype such as fp32, bf16, int64 or 'type<17>'",
            ),
            ComparedAs::Word => (
                code(RedOp::from_name(&lower).map(|r| r.0)),
                "sum, prod, max, min, avg or 'user<3>'",
            ),
        };
        found.ok_or_else(|| {
            format!(
                "invalid value `{}` of {}; expected {expected}",
                String::from_utf8_lossy(text),
                COLUMNS[column as usize]
            )
        })
    }

    fn matches(&self, value: FieldValue<'_>, any_case: bool) -> bool {
        match (self, value) {
            (Operand::Numbers(from, to), FieldValue::Number(n)) => (from..=to).contains(&&n),
            (Operand::Text(text), FieldValue::Text(of)) if any_case => {
                text.eq_ignore_ascii_case(of)
            }
            (Operand::Text(text), FieldValue::Text(of)) => **text == *of,
            (Operand::Id(id), FieldValue::Id(of)) => *id == of,
            _ => false,
        }
    }
}

/// Reads a number, or two with a dash between them.
fn parse_range(text: &[u8]) -> Option<Operand> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |text: &str| match text.parse::<i128>() {
        Ok(number) => Some(number),
        Err(_) => i128::try_from(text.parse::<ByteSize>().ok()?.0).ok(),
    };
    if let Some(one) = number(text) {
        return Some(Operand::Numbers(one, one));
    }
    let (from, to) = text.split_once("..").or_else(|| text.split_once('-'))?;
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some(Operand::Numbers(from, to))
}

/// A column compared with values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilterCondition {
    pub(super) column: Column,
    relation: Relation,
    operands: Vec<Operand>,
    /// As it is shown.
    text: String,
}

impl FilterCondition {
    /// Makes a condition of values as they are typed.
    ///
    /// # Errors
    /// A value is none of the column's, or the column has no order.
    pub(super) fn new(
        column: Column,
        relation: Relation,
        values: &[&[u8]],
    ) -> Result<FilterCondition, String> {
        let operands = values.iter().map(|value| Operand::parse(column, value));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        let (name, sign) = (COLUMNS[column as usize], relation.sign());
        if !matches!(relation, Relation::Equal | Relation::Different) {
            if column.compares_as() != ComparedAs::Number {
                return Err(format!(
                    "{name} has no order: `{sign}` compares numbers; use =, != or in"
                ));
            }
            if !matches!(operands[..], [Operand::Numbers(from, to)] if from == to) {
                return Err(format!("`{sign}` compares {name} with one number"));
            }
        }
        let shown: Vec<_> = values.iter().map(|v| String::from_utf8_lossy(v)).collect();
        let text = match &shown[..] {
            [one] => format!("{name} {sign} {one}"),
            several => format!("{name} in ({})", several.join(", ")),
        };
        Ok(FilterCondition {
            column,
            relation,
            operands,
            text,
        })
    }

    /// True if it holds for a row; an unknown value fits no condition.
    pub(super) fn accepts_row(&self, row: &Row<'_>, ranks: &JobRankTable) -> bool {
        let value = value_of_column(self.column, row, ranks);
        let any_case = self.column.compares_as() == ComparedAs::Name;
        let mut operands = self.operands.iter();
        match (self.relation, value, self.operands.first()) {
            (_, FieldValue::Unknown, _) => false,
            (Relation::Equal, ..) => operands.any(|operand| operand.matches(value, any_case)),
            (Relation::Different, ..) => !operands.any(|operand| operand.matches(value, any_case)),
            (relation, FieldValue::Number(n), Some(Operand::Numbers(than, _))) => match relation {
                Relation::Less => n < *than,
                Relation::AtMost => n <= *than,
                Relation::Greater => n > *than,
                _ => n >= *than,
            },
            _ => false,
        }
    }
}

impl fmt::Display for FilterCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
