//! A trace in Chrome's format, as torch.profiler (Kineto) writes. It is recognised, not read yet.

use super::{Format, Tells};
use memchr::memmem;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "kineto",
    what: "a Chrome trace, as torch.profiler writes",
    tells: Tells::NOTHING,
    probe: |head| {
        let text = head.bytes.trim_ascii_start();
        let has = |key: &[u8]| memmem::find(text, key).is_some();
        head.other(match text.first() {
            Some(b'{') => {
                has(b"\"traceEvents\"")
                    || (has(b"\"schemaVersion\"") && has(b"\"deviceProperties\""))
            }
            Some(b'[') => is_event(text[1..].trim_ascii_start()),
            _ => false,
        })
    },
};

/// True for an object with the keys that every event has.
fn is_event(text: &[u8]) -> bool {
    let event = &text[..memchr::memchr(b'}', text).unwrap_or(text.len())];
    let has = |key: &[u8]| memmem::find(event, key).is_some();
    event.starts_with(b"{") && has(b"\"ph\"") && has(b"\"pid\"") && has(b"\"ts\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn a_trace_is_known_by_its_keys() {
        let is = |text: &str| (FORMAT.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        assert!(is(
            "\n  {\n    \"schemaVersion\": 1,\n    \"deviceProperties\": [\n    {\n"
        ));
        assert!(is("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"));
        assert!(is(
            "[{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":1,\"tid\":7,\"ts\":3}]"
        ));
        assert!(
            !is("{\"step\": 1, \"loss\": 2.5}\n") && !is("[{\"step\": 1}]") && !is("[1/2] x\n")
        );
    }
}
