//! All devices as one, as in the founding script.

use super::device::{OverlapDevice, OverlapSums};
use super::gather::{OverlapGatherer, no_session_error};
use super::intervals::{Interval, total_length};
use super::{OverlapRow, RangeLabel};
use crate::error::{Error, Result};

/// All devices as one.
#[derive(Debug, Default)]
pub(super) struct AllDevices {
    device: OverlapDevice,
    /// The sessions, on the same clock as the device.
    window: Option<Interval>,
    inputs: u64,
    /// All inputs so far share a clock.
    is_common: bool,
}

impl AllDevices {
    /// Adds an input's devices.
    ///
    /// # Errors
    /// The input has no session, or another clock than those before.
    pub(super) fn add_input(&mut self, of: &mut OverlapGatherer<'_>, name: &str) -> Result<()> {
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
        let window = of.session.window.ok_or_else(|| no_session_error(name))?;
        let (from, to) = moved(window);
        let (first, last) = self.window.unwrap_or((from, to));
        self.window = Some((first.min(from), last.max(to)));
        for device in of.devices.values_mut() {
            for (all, list) in self
                .device
                .interval_lists_mut()
                .into_iter()
                .zip(device.interval_lists_mut())
            {
                all.extend(list.drain(..).map(moved));
            }
        }
        Ok(())
    }

    /// Makes the row of all devices. Activity outside the session counts too, as in the founding script.
    pub(super) fn into_row(mut self) -> OverlapRow {
        self.device.finish();
        let mut sums =
            OverlapSums::from_intervals(self.device.interval_lists(), &[(i64::MIN, i64::MAX)]);
        sums.window = total_length(self.window.as_slice());
        OverlapRow {
            label: RangeLabel::Whole,
            host: Box::default(),
            rank: None,
            pid: None,
            device: None,
            basis: "session",
            sums,
        }
    }
}
