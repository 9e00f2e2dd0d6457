//! Connections that change the rail against a setting.
//!
//! With NCCL_CROSS_NIC=0 NCCL uses NICs of the same number at both ends of a ring, a tree and a message
//! (`ncclTopoGetNetDev` in `src/graph/topo.cc`, `src/graph/search.cc`). With 1, and with 2, the default, it may
//! use others, so there is no finding then: nccl-net counts them (`job.rails`).

use super::limits::MAX_EVIDENCE_LINES;
use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::check::questions::hosts::odd_hosts::evidence_of_lines;
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::{quote_text, verb_form};
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::rails::{self, JoinedRail, JoinedRailEnd};

/// Returns the finding on all such connections.
pub(crate) fn find_crossed_rails(job: &JobFacts<'_>) -> Option<Finding> {
    let set = NetFact::new(NetFactKind::Setting, "NCCL_CROSS_NIC", "0");
    let set = job.facts.get(&set)?;
    let joined = rails::join_ends(job.net);
    let crossed: Vec<&JoinedRail> = joined.iter().filter(|rail| rail.is_crossed()).collect();
    let first = *crossed.first()?;
    let (channel, index) = first.channel;
    let to = first.to.map_or(String::new(), |to| to.to_string());
    let says = format!(
        "{} of {} network connections {} different NICs at their two ends although NCCL_CROSS_NIC is 0: \
         channel {channel}/{index} leaves rank {}{} by NIC {} and reaches rank {to}{} by NIC {}",
        crossed.len(),
        joined.len(),
        verb_form(crossed.len(), "uses", "use"),
        first.from,
        describe_host(job, &first.send),
        first.send.nic,
        describe_host(job, &first.receive),
        first.receive.nic,
    );
    let ends = crossed
        .iter()
        .flat_map(|rail| [rail.send.first, rail.receive.first]);
    let lines = ends.take(MAX_EVIDENCE_LINES - 1).chain([set.first]);
    Some(Finding {
        why: "both ends print their NIC; NCCL numbers the NICs of each host in its own order, so the \
              rails differ only where the hosts have the same NICs"
            .to_owned(),
        evidence: evidence_of_lines(lines),
        ..Finding::of_kind(Kind::RailsCrossed, Confidence::Medium, says)
    })
}

/// Formats ` (n1)`.
fn describe_host(job: &JobFacts<'_>, end: &JoinedRailEnd) -> String {
    let process = job.net.process(end.process);
    process.map_or(String::new(), |process| {
        format!(" ({})", quote_text(&process.host))
    })
}
