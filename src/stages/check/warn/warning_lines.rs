//! One process's WARN lines of one body, printed by NCCL or relayed by a program.

use super::returned_errors::RelayedLine;
use crate::stages::check::finding::Evidence;
use crate::stages::check::warn::limits::MAX_PEERS_KEPT;
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// One process's lines of one body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WarningLines {
    /// The number of lines.
    pub count: u64,
    /// The place of the first.
    pub first: FirstReportLine,
    /// The place of the last.
    pub last: FirstReportLine,
    /// The first line's time stamp as printed; empty if there is none.
    pub time: Box<[u8]>,
    /// The first line as printed, with its header; at most 300 bytes of its text.
    pub text: Box<[u8]>,
    /// The start of NCCL's words after the header.
    pub says: usize,
    /// The first few named peers, and the number of lines of each.
    pub peers: Vec<(Box<[u8]>, u64)>,
    /// The result that NCCL's functions returned right after a line; the first of several.
    pub result: Option<i32>,
    /// The chunk's line of that result, until all chunks are added.
    pub(super) answered: Option<u64>,
    /// Calls of the process after the last line; calls before it until all chunks are added.
    pub calls: u64,
    /// The program that relays it, where NCCL's own line is missing.
    pub relayed_by: Option<RelayingProgram>,
}

/// A program that relays NCCL's last WARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayingProgram {
    /// Its rank in the job, if the line names it.
    pub rank: Option<u32>,
    /// It relays an error that it got itself.
    pub is_own: bool,
}

impl WarningLines {
    /// NCCL's last WARN as a program relays it.
    pub(super) fn from_relayed_line(line: &RelayedLine) -> WarningLines {
        let says = memmem::find(&line.text, &line.last_warn);
        WarningLines {
            count: 1,
            first: line.at,
            last: line.at,
            time: Box::default(),
            text: match says {
                Some(_) => line.text.clone(),
                None => line.last_warn.clone(),
            },
            says: says.unwrap_or(0),
            peers: Vec::new(),
            result: line.result,
            answered: None,
            calls: 0,
            relayed_by: Some(RelayingProgram {
                rank: line.rank,
                is_own: line.is_own,
            }),
        }
    }

    /// NCCL's words.
    pub(crate) fn nccl_text(&self) -> &[u8] {
        self.text.get(self.says..).unwrap_or_default()
    }

    /// The first line as evidence.
    pub(super) fn to_evidence(&self) -> Evidence {
        Evidence {
            at: self.first.into(),
            text: Some(self.text.to_vec()),
        }
    }

    /// Adds later lines of this process and body.
    pub(super) fn add_following(&mut self, next: WarningLines) {
        self.count += next.count;
        self.last = next.last;
        self.calls = next.calls;
        for (peer, count) in next.peers {
            self.count_peer(&peer, count);
        }
        self.result = self.result.or(next.result);
    }

    pub(super) fn count_peer(&mut self, peer: &[u8], count: u64) {
        if let Some((_, times)) = self.peers.iter_mut().find(|(known, _)| **known == *peer) {
            *times += count;
        } else if self.peers.len() < MAX_PEERS_KEPT {
            self.peers.push((peer.into(), count));
        }
    }
}
