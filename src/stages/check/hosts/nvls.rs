//! Whether the NVLink switches that are there are used, and by all hosts.

use super::meaning::{Hosts, by_host, lines, names, saying};
use super::odd_hosts::{about, evidence};
use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::wording::{counted, listed};
use crate::stages::net::Net;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::table::Facts;
use std::collections::{BTreeMap, BTreeSet};

/// The finding, if there is one.
pub(crate) fn finding(net: &Net, facts: &Facts) -> Option<Finding> {
    let of = |name: &str, value: &str| -> Hosts<'_> {
        let fact = Fact::new(Kind::Nvls, name, value);
        saying(facts, move |f| *f == fact)
    };
    let (can, cannot) = (of("support", "available"), of("support", "not available"));
    let mut made = of("buffers", "created");
    made.extend(of("tree", "connected"));
    if !can.is_empty() && !cannot.is_empty() {
        return Some(support_differs(&can, &cannot));
    }
    let sizes = Sizes::of(net);
    let mut not_made = can;
    not_made.retain(|host, _| !made.contains_key(host));
    if made.is_empty() {
        not_made.retain(|host, _| sizes.alone.contains_key(host));
        never_made(net, facts, not_made)
    } else {
        sizes.keep_like_those(&mut not_made, &made);
        made_elsewhere(facts, &not_made, &made)
    }
}

/// Some devices can use the switches and others cannot.
fn support_differs(can: &Hosts<'_>, cannot: &Hosts<'_>) -> Finding {
    let (odd, other, not) = match cannot.len() <= can.len() {
        true => (cannot, can, "not"),
        false => (can, cannot, ""),
    };
    let says = match odd.keys().all(|host| other.contains_key(host)) {
        true => format!(
            "some GPUs of {} can use the NVLink switches (NVLS) and others cannot",
            listed(names(odd))
        ),
        false => format!(
            "the NVLink switches (NVLS) can{not} be used on {}, unlike on {}",
            listed(names(odd)),
            counted(other.len(), "host")
        ),
    };
    let why = "each process reports whether its device can";
    Finding {
        sure: Sure::High,
        ..mixed(says, odd, other, why)
    }
}

/// Hosts that can use the switches set nothing up, unlike others.
fn made_elsewhere(facts: &Facts, not_made: &Hosts<'_>, made: &Hosts<'_>) -> Option<Finding> {
    let says = format!(
        "NVLS is available on {} but no buffers were made for it there; {} made them",
        listed(names(not_made)),
        counted(made.len(), "other host")
    );
    let why = match connects_at_start(facts) {
        true => "hosts with communicators of the same size do the same",
        false => {
            "hosts with communicators of the same size do the same; but since 2.22 buffers are \
             made when a call first needs them, and stages of a pipeline may call different ones"
        }
    };
    (!not_made.is_empty()).then(|| mixed(says, not_made, made, why))
}

/// No host set anything up.
fn never_made(net: &Net, facts: &Facts, mut not_made: Hosts<'_>) -> Option<Finding> {
    let off = saying(facts, |fact| {
        fact.kind == Kind::Setting && *fact.name == *b"NCCL_NVLS_ENABLE" && *fact.value == *b"0"
    });
    let used = facts
        .keys()
        .any(|fact| fact.kind == Kind::Nvls && *fact.name == *b"used");
    not_made.retain(|host, _| !off.contains_key(host));
    // Since 2.22 ranks connect when a call first needs it: before that nothing is made.
    if not_made.is_empty() || used || net.all.links.is_empty() {
        return None;
    }
    let says = format!(
        "NVLS is available on {} but was not set up for any communicator",
        listed(names(&not_made))
    );
    // Where ranks connect at the start NVLS is made for whoever can have it.
    let (severity, why) = match connects_at_start(facts) {
        true => (
            Severity::Warning,
            "a communicator of more than two ranks of a host connected, and no NVLS line \
             appeared",
        ),
        false => (
            Severity::Note,
            "a communicator of more than two ranks of a host connected, and no NVLS line appeared; \
             since 2.22 NVLS is set up when a call first needs it: NCCL_ALGO, or a job without a \
             large AllReduce, has the same effect",
        ),
    };
    Some(Finding {
        id: "nvls_not_created",
        severity,
        ..mixed(says, &not_made, &Hosts::new(), why)
    })
}

/// Hosts that differ from `other` ones.
fn mixed(says: String, odd: &Hosts<'_>, other: &Hosts<'_>, why: &str) -> Finding {
    Finding {
        id: "nvls_mixed",
        severity: Severity::Warning,
        says,
        about: about(&names(odd)),
        sure: Sure::Medium,
        why: why.to_owned(),
        // env.rst on NCCL_NVLS_ENABLE: 2.27 and 2.28 fall back without a word where the resources
        // cannot be had, and hang where that happens on some ranks only.
        advice:
            "look at the Fabric Manager, the driver and NCCL_NVLS_ENABLE, NCCL_CUMEM_ENABLE on the \
             named hosts; NCCL 2.27 and 2.28 give up NVLS without a message, and can hang if only \
             some ranks do so"
                .to_owned(),
        evidence: evidence(lines(odd, 3).into_iter().chain(lines(other, 2))),
    }
}

/// The communicators that hosts have, by their size: buffers depend on it.
struct Sizes<'n> {
    /// Sizes of communicators that are on one host, by host.
    alone: BTreeMap<&'n [u8], BTreeSet<u32>>,
    /// The hosts of each that has more than two ranks on each of several.
    across: Vec<BTreeSet<&'n [u8]>>,
}

impl<'n> Sizes<'n> {
    fn of(net: &'n Net) -> Sizes<'n> {
        let mut sizes = Sizes {
            alone: BTreeMap::new(),
            across: Vec::new(),
        };
        for (nranks, of) in by_host(net).into_values() {
            if of.len() > 1 && of.values().all(|ranks| ranks.len() > 2) {
                sizes.across.push(of.keys().copied().collect());
            }
            if let (1, Some((host, ranks))) = (of.len(), of.first_key_value())
                && nranks > 2
                && ranks.len() == nranks as usize
            {
                sizes.alone.entry(host).or_default().insert(nranks);
            }
        }
        sizes
    }

    /// Keeps of `hosts` those with communicators like those of the hosts that `made` something.
    fn keep_like_those(&self, hosts: &mut Hosts<'_>, made: &Hosts<'_>) {
        let sizes = made.keys().filter_map(|host| self.alone.get(host));
        let usual: BTreeSet<u32> = sizes.flatten().copied().collect();
        let shares = |host: &[u8]| {
            let mut with = self.across.iter().filter(|of| of.contains(host));
            with.any(|of| of.iter().any(|host| made.contains_key(host)))
        };
        hosts.retain(|host, _| {
            let own = self.alone.get(host);
            let alike = own.is_some_and(|own| !own.is_disjoint(&usual));
            alike || (self.alone.is_empty() && shares(host))
        });
    }
}

/// Before 2.22 ranks connect in all ways when a communicator is made, later when a call first needs
/// it (`NCCL_RUNTIME_CONNECT`).
fn connects_at_start(facts: &Facts) -> bool {
    let versions = facts
        .keys()
        .filter(|fact| fact.kind == Kind::Version && *fact.name == *b"nccl");
    let mut minors = versions.map(|fact| {
        let minor = fact.value.strip_prefix(b"2.")?;
        let minor = minor.split(|b| *b == b'.').next()?;
        std::str::from_utf8(minor).ok()?.parse::<u32>().ok()
    });
    let told = facts.contains_key(&Fact::new(Kind::Setting, "NCCL_RUNTIME_CONNECT", "0"));
    told || minors.next().flatten().is_some_and(|minor| minor < 22)
}
