//! The calls of logs as they are met again in line order, whatever they are like: the same as the
//! rows of nccl-comms.

use super::members::{Members, Op};
use super::{Log, Options, Taken};
use crate::members::Merged;

/// Calls as they are met again.
pub(super) struct Again<'m> {
    members: Members<'m>,
    options: &'m Options,
    /// How many collectives each (process, communicator) made so far.
    made: Vec<u64>,
    pub(super) taken: Taken,
}

impl<'m> Again<'m> {
    pub(super) fn new(merged: &'m Merged, options: &'m Options) -> Again<'m> {
        Again {
            members: Members::new(merged),
            options,
            made: Vec::new(),
            taken: Taken::default(),
        }
    }

    /// The next log.
    pub(super) fn log(&mut self, log: &Log) {
        self.members.next_log();
        let mut gaps = log.placement.again();
        // Most calls are of the gap of the call before.
        let mut known = (None, None);
        let mut timed = 0;
        for chunk in &log.chunks {
            let ops: Vec<Op> = chunk.ops(&mut self.taken);
            for call in chunk.calls.calls() {
                let Some(&number) = chunk.members.get(call.member as usize) else {
                    continue;
                };
                let member = self.members.get(number);
                let gap = gaps.next(member.process);
                let Some(call) = call.made else { continue };
                if self.made.len() <= member.sequence {
                    self.made.resize(member.sequence + 1, 0);
                }
                let made = &mut self.made[member.sequence];
                let seq = *made;
                *made += 1;
                let op = &ops[call.op as usize];
                let Some(ns) = call.ns.filter(|_| op.compared) else {
                    continue;
                };
                timed += 1;
                let caller = self.members.caller(number, &log.aliases, &mut self.taken);
                let Some(caller) = caller else { continue };
                if known.0 != gap {
                    let step = gap.and_then(|gap| log.timeline.step_of(gap as usize));
                    known = (gap, step.map(|step| step.step));
                }
                let call = (op.number, seq, known.1);
                self.taken.came(caller, call, (ns, None), self.options);
            }
        }
        self.taken.timed(timed, 0);
    }
}
