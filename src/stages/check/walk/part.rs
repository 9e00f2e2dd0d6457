//! What a chunk keeps of everything.

use super::Asked;
use crate::count::tally;
use crate::grammar::message::Message;
use crate::grammar::message::c10d::C10d;
use crate::log::placement::Recorder;
use crate::log::walk::{Call, Said, Torn, Visit};
use crate::stages::check::log::overwritten::Remains;
use crate::stages::check::streams::{self, reread};
use crate::stages::check::warn::warnings;
use crate::stages::net::all::First;
use crate::stages::skew::walked::times;
use crate::stages::{communicators, net, survey, tuning};
use serde::{Deserialize, Serialize};

/// One chunk's part of everything.
#[derive(Serialize, Deserialize)]
pub(super) struct Partial {
    pub(super) communicators: communicators::Partial,
    pub(super) net: net::fold::Partial,
    pub(super) streams: streams::Partial,
    pub(super) sums: survey::Partial,
    pub(super) warnings: warnings::Partial,
    pub(super) lines: Lines,
    pub(super) remains: Remains,
    /// Where it is asked for.
    pub(super) tuning: Option<tuning::fold::Partial>,
    /// The same.
    pub(super) times: Option<times::Partial>,
    /// What of a file is read again: of a pipe it is kept. A pipe is walked where it comes.
    #[serde(skip)]
    pub(super) again: Option<(reread::Calls<'static>, Recorder)>,
}

/// What kinds of lines there are.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Lines {
    /// PyTorch's watchdog says that a call took too long.
    pub(crate) hung: bool,
    /// Calls with a time stamp.
    pub(crate) stamped: bool,
    /// Calls without.
    pub(crate) bare: bool,
    /// WARN lines with a time stamp.
    pub(crate) stamped_warns: bool,
    /// WARN lines.
    pub(crate) warns: bool,
    /// RCCL's lines of kernels.
    pub(crate) kernels: bool,
    /// The first line that NCCL prints only under NCCL_DEBUG=INFO.
    pub(crate) informs: Option<First>,
}

impl Lines {
    pub(super) fn add(&mut self, other: Lines) {
        self.hung |= other.hung;
        self.stamped |= other.stamped;
        self.bare |= other.bare;
        self.stamped_warns |= other.stamped_warns;
        self.warns |= other.warns;
        self.kernels |= other.kernels;
        self.informs = self.informs.or(other.informs);
    }

    /// Those of a chunk whose first line is `line` of the input `input`.
    pub(super) fn placed(mut self, input: u32, line: u64) -> Lines {
        self.informs = self.informs.map(|at| First {
            input,
            line: at.line + line,
        });
        self
    }
}

impl Partial {
    pub(super) fn new(tally: &tally::Options, asked: Option<&Asked>, is_piped: bool) -> Partial {
        Partial {
            communicators: communicators::Partial::new(tally),
            net: net::fold::Partial::default(),
            streams: streams::Partial::default(),
            sums: survey::Partial::default(),
            warnings: warnings::Partial::default(),
            lines: Lines::default(),
            remains: Remains::default(),
            tuning: asked.map(|_| tuning::fold::Partial::default()),
            times: Asked::late(asked).map(times::Partial::new),
            again: is_piped.then(|| (reread::Calls::new(None), Recorder::default())),
        }
    }
}

impl Visit for Partial {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;

    fn foreign(&mut self, line: &[u8], number: u64) {
        let Some(what) = self.warnings.foreign(line, number) else {
            return;
        };
        if !matches!(what, C10d::NotDestroyed(_)) {
            self.lines.hung = true;
            self.streams.alarm();
        }
    }

    fn message(&mut self, said: &Said<'_>) {
        self.communicators.message(said);
        self.net.message(said);
        self.warnings.message(said);
        self.remains.message(said);
        if let Some(tuning) = &mut self.tuning {
            tuning.message(said);
        }
        match said.message {
            Message::Warn(_) => {
                self.lines.warns = true;
                self.lines.stamped_warns |= !said.time.is_empty();
            }
            Message::Kernel(_) => self.lines.kernels = true,
            // Also printed under WARN, and after a WARN.
            Message::Version(_) | Message::Return(_) => {}
            _ => {
                self.lines.informs.get_or_insert(First {
                    input: 0,
                    line: said.line,
                });
            }
        }
    }

    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.communicators.call(call);
        self.net.call(call);
        self.streams.call(call);
        self.sums.call(call);
        self.warnings.call(call.process);
        if let Some(tuning) = &mut self.tuning {
            tuning.call(call);
        }
        self.times.call(call);
        self.again.call(call);
        let stamped = !call.time.is_empty();
        self.lines.stamped |= stamped;
        self.lines.bare |= !stamped;
    }

    fn mark(&mut self) {
        self.communicators.mark();
        self.sums.mark();
        self.times.mark();
        self.again.mark();
    }

    fn slot(&mut self) {
        self.communicators.slot();
        self.net.slot();
        self.streams.slot();
        self.sums.slot();
        self.warnings.slot();
        if let Some(tuning) = &mut self.tuning {
            tuning.slot();
        }
        self.times.slot();
        self.again.slot();
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        self.communicators.torn(calls);
        self.net.torn(calls);
        self.streams.torn(calls);
        self.sums.torn(calls);
        self.warnings.torn(calls);
        if let Some(tuning) = &mut self.tuning {
            tuning.torn(calls);
        }
        self.times.torn(calls);
        self.again.torn(calls);
    }
}
