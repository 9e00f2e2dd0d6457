//! timeline.log, a line a call: `name:cudaMemcpy, start:N, burst:N, bytes:N, kind:N`. Versions before
//! ef43322 have blanks between fields and no bytes, those before f44d9eb no kind.

use crate::error::Result;
use crate::formats::lines::Lines;
use crate::formats::{Format, Tells};
use crate::grammar::token::dec_u64;
use crate::output::table::{Lacks, Row, Timing};

/// The format.
pub(in crate::formats) const TIMELINE: Format = Format {
    name: "cuda",
    what: "a timeline of CUDA calls by Alnair",
    tells: Tells::CALLS
        .and(Tells::STARTS)
        .and(Tells::DURATIONS)
        .and(Tells::CUDA),
    probe: |head| head.other(call(head.line()).is_some()),
};

/// From where to where memory is copied (`cudaMemcpyKind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Copied {
    /// From host to host.
    HostToHost,
    /// To the GPU.
    HostToDevice,
    /// From the GPU.
    DeviceToHost,
    /// Between GPUs, or inside one.
    DeviceToDevice,
    /// By the addresses.
    Default,
}

impl Copied {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Copied::HostToHost => "HtoH",
            Copied::HostToDevice => "HtoD",
            Copied::DeviceToHost => "DtoH",
            Copied::DeviceToDevice => "DtoD",
            Copied::Default => "default",
        }
    }

    /// That of a function of the driver, which prints none.
    fn of_driver(name: &[u8]) -> Option<Copied> {
        let is = |part: &[u8]| memchr::memmem::find(name, part).is_some();
        match (is(b"H2D"), is(b"D2H")) {
            (true, _) => Some(Copied::HostToDevice),
            (_, true) => Some(Copied::DeviceToHost),
            _ => None,
        }
    }
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'l> {
    /// The function.
    pub name: &'l [u8],
    /// When it began: ns since 1970 by a clock that may be set.
    pub start_ns: u64,
    /// How long the host was in it, in whole µs as printed.
    pub(crate) burst_us: u64,
    /// How much it copied or allocated.
    pub bytes: Option<u64>,
    /// Where a copy went.
    pub kind: Option<Copied>,
}

impl Call<'_> {
    /// The longest time that is taken for one: a day. The interposer printed a variable that was never set
    /// (before a846db5): 140285180914600 µs.
    const LONGEST_US: u64 = 86_400_000_000;

    /// Its time in ns, unless it cannot be one.
    pub fn dur_ns(&self) -> Option<u64> {
        let us = Some(self.burst_us).filter(|&us| us <= Self::LONGEST_US);
        us.and_then(|us| us.checked_mul(1000))
    }
}

/// The call of a line.
pub(crate) fn call(line: &[u8]) -> Option<Call<'_>> {
    let rest = line.trim_ascii().strip_prefix(b"name:")?;
    let end = rest.iter().position(|b| matches!(b, b',' | b' '))?;
    let (name, rest) = rest.split_at(end);
    if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let (start_ns, rest) = field(rest, b"start:")?;
    let (burst_us, rest) = field(rest, b"burst:")?;
    let (bytes, rest) = match rest {
        b"" => (None, rest),
        _ => field(rest, b"bytes:").map(|(bytes, rest)| (Some(bytes), rest))?,
    };
    let kind = match rest {
        b"" | b", kind:-1" => Copied::of_driver(name),
        b", kind:0" => Some(Copied::HostToHost),
        b", kind:1" => Some(Copied::HostToDevice),
        b", kind:2" => Some(Copied::DeviceToHost),
        b", kind:3" => Some(Copied::DeviceToDevice),
        b", kind:4" => Some(Copied::Default),
        _ => return None,
    };
    Some(Call {
        name,
        start_ns,
        burst_us,
        bytes,
        kind,
    })
}

/// The number of the next field.
fn field<'l>(text: &'l [u8], key: &[u8]) -> Option<(u64, &'l [u8])> {
    let text = text.strip_prefix(b",").unwrap_or(text);
    let text = text.strip_prefix(b" ").unwrap_or(text).strip_prefix(key)?;
    let (rest, n) = dec_u64(text).ok()?;
    Some((n, rest))
}

/// The reader of its lines.
#[derive(Debug, Clone, Copy)]
pub(in crate::formats) struct Timeline;

impl Lines for Timeline {
    type Scratch = ();

    fn begin(_: &[u8], _: &str) -> Result<Timeline> {
        Ok(Timeline)
    }

    fn row(
        &self,
        (): &mut (),
        line: &[u8],
        _quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let call = call(line).ok_or("name:, start:, burst:")?;
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
            src: b"cuda",
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
        let old = call(b"name:cuMemcpyH2D start:1662497162147795473 burst:23\n").unwrap();
        assert_eq!(
            (old.name, old.burst_us, old.bytes),
            (&b"cuMemcpyH2D"[..], 23, None)
        );
        assert_eq!(old.kind, Some(Copied::HostToDevice));
        let next = call(b"name:cuMemAlloc, start:16, burst:1878, bytes:2097152").unwrap();
        assert_eq!((next.bytes, next.kind), (Some(2_097_152), None));
        let last = call(b"name:cudaMemcpy, start:17, burst:132, bytes:65536, kind:3").unwrap();
        assert_eq!(
            (last.kind, last.dur_ns()),
            (Some(Copied::DeviceToDevice), Some(132_000))
        );
        let last = call(b"name:cudaMemcpyAsync, start:17, burst:140285180914600, bytes:8, kind:1");
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
            assert_eq!(call(line.as_bytes()), None, "{line}");
        }
    }
}
