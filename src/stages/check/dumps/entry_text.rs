//! Texts for calls of a dump.

use crate::formats::flight::{self, DumpEntry, FlightOp};

/// `AllReduce of 4 fp32`; `Send of 4096 fp32 to 2`.
pub(super) fn describe_entry(entry: &DumpEntry) -> String {
    let name = match &entry.op {
        FlightOp::Collective(name) => (*name).to_owned(),
        FlightOp::Send { .. } => "Send".to_owned(),
        FlightOp::Recv { .. } => "Recv".to_owned(),
        FlightOp::Coalesced => "a coalesced group of calls".to_owned(),
        FlightOp::Foreign | FlightOp::Unknown => entry.name.to_string(),
    };
    let tensors = match entry.inputs.shapes.is_empty() {
        true => &entry.outputs,
        false => &entry.inputs,
    };
    let elements = tensors
        .element_counts()
        .try_fold(0_u64, |sum, n| sum.checked_add(n?));
    match (tensors.types.first(), elements) {
        (Some(datatype), Some(n)) if !tensors.shapes.is_empty() => {
            format!("{name} of {n} {}", short_datatype(datatype))
        }
        _ => name,
    }
}

/// The name that the other tables have for a type of PyTorch.
fn short_datatype(datatype: &str) -> String {
    flight::find_datatype(datatype).map_or_else(|| datatype.to_owned(), |known| known.to_string())
}

/// ` at train.py:212`, or nothing if no line of the program made the call.
pub(super) fn describe_source(entry: &DumpEntry) -> String {
    let Some(frame) = entry.source_frame() else {
        return String::new();
    };
    let file = frame.file.rsplit(['/', '\\']).next().unwrap_or_default();
    format!(" at {file}:{}", frame.line)
}

/// ` at train.py:212`, or the reason for no line.
pub(super) fn describe_source_or_why(entry: &DumpEntry) -> String {
    match describe_source(entry) {
        none if none.is_empty() => " (its line is not recorded)".to_owned(),
        place => place,
    }
}

/// A record as a line of evidence.
pub(super) fn entry_line(entry: &DumpEntry) -> Vec<u8> {
    format!(
        "record {}: {}{}, {}, call {} of group {}",
        entry.record_id,
        describe_entry(entry),
        describe_source(entry),
        entry.reached_state().name(),
        entry.collective_seq,
        entry.group.name,
    )
    .into_bytes()
}
