//! Notes on the usual meaning of the sums, with the numbers that show it.

use super::limits::{MIN_SLOW_TO_MEDIAN_RATIO, MIN_US_PER_PROXY_STEP};
use super::table::{direction_name, ns_to_us, op_phase};
use super::{ProxyKey, ProxyOperations, ProxySums};
use crate::formats::profiler::{ProxyWait, TransferSide};
use crate::report::{Report, count_phrase};
use std::collections::BTreeMap;

/// Reports the wait that takes most time, peers and channels that are slower than others, and operations that
/// did not end.
pub fn report_proxy_notes(found: &ProxyOperations, report: &Report) {
    for of in [TransferSide::Send, TransferSide::Recv] {
        let mut all = ProxySums::default();
        let those = found.sums.iter().filter(|(key, _)| key.side == of);
        those.for_each(|(_, sums)| all.merge_sums(sums));
        if let Some((wait, share)) = all.longest_wait() {
            report.note(&format!(
                "{}: {:.0} % of the waits are {} ({:.1} us a step, {} of {} steps seen): {}",
                direction_name(of),
                share * 100.0,
                wait.name(),
                ns_to_us(all.waits[wait as usize]) / all.seen as f64,
                all.seen,
                all.steps,
                explain_wait(of, wait)
            ));
        }
    }
    // Waits for a peer: for room to send to it, and for data from it.
    let for_peer = |key: &ProxyKey, sums: &ProxySums| match key.side {
        TransferSide::Send => (sums.waits[ProxyWait::Peer as usize], sums.seen),
        TransferSide::Recv => (sums.waits[ProxyWait::Net as usize], sums.seen),
    };
    if let Some((key, of)) = find_slowest_part(found, |key| key.peer, for_peer) {
        let what = match key.side {
            TransferSide::Send => "to have room",
            TransferSide::Recv => "to send",
        };
        report.note(&format!(
            "the slowest peer is rank {}{} in {}: the others wait {:.1} us a step for it {what}, {:.1} us \
             for a median rank ({} steps seen)",
            of.slowest,
            key.comm.map_or(String::new(), |id| format!(" of communicator {id:#x}")),
            String::from_utf8_lossy(&key.op),
            of.own,
            of.median,
            of.steps,
        ));
    }
    if let Some((key, of)) = find_slowest_part(
        found,
        |key| key.channel,
        |_, sums| (sums.busy, sums.timed_steps),
    ) {
        report.note(&format!(
            "the slowest channel is {} in {} ({}): {:.1} us a step, the median channel {:.1} us",
            of.slowest,
            String::from_utf8_lossy(&key.op),
            direction_name(key.side),
            of.own,
            of.median,
        ));
    }
    let incomplete = found
        .sums
        .values()
        .fold(0_u64, |n, sums| n.saturating_add(sums.incomplete));
    if let Some(last) = found.open.last() {
        let op = String::from_utf8_lossy(&last.op);
        let seq = last.seq.map_or(String::new(), |seq| format!(" {seq}"));
        report.warn(&format!(
            "{} did not end; the last is {op}{seq}, channel {}, {} with rank {}: {} ({} of {} steps seen). \
             --incomplete lists them",
            count_phrase(incomplete, "operation"),
            last.channel,
            direction_name(last.side),
            last.peer,
            op_phase(last),
            last.steps_seen(),
            last.steps,
        ));
    }
}

/// Returns the usual cause of a wait that takes most time.
fn explain_wait(side: TransferSide, wait: ProxyWait) -> &'static str {
    match (side, wait) {
        (_, ProxyWait::Buffer) => "no free slot in the buffer, the steps before are slow",
        (TransferSide::Send, ProxyWait::Gpu) => "the GPU is late with the data",
        (TransferSide::Recv, ProxyWait::Gpu) => "the GPU is slow to take the data",
        (_, ProxyWait::Peer) => "the receiver is late",
        (TransferSide::Send, ProxyWait::Net) => "the network is slow, or the NIC",
        (TransferSide::Recv, ProxyWait::Net) => "the sender is late, or the network is slow",
        (_, ProxyWait::Flush) => "the flush into the GPU's memory is slow (GPUDirect RDMA)",
    }
}

/// A part that is slower than the others.
struct SlowProxyPart {
    slowest: u64,
    /// us per step.
    own: f64,
    /// us per step of the median of the others.
    median: f64,
    steps: u64,
}

/// Returns the peer or channel that stands out most in time, among operations of one communicator, operation,
/// direction and number of steps.
fn find_slowest_part(
    found: &ProxyOperations,
    part: impl Fn(&ProxyKey) -> u64,
    of: impl Fn(&ProxyKey, &ProxySums) -> (u128, u64),
) -> Option<(ProxyKey, SlowProxyPart)> {
    let mut alike: BTreeMap<ProxyKey, BTreeMap<u64, (u128, u64)>> = BTreeMap::new();
    for (key, sums) in &found.sums {
        let shape = ProxyKey {
            rank: None,
            channel: 0,
            peer: 0,
            ..key.clone()
        };
        let (ns, steps) = of(key, sums);
        let parts = alike.entry(shape).or_default();
        let (all_ns, all_steps) = parts.entry(part(key)).or_default();
        *all_ns = all_ns.saturating_add(ns);
        *all_steps = all_steps.saturating_add(steps);
    }
    let slow = |(key, parts): (ProxyKey, BTreeMap<u64, (u128, u64)>)| {
        let timed = parts.into_iter().filter(|(_, (_, steps))| *steps > 0);
        let mut rates: Vec<_> = timed
            .map(|(at, (ns, n))| (ns_to_us(ns) / n as f64, at, n))
            .collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (own, slowest, steps) = rates.pop()?;
        let (median, ..) = *rates.get(rates.len() / 2)?;
        let of = SlowProxyPart {
            slowest,
            own,
            median,
            steps,
        };
        (own > MIN_SLOW_TO_MEDIAN_RATIO * median && own > MIN_US_PER_PROXY_STEP)
            .then_some((key, of))
    };
    let all = alike.into_iter().filter_map(slow);
    all.max_by(|(_, a), (_, b)| (a.own * a.steps as f64).total_cmp(&(b.own * b.steps as f64)))
}
