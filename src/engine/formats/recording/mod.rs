//! A recording: what nccl-pipe's own recorders write of a process ([`nccl_pipe_recording`]). A frame counts as a
//! line.

mod limits;
mod row;
#[cfg(test)]
mod tests;

use super::ordered::RowTaker;
use super::{InputFormat, ProbeAnswer, Provides};
use crate::error::{Error, Result};
use crate::report::account::LineClass;
use crate::report::count_phrase;
use crate::source::Input;
use nccl_pipe_recording::{Event, MAGIC, RecordingCall, RecordingItem, RecordingReader};
use row::RecordedProcess;
use std::io::{BufReader, Read};
use std::path::PathBuf;

/// The format.
pub(super) const FORMAT: InputFormat = InputFormat {
    name: "recorder",
    what: "a recording of nccl-pipe",
    tells: Provides::CALLS
        .and(Provides::STARTS)
        .and(Provides::DURATIONS),
    probe: |head| ProbeAnswer::yes_or_no(head.bytes.starts_with(MAGIC)),
};

/// Reads the recording of an input.
pub(super) fn read_calls(input: &Input, taking: &mut RowTaker<'_>) -> Result<()> {
    let reader = BufReader::with_capacity(1 << 18, input.open_unmapped_reader()?);
    read_frames(reader, &input.name(), taking)
}

fn read_frames(reader: impl Read, name: &str, taking: &mut RowTaker<'_>) -> Result<()> {
    let mut reader = RecordingReader::new(reader);
    let (mut process, mut ready) = (RecordedProcess::default(), Vec::<RecordingCall>::new());
    let (mut dropped, mut has_end) = (0_u64, false);
    let mut is_more = true;
    while is_more {
        let (mut events, mut damage) = (0_u64, None);
        let read = reader.read_frame(|item| match item {
            RecordingItem::Process(facts) => process.begin(facts),
            RecordingItem::Comm(number, facts) => process.add_comm(number, facts),
            RecordingItem::Event(thread, timed) => {
                events += 1;
                if let Event::Dropped(count) = timed.event {
                    dropped = dropped.saturating_add(count);
                }
                process.add_event(thread, &timed, |call| ready.push(*call));
            }
            RecordingItem::Damage(found) => damage = Some(found),
            RecordingItem::End => has_end = true,
        });
        is_more = read.map_err(|cause| Error::Input {
            path: PathBuf::from(name),
            cause,
        })?;
        if !is_more {
            process.finish(|call| ready.push(*call));
        }
        for call in ready.drain(..) {
            process.emit_row(&call, taking)?;
        }
        match damage {
            Some(damage) => taking.count_damaged("a whole frame", damage.why.as_bytes()),
            None if is_more => taking.count_line(match events {
                0 => LineClass::Other,
                _ => LineClass::Call,
            }),
            None => {}
        }
    }
    add_remarks(&process, dropped, has_end, taking);
    Ok(())
}

/// Adds remarks on the whole recording.
fn add_remarks(process: &RecordedProcess, dropped: u64, has_end: bool, taking: &mut RowTaker<'_>) {
    if dropped > 0 {
        taking.count_damaged("all events", b"the recorder had no room for some");
        let events = count_phrase(dropped, "event");
        let remark =
            format!("{events} had no room in the recorder or on the disk: calls are missing");
        taking.account.remarks.push(remark);
    }
    if process.in_bytes() > 0 {
        let calls = count_phrase(process.in_bytes(), "call");
        taking.account.remarks.push(format!(
            "{calls} of AllGather and Broadcast are recorded as bytes: NCCL before 2.28 does not give the profiler \
             their elements"
        ));
    }
    if process.replays() > 0 {
        let launches = count_phrase(process.replays(), "launch");
        let remark =
            format!("{launches} of CUDA graphs are left out: each call is counted at its capture");
        taking.account.remarks.push(remark);
    }
    if !has_end {
        let remark = "its process runs or was killed: calls of its last 0.1 s may be missing";
        taking.account.remarks.push(remark.to_owned());
    }
}
