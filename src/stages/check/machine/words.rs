//! Words for what machines report.

use super::NumberedEvent;
use super::join::{JobMachines, JobPlace, JoinLevel};
use super::time_order::TimeOrder;
use crate::grammar::machine::{MachineClass, ReportNumber};
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::wording::{number_of_times, quote_text};

/// The sentence of a message.
pub(super) fn describe_message(
    of: &NumberedEvent,
    place: &JobPlace,
    job: &JobMachines<'_>,
) -> String {
    let event = &of.event;
    let report = event.report;
    let number = match report.number {
        Some(ReportNumber::Xid(number)) => format!("Xid {number}, "),
        Some(ReportNumber::SwitchXid(number)) => format!("SXid {number}, "),
        None => String::new(),
    };
    let means = format!("{number}{}", report.means);
    let gpu = || name_gpu(of, place, job);
    let process = || name_process(of, place, job);
    let host = || {
        place.host.as_deref().map_or("a host".to_owned(), |host| {
            format!("host {}", quote_text(host))
        })
    };
    let device = || match event.device {
        Some(device) => format!(" ({device})"),
        None => String::new(),
    };
    let says = match report.class {
        MachineClass::Gpu | MachineClass::Memory => format!("{} failed: {means}", gpu()),
        MachineClass::Link | MachineClass::Engine => format!("{} has an error: {means}", gpu()),
        MachineClass::Program => format!("{} made an error on its GPU: {means}", process()),
        MachineClass::Slow => format!("{} is slow: {means}", gpu()),
        MachineClass::Switch => format!("{} failed: {means}", name_switch(of, &device(), &host())),
        MachineClass::Oom => format!("{} was killed: {means}", process()),
        MachineClass::Crash => format!("{} crashed: {means}", process()),
        MachineClass::Hung => format!("{} hangs: {means}", process()),
        MachineClass::Nic | MachineClass::Up => format!("a NIC{} of {}: {means}", device(), host()),
        MachineClass::Pcie | MachineClass::Ram => {
            format!("{} reports: {means}{}", host(), device())
        }
        MachineClass::Harmless if matches!(report.number, Some(ReportNumber::SwitchXid(_))) => {
            format!("{} reports: {means}", name_switch(of, &device(), &host()))
        }
        MachineClass::Follows | MachineClass::Harmless if is_of_gpu(of) => {
            format!("{} reports: {means}", gpu())
        }
        MachineClass::Follows | MachineClass::Harmless => format!("{} reports: {means}", host()),
    };
    match event.count {
        // The kernel has two lines for each kill.
        _ if report.class == MachineClass::Oom => says,
        1 => says,
        n => format!("{says} ({})", number_of_times(n)),
    }
}

/// `port 61 of an NVSwitch (0000:c1:00) of host n1`; the kernel has the port as `Link 61`.
fn name_switch(of: &NumberedEvent, device: &str, host: &str) -> String {
    let text = String::from_utf8_lossy(&of.event.text);
    let port = [" port ", ", Link "].iter().find_map(|word| {
        let (_, rest) = text.rsplit_once(word)?;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse::<u32>()
            .ok()
    });
    let port = port.map_or(String::new(), |port| format!("port {port} of "));
    format!("{port}an NVSwitch{device} of {host}")
}

fn is_of_gpu(of: &NumberedEvent) -> bool {
    let is_xid = matches!(of.event.report.number, Some(ReportNumber::Xid(_)));
    is_xid || of.event.is_state
}

/// `the GPU of rank 3 (n1, GPU 3, pid 81)`, `GPU 0000:dc:00 of host n1`.
fn name_gpu(of: &NumberedEvent, place: &JobPlace, job: &JobMachines<'_>) -> String {
    let names = RankNames { found: job.found };
    if let Some(side) = place.side {
        return format!("the GPU of {}", names.describe_actor(side));
    }
    let on = place.host.as_deref().map(quote_text);
    let on = on.map_or(String::new(), |host| format!(" of host {host}"));
    match (of.event.device, of.event.gpu) {
        (Some(device), _) => format!("GPU {device}{on}"),
        (None, Some(gpu)) => format!("GPU {gpu}{on}"),
        (None, None) => format!("a GPU{on}"),
    }
}

/// `rank 3 (n1, GPU 3, pid 81)`, `python (pid 81 on n1)`.
fn name_process(of: &NumberedEvent, place: &JobPlace, job: &JobMachines<'_>) -> String {
    let names = RankNames { found: job.found };
    if let Some(side) = place.side {
        return names.describe_actor(side);
    }
    let name = of.event.process.as_deref().map(quote_text);
    let host = place.host.as_deref().map(quote_text);
    let at = match (of.event.pid, host) {
        (Some(pid), Some(host)) => format!(" (pid {pid} on {host})"),
        (Some(pid), None) => format!(" (pid {pid})"),
        (None, Some(host)) => format!(" on {host}"),
        (None, None) => String::new(),
    };
    format!("{}{at}", name.unwrap_or_else(|| "a process".to_owned()))
}

/// Why a message is, or is not, a cause.
pub(super) fn explain_place(place: &JobPlace, order: TimeOrder) -> String {
    let by = match place.level {
        JoinLevel::Process => "the message names a process of the job",
        JoinLevel::KilledRank => {
            "the log has one process of this host as ended; a container numbers its processes otherwise than \
             the kernel"
        }
        JoinLevel::Gpu => "the message names a GPU of the job",
        JoinLevel::Host => "the message is of a host of the job, and names no process or GPU of it",
        JoinLevel::Elsewhere => "the log has no process on that host or GPU",
        JoinLevel::Unplaced => "the message does not name its host, and the job has several",
        JoinLevel::Alone => "the message reports it; no log shows the job",
    };
    let host = match place.is_host_assumed && place.host.is_some() {
        true => "; its host is that of the file's name, of its process, or the job's only one",
        false => "",
    };
    let order = match order {
        _ if place.level == JoinLevel::Alone => String::new(),
        TimeOrder::Before(0) => "; it comes with the first failure of the log".to_owned(),
        TimeOrder::Before(seconds) => {
            format!("; it comes {seconds} s before the first failure of the log")
        }
        TimeOrder::LongBefore => {
            "; it comes more than a day before the first failure of the log".to_owned()
        }
        TimeOrder::After(seconds) => {
            format!("; it comes {seconds} s after the first failure of the log")
        }
        TimeOrder::Unknown => "; its time and the log's cannot be compared".to_owned(),
    };
    format!("{by}{host}{order}")
}

/// What to do, by the word of the tables.
pub(super) fn advise_by_word(action: &str) -> &'static str {
    let mut rows = include_str!("advice.txt")
        .lines()
        .filter_map(|row| row.split_once(' '));
    rows.find(|(word, _)| *word == action)
        .map_or("", |(_, advice)| advice)
}
