//! An end of a connection: a rank, and its GPU in brackets.

use crate::token::{PResult, dec_u32, fail, hex_u64, until, whole};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionEnd<'a> {
    /// The rank in its communicator.
    pub rank: u32,
    /// The GPU in brackets.
    pub gpu: Option<BracketedGpu<'a>>,
}

/// The GPU in a connection's brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BracketedGpu<'a> {
    /// As printed.
    pub text: &'a [u8],
    /// What it can only be.
    pub is: GpuIdFormat,
}

/// What the text in the brackets can only be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuIdFormat {
    /// NVML's number of the device, decimal.
    Device(u32),
    /// A PCI bus id, hex.
    BusId(u64),
    /// Two decimal digits may be either; it depends on the version.
    Either,
}

/// `4[4]`, `26[2]`, `1[200000]`, `63`.
pub(crate) fn connection_end(input: &[u8]) -> PResult<'_, ConnectionEnd<'_>> {
    let (i, rank) = dec_u32(input)?;
    let Some(i) = i.strip_prefix(b"[") else {
        return Ok((i, ConnectionEnd { rank, gpu: None }));
    };
    let (i, text) = until("]", "the end of the GPU")(i)?;
    match parse_bracketed_gpu(text) {
        Some(gpu) => Ok((
            i,
            ConnectionEnd {
                rank,
                gpu: Some(gpu),
            },
        )),
        None => fail(i, "a GPU"),
    }
}

/// A bus id has a bus, which is no 0 where a GPU is, and two digits after it; two digits may
/// still be one, for a virtual machine's first bus (`40` is 00:04.0).
pub(super) fn parse_bracketed_gpu(text: &[u8]) -> Option<BracketedGpu<'_>> {
    let hex = whole(hex_u64(text))?;
    let is = match (text.len(), whole(dec_u32(text))) {
        (1, Some(device)) => GpuIdFormat::Device(device),
        (2, Some(_)) => GpuIdFormat::Either,
        _ => GpuIdFormat::BusId(hex),
    };
    Some(BracketedGpu { text, is })
}
