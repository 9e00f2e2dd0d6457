//! What records of calls show, NCCL Inspector's and those in traces of NCCL's profiler plugin: how many
//! calls ended, and whether all ranks of a communicator passed the same sizes.
//!
//! A recorder numbers the calls of each operation on a communicator from 0, by rank. NCCL Inspector
//! records a call when it ends, and writes at intervals: a call without a record need not hang.

use super::dumps::is_of_calls;
use super::finding::{About, Finding, Severity, Sure};
use super::wording::{counted, ranks, text, verb};
use crate::count::calls::Options;
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::formats::lines::{self, Rows};
use crate::formats::profiler::{self, Op, Side};
use crate::grammar::values::{Kind, kind};
use crate::members::comm_id::CommId;
use crate::members::twice::Twice;
use crate::output::table::Row;
use crate::report::Report;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The records among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Their names.
    names: Vec<String>,
    /// By communicator, as Inspector prints its id, and operation.
    series: BTreeMap<(CommId, Box<[u8]>), Series>,
    /// Operations of the proxy thread that did not end.
    open: Vec<Op>,
    /// Sizes that are held, and whether some are not.
    held: usize,
    is_full: bool,
}

/// The calls of an operation on a communicator, by rank.
type Series = BTreeMap<u32, Member>;

/// A rank's.
#[derive(Debug, Default)]
struct Member {
    /// The number of the last one that ended.
    last: Option<u64>,
    /// Bytes by number.
    sizes: FxHashMap<u64, u128>,
}

/// Sizes that are held: 24 bytes each.
const MOST: usize = 1 << 22;

/// A recorded collective.
#[derive(Debug)]
struct Recorded {
    id: CommId,
    rank: u32,
    op: Box<[u8]>,
    seq: u64,
    bytes: Option<u128>,
    is_ended: bool,
}

/// Those of a part of an input.
#[derive(Debug, Default)]
struct Part {
    /// How many calls it has of any kind.
    rows: u64,
    calls: Vec<Recorded>,
    /// Operations of the proxy thread that did not end.
    open: Vec<Op>,
}

/// How many of these are kept.
const OPEN: usize = 1000;

impl Rows for Part {
    fn row(&mut self, row: &Row<'_>) {
        self.rows += 1;
        // Send and Recv are numbered by process, not by what they meet.
        let is_collective = !matches!(kind(row.op), Kind::PointToPoint | Kind::Other);
        if let (true, Some(id), Some(rank), Some(seq)) =
            (is_collective, row.comm_id, row.rank, row.seq)
        {
            self.calls.push(Recorded {
                id: id.recorded(),
                rank,
                op: row.op.into(),
                seq,
                bytes: row.bytes(),
                is_ended: row.times().dur_ns.is_some(),
            });
        }
    }
}

impl profiler::Visit for Part {
    fn call(&mut self, row: &Row<'_>) -> Result<()> {
        self.row(row);
        Ok(())
    }

    fn proxy(&mut self, op: &Op) {
        if !op.is_complete() && self.open.len() < OPEN {
            self.open.push(op.clone());
        }
    }
}

impl Records {
    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// Reads records.
    ///
    /// # Errors
    /// They cannot be read; damage under `--strict`.
    pub(super) fn add<V>(
        &mut self,
        known: &Known<V>,
        options: &Options,
        report: &mut Report,
    ) -> Result<()> {
        let read = lines::Options::from(&options.log);
        let mut all = Part::default();
        let account = match known.tells(Tells::PROXY) {
            true => {
                let mut account = profiler::trace(known.input(), &mut all)?;
                account.calls = all.rows;
                account
            }
            false => {
                let sink = |part: Part| {
                    part.calls.into_iter().for_each(|call| self.call(call));
                    Ok(())
                };
                let twice = &mut Twice::default();
                known.records(read, twice, Part::default, |_| {}, sink)?
            }
        };
        all.calls.into_iter().for_each(|call| self.call(call));
        self.open.extend(all.open);
        report.input(&known.name(), &account);
        report.told_beside();
        self.names.push(known.name());
        Ok(())
    }

    fn call(&mut self, call: Recorded) {
        let member = self.series.entry((call.id, call.op)).or_default();
        let member = member.entry(call.rank).or_default();
        if call.is_ended {
            member.last = member.last.max(Some(call.seq));
        }
        match call.bytes {
            Some(bytes) if self.held < MOST => {
                self.held += 1;
                member.sizes.insert(call.seq, bytes);
            }
            Some(_) => self.is_full = true,
            None => {}
        }
    }

    /// Where ranks passed different sizes to the same call, the first of each communicator; and how many
    /// calls have the records of more than one rank.
    fn differing(&self) -> (BTreeMap<CommId, Differs<'_>>, u64) {
        let mut first: BTreeMap<CommId, Differs<'_>> = BTreeMap::new();
        let mut all = 0;
        for ((id, op), series) in &self.series {
            let (differs, compared) = differs(op, series);
            all += compared;
            let Some(differs) = differs else {
                continue;
            };
            let known = first.entry(*id).or_insert_with(|| differs.clone());
            if differs.seq < known.seq {
                *known = differs;
            }
        }
        (first, all)
    }

    /// What ended on a communicator, as a clause: `13 AllReduce on ranks 0-3`.
    fn ended(&self, id: CommId) -> Option<String> {
        let of = self.series.range((id, Box::default())..);
        let of = of.take_while(|((other, _), _)| *other == id);
        let mut parts = Vec::new();
        for ((_, op), series) in of {
            let mut by: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
            for (rank, member) in series {
                let ended = member.last.map_or(0, |last| last.saturating_add(1));
                by.entry(ended).or_default().insert(*rank);
            }
            parts.extend(
                by.iter()
                    .map(|(made, who)| format!("{made} {} {}", text(op), on(who))),
            );
        }
        // A communicator of the whole job has few operations.
        parts.truncate(6);
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Adds what the records show: to the log's findings about the calls of a communicator how many of them
    /// ended, and where its ranks passed different sizes, else findings of their own.
    pub(super) fn join(&self, findings: &mut Vec<Finding>, report: &Report) {
        if self.is_full {
            report.note(&format!(
                "sizes are compared for the first {} of the recorded calls",
                self.held
            ));
        }
        let (mut differing, compared) = self.differing();
        if compared > 0 && differing.is_empty() {
            report.note(&format!(
                "{} by more than one rank: the sizes agree",
                counted(compared, "recorded collective")
            ));
        }
        for finding in findings.iter_mut() {
            let is = finding.severity == Severity::Error && is_of_calls(finding.id);
            let id = finding.about.comm_id.as_deref().filter(|_| is);
            let Some(id) = id.and_then(|id| CommId::parse(id.as_bytes())) else {
                continue;
            };
            if let Some(differs) = differing.remove(&id.recorded()) {
                finding.says += &format!("; by the records {}", differs.clause());
            }
            if let Some(ended) = self.ended(id.recorded()) {
                finding.says += &format!("; the records have the ends of {ended}");
            }
        }
        findings.extend(differing.iter().map(|(id, differs)| differs.finding(*id)));
        findings.extend(self.unfinished());
    }

    /// The operations of the proxy thread that did not end.
    fn unfinished(&self) -> Option<Finding> {
        let first = self.open.first()?;
        let number = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let (side, toward) = match first.side {
            Side::Send => ("Send", "to"),
            Side::Recv => ("Recv", "from"),
        };
        let call = match &*first.op {
            b"" => String::new(),
            op => format!(" for {} number {}", text(op), number(first.seq)),
        };
        let wait = first.last.map_or_else(String::new, |wait| {
            format!("; the last wait that began is for {}", wait.name())
        });
        Some(Finding {
            id: "unfinished_traffic",
            severity: Severity::Note,
            says: format!(
                "{} of NCCL's proxy thread did not end in the traces, the first is a {side} of rank {} \
                 {toward} rank {} on channel {}{call}{wait}",
                counted(self.open.len() as u64, "operation"),
                number(first.rank),
                first.peer,
                first.channel,
            ),
            about: About {
                rank: first.rank.and_then(|rank| u32::try_from(rank).ok()),
                comm_id: first.comm.map(|id| CommId::printed(id).to_string()),
                ..About::default()
            },
            sure: Sure::Medium,
            why: "the traces have their beginning and no end; a trace that is cut has none either"
                .to_owned(),
            advice: "nccl-proxy --incomplete lists them, and how far each came".to_owned(),
            evidence: Vec::new(),
        })
    }
}

/// `on rank 1`, `on ranks 0-3`.
fn on(who: &BTreeSet<u32>) -> String {
    format!("on {} {}", verb(who.len(), "rank", "ranks"), ranks(who))
}

/// The first call to which ranks passed different sizes.
#[derive(Debug, Clone)]
struct Differs<'r> {
    op: &'r [u8],
    seq: u64,
    /// Who passed which size.
    by: BTreeMap<u128, BTreeSet<u32>>,
}

/// That of a series, and how many of its calls have the records of more than one rank.
fn differs<'r>(op: &'r [u8], series: &'r Series) -> (Option<Differs<'r>>, u64) {
    let mut sizes: FxHashMap<u64, (u128, bool)> = FxHashMap::default();
    let (mut least, mut compared): (Option<u64>, u64) = (None, 0);
    for member in series.values() {
        for (&seq, &bytes) in &member.sizes {
            let Some((first, is_compared)) = sizes.get_mut(&seq) else {
                sizes.insert(seq, (bytes, false));
                continue;
            };
            compared += u64::from(!std::mem::replace(is_compared, true));
            if *first != bytes && least.is_none_or(|least| seq < least) {
                least = Some(seq);
            }
        }
    }
    let Some(seq) = least else {
        return (None, compared);
    };
    let mut by: BTreeMap<u128, BTreeSet<u32>> = BTreeMap::new();
    for (rank, member) in series {
        if let Some(bytes) = member.sizes.get(&seq) {
            by.entry(*bytes).or_default().insert(*rank);
        }
    }
    (Some(Differs { op, seq, by }), compared)
}

impl Differs<'_> {
    /// `AllReduce number 12 has 4 bytes on ranks 0, 2-3, 16 bytes on rank 1`.
    fn clause(&self) -> String {
        let each = self
            .by
            .iter()
            .map(|(bytes, who)| format!("{} {}", counted(*bytes, "byte"), on(who)));
        let each: Vec<String> = each.take(6).collect();
        format!(
            "{} number {} has {}",
            text(self.op),
            self.seq,
            each.join(", ")
        )
    }

    fn finding(&self, id: CommId) -> Finding {
        let all: usize = self.by.values().map(BTreeSet::len).sum();
        // The one that is not with most.
        let most = self.by.values().find(|who| 2 * who.len() > all);
        let odd = most.and_then(|most| {
            let mut others = self
                .by
                .values()
                .flatten()
                .filter(|rank| !most.contains(rank));
            others.next().filter(|_| others.next().is_none()).copied()
        });
        Finding {
            id: "count_mismatch",
            severity: Severity::Error,
            says: format!(
                "ranks of communicator {id} passed different sizes: {}",
                self.clause()
            ),
            about: About {
                rank: odd,
                comm_id: Some(id.to_string()),
                ..About::default()
            },
            sure: if odd.is_some() { Sure::High } else { Sure::Medium },
            why: "NCCL matches the calls of a communicator by their order, and the records of its ranks \
                  name these sizes"
                .to_owned(),
            advice: "compare what these ranks pass to that call".to_owned(),
            evidence: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of AllReduce on one communicator: rank, number, bytes.
    fn records(calls: &[(u32, u64, u128)]) -> Records {
        let mut records = Records::default();
        for &(rank, seq, bytes) in calls {
            records.call(Recorded {
                id: CommId::printed(0x00e6_2ded_aa97_644a),
                rank,
                op: b"AllReduce"[..].into(),
                seq,
                bytes: Some(bytes),
                is_ended: true,
            });
        }
        records
    }

    fn found(records: &Records) -> Vec<Finding> {
        let mut findings = Vec::new();
        records.join(&mut findings, &Report::new("test", false, true).silent());
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
            (finding.id, finding.about.rank),
            ("count_mismatch", Some(1))
        );
        assert_eq!(
            finding.says,
            "ranks of communicator 0xe62dedaa97644a passed different sizes: AllReduce number 1 has \
             4 bytes on ranks 0, 2, 16 bytes on rank 1"
        );
        // Of two nobody knows who is wrong.
        let two = found(&records(&[(0, 1, 4), (1, 1, 16)]));
        assert_eq!(two.first().map(|f| f.about.rank), Some(None));
    }

    #[test]
    fn a_finding_of_the_log_is_told_what_ended() {
        let mut findings = found(&records(&[(0, 1, 4), (1, 1, 16)]));
        let of_log = &mut findings[0];
        of_log.about.comm_id = Some("0xe62dedaa97644a12".to_owned());
        of_log.says = "rank 1 differs".to_owned();
        let records = records(&[(0, 1, 4), (1, 0, 4), (2, 1, 4)]);
        records.join(&mut findings, &Report::new("test", false, true).silent());
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].says,
            "rank 1 differs; the records have the ends of 1 AllReduce on rank 1, 2 AllReduce on \
             ranks 0, 2"
        );
    }
}
