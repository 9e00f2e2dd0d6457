//! The GPUs' activities, the NVTX ranges, and the session.

use super::export::{Export, Fields};
use super::pid;
use crate::error::Result;
use crate::formats::gpu::{Activity, Kind, Range, Session, Visit};
use crate::report::account::Account;
use crate::report::counted;
use crate::source::Input;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Reads the timeline of an export.
///
/// # Errors
/// It is no database, or none that can be read; what `visit` says.
pub(crate) fn timeline(input: &Input, visit: &mut dyn Visit) -> Result<Account> {
    let export = Export::open(input)?;
    let reader = Reader {
        devices: devices(&export)?,
        export: &export,
    };
    visit.session(&session(&export)?);
    let kernels = reader.kernels(visit)?;
    if !visit.is_of_kernels() {
        reader.copies(visit)?;
        reader.ranges(visit)?;
    }
    let graphs = reader.graphs(visit)?;
    if graphs > 0 {
        visit.note(&format!(
            "CUDA graphs are recorded as a whole ({}): the kernels in them are not in the export \
             (--cuda-graph-trace=node records them)",
            counted(graphs, "time")
        ));
    }
    if kernels + graphs == 0 {
        visit.note(
            "the export has no kernels: nsys records them with --trace=cuda, and only while the \
             capture is on",
        );
    }
    let mut account = Account::default();
    export.account(&mut account);
    account.broken = crate::log::unbroken(input, false)?;
    Ok(account)
}

/// The columns that every activity has.
const COMMON: [&str; 7] = [
    "start",
    "end",
    "deviceId",
    "streamId",
    "correlationId",
    "globalPid",
    "graphNodeId",
];

/// The number of the GPU in the machine, by process and the number there.
type Devices = FxHashMap<(u64, u64), u32>;

struct Reader<'e> {
    export: &'e Export,
    devices: Devices,
}

impl Reader<'_> {
    fn kernels(&self, visit: &mut dyn Visit) -> Result<u64> {
        let table = "CUPTI_ACTIVITY_KIND_KERNEL";
        let name = ["demangledName", "shortName", "mangledName"];
        let shape = ["gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"];
        let columns: Vec<&str> = COMMON.into_iter().chain(name).chain(shape).collect();
        let mut last: (i64, Rc<[u8]>) = (i64::MIN, Rc::default());
        let mut wrong = 0;
        let rows = self.export.rows(table, &columns, &mut |fields| {
            let Some(activity) = self.activity(fields, Kind::Kernel) else {
                wrong += 1;
                return Ok(());
            };
            if let Some(id) = (7..10).find_map(|at| fields.int(at))
                && id != last.0
            {
                last = (id, self.export.string(id));
            }
            let size = |at| fields.number(at).and_then(|n| u32::try_from(n).ok());
            let three = |at| Some([size(at)?, size(at + 1)?, size(at + 2)?]);
            visit.activity(&Activity {
                name: &last.1,
                launched: three(10).zip(three(13)),
                ..activity
            })
        })?;
        self.wrong(wrong, table);
        Ok(rows)
    }

    fn copies(&self, visit: &mut dyn Visit) -> Result<()> {
        let table = "CUPTI_ACTIVITY_KIND_MEMCPY";
        let own = ["bytes", "copyKind", "srcDeviceId", "dstDeviceId"];
        let columns: Vec<&str> = COMMON.into_iter().chain(own).collect();
        let mut wrong = 0;
        self.export.rows(table, &columns, &mut |fields| {
            let Some(activity) = self.activity(fields, Kind::Copy) else {
                wrong += 1;
                return Ok(());
            };
            let device = |at| fields.number(at).map(|id| self.device(activity.pid, id));
            visit.activity(&Activity {
                name: direction(fields.int(8)),
                bytes: fields.number(7),
                between: device(9).zip(device(10)),
                ..activity
            })
        })?;
        self.wrong(wrong, table);
        let table = "CUPTI_ACTIVITY_KIND_MEMSET";
        let columns: Vec<&str> = COMMON.into_iter().chain(["bytes"]).collect();
        let mut wrong = 0;
        self.export.rows(table, &columns, &mut |fields| {
            let Some(activity) = self.activity(fields, Kind::Set) else {
                wrong += 1;
                return Ok(());
            };
            visit.activity(&Activity {
                name: b"set",
                bytes: fields.number(7),
                ..activity
            })
        })?;
        self.wrong(wrong, table);
        Ok(())
    }

    /// Graphs that were recorded as a whole.
    fn graphs(&self, visit: &mut dyn Visit) -> Result<u64> {
        let table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
        let mut wrong = 0;
        let rows = self.export.rows(table, &COMMON, &mut |fields| match self
            .activity(fields, Kind::Graph)
        {
            Some(activity) => visit.activity(&Activity {
                name: b"CUDA graph",
                ..activity
            }),
            None => {
                wrong += 1;
                Ok(())
            }
        })?;
        self.wrong(wrong, table);
        Ok(rows)
    }

    /// What every activity has; `None` for one without times, or whose end is before its beginning.
    fn activity<'a>(&self, fields: &Fields<'_, '_>, kind: Kind) -> Option<Activity<'a>> {
        let (start_ns, end_ns) = (fields.int(0)?, fields.int(1)?);
        let pid = fields.int(5).map(pid);
        (start_ns <= end_ns).then_some(Activity {
            kind,
            name: b"",
            pid,
            device: self.device(pid, fields.number(2).unwrap_or(0)),
            stream: fields.number(3),
            start_ns,
            end_ns,
            bytes: None,
            between: None,
            // All activities of a graph have the number of its launch.
            correlation: fields.number(4).filter(|_| fields.int(6).is_none()),
            launched: None,
        })
    }

    /// The GPU's number in the machine: where processes see different GPUs, each numbers its own.
    fn device(&self, pid: Option<u64>, id: u64) -> u32 {
        let known = pid.and_then(|pid| self.devices.get(&(pid, id)));
        known
            .copied()
            .unwrap_or(u32::try_from(id).unwrap_or(u32::MAX))
    }

    fn wrong(&self, rows: u64, table: &str) {
        if rows > 0 {
            self.export.lack(format!(
                "{} of the table {table} cannot be used: the start or the end is missing or wrong",
                counted(rows, "row")
            ));
        }
    }

    fn ranges(&self, visit: &mut dyn Visit) -> Result<()> {
        let columns = [
            "start",
            "end",
            "eventType",
            "text",
            "textId",
            "globalTid",
            "domainId",
        ];
        let domains = domains(self.export)?;
        let (mut name, mut open) = (Vec::new(), 0);
        self.export.rows("NVTX_EVENTS", &columns, &mut |fields| {
            let Some((start_ns, of)) = fields.int(0).zip(fields.int(2)) else {
                return Ok(());
            };
            let end_ns = match of {
                MARK => start_ns,
                _ if !RANGES.contains(&of) => return Ok(()),
                _ => match fields.int(1) {
                    Some(end) if end >= start_ns => end,
                    _ => {
                        open += 1;
                        return Ok(());
                    }
                },
            };
            let thread = fields.int(5);
            name.clear();
            let domain = thread.zip(fields.int(6));
            let domain = domain.and_then(|(thread, id)| domains.get(&(pid(thread), id)));
            if let Some(domain) = domain {
                name.extend_from_slice(domain);
                name.push(b':');
            }
            match fields.bytes(3) {
                Some(text) => name.extend_from_slice(text),
                None => {
                    let text = fields.int(4).map(|id| self.export.string(id));
                    name.extend_from_slice(&text.unwrap_or_default());
                }
            }
            visit.range(&Range {
                name: &name,
                pid: thread.map(pid),
                tid: thread.map(tid),
                device: None,
                start_ns,
                end_ns,
                step: None,
            });
            Ok(())
        })?;
        if open > 0 {
            visit.note(&format!(
                "NVTX ranges without an end are left out ({open}): the capture ended in them"
            ));
        }
        Ok(())
    }
}

/// Kinds of NVTX events, as ENUM_NSYS_EVENT_TYPE has them: push and pop on one thread, start and end, and
/// both as NVTXT imports them.
pub(super) const PUSH_POP: i64 = 59;
const RANGES: [i64; 4] = [PUSH_POP, 60, 70, 71];
const MARK: i64 = 34;
const DOMAIN: i64 = 75;

/// The thread of a `globalTid`.
pub(super) fn tid(global: i64) -> u64 {
    global.cast_unsigned() & 0xff_ffff
}

/// Names by process and number.
type Domains = FxHashMap<(u64, i64), Rc<[u8]>>;

/// The names of NVTX domains, by process and number. The default domain has none.
fn domains(export: &Export) -> Result<Domains> {
    let mut all = FxHashMap::default();
    let columns = ["eventType", "domainId", "globalTid", "text", "textId"];
    export.rows("NVTX_EVENTS", &columns, &mut |fields| {
        if fields.int(0) == Some(DOMAIN)
            && let Some((id, thread)) = fields.int(1).zip(fields.int(2))
        {
            let text = fields.bytes(3).map(Rc::from);
            let name = text.or(fields.int(4).map(|id| export.string(id)));
            all.insert((pid(thread), id), name.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(all)
}

/// The direction of a copy, by CUPTI's number of it (`CUpti_ActivityMemcpyKind`).
fn direction(kind: Option<i64>) -> &'static [u8] {
    match kind {
        Some(1) => b"HtoD",
        Some(2) => b"DtoH",
        Some(3) => b"HtoA",
        Some(4) => b"AtoH",
        Some(5) => b"AtoA",
        Some(6) => b"AtoD",
        Some(7) => b"DtoA",
        Some(8) => b"DtoD",
        Some(9) => b"HtoH",
        Some(10) => b"PtoP",
        Some(11) => b"unified HtoD",
        Some(12) => b"unified DtoH",
        Some(13) => b"unified DtoD",
        _ => b"copy",
    }
}

/// Which GPU of the machine each process' devices are.
fn devices(export: &Export) -> Result<Devices> {
    let mut all = FxHashMap::default();
    let columns = ["pid", "cudaId", "gpuId"];
    export.rows("TARGET_INFO_CUDA_DEVICE", &columns, &mut |fields| {
        if let (Some(pid), Some(id), Some(gpu)) =
            (fields.number(0), fields.number(1), fields.number(2))
        {
            all.insert((pid, id), u32::try_from(gpu).unwrap_or(u32::MAX));
        }
        Ok(())
    })?;
    Ok(all)
}

/// The session's host, window, and when it was.
pub(super) fn session(export: &Export) -> Result<Session> {
    let mut session = Session::default();
    let columns = ["name", "value"];
    export.rows("TARGET_INFO_SYSTEM_ENV", &columns, &mut |fields| {
        if fields.bytes(0) == Some(b"Hostname") {
            session.host = fields.bytes(1).unwrap_or_default().into();
        }
        Ok(())
    })?;
    let columns = ["startTime", "stopTime"];
    export.rows("ANALYSIS_DETAILS", &columns, &mut |fields| {
        if let Some((start, stop)) = fields.int(0).zip(fields.int(1)) {
            let (from, to) = session.window.unwrap_or((start, stop));
            session.window = Some((from.min(start), to.max(stop)));
        }
        Ok(())
    })?;
    let columns = ["utcEpochNs"];
    export.rows("TARGET_INFO_SESSION_START_TIME", &columns, &mut |fields| {
        session.utc_ns = session.utc_ns.or(fields.int(0));
        Ok(())
    })?;
    Ok(session)
}
