//! All devices as one, as the founding script has them.

use super::device::{Device, Sums};
use super::gather::{Gather, no_session};
use super::intervals::{Interval, length};
use super::{Label, Row};
use crate::error::{Error, Result};

/// All devices as one.
#[derive(Debug, Default)]
pub(super) struct Merged {
    device: Device,
    /// The sessions, on the same clock as the device.
    window: Option<Interval>,
    inputs: u64,
    /// All inputs so far have a clock that is common to them.
    is_common: bool,
}

impl Merged {
    /// Adds an input's devices.
    ///
    /// # Errors
    /// It does not tell its session, or is on another clock than those before.
    pub(super) fn add(&mut self, of: &mut Gather<'_>, name: &str) -> Result<()> {
        self.is_common = of.session.utc_ns.is_some() && (self.inputs == 0 || self.is_common);
        self.inputs += 1;
        if self.inputs > 1 && !self.is_common {
            return Err(Error::Content(format!(
                "{name}: its times and those of other inputs are on no common clock: \
                 --merge-devices takes one input then"
            )));
        }
        let utc = of.session.utc_ns.unwrap_or(0);
        let moved = |(from, to): Interval| (from.saturating_add(utc), to.saturating_add(utc));
        let window = of.session.window.ok_or_else(|| no_session(name))?;
        let (from, to) = moved(window);
        let (first, last) = self.window.unwrap_or((from, to));
        self.window = Some((first.min(from), last.max(to)));
        for device in of.devices.values_mut() {
            for (all, list) in self.device.lists_mut().into_iter().zip(device.lists_mut()) {
                all.extend(list.drain(..).map(moved));
            }
        }
        Ok(())
    }

    /// The row of all. What lies outside of the session is counted too, as the founding script does.
    pub(super) fn row(mut self) -> Row {
        self.device.end();
        let mut sums = Sums::of(self.device.lists(), &[(i64::MIN, i64::MAX)]);
        sums.window = length(self.window.as_slice());
        Row {
            label: Label::Whole,
            host: Box::default(),
            rank: None,
            pid: None,
            device: None,
            basis: "session",
            sums,
        }
    }
}
