//! The members of a trace before and after its events.

use super::json::text_of_value;
use rustc_hash::FxHashMap;
use serde_json::Value;

/// Members of the outermost object.
#[derive(Debug, Clone, Default)]
pub(super) struct KinetoHeader {
    /// Kineto's own: `schemaVersion` or `deviceProperties`, which no other tracer writes.
    pub(super) is_kineto: bool,
    /// The ns to add to times for ns since 1970: `baseTimeNanoseconds`, since PyTorch 2.4.
    pub(super) base: Option<i64>,
    /// `distributedInfo`: the rank of the process in the job.
    pub(super) rank: Option<u32>,
    /// `distributedInfo`: the process groups by name.
    pub(super) groups: FxHashMap<Box<[u8]>, KinetoGroup>,
}

/// A process group.
#[derive(Debug, Clone, Default)]
pub(super) struct KinetoGroup {
    /// The program's name for it; empty if unknown.
    pub(super) desc: Box<[u8]>,
    /// Its members' ranks in the job, if known.
    pub(super) ranks: Option<Vec<i64>>,
}

impl KinetoHeader {
    /// Takes a member.
    pub(super) fn take_member(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"schemaVersion" | b"deviceProperties" => self.is_kineto = true,
            b"baseTimeNanoseconds" => {
                self.base = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            }
            b"distributedInfo" => self.read_distributed(value),
            _ => {}
        }
    }

    fn read_distributed(&mut self, value: &[u8]) {
        let Ok(info) = serde_json::from_slice::<Value>(value) else {
            return;
        };
        let rank = info.get("rank").and_then(Value::as_u64);
        self.rank = rank.and_then(|rank| u32::try_from(rank).ok());
        // A list, or a text that is one.
        let list = match info.get("pg_config") {
            Some(Value::String(text)) => serde_json::from_str(text).ok(),
            list => list.cloned(),
        };
        let groups = list
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for group in groups {
            let text = |key| group.get(key).and_then(Value::as_str);
            let Some(name) = text("pg_name") else {
                continue;
            };
            let ranks = group.get("ranks").and_then(Value::as_array);
            let ranks: Option<Vec<i64>> =
                ranks.and_then(|ranks| ranks.iter().map(Value::as_i64).collect());
            let group = KinetoGroup {
                desc: text("pg_desc").unwrap_or_default().as_bytes().into(),
                ranks: ranks.filter(|ranks| !ranks.is_empty()),
            };
            self.groups.insert(name.as_bytes().into(), group);
        }
    }

    /// Returns the ns to add to times for ns since 1970, in a trace with a time `at`. Before PyTorch
    /// 2.4 times are ns since 1970 already, unless they are below 10^18 ns (31 years): then they
    /// count from the start of the machine.
    pub(super) fn utc_offset(&self, at: Option<i64>) -> Option<i64> {
        let is_unix = |at: i64| self.is_kineto && at > 1_000_000_000_000_000_000;
        self.base.or(at.filter(|&at| is_unix(at)).map(|_| 0))
    }
}

/// Reads the number of a step: `ProfilerStep#7`.
pub(super) fn parse_step(name: &[u8]) -> Option<u64> {
    let number = name.strip_prefix(b"ProfilerStep#")?;
    super::json::parse_number(number)
}

/// A text of an event, as it is.
pub(super) fn plain_text(value: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    text_of_value(value).unwrap_or(value.into())
}
