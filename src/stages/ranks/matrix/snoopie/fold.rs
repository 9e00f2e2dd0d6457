//! Counts accesses by their keys. Memory grows with the number of instructions, devices, lines and objects, not
//! with that of accesses.

use super::ranges::AddressRanges;
use crate::formats::snoopie::access::SnoopieAccess;
use crate::formats::snoopie::op::{self, AccessKind};
use crate::formats::snoopie::tables::MemoryRange;
use crate::members::Interner;
use crate::stages::matrix::limits::{
    BINS_PER_RANGE, LANES_PER_WARP, MAX_ACCESS_CELLS, MAX_ACCESS_STRIPS,
};
use rustc_hash::FxHashMap;

/// The owner of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum MemoryOwner {
    /// A GPU, by its number in the process.
    Gpu(u64),
    /// Memory of the host (`cuMemHostAlloc`), or the owner was never set: the tool writes -1 for both.
    Host,
    /// Pinned memory of the host (`cuMemAllocHost`), which the tool writes as 999.
    Pinned,
}

impl MemoryOwner {
    fn from_number(number: i64) -> MemoryOwner {
        match u64::try_from(number) {
            Ok(999) => MemoryOwner::Pinned,
            Ok(gpu) => MemoryOwner::Gpu(gpu),
            Err(_) => MemoryOwner::Host,
        }
    }

    /// Returns its name in tables.
    pub(super) fn to_text(self) -> String {
        match self {
            MemoryOwner::Gpu(gpu) => format!("gpu{gpu}"),
            MemoryOwner::Host => "host".to_owned(),
            MemoryOwner::Pinned => "pinned host".to_owned(),
        }
    }
}

/// The key of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AccessKey {
    /// The instruction's number in [`AccessFold::ops`].
    pub(super) op: u32,
    pub(super) kind: Option<AccessKind>,
    pub(super) running: MemoryOwner,
    pub(super) owner: MemoryOwner,
    pub(super) line: Option<u64>,
    pub(super) line_index: Option<u64>,
    pub(super) context: Option<u64>,
    /// The position of the address's range in the tool's list.
    pub(super) range: Option<usize>,
}

impl AccessKey {
    /// Returns the source and the target of data; those of a store if unknown.
    pub(super) fn data_direction(&self) -> (MemoryOwner, MemoryOwner) {
        let kind = self.kind.unwrap_or(AccessKind::Store);
        kind.source_and_target(self.running, self.owner)
    }
}

/// Numbers of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct AccessCounts {
    /// Rows: an access of one lane, or a copy.
    pub(super) accesses: u64,
    pub(super) bytes: u128,
    /// Accesses with unknown bytes.
    pub(super) unsized_: u64,
    /// Warps: rows of one packet.
    pub(super) warps: u64,
    /// The sum of squared numbers of lanes.
    pub(super) squares: u128,
    /// Different sectors of 32 bytes, summed over warps.
    pub(super) sectors: u64,
    pub(super) lines: u64,
    /// Accesses to addresses that the tool's list assigns to another device.
    pub(super) others: u64,
}

impl AccessCounts {
    pub(super) fn add_counts(&mut self, other: &AccessCounts) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unsized_ = self.unsized_.saturating_add(other.unsized_);
        self.warps = self.warps.saturating_add(other.warps);
        self.squares = self.squares.saturating_add(other.squares);
        self.sectors = self.sectors.saturating_add(other.sectors);
        self.lines = self.lines.saturating_add(other.lines);
        self.others = self.others.saturating_add(other.others);
    }
}

/// The current packet's rows.
#[derive(Debug)]
struct WarpRows {
    /// The cell of the first row.
    cell: usize,
    thread: u64,
    key: AccessKey,
    lanes: usize,
    addrs: [u64; LANES_PER_WARP],
}

/// Counted accesses of a process.
#[derive(Debug, Default)]
pub(super) struct AccessFold {
    /// Instructions by number.
    pub(super) ops: Interner<Box<[u8]>>,
    cells: Vec<(AccessKey, AccessCounts)>,
    known: FxHashMap<AccessKey, usize>,
    /// The cell of the last row.
    last: Option<usize>,
    last_op: Option<u32>,
    warp: Option<WarpRows>,
    ranges: AddressRanges,
    list: Vec<MemoryRange>,
    /// Accesses by part of a range, device and kind.
    pub(super) strips:
        FxHashMap<(usize, MemoryOwner, Option<AccessKind>), Box<[u64; BINS_PER_RANGE]>>,
    /// Rows that were not counted because there were too many cells.
    pub(super) left_out: u64,
}

impl AccessFold {
    /// Adds ranges of memory.
    pub(super) fn add_ranges(&mut self, list: &[MemoryRange]) {
        if list.len() > self.list.len() {
            self.list = list.to_vec();
            self.ranges = AddressRanges::from_list(list);
        }
    }

    /// Iterates over all counts, in the order of their first rows.
    pub(super) fn iter_cells(&self) -> impl Iterator<Item = (&AccessKey, &AccessCounts)> {
        self.cells.iter().map(|(key, cell)| (key, cell))
    }

    /// Returns a range of memory.
    pub(super) fn range_at(&self, at: usize) -> Option<&MemoryRange> {
        self.list.get(at)
    }

    /// Adds a row.
    #[inline]
    pub(super) fn add_access(&mut self, access: &SnoopieAccess<'_>) {
        let op = self.intern_op(access.op);
        let kind = op::parse_instruction(access.op).map(|(kind, _)| kind);
        let range = self.ranges.find_range(access.addr);
        let key = AccessKey {
            op,
            kind,
            running: MemoryOwner::from_number(access.running),
            owner: MemoryOwner::from_number(access.owner),
            line: access.line,
            line_index: access.line_index,
            context: access.context,
            range,
        };
        let Some(at) = self.cell_index(key) else {
            self.left_out = self.left_out.saturating_add(1);
            return;
        };
        let device = range
            .and_then(|at| self.list.get(at))
            .and_then(|range| range.device);
        let is_other = device.is_some_and(|device| MemoryOwner::from_number(device) != key.owner);
        if let Some((_, cell)) = self.cells.get_mut(at) {
            cell.accesses = cell.accesses.saturating_add(1);
            match access.moved_bytes() {
                Some(bytes) => cell.bytes = cell.bytes.saturating_add(bytes.into()),
                None => cell.unsized_ = cell.unsized_.saturating_add(1),
            }
            cell.others = cell.others.saturating_add(is_other.into());
        }
        if let Some(at) = range {
            self.count_in_strip((at, key.running, key.kind), access.addr);
        }
        self.add_lane(at, key, access);
    }

    fn intern_op(&mut self, name: &[u8]) -> u32 {
        if let Some(last) = self.last_op
            && **self.ops.get(last) == *name
        {
            return last;
        }
        let op = self.ops.intern(name.into());
        self.last_op = Some(op);
        op
    }

    /// Returns the position of a key's cell.
    #[inline]
    fn cell_index(&mut self, key: AccessKey) -> Option<usize> {
        if let Some(at) = self.last
            && self.cells.get(at).is_some_and(|(known, _)| *known == key)
        {
            return Some(at);
        }
        let at = match self.known.get(&key) {
            Some(&at) => at,
            None if self.cells.len() < MAX_ACCESS_CELLS => {
                self.cells.push((key, AccessCounts::default()));
                self.known.insert(key, self.cells.len() - 1);
                self.cells.len() - 1
            }
            None => return None,
        };
        self.last = Some(at);
        Some(at)
    }

    fn count_in_strip(&mut self, of: (usize, MemoryOwner, Option<AccessKind>), addr: u64) {
        let Some(range) = self.list.get(of.0) else {
            return;
        };
        let part = u128::from(addr.saturating_sub(range.start)) * BINS_PER_RANGE as u128
            / u128::from(range.size.max(1));
        if self.strips.len() >= MAX_ACCESS_STRIPS && !self.strips.contains_key(&of) {
            return;
        }
        let strip = self
            .strips
            .entry(of)
            .or_insert_with(|| Box::new([0; BINS_PER_RANGE]));
        if let Some(bin) = strip.get_mut(part as usize) {
            *bin = bin.saturating_add(1);
        }
    }

    /// Adds a row to its packet. The rows of a packet are successive and have the thread of the warp's first
    /// lane.
    #[inline]
    fn add_lane(&mut self, cell: usize, key: AccessKey, access: &SnoopieAccess<'_>) {
        let Some(thread) = access.thread else {
            self.end_warp();
            return;
        };
        // The lanes of a warp may access several ranges.
        let of_warp = AccessKey { range: None, ..key };
        match &mut self.warp {
            Some(warp)
                if warp.thread == thread && warp.lanes < LANES_PER_WARP && warp.key == of_warp =>
            {
                warp.addrs[warp.lanes] = access.addr;
                warp.lanes += 1;
            }
            _ => {
                self.end_warp();
                let mut addrs = [0; LANES_PER_WARP];
                addrs[0] = access.addr;
                self.warp = Some(WarpRows {
                    cell,
                    thread,
                    key: of_warp,
                    lanes: 1,
                    addrs,
                });
            }
        }
    }

    /// Ends the current packet.
    pub(super) fn end_warp(&mut self) {
        let Some(mut warp) = self.warp.take() else {
            return;
        };
        let Some((_, cell)) = self.cells.get_mut(warp.cell) else {
            return;
        };
        let addrs = &mut warp.addrs[..warp.lanes];
        addrs.sort_unstable();
        let count = |shift: u32| {
            let parts = addrs
                .windows(2)
                .filter(|two| two[0] >> shift != two[1] >> shift);
            parts.count() as u64 + 1
        };
        let lanes = warp.lanes as u128;
        cell.warps = cell.warps.saturating_add(1);
        cell.squares = cell.squares.saturating_add(lanes * lanes);
        cell.sectors = cell.sectors.saturating_add(count(5));
        cell.lines = cell.lines.saturating_add(count(7));
    }
}
