//! RCCL's kernel trace (`RCCL_KERNEL_COLL_TRACE_ENABLE`).
//!
//! ```text
//! ## [170260.347287] [07:00] 000001 KL HWID 42300700 ncclDevFunc_AllReduce_RING_LL_Sum_double nw 4 bi 0 nc 0 busId df000 nRanks 8
//! ## [170260.349000] [07:00] 000001 KE busId df000 nRanks 8
//! ```
//!
//! From `ncclCommThreadMain` in RCCL's `src/init.cc`.

use crate::token::{PResult, blank_free, dec_u32, fraction, hex_u64, word};
use memchr::memmem;

/// One line of the kernel trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RcclKernel<'a> {
    /// Seconds on the device's clock.
    pub time_s: f64,
    /// Where: `07:00`, the communicator's rank and the block.
    pub place: &'a [u8],
    /// The operation's number, printed in hex.
    pub op_count: u64,
    /// Launched, or ended.
    pub event: RcclKernelEvent,
    /// The device's function; not printed at the end.
    pub function: Option<&'a [u8]>,
    /// The communicator's size.
    pub nranks: Option<u32>,
}

/// What the kernel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RcclKernelEvent {
    /// `KL`: began.
    Launch,
    /// `KE`: ended.
    End,
    /// Another event, `CE` or a thread's.
    Other,
}

/// One line of the trace.
pub(crate) fn parse_rccl_kernel(body: &[u8]) -> Option<RcclKernel<'_>> {
    rccl_kernel_line(body).ok().map(|(_, kernel)| kernel)
}

fn rccl_kernel_line(input: &[u8]) -> PResult<'_, RcclKernel<'_>> {
    let (i, _) = word("## [", "a time")(input)?;
    let (i, time_s) = fraction(i)?;
    let (i, _) = word("] [", "a place")(i)?;
    let (i, place) = crate::token::until("] ", "a place")(i)?;
    let (i, op_count) = hex_u64(i)?;
    let (i, _) = word(" ", "an event")(i)?;
    let (i, event) = blank_free(i)?;
    let event = match event {
        b"KL" => RcclKernelEvent::Launch,
        b"KE" => RcclKernelEvent::End,
        _ => RcclKernelEvent::Other,
    };
    let mut words = i.split(|&b| b == b' ');
    let function =
        words.find(|word| word.starts_with(b"ncclDevFunc_") || word.starts_with(b"ncclKernel_"));
    let nranks = memmem::find(i, b" nRanks ")
        .and_then(|at| dec_u32(&i[at + b" nRanks ".len()..]).ok())
        .map(|(_, n)| n);
    Ok((
        &[],
        RcclKernel {
            time_s,
            place,
            op_count,
            event,
            function,
            nranks,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_names_its_function() {
        let of = parse_rccl_kernel(
            b"## [170260.347287] [07:00] 00001a KL HWID 42300700 ncclDevFunc_AllReduce_RING_LL_Sum \
              nw 4 bi 0 nc 0 busId df000 nRanks 8",
        )
        .unwrap();
        assert_eq!(
            (of.time_s, of.place, of.op_count),
            (170_260.347_287, &b"07:00"[..], 0x1a)
        );
        assert_eq!((of.event, of.nranks), (RcclKernelEvent::Launch, Some(8)));
        assert_eq!(of.function, Some(&b"ncclDevFunc_AllReduce_RING_LL_Sum"[..]));
        assert_eq!(
            parse_rccl_kernel(b"## [17.3] [07:00] 00001a KE")
                .unwrap()
                .event,
            RcclKernelEvent::End
        );
        assert_eq!(parse_rccl_kernel(b"## [17."), None);
    }
}
