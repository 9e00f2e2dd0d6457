//! The trace that NCCL's example profiler plugin writes. It is recognised, not read yet.

use super::{Format, Tells};
use memchr::memmem;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "profiler",
    what: "an NCCL profiler trace",
    tells: Tells::NOTHING,
    probe: |head| {
        let text = head.bytes.trim_ascii();
        // A trace without an event.
        let is_bare = text.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"[{}]");
        let event = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
        let line = event.split(|&b| b == b'\n').next().unwrap_or_default();
        head.other((head.is_whole && is_bare) || is_event(line))
    },
};

/// The kinds of events of all versions.
const KINDS: [&str; 15] = [
    "GROUP",
    "GROUP_API",
    "COLL",
    "COLL_API",
    "P2P",
    "P2P_API",
    "PROXY",
    "NET",
    "NET_IB",
    "NET_SOCK",
    "GPU",
    "KERNEL_LAUNCH",
    "CE_COLL",
    "CE_SYNC",
    "CE_BATCH",
];

/// True for a line such as `{"name": "AllReduce", "cat": "COLL", "ph": "b", ...`.
fn is_event(line: &[u8]) -> bool {
    const KIND: &[u8] = b"\"cat\": \"";
    let of = |kind: &[u8]| KINDS.iter().any(|known| known.as_bytes() == kind);
    let kind = || {
        let from = memmem::find(line, KIND)? + KIND.len();
        line[from..].split(|&b| b == b'"').next()
    };
    line.starts_with(b"{\"name\": \"")
        && memmem::find(line, b"\"ph\": \"").is_some()
        && kind().is_some_and(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn a_trace_is_known_by_its_first_event() {
        let is = |text: &str| (FORMAT.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        let event = "{\"name\": \"Group\", \"cat\": \"GROUP\", \"ph\": \"b\", \"id\": 0, \"pid\": 7, \
                     \"tid\": 1, \"ts\": 46.244980, \"args\": {\"groupId\": 0}},\n";
        assert!(is(&format!("[\n{event}")) && is(event) && is("[\n{}]\n"));
        // Another tracer's events.
        assert!(!is(&event.replace("GROUP", "cpu_op")));
        assert!(!is("{\"name\": \"resnet\", \"epoch\": 1}\n") && !is("[]\n") && !is(""));
    }
}
