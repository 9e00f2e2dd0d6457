//! The findings on records of calls, by NCCL Inspector and in traces of NCCL's profiler plugin: how many calls
//! ended, and whether all ranks of a communicator passed the same sizes.
//!
//! A recorder numbers the calls of each operation on a communicator from 0, by rank. NCCL Inspector
//! records a call when it ends, and writes at intervals: a call without a record need not hang.

use super::dumps::is_call_finding;
use super::finding::{About, Confidence, Finding, Kind, Reason, Severity};
use super::wording::{number_and_noun, quote_text, rank_ranges, verb_form};
use crate::calls::compare::compare_numbered;
use crate::count::calls::Options;
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::lines::{self, RowVisitor};
use crate::formats::open::OpenInput;
use crate::formats::profiler::{self, ProxyOp, TransferSide};
use crate::grammar::values::{OpKind, op_kind};
use crate::members::comm_id::CommId;
use crate::members::duplicate_inputs::DuplicateInputs;
use crate::output::table::Row;
use crate::report::Report;
use crate::stages::check::answer::judged::JudgedRecords;
use crate::stages::check::limits::{MAX_OPEN_PROXY_OPS, MAX_PARTS_LISTED, MAX_SIZES_HELD};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The records among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct CollectiveRecords {
    /// Their names.
    names: Vec<String>,
    /// Calls by communicator, as Inspector prints its id, and operation.
    series: BTreeMap<(CommId, Box<[u8]>), RankRecordsByRank>,
    /// How many ranks each communicator has, as far as records have it.
    members: BTreeMap<CommId, u32>,
    /// Operations of the proxy thread that did not end.
    open: Vec<ProxyOp>,
    /// The number of sizes that are held.
    held: usize,
    /// True if some sizes are not held.
    is_full: bool,
}

/// The calls of an operation on a communicator, by rank.
type RankRecordsByRank = BTreeMap<u32, RankRecords>;

/// A rank's calls.
#[derive(Debug, Default)]
struct RankRecords {
    /// The number of the last one that ended.
    last: Option<u64>,
    /// Bytes by number.
    sizes: FxHashMap<u64, u128>,
}

/// A recorded collective.
#[derive(Debug)]
struct RecordedCollective {
    id: CommId,
    rank: u32,
    nranks: Option<u32>,
    op: Box<[u8]>,
    seq: u64,
    bytes: Option<u128>,
    is_ended: bool,
}

/// The calls of a part of an input.
#[derive(Debug, Default)]
struct RecordsPartial {
    /// The number of calls of any kind.
    rows: u64,
    calls: Vec<RecordedCollective>,
    /// Operations of the proxy thread that did not end.
    open: Vec<ProxyOp>,
}

impl RowVisitor for RecordsPartial {
    fn visit_row(&mut self, row: &Row<'_>) {
        self.rows += 1;
        // Send and Recv are numbered by process, not by pair.
        let is_collective = !matches!(
            op_kind(row.op),
            OpKind::Send | OpKind::Recv | OpKind::OneSided | OpKind::Other
        );
        if let (true, Some(id), Some(rank), Some(seq)) =
            (is_collective, row.comm_id, row.rank, row.seq)
        {
            self.calls.push(RecordedCollective {
                id: id.as_inspector_prints(),
                rank,
                nranks: row.nranks,
                op: row.op.into(),
                seq,
                bytes: row.bytes(),
                is_ended: row.times().dur_ns.is_some(),
            });
        }
    }
}

impl profiler::ProfilerVisitor for RecordsPartial {
    fn visit_call(&mut self, row: &Row<'_>) -> Result<()> {
        self.visit_row(row);
        Ok(())
    }

    fn visit_proxy_op(&mut self, op: &ProxyOp) {
        if !op.is_complete() && self.open.len() < MAX_OPEN_PROXY_OPS {
            self.open.push(op.clone());
        }
    }
}

impl CollectiveRecords {
    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// Reads records.
    ///
    /// # Errors
    /// They cannot be read; damage under `--strict`.
    pub(super) fn read_records<V>(
        &mut self,
        known: &OpenInput<V>,
        options: &Options,
        report: &mut Report,
    ) -> Result<()> {
        let read = lines::Options::from(&options.log);
        let mut all = RecordsPartial::default();
        let account = match known.provides(Provides::PROXY) {
            true => {
                let mut account = profiler::read_trace(known.input(), &mut all)?;
                account.calls = all.rows;
                account
            }
            false => {
                let sink = |part: RecordsPartial| {
                    part.calls.into_iter().for_each(|call| self.add_call(call));
                    Ok(())
                };
                let twice = &mut DuplicateInputs::default();
                known.read_records(read, twice, RecordsPartial::default, |_| {}, sink)?
            }
        };
        all.calls.into_iter().for_each(|call| self.add_call(call));
        self.open.extend(all.open);
        report.report_input(&known.name(), &account);
        report.restart_input_count();
        self.names.push(known.name());
        Ok(())
    }

    fn add_call(&mut self, call: RecordedCollective) {
        if let Some(nranks) = call.nranks {
            self.members.insert(call.id, nranks);
        }
        let member = self.series.entry((call.id, call.op)).or_default();
        let member = member.entry(call.rank).or_default();
        if call.is_ended {
            member.last = member.last.max(Some(call.seq));
        }
        match call.bytes {
            Some(bytes) if self.held < MAX_SIZES_HELD => {
                self.held += 1;
                member.sizes.insert(call.seq, bytes);
            }
            Some(_) => self.is_full = true,
            None => {}
        }
    }

    /// Compares the sizes that ranks passed to each call.
    fn compare_sizes(&self) -> ComparedSizes<'_> {
        let mut sizes = ComparedSizes::default();
        for ((id, op), series) in &self.series {
            let (differs, compared) = first_size_difference(op, series);
            sizes.all += compared;
            if series.values().any(|rank| rank.last.is_some()) {
                sizes.ended += compared;
            }
            let Some(differs) = differs else {
                continue;
            };
            let known = sizes.first.entry(*id).or_insert_with(|| differs.clone());
            if differs.seq < known.seq {
                *known = differs;
            }
        }
        sizes
    }

    /// Describes the calls that ended on a communicator: `13 AllReduce on ranks 0-3`.
    fn describe_ended(&self, id: CommId) -> Option<String> {
        let of = self.series.range((id, Box::default())..);
        let of = of.take_while(|((other, _), _)| *other == id);
        let mut parts = Vec::new();
        for ((_, op), series) in of {
            let mut by: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
            for (rank, member) in series {
                let ended = member.last.map_or(0, |last| last.saturating_add(1));
                by.entry(ended).or_default().insert(*rank);
            }
            parts.extend(by.iter().map(|(made, who)| {
                format!("{made} {} {}", quote_text(op), describe_on_ranks(who))
            }));
        }
        parts.truncate(MAX_PARTS_LISTED);
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Adds the calls that ended and the different sizes to the log's findings about the calls of a communicator;
    /// other differences become findings of their own. Returns how many collectives were compared.
    pub(super) fn merge_record_findings(
        &self,
        findings: &mut Vec<Finding>,
        report: &Report,
    ) -> JudgedRecords {
        if self.is_full {
            report.note(&format!(
                "sizes are compared for the first {} of the recorded calls",
                self.held
            ));
        }
        let sizes = self.compare_sizes();
        let mut differing = sizes.first;
        if sizes.all > 0 && differing.is_empty() {
            report.note(&format!(
                "{} by more than one rank: the sizes agree",
                number_and_noun(sizes.all, "recorded collective")
            ));
        }
        for finding in findings.iter_mut() {
            let is = finding.severity == Severity::Error && is_call_finding(finding.kind);
            let id = finding.about.comm_id.as_deref().filter(|_| is);
            let Some(id) = id.and_then(|id| CommId::parse(id.as_bytes())) else {
                continue;
            };
            if let Some(differs) = differing.remove(&id.as_inspector_prints()) {
                finding
                    .reasons
                    .push(Reason::RecordsShow(differs.describe_sizes()));
            }
            if let Some(ended) = self.describe_ended(id.as_inspector_prints()) {
                finding.reasons.push(Reason::RecordsEnd(ended));
            }
        }
        findings.extend(
            differing
                .iter()
                .map(|(id, differs)| differs.size_finding(*id, self.members.get(id))),
        );
        findings.extend(self.find_open_proxy_ops());
        JudgedRecords {
            sizes: sizes.ended,
            enqueued: sizes.all - sizes.ended,
            ..JudgedRecords::default()
        }
    }

    /// Makes a finding on the operations of the proxy thread that did not end.
    fn find_open_proxy_ops(&self) -> Option<Finding> {
        let first = self.open.first()?;
        let number = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let (side, toward) = match first.side {
            TransferSide::Send => ("Send", "to"),
            TransferSide::Recv => ("Recv", "from"),
        };
        let call = match &*first.op {
            b"" => String::new(),
            op => format!(" for {} number {}", quote_text(op), number(first.seq)),
        };
        let wait = first.last.map_or_else(String::new, |wait| {
            format!("; the last wait that began is for {}", wait.name())
        });
        let says = format!(
            "{} of NCCL's proxy thread did not end in the traces, the first is a {side} of rank {} \
                 {toward} rank {} on channel {}{call}{wait}",
            number_and_noun(self.open.len() as u64, "operation"),
            number(first.rank),
            first.peer,
            first.channel,
        );
        Some(Finding {
            about: About {
                rank: first.rank.and_then(|rank| u32::try_from(rank).ok()),
                comm_id: first.comm.map(|id| CommId::from_printed(id).to_string()),
                ..About::default()
            },
            ..Finding::of_kind(Kind::UnfinishedTraffic, Confidence::Medium, says)
        })
    }
}

/// `on rank 1`, `on ranks 0-3`.
fn describe_on_ranks(who: &BTreeSet<u32>) -> String {
    format!(
        "on {} {}",
        verb_form(who.len(), "rank", "ranks"),
        rank_ranges(who)
    )
}

/// What the sizes that ranks passed to the same calls show.
#[derive(Debug, Default)]
struct ComparedSizes<'r> {
    /// The first call of each communicator with different sizes.
    first: BTreeMap<CommId, SizeDifference<'r>>,
    /// The calls with sizes of more than one rank.
    all: u64,
    /// Those of operations with calls that ended: records of enqueues alone do not show that.
    ended: u64,
}

/// The first call to which ranks passed different sizes.
#[derive(Debug, Clone)]
struct SizeDifference<'r> {
    op: &'r [u8],
    seq: u64,
    /// The ranks by the size that they passed.
    by: BTreeMap<u128, BTreeSet<u32>>,
}

/// Finds the first difference of a series, and counts its calls with records of more than one rank.
fn first_size_difference<'r>(
    op: &'r [u8],
    series: &'r RankRecordsByRank,
) -> (Option<SizeDifference<'r>>, u64) {
    let sizes = series
        .values()
        .map(|member| member.sizes.iter().map(|(&seq, &bytes)| (seq, bytes)));
    let compared = compare_numbered(sizes);
    let Some(seq) = compared.first else {
        return (None, compared.shared);
    };
    let mut by: BTreeMap<u128, BTreeSet<u32>> = BTreeMap::new();
    for (rank, member) in series {
        if let Some(bytes) = member.sizes.get(&seq) {
            by.entry(*bytes).or_default().insert(*rank);
        }
    }
    (Some(SizeDifference { op, seq, by }), compared.shared)
}

impl SizeDifference<'_> {
    /// `AllReduce number 12 has 4 bytes on ranks 0, 2-3, 16 bytes on rank 1`.
    fn describe_sizes(&self) -> String {
        let each = self.by.iter().map(|(bytes, who)| {
            format!(
                "{} {}",
                number_and_noun(*bytes, "byte"),
                describe_on_ranks(who)
            )
        });
        let each: Vec<String> = each.take(MAX_PARTS_LISTED).collect();
        format!(
            "{} number {} has {}",
            quote_text(self.op),
            self.seq,
            each.join(", ")
        )
    }

    fn size_finding(&self, id: CommId, members: Option<&u32>) -> Finding {
        let known: usize = self.by.values().map(BTreeSet::len).sum();
        let all = members.map_or(known, |&all| known.max(all as usize));
        // The only rank outside of the majority.
        let most = self.by.values().find(|who| 2 * who.len() > all);
        let odd = most.and_then(|most| {
            let mut others = self
                .by
                .values()
                .flatten()
                .filter(|rank| !most.contains(rank));
            others.next().filter(|_| others.next().is_none()).copied()
        });
        let sure = match odd {
            Some(_) => Confidence::High,
            None => Confidence::Medium,
        };
        let says = format!(
            "ranks of communicator {id} passed different sizes: {}",
            self.describe_sizes()
        );
        Finding {
            about: About {
                rank: odd,
                comm_id: Some(id.to_string()),
                ..About::default()
            },
            why: "NCCL matches the calls of a communicator by their order, and the records \
                      of its ranks name these sizes"
                .to_owned(),
            advice: "compare what these ranks pass to that call".to_owned(),
            ..Finding::of_kind(Kind::CountMismatch, sure, says)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of AllReduce on one communicator: rank, number, bytes.
    fn records(calls: &[(u32, u64, u128)]) -> CollectiveRecords {
        let mut records = CollectiveRecords::default();
        for &(rank, seq, bytes) in calls {
            records.add_call(RecordedCollective {
                id: CommId::from_printed(0x00e6_2ded_aa97_644a),
                rank,
                nranks: None,
                op: b"AllReduce"[..].into(),
                seq,
                bytes: Some(bytes),
                is_ended: true,
            });
        }
        records
    }

    fn found(records: &CollectiveRecords) -> Vec<Finding> {
        let mut findings = Vec::new();
        records.merge_record_findings(&mut findings, &Report::new("test", false, true).silenced());
        findings
    }

    #[test]
    fn the_first_call_that_ranks_differ_in_is_found() {
        let calls = [(0, 0, 8), (1, 0, 8), (2, 0, 8)];
        let same = [
            (0, 1, 4),
            (1, 1, 16),
            (2, 1, 4),
            (0, 2, 4),
            (1, 2, 8),
            (2, 2, 4),
        ];
        assert_eq!(found(&records(&calls)), []);
        let findings = found(&records(&[&calls[..], &same].concat()));
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(
            (finding.kind, finding.about.rank),
            (Kind::CountMismatch, Some(1))
        );
        assert_eq!(
            finding.says,
            "ranks of communicator 0xe62dedaa97644a passed different sizes: AllReduce number 1 has \
             4 bytes on ranks 0, 2, 16 bytes on rank 1"
        );
        // Of two ranks either may be wrong.
        let two = found(&records(&[(0, 1, 4), (1, 1, 16)]));
        assert_eq!(two.first().map(|f| f.about.rank), Some(None));
    }

    #[test]
    fn a_finding_of_the_log_gets_the_calls_that_ended() {
        let mut findings = found(&records(&[(0, 1, 4), (1, 1, 16)]));
        let of_log = &mut findings[0];
        of_log.about.comm_id = Some("0xe62dedaa97644a12".to_owned());
        of_log.says = "rank 1 differs".to_owned();
        let records = records(&[(0, 1, 4), (1, 0, 4), (2, 1, 4)]);
        records.merge_record_findings(&mut findings, &Report::new("test", false, true).silenced());
        assert_eq!(findings.len(), 1);
        crate::stages::check::words::write_texts(&mut findings);
        assert_eq!(
            findings[0].says,
            "rank 1 differs; by the records, 1 AllReduce on rank 1, 2 AllReduce on ranks 0, 2 ended"
        );
    }
}
