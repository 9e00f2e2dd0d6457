//! Calls as the basic trace that PARAM's replay of communication takes: a JSON list for each rank, first the
//! communicators, then the rank's calls in their order.
//!
//! Names and fields are those of `_parseBasicTrace` in param's `train/comms/pt/commsTraceParser.py`. Sizes are
//! elements, ranks those of the job. The replay takes a folder with a file `RANK.json` for each rank, and
//! makes its communicators by the first entries, which are the same in all files.

use super::limits::MAX_WAITING_TRACE_BYTES;
use super::{Options, RowForm, write_rows};
use crate::count::calls::{Options as Read, Progress};
use crate::error::{Error, Result};
use crate::formats::table_rows::TableFeed;
use crate::grammar::values::{Datatype, has_root};
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use crate::report::{Report, count_phrase};
use crate::source::InputName;
use crate::stages::matrix::{JobRanks, read_job_ranks};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Writes a file for each rank into `folder`, which is made if it is not there.
///
/// # Errors
/// An input is no file, or cannot be read; the ranks of the job are not known; a file cannot be written.
pub fn write_traces(
    origins: &[InputName],
    read: &Read,
    options: &Options,
    folder: &Path,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<()> {
    if origins.iter().any(InputName::is_piped) {
        let twice = "--format param reads its inputs twice: name files";
        return Err(Error::Content(twice.to_owned()));
    }
    // Faults of the inputs are reported when their rows are read.
    let mut silent = Report::new("nccl-comms", false, true).silenced();
    let ranks = read_job_ranks(origins, read, &mut silent, progress)?;
    if ranks.is_empty() {
        return Err(Error::Content(
            "it is not known which ranks of the job made the calls: the INIT lines of all ranks tell \
             (NCCL_DEBUG_SUBSYS=INIT,COLL)"
                .to_owned(),
        ));
    }
    let mut traces = RankTraces::new(ranks, folder)?;
    let mut failed = None;
    let mut text = Vec::new();
    let mut feed = TableFeed::new(|row: &Row<'_>| {
        if failed.is_none() {
            failed = traces.add_row(row, &mut text).err();
        }
    });
    let options = Options {
        form: RowForm::Csv,
        ..options.clone()
    };
    write_rows(origins, read, &options, report, progress, &mut feed)?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    traces.finish(report)
}

/// The trace of a rank.
#[derive(Debug, Default)]
struct RankTrace {
    /// Text not written yet.
    text: Vec<u8>,
    calls: u64,
    is_begun: bool,
}

/// All traces.
struct RankTraces<'f> {
    ranks: JobRanks,
    /// The number of each communicator, by its id.
    groups: BTreeMap<CommId, usize>,
    folder: &'f Path,
    /// The entries that make the communicators.
    head: Vec<u8>,
    of_rank: BTreeMap<u32, RankTrace>,
    left_out: UntracedCalls,
    /// Calls with bytes as elements.
    bytes: u64,
}

/// Calls that are in no trace.
#[derive(Debug, Default)]
struct UntracedCalls {
    /// The communicator or its members are not known.
    unknown: u64,
    /// Operations and types that PARAM does not have.
    strange: u64,
    /// Messages of a rank to itself.
    own: u64,
}

impl<'f> RankTraces<'f> {
    fn new(ranks: JobRanks, folder: &'f Path) -> Result<RankTraces<'f>> {
        fs::create_dir_all(folder).map_err(|e| output_error(folder, e))?;
        let mut head = Vec::new();
        let mut groups = BTreeMap::new();
        for (number, (id, members)) in ranks.iter_communicators().enumerate() {
            groups.insert(id, number);
            let members: Vec<String> = members.iter().map(u32::to_string).collect();
            let entry = format!(
                "{{\"comms\": \"init\", \"pg_id\": {number}, \"world_size\": {}, \"global_ranks\": [{}]}}",
                members.len(),
                members.join(", ")
            );
            head.extend_from_slice(if number == 0 { b"[\n" } else { b",\n" });
            head.extend_from_slice(entry.as_bytes());
        }
        let mut traces = RankTraces {
            of_rank: ranks
                .iter_ranks()
                .map(|rank| (rank, RankTrace::default()))
                .collect(),
            ranks,
            groups,
            folder,
            head,
            left_out: UntracedCalls::default(),
            bytes: 0,
        };
        let all: Vec<u32> = traces.of_rank.keys().copied().collect();
        all.into_iter()
            .try_for_each(|rank| traces.flush_rank(rank))?;
        Ok(traces)
    }

    fn trace_path(&self, rank: u32) -> PathBuf {
        self.folder.join(format!("{rank}.json"))
    }

    /// Writes what waits. There may be more ranks than files that can be open.
    fn flush_rank(&mut self, rank: u32) -> Result<()> {
        let path = self.trace_path(rank);
        let Some(trace) = self.of_rank.get_mut(&rank) else {
            return Ok(());
        };
        let is_begun = std::mem::replace(&mut trace.is_begun, true);
        let write = || -> std::io::Result<()> {
            if !is_begun {
                return File::create(&path)?.write_all(&self.head);
            }
            let mut file = OpenOptions::new().append(true).open(&path)?;
            file.write_all(&trace.text)
        };
        write().map_err(|e| output_error(&path, e))?;
        if is_begun {
            trace.text.clear();
        }
        Ok(())
    }

    /// The next call.
    fn add_row(&mut self, row: &Row<'_>, text: &mut Vec<u8>) -> Result<()> {
        let found = row.comm_id.zip(row.rank).and_then(|(id, of)| {
            let group = *self.groups.get(&id)?;
            let members = self.ranks.ranks_of_members(&id)?;
            Some((group, members, *members.get(of as usize)?))
        });
        let Some((group, members, rank)) = found else {
            self.left_out.unknown = self.left_out.unknown.saturating_add(row.calls);
            return Ok(());
        };
        let typed = match (row.count, row.only_bytes) {
            (None, Some(bytes)) => Some((bytes, "uint8")),
            (count, _) => count.zip(row.datatype.and_then(param_datatype)),
        };
        let Some((count, datatype)) = typed.filter(|_| row.calls == 1) else {
            self.left_out.strange = self.left_out.strange.saturating_add(row.calls);
            return Ok(());
        };
        let root = row.root.and_then(|root| usize::try_from(root).ok());
        let root = root.and_then(|root| members.get(root)).copied();
        let n = members.len() as u128;
        let own = u128::from(count);
        let all = own.saturating_mul(n);
        let op = row.op.strip_prefix(b"mscclpp_nccl").unwrap_or(row.op);
        let known = param_op_and_sizes(op, own, all);
        let known = known.filter(|_| root.is_some() || !has_root(op));
        let Some((name, from, to)) = known else {
            self.left_out.strange += 1;
            return Ok(());
        };
        let is_message = matches!(op, b"Send" | b"Recv");
        if is_message && root == Some(rank) {
            self.left_out.own += 1;
            return Ok(());
        }
        self.bytes += u64::from(row.count.is_none());
        let Some(trace) = self.of_rank.get_mut(&rank) else {
            return Ok(());
        };
        text.clear();
        let req = trace.calls;
        trace.calls += 1;
        let entry = format!(
            ",\n{{\"comms\": \"{name}\", \"req\": {req}, \"pg_id\": {group}, \"world_size\": {n}, \
             \"in_msg_size\": {from}, \"out_msg_size\": {to}, \"dtype\": \"{datatype}\""
        );
        text.extend_from_slice(entry.as_bytes());
        let more = peer_or_root_fields(op, rank, root);
        text.extend_from_slice(more.as_bytes());
        if let Some(start) = row.times().start_ns {
            text.extend_from_slice(format!(", \"startTime_ns\": {start}").as_bytes());
        }
        text.push(b'}');
        trace.text.extend_from_slice(text);
        match trace.text.len() > MAX_WAITING_TRACE_BYTES {
            true => self.flush_rank(rank),
            false => Ok(()),
        }
    }

    /// All calls were given.
    fn finish(mut self, report: &Report) -> Result<()> {
        let ranks: Vec<u32> = self.of_rank.keys().copied().collect();
        let mut calls = 0_u64;
        for rank in &ranks {
            if let Some(trace) = self.of_rank.get_mut(rank) {
                trace.text.extend_from_slice(b"\n]\n");
                calls = calls.saturating_add(trace.calls);
            }
            self.flush_rank(*rank)?;
        }
        report.note(&format!(
            "{} of {} on {} are in {}",
            count_phrase(calls, "call"),
            count_phrase(ranks.len() as u64, "rank"),
            count_phrase(self.groups.len() as u64, "communicator"),
            self.folder.display()
        ));
        let UntracedCalls {
            unknown,
            strange,
            own,
        } = self.left_out;
        if unknown > 0 {
            report.warn(&format!(
                "{} left out: the communicators or their members are not known",
                count_phrase(unknown, "call")
            ));
        }
        if strange > 0 {
            report.warn(&format!(
                "{} left out: PARAM does not have their operation or datatype, or a row is several \
                 calls",
                count_phrase(strange, "call")
            ));
        }
        if own > 0 {
            report.note(&format!(
                "{} of a rank to itself are left out: torch.distributed refuses them",
                count_phrase(own, "message")
            ));
        }
        if self.bytes > 0 {
            report.note(&format!(
                "of {} only the bytes are known: their elements are uint8",
                count_phrase(self.bytes, "call")
            ));
        }
        Ok(())
    }
}

/// The name of a type there.
fn param_datatype(of: Datatype) -> Option<&'static str> {
    Some(match of.name()? {
        "int8" => "int8",
        "uint8" => "uint8",
        "int32" => "int32",
        "int64" => "long",
        "fp16" => "float16",
        "fp32" => "float32",
        "fp64" => "float64",
        "bf16" => "bfloat16",
        _ => return None,
    })
}

fn output_error(path: &Path, cause: std::io::Error) -> Error {
    Error::Content(format!("cannot write {}: {cause}", path.display()))
}

/// PARAM's name of an operation, and the elements that go in and come out; of a call of `own` elements
/// on each of several ranks, which are `all`.
fn param_op_and_sizes(op: &[u8], own: u128, all: u128) -> Option<(&'static str, u128, u128)> {
    match op {
        b"AllReduce" => Some(("all_reduce", own, own)),
        b"AllGather" => Some(("all_gather_base", own, all)),
        b"ReduceScatter" => Some(("reduce_scatter_base", all, own)),
        b"Broadcast" => Some(("broadcast", own, own)),
        b"Reduce" => Some(("reduce", own, own)),
        b"Gather" => Some(("gather", own, all)),
        b"Scatter" => Some(("scatter", all, own)),
        b"AlltoAll" => Some(("all_to_allv", all, all)),
        b"Send" => Some(("isend", own, own)),
        b"Recv" => Some(("irecv", own, own)),
        _ => None,
    }
}

/// Returns the fields for the peer of a message, or for the root.
fn peer_or_root_fields(op: &[u8], rank: u32, root: Option<u32>) -> String {
    match (root, op) {
        (Some(peer), b"Send") => {
            format!(", \"src_rank\": {rank}, \"dst_rank\": {peer}, \"use_batch\": false")
        }
        (Some(peer), b"Recv") => {
            format!(", \"src_rank\": {peer}, \"dst_rank\": {rank}, \"use_batch\": false")
        }
        (Some(root), _) if has_root(op) => format!(", \"root\": {root}"),
        // No splits are equal ones.
        (_, b"AlltoAll") => ", \"in_split\": [], \"out_split\": []".to_owned(),
        _ => String::new(),
    }
}
