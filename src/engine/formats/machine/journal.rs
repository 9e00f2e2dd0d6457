//! Lines of the journal as JSON (`journalctl -o json`).

use super::event::{MachineEvent, find_event};
use super::has;
use crate::grammar::machine::KernelClock;
use serde::Deserialize;

/// The fields that are read. A message that is no text is a list of bytes.
#[derive(Deserialize)]
struct JournalLine {
    #[serde(rename = "MESSAGE")]
    message: serde_json::Value,
    #[serde(rename = "_HOSTNAME", default)]
    host: Option<String>,
    #[serde(rename = "_TRANSPORT", default)]
    transport: Option<String>,
    #[serde(rename = "SYSLOG_IDENTIFIER", default)]
    writer: Option<String>,
}

/// True for a line of the journal, by its fields.
pub(super) fn is_journal(line: &[u8]) -> bool {
    line.starts_with(b"{") && has(line, b"\"__REALTIME_TIMESTAMP\"") && has(line, b"\"MESSAGE\"")
}

/// Reads a line. Its time counts from the epoch, which a log's times of its zone cannot be compared with.
pub(super) fn parse_journal_line(line: &[u8]) -> Option<MachineEvent> {
    let read: JournalLine = serde_json::from_slice(line.trim_ascii()).ok()?;
    let is_kernel = [&read.transport, &read.writer]
        .into_iter()
        .flatten()
        .any(|word| word == "kernel");
    let text = match &read.message {
        serde_json::Value::String(text) => text.clone().into_bytes(),
        serde_json::Value::Array(bytes) => {
            let byte = |value: &serde_json::Value| u8::try_from(value.as_u64()?).ok();
            bytes.iter().map_while(byte).collect()
        }
        _ => return None,
    };
    let host = read.host.as_deref().map(str::as_bytes);
    is_kernel
        .then(|| find_event(&text, host, KernelClock::None, &text))
        .flatten()
}
