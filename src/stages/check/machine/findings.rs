//! The findings on what machines report.

use super::NumberedEvent;
use super::join::{JobMachines, JobPlace, JoinLevel};
use super::limits::MAX_SHOWN_LINES;
use super::time_order::TimeOrder;
use super::words::{advise_by_word, describe_message, explain_place};
use crate::grammar::machine::{MachineClass, PciAddress, WallTime};
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason, Severity};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::BTreeMap;

/// Judges messages.
pub(super) struct MachineJudge<'j> {
    pub(super) job: JobMachines<'j>,
    /// The names of the inputs.
    pub(super) names: &'j [String],
    /// The first failure of the log.
    pub(super) failed_at: Option<WallTime>,
    /// The log reports a failure.
    pub(super) has_failed: bool,
    pub(super) log_findings: &'j [Finding],
    /// The number of the first input.
    pub(super) first: u32,
}

/// A message with its verdict and place.
struct JudgedMessage<'m> {
    of: &'m NumberedEvent,
    place: JobPlace,
    order: TimeOrder,
    kind: Kind,
    severity: Severity,
    sure: Confidence,
}

/// Messages that are one finding: of one kind, about one GPU, process or host; notes also of one meaning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MessageGroup {
    severity: Severity,
    /// The stable word of its kind.
    id: &'static str,
    host: Option<Box<[u8]>>,
    side: Option<usize>,
    device: Option<PciAddress>,
    pid: Option<u64>,
    means: &'static str,
}

impl MachineJudge<'_> {
    /// The findings, one for all messages about one thing.
    pub(super) fn find_messages(&self, all: &[NumberedEvent]) -> Vec<Finding> {
        let mut groups: BTreeMap<MessageGroup, Vec<JudgedMessage<'_>>> = BTreeMap::new();
        let ups = find_links_up(all);
        let in_name = |name: &String| self.job.find_host_in_name(name);
        let file_hosts: Vec<Option<&[u8]>> = self.names.iter().map(in_name).collect();
        let is_message = |of: &&NumberedEvent| of.event.report.class != MachineClass::Up;
        for of in all.iter().filter(is_message) {
            let file_host = file_hosts.get(of.input as usize).copied().flatten();
            let place = self.job.place_message(&of.event, file_host);
            let is_back = ups.get(&device_key(of)).is_some_and(|&up| {
                of.event.report.class == MachineClass::Nic && up > of.event.last_line
            });
            let judged = self.judge_message(of, place, is_back);
            let is_note = judged.kind == Kind::MachineMessage;
            let has_side = judged.place.side.is_some();
            // An error of PCIe at a GPU is one with the GPU's own.
            let kind = match judged.kind {
                Kind::PcieError if has_side => Kind::GpuFailed,
                kind => kind,
            };
            let is_process = matches!(judged.kind, Kind::HostOutOfMemory | Kind::RankCrashed);
            let key = MessageGroup {
                severity: judged.severity,
                id: kind.id(),
                host: judged.place.host.clone(),
                side: judged.place.side,
                device: of.event.device.filter(|_| !is_note && !has_side),
                pid: of.event.pid.filter(|_| is_process && !has_side),
                means: if is_note { of.event.report.means } else { "" },
            };
            groups.entry(key).or_default().push(judged);
        }
        groups
            .values()
            .filter_map(|group| self.make_finding(group))
            .collect()
    }

    fn judge_message<'m>(
        &self,
        of: &'m NumberedEvent,
        mut place: JobPlace,
        is_back: bool,
    ) -> JudgedMessage<'m> {
        let event = &of.event;
        let order = TimeOrder::of_message(event.clock, self.failed_at);
        if event.report.class == MachineClass::Oom && place.level == JoinLevel::Host {
            self.find_killed_rank(&mut place);
        }
        let kind = kind_of_class(event.report.class);
        let (severity, sure) = match (place.level, order) {
            _ if kind == Kind::MachineMessage => match event.report.class {
                MachineClass::Slow | MachineClass::Hung if place.level != JoinLevel::Elsewhere => {
                    (Severity::Warning, Confidence::High)
                }
                _ => (Severity::Note, Confidence::High),
            },
            (JoinLevel::Elsewhere, _) => (Severity::Note, Confidence::High),
            (JoinLevel::Unplaced, _) => (Severity::Warning, Confidence::Low),
            (JoinLevel::Alone, _) => judge_alone(event.report.class, is_back),
            _ if order.is_excluded() && !event.is_state => (Severity::Note, Confidence::High),
            _ => self.judge_joined(of, place.level, order, is_back),
        };
        // A kind that explains others is for causes alone.
        let is_cause = severity == Severity::Error || place.level == JoinLevel::Alone;
        JudgedMessage {
            of,
            place,
            order,
            kind: if is_cause { kind } else { Kind::MachineMessage },
            severity,
            sure,
        }
    }

    /// A message about a process, a GPU or a host of the job that may be its cause.
    fn judge_joined(
        &self,
        of: &NumberedEvent,
        level: JoinLevel,
        order: TimeOrder,
        is_back: bool,
    ) -> (Severity, Confidence) {
        let report = of.event.report;
        let is_usual = matches!(report.class, MachineClass::Program | MachineClass::Engine);
        // The GPU could not have been used after it.
        let is_lasting = ["reset", "boot", "repair", "link"].contains(&report.action);
        let is_near = order.is_near();
        match level {
            JoinLevel::Process if is_usual => (Severity::Error, Confidence::Medium),
            JoinLevel::Process => (Severity::Error, Confidence::High),
            JoinLevel::KilledRank => (Severity::Error, Confidence::Medium),
            _ if !self.has_failed => (Severity::Warning, Confidence::Medium),
            JoinLevel::Gpu if is_near && !is_usual => (Severity::Error, Confidence::High),
            JoinLevel::Gpu if is_near || is_lasting => (Severity::Error, Confidence::Medium),
            // Another program of the host may be meant, and a link may have been down since the host booted.
            JoinLevel::Host if is_near && is_of_host(report.class) && !is_back => {
                (Severity::Error, Confidence::Medium)
            }
            _ => (Severity::Warning, Confidence::Low),
        }
    }

    /// A container numbers its processes otherwise than the kernel: the only process of the host that the log has as killed
    /// is the one that the kernel killed.
    fn find_killed_rank(&self, place: &mut JobPlace) {
        let is_killed = |f: &&Finding| {
            let may_be = matches!(
                f.kind,
                Kind::RankKilled | Kind::RankExited | Kind::DeadProcess | Kind::RankSilent
            );
            may_be && f.severity == Severity::Error && f.about.host == place.host
        };
        let mut those = self.log_findings.iter().filter(is_killed);
        let (Some(one), None) = (those.next(), those.next()) else {
            return;
        };
        let (Some(host), pid) = (&one.about.host, one.about.pid) else {
            return;
        };
        let side = self.job.found.sides_of_process(host, pid).first();
        if let Some(&side) = side {
            (place.level, place.side) = (JoinLevel::KilledRank, Some(side));
        }
    }

    fn make_finding(&self, group: &[JudgedMessage<'_>]) -> Option<Finding> {
        let worst = |message: &&JudgedMessage<'_>| {
            let of = message.of;
            (of.event.report.class, of.input, of.event.line)
        };
        let lead = group.iter().min_by_key(worst)?;
        let sure = group.iter().map(|message| message.sure).min()?;
        let mut says = describe_message(lead.of, &lead.place, &self.job);
        if group.len() > 1 {
            let more = group.len() - 1;
            says += &format!("; {more} more on it");
        }
        let rest = group.iter().filter(|message| !std::ptr::eq(*message, lead));
        let evidence = [lead].into_iter().chain(rest).take(MAX_SHOWN_LINES);
        let process = lead.place.side.map(|side| {
            let found = self.job.found;
            &found.processes[found.sides[side].process as usize]
        });
        let report = lead.of.event.report;
        Some(Finding {
            about: About {
                host: lead.place.host.clone(),
                pid: process.map_or(lead.of.event.pid, |process| process.pid),
                global_rank: lead
                    .place
                    .side
                    .and_then(|side| self.job.found.job_rank_of_side(side)),
                ..About::default()
            },
            why: explain_place(&lead.place, lead.order),
            advice: advise_by_word(report.action).to_owned(),
            evidence: evidence.map(|message| self.show_line(message.of)).collect(),
            reasons: vec![Reason::MachineReports],
            ..Finding::new(lead.kind, lead.severity, sure, says)
        })
    }

    fn show_line(&self, of: &NumberedEvent) -> Evidence {
        Evidence {
            at: FirstReportLine {
                input: self.first.saturating_add(of.input),
                line: of.event.line,
            }
            .into(),
            text: Some(of.event.text.to_vec()),
        }
    }
}

/// A device of a host, in an input.
type DeviceKey<'m> = (u32, Option<&'m [u8]>, Option<PciAddress>);

fn device_key(of: &NumberedEvent) -> DeviceKey<'_> {
    (of.input, of.event.host.as_deref(), of.event.device)
}

/// The last line of each device by which its link is up.
fn find_links_up(all: &[NumberedEvent]) -> BTreeMap<DeviceKey<'_>, u64> {
    let ups = all
        .iter()
        .filter(|of| of.event.report.class == MachineClass::Up);
    ups.map(|of| (device_key(of), of.event.last_line)).collect()
}

/// True for what concerns all processes of a host.
fn is_of_host(class: MachineClass) -> bool {
    let is_program = matches!(
        class,
        MachineClass::Oom | MachineClass::Crash | MachineClass::Program | MachineClass::Engine
    );
    !is_program
}

/// A message without a log.
fn judge_alone(class: MachineClass, is_back: bool) -> (Severity, Confidence) {
    match class {
        // Without a log any process of the host may be meant.
        MachineClass::Program | MachineClass::Engine | MachineClass::Crash => {
            (Severity::Warning, Confidence::Medium)
        }
        MachineClass::Nic if is_back => (Severity::Warning, Confidence::Medium),
        MachineClass::Nic | MachineClass::Link => (Severity::Error, Confidence::Medium),
        _ => (Severity::Error, Confidence::High),
    }
}

fn kind_of_class(class: MachineClass) -> Kind {
    match class {
        MachineClass::Gpu
        | MachineClass::Memory
        | MachineClass::Link
        | MachineClass::Switch
        | MachineClass::Engine => Kind::GpuFailed,
        MachineClass::Program => Kind::GpuProgramError,
        MachineClass::Oom => Kind::HostOutOfMemory,
        MachineClass::Crash => Kind::RankCrashed,
        MachineClass::Nic => Kind::LinkDown,
        MachineClass::Pcie => Kind::PcieError,
        MachineClass::Ram => Kind::HostMemoryError,
        MachineClass::Slow
        | MachineClass::Hung
        | MachineClass::Follows
        | MachineClass::Harmless
        | MachineClass::Up => Kind::MachineMessage,
    }
}

/// The finding where the messages of machines are all that could be judged, and show no fault; `notes` are what they have.
pub(super) fn nothing_found(notes: &[Finding]) -> Finding {
    let note = notes.iter().find(|f| f.severity == Severity::Note);
    let note = note.map_or(String::new(), |note| format!(", but {}", note.says));
    Finding {
        why: "what explains the end of a job is an error of a GPU, a link, PCIe or memory, or a process that was killed".to_owned(),
        advice: "check the job's log together with the messages of all its hosts".to_owned(),
        ..Finding::of_kind(
            Kind::NotChecked,
            Confidence::High,
            format!("not judged: the messages of the machine show no fault of a GPU, a link or memory{note}"),
        )
    }
}
