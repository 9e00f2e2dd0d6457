//! The findings that a filter shows. All calls are judged in any case: a missing call of a rank shows only in comparison
//! with the other ranks.

use crate::filter::CallFilter;
use crate::grammar::coll::{COLL_ANCHOR_FINDER, parse_coll_at};
use crate::grammar::values::Datatype;
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use crate::report::{Report, count_phrase};
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::Finding;

impl CheckSummary {
    /// The findings that the filter shows, worst first.
    pub fn shown_findings(&self) -> impl Iterator<Item = &Finding> {
        let fits = |finding: &&Finding| does_fit(finding, &self.filter);
        self.findings.iter().filter(fits)
    }

    /// Reports how many findings the filter shows.
    pub fn report_shown(&self, report: &Report) {
        if !self.filter.is_empty() {
            let (shown, all) = (self.shown_findings().count(), self.findings.len() as u64);
            let all = count_phrase(all, "finding");
            report.note(&format!(
                "the filter shows {shown} of {all}; all calls were judged"
            ));
        }
    }
}

/// True if the process of a finding and the call of its first line pass a filter.
fn does_fit(finding: &Finding, filter: &CallFilter) -> bool {
    let about = &finding.about;
    let first = finding.evidence.first();
    let line = first.and_then(|evidence| evidence.text.as_deref());
    let line = line.unwrap_or_default();
    let anchor = COLL_ANCHOR_FINDER.find(line);
    let call = anchor.and_then(|at| parse_coll_at(line, at).ok());
    let call = call.map(|(_, call, _)| call);
    let id = about.comm_id.as_deref();
    filter.does_pass(&Row {
        host: about.host.as_deref().unwrap_or_default(),
        pid: about.pid,
        global_rank: about.global_rank,
        rank: about.rank,
        comm_id: id.and_then(|id| CommId::parse(id.as_bytes())),
        seq: about.seq,
        step: about.step,
        op: call.map_or(b"", |call| call.op),
        comm: call.map(|call| call.comm),
        nranks: call.and_then(|call| call.nranks),
        count: call.map(|call| call.count),
        datatype: call.and_then(|call| Datatype::from_code(call.datatype.into())),
        ..Row::default()
    })
}
