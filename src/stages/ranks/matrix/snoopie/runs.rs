//! The files of each process, read together. Their names have the process.

use super::fold::AccessFold;
use super::unzip;
use crate::count::calls::Progress;
use crate::error::{Error, Result};
use crate::filter::{CallFilter, FilterPart};
use crate::formats::open::{self, InputOutcomes};
use crate::formats::snoopie::access::SnoopieAccess;
use crate::formats::snoopie::op::AccessKind;
use crate::formats::snoopie::tables::SnoopieTables;
use crate::formats::snoopie::{self, SnoopieFile};
use crate::formats::{self, Provides};
use crate::report::{Report, count_phrase};
use crate::source::{self, InputName};
use std::collections::{BTreeMap, BTreeSet};

/// All processes.
#[derive(Debug, Default)]
pub struct SnoopieRuns {
    /// Runs by folder and process, which is unknown if the file's name lacks it. Containers and hosts may have
    /// equal numbers of processes.
    pub(super) by: BTreeMap<(String, Option<u64>), SnoopieRun>,
    /// One of this number of packets was recorded.
    pub(super) sampling: u64,
}

/// A process.
#[derive(Debug, Default)]
pub(super) struct SnoopieRun {
    pub(super) tables: SnoopieTables,
    pub(super) fold: AccessFold,
    logs: u64,
    /// The files that were read, without the suffix of their packing.
    read: BTreeSet<String>,
}

/// Splits inputs into files of Snoopie and others. A single pipe is recognised by its first bytes. One of
/// several pipes is none of Snoopie's, since it must be opened in its turn, and no file that is followed.
///
/// # Errors
/// The only input cannot be read.
pub fn split_snoopie_files(
    origins: &[InputName],
    source: source::Options,
) -> Result<(Vec<InputName>, Vec<InputName>)> {
    let (mut accessed, mut others) = (Vec::new(), Vec::new());
    for origin in origins {
        let is_followed = matches!(origin, InputName::Followed(_));
        let is_opened = !is_followed && (origins.len() == 1 || !origin.is_piped());
        let is_snoopie = match is_opened.then(|| is_snoopie(origin, source)) {
            Some(Err(e)) if origins.len() == 1 => return Err(e),
            is => is.and_then(Result::ok).unwrap_or(false),
        };
        match is_snoopie || is_packed_run(origin) {
            true => accessed.push(origin.clone()),
            false => others.push(origin.clone()),
        }
    }
    Ok((accessed, others))
}

/// True for an archive, as which Snoopie's launcher packs a run.
pub fn is_packed_run(origin: &InputName) -> bool {
    origin.path().is_some_and(unzip::is_zip)
}

/// True for a file of Snoopie.
fn is_snoopie(origin: &InputName, source: source::Options) -> Result<bool> {
    match open::open_input::<()>(origin, source, Provides::ACCESSES) {
        Ok(_) => Ok(true),
        Err(e @ Error::Input { .. }) => Err(e),
        Err(_) => Ok(false),
    }
}

/// How Snoopie's files are read.
#[derive(Debug, Clone, Copy)]
pub struct SnoopieReadOptions<'f> {
    /// How bytes come in.
    pub source: source::Options,
    /// Damage is an error.
    pub strict: bool,
    /// One of this number of packets was recorded.
    pub sampling: u64,
    /// Only these accesses, as rows of the call table; `None` for all.
    pub filter: Option<&'f CallFilter>,
}

/// The filter of accesses, and how many it met.
struct AccessFilter<'f> {
    filter: Option<&'f CallFilter>,
    part: FilterPart,
}

impl AccessFilter<'_> {
    #[inline]
    fn does_pass(&mut self, access: &SnoopieAccess<'_>) -> bool {
        match self.filter {
            None => true,
            Some(filter) => self.part.does_pass(&access.to_row(), filter),
        }
    }

    fn report(&self, report: &Report) {
        if let Some(filter) = self.filter {
            self.part.report(filter, report);
        }
    }
}

impl SnoopieRuns {
    /// Reads the files of Snoopie; one of `sampling` packets was recorded.
    ///
    /// # Errors
    /// A file cannot be read; damage if `strict`.
    pub fn read(
        origins: &[InputName],
        options: SnoopieReadOptions<'_>,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<SnoopieRuns> {
        let SnoopieReadOptions {
            source,
            strict,
            sampling,
            filter,
        } = options;
        let mut wanted = AccessFilter {
            filter: filter.filter(|filter| !filter.is_empty()),
            part: FilterPart::default(),
        };
        let mut runs = SnoopieRuns {
            by: BTreeMap::new(),
            sampling: sampling.max(1),
        };
        let mut folders = Vec::new();
        let mut all = Vec::new();
        for origin in origins {
            let zip = origin.path().filter(|path| unzip::is_zip(path));
            match zip.map(unzip::unzip_run).transpose()? {
                None => all.push(origin.clone()),
                Some(None) => {
                    return Err(formats::refuse_archive(origin.name()));
                }
                Some(Some((folder, origins))) => {
                    folders.push(folder);
                    all.extend(origins);
                }
            }
        }
        let origins = &all[..];
        let mut outcome = InputOutcomes::new(origins);
        // The owners of addresses are needed before the accesses.
        let mut logs = Vec::new();
        let mut tables = Vec::new();
        for origin in origins {
            let known = open::open_input::<()>(origin, source, Provides::ACCESSES);
            match known.is_ok_and(|known| known.provides(Provides::CALLS)) {
                true => logs.push(origin),
                false => tables.push(origin),
            }
        }
        for origin in tables.into_iter().chain(logs) {
            let known = open::open_input::<()>(origin, source, Provides::ACCESSES);
            let read = known.and_then(|known| {
                let run = runs.by.entry(folder_and_process(origin)).or_default();
                let name = known.name();
                if !run.is_first_form(origin) {
                    report.warn(&format!(
                        "{name}: left out: the same file was read unpacked, or packed in another way"
                    ));
                    return Ok(());
                }
                let account = run.read_file(known.input(), &name, &mut wanted, report)?;
                if strict {
                    crate::log::first_damage_error(&name, &account)?;
                }
                report.report_input(&name, &account);
                Ok(())
            });
            outcome.add_result(origin, read, report)?;
        }
        progress.finish();
        outcome.finish(report)?;
        wanted.report(report);
        runs.report_run_notes(report);
        Ok(runs)
    }

    /// Scales a number of recorded rows to all rows. All copies are recorded.
    pub(super) fn scale_sampled<N: ScaleRows>(&self, n: N, kind: Option<AccessKind>) -> N {
        match kind {
            Some(AccessKind::Copy) => n,
            _ => n.times(self.sampling),
        }
    }

    /// Returns a run's name: its process, if no other run has that.
    pub(super) fn label_run(&self, run: &(String, Option<u64>)) -> String {
        let pid = run.1.map_or(String::new(), |pid| pid.to_string());
        let alike = self.by.keys().filter(|other| other.1 == run.1).count();
        match (self.by.len(), alike) {
            (1, _) => String::new(),
            (_, 1) => pid,
            _ => format!("{}/{pid}", run.0),
        }
    }

    fn report_run_notes(&mut self, report: &Report) {
        // Tables alone have no accesses.
        self.by.retain(|_, run| run.logs > 0);
        for (place, run) in &self.by {
            let of = match place {
                (folder, Some(pid)) => format!("{folder}, process {pid}: "),
                (folder, None) => format!("{folder}: "),
            };
            run.report_notes(&of, report);
        }
        if self.sampling > 1 {
            report.note(&format!(
                "numbers are those of the rows times {}, the sampling period; error is the standard error \
                 of accesses, from the lanes of each warp",
                self.sampling
            ));
        }
    }
}

/// Returns the folder of a file, and the process that wrote it.
fn folder_and_process(origin: &InputName) -> (String, Option<u64>) {
    let name = origin.name();
    let folder = name.rsplit_once('/').map_or(".", |(folder, _)| folder);
    (folder.to_owned(), snoopie::process_of_name(origin))
}

/// A number that can be scaled.
pub(super) trait ScaleRows {
    fn times(self, n: u64) -> Self;
}

impl ScaleRows for u64 {
    fn times(self, n: u64) -> u64 {
        self.saturating_mul(n)
    }
}

impl ScaleRows for u128 {
    fn times(self, n: u64) -> u128 {
        self.saturating_mul(n.into())
    }
}

impl SnoopieRun {
    /// False if the file was read in another form: `zstd -d` leaves both.
    fn is_first_form(&mut self, origin: &InputName) -> bool {
        let name = origin.name();
        let file = name.rsplit('/').next().unwrap_or_default();
        let stem = file.split('.').next().unwrap_or_default();
        snoopie::process_of_name(origin).is_none() || self.read.insert(stem.to_owned())
    }

    /// Reads a file and reports on it.
    fn read_file(
        &mut self,
        input: &source::Input,
        name: &str,
        wanted: &mut AccessFilter<'_>,
        report: &Report,
    ) -> Result<crate::report::account::Account> {
        let SnoopieRun {
            tables, fold, logs, ..
        } = self;
        let mut found = std::mem::take(fold);
        found.add_ranges(&tables.ranges);
        let read = snoopie::read_snoopie(input, tables, &mut |access| {
            if wanted.does_pass(access) {
                found.add_access(access);
            }
        });
        found.end_warp();
        // In the version that wrote JSON, the log has the tables.
        found.add_ranges(&tables.ranges);
        *fold = found;
        Ok(match read? {
            SnoopieFile::Table(account) => account,
            SnoopieFile::Log(account, has_header) => {
                *logs += 1;
                if account.calls == 0 {
                    report.warn(&format!("{name}: it has no accesses"));
                } else if !has_header {
                    report.note(&format!(
                        "{name}: it has no header, as where several contexts begin at once; its columns \
                         follow from their number"
                    ));
                }
                account
            }
        })
    }

    fn report_notes(&self, of: &str, report: &Report) {
        let (mut others, mut ranged, mut all) = (0_u64, 0_u64, 0_u64);
        for (key, cell) in self.fold.iter_cells() {
            others = others.saturating_add(cell.others);
            all = all.saturating_add(cell.accesses);
            if key.range.is_some() {
                ranged = ranged.saturating_add(cell.accesses);
            }
        }
        if ranged == 0 {
            report.note(&format!(
                "{of}no table of address ranges has the addresses: objects are unknown, and owners are as the \
                 log has them"
            ));
        } else if others > 0 {
            report.warn(&format!(
                "{of}{} of {all} are in memory that the address ranges give to another device than the \
                 log: the tool stamps a whole warp with one owner, and never forgets memory that was freed",
                count_phrase(others, "row")
            ));
        } else {
            report.note(&format!(
                "{of}the owners of {ranged} of {all} rows are those of the address ranges; no other differs"
            ));
        }
        if self.fold.left_out > 0 {
            report.warn(&format!(
                "{of}{} are left out: there are more lines, objects and instructions than any program has",
                count_phrase(self.fold.left_out, "row")
            ));
        }
    }
}
