//! How calls are grouped and measured.

use crate::count::groups::GroupBy;
use crate::grammar::values::ByteBasis;
use clap::{Args, ValueEnum};

/// How calls are grouped and measured.
#[derive(Debug, Args, Default)]
pub struct GroupArgs {
    /// Group by these columns as well
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "COLUMN",
        help_heading = "Rows"
    )]
    by: Vec<ByArg>,
    /// The meaning of bytes: the caller's elements, nccl-tests' message size, or the bytes that a rank must move
    #[arg(long, value_enum, default_value_t = BasisArg::Api, hide_short_help = true, help_heading = "Rows")]
    basis: BasisArg,
}

impl GroupArgs {
    /// The group columns, each once.
    pub fn by(&self) -> Vec<GroupBy> {
        let mut by = Vec::new();
        for arg in &self.by {
            let column = match arg {
                ByArg::Step => GroupBy::Step,
                ByArg::Comm => GroupBy::Comm,
                ByArg::CommId => GroupBy::CommId,
                ByArg::Rank => GroupBy::Rank,
                ByArg::GlobalRank => GroupBy::GlobalRank,
                ByArg::Host => GroupBy::Host,
                ByArg::Datatype => GroupBy::Datatype,
                ByArg::Algo => GroupBy::Algo,
                ByArg::Proto => GroupBy::Proto,
            };
            if !by.contains(&column) {
                by.push(column);
            }
        }
        // The host is a column of a communicator's address, the rank in the job one of a rank: a name represents one
        // column.
        for (wide, own) in [
            (GroupBy::Comm, GroupBy::Host),
            (GroupBy::Rank, GroupBy::GlobalRank),
        ] {
            if by.contains(&wide) {
                by.retain(|column| *column != own);
            }
        }
        by
    }

    /// What bytes mean.
    pub fn basis(&self) -> ByteBasis {
        match self.basis {
            BasisArg::Api => ByteBasis::Api,
            BasisArg::Message => ByteBasis::Message,
            BasisArg::Wire => ByteBasis::Wire,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ByArg {
    /// The step
    Step,
    /// The communicator by its address in a process: host, pid, comm
    Comm,
    /// The id that all members of a communicator share
    #[value(name = "comm_id", alias = "comm-id")]
    CommId,
    /// The rank in the communicator, with the rank in the job (global_rank)
    Rank,
    /// The rank in the job
    #[value(name = "global_rank", alias = "global-rank")]
    GlobalRank,
    /// The host
    Host,
    /// The datatype
    Datatype,
    /// NCCL's algorithm, where the input tells it
    Algo,
    /// NCCL's protocol, where the input tells it
    Proto,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum BasisArg {
    /// count × element size
    #[default]
    Api,
    /// × nranks for AllGather, ReduceScatter, AlltoAll, Gather, Scatter
    Message,
    /// message × nccl-tests' bus-bandwidth factor
    Wire,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_column_comes_twice() {
        let of = |by: &[ByArg]| {
            let group = GroupArgs {
                by: by.to_vec(),
                ..GroupArgs::default()
            };
            let columns = group.by().into_iter().flat_map(GroupBy::columns);
            columns.copied().collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[ByArg::Rank, ByArg::Step, ByArg::Rank]),
            ["rank", "global_rank", "step"]
        );
        assert_eq!(
            of(&[ByArg::Host, ByArg::Rank]),
            ["host", "rank", "global_rank"]
        );
        let comm = ["host", "pid", "comm"];
        assert_eq!(of(&[ByArg::Comm, ByArg::Host]), comm);
        assert_eq!(of(&[ByArg::Host, ByArg::Comm]), comm);
    }
}
