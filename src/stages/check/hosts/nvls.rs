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
    let finding = |id, says: String, odd: &Hosts<'_>, other: &Hosts<'_>, sure, why: &str| Finding {
        id,
        severity: match id {
            // Where ranks connect at the start NVLS is made for whoever can have it.
            "nvls_not_created" if !connects_at_start(facts) => Severity::Note,
            _ => Severity::Warning,
        },
        says,
        about: about(&names(odd)),
        sure,
        why: why.to_owned(),
        // env.rst on NCCL_NVLS_ENABLE: 2.27 and 2.28 fall back without a word where the resources
        // cannot be had, and hang where that happens on some ranks only.
        advice:
            "look at the Fabric Manager, the driver and NCCL_NVLS_ENABLE, NCCL_CUMEM_ENABLE on the \
             named hosts; NCCL 2.27 and 2.28 give up NVLS without a message, and can hang if only \
             some ranks do so"
                .to_owned(),
        evidence: evidence(lines(odd, 3).into_iter().chain(lines(other, 2))),
    };
    if !can.is_empty() && !cannot.is_empty() {
        let (odd, other, not) = match cannot.len() <= can.len() {
            true => (&cannot, &can, "not"),
            false => (&can, &cannot, ""),
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
        return Some(finding("nvls_mixed", says, odd, other, Sure::High, why));
    }
    let sizes = by_host(net);
    // Sizes of communicators that are on one host, by host.
    let mut alone: BTreeMap<&[u8], BTreeSet<u32>> = BTreeMap::new();
    for (nranks, of) in sizes.values() {
        if let (1, Some((host, ranks))) = (of.len(), of.first_key_value())
            && *nranks > 2
            && ranks.len() == *nranks as usize
        {
            alone.entry(host).or_default().insert(*nranks);
        }
    }
    let mut not_made = can.clone();
    not_made.retain(|host, _| !made.contains_key(host));
    if !made.is_empty() {
        let usual: BTreeSet<u32> = made
            .keys()
            .filter_map(|host| alone.get(host))
            .flatten()
            .copied()
            .collect();
        let shares = |host: &[u8]| {
            let mut of = sizes.values().map(|(_, of)| of);
            of.any(|of| {
                let several = of.len() > 1 && of.values().all(|ranks| ranks.len() > 2);
                several && of.contains_key(host) && of.keys().any(|h| made.contains_key(h))
            })
        };
        not_made.retain(|host, _| {
            let alike = alone.get(host).is_some_and(|own| !own.is_disjoint(&usual));
            alike || (alone.is_empty() && shares(host))
        });
        if not_made.is_empty() {
            return None;
        }
        let says = format!(
            "NVLS is available on {} but no buffers were made for it there; {} made them",
            listed(names(&not_made)),
            counted(made.len(), "other host")
        );
        let why = match connects_at_start(facts) {
            true => "hosts with communicators of the same size do the same",
            false => {
                "hosts with communicators of the same size do the same; but since 2.22 buffers are \
                 made when a call first needs them, and stages of a pipeline may call different ones"
            }
        };
        return Some(finding(
            "nvls_mixed",
            says,
            &not_made,
            &made,
            Sure::Medium,
            why,
        ));
    }
    let off = saying(facts, |fact| {
        fact.kind == Kind::Setting && *fact.name == *b"NCCL_NVLS_ENABLE" && *fact.value == *b"0"
    });
    let used = facts
        .keys()
        .any(|fact| fact.kind == Kind::Nvls && *fact.name == *b"used");
    not_made.retain(|host, _| alone.contains_key(host) && !off.contains_key(host));
    // Since 2.22 ranks connect when a call first needs it: before that nothing is made.
    if not_made.is_empty() || used || net.all.links.is_empty() {
        return None;
    }
    let says = format!(
        "NVLS is available on {} but was not set up for any communicator",
        listed(names(&not_made))
    );
    let why = match connects_at_start(facts) {
        true => {
            "a communicator of more than two ranks of a host connected, and no NVLS line \
                 appeared"
        }
        false => {
            "a communicator of more than two ranks of a host connected, and no NVLS line appeared; \
             since 2.22 NVLS is set up when a call first needs it: NCCL_ALGO, or a job without a \
             large AllReduce, has the same effect"
        }
    };
    let other = Hosts::new();
    Some(finding(
        "nvls_not_created",
        says,
        &not_made,
        &other,
        Sure::Medium,
        why,
    ))
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
