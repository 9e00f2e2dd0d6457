//! Settings that are known to cost something, that contradict the rest of the log, or that NCCL
//! says it does not follow.
//!
//! What a variable does is from NVIDIA's user guide, "Environment Variables"
//! (`docs/userguide/source/env.rst` of NCCL 2.30.7). NCCL prints only variables that it reads: a
//! name it does not know never shows.

use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::hosts::meaning::is_on;
use crate::stages::check::hosts::odd_hosts::{about, evidence, hosts};
use crate::stages::check::wording::{counted, listed, text};
use crate::stages::net::Net;
use crate::stages::net::all::First;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::table::{self, Facts, Said};
use std::collections::BTreeSet;

/// The findings.
pub(crate) fn findings(net: &Net) -> Vec<Finding> {
    let facts = table::collected(net);
    let job = Job::new(&facts);
    let mut all = Vec::new();
    for (fact, said) in &facts {
        match fact.kind {
            Kind::Setting => setting(&job, fact, said, &mut all),
            Kind::Config => overruled(fact, said, &mut all),
            _ => {}
        }
    }
    all
}

/// What settings are held against, put together once for all of them.
struct Job<'f> {
    /// All hosts that say anything.
    hosts: BTreeSet<&'f [u8]>,
    /// Those with InfiniBand, RoCE or EFA NICs.
    with_cards: BTreeSet<&'f [u8]>,
    /// Those where NCCL found no InfiniBand or RoCE device.
    without_device: BTreeSet<&'f [u8]>,
    /// Those that loaded a network plugin.
    with_plugin: BTreeSet<&'f [u8]>,
    /// Network plugins that were not there or could not be loaded.
    lost_plugins: Vec<(&'f Fact, &'f Said)>,
    /// What connections go over.
    paths: Vec<(&'f Fact, &'f Said)>,
}

impl<'f> Job<'f> {
    fn new(facts: &'f Facts) -> Job<'f> {
        let those = |is: &dyn Fn(&Fact) -> bool| -> Vec<(&'f Fact, &'f Said)> {
            facts.iter().filter(|(fact, _)| is(fact)).collect()
        };
        let on = |is: &dyn Fn(&Fact) -> bool| -> BTreeSet<&'f [u8]> {
            let those = those(is).into_iter();
            those.flat_map(|(_, said)| hosts(said)).collect()
        };
        let is_lost = |value: &[u8]| {
            value.ends_with(b" not found") || value.ends_with(b" could not be loaded")
        };
        Job {
            hosts: on(&|_| true),
            with_cards: on(&crate::stages::check::hosts::meaning::is_fast_card),
            without_device: on(&|f| {
                f.kind == Kind::Nic && *f.name == *b"IB" && *f.value == *b"no device"
            }),
            with_plugin: on(&|f| {
                f.kind == Kind::Plugin
                    && matches!(&f.name[..], b"net" | b"external")
                    && f.value.ends_with(b" loaded")
            }),
            lost_plugins: those(&|f| {
                f.kind == Kind::Plugin && *f.name == *b"net" && is_lost(&f.value)
            }),
            paths: those(&|f| f.kind == Kind::Transport),
        }
    }
}

/// When a value is worth a word.
enum When {
    /// Any value.
    Any,
    /// Anything but 0.
    On,
    /// This.
    Is(&'static str),
    /// One of these.
    OneOf(&'static [&'static str]),
}

impl When {
    fn is(&self, value: &[u8]) -> bool {
        match self {
            When::Any => true,
            When::On => is_on(value),
            When::Is(this) => value.eq_ignore_ascii_case(this.as_bytes()),
            When::OneOf(these) => these
                .iter()
                .any(|this| value.eq_ignore_ascii_case(this.as_bytes())),
        }
    }
}

/// A variable, its value, what that does, what to do.
type Known = (&'static str, When, &'static str, &'static str);

/// What settings do, in the words of the guide's section of that name.
const KNOWN: [Known; 22] = [
    (
        "NCCL_P2P_DISABLE",
        When::On,
        "peer-to-peer access between GPUs is disabled, over NVLink and over PCIe: data goes \
         through the host's memory",
        "leave it unset unless direct access is broken on these machines",
    ),
    (
        "NCCL_P2P_LEVEL",
        When::OneOf(&["LOC", "0"]),
        "peer-to-peer access between GPUs is disabled, over NVLink and over PCIe: data goes \
         through the host's memory",
        "leave it unset: NCCL then chooses the level for the machine",
    ),
    (
        "NCCL_P2P_LEVEL",
        When::Any,
        "it limits the distance of GPUs for direct access; data between GPUs that are further \
         apart goes through the host's memory",
        "leave it unset: NCCL then chooses the level for the machine",
    ),
    (
        "NCCL_SHM_DISABLE",
        When::On,
        "ranks of one host without direct access use the network",
        "leave it unset unless /dev/shm is too small and cannot be made larger",
    ),
    (
        "NCCL_IB_DISABLE",
        When::On,
        "InfiniBand and RoCE are not used: data between hosts goes over sockets",
        "unset it where the host has such NICs",
    ),
    (
        "NCCL_NET",
        When::Is("Socket"),
        "data between hosts goes over sockets, even where the host has faster NICs",
        "unset it where the host has faster NICs",
    ),
    (
        "NCCL_NET_GDR_LEVEL",
        When::OneOf(&["LOC", "0"]),
        "NICs do not access GPU memory (GPUDirect RDMA is disabled)",
        "leave it unset: NCCL then chooses the level for the machine",
    ),
    (
        "NCCL_NET_GDR_LEVEL",
        When::Any,
        "it limits the distance between a NIC and a GPU for direct access",
        "leave it unset unless it was measured to be faster here",
    ),
    (
        "NCCL_NET_GDR_READ",
        When::Is("0"),
        "sent data is copied to the host's memory first",
        "leave it unset: it is on where GPUs have NVLink",
    ),
    (
        "NCCL_PXN_DISABLE",
        When::On,
        "a GPU does not use the NIC next to another GPU of its host (PXN)",
        "leave it unset where GPUs have NVLink",
    ),
    (
        "NCCL_NVLS_ENABLE",
        When::Is("0"),
        "collectives in the NVLink switches (NVLS) are disabled",
        "leave it unset on machines that have them",
    ),
    (
        "NCCL_NVB_DISABLE",
        When::On,
        "GPUs do not use NVLink through a third GPU",
        "leave it unset",
    ),
    (
        "NCCL_MNNVL_ENABLE",
        When::Is("0"),
        "NVLink between nodes is disabled",
        "leave it unset on machines that have it",
    ),
    (
        "NCCL_ALGO",
        When::Any,
        "it limits the algorithms NCCL may choose from; unset, NCCL chooses by machine and size",
        "leave it unset unless the choice was measured to be wrong",
    ),
    (
        "NCCL_PROTO",
        When::Any,
        "it limits the protocols NCCL may choose from; this is discouraged: LL128 can corrupt data \
         on a platform that does not support it",
        "leave it unset, or exclude one protocol only to look for a bug",
    ),
    (
        "NCCL_NTHREADS",
        When::Any,
        "it sets the threads of every channel; the default is 512 on recent GPUs",
        "leave it unset",
    ),
    (
        "NCCL_MAX_NCHANNELS",
        When::Any,
        "it limits the channels, and with them the bandwidth; NCCL_MAX_CTAS replaces it since 2.17",
        "leave it unset unless communication must use fewer GPU cores",
    ),
    (
        "NCCL_MAX_CTAS",
        When::Any,
        "it limits the channels, and with them the bandwidth",
        "leave it unset unless communication must use fewer GPU cores",
    ),
    (
        "NCCL_CHECK_POINTERS",
        When::On,
        "the pointers of every call are checked, which takes time",
        "leave it unset outside of development",
    ),
    (
        "NCCL_LAUNCH_MODE",
        When::Is("GROUP"),
        "cooperative launches are deprecated since 2.9",
        "leave it unset",
    ),
    (
        "NCCL_DEBUG",
        When::Is("TRACE"),
        "every call of the API is printed, and much more if NCCL was built with TRACE",
        "set INFO, and choose the lines with NCCL_DEBUG_SUBSYS",
    ),
    (
        "NCCL_IGNORE_DISABLED_P2P",
        When::On,
        "NCCL does not print a warning about GPUs without direct access",
        "leave it unset until the cause is known",
    ),
];

/// After a value that could not be read, [`crate::stages::net::fact`].
const INVALID: &[u8] = b"` is invalid";

fn setting(job: &Job<'_>, fact: &Fact, said: &Said, all: &mut Vec<Finding>) {
    let (name, value) = (text(&fact.name), &fact.value[..]);
    let here: BTreeSet<&[u8]> = hosts(said).collect();
    let on = where_said(job, &here);
    let finding = |id, severity, says: String, why: &str, advice: &str| Finding {
        id,
        severity,
        says,
        about: about(&here),
        sure: Sure::High,
        why: why.to_owned(),
        advice: advice.to_owned(),
        evidence: evidence([said.first]),
    };
    if let Some(given) = value.strip_suffix(INVALID) {
        let says = match memchr::memmem::find(given, b" as `") {
            Some(at) => format!(
                "{name}={} is not a valid value: the default {} is used{on}",
                text(&given[at + 5..]),
                text(&given[..at])
            ),
            None => format!("the value of {name} is invalid: the default is used{on}"),
        };
        let why = "NCCL reports it";
        all.push(finding(
            "setting_ignored",
            Severity::Warning,
            says,
            why,
            "set a number",
        ));
        return;
    }
    // NCCL_DEBUG_TIME is not NCCL's: timestamps are NCCL_DEBUG_TIMESTAMP_LEVELS and _FORMAT
    // (`src/debug.cc`). The setting's line is `ncclParamCheckFlag`'s.
    if value == b"is unused" || name == "NCCL_DEBUG_TIME" {
        let says = format!("{name} is set and has no effect{on}");
        let (why, advice) = match name.as_str() {
            "NCCL_DEBUG_TIME" => (
                "NCCL has no such variable",
                "set NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26 or later)",
            ),
            _ => ("NCCL reports that nothing reads it", "unset it"),
        };
        all.push(finding(
            "setting_ignored",
            Severity::Note,
            says,
            why,
            advice,
        ));
        return;
    }
    if let Some((says, advice)) = contradicts(job, &name, value, &here) {
        let why = "the setting contradicts the facts that the same processes report";
        all.push(finding("setting_bad", Severity::Warning, says, why, advice));
        return;
    }
    let known = KNOWN.iter().find(|k| k.0 == name && k.1.is(value));
    if let Some((_, _, effect, advice)) = known {
        let says = format!("{name}={}{on}: {effect}", text(value));
        let why = "this effect of the variable is documented";
        let mut found = finding("setting", Severity::Note, says, why, advice);
        if let Some((path, first)) = slower(job, fact, &here) {
            found.severity = Severity::Warning;
            found.says = format!("{}; connections within a host use {path}", found.says);
            found.why = format!("{why}, and the lines of the connections show it");
            found.evidence = evidence([said.first, first]);
        }
        all.push(found);
    }
}

/// How ranks of one host reach each other where a setting keeps their GPUs apart, and a line of it.
fn slower(job: &Job<'_>, setting: &Fact, here: &BTreeSet<&[u8]>) -> Option<(String, First)> {
    if !crate::stages::check::hosts::meaning::keeps_apart(setting) {
        return None;
    }
    let one_host = job.hosts.len() == 1;
    let within = |path: &[u8]| path.starts_with(b"SHM") || (one_host && path.starts_with(b"NET/"));
    let mut paths = job.paths.iter();
    let path =
        paths.find(|(fact, said)| within(&fact.value) && hosts(said).any(|h| here.contains(h)));
    path.map(|(fact, said)| (text(&fact.value), said.first))
}

/// ` on n3`, ` on 2 of 5 hosts`; nothing where all do.
fn where_said(job: &Job<'_>, here: &BTreeSet<&[u8]>) -> String {
    match here.len() {
        0 => String::new(),
        n if n == job.hosts.len() => String::new(),
        1..=3 => format!(" on {}", listed(here)),
        n => format!(" on {n} of {}", counted(job.hosts.len(), "host")),
    }
}

/// A setting that the hosts' own lines contradict.
fn contradicts(
    job: &Job<'_>,
    name: &str,
    value: &[u8],
    here: &BTreeSet<&[u8]>,
) -> Option<(String, &'static str)> {
    let several = job.hosts.len() > 1;
    match name {
        // Only some hosts must not use what the others use.
        "NCCL_IB_DISABLE" if is_on(value) => {
            let others: BTreeSet<&[u8]> = job.with_cards.difference(here).copied().collect();
            (!others.is_empty()).then(|| {
                let says = format!(
                    "NCCL_IB_DISABLE={} on {} disables InfiniBand and RoCE while {} has such NICs",
                    text(value),
                    listed(here),
                    listed(&others)
                );
                (says, "unset it, or set it on all hosts")
            })
        }
        "NCCL_IB_HCA" if several => {
            let both: BTreeSet<&[u8]> = job.without_device.intersection(here).copied().collect();
            (!both.is_empty()).then(|| {
                let says = format!(
                    "NCCL_IB_HCA={} matches no NIC on {}: NCCL found no InfiniBand or RoCE device",
                    text(value),
                    listed(&both)
                );
                (
                    says,
                    "compare it with the names that ibv_devices prints there",
                )
            })
        }
        "NCCL_NET_PLUGIN" if value != b"none" && !value.is_empty() => {
            let of_name = job
                .lost_plugins
                .iter()
                .filter(|(fact, _)| memchr::memmem::find(&fact.value, value).is_some());
            let missing: BTreeSet<&[u8]> = of_name.flat_map(|(_, said)| hosts(said)).collect();
            let both = missing.intersection(here).copied();
            let both: BTreeSet<&[u8]> = both.filter(|h| !job.with_plugin.contains(h)).collect();
            (!both.is_empty()).then(|| {
                let says = format!(
                    "NCCL_NET_PLUGIN={} was not loaded on {}: NCCL uses one of its own networks",
                    text(value),
                    listed(&both)
                );
                (
                    says,
                    "look for the library and its dependencies (ldd) on the named hosts",
                )
            })
        }
        _ => None,
    }
}

/// What the program asked for and a variable overruled, `4 by NCCL_MIN_CTAS`.
fn overruled(fact: &Fact, said: &Said, all: &mut Vec<Finding>) {
    let Some(at) = memchr::memmem::find(&fact.value, b" by ") else {
        return;
    };
    let (value, by) = (&fact.value[..at], &fact.value[at + 4..]);
    let here: BTreeSet<&[u8]> = hosts(said).collect();
    all.push(Finding {
        id: "setting_ignored",
        severity: Severity::Note,
        says: format!(
            "the program's {} is overridden: {} sets it to {}",
            text(&fact.name),
            text(by),
            text(value)
        ),
        about: about(&here),
        sure: Sure::High,
        why: "NCCL reports it".to_owned(),
        advice: "unset the variable if the program's value is intended".to_owned(),
        evidence: evidence([said.first]),
    });
}
