//! nccl-collect: see `--help`.

use anyhow::{Context as _, bail};
use clap::Parser;
use nccl_pipe::program::cli::{self, FileArgs, InputArgs, ProgramRun, StepArgs, StepLineArgs};
use nccl_pipe::stages::collect::{self, CollectOptions};
use std::io::{self, BufWriter, IsTerminal as _};
use std::process::ExitCode;

/// Collects what belongs to a failed job into one archive, for a report or for another machine
///
/// The archive has the inputs (logs, dumps, stacks, traces) under their names, the files that NCCL_DEBUG_FILE,
/// TORCH_FR_DUMP_TEMP_FILE, NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE name here, and what this machine has in the folder
/// machine: nvidia-smi, its topology, the kernel's messages, network devices, NCCL's settings and libraries. collected.json lists the files,
/// and those that are missing. Every program reads the archive as a folder.
///
/// With --redact the names of hosts and users, the folders of paths, and IP addresses are replaced by others, the same ones in all
/// files: what belongs together still does. Compressed inputs are unpacked for that; inputs that are not text are left out.
/// Look at the archive before you publish it: names that only a person knows as such stay.
#[derive(Debug, Parser)]
#[command(name = "nccl-collect", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(next_help_heading = "Output")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    file: FileArgs,
    /// Replace hosts, users, folders and addresses by numbered names
    #[arg(long)]
    redact: bool,
    /// Leave out what this machine has: the job ran on others
    #[arg(long)]
    no_machine: bool,
}

const AFTER: &str = "\
Examples:
  nccl-collect -o case.tar.zst logs/ dumps/ stacks/
  nccl-collect --redact -o case.tar.zst nccl.log
  nccl-check case.tar.zst

Exit codes: 0 everything was collected; 2 an input could not be read, or the archive not written.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-collect", |mut cli: Cli| {
        if cli.file.path().is_none() && io::stdout().is_terminal() {
            bail!("expected a file for the archive: -o case.tar.zst");
        }
        cli.file.redirect()?;
        let machine = !cli.no_machine;
        if machine {
            cli.input.files.extend(collect::find_files_of_settings());
        }
        let steps: StepArgs = StepLineArgs::default().into();
        let mut run = ProgramRun::of_whole_logs("nccl-collect", &cli.input, &steps)?;
        let _copies = run.copy_pipes_to_files()?;
        let options = CollectOptions {
            redact: cli.redact,
            machine,
        };
        let out = BufWriter::new(io::stdout().lock());
        let case = collect::write_case(&run.origins, options, out, &mut run.report, &run.bar)
            .context("the archive is not complete")?;
        let bytes: u64 = case.files.iter().map(|file| file.bytes).sum();
        let names = match case.redacted {
            true => "names and addresses are replaced",
            false => "it has names of hosts and users, and addresses: --redact replaces them",
        };
        run.report.note(&format!(
            "{} files with {} bytes, {} left out (collected.json lists them); {names}",
            case.files.len(),
            bytes,
            case.left_out.len(),
        ));
        Ok(run.finish())
    })
}
