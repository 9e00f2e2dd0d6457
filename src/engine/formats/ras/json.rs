//! RAS' answer as JSON (since NCCL 2.28.7): every rank of every communicator.

use super::snapshot::{
    RasCommunicator, RasMissingRank, RasProcess, RasRank, RasRankState, RasSnapshot,
};
use super::tokens::JsonTokens;
use crate::members::comm_id::CommId;
use std::collections::BTreeMap;

/// Reads all snapshots that follow each other, without other documents between them.
pub(super) fn read_json_snapshots(bytes: &[u8]) -> Vec<RasSnapshot> {
    let mut tokens = JsonTokens::new(bytes);
    let mut all = Vec::new();
    while tokens.find_object() {
        let mut snapshot = RasSnapshot {
            lists_all_ranks: true,
            ..RasSnapshot::default()
        };
        let mut is_answer = false;
        let end = read_snapshot(&mut tokens, &mut snapshot, &mut is_answer);
        snapshot.is_cut = end.is_none();
        if is_answer {
            all.push(snapshot);
        }
    }
    all
}

/// Reads one document. A communicator that is cut is left out: its counts would look too low.
fn read_snapshot(
    tokens: &mut JsonTokens<'_>,
    snapshot: &mut RasSnapshot,
    is_answer: &mut bool,
) -> Option<()> {
    tokens.for_each_field(|tokens, key| {
        match key {
            b"nccl_version" => snapshot.nccl_version = Some(to_text(tokens.read_text()?)),
            b"timestamp" => snapshot.stamp = Some(to_text(tokens.read_text()?)),
            b"communicators" => {
                *is_answer = true;
                tokens.for_each_item(|tokens| {
                    let communicator = read_communicator(tokens)?;
                    snapshot.communicators.extend(communicator);
                    Some(())
                })?;
            }
            _ => tokens.skip_value()?,
        }
        Some(())
    })
}

/// Reads a communicator; the inner `None` means that it has no id.
fn read_communicator(tokens: &mut JsonTokens<'_>) -> Option<Option<RasCommunicator>> {
    let mut read = RasCommunicator::of_id(CommId::from_printed(0));
    let mut has_id = false;
    tokens.for_each_field(|tokens, key| {
        match key {
            b"hash" => {
                if let Some(id) = CommId::parse(tokens.read_text()?) {
                    (read.id, has_id) = (id, true);
                }
            }
            b"size" => read.size = read_number(tokens)?,
            b"ranks" => tokens.for_each_item(|tokens| {
                read.ranks.extend(read_rank(tokens)?);
                Some(())
            })?,
            b"missing_ranks" => tokens.for_each_item(|tokens| {
                read.missing.extend(read_missing_rank(tokens)?);
                Some(())
            })?,
            _ => tokens.skip_value()?,
        }
        Some(())
    })?;
    read.ranks.sort_by_key(|rank| rank.rank);
    read.ranks.dedup_by_key(|rank| rank.rank);
    Some(has_id.then_some(read))
}

/// The fields by which a rank is named.
#[derive(Default)]
struct NamedFields {
    rank: Option<u32>,
    host: Option<Box<str>>,
    pid: Option<u64>,
}

impl NamedFields {
    /// Reads the value of `key`; false if it is none of these fields.
    fn read_field(&mut self, tokens: &mut JsonTokens<'_>, key: &[u8]) -> Option<bool> {
        match key {
            b"rank" => self.rank = read_number(tokens)?,
            b"host" => self.host = Some(to_text(tokens.read_text()?)),
            b"pid" => self.pid = read_number(tokens)?,
            _ => return Some(false),
        }
        Some(true)
    }

    fn into_process(self) -> Option<RasProcess> {
        Some(RasProcess {
            host: self.host?,
            pid: self.pid?,
        })
    }
}

/// The fields of a rank's status.
#[derive(Default)]
struct StatusFields {
    init: Option<i32>,
    error: Option<i32>,
    is_finalising: bool,
    is_aborting: bool,
    is_unresponsive: Option<bool>,
    is_dead: bool,
}

impl StatusFields {
    fn read_status(&mut self, tokens: &mut JsonTokens<'_>) -> Option<()> {
        tokens.for_each_field(|tokens, key| {
            let is_true = |tokens: &mut JsonTokens<'_>| Some(tokens.read_text()? == b"true");
            match key {
                b"init_state" => self.init = read_number(tokens)?,
                b"async_error" => self.error = read_number(tokens)?,
                b"finalize_called" | b"destroy_flag" => self.is_finalising |= is_true(tokens)?,
                b"abort_flag" => self.is_aborting = is_true(tokens)?,
                b"unresponsive" => self.is_unresponsive = Some(is_true(tokens)?),
                b"considered_dead" => self.is_dead = is_true(tokens)?,
                _ => tokens.skip_value()?,
            }
            Some(())
        })
    }

    fn rank_state(&self) -> Option<RasRankState> {
        Some(match self.init? {
            _ if self.is_aborting => RasRankState::Aborting,
            _ if self.is_finalising => RasRankState::Finalising,
            // `ncclInProgress` of `nccl.h`.
            7 => RasRankState::Initialising,
            _ => RasRankState::Running,
        })
    }

    /// The error of NCCL, unless there is none or it still works.
    fn rank_error(&self) -> Option<i32> {
        let errors = [self.error, self.init].into_iter().flatten();
        errors.into_iter().find(|&e| e != 0 && e != 7)
    }
}

/// Reads a rank that answered; the inner `None` means that it has no number.
fn read_rank(tokens: &mut JsonTokens<'_>) -> Option<Option<RasRank>> {
    let line = tokens.line();
    let (mut named, mut status) = (NamedFields::default(), StatusFields::default());
    let mut counts = BTreeMap::new();
    tokens.for_each_field(|tokens, key| {
        if named.read_field(tokens, key)? {
            return Some(());
        }
        match key {
            b"status" => status.read_status(tokens),
            b"collective_counts" => tokens.for_each_field(|tokens, op| {
                if let Some(count) = read_number(tokens)? {
                    counts.insert(to_text(op), count);
                }
                Some(())
            }),
            _ => tokens.skip_value(),
        }
    })?;
    Some(named.rank.map(|rank| RasRank {
        rank,
        process: named.into_process(),
        state: status.rank_state(),
        error: status.rank_error(),
        counts,
        line,
    }))
}

/// Reads a rank that did not answer; the inner `None` means that it has no number.
fn read_missing_rank(tokens: &mut JsonTokens<'_>) -> Option<Option<RasMissingRank>> {
    let line = tokens.line();
    let (mut named, mut status) = (NamedFields::default(), StatusFields::default());
    tokens.for_each_field(|tokens, key| {
        if named.read_field(tokens, key)? {
            return Some(());
        }
        match key {
            b"status" => status.read_status(tokens),
            _ => tokens.skip_value(),
        }
    })?;
    Some(named.rank.map(|rank| RasMissingRank {
        rank,
        process: named.into_process(),
        is_unresponsive: status.is_unresponsive,
        is_dead: status.is_dead,
        line,
    }))
}

/// Reads a number; the inner `None` means that it is none, or too large.
fn read_number<N: std::str::FromStr>(tokens: &mut JsonTokens<'_>) -> Option<Option<N>> {
    let text = tokens.read_text()?;
    Some(std::str::from_utf8(text).ok().and_then(|n| n.parse().ok()))
}

fn to_text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = include_str!("../../../../testdata/ras/die/ras.json");

    #[test]
    fn an_answer_without_all_commas_is_read() {
        let snapshots = read_json_snapshots(ANSWER.as_bytes());
        let last = snapshots.last().unwrap();
        assert_eq!((last.communicators.len(), last.is_cut), (3, false));
        let pair = &last.communicators[1];
        assert_eq!(
            (pair.id.to_string(), pair.size),
            ("0xd4938af8383cc547".into(), Some(2))
        );
        assert_eq!(
            (
                pair.ranks.len(),
                pair.ranks[0].error,
                pair.ranks[0].counts["AllGather"]
            ),
            (1, Some(6), 8)
        );
        let [missing] = &pair.missing[..] else {
            panic!("{pair:?}");
        };
        assert_eq!((missing.rank, missing.is_unresponsive), (1, Some(true)));
    }

    #[test]
    fn a_communicator_that_is_cut_is_left_out() {
        let whole = read_json_snapshots(ANSWER.as_bytes());
        for to in (0..ANSWER.len()).step_by(7) {
            let cut = read_json_snapshots(&ANSWER.as_bytes()[..to]);
            for (cut, whole) in cut.iter().zip(&whole) {
                let known = cut.communicators.len();
                assert_eq!(cut.communicators, whole.communicators[..known]);
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_unknown() {
        let text = r#"x{"communicators":[{"hash":"0x1","size":99999999999,"ranks":[{"rank":-1},
            {"rank":3,"collective_counts":{"AllReduce":1e9,"Reduce":7}}]}]} {"event":1}"#;
        let [snapshot] = &read_json_snapshots(text.as_bytes())[..] else {
            panic!();
        };
        let only = &snapshot.communicators[0];
        assert_eq!((only.size, only.ranks.len()), (None, 1));
        assert_eq!(only.ranks[0].counts.len(), 1);
    }
}
