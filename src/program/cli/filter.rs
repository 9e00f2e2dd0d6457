//! Which calls a program reads: the same filter in every program that has one.

use super::CommAddress;
use crate::filter::{CallFilter, FilterExpression};
use crate::output::table::Column;
use anyhow::anyhow;
use clap::Args;

/// Which calls are read.
#[derive(Debug, Clone, Args, Default)]
pub struct FilterArgs {
    /// Only these operations: AllReduce,Send (upper or lower case)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME",
        help_heading = "Rows"
    )]
    op: Vec<String>,
    /// Only these ranks of the job: 3,8-15
    ///
    /// The column global_rank: it follows from the INIT lines of all ranks. No call without a known rank
    /// matches; a note reports how many there are. The rank in a communicator is --where 'rank = 0'.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "RANKS",
        help_heading = "Rows"
    )]
    rank: Vec<String>,
    /// Only these communicators, by address or by id: 0x55d0a0000000
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "0x...",
        hide_short_help = true,
        help_heading = "Rows"
    )]
    comm: Vec<CommAddress>,
    /// Only these hosts
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST",
        hide_short_help = true,
        help_heading = "Rows"
    )]
    host: Vec<String>,
    /// Only calls that fit an expression: 'bytes >= 1M and op = AllReduce'
    ///
    /// Compares columns of the call table (nccl-comms --help lists them) with = != < <= > >= and in (a, b). Numbers may be sizes (64K, 1MB, of 1024) and, after = and in,
    /// ranges (8-15). Case matters except for op and datatype; a value with blanks or signs is put in quotes.
    /// Terms are joined with and, or, not and parentheses. An unknown (empty) value matches no comparison, so `not ...` includes it.
    #[arg(long = "where", value_name = "EXPRESSION", help_heading = "Rows")]
    expression: Option<FilterExpression>,
}

impl FilterArgs {
    /// Builds the filter: all that is asked for must hold.
    ///
    /// # Errors
    /// A value is none of its column's.
    pub fn build_filter(&self) -> anyhow::Result<CallFilter> {
        let flag = |name: &'static str, column, values: &[String]| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let made = (!values.is_empty()).then(|| FilterExpression::one_of(column, &values));
            made.transpose().map_err(|error| anyhow!("{name}: {error}"))
        };
        let comms: Vec<String> = self.comm.iter().map(|a| a.0.to_string()).collect();
        let comms: Vec<&str> = comms.iter().map(String::as_str).collect();
        let comm = (!comms.is_empty()).then(|| FilterExpression::is_communicator(&comms));
        let terms = [
            flag("--op", Column::op, &self.op)?,
            flag("--rank", Column::global_rank, &self.rank)?,
            comm.transpose()
                .map_err(|error| anyhow!("--comm: {error}"))?,
            flag("--host", Column::host, &self.host)?,
            self.expression.clone(),
        ];
        Ok(CallFilter::new(terms.into_iter().flatten()))
    }
}
