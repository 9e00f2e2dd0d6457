//! What Alnair's interposer of CUDA (`cuda_interpose.cc` of profiler-hook-lib) writes: a line for each call
//! (timeline.log), and sums by function that are written anew every 10 ms (metrics.log).
//!
//! A call's time is what the host spent in it: an asynchronous copy is enqueued in it, a synchronous one
//! waits for the GPU before it. It is no copy's duration, so bytes over it are no bandwidth.

mod sums;
mod timeline;

pub use sums::CudaSnapshot;
use timeline::parse_call;
pub use timeline::{CudaCall, MemcpyDirection};
pub(in crate::formats) use timeline::{CudaTimeline, TIMELINE};

use crate::error::Result;
use crate::formats::ordered;
use crate::formats::{InputFormat, Provides};
use crate::report::account::{Account, LineClass};
use crate::source::Input;
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

/// What an input has.
#[derive(Debug)]
pub enum CudaInput {
    /// Calls, which were given.
    Calls(Account),
    /// Sums.
    Sums(CudaSnapshot, Account),
}

/// The longest line that is read.
const MAX_CUDA_LINE_BYTES: u64 = 1 << 12;
/// The longest snapshot that is read: there are eleven lines.
const MAX_SNAPSHOT_BYTES: usize = 1 << 20;

/// Reads a timeline, whose calls are given to `take`, or a snapshot.
///
/// # Errors
/// It cannot be read.
pub fn read_cuda(input: &Input, take: &mut dyn FnMut(&CudaCall<'_>)) -> Result<CudaInput> {
    let is_timeline = {
        let head = input.read_head()?;
        (TIMELINE.probe)(&crate::formats::InputHead::from_bytes(&head.bytes))
            == crate::formats::ProbeAnswer::Yes
    };
    let mut account = Account::default();
    if !is_timeline {
        let text = ordered::read_whole(input, MAX_SNAPSHOT_BYTES)?;
        let mut told = |line: &[u8], is_sound| count_line(&mut account, line, is_sound);
        let all = sums::parse_snapshot(&text, &mut told);
        return Ok(CudaInput::Sums(all, account));
    }
    let mut reader = BufReader::with_capacity(1 << 18, input.open_unmapped_reader()?);
    ordered::for_each_line(
        &mut reader,
        &input.name(),
        MAX_CUDA_LINE_BYTES,
        &mut |line| {
            let call = parse_call(line);
            if let Some(call) = &call {
                account.calls = account.calls.saturating_add(1);
                take(call);
            }
            if call.is_some() {
                account.count_line(LineClass::Call);
            } else {
                count_line(&mut account, line, line.trim_ascii().is_empty());
            }
            Ok(())
        },
    )?;
    Ok(CudaInput::Calls(account))
}

/// A line that is no call.
fn count_line(account: &mut Account, line: &[u8], is_sound: bool) {
    if is_sound {
        account.count_line(LineClass::Other);
    } else {
        account.count_damaged_line("name:, start:, burst:", line);
    }
}
