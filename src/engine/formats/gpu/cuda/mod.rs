//! Files of Alnair's interposer of CUDA (`cuda_interpose.cc` of profiler-hook-lib): a line for each call
//! (timeline.log), and sums by function that are rewritten every 10 ms (metrics.log).
//!
//! A call's time is the host's: an asynchronous copy is only enqueued, a synchronous one waits for
//! earlier work of the GPU. So bytes divided by it are no bandwidth.

mod limits;
mod sums;
mod timeline;

pub use sums::CudaSnapshot;
use timeline::parse_call;
pub use timeline::{CudaCall, MemcpyDirection};
pub(in crate::formats) use timeline::{CudaTimeline, TIMELINE};

use crate::error::Result;
use crate::formats::ordered;
use crate::formats::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::report::account::{Account, LineClass};
use crate::source::Input;
use limits::{MAX_CUDA_LINE_BYTES, MAX_SNAPSHOT_BYTES};
use std::io::BufReader;

/// metrics.log. It has sums and no calls.
pub(in crate::formats) const METRICS: InputFormat = InputFormat {
    name: "alnair",
    what: "sums of CUDA calls by Alnair (metrics.log)",
    tells: Provides::CUDA,
    probe: |head| {
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        head.probe_recorder(sums::is_snapshot(first, lines.next()))
    },
};

/// The content of an input.
#[derive(Debug)]
pub enum CudaInput {
    /// A timeline: its calls were given to `take`.
    Calls(Account),
    /// Sums.
    Sums(CudaSnapshot, Account),
}

/// Reads a snapshot, or a timeline: gives its calls to `take`.
///
/// # Errors
/// It cannot be read.
pub fn read_cuda(input: &Input, take: &mut dyn FnMut(&CudaCall<'_>)) -> Result<CudaInput> {
    let head = input.read_head()?;
    let is_timeline = (TIMELINE.probe)(&InputHead::from_bytes(&head.bytes)) == ProbeAnswer::Yes;
    let mut account = Account::default();
    if !is_timeline {
        let text = ordered::read_whole(input, MAX_SNAPSHOT_BYTES)?;
        let mut count = |line: &[u8], is_sound| count_line(&mut account, line, is_sound);
        let all = sums::parse_snapshot(&text, &mut count);
        return Ok(CudaInput::Sums(all, account));
    }
    let mut reader = BufReader::with_capacity(1 << 18, input.open_unmapped_reader()?);
    let name = input.name();
    ordered::for_each_line(&mut reader, &name, MAX_CUDA_LINE_BYTES, &mut |line| {
        match parse_call(line) {
            Some(call) => {
                account.calls = account.calls.saturating_add(1);
                account.count_line(LineClass::Call);
                take(&call);
            }
            None => count_line(&mut account, line, line.trim_ascii().is_empty()),
        }
        Ok(())
    })?;
    Ok(CudaInput::Calls(account))
}

/// Counts a line without a call.
fn count_line(account: &mut Account, line: &[u8], is_sound: bool) {
    if is_sound {
        account.count_line(LineClass::Other);
    } else {
        account.count_damaged_line("name:, start:, burst:", line);
    }
}
