//! Conditions with `and`, `or` and `not`.

use super::condition::{FilterCondition, JobRankTable, parse_column};
use crate::grammar::expression::{Expression, Relation, parse_expression};
use crate::output::table::{Column, Row};
use std::fmt;
use std::str::FromStr;

/// An expression over the columns of the call table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterExpression(Node);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Is(FilterCondition),
}

impl FromStr for FilterExpression {
    type Err = String;

    fn from_str(text: &str) -> Result<FilterExpression, String> {
        let parsed = parse_expression(text.as_bytes()).map_err(|failure| {
            let at = text.len().saturating_sub(failure.left);
            let found = match text.as_bytes().get(at..).map(String::from_utf8_lossy) {
                Some(rest) if !rest.is_empty() => format!("`{rest}`"),
                _ => "the end".to_owned(),
            };
            format!("expected {} at {found}", failure.what)
        })?;
        Node::new(&parsed).map(FilterExpression)
    }
}

impl Node {
    fn new(parsed: &Expression<'_>) -> Result<Node, String> {
        let list = |of: &[Expression<'_>]| -> Result<Vec<Node>, String> {
            of.iter().map(Node::new).collect()
        };
        Ok(match parsed {
            Expression::All(of) => Node::All(list(of)?),
            Expression::Any(of) => Node::Any(list(of)?),
            Expression::Not(of) => Node::Not(Box::new(Node::new(of)?)),
            Expression::Comparison {
                column,
                relation,
                values,
            } => {
                let column = parse_column(column)?;
                Node::Is(FilterCondition::new(column, *relation, values)?)
            }
        })
    }

    fn accepts_row(&self, row: &Row<'_>, ranks: &JobRankTable) -> bool {
        match self {
            Node::All(of) => of.iter().all(|node| node.accepts_row(row, ranks)),
            Node::Any(of) => of.iter().any(|node| node.accepts_row(row, ranks)),
            Node::Not(of) => !of.accepts_row(row, ranks),
            Node::Is(condition) => condition.accepts_row(row, ranks),
        }
    }

    fn collect_columns(&self, columns: &mut Vec<Column>) {
        match self {
            Node::All(of) | Node::Any(of) => {
                of.iter().for_each(|node| node.collect_columns(columns));
            }
            Node::Not(of) => of.collect_columns(columns),
            Node::Is(condition) => columns.push(condition.column),
        }
    }
}

impl FilterExpression {
    /// The expression of a flag: a column has one of some values, as they are typed.
    ///
    /// # Errors
    /// A value is none of the column's.
    pub fn one_of(column: Column, values: &[&str]) -> Result<FilterExpression, String> {
        FilterExpression::compare(column, Relation::Equal, values)
    }

    /// The expression of a flag: a column is at least or at most some bytes.
    ///
    /// # Errors
    /// Never: all columns that are compared so are numbers.
    pub fn compare(
        column: Column,
        relation: Relation,
        values: &[&str],
    ) -> Result<FilterExpression, String> {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        FilterCondition::new(column, relation, &values).map(|is| FilterExpression(Node::Is(is)))
    }

    /// The expression of `--comm`: one of some communicators, by address or by id.
    ///
    /// # Errors
    /// A value is neither.
    pub fn is_communicator(values: &[&str]) -> Result<FilterExpression, String> {
        let id = FilterExpression::one_of(Column::comm_id, values)?;
        // The id of a split is no address.
        let addresses: Vec<&str> = values
            .iter()
            .copied()
            .filter(|v| !v.contains('/'))
            .collect();
        if addresses.is_empty() {
            return Ok(id);
        }
        let address = FilterExpression::one_of(Column::comm, &addresses)?;
        Ok(FilterExpression(Node::Any(vec![address.0, id.0])))
    }

    /// Divides it at its outer `and`s.
    pub(super) fn split_terms(self) -> Vec<FilterExpression> {
        match self.0 {
            Node::All(of) => of.into_iter().map(FilterExpression).collect(),
            node => vec![FilterExpression(node)],
        }
    }

    pub(super) fn accepts_row(&self, row: &Row<'_>, ranks: &JobRankTable) -> bool {
        self.0.accepts_row(row, ranks)
    }

    pub(super) fn collect_columns(&self, columns: &mut Vec<Column>) {
        self.0.collect_columns(columns);
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |of: &[Node], word: &str| {
            let of: Vec<String> = of.iter().map(Node::to_string).collect();
            of.join(word)
        };
        match self {
            Node::All(of) => write!(f, "({})", list(of, " and ")),
            Node::Any(of) => write!(f, "({})", list(of, " or ")),
            Node::Not(of) => write!(f, "not {of}"),
            Node::Is(condition) => condition.fmt(f),
        }
    }
}

impl fmt::Display for FilterExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // A term stands alone.
            Node::Any(of) => {
                let of: Vec<String> = of.iter().map(Node::to_string).collect();
                f.write_str(&of.join(" or "))
            }
            node => node.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::values::Datatype;
    use crate::members::comm_id::CommId;
    use crate::output::table::Timing;

    fn row<'r>(timing: &'r Timing<'r>) -> Row<'r> {
        Row {
            op: b"AllReduce",
            host: b"Node1",
            count: Some(16 << 10),
            datatype: Some(Datatype(7)),
            rank: Some(1),
            comm: Some(0x55),
            comm_id: Some(CommId::from_printed(0x9f)),
            root: Some(-1),
            calls: 1,
            timing: Some(timing),
            ..Row::default()
        }
    }

    #[test]
    fn columns_compare_by_their_types() {
        let timing = Timing {
            algo: b"RING",
            ..Timing::default()
        };
        let ranks = JobRankTable {
            communicators: [(CommId::from_printed(0x9f), vec![4, 5])].into(),
            ..JobRankTable::default()
        };
        let row = row(&timing);
        for (text, holds) in [
            ("op = allreduce and datatype = FP32", true),
            ("op in (Send, ALLREDUCE)", true),
            ("host = node1", false),
            ("host = 'Node1'", true),
            ("bytes >= 64K and bytes <= 64KB and bytes < 65537", true),
            ("bytes > 64K or bytes in (1-2, 65536..70000)", true),
            ("bytes in (64K-1M)", true),
            ("root = -1 and root < 0", true),
            ("global_rank in (3, 5-7)", true),
            ("rank = 5", false),
            ("comm = 0x55 and comm_id = 0x9f", true),
            ("algo = RING and algo != ring", true),
            // An unknown value fits no comparison, and `not` inverts that.
            ("step = 1 or step != 1 or redop != sum", false),
            ("not step = 1", true),
            ("datatype != 'type<17>'", true),
        ] {
            let filter: FilterExpression = text.parse().unwrap();
            assert_eq!(filter.accepts_row(&row, &ranks), holds, "{text}");
        }
        let comm = FilterExpression::is_communicator(&["0x55", "0x1/2.3"]).unwrap();
        assert!(comm.accepts_row(&row, &ranks));
        assert_eq!(
            comm.to_string(),
            "comm = 0x55 or comm_id in (0x55, 0x1/2.3)"
        );
        // Without a table of the job's ranks they are unknown.
        let job: FilterExpression = "global_rank >= 0".parse().unwrap();
        assert!(!job.accepts_row(&row, &JobRankTable::default()));
    }

    #[test]
    fn an_error_says_what_was_expected() {
        for (text, expected) in [
            ("op == x", "expected a value at `= x`"),
            ("op =", "expected a value at the end"),
            (
                "byte > 1",
                "unknown column `byte`; the columns are step, time,",
            ),
            (
                "bytes > 1X",
                "invalid value `1X` of bytes; expected a number, a size",
            ),
            ("bytes > 1-2", "`>` compares bytes with one number"),
            (
                "op > a",
                "op has no order: `>` compares numbers; use =, != or in",
            ),
            ("datatype = float", "expected a datatype such as fp32"),
            ("comm = 55", "invalid value `55` of comm; expected 0x"),
            ("rank = 9-8", "invalid value `9-8` of rank"),
        ] {
            let error = text.parse::<FilterExpression>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
