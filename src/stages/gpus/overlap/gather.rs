//! What is kept of an input: its devices, and the ranges that are windows.

use super::comm::Comm;
use super::device::Device;
use super::intervals::{Interval, union};
use super::{By, Label, Options, Row, Window};
use crate::error::{Error, Result};
use crate::formats::gpu::{Activity, Range, Session, Visit};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A range that is a window, or a part of one.
#[derive(Debug, Clone, Copy)]
struct Kept {
    label: u32,
    pid: Option<u64>,
    device: Option<u32>,
    span: Interval,
}

/// What takes the timeline of an input.
pub(super) struct Gather<'g> {
    options: &'g Options,
    comm: &'g mut Comm,
    pub(super) devices: BTreeMap<(Option<u64>, u32), Device>,
    labels: FxHashMap<Label, u32>,
    kept: Vec<Kept>,
    /// Ranges that are left out, because there are too many names.
    pub(super) left_out: u64,
    pub(super) session: Session,
    pub(super) notes: Vec<String>,
}

/// The most names of ranges.
pub(super) const NAMES: usize = 1 << 14;

impl Visit for Gather<'_> {
    fn activity(&mut self, activity: &Activity<'_>) -> Result<()> {
        let device = self.devices.entry((activity.pid, activity.device));
        device.or_default().add(activity, self.comm);
        Ok(())
    }

    fn range(&mut self, range: &Range<'_>) {
        let label = match (self.options.by, &self.options.window) {
            (Some(By::Step), _) => range.step.map(Label::Step),
            (Some(By::Range), _) => Some(Label::Name(range.name.into())),
            (None, Window::Step) => range.step.map(|_| Label::Whole),
            (None, Window::Range(name)) => (range.name == name).then_some(Label::Whole),
            (None, Window::Gpu | Window::Session) => None,
        };
        let Some(label) = label else {
            return;
        };
        let next = self.labels.len();
        let known = self.labels.get(&label).copied();
        if known.is_none() && next >= NAMES {
            self.left_out += 1;
            return;
        }
        let label = known.unwrap_or_else(|| {
            let next = u32::try_from(next).unwrap_or(u32::MAX);
            self.labels.insert(label, next);
            next
        });
        self.kept.push(Kept {
            label,
            pid: range.pid,
            device: range.device,
            span: (range.start_ns, range.end_ns),
        });
    }

    fn session(&mut self, session: &Session) {
        self.session = session.clone();
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

impl<'g> Gather<'g> {
    pub(super) fn new(options: &'g Options, comm: &'g mut Comm) -> Gather<'g> {
        Gather {
            options,
            comm,
            devices: BTreeMap::new(),
            labels: FxHashMap::default(),
            kept: Vec::new(),
            left_out: 0,
            session: Session::default(),
            notes: Vec::new(),
        }
    }

    /// The window of a device: what it is made of, and the intervals of each label.
    fn windows(
        &self,
        (pid, device): (Option<u64>, u32),
    ) -> BTreeMap<&Label, (&'static str, Vec<Interval>)> {
        // A range is of the device's process, if both are known.
        let is_of = |kept: &&Kept| kept.pid.is_none() || pid.is_none() || kept.pid == pid;
        let mut all: Vec<(bool, Vec<Interval>)> = vec![(false, Vec::new()); self.labels.len()];
        for kept in self.kept.iter().filter(is_of) {
            let is_gpu = kept.device.is_some();
            let Some((has_gpu, list)) = all.get_mut(kept.label as usize) else {
                continue;
            };
            match (kept.device.is_none_or(|of| of == device), is_gpu, *has_gpu) {
                // What the GPU itself shows of a range is nearer to what it did.
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

    /// The rows of an input's devices.
    ///
    /// # Errors
    /// The window is the session, and the input does not tell it.
    pub(super) fn rows(&self, name: &str) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let whole = Label::Whole;
        for (key, device) in &self.devices {
            let windows = match (&self.options.window, self.options.by) {
                (Window::Gpu, None) => device.span.map(|span| ("gpu", vec![span])),
                (Window::Session, None) => {
                    let window = self.session.window.ok_or_else(|| no_session(name))?;
                    Some(("session", vec![window]))
                }
                _ => None,
            };
            let windows = match windows {
                Some(window) => BTreeMap::from([(&whole, window)]),
                None => self.windows(*key),
            };
            rows.extend(windows.iter().map(|(label, (basis, window))| Row {
                label: (*label).clone(),
                host: self.session.host.clone(),
                rank: self.session.rank,
                pid: key.0,
                device: Some(key.1),
                basis,
                sums: device.sums(window),
            }));
        }
        Ok(rows)
    }
}

pub(super) fn no_session(name: &str) -> Error {
    Error::Content(format!(
        "{name} does not tell when its session began and ended: use --window gpu"
    ))
}
