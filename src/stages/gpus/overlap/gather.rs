//! Devices of an input, and the ranges that are windows.

use super::super::limits::MAX_RANGE_NAMES;
use super::comm::CommKernels;
use super::device::OverlapDevice;
use super::intervals::{Interval, union};
use super::{Options, OverlapGrouping, OverlapRow, RangeLabel, ShareWindow};
use crate::error::{Error, Result};
use crate::formats::gpu::{GpuActivity, GpuVisitor, NamedRange, RecorderSession};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A range that is a window, or a part of one.
#[derive(Debug, Clone, Copy)]
struct WindowRange {
    label: u32,
    pid: Option<u64>,
    device: Option<u32>,
    span: Interval,
}

/// Gathers the timeline of an input.
pub(super) struct OverlapGatherer<'g> {
    options: &'g Options,
    comm: &'g mut CommKernels,
    pub(super) devices: BTreeMap<(Option<u64>, u32), OverlapDevice>,
    labels: FxHashMap<RangeLabel, u32>,
    kept: Vec<WindowRange>,
    /// Ranges left out because there are too many names.
    pub(super) left_out: u64,
    pub(super) session: RecorderSession,
    pub(super) notes: Vec<String>,
}

impl GpuVisitor for OverlapGatherer<'_> {
    fn visit_activity(&mut self, activity: &GpuActivity<'_>) -> Result<()> {
        let device = self.devices.entry((activity.pid, activity.device));
        device.or_default().add_activity(activity, self.comm);
        Ok(())
    }

    fn visit_range(&mut self, range: &NamedRange<'_>) {
        let label = match (self.options.by, &self.options.window) {
            (Some(OverlapGrouping::Step), _) => range.step.map(RangeLabel::Step),
            (Some(OverlapGrouping::Range), _) => Some(RangeLabel::Name(range.name.into())),
            (None, ShareWindow::Step) => range.step.map(|_| RangeLabel::Whole),
            (None, ShareWindow::Range(name)) => (range.name == name).then_some(RangeLabel::Whole),
            (None, ShareWindow::Gpu | ShareWindow::Session) => None,
        };
        let Some(label) = label else {
            return;
        };
        let next = self.labels.len();
        let known = self.labels.get(&label).copied();
        if known.is_none() && next >= MAX_RANGE_NAMES {
            self.left_out += 1;
            return;
        }
        let label = known.unwrap_or_else(|| {
            let next = u32::try_from(next).unwrap_or(u32::MAX);
            self.labels.insert(label, next);
            next
        });
        self.kept.push(WindowRange {
            label,
            pid: range.pid,
            device: range.device,
            span: (range.start_ns, range.end_ns),
        });
    }

    fn visit_session(&mut self, session: &RecorderSession) {
        self.session = session.clone();
    }

    fn add_note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

impl<'g> OverlapGatherer<'g> {
    pub(super) fn new(options: &'g Options, comm: &'g mut CommKernels) -> OverlapGatherer<'g> {
        OverlapGatherer {
            options,
            comm,
            devices: BTreeMap::new(),
            labels: FxHashMap::default(),
            kept: Vec::new(),
            left_out: 0,
            session: RecorderSession::default(),
            notes: Vec::new(),
        }
    }

    /// Returns the windows of a device by label: their basis, and their intervals.
    fn device_windows(
        &self,
        pid: Option<u64>,
        device: u32,
    ) -> BTreeMap<&RangeLabel, (&'static str, Vec<Interval>)> {
        // A range belongs to the device's process, if both are known.
        let is_of = |kept: &&WindowRange| kept.pid.is_none() || pid.is_none() || kept.pid == pid;
        let mut all: Vec<(bool, Vec<Interval>)> = vec![(false, Vec::new()); self.labels.len()];
        for kept in self.kept.iter().filter(is_of) {
            let is_gpu = kept.device.is_some();
            let Some((has_gpu, list)) = all.get_mut(kept.label as usize) else {
                continue;
            };
            match (kept.device.is_none_or(|of| of == device), is_gpu, *has_gpu) {
                // Ranges recorded on the GPU are closer to its activity.
                (true, true, false) => (*has_gpu, *list) = (true, vec![kept.span]),
                (true, of_gpu, has_gpu) if of_gpu == has_gpu => list.push(kept.span),
                _ => {}
            }
        }
        let named = self.labels.iter().filter_map(|(label, at)| {
            let (is_gpu, list) = all.get_mut(*at as usize)?;
            let mut list = std::mem::take(list);
            union(&mut list);
            (!list.is_empty()).then_some((
                label,
                (if *is_gpu { "gpu range" } else { "host range" }, list),
            ))
        });
        named.collect()
    }

    /// Builds the rows of an input's devices.
    ///
    /// # Errors
    /// The window is the session, and the input has none.
    pub(super) fn build_rows(&self, name: &str) -> Result<Vec<OverlapRow>> {
        let mut rows = Vec::new();
        let whole = RangeLabel::Whole;
        for (key, device) in &self.devices {
            let windows = match (&self.options.window, self.options.by) {
                (ShareWindow::Gpu, None) => device.span.map(|span| ("gpu", vec![span])),
                (ShareWindow::Session, None) => {
                    let window = self.session.window.ok_or_else(|| no_session_error(name))?;
                    Some(("session", vec![window]))
                }
                _ => None,
            };
            let windows = match windows {
                Some(window) => BTreeMap::from([(&whole, window)]),
                None => self.device_windows(key.0, key.1),
            };
            rows.extend(windows.iter().map(|(label, (basis, window))| OverlapRow {
                label: (*label).clone(),
                host: self.session.host.clone(),
                rank: self.session.rank,
                pid: key.0,
                device: Some(key.1),
                basis,
                sums: device.compute_sums(window),
            }));
        }
        Ok(rows)
    }
}

pub(super) fn no_session_error(name: &str) -> Error {
    Error::Content(format!(
        "{name} has no start and end of the session: use --window gpu"
    ))
}
