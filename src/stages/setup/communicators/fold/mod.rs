//! Parts of a chunk: calls by member, and lines about communicators.

use super::begun::{BegunThreads, SetupProgress, SetupStep, StampedSpot, UnnamedSetups};
use super::purpose::CommunicatorState;
use crate::count::tally;
use crate::grammar::message::NcclMessage;
use crate::grammar::message::communicator::init::{self, InitStage};
use crate::grammar::message::communicator::life_line::{CommLifeLine, CommLifeStep};
use crate::grammar::message::communicator::timing;
use crate::grammar::message::communicator::timing::TimedSetup;
use crate::grammar::message::graph::{ChannelCounts, GraphMessage};
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use crate::members::{MergedMembers, MergedNumbers};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

mod side;

pub(crate) use side::{CommunicatorInitTiming, CommunicatorSide};

/// Calls and lines of a chunk.
#[derive(Serialize, Deserialize)]
pub(crate) struct CommunicatorsPartial {
    tally: tally::TallyPartial,
    heard: Vec<CommunicatorLine>,
    #[serde(skip)]
    begun: BegunThreads,
}

/// A line about a communicator; the process number is the chunk's.
#[derive(Serialize, Deserialize)]
pub(crate) struct CommunicatorLine {
    thread: SpeakerThread,
    /// Number of the line in the chunk.
    line: u64,
    /// Position of its begin in bytes of the input.
    at: u64,
    /// Its time stamp as printed; empty if there is none.
    time: Box<[u8]>,
    what: CommunicatorLineKind,
}

#[derive(Serialize, Deserialize)]
enum CommunicatorLineKind {
    Channels(ChannelCounts),
    Init(Box<CommunicatorInitLine>),
    Life(CommLifeLine),
    Layout(init::CommLayout),
    Timing(f64, Vec<(Box<[u8]>, f64)>, u32, u32),
    Name(CommunicatorNameLine),
    Setup(SetupStep),
}

/// Name of a communicator.
#[derive(Serialize, Deserialize)]
struct CommunicatorNameLine {
    name: Box<[u8]>,
    hash: u64,
    rank: u32,
    nranks: u32,
}

/// Contents of an INIT line.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CommunicatorInitLine {
    stage: InitStage,
    comm: u64,
    side: CommunicatorSide,
    parent: Option<u64>,
}

impl CommunicatorsPartial {
    pub(crate) fn new(options: &tally::Options) -> Self {
        CommunicatorsPartial {
            tally: tally::TallyPartial::new(options),
            heard: Vec::new(),
            begun: BegunThreads::default(),
        }
    }

    fn push_line(&mut self, said: &MessageLine<'_>, what: CommunicatorLineKind) {
        self.heard.push(CommunicatorLine {
            thread: SpeakerThread::new(said.process, said.tid),
            line: said.line,
            at: said.at,
            time: said.time.into(),
            what,
        });
    }

    pub(crate) fn into_parts(self) -> (tally::TallyPartial, Vec<CommunicatorLine>) {
        (self.tally, self.heard)
    }
}

impl LogVisitor for CommunicatorsPartial {
    const MESSAGES: bool = true;

    fn message(&mut self, said: &MessageLine<'_>) {
        let thread = SpeakerThread::new(said.process, said.tid);
        if let NcclMessage::Init(_) = &said.message {
            self.begun.reset_thread(thread);
        }
        if let Some(what) = keep_line(&said.message) {
            self.push_line(said, what);
        }
        if let Some(step) = self.begun.take_message(thread, &said.message) {
            self.push_line(said, CommunicatorLineKind::Setup(step));
        }
    }

    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.tally.call(call);
    }

    fn mark(&mut self) {
        self.tally.mark();
    }

    fn slot(&mut self) {
        self.tally.slot();
    }

    fn unify_processes(&mut self, first: &[u32]) {
        self.tally.unify_processes(first);
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.tally.insert_torn_calls(calls);
    }
}

/// Returns the kept part of a message, if it is about a communicator.
fn keep_line(message: &NcclMessage<'_>) -> Option<CommunicatorLineKind> {
    Some(match message {
        NcclMessage::Init(line) => CommunicatorLineKind::Init(Box::new(keep_init_line(line))),
        NcclMessage::Life(life) => CommunicatorLineKind::Life(*life),
        NcclMessage::Layout(layout) => CommunicatorLineKind::Layout(*layout),
        NcclMessage::Timings(timing) => match timing.of {
            TimedSetup::Init { rank, nranks, .. } => {
                CommunicatorLineKind::Timing(timing.total, keep_timings(timing), rank, nranks)
            }
            TimedSetup::Bootstrap => return None,
        },
        NcclMessage::Graph(GraphMessage::Channels(channels)) => {
            CommunicatorLineKind::Channels(*channels)
        }
        NcclMessage::Named(named) if !named.name.is_empty() => {
            CommunicatorLineKind::Name(CommunicatorNameLine {
                name: named.name.into(),
                hash: named.hash,
                rank: named.rank,
                nranks: named.nranks,
            })
        }
        _ => return None,
    })
}

fn keep_init_line(line: &init::InitLine<'_>) -> CommunicatorInitLine {
    let side = CommunicatorSide {
        comm: line.init.comm,
        rank: Some(line.init.rank),
        nranks: Some(line.init.nranks),
        dev: line.init.dev,
        nvml_dev: line.nvml_dev,
        bus_id: line.bus_id,
        call: line.call.map(Into::into),
        color: line.init.split.and_then(|split| split.color),
        ..CommunicatorSide::default()
    };
    CommunicatorInitLine {
        stage: line.stage,
        comm: line.init.comm,
        side,
        parent: line.init.split.map(|split| split.parent),
    }
}

fn keep_timings(timing: &timing::InitTimings<'_>) -> Vec<(Box<[u8]>, f64)> {
    timing.parts().map(|(name, s)| (name.into(), s)).collect()
}

/// All sides so far, in the order of their first INIT lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CommunicatorSides {
    pub(crate) list: Vec<CommunicatorSide>,
    /// The side at an address of a process, or the last one there.
    live: FxHashMap<(u32, u64), usize>,
    /// The side of a thread's last INIT line.
    last: FxHashMap<SpeakerThread, usize>,
    /// Channels printed before the line that names the communicator: before 2.18, without `Init START`,
    /// that line is the last.
    channels: FxHashMap<SpeakerThread, (ChannelCounts, FirstReportLine)>,
    /// Initialisations without `Init START`.
    pub(super) unnamed: UnnamedSetups,
}

impl CommunicatorSides {
    /// Adds the lines of a chunk in order; `from` is its first line.
    pub(crate) fn add_lines(
        &mut self,
        heard: Vec<CommunicatorLine>,
        to: &MergedNumbers,
        from: FirstReportLine,
        merged: &MergedMembers,
    ) {
        for CommunicatorLine {
            thread,
            line,
            at: place,
            time,
            what,
        } in heard
        {
            let thread = thread.renumber(to);
            let process = thread.process;
            let at = FirstReportLine {
                line: from.line + line,
                ..from
            };
            match what {
                CommunicatorLineKind::Channels(channels) => {
                    let side = self.last.get(&thread).map(|&side| &mut self.list[side]);
                    match side.filter(|side| side.state == CommunicatorState::Started) {
                        Some(side) => side.channels = side.channels.or(Some((channels, at))),
                        None => {
                            self.channels.insert(thread, (channels, at));
                        }
                    }
                }
                CommunicatorLineKind::Init(mut begun) => {
                    let identity = merged.identity_at(process, begun.comm, place);
                    begun.side.comm_id = identity.and_then(|identity| identity.comm_id);
                    self.add_init_line(thread, *begun, StampedSpot { at, time });
                }
                CommunicatorLineKind::Setup(step) => {
                    self.add_setup_step(thread, step, StampedSpot { at, time });
                }
                CommunicatorLineKind::Life(life) => self.add_life_line(process, life),
                CommunicatorLineKind::Layout(layout) => {
                    if let Some(side) = self.side_at_address(process, layout.comm)
                        && (side.rank, side.nranks) == (Some(layout.rank), Some(layout.nranks))
                    {
                        side.layout = Some((layout.nodes, layout.local_ranks));
                    }
                }
                CommunicatorLineKind::Name(named) => self.assign_name(thread, named),
                CommunicatorLineKind::Timing(total, parts, rank, nranks) => {
                    if let Some(&side) = self.last.get(&thread)
                        && let side = &mut self.list[side]
                        && (side.rank, side.nranks) == (Some(rank), Some(nranks))
                    {
                        side.timing
                            .get_or_insert(CommunicatorInitTiming { total, parts, at });
                    }
                }
            }
        }
    }

    /// Adds later inputs that were read elsewhere, after `before` others; `here` renumbers processes. The
    /// lines of a process are in inputs read together.
    pub(crate) fn merge(
        &mut self,
        other: CommunicatorSides,
        here: impl Fn(u32) -> u32,
        before: u32,
    ) {
        let first = self.list.len();
        let thread = |of: SpeakerThread| SpeakerThread::new(here(of.process), of.tid);
        let channels =
            |(channels, at): (ChannelCounts, FirstReportLine)| (channels, at.shift_inputs(before));
        self.list
            .extend(other.list.into_iter().map(|side| CommunicatorSide {
                process: here(side.process),
                parent: side.parent.map(|parent| first + parent),
                timing: side.timing.map(|timing| CommunicatorInitTiming {
                    at: timing.at.shift_inputs(before),
                    ..timing
                }),
                channels: side.channels.map(channels),
                progress: side.progress.shift_inputs(before),
                ..side
            }));
        self.unnamed.merge(other.unnamed, &here, before);
        let live = other.live.into_iter();
        self.live
            .extend(live.map(|((process, comm), side)| ((here(process), comm), first + side)));
        let last = other.last.into_iter();
        self.last
            .extend(last.map(|(of, side)| (thread(of), first + side)));
        let open = other.channels.into_iter();
        self.channels
            .extend(open.map(|(of, open)| (thread(of), channels(open))));
    }

    /// Assigns a name to the communicator that the thread initialises if its rank and size fit, and its id
    /// if the hash is one.
    fn assign_name(&mut self, thread: SpeakerThread, named: CommunicatorNameLine) {
        let Some(&at) = self.last.get(&thread) else {
            return;
        };
        let own = |side: &CommunicatorSide| {
            (side.rank, side.nranks) == (Some(named.rank), Some(named.nranks))
        };
        // Up to 2.26.1 the hash is not the id: then only the thread decides.
        let is = |side: &CommunicatorSide| side.comm_id.is_some_and(|id| id.is_printed(named.hash));
        let other = !is(&self.list[at])
            && self
                .list
                .iter()
                .any(|side| side.process == thread.process && is(side));
        let side = &mut self.list[at];
        if own(side) && side.state == CommunicatorState::Started && !other {
            side.name.get_or_insert(named.name);
        }
    }

    fn side_at_address(&mut self, process: u32, comm: u64) -> Option<&mut CommunicatorSide> {
        let at = *self.live.get(&(process, comm))?;
        Some(&mut self.list[at])
    }

    /// Adds what a line shows of the initialisation that its thread is in.
    fn add_setup_step(&mut self, thread: SpeakerThread, step: SetupStep, spot: StampedSpot) {
        let side = self.last.get(&thread).map(|&side| &mut self.list[side]);
        match side.filter(|side| side.state == CommunicatorState::Started) {
            Some(side) => side.progress.add_step(step, spot),
            None => self.unnamed.add_step(thread, step, spot),
        }
    }

    fn add_init_line(
        &mut self,
        thread: SpeakerThread,
        begun: CommunicatorInitLine,
        spot: StampedSpot,
    ) {
        self.unnamed.end_setup(thread);
        let CommunicatorInitLine {
            stage,
            comm,
            side,
            parent,
        } = begun;
        let process = thread.process;
        let at = match self.live.get(&(process, comm)) {
            Some(&at) if self.list[at].is_same_life(&side, stage) => at,
            _ => self.push_side(process, side.clone(), parent),
        };
        let known = &mut self.list[at];
        known.fill_from_line(side);
        match stage {
            InitStage::InitStart if known.progress.began.is_none() => {
                known.progress = SetupProgress::begin_at(spot);
            }
            InitStage::InitComplete => known.progress.completed = Some(spot.at),
            _ => {}
        }
        known.state = match stage {
            InitStage::InitStart => CommunicatorState::Started,
            InitStage::InitComplete => CommunicatorState::Ready,
            InitStage::DestroyComplete => CommunicatorState::Destroyed,
            InitStage::AbortComplete => CommunicatorState::Aborted,
        };
        let channels = self.channels.remove(&thread);
        if stage == InitStage::InitComplete {
            known.channels = known.channels.or(channels);
        }
        self.last.insert(thread, at);
    }

    fn add_life_line(&mut self, process: u32, line: CommLifeLine) {
        let state = match line.step {
            CommLifeStep::Finalized => CommunicatorState::Finalized,
            CommLifeStep::Revoked => CommunicatorState::Revoked,
            CommLifeStep::TakedownBegun | CommLifeStep::Other => return,
        };
        if let Some(side) = self.side_at_address(process, line.comm)
            && (side.rank, side.nranks) == (Some(line.rank), Some(line.nranks))
            && !side.state.is_over()
        {
            side.state = state;
        }
    }

    fn push_side(
        &mut self,
        process: u32,
        mut side: CommunicatorSide,
        parent: Option<u64>,
    ) -> usize {
        side.process = process;
        let parent = parent.and_then(|parent| self.live.get(&(process, parent)));
        side.parent = parent.copied();
        let at = self.list.len();
        self.live.insert((process, side.comm), at);
        self.list.push(side);
        at
    }
}
