//! The trainer's steps of the calls that findings are about, as the call table has them.

use super::finding::Finding;
use super::streams::StreamKind;
use super::streams::last_steps::list_stepped_calls;
use super::walk::CheckGathered;
use std::collections::BTreeMap;

/// Gives the findings on collectives the steps of these calls, as far as they are among the last ones of their process.
/// Ranks run ahead of the step lines, and files of single ranks have none: the place of a line shows no step.
pub(super) fn note_call_steps(findings: &mut [Finding], seen: &CheckGathered) {
    let is_of_call = |finding: &&mut Finding| {
        let about = &finding.about;
        about.seq.is_some() && about.step.is_none() && about.pid.is_some()
    };
    let mut wanted = findings.iter_mut().filter(is_of_call).peekable();
    if wanted.peek().is_none() {
        return;
    }
    let calls = list_stepped_calls(&seen.streams, &seen.last_steps);
    let collectives = calls.iter().filter(|of| of.way == StreamKind::Collective);
    let steps: BTreeMap<_, _> = collectives
        .filter_map(|of| {
            let caller = seen.streams.callers.get(of.caller);
            let process = seen.found.processes.get(caller.process as usize)?;
            let comm = caller.identity?.comm_id?.to_string();
            Some(((&process.host, process.pid?, comm, of.call.seq), of.step?))
        })
        .collect();
    for Finding { about, .. } in wanted {
        if let (Some(host), Some(pid), Some(comm), Some(seq)) =
            (&about.host, about.pid, &about.comm_id, about.seq)
        {
            about.step = steps.get(&(host, pid, comm.clone(), seq)).copied();
        }
    }
}
