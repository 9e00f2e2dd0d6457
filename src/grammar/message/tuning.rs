//! Which algorithm and protocol NCCL took for a call.
//!
//! ```text
//! 40 Bytes -> Algo 1 proto 0 time 8.616000                                             2.20-2.22
//! AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008                         2.23
//! AllReduce: 8589934592 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}        2.24+
//! AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0} cgaClusterSize 4  2.32+
//! AllReduce [Symmetric]: 1024 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512  2.27+
//! AllGather [Copy Engine]: 1024 Bytes -> cudaMemcpy                                    2.28+
//! AllGather [Hierarchical CE]: 1024 Bytes -> Rail put RMA proxy + CE                   2.32+
//! ```
//!
//! From `topoGetAlgoInfo` (`getAlgoInfo` before) in `src/enqueue.cc`. Only a communicator's rank 0
//! prints it, and it does not name the communicator. The numbers are those of
//! `src/include/device.h`; `time` is the model's, in microseconds.

use crate::token::{
    PResult, blank_free, dec_u32, dec_u64, fail, fraction, is_name_byte, until, whole, word,
};
use serde::{Deserialize, Serialize};

/// How NCCL does a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TuningMessage<'a> {
    /// By an algorithm and a protocol.
    Choice(AlgoProtoChoice<'a>),
    /// By a kernel on memory that all ranks can reach at the same address.
    Symmetric(SymmetricKernel<'a>),
    /// By the copy engines, without a kernel.
    CopyEngine {
        /// The operation.
        op: &'a [u8],
        /// The size.
        bytes: u64,
    },
}

/// A kernel on symmetric memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymmetricKernel<'a> {
    /// The operation.
    pub op: &'a [u8],
    /// The size it was chosen for.
    pub bytes: u64,
    /// The kernel.
    pub kernel: &'a [u8],
    /// Channels.
    pub channels: u32,
    /// Threads of each.
    pub threads: u32,
}

/// One choice of algorithm and protocol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlgoProtoChoice<'a> {
    /// The operation; printed since 2.23.
    pub op: Option<&'a [u8]>,
    /// The size it was chosen for.
    pub bytes: u64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// What the model expects it to take, in microseconds; printed up to 2.23.
    pub time_us: Option<f64>,
    /// The first and the last channel; printed since 2.24.
    pub channels: Option<(u32, u32)>,
}

/// How ranks are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// Two trees.
    Tree,
    /// A ring.
    Ring,
    /// In the network's switches, one step.
    CollNetDirect,
    /// In the network's switches, along a chain.
    CollNetChain,
    /// In the NVLink switches.
    Nvls,
    /// In the NVLink switches of a node, a tree between nodes.
    NvlsTree,
    /// Parallel aggregated trees.
    Pat,
    /// One this version does not know.
    Unknown,
}

/// How data is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Protocol {
    /// Low latency, 8 bytes at a time.
    Ll,
    /// Low latency, 128 bytes at a time.
    Ll128,
    /// Large pieces.
    Simple,
    /// One this version does not know.
    Unknown,
}

const ALGORITHMS: [(&str, Algorithm); 7] = [
    ("TREE", Algorithm::Tree),
    ("RING", Algorithm::Ring),
    ("COLLNET_DIRECT", Algorithm::CollNetDirect),
    ("COLLNET_CHAIN", Algorithm::CollNetChain),
    ("NVLS", Algorithm::Nvls),
    ("NVLS_TREE", Algorithm::NvlsTree),
    ("PAT", Algorithm::Pat),
];

const PROTOCOLS: [(&str, Protocol); 3] = [
    ("LL", Protocol::Ll),
    ("LL128", Protocol::Ll128),
    ("SIMPLE", Protocol::Simple),
];

impl Algorithm {
    /// By NCCL's number or name.
    pub fn from_text(text: &[u8]) -> Algorithm {
        find_value(&ALGORITHMS, text).unwrap_or(Algorithm::Unknown)
    }

    /// NCCL's name.
    pub fn name(self) -> &'static str {
        find_name(&ALGORITHMS, self)
    }
}

impl Protocol {
    /// By NCCL's number or name.
    pub fn from_text(text: &[u8]) -> Protocol {
        find_value(&PROTOCOLS, text).unwrap_or(Protocol::Unknown)
    }

    /// NCCL's name.
    pub fn name(self) -> &'static str {
        find_name(&PROTOCOLS, self)
    }
}

fn find_value<T: Copy>(table: &[(&str, T)], text: &[u8]) -> Option<T> {
    let found = match whole(dec_u32(text)) {
        Some(number) => table.get(usize::try_from(number).ok()?),
        None => table.iter().find(|(name, _)| name.as_bytes() == text),
    };
    found.map(|(_, value)| *value)
}

fn find_name<T: PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    let found = table.iter().find(|(_, other)| *other == value);
    found.map_or("UNKNOWN", |(name, _)| name)
}

/// Any of the lines above.
pub(crate) fn parse_tuning(body: &[u8]) -> Option<TuningMessage<'_>> {
    whole(algo_proto_line(body))
        .map(TuningMessage::Choice)
        .or_else(|| whole(kernel_or_copy_line(body)))
}

/// `AllReduce [Symmetric]: 1024 Bytes -> Kernel ...` and those without a kernel.
fn kernel_or_copy_line(input: &[u8]) -> PResult<'_, TuningMessage<'_>> {
    let (i, op) = until(" [", "an operation")(input)?;
    let (i, how) = until("]: ", "how it is done")(i)?;
    let (i, bytes) = dec_u64(i)?;
    let (i, _) = word(" Bytes -> ", "Bytes")(i)?;
    if how == b"Copy Engine" || how == b"Hierarchical CE" {
        let (_, _) = word("cudaMemcpy", "the copy")(i)
            .or_else(|_| word("RMA ", "the copy")(i))
            .or_else(|_| word("Rail ", "the copy")(i))?;
        return Ok((&[], TuningMessage::CopyEngine { op, bytes }));
    }
    let (i, _) = word("Kernel ", "a kernel")(i)?;
    let (i, kernel) = blank_free(i)?;
    let (i, _) = word(" nchannels ", "nchannels")(i)?;
    let (i, channels) = dec_u32(i)?;
    let (i, _) = word(" nthreads ", "nthreads")(i)?;
    let (i, threads) = dec_u32(i)?;
    let kernel = SymmetricKernel {
        op,
        bytes,
        kernel,
        channels,
        threads,
    };
    Ok((skip_named_values(i), TuningMessage::Symmetric(kernel)))
}

fn algo_proto_line(input: &[u8]) -> PResult<'_, AlgoProtoChoice<'_>> {
    let (i, op) = match until(": ", "an operation")(input) {
        Ok((i, op)) if op.iter().all(|&b| is_name_byte(b)) => (i, Some(op)),
        _ => (input, None),
    };
    let (i, bytes) = dec_u64(i)?;
    let (i, _) = word(" Bytes -> Algo ", "Algo")(i)?;
    let (i, algorithm) = blank_free(i)?;
    let (i, _) = word(" proto ", "proto")(i)?;
    let (i, protocol) = blank_free(i)?;
    let (i, time_us, channels) = match i.strip_prefix(b" time ") {
        Some(i) => {
            let (rest, time) = fraction(i)?;
            // `%f` has six digits after the point: fewer are a cut line's.
            let printed = &i[..i.len() - rest.len()];
            if printed.iter().rev().nth(6) != Some(&b'.') {
                return fail(i, "a time with six digits");
            }
            (rest, Some(time), None)
        }
        None => {
            let (i, channels) = channels(i)?;
            (i, None, Some(channels))
        }
    };
    Ok((
        skip_named_values(i),
        AlgoProtoChoice {
            op,
            bytes,
            algorithm: Algorithm::from_text(algorithm),
            protocol: Protocol::from_text(protocol),
            time_us,
            channels,
        },
    ))
}

/// What follows the names and values that end a line: each version may add some.
fn skip_named_values(input: &[u8]) -> &[u8] {
    let pair = |input| -> PResult<'_, ()> {
        let (i, _) = word(" ", "a blank")(input)?;
        let (i, name) = blank_free(i)?;
        if !name.iter().all(|&b| is_name_byte(b)) || name[0].is_ascii_digit() {
            return fail(input, "a name");
        }
        let (i, _) = word(" ", "a blank")(i)?;
        let (i, _) = blank_free(i)?;
        Ok((i, ()))
    };
    let mut rest = input;
    while let Ok((i, ())) = pair(rest) {
        rest = i;
    }
    rest
}

/// ` channel{Lo..Hi}={0..15}`.
fn channels(input: &[u8]) -> PResult<'_, (u32, u32)> {
    let (i, _) = word(" channel{Lo..Hi}={", "the channels")(input)?;
    let (i, first) = dec_u32(i)?;
    let (i, _) = word("..", "the last channel")(i)?;
    let (i, last) = dec_u32(i)?;
    let (i, _) = word("}", "the end of the channels")(i)?;
    Ok((i, (first, last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_of_each_version() {
        let of = |text: &'static str| match parse_tuning(text.as_bytes()) {
            Some(TuningMessage::Choice(choice)) => choice,
            other => panic!("{other:?}"),
        };
        let old = of("40 Bytes -> Algo 1 proto 0 time 8.616000");
        assert_eq!((old.op, old.bytes, old.time_us), (None, 40, Some(8.616)));
        assert_eq!(
            (old.algorithm, old.protocol),
            (Algorithm::Ring, Protocol::Ll)
        );
        let middle = of("AllGather: 37756928 Bytes -> Algo 6 proto 2 time 2860.208008");
        assert_eq!(middle.op, Some(&b"AllGather"[..]));
        assert_eq!(
            (middle.algorithm, middle.protocol),
            (Algorithm::Pat, Protocol::Simple)
        );
        let new = of("AllReduce: 8589934592 Bytes -> Algo NVLS_TREE proto LL128 \
                      channel{Lo..Hi}={0..15}");
        assert_eq!((new.bytes, new.channels), (1 << 33, Some((0, 15))));
        assert_eq!(
            (new.algorithm.name(), new.protocol.name()),
            ("NVLS_TREE", "LL128")
        );
        assert_eq!(
            of("8 Bytes -> Algo 9 proto X time 1.000000").algorithm,
            Algorithm::Unknown
        );
    }

    #[test]
    fn a_version_may_add_names_and_values() {
        for more in [" cgaClusterSize 4", " cgaClusterSize 4 warps 16 x {0..3}"] {
            for line in [
                "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
                "40 Bytes -> Algo 1 proto 0 time 8.616000",
                "AllReduce [Symmetric]: 8 Bytes -> Kernel AGxLL_R nchannels 8 nthreads 512",
            ] {
                let longer = format!("{line}{more}");
                let bare = parse_tuning(line.as_bytes());
                assert!(
                    bare.is_some() && parse_tuning(longer.as_bytes()) == bare,
                    "{longer}"
                );
                let cut = format!("{line} cgaClusterS");
                assert_eq!(parse_tuning(cut.as_bytes()), None, "{cut}");
            }
        }
    }

    #[test]
    fn symmetric_kernels_and_copies_have_shapes_of_their_own() {
        let line = b"AllReduce [Symmetric]: 1024 Bytes -> Kernel AGxLL_R nchannels 8 nthreads 512";
        let (op, bytes, kernel) = (&b"AllReduce"[..], 1024, &b"AGxLL_R"[..]);
        let (channels, threads) = (8, 512);
        let expected = SymmetricKernel {
            op,
            bytes,
            kernel,
            channels,
            threads,
        };
        assert_eq!(parse_tuning(line), Some(TuningMessage::Symmetric(expected)));
        let copy = parse_tuning(b"AllGather [Copy Engine]: 1024 Bytes -> cudaMemcpyBatchAsync");
        let op = b"AllGather";
        assert_eq!(copy, Some(TuningMessage::CopyEngine { op, bytes }));
        let rail =
            parse_tuning(b"AllGather [Hierarchical CE]: 1024 Bytes -> Rail x RMA proxy + CE");
        assert_eq!(rail, Some(TuningMessage::CopyEngine { op, bytes }));
    }

    #[test]
    fn a_cut_line_is_none() {
        for line in [
            &b"AllReduce: 85 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}"[..],
            b"40 Bytes -> Algo 1 proto 0 time 8.616000",
        ] {
            for cut in 0..line.len() {
                assert_eq!(parse_tuning(&line[..cut]), None, "{cut}");
            }
        }
    }
}
