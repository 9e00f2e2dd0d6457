//! The GPUs' activities, the NVTX ranges, and the session.

use super::export::{ExportFields, NsysExport};
use super::pid_of_global;
use crate::error::Result;
use crate::formats::gpu::{ActivityKind, GpuActivity, GpuVisitor, NamedRange, RecorderSession};
use crate::report::account::Account;
use crate::report::count_phrase;
use crate::source::Input;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Reads the timeline of an export.
///
/// # Errors
/// It is no database, or cannot be read; those of `visit`.
pub(crate) fn read_timeline(input: &Input, visit: &mut dyn GpuVisitor) -> Result<Account> {
    let export = NsysExport::open_export(input)?;
    let reader = NsysTimelineReader {
        devices: read_devices(&export)?,
        export: &export,
    };
    visit.visit_session(&read_session(&export)?);
    let kernels = reader.read_kernels(visit)?;
    if !visit.wants_only_kernels() {
        reader.read_copies(visit)?;
        reader.read_ranges(visit)?;
    }
    let graphs = reader.read_graphs(visit)?;
    if graphs > 0 {
        visit.add_note(&format!(
            "CUDA graphs are recorded as a whole ({}): the kernels in them are not in the export \
             (--cuda-graph-trace=node records them)",
            count_phrase(graphs, "time")
        ));
    }
    if kernels + graphs == 0 {
        visit.add_note(
            "the export has no kernels: nsys records them with --trace=cuda, and only while the \
             capture is on",
        );
    }
    let mut account = Account::default();
    export.add_to_account(&mut account);
    account.broken = crate::log::check_unpacked(input, false)?;
    Ok(account)
}

/// The columns that every activity has.
const ACTIVITY_COLUMNS: [&str; 7] = [
    "start",
    "end",
    "deviceId",
    "streamId",
    "correlationId",
    "globalPid",
    "graphNodeId",
];

/// The number of the GPU in the machine, by process and the number there.
type DeviceNumbers = FxHashMap<(u64, u64), u32>;

struct NsysTimelineReader<'e> {
    export: &'e NsysExport,
    devices: DeviceNumbers,
}

impl NsysTimelineReader<'_> {
    fn read_kernels(&self, visit: &mut dyn GpuVisitor) -> Result<u64> {
        let own = [
            "demangledName",
            "shortName",
            "mangledName",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
        ];
        let table = "CUPTI_ACTIVITY_KIND_KERNEL";
        let mut last: (i64, Rc<[u8]>) = (i64::MIN, Rc::default());
        self.for_each_activity(
            table,
            ActivityKind::Kernel,
            &own,
            &mut |fields, activity| {
                if let Some(id) = (7..10).find_map(|at| fields.int(at))
                    && id != last.0
                {
                    last = (id, self.export.text_by_id(id));
                }
                let size = |at| fields.number(at).and_then(|n| u32::try_from(n).ok());
                let three = |at| Some([size(at)?, size(at + 1)?, size(at + 2)?]);
                visit.visit_activity(&GpuActivity {
                    name: &last.1,
                    launched: three(10).zip(three(13)),
                    ..activity
                })
            },
        )
    }

    fn read_copies(&self, visit: &mut dyn GpuVisitor) -> Result<()> {
        let own = ["bytes", "copyKind", "srcDeviceId", "dstDeviceId"];
        let table = "CUPTI_ACTIVITY_KIND_MEMCPY";
        self.for_each_activity(table, ActivityKind::Copy, &own, &mut |fields, activity| {
            let number = |id| self.device_number(activity.pid, id);
            let device = |at| fields.number(at).map(number);
            visit.visit_activity(&GpuActivity {
                name: copy_direction(fields.int(8)),
                bytes: fields.number(7),
                between: device(9).zip(device(10)),
                ..activity
            })
        })?;
        let table = "CUPTI_ACTIVITY_KIND_MEMSET";
        self.for_each_activity(
            table,
            ActivityKind::Set,
            &["bytes"],
            &mut |fields, activity| {
                visit.visit_activity(&GpuActivity {
                    name: b"set",
                    bytes: fields.number(7),
                    ..activity
                })
            },
        )?;
        Ok(())
    }

    /// Reads the graphs that were recorded as a whole.
    fn read_graphs(&self, visit: &mut dyn GpuVisitor) -> Result<u64> {
        let table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
        self.for_each_activity(table, ActivityKind::Graph, &[], &mut |_, activity| {
            visit.visit_activity(&GpuActivity {
                name: b"CUDA graph",
                ..activity
            })
        })
    }

    /// Hands each activity of a table to `take`, with its row: [`ACTIVITY_COLUMNS`], then the columns
    /// `own`. Returns the number of rows.
    fn for_each_activity(
        &self,
        table: &str,
        kind: ActivityKind,
        own: &[&str],
        take: &mut dyn FnMut(&ExportFields<'_, '_>, GpuActivity<'_>) -> Result<()>,
    ) -> Result<u64> {
        let columns = [&ACTIVITY_COLUMNS[..], own].concat();
        let mut wrong = 0;
        let mut each = |fields: &ExportFields<'_, '_>| match self.read_activity(fields, kind) {
            Some(activity) => take(fields, activity),
            None => {
                wrong += 1;
                Ok(())
            }
        };
        let rows = self.export.for_each_row(table, &columns, &mut each)?;
        if wrong > 0 {
            self.export.note_lack(format!(
                "{} of the table {table} cannot be used: the start or the end is missing or wrong",
                count_phrase(wrong, "row")
            ));
        }
        Ok(rows)
    }

    /// Reads the columns of every activity; `None` without times, or if it ends before it begins.
    fn read_activity<'a>(
        &self,
        fields: &ExportFields<'_, '_>,
        kind: ActivityKind,
    ) -> Option<GpuActivity<'a>> {
        let (start_ns, end_ns) = (fields.int(0)?, fields.int(1)?);
        let pid = fields.int(5).map(pid_of_global);
        (start_ns <= end_ns).then_some(GpuActivity {
            kind,
            name: b"",
            pid,
            device: self.device_number(pid, fields.number(2).unwrap_or(0)),
            stream: fields.number(3),
            start_ns,
            end_ns,
            bytes: None,
            between: None,
            // All activities of a graph have its launch's number, so it joins none of them to a call.
            correlation: fields.number(4).filter(|_| fields.int(6).is_none()),
            launched: None,
        })
    }

    /// Returns the GPU's number in the machine: each process numbers the GPUs that it sees.
    fn device_number(&self, pid: Option<u64>, id: u64) -> u32 {
        let known = pid.and_then(|pid| self.devices.get(&(pid, id)));
        known
            .copied()
            .unwrap_or(u32::try_from(id).unwrap_or(u32::MAX))
    }

    fn read_ranges(&self, visit: &mut dyn GpuVisitor) -> Result<()> {
        let columns = [
            "start",
            "end",
            "eventType",
            "text",
            "textId",
            "globalTid",
            "domainId",
        ];
        let domains = read_domains(self.export)?;
        let (mut name, mut open) = (Vec::new(), 0);
        self.export
            .for_each_row("NVTX_EVENTS", &columns, &mut |fields| {
                let kind = NvtxEventKind::from_field(fields, 2);
                let Some((start_ns, kind)) = fields.int(0).zip(kind) else {
                    return Ok(());
                };
                let end_ns = match kind {
                    NvtxEventKind::Mark => start_ns,
                    NvtxEventKind::Domain => return Ok(()),
                    NvtxEventKind::PushPop | NvtxEventKind::OtherRange => match fields.int(1) {
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
                let domain =
                    domain.and_then(|(thread, id)| domains.get(&(pid_of_global(thread), id)));
                if let Some(domain) = domain {
                    name.extend_from_slice(domain);
                    name.push(b':');
                }
                match fields.bytes(3) {
                    Some(text) => name.extend_from_slice(text),
                    None => {
                        let text = fields.int(4).map(|id| self.export.text_by_id(id));
                        name.extend_from_slice(&text.unwrap_or_default());
                    }
                }
                visit.visit_range(&NamedRange {
                    name: &name,
                    pid: thread.map(pid_of_global),
                    tid: thread.map(tid_of_global),
                    device: None,
                    start_ns,
                    end_ns,
                    step: None,
                });
                Ok(())
            })?;
        if open > 0 {
            visit.add_note(&format!(
                "NVTX ranges without an end are left out ({open}): the capture ended in them"
            ));
        }
        Ok(())
    }
}

/// The kind of an NVTX event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NvtxEventKind {
    Mark,
    /// A range from push to pop on one thread.
    PushPop,
    /// A range from start to end, or one that NVTXT imported.
    OtherRange,
    Domain,
}

impl NvtxEventKind {
    /// Reads an event's type (ENUM_NSYS_EVENT_TYPE).
    pub(super) fn from_field(fields: &ExportFields<'_, '_>, at: usize) -> Option<NvtxEventKind> {
        match fields.int(at)? {
            34 => Some(NvtxEventKind::Mark),
            59 => Some(NvtxEventKind::PushPop),
            60 | 70 | 71 => Some(NvtxEventKind::OtherRange),
            75 => Some(NvtxEventKind::Domain),
            _ => None,
        }
    }
}

/// Returns the thread of a `globalTid`.
pub(super) fn tid_of_global(global: i64) -> u64 {
    global.cast_unsigned() & 0xff_ffff
}

/// Names by process and number.
type NvtxDomains = FxHashMap<(u64, i64), Rc<[u8]>>;

/// The names of NVTX domains, by process and number. The default domain has none.
fn read_domains(export: &NsysExport) -> Result<NvtxDomains> {
    let mut all = FxHashMap::default();
    let columns = ["eventType", "domainId", "globalTid", "text", "textId"];
    export.for_each_row("NVTX_EVENTS", &columns, &mut |fields| {
        if NvtxEventKind::from_field(fields, 0) == Some(NvtxEventKind::Domain)
            && let Some((id, thread)) = fields.int(1).zip(fields.int(2))
        {
            let text = fields.bytes(3).map(Rc::from);
            let name = text.or(fields.int(4).map(|id| export.text_by_id(id)));
            all.insert((pid_of_global(thread), id), name.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(all)
}

/// Returns the direction of a copy by CUPTI's number (`CUpti_ActivityMemcpyKind`).
fn copy_direction(kind: Option<i64>) -> &'static [u8] {
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

/// Reads which GPUs of the machine each process' devices are.
fn read_devices(export: &NsysExport) -> Result<DeviceNumbers> {
    let mut all = FxHashMap::default();
    let columns = ["pid", "cudaId", "gpuId"];
    export.for_each_row("TARGET_INFO_CUDA_DEVICE", &columns, &mut |fields| {
        if let (Some(pid), Some(id), Some(gpu)) =
            (fields.number(0), fields.number(1), fields.number(2))
        {
            all.insert((pid, id), u32::try_from(gpu).unwrap_or(u32::MAX));
        }
        Ok(())
    })?;
    Ok(all)
}

/// Reads the session's host, window and date.
pub(super) fn read_session(export: &NsysExport) -> Result<RecorderSession> {
    let mut session = RecorderSession::default();
    let columns = ["name", "value"];
    export.for_each_row("TARGET_INFO_SYSTEM_ENV", &columns, &mut |fields| {
        if fields.bytes(0) == Some(b"Hostname") {
            session.host = fields.bytes(1).unwrap_or_default().into();
        }
        Ok(())
    })?;
    let columns = ["startTime", "stopTime"];
    export.for_each_row("ANALYSIS_DETAILS", &columns, &mut |fields| {
        if let Some((start, stop)) = fields.int(0).zip(fields.int(1)) {
            let (from, to) = session.window.unwrap_or((start, stop));
            session.window = Some((from.min(start), to.max(stop)));
        }
        Ok(())
    })?;
    let columns = ["utcEpochNs"];
    export.for_each_row("TARGET_INFO_SESSION_START_TIME", &columns, &mut |fields| {
        session.utc_ns = session.utc_ns.or(fields.int(0));
        Ok(())
    })?;
    Ok(session)
}
