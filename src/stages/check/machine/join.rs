//! Which process, GPU and host of the job a message is about.

use crate::formats::machine::MachineEvent;
use crate::grammar::machine::{MachineClass, PciAddress};
use crate::members::SpeakerProcess;
use crate::stages::communicators::CommunicatorsSummary;
use std::collections::{BTreeMap, BTreeSet};

/// The hosts of a job, with its processes and GPUs.
pub(super) struct JobMachines<'a> {
    pub(super) found: &'a CommunicatorsSummary,
    hosts: BTreeMap<&'a [u8], JobHost>,
    /// The host of each name without its domain; none where several have it.
    short_names: BTreeMap<Vec<u8>, Option<&'a [u8]>>,
    /// The host and side of each process id; none where several hosts have it.
    pids: BTreeMap<u64, Option<HostAndSide<'a>>>,
}

/// A host, and the side of a process there.
type HostAndSide<'a> = (&'a [u8], Option<usize>);

/// A host of the job.
#[derive(Debug, Default)]
struct JobHost {
    /// A side of each process; none for a process without a communicator.
    processes: BTreeMap<u64, Option<usize>>,
    /// The side of each GPU by its address.
    addresses: BTreeMap<PciAddress, usize>,
    /// The side of each GPU by its number on the host.
    numbers: BTreeMap<u32, usize>,
}

/// What of the job a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JoinLevel {
    /// A process.
    Process,
    /// The process that the log has as killed, under another number.
    KilledRank,
    /// A GPU.
    Gpu,
    /// A host.
    Host,
    /// A host or a GPU that the job does not use.
    Elsewhere,
    /// The host is unknown, and the job has several.
    Unplaced,
    /// The other inputs name no process.
    Alone,
}

/// The place of a message in the job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobPlace {
    pub(super) level: JoinLevel,
    /// The host, as the log names it; else as the message does.
    pub(super) host: Option<Box<[u8]>>,
    /// The side of the process or GPU.
    pub(super) side: Option<usize>,
    /// The message does not name its host: it is that of its file, or the only one of the job.
    pub(super) is_host_assumed: bool,
}

impl<'a> JobMachines<'a> {
    /// Collects the hosts of what was found.
    pub(super) fn new(found: &'a CommunicatorsSummary) -> JobMachines<'a> {
        let mut hosts: BTreeMap<&[u8], JobHost> = BTreeMap::new();
        for SpeakerProcess { host, pid } in &found.processes {
            let of = hosts.entry(host).or_default();
            if let Some(pid) = pid {
                of.processes.entry(*pid).or_default();
            }
        }
        for (at, side) in found.sides.iter().enumerate() {
            let process = &found.processes[side.process as usize];
            let of = hosts.entry(&process.host).or_default();
            if let Some(pid) = process.pid {
                of.processes.entry(pid).or_default().get_or_insert(at);
            }
            if let Some(id) = side.bus_id {
                of.addresses.entry(PciAddress(id)).or_insert(at);
            }
            if let Some(gpu) = side.gpu_on_host() {
                of.numbers.entry(gpu).or_insert(at);
            }
        }
        let (mut short_names, mut pids) = (BTreeMap::new(), BTreeMap::new());
        for (host, of) in &hosts {
            let known = short_names.entry(shorten_host(host));
            known
                .and_modify(|known| *known = None)
                .or_insert(Some(*host));
            for (pid, side) in &of.processes {
                let known = pids.entry(*pid);
                known
                    .and_modify(|known| *known = None)
                    .or_insert(Some((*host, *side)));
            }
        }
        JobMachines {
            found,
            hosts,
            short_names,
            pids,
        }
    }

    /// Finds the place of a message; `file_host` is the host that the name of its file has.
    pub(super) fn place_message(
        &self,
        event: &MachineEvent,
        file_host: Option<&'a [u8]>,
    ) -> JobPlace {
        let own = event.host.as_deref();
        let place = |level, host: Option<&[u8]>, side| JobPlace {
            level,
            host: host.map(Into::into),
            side,
            is_host_assumed: own.is_none(),
        };
        if self.hosts.is_empty() {
            return place(JoinLevel::Alone, own, None);
        }
        let only = self.hosts.keys().next().filter(|_| self.hosts.len() == 1);
        let known = match own {
            Some(host) => self.find_host(host),
            None => file_host.or(only.copied()),
        };
        if let Some(host) = known {
            let (level, side) = self.hosts[host].place_on_host(event);
            return place(level, Some(host), side);
        }
        if own.is_some() {
            return place(JoinLevel::Elsewhere, own, None);
        }
        match event
            .pid
            .and_then(|pid| self.pids.get(&pid).copied().flatten())
        {
            Some((host, side)) => place(JoinLevel::Process, Some(host), side),
            None => place(JoinLevel::Unplaced, None, None),
        }
    }

    /// Finds a host by its name, with or without its domain.
    fn find_host(&self, host: &[u8]) -> Option<&'a [u8]> {
        let exact = self.hosts.get_key_value(host).map(|(known, _)| *known);
        exact.or_else(|| self.short_names.get(&shorten_host(host)).copied().flatten())
    }

    /// Finds the host by a word of the file's name, or of its folder's.
    pub(super) fn find_host_in_name(&self, name: &str) -> Option<&'a [u8]> {
        let mut parts = name.rsplit('/');
        parts.by_ref().take(2).find_map(|part| {
            let words: BTreeSet<&str> = part.split(['.', '_']).collect();
            let is_word = |host: &&&[u8]| {
                let Ok(host) = std::str::from_utf8(host) else {
                    return false;
                };
                let ends = |rest: &str| {
                    rest.strip_suffix(host)
                        .is_some_and(|rest| rest.ends_with('-'))
                };
                let begins = |rest: &str| {
                    rest.strip_prefix(host)
                        .is_some_and(|rest| rest.starts_with('-'))
                };
                words
                    .iter()
                    .any(|word| *word == host || ends(word) || begins(word))
                    || part.contains(host) && host.contains('.')
            };
            let mut those = self.hosts.keys().filter(is_word);
            those.next().copied().filter(|_| those.next().is_none())
        })
    }
}

/// A host's name without its domain, in lower case.
fn shorten_host(host: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'.', host).unwrap_or(host.len());
    host[..end].to_ascii_lowercase()
}

impl JobHost {
    fn place_on_host(&self, event: &MachineEvent) -> (JoinLevel, Option<usize>) {
        let by_process = event.pid.and_then(|pid| self.processes.get(&pid).copied());
        let by_address = event.device.and_then(|device| {
            let any_function = PciAddress(device.0 & !0xf);
            self.addresses
                .get(&device)
                .or_else(|| self.addresses.get(&any_function))
        });
        let by_number = event.gpu.and_then(|gpu| self.numbers.get(&gpu));
        let gpu = by_address.or(by_number).copied();
        let is_gpu = event.report.class.is_gpu_failure()
            || matches!(
                event.report.class,
                MachineClass::Engine | MachineClass::Slow
            );
        match (by_process, gpu) {
            (Some(side), None) => (JoinLevel::Process, side),
            (Some(side), Some(gpu)) => (
                JoinLevel::Process,
                side.or(Some(gpu)).filter(|_| !is_gpu).or(Some(gpu)),
            ),
            (None, Some(gpu)) => (JoinLevel::Gpu, Some(gpu)),
            // Another GPU of the host, where the log names those of the job.
            (None, None) if is_gpu && self.has_other_gpus(event) => (JoinLevel::Elsewhere, None),
            (None, None) => (JoinLevel::Host, None),
        }
    }

    fn has_other_gpus(&self, event: &MachineEvent) -> bool {
        event.device.is_some() && !self.addresses.is_empty()
            || event.gpu.is_some() && !self.numbers.is_empty()
    }
}
