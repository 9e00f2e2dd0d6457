//! timeline.log, a line a call: `name:cudaMemcpy, start:N, burst:N, bytes:N, kind:N`. Versions before
//! ef43322 have blanks between fields and no bytes, those before f44d9eb no kind.

use super::limits::MAX_CALL_US;
use crate::error::Result;
use crate::formats::lines::{RecordFormat, RecordText};
use crate::formats::{InputFormat, Provides};
use crate::grammar::token::dec_u64;
use crate::output::table::{Lacks, Row, Timing};

/// The format.
pub(in crate::formats) const TIMELINE: InputFormat = InputFormat {
    name: "cuda",
    what: "a timeline of CUDA calls by Alnair",
    tells: Provides::CALLS
        .and(Provides::STARTS)
        .and(Provides::DURATIONS)
        .and(Provides::CUDA),
    probe: |head| head.probe_recorder(parse_call(head.first_line()).is_some()),
};

/// The direction of a copy (`cudaMemcpyKind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemcpyDirection {
    /// From host to host.
    HostToHost,
    /// To the GPU.
    HostToDevice,
    /// From the GPU.
    DeviceToHost,
    /// Between GPUs, or inside one.
    DeviceToDevice,
    /// CUDA finds it by the addresses.
    Default,
}

impl MemcpyDirection {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            MemcpyDirection::HostToHost => "HtoH",
            MemcpyDirection::HostToDevice => "HtoD",
            MemcpyDirection::DeviceToHost => "DtoH",
            MemcpyDirection::DeviceToDevice => "DtoD",
            MemcpyDirection::Default => "default",
        }
    }

    /// Returns the direction by the name of a function of the driver, which prints none.
    fn from_driver_function(name: &[u8]) -> Option<MemcpyDirection> {
        let is = |part: &[u8]| memchr::memmem::find(name, part).is_some();
        match (is(b"H2D"), is(b"D2H")) {
            (true, _) => Some(MemcpyDirection::HostToDevice),
            (_, true) => Some(MemcpyDirection::DeviceToHost),
            _ => None,
        }
    }
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaCall<'l> {
    /// The function.
    pub name: &'l [u8],
    /// When it began: ns since 1970 by a clock that may be set.
    pub start_ns: u64,
    /// How long the host was in it, in whole µs as printed.
    pub(crate) burst_us: u64,
    /// The bytes that it copied or allocated.
    pub bytes: Option<u64>,
    /// The direction of a copy.
    pub kind: Option<MemcpyDirection>,
}

impl CudaCall<'_> {
    /// Returns its time in ns, unless it is implausibly long.
    pub fn dur_ns(&self) -> Option<u64> {
        let us = Some(self.burst_us).filter(|&us| us <= MAX_CALL_US);
        us.and_then(|us| us.checked_mul(1000))
    }
}

/// The call of a line.
pub(crate) fn parse_call(line: &[u8]) -> Option<CudaCall<'_>> {
    let rest = line.trim_ascii().strip_prefix(b"name:")?;
    let end = rest.iter().position(|b| matches!(b, b',' | b' '))?;
    let (name, rest) = rest.split_at(end);
    if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let (start_ns, rest) = parse_field(rest, b"start:")?;
    let (burst_us, rest) = parse_field(rest, b"burst:")?;
    let (bytes, rest) = match rest {
        b"" => (None, rest),
        _ => parse_field(rest, b"bytes:").map(|(bytes, rest)| (Some(bytes), rest))?,
    };
    let kind = match rest {
        b"" | b", kind:-1" => MemcpyDirection::from_driver_function(name),
        b", kind:0" => Some(MemcpyDirection::HostToHost),
        b", kind:1" => Some(MemcpyDirection::HostToDevice),
        b", kind:2" => Some(MemcpyDirection::DeviceToHost),
        b", kind:3" => Some(MemcpyDirection::DeviceToDevice),
        b", kind:4" => Some(MemcpyDirection::Default),
        _ => return None,
    };
    Some(CudaCall {
        name,
        start_ns,
        burst_us,
        bytes,
        kind,
    })
}

/// The number of the next field.
fn parse_field<'l>(text: &'l [u8], key: &[u8]) -> Option<(u64, &'l [u8])> {
    let text = text.strip_prefix(b",").unwrap_or(text);
    let text = text.strip_prefix(b" ").unwrap_or(text).strip_prefix(key)?;
    let (rest, n) = dec_u64(text).ok()?;
    Some((n, rest))
}

/// The reader of its lines.
#[derive(Debug, Clone, Copy)]
pub(in crate::formats) struct CudaTimeline;

impl RecordFormat for CudaTimeline {
    type Scratch = ();

    fn read_header(_: &[u8], _: &str) -> Result<CudaTimeline> {
        Ok(CudaTimeline)
    }

    fn read_record(
        &self,
        (): &mut (),
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let call = parse_call(record.bytes).ok_or("name:, start:, burst:")?;
        let timing = Timing {
            start_ns: Some(call.start_ns),
            dur_ns: call.dur_ns(),
            clock: b"unix",
            quality: if call.dur_ns().is_some() {
                b"host call"
            } else {
                b"no time"
            },
            ..Timing::default()
        };
        take(&Row {
            op: call.name,
            only_bytes: call.bytes,
            calls: 1,
            src: TIMELINE.name.as_bytes(),
            timing: Some(&timing),
            ..Row::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_fields() {
        let old = parse_call(b"name:cuMemcpyH2D start:1662497162147795473 burst:23\n").unwrap();
        assert_eq!(
            (old.name, old.burst_us, old.bytes),
            (&b"cuMemcpyH2D"[..], 23, None)
        );
        assert_eq!(old.kind, Some(MemcpyDirection::HostToDevice));
        let next = parse_call(b"name:cuMemAlloc, start:16, burst:1878, bytes:2097152").unwrap();
        assert_eq!((next.bytes, next.kind), (Some(2_097_152), None));
        let last =
            parse_call(b"name:cudaMemcpy, start:17, burst:132, bytes:65536, kind:3").unwrap();
        assert_eq!(
            (last.kind, last.dur_ns()),
            (Some(MemcpyDirection::DeviceToDevice), Some(132_000))
        );
        let last =
            parse_call(b"name:cudaMemcpyAsync, start:17, burst:140285180914600, bytes:8, kind:1");
        assert_eq!(last.unwrap().dur_ns(), None);
    }

    #[test]
    fn what_is_cut_or_glued_is_no_call() {
        for line in [
            "name:cuInit",
            "name:cuInit, start:1, burst:",
            "name:cuInit, start:1, burst:2, by",
            "name:cuInit, start:1, burst:2, bytes:3, kind:-",
            "name:cuInit, start:1, burst:2, bytes:3, kind:1name:cuInit, start:1, burst:2",
            "name:cuInit,count:1,burst:4349618",
            "name:, start:1, burst:2",
        ] {
            assert_eq!(parse_call(line.as_bytes()), None, "{line}");
        }
    }
}
