//! What Alnair's interposer of CUDA (`cuda_interpose.cc` of profiler-hook-lib) writes: a line for each call
//! (timeline.log), and sums by function that are written anew every 10 ms (metrics.log).
//!
//! A call's time is what the host spent in it: an asynchronous copy is enqueued in it, a synchronous one
//! waits for the GPU before it. It is no copy's duration, so bytes over it are no bandwidth.

mod sums;
mod timeline;

pub use sums::Sums;
use timeline::call;
pub use timeline::{Call, Copied};
pub(in crate::formats) use timeline::{TIMELINE, Timeline};

use crate::error::Result;
use crate::formats::ordered;
use crate::formats::{Format, Tells};
use crate::report::account::{Account, Class};
use crate::source::Input;
use std::io::BufReader;

/// metrics.log. It has sums and no calls.
pub(in crate::formats) const METRICS: Format = Format {
    name: "alnair",
    what: "sums of CUDA calls by Alnair (metrics.log)",
    tells: Tells::CUDA,
    probe: |head| {
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        head.other(sums::begins(first, lines.next()))
    },
};

/// What an input has.
#[derive(Debug)]
pub enum Read {
    /// Calls, which were given.
    Calls(Account),
    /// Sums.
    Sums(Sums, Account),
}

/// The longest line that is read.
const LONGEST: u64 = 1 << 12;
/// The longest snapshot that is read: there are eleven lines.
const SNAPSHOT: usize = 1 << 20;

/// Reads a timeline, whose calls are given to `take`, or a snapshot.
///
/// # Errors
/// It cannot be read.
pub fn read(input: &Input, take: &mut dyn FnMut(&Call<'_>)) -> Result<Read> {
    let is_timeline = {
        let head = input.head()?;
        (TIMELINE.probe)(&crate::formats::Head::of(&head)) == crate::formats::Is::Yes
    };
    let mut account = Account::default();
    if !is_timeline {
        let text = ordered::whole(input, SNAPSHOT)?;
        let mut told = |line: &[u8], is_sound| line_of(&mut account, line, is_sound);
        let all = sums::sums(&text, &mut told);
        return Ok(Read::Sums(all, account));
    }
    let mut reader = BufReader::with_capacity(1 << 18, input.stream()?);
    ordered::each_line(&mut reader, &input.name(), LONGEST, &mut |line| {
        let call = call(line);
        if let Some(call) = &call {
            account.calls = account.calls.saturating_add(1);
            take(call);
        }
        if call.is_some() {
            account.line(Class::Call);
        } else {
            line_of(&mut account, line, line.trim_ascii().is_empty());
        }
        Ok(())
    })?;
    Ok(Read::Calls(account))
}

/// A line that is no call.
fn line_of(account: &mut Account, line: &[u8], is_sound: bool) {
    if is_sound {
        account.line(Class::Other);
    } else {
        account.damage("name:, start:, burst:", line);
    }
}
