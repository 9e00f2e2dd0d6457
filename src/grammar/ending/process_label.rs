//! The process that a line is from, by the label that PyTorch, a launcher or a server puts in front of it.

use super::ProcessOfLine;
use crate::rank_label::find_rank_label;
use crate::token::{dec_u32, dec_u64};
use memchr::memmem;

/// The longest label of a scheduler.
const MAX_LABEL_BYTES: usize = 64;

/// Returns the rank that a line is from, by the prefix of PyTorch or a launcher: `[rank3]:` of PyTorch and
/// torchrun, `[default3]:` of torchrun (a rank of the host), `[1,3]<stderr>:` of mpirun, `3: ` of srun; or the
/// process, `(RayWorkerWrapper pid=8, ip=10.0.0.1)` of Ray, `(VllmWorker rank=3 pid=8)` of vLLM,
/// `[2025-03-04 05:06:07 TP3]` of SGLang.
pub fn process_of_line(line: &[u8]) -> ProcessOfLine<'_> {
    let tagged = || {
        let (rest, _) = dec_u32(line.strip_prefix(b"[")?).ok()?;
        let (rest, rank) = dec_u32(rest.strip_prefix(b",")?).ok()?;
        rest.starts_with(b"]<std").then_some(rank)
    };
    let labelled = || {
        let (rest, rank) = dec_u32(line.trim_ascii_start()).ok()?;
        rest.starts_with(b": ").then_some(rank)
    };
    let worker = read_worker_label(line).unwrap_or_default();
    ProcessOfLine {
        rank: find_rank_label(line, b"]:")
            .or_else(tagged)
            .or_else(labelled)
            .or(worker.rank)
            .or_else(|| read_scheduler_label(line)),
        local_rank: read_host_label(line),
        ..worker
    }
}

/// Reads the rank on the host in torchrun's label.
fn read_host_label(line: &[u8]) -> Option<u32> {
    let label = b"[default";
    let (rest, rank) = dec_u32(&line[memmem::find(line, label)? + label.len()..]).ok()?;
    rest.starts_with(b"]:").then_some(rank)
}

/// Reads the rank in the name of a worker of vLLM's, `Worker_TP3`.
fn read_worker_name(name: &[u8]) -> Option<u32> {
    read_tensor_rank(name.split(|&b| b == b'_'), &[b"PP", b"DP"])
}

/// Reads the rank in the label of SGLang's scheduler, `[DATE TIME DP0 TP3]`, whose data-parallel groups share the ranks.
fn read_scheduler_label(line: &[u8]) -> Option<u32> {
    let label = line.strip_prefix(b"[")?;
    let label = &label[..memchr::memchr(b']', &label[..label.len().min(MAX_LABEL_BYTES)])?];
    read_tensor_rank(label.split(|&b| b == b' '), &[b"PP"])
}

/// Reads the number of `TP3` among `words`: it is the rank unless there are several groups, as words that begin with one of
/// `groups` show.
fn read_tensor_rank<'a>(
    mut words: impl Iterator<Item = &'a [u8]> + Clone,
    groups: &[&[u8]],
) -> Option<u32> {
    let is_group = |word: &[u8]| groups.iter().any(|group| word.starts_with(group));
    if words.clone().any(is_group) {
        return None;
    }
    let (rest, rank) = dec_u32(words.find_map(|word| word.strip_prefix(b"TP"))?).ok()?;
    rest.is_empty().then_some(rank)
}

/// Reads `(NAME key=value, key=value)` at the beginning of a line, in which the process is one of the values.
fn read_worker_label(line: &[u8]) -> Option<ProcessOfLine<'_>> {
    let label = line.strip_prefix(b"(")?;
    let label = &label[..memchr::memchr(b')', label)?];
    let mut worker = ProcessOfLine::default();
    for word in label.split(|b| b" ,".contains(b)) {
        let Some(equals) = memchr::memchr(b'=', word) else {
            worker.rank = worker.rank.or_else(|| read_worker_name(word));
            continue;
        };
        let value = &word[equals + 1..];
        match &word[..equals] {
            b"pid" => worker.pid = dec_u64(value).ok().map(|(_, pid)| pid),
            b"rank" => worker.rank = dec_u32(value).ok().map(|(_, rank)| rank),
            b"ip" => worker.host = Some(value),
            _ => {}
        }
    }
    worker.pid.is_some().then_some(worker)
}
