//! What a dump says: its process groups, how far each came, and the last calls of the process.
//!
//! The keys are those of PyTorch's `FlightRecorder` (`torch/csrc/distributed/c10d`), versions 2.0 to
//! 2.10.

use super::entry::{Entry, Frame, Group, State, Tensors};
use super::ops;
use super::value::{Id, Values};
use crate::output::table::Lacks;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A dump of PyTorch's flight recorder: one process's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dump {
    /// The version of the format: `2.10`.
    pub version: String,
    /// NCCL's version: `2.28.9`.
    pub nccl_version: Option<String>,
    /// The process's rank in the job. A dump has no field for it: from its calls to a peer, else from
    /// the one rank that all its groups share, else from the end of the file's name.
    pub rank: Option<u32>,
    /// The process groups that the process is in.
    pub groups: Vec<Group>,
    /// How far each group came.
    pub status: Vec<Status>,
    /// The last calls, in the order in which they were made. The recorder keeps a fixed number.
    pub entries: Vec<Entry>,
    /// How many records of calls are not whole.
    pub damaged: u64,
}

/// How far a process group came: numbers as in [`Entry::collective_seq`], -1 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The group, as in [`Entry::pg_id`].
    pub pg_id: u64,
    /// The last collective that was enqueued.
    pub enqueued: i64,
    /// The last that the watchdog saw started; often -1, since it is asked for only with timing on.
    pub started: i64,
    /// The last that it saw completed.
    pub completed: i64,
}

/// Makes a dump of values.
pub(super) struct Maker<'v> {
    values: &'v Values,
    /// How many items may still be taken out of lists: each is there once, however often it is used.
    budget: usize,
    texts: FxHashMap<Id, Arc<str>>,
    shapes: FxHashMap<Id, Arc<[Box<[u64]>]>>,
    types: FxHashMap<Id, Arc<[Arc<str>]>>,
    stacks: FxHashMap<Id, Arc<[Arc<Frame>]>>,
    frames: FxHashMap<Id, Arc<Frame>>,
    /// The members of groups by name.
    ranks: FxHashMap<Arc<str>, Arc<[u32]>>,
    groups: FxHashMap<(Arc<str>, Arc<str>), Arc<Group>>,
}

type Made<T> = Result<T, Lacks>;

const TOO_MUCH: Lacks = "no more in lists than the document holds";

impl<'v> Maker<'v> {
    /// Makes one of a document of so many bytes.
    pub(super) fn new(values: &'v Values, bytes: usize) -> Maker<'v> {
        Maker {
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

    /// The dump whose outermost value is `root`. Each record's result is handed to `told`, in order.
    pub(super) fn dump(&mut self, root: Id, mut told: impl FnMut(Made<&Entry>)) -> Dump {
        let values = self.values;
        let text = |key| values.of(root, key).and_then(|id| values.text(id));
        let mut dump = Dump {
            version: text("version").unwrap_or_default().to_owned(),
            nccl_version: text("comm_lib_version")
                .or(text("nccl_version"))
                .map(str::to_owned),
            ..Dump::default()
        };
        if let Some(pairs) = values.of(root, "pg_config").and_then(|id| values.dict(id)) {
            let groups = pairs.iter().filter_map(|(name, id)| self.group(*name, *id));
            dump.groups = groups.collect();
        }
        for group in &dump.groups {
            self.ranks.insert(group.name.clone(), group.ranks.clone());
        }
        if let Some(pairs) = values.of(root, "pg_status").and_then(|id| values.dict(id)) {
            dump.status = pairs
                .iter()
                .filter_map(|(id, of)| self.status(*id, *of))
                .collect();
        }
        let entries = values.of(root, "entries").and_then(|id| values.list(id));
        let mut seen = FxHashSet::default();
        for &id in entries.unwrap_or_default() {
            let made = match seen.insert(id) {
                true => self.entry(id),
                false => Err("each record once"),
            };
            match made {
                Ok(entry) => dump.entries.push(entry),
                Err(lacks) => {
                    dump.damaged += 1;
                    told(Err(lacks));
                }
            }
        }
        ops::coalesce(&mut dump.entries);
        dump.entries.iter().for_each(|entry| told(Ok(entry)));
        dump
    }

    fn spend(&mut self, items: usize) -> Made<()> {
        self.budget = self.budget.checked_sub(items).ok_or(TOO_MUCH)?;
        Ok(())
    }

    fn text(&mut self, id: Id) -> Option<Arc<str>> {
        let text = self.values.text(id)?;
        Some(self.texts.entry(id).or_insert_with(|| text.into()).clone())
    }

    fn group(&mut self, name: Id, id: Id) -> Option<Group> {
        if self.values.is_cut(id) {
            return None;
        }
        let name = self.text(name)?;
        let desc = self.values.of(id, "desc").and_then(|id| self.text(id));
        let ranks = self.values.of(id, "ranks")?;
        let ranks: Option<Vec<u32>> = match (self.values.text(ranks), self.values.list(ranks)) {
            (Some(text), _) => {
                let list = text.strip_prefix('[')?.strip_suffix(']')?;
                let list = list
                    .split(',')
                    .map(str::trim)
                    .filter(|rank| !rank.is_empty());
                list.map(|rank| rank.parse().ok()).collect()
            }
            (None, Some(list)) => {
                self.spend(list.len()).ok()?;
                let rank = |&id: &Id| u32::try_from(self.values.int(id)?).ok();
                list.iter().map(rank).collect()
            }
            (None, None) => None,
        };
        Some(Group {
            name,
            desc: desc.unwrap_or_default(),
            ranks: ranks?.into(),
        })
    }

    fn status(&self, pg_id: Id, of: Id) -> Option<Status> {
        let int = |key| self.values.of(of, key).and_then(|id| self.values.int(id));
        Some(Status {
            pg_id: u64::try_from(self.values.int(pg_id)?).ok()?,
            enqueued: int("last_enqueued_collective")?,
            started: int("last_started_collective")?,
            completed: int("last_completed_collective")?,
        })
    }

    /// The group of a call; where the dump's list lacks it, without its ranks.
    fn group_of(&mut self, id: Id) -> Made<Arc<Group>> {
        const NAMES: Lacks = "a process_group of two texts";
        let (name, desc) = match self.values.list(id) {
            Some(&[name, desc]) => (name, desc),
            // Version 2.0 had the name alone.
            _ => (id, id),
        };
        let name = self.text(name).ok_or(NAMES)?;
        let desc = match desc == id {
            true => Arc::from(""),
            false => self.text(desc).ok_or(NAMES)?,
        };
        let key = (name.clone(), desc.clone());
        // The list of a mesh's groups has no descriptions, so that a name is enough.
        let ranks = self.ranks.get(&name).cloned().unwrap_or_default();
        let new = || Arc::new(Group { name, desc, ranks });
        Ok(self.groups.entry(key).or_insert_with(new).clone())
    }

    fn entry(&mut self, id: Id) -> Made<Entry> {
        let values = self.values;
        if values.is_cut(id) {
            return Err("a whole record");
        }
        values.dict(id).ok_or("a record of a call")?;
        let get = |key| values.of(id, key);
        let int = |key| get(key).and_then(|id| values.int(id));
        let count = |key| int(key).and_then(|n| u64::try_from(n).ok());
        let time = |key| count(key).filter(|&ns| ns > 0);
        let bool = |key| get(key).and_then(|id| values.bool(id));
        let name = get("profiling_name").and_then(|id| self.text(id));
        let name = name.ok_or("a profiling_name")?;
        let state = get("state").and_then(|id| values.text(id));
        let state = state.and_then(State::of).ok_or("a valid state")?;
        let group = match get("process_group").or_else(|| get("pg_name")) {
            Some(id) => self.group_of(id)?,
            None => return Err("a process_group"),
        };
        let seq = count("collective_seq_id").or_else(|| count("seq_id"));
        let ns = get("duration_ms").and_then(|id| values.float(id));
        let ns = ns.map(|ms| (ms * 1e6).round());
        let ns = ns.filter(|ns| (0.0..1e18).contains(ns));
        Ok(Entry {
            record_id: count("record_id")
                .or_else(|| count("id"))
                .ok_or("a record_id")?,
            pg_id: count("pg_id").unwrap_or(0),
            group,
            collective_seq: seq.ok_or("a collective_seq_id")?,
            p2p_seq: count("p2p_seq_id").unwrap_or(0),
            op_id: count("op_id").unwrap_or(0),
            op: ops::op(&name),
            name,
            inputs: self.tensors(get("input_sizes"), get("input_dtypes"))?,
            outputs: self.tensors(get("output_sizes"), get("output_dtypes"))?,
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
                Some(id) => self.stack(id)?,
                None => Arc::from([]),
            },
        })
    }

    fn tensors(&mut self, sizes: Option<Id>, types: Option<Id>) -> Made<Tensors> {
        Ok(Tensors {
            shapes: match sizes {
                Some(id) => self.shapes(id)?,
                None => Arc::from([]),
            },
            types: match types {
                Some(id) => self.types(id)?,
                None => Arc::from([]),
            },
        })
    }

    fn shapes(&mut self, id: Id) -> Made<Arc<[Box<[u64]>]>> {
        const SIZES: Lacks = "valid sizes";
        if let Some(known) = self.shapes.get(&id) {
            return Ok(known.clone());
        }
        let values = self.values;
        let list = values.list(id).ok_or(SIZES)?;
        self.spend(list.len())?;
        let mut shapes = Vec::new();
        for &shape in list {
            let dims = values.list(shape).ok_or(SIZES)?;
            self.spend(dims.len())?;
            let dim = |&id: &Id| values.int(id).and_then(|n| u64::try_from(n).ok());
            let dims: Option<Box<[u64]>> = dims.iter().map(dim).collect();
            shapes.push(dims.ok_or(SIZES)?);
        }
        let shapes: Arc<[_]> = shapes.into();
        self.shapes.insert(id, shapes.clone());
        Ok(shapes)
    }

    fn types(&mut self, id: Id) -> Made<Arc<[Arc<str>]>> {
        if let Some(known) = self.types.get(&id) {
            return Ok(known.clone());
        }
        let list = self.values.list(id).ok_or("valid types")?;
        self.spend(list.len())?;
        let types: Option<Arc<[_]>> = list.iter().map(|&id| self.text(id)).collect();
        let types = types.ok_or("valid types")?;
        self.types.insert(id, types.clone());
        Ok(types)
    }

    fn stack(&mut self, id: Id) -> Made<Arc<[Arc<Frame>]>> {
        if let Some(known) = self.stacks.get(&id) {
            return Ok(known.clone());
        }
        let list = self.values.list(id).ok_or("valid frames")?;
        self.spend(list.len())?;
        let stack: Option<Arc<[_]>> = list.iter().map(|&id| self.frame(id)).collect();
        let stack = stack.ok_or("valid frames")?;
        self.stacks.insert(id, stack.clone());
        Ok(stack)
    }

    fn frame(&mut self, id: Id) -> Option<Arc<Frame>> {
        if let Some(known) = self.frames.get(&id) {
            return Some(known.clone());
        }
        let values = self.values;
        let frame = Arc::new(Frame {
            file: self.text(values.of(id, "filename")?)?,
            line: u64::try_from(values.int(values.of(id, "line")?)?).ok()?,
            function: self.text(values.of(id, "name")?)?,
        });
        self.frames.insert(id, frame.clone());
        Some(frame)
    }
}
