//! The output of the job: Nsight Systems keeps that of the process that it started and of its
//! children. Under NCCL_DEBUG=INFO it is the job's log.

use super::export::NsysExport;
use super::text;
use super::timeline::NvtxEventKind;
use crate::error::{Error, Result};
use crate::source::{self, Input};
use std::fs::File;
use std::io::{self, Read, Write};

/// Extracts the log inside the export of an input. `None` if there is none; with `unless_calls` also if
/// the export has calls of its own or the log has nothing of NCCL.
///
/// # Errors
/// It is no database, or none that can be read; the log cannot be copied.
pub(crate) fn extract_log(input: &Input, unless_calls: bool) -> Result<Option<Input>> {
    let export = NsysExport::open_export(input)?;
    if unless_calls && has_calls(&export) {
        return Ok(None);
    }
    let failed = |cause: io::Error| {
        Error::Content(format!(
            "{}: cannot copy the log inside to a temporary file: {cause} (set TMPDIR to a folder with more \
             space)",
            export.name
        ))
    };
    let mut streams = Vec::new();
    export.for_each_row(
        "ProcessStreams",
        &["filenameId", "contentId"],
        &mut |fields| {
            streams.extend(fields.int(0).zip(fields.int(1)));
            Ok(())
        },
    )?;
    let mut file = tempfile::tempfile().map_err(failed)?;
    let mut copied = CopiedLog::default();
    for (name, content) in streams {
        let name = export.text_by_id(name);
        let is_output = [&b"stdout"[..], b"stderr"]
            .iter()
            .any(|part| memchr::memmem::find(&name, part).is_some());
        if let Some(mut text) = export.open_long_text(content).filter(|_| is_output) {
            copied.copy_stream(&mut text, &mut file).map_err(failed)?;
        }
    }
    let is_wanted = copied.bytes > 0 && (copied.has_nccl || !unless_calls);
    if !is_wanted {
        return Ok(None);
    }
    let broken = export.describe_damage().or(input.unpack_damage());
    input.open_inner_log(&file, broken).map(Some)
}

/// Returns true if the export has ranges of NCCL.
fn has_calls(export: &NsysExport) -> bool {
    export.any_row(
        "NVTX_EVENTS",
        &["eventType", "text", "textId"],
        &mut |fields| {
            let long = fields.int(2).filter(|_| fields.bytes(1).is_none());
            let long = long.map(|id| export.text_by_id(id));
            let text = fields.bytes(1).or(long.as_deref()).unwrap_or_default();
            NvtxEventKind::from_field(fields, 0) == Some(NvtxEventKind::PushPop)
                && text::parse_function(text).is_some()
        },
    )
}

/// Facts about the copied text.
#[derive(Debug, Default)]
struct CopiedLog {
    bytes: u64,
    has_nccl: bool,
    /// The last byte.
    last: Option<u8>,
}

impl CopiedLog {
    /// Copies a stream's text; it begins on a new line.
    fn copy_stream(&mut self, text: &mut dyn Read, file: &mut File) -> io::Result<()> {
        let mut block = vec![0; 1 << 16];
        let mut is_first = true;
        loop {
            // A damaged page ends it.
            let n = source::fill_buffer(text, &mut block).unwrap_or(0);
            let part = block.get(..n).unwrap_or_default();
            // Output has no NUL: a wrong text number may lead to an environment.
            if n == 0 || (is_first && part.contains(&0)) {
                return Ok(());
            }
            if is_first && self.last.is_some_and(|last| last != b'\n') {
                file.write_all(b"\n")?;
                self.bytes += 1;
            }
            is_first = false;
            self.has_nccl |= memchr::memmem::find(part, b"NCCL ").is_some();
            file.write_all(part)?;
            self.bytes += n as u64;
            self.last = part.last().copied();
        }
    }
}
