//! Facts of a host that others do not share: its lines before the first call, edited.

use crate::fault::row::{FaultRow, HostFactRow};
use crate::fault::{Fault, FaultKind};
use crate::job::{JobComm, SynthJob};
use crate::nccl::init::release_text;
use crate::nccl::line::NcclLine;
use crate::nccl::net::ConnectionRow;
use crate::options::{Nccl, Options};
use crate::rng::hash_parts;
use crate::trainer::StepPrinter;
use crate::truth::rows::CommRow;

/// Phases of an initialisation that a rank can be slow in by itself.
const INIT_PHASES: [&str; 5] = ["kernels", "bootstrap", "topo", "graphs", "connections"];
/// Channels of the connections that a host with half of them has left.
const CHANNELS_OF_HALVED_HOST: usize = 2;

/// An odd fact and its host.
struct OddHost<'a> {
    options: &'a Options,
    job: &'a SynthJob,
    kind: FaultKind,
    /// The host, or the host of the slow rank.
    host: usize,
    /// The slow rank, and its communicator.
    slow: Option<(usize, usize)>,
}

/// The host that is odd.
pub(super) fn choose_odd_host(options: &Options, fault: Fault) -> usize {
    let others = options.nodes.saturating_sub(1).max(1) as u64;
    let drawn = 1 + (hash_parts(options.seed, &[44]) % others) as usize;
    fault.host.unwrap_or(drawn).min(options.nodes - 1)
}

impl<'a> OddHost<'a> {
    fn new(options: &'a Options, job: &'a SynthJob) -> Option<Self> {
        let fault = options.fault.filter(|fault| !fault.kind.is_of_calls())?;
        let mut odd = OddHost {
            options,
            job,
            kind: fault.kind,
            host: choose_odd_host(options, fault),
            slow: None,
        };
        if fault.kind == FaultKind::SlowInit {
            let group = fault.comm.map_or("world", |group| group.truth_name());
            let rank = fault.rank.unwrap_or_else(|| choose_quiet_rank(options));
            let member = job.procs[rank].members.iter().find(|member| {
                let comm = &job.comms[member.comm];
                comm.kind.name() == group && comm.ranks.len() > 1
            })?;
            odd.slow = Some((rank, member.comm));
            odd.host = job.procs[rank].node;
        }
        Some(odd)
    }

    fn is_odd(&self, rank: usize) -> bool {
        match self.slow {
            Some((slow, _)) => rank == slow,
            None => self.job.procs[rank].node == self.host,
        }
    }

    /// The communicator is on the odd host alone, and another host has one of its like.
    fn lacks_channels(&self, comm: usize) -> bool {
        let comms = &self.job.comms;
        let local = |comm: &JobComm| {
            let node = |rank: usize| self.job.procs[rank].node;
            (comm.nodes == 1).then(|| node(comm.ranks[0]))
        };
        let this = &comms[comm];
        let alike = |other: &JobComm| {
            (other.kind, other.ranks.len()) == (this.kind, this.ranks.len())
                && local(other).is_some_and(|host| host != self.host)
        };
        self.kind == FaultKind::Channels
            && this.ranks.len() > 1
            && local(this) == Some(self.host)
            && comms.iter().any(alike)
    }

    /// The phase that is slow, and by how many hundredths of a second.
    fn slow_phase(&self) -> (&'static str, u64) {
        let drawn = hash_parts(self.options.seed, &[46]);
        (
            INIT_PHASES[(drawn % 5) as usize],
            3_000 + (drawn >> 8) % 3_000,
        )
    }

    /// Another value, or a setting others do not have.
    fn has_other_value(&self) -> bool {
        hash_parts(self.options.seed, &[45]) & 1 == 0
    }

    /// A line as the odd host has it, into `out`; `member` is the communicator it is of.
    fn edit_line(&self, said: NcclLine, member: Option<usize>, out: &mut Vec<NcclLine>) {
        let (NcclLine::Info(text) | NcclLine::Trees(text)) = &said else {
            return out.push(said);
        };
        let again = |text: String| match said {
            NcclLine::Trees(_) => NcclLine::Trees(text),
            _ => NcclLine::Info(text),
        };
        let edited = match self.kind {
            FaultKind::Sockets => sockets_lines(text),
            FaultKind::Gpudirect => Some(vec![
                text.replace("RDMA Enabled", "RDMA Disabled")
                    .replace("/GDRDMA", ""),
            ]),
            FaultKind::Nvls => text.starts_with("NVLS comm ").then(Vec::new),
            FaultKind::Channels => member
                .filter(|&comm| self.lacks_channels(comm))
                .and_then(|_| halve_channels(text)),
            FaultKind::Version => {
                let (own, other) = self.nccl_versions();
                Some(vec![text.replace(own, other)]).filter(|_| text.contains("CCL version "))
            }
            FaultKind::Setting => text.strip_prefix("NCCL_IB_TIMEOUT set by").map(|_| {
                if self.has_other_value() {
                    vec![text.replace("22", "14")]
                } else {
                    let hca = "NCCL_IB_HCA set by environment to mlx5_0";
                    vec![text.clone(), hca.to_owned()]
                }
            }),
            FaultKind::SlowInit => {
                let own = member.is_some() && member == self.slow.map(|(_, comm)| comm);
                text.strip_prefix("Init timings")
                    .filter(|_| own)
                    .map(|_| vec![self.slow_timings_line(text)])
            }
            _ => None,
        };
        match edited {
            Some(texts) => out.extend(texts.into_iter().map(again)),
            None => out.push(said),
        }
    }

    fn nccl_versions(&self) -> (&'static str, &'static str) {
        let own = self.options.nccl;
        let before = Nccl::ALL.iter().rev().find(|&&n| n < own && !n.is_rccl());
        let other = match own {
            Nccl::Rccl2_22 => Nccl::Rccl2_27,
            Nccl::Rccl2_27 => Nccl::Rccl2_22,
            _ => before.copied().unwrap_or(Nccl::V2_7),
        };
        (release_text(own), release_text(other))
    }

    /// A timings line with more in one phase, and in all.
    fn slow_timings_line(&self, text: &str) -> String {
        let (phase, more) = self.slow_phase();
        let text = add_hundredths(text, " total ", more).unwrap_or_else(|| text.to_owned());
        let named = [format!("({phase} "), format!(" {phase} ")];
        let found = named
            .iter()
            .find_map(|name| add_hundredths(&text, name, more));
        found.unwrap_or(text)
    }

    fn describe_fact(&self) -> HostFactRow {
        let (what, expected, made) = match self.kind {
            FaultKind::Sockets => ("network", "IB", "Socket"),
            FaultKind::Gpudirect => ("gdr", "yes", "no"),
            FaultKind::Nvls => ("nvls", "created", "not created"),
            FaultKind::Channels => ("coll channels", "2", "1"),
            FaultKind::Version => {
                let (own, other) = self.nccl_versions();
                ("version", own, other)
            }
            FaultKind::Setting if self.has_other_value() => ("NCCL_IB_TIMEOUT", "22", "14"),
            FaultKind::Setting => ("NCCL_IB_HCA", "", "mlx5_0"),
            _ => return self.describe_slow_fact(),
        };
        HostFactRow {
            what: what.to_owned(),
            expected: expected.to_owned(),
            made: made.to_owned(),
        }
    }

    fn describe_slow_fact(&self) -> HostFactRow {
        let (phase, more) = self.slow_phase();
        let usual = match phase {
            "kernels" => 60,
            "topo" => 3,
            "graphs" => 2,
            "connections" => 14,
            _ => 0,
        };
        HostFactRow {
            what: phase.to_owned(),
            expected: format_hundredths(usual),
            made: format_hundredths(usual + more),
        }
    }
}

/// Chooses the rank of a fault without one: a rank that does not print, and not the first.
fn choose_quiet_rank(options: &Options) -> usize {
    let printing = StepPrinter::new(options, 0).marker_rank();
    let start = hash_parts(options.seed, &[40]) as usize % options.ranks;
    let turn = (0..options.ranks).map(|i| (start + i) % options.ranks);
    let mut quiet = turn.filter(|&rank| rank != 0 && rank != printing);
    quiet.next().unwrap_or(options.ranks - 1)
}

/// `31.05`
fn format_hundredths(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Adds to the number after a name.
fn add_hundredths(text: &str, name: &str, hundredths: u64) -> Option<String> {
    let from = text.find(name)? + name.len();
    let digits = text[from..]
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.')
        .count();
    let (number, behind) = text[from..].split_at(digits);
    let (whole, part) = number.split_once('.')?;
    let sum = whole.parse::<u64>().ok()? * 100 + part.parse::<u64>().ok()? + hundredths;
    Some(format!(
        "{}{}{behind}",
        &text[..from],
        format_hundredths(sum)
    ))
}

/// Returns the suffix of RCCL's line.
fn rccl_suffix(text: &str) -> &str {
    text.find(" comm 0x").map_or("", |at| &text[at..])
}

fn sockets_lines(text: &str) -> Option<Vec<String>> {
    if let Some(cards) = text.strip_prefix("NET/IB : Using ") {
        let address = cards.split_once("OOB ").map_or("eth0", |(_, at)| at);
        return Some(vec![
            "NET/IB : No device found.".into(),
            format!("NET/Socket : Using [0]{address}"),
        ]);
    }
    if text.starts_with("NET/IB : GPU Direct") {
        return Some(Vec::new());
    }
    if text == "Using network IB" {
        return Some(vec!["Using network Socket".into()]);
    }
    let at = text.find(" via NET/IB/")?;
    Some(vec![format!(
        "{} via NET/Socket/0{}",
        &text[..at],
        rccl_suffix(text)
    )])
}

/// A line of a communicator with half as many channels.
fn halve_channels(text: &str) -> Option<Vec<String>> {
    let channel = |text: &str| text.get(..2).and_then(|n| n.parse::<usize>().ok());
    if let Some(behind) = text
        .strip_prefix("Channel ")
        .or_else(|| text.strip_prefix("Ring "))
    {
        let kept = channel(behind)? < CHANNELS_OF_HALVED_HOST;
        return Some(if kept {
            vec![text.replacen("/02 :", "/01 :", 1)]
        } else {
            Vec::new()
        });
    }
    if text.starts_with("Trees") {
        let at = text.find(" [1] ")?;
        return Some(vec![format!("{}{}", &text[..at], rccl_suffix(text))]);
    }
    let behind = text.strip_prefix("2 coll channels")?;
    Some(vec![format!("1 coll channels{behind}")])
}

/// Edits a rank's lines. Returns the first that is not as it should be, or the one where
/// one is missing.
pub(crate) fn edit_rank_lines(
    options: &Options,
    job: &SynthJob,
    rank: usize,
    lines: &mut Vec<NcclLine>,
) -> Option<usize> {
    let odd = OddHost::new(options, job).filter(|odd| odd.is_odd(rank))?;
    let members = &job.procs[rank].members;
    let mut edited = Vec::with_capacity(lines.len());
    let mut done = 0_usize;
    for said in lines.iter().cloned() {
        let complete = matches!(&said, NcclLine::Info(text) if text.ends_with("Init COMPLETE"));
        // The timings come after the end of their communicator's lines.
        let timings = matches!(&said, NcclLine::Info(text) if text.starts_with("Init timings"));
        let at = if timings {
            done.checked_sub(1)
        } else {
            Some(done)
        };
        let member = at.and_then(|at| members.get(at));
        odd.edit_line(said, member.map(|member| member.comm), &mut edited);
        done += usize::from(complete);
    }
    let same = lines
        .iter()
        .zip(&edited)
        .take_while(|(a, b)| a == b)
        .count();
    let changed = *lines != edited;
    *lines = edited;
    let missing = usize::from(odd.kind == FaultKind::Nvls);
    changed.then(|| same.saturating_sub(missing))
}

/// Edits the connections that the odd host's ends print.
pub(crate) fn edit_connections(options: &Options, job: &SynthJob, rows: &mut [ConnectionRow]) {
    let Some(odd) = OddHost::new(options, job) else {
        return;
    };
    let Some(host) = job.procs.iter().find(|proc| proc.node == odd.host) else {
        return;
    };
    let short: Vec<String> = (0..job.comms.len())
        .filter(|&comm| odd.lacks_channels(comm))
        .map(|comm| format!("{:#x}", job.comms[comm].id))
        .collect();
    for row in rows {
        let own = if row.direction == "receive" {
            &row.to_host
        } else {
            &row.from_host
        };
        if *own != host.host {
            continue;
        }
        let net = row.transport == "NET";
        match odd.kind {
            FaultKind::Sockets if net && row.via == "IB" => {
                (row.via, row.nic, row.gdr, row.pxn) = ("Socket", Some(0), "no", None);
            }
            FaultKind::Gpudirect if net => row.gdr = "no",
            FaultKind::Channels if short.contains(&row.comm_id) => {
                row.channels = CHANNELS_OF_HALVED_HOST;
            }
            _ => {}
        }
    }
}

/// NVLS serves no call of the communicator, which is on one host.
pub(crate) fn lacks_nvls(options: &Options, comm: &JobComm) -> bool {
    let fault = options.fault.filter(|fault| fault.kind == FaultKind::Nvls);
    let host = comm.ranks[0] / (options.ranks / options.nodes);
    fault.is_some_and(|fault| choose_odd_host(options, fault) == host)
}

/// The fact, for the truth; its line is found when it is written.
pub(crate) fn fact(options: &Options, job: &SynthJob, comms: &[CommRow]) -> Option<FaultRow> {
    let odd = OddHost::new(options, job)?;
    let mut row = FaultRow {
        kind: odd.kind.name(),
        host: job
            .procs
            .iter()
            .find(|proc| proc.node == odd.host)?
            .host
            .clone(),
        fact: Some(odd.describe_fact()),
        ..FaultRow::default()
    };
    if let Some((rank, comm)) = odd.slow {
        let proc = &job.procs[rank];
        row.rank = Some(rank);
        row.pid = Some(proc.pid);
        row.comm_id = comms.get(comm).map(|comm| comm.comm_id.clone());
        row.comm_kind = Some(job.comms[comm].kind.name());
        row.comm_rank = proc
            .members
            .iter()
            .find(|member| member.comm == comm)
            .map(|member| member.rank);
    }
    Some(row)
}
