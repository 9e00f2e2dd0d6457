//! The content of a dump: its process groups, how far each came, and the last calls of the process.
//!
//! The keys are those of PyTorch's `FlightRecorder` (`torch/csrc/distributed/c10d`), versions 2.0 to
//! 2.10.

use super::entry::{CallTensors, DumpEntry, FlightCallState, FlightGroup, StackFrame};
use super::ops;
use super::value::{DumpValues, ValueId};
use crate::output::table::Lacks;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A dump of PyTorch's flight recorder: one process's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlightDump {
    /// The version of the format: `2.10`.
    pub version: String,
    /// NCCL's version: `2.28.9`.
    pub nccl_version: Option<String>,
    /// The process's rank in the job. A dump has no field for it: from its calls to a peer, else from
    /// the one rank that all its groups share, else from the end of the file's name.
    pub rank: Option<u32>,
    /// The process groups that the process is in.
    pub groups: Vec<FlightGroup>,
    /// How far each group came.
    pub status: Vec<GroupStatus>,
    /// The last calls, in the order in which they were made. The recorder keeps a fixed number.
    pub entries: Vec<DumpEntry>,
    /// The number of damaged records.
    pub damaged: u64,
}

/// How far a process group came: numbers as in [`DumpEntry::collective_seq`], -1 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStatus {
    /// The group, as in [`DumpEntry::pg_id`].
    pub pg_id: u64,
    /// The last collective that was enqueued.
    pub enqueued: i64,
    /// The last that the watchdog saw started; often -1, since it is asked for only with timing on.
    pub started: i64,
    /// The last that it saw completed.
    pub completed: i64,
}

/// Builds a dump from a document's values.
pub(super) struct DumpBuilder<'v> {
    values: &'v DumpValues,
    /// The list items that may still be copied: a document can use one list many times.
    budget: usize,
    texts: FxHashMap<ValueId, Arc<str>>,
    shapes: FxHashMap<ValueId, Arc<[Box<[u64]>]>>,
    types: FxHashMap<ValueId, Arc<[Arc<str>]>>,
    stacks: FxHashMap<ValueId, Arc<[Arc<StackFrame>]>>,
    frames: FxHashMap<ValueId, Arc<StackFrame>>,
    /// The ranks of groups, by name.
    ranks: FxHashMap<Arc<str>, Arc<[u32]>>,
    groups: FxHashMap<(Arc<str>, Arc<str>), Arc<FlightGroup>>,
}

type DumpResult<T> = Result<T, Lacks>;

const LACKS_BOUNDED_LISTS: Lacks = "no more in lists than the document holds";

impl<'v> DumpBuilder<'v> {
    /// Begins a dump of a document of `bytes` bytes.
    pub(super) fn new(values: &'v DumpValues, bytes: usize) -> DumpBuilder<'v> {
        DumpBuilder {
            values,
            budget: bytes,
            texts: FxHashMap::default(),
            shapes: FxHashMap::default(),
            types: FxHashMap::default(),
            stacks: FxHashMap::default(),
            frames: FxHashMap::default(),
            ranks: FxHashMap::default(),
            groups: FxHashMap::default(),
        }
    }

    /// Builds the dump of the outermost value `root`. Gives `take` each record's result: damaged ones
    /// first, then the others in order.
    pub(super) fn build_dump(
        &mut self,
        root: ValueId,
        mut take: impl FnMut(DumpResult<&DumpEntry>),
    ) -> FlightDump {
        let values = self.values;
        let get = |key| values.value_of_key(root, key);
        let text = |key| get(key).and_then(|id| values.text(id));
        let pairs = |key| get(key).and_then(|id| values.dict_pairs(id));
        let mut dump = FlightDump {
            version: text("version").unwrap_or_default().to_owned(),
            nccl_version: text("comm_lib_version")
                .or(text("nccl_version"))
                .map(str::to_owned),
            ..FlightDump::default()
        };
        let groups = pairs("pg_config").unwrap_or_default().iter();
        let groups = groups.filter_map(|(name, id)| self.build_group(*name, *id));
        dump.groups = groups.collect();
        for group in &dump.groups {
            self.ranks.insert(group.name.clone(), group.ranks.clone());
        }
        let status = pairs("pg_status").unwrap_or_default().iter();
        let status = status.filter_map(|(id, of)| self.read_status(*id, *of));
        dump.status = status.collect();
        let entries = get("entries").and_then(|id| values.list_items(id));
        let mut seen = FxHashSet::default();
        for &id in entries.unwrap_or_default() {
            let made = match seen.insert(id) {
                true => self.build_entry(id),
                false => Err("each record once"),
            };
            match made {
                Ok(entry) => dump.entries.push(entry),
                Err(lacks) => {
                    dump.damaged += 1;
                    take(Err(lacks));
                }
            }
        }
        ops::coalesce_entries(&mut dump.entries);
        dump.entries.iter().for_each(|entry| take(Ok(entry)));
        dump
    }

    fn spend_items(&mut self, items: usize) -> DumpResult<()> {
        self.budget = self.budget.checked_sub(items).ok_or(LACKS_BOUNDED_LISTS)?;
        Ok(())
    }

    fn intern_text(&mut self, id: ValueId) -> Option<Arc<str>> {
        let text = self.values.text(id)?;
        Some(self.texts.entry(id).or_insert_with(|| text.into()).clone())
    }

    fn build_group(&mut self, name: ValueId, id: ValueId) -> Option<FlightGroup> {
        if self.values.is_cut(id) {
            return None;
        }
        let name = self.intern_text(name)?;
        let desc = self
            .values
            .value_of_key(id, "desc")
            .and_then(|id| self.intern_text(id));
        let ranks = self.values.value_of_key(id, "ranks")?;
        let ranks: Option<Vec<u32>> = match (self.values.text(ranks), self.values.list_items(ranks))
        {
            (Some(text), _) => {
                let list = text.strip_prefix('[')?.strip_suffix(']')?;
                let list = list
                    .split(',')
                    .map(str::trim)
                    .filter(|rank| !rank.is_empty());
                list.map(|rank| rank.parse().ok()).collect()
            }
            (None, Some(list)) => {
                self.spend_items(list.len()).ok()?;
                let rank = |&id: &ValueId| u32::try_from(self.values.int(id)?).ok();
                list.iter().map(rank).collect()
            }
            (None, None) => None,
        };
        Some(FlightGroup {
            name,
            desc: desc.unwrap_or_default(),
            ranks: ranks?.into(),
        })
    }

    fn read_status(&self, pg_id: ValueId, of: ValueId) -> Option<GroupStatus> {
        let values = self.values;
        let int = |key| values.int(values.value_of_key(of, key)?);
        Some(GroupStatus {
            pg_id: u64::try_from(values.int(pg_id)?).ok()?,
            enqueued: int("last_enqueued_collective")?,
            started: int("last_started_collective")?,
            completed: int("last_completed_collective")?,
        })
    }

    /// Returns the group of a call; without ranks if the dump's list lacks it.
    fn find_group(&mut self, id: ValueId) -> DumpResult<Arc<FlightGroup>> {
        const LACKS_GROUP_TEXTS: Lacks = "a process_group of two texts";
        let (name, desc) = match self.values.list_items(id) {
            Some(&[name, desc]) => (name, desc),
            // Version 2.0 had the name alone.
            _ => (id, id),
        };
        let name = self.intern_text(name).ok_or(LACKS_GROUP_TEXTS)?;
        let desc = match desc == id {
            true => Arc::from(""),
            false => self.intern_text(desc).ok_or(LACKS_GROUP_TEXTS)?,
        };
        let key = (name.clone(), desc.clone());
        // The list of a mesh's groups has no descriptions, so that a name is enough.
        let ranks = self.ranks.get(&name).cloned().unwrap_or_default();
        let new = || Arc::new(FlightGroup { name, desc, ranks });
        Ok(self.groups.entry(key).or_insert_with(new).clone())
    }

    fn build_entry(&mut self, id: ValueId) -> DumpResult<DumpEntry> {
        let values = self.values;
        if values.is_cut(id) {
            return Err("a whole record");
        }
        values.dict_pairs(id).ok_or("a record of a call")?;
        let get = |key| values.value_of_key(id, key);
        let int = |key| get(key).and_then(|id| values.int(id));
        let count = |key| int(key).and_then(|n| u64::try_from(n).ok());
        let time = |key| count(key).filter(|&ns| ns > 0);
        let bool = |key| get(key).and_then(|id| values.bool(id));
        let name = get("profiling_name").and_then(|id| self.intern_text(id));
        let name = name.ok_or("a profiling_name")?;
        let state = get("state").and_then(|id| values.text(id));
        let state = state
            .and_then(FlightCallState::from_name)
            .ok_or("a valid state")?;
        let group = match get("process_group").or_else(|| get("pg_name")) {
            Some(id) => self.find_group(id)?,
            None => return Err("a process_group"),
        };
        let seq = count("collective_seq_id").or_else(|| count("seq_id"));
        let ns = get("duration_ms").and_then(|id| values.float(id));
        let ns = ns.map(|ms| (ms * 1e6).round());
        let ns = ns.filter(|ns| (0.0..1e18).contains(ns));
        Ok(DumpEntry {
            record_id: count("record_id")
                .or_else(|| count("id"))
                .ok_or("a record_id")?,
            pg_id: count("pg_id").unwrap_or(0),
            group,
            collective_seq: seq.ok_or("a collective_seq_id")?,
            p2p_seq: count("p2p_seq_id").unwrap_or(0),
            op_id: count("op_id").unwrap_or(0),
            op: ops::find_op(&name),
            name,
            inputs: self.build_tensors(get("input_sizes"), get("input_dtypes"))?,
            outputs: self.build_tensors(get("output_sizes"), get("output_dtypes"))?,
            state,
            coalesced: None,
            created_ns: time("time_created_ns"),
            started_ns: time("time_discovered_started_ns"),
            completed_ns: time("time_discovered_completed_ns"),
            duration_ns: ns.map(|ns| ns as u64),
            timeout_ms: count("timeout_ms"),
            is_p2p: bool("is_p2p").unwrap_or(false),
            is_retired: bool("retired").unwrap_or(false),
            stack: match get("frames") {
                Some(id) => self.build_stack(id)?,
                None => Arc::from([]),
            },
        })
    }

    fn build_tensors(
        &mut self,
        sizes: Option<ValueId>,
        types: Option<ValueId>,
    ) -> DumpResult<CallTensors> {
        Ok(CallTensors {
            shapes: match sizes {
                Some(id) => self.build_shapes(id)?,
                None => Arc::from([]),
            },
            types: match types {
                Some(id) => self.build_types(id)?,
                None => Arc::from([]),
            },
        })
    }

    fn build_shapes(&mut self, id: ValueId) -> DumpResult<Arc<[Box<[u64]>]>> {
        const LACKS_VALID_SIZES: Lacks = "valid sizes";
        if let Some(known) = self.shapes.get(&id) {
            return Ok(known.clone());
        }
        let values = self.values;
        let list = values.list_items(id).ok_or(LACKS_VALID_SIZES)?;
        self.spend_items(list.len())?;
        let mut shapes = Vec::new();
        for &shape in list {
            let dims = values.list_items(shape).ok_or(LACKS_VALID_SIZES)?;
            self.spend_items(dims.len())?;
            let dim = |&id: &ValueId| values.int(id).and_then(|n| u64::try_from(n).ok());
            let dims: Option<Box<[u64]>> = dims.iter().map(dim).collect();
            shapes.push(dims.ok_or(LACKS_VALID_SIZES)?);
        }
        let shapes: Arc<[_]> = shapes.into();
        self.shapes.insert(id, shapes.clone());
        Ok(shapes)
    }

    fn build_types(&mut self, id: ValueId) -> DumpResult<Arc<[Arc<str>]>> {
        if let Some(known) = self.types.get(&id) {
            return Ok(known.clone());
        }
        let list = self.values.list_items(id).ok_or("valid types")?;
        self.spend_items(list.len())?;
        let types: Option<Arc<[_]>> = list.iter().map(|&id| self.intern_text(id)).collect();
        let types = types.ok_or("valid types")?;
        self.types.insert(id, types.clone());
        Ok(types)
    }

    fn build_stack(&mut self, id: ValueId) -> DumpResult<Arc<[Arc<StackFrame>]>> {
        if let Some(known) = self.stacks.get(&id) {
            return Ok(known.clone());
        }
        let list = self.values.list_items(id).ok_or("valid frames")?;
        self.spend_items(list.len())?;
        let stack: Option<Arc<[_]>> = list.iter().map(|&id| self.build_frame(id)).collect();
        let stack = stack.ok_or("valid frames")?;
        self.stacks.insert(id, stack.clone());
        Ok(stack)
    }

    fn build_frame(&mut self, id: ValueId) -> Option<Arc<StackFrame>> {
        if let Some(known) = self.frames.get(&id) {
            return Some(known.clone());
        }
        let values = self.values;
        let frame = Arc::new(StackFrame {
            file: self.intern_text(values.value_of_key(id, "filename")?)?,
            line: u64::try_from(values.int(values.value_of_key(id, "line")?)?).ok()?,
            function: self.intern_text(values.value_of_key(id, "name")?)?,
        });
        self.frames.insert(id, frame.clone());
        Some(frame)
    }
}
