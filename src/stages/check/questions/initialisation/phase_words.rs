//! Words for phases, and for the processes in them.

use super::SetupContext;
use crate::stages::check::ranks::names::describe_process;
use crate::stages::check::wording::{quote_text, rank_ranges, verb_form};
use crate::stages::communicators::begun::SetupPhase;
use std::collections::{BTreeMap, BTreeSet};

/// Formats `n1:100`.
pub(super) fn name_process(context: &SetupContext<'_>, process: u32) -> String {
    quote_text(describe_process(&context.found.processes[process as usize]).as_bytes())
}

/// Formats `ranks 1 and 3 in the bootstrap, rank 5 while it connected`.
pub(super) fn describe_phases(by_phase: &BTreeMap<SetupPhase, BTreeSet<u32>>) -> String {
    let each = by_phase.iter().map(|(phase, ranks)| match ranks.len() {
        0 => describe_phase(*phase).to_owned(),
        n => format!(
            "{} {} {}",
            verb_form(n, "rank", "ranks"),
            rank_ranges(ranks),
            describe_phase(*phase)
        ),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns where a rank is by last lines of this phase.
fn describe_phase(phase: SetupPhase) -> &'static str {
    match phase {
        SetupPhase::Bootstrap => "in the bootstrap (waits for the other ranks)",
        SetupPhase::Found => "after the bootstrap",
        SetupPhase::Topology => "after the search of the hardware",
        SetupPhase::Graphs => "after the search of rings and trees",
        SetupPhase::Connections => "connecting to peers",
        SetupPhase::Nvls => "setting up NVLS",
        SetupPhase::Channels => "before the last exchange, with all its channels",
    }
}

/// Returns what to do about a rank that stays in a phase.
pub(super) fn phase_advice(phase: SetupPhase) -> &'static str {
    match phase {
        SetupPhase::Bootstrap => {
            "compare with the ranks that print nothing: do they run, and can they reach the interface \
             that Bootstrap names (NCCL_SOCKET_IFNAME, firewalls, NCCL_OOB_NET_IFNAME)? Take a stack \
             of each process (py-spy dump)"
        }
        SetupPhase::Found | SetupPhase::Topology | SetupPhase::Graphs => {
            "take a stack of these processes (py-spy dump, gdb -p); look at nvidia-smi, at \
             nvidia-persistenced and at NCCL_TOPO_FILE"
        }
        SetupPhase::Connections => {
            "look at the network of these hosts: the interfaces and NICs that NCCL lists, firewalls, \
             NCCL_IB_HCA; as tests NCCL_IB_DISABLE=1 and, on one host, NCCL_P2P_DISABLE=1"
        }
        SetupPhase::Nvls => "as a test set NCCL_NVLS_ENABLE=0; look at the Fabric Manager",
        SetupPhase::Channels => {
            "take a stack of these processes (py-spy dump, gdb -p), and look at their own output"
        }
    }
}
