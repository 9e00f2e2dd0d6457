//! nccl-pack: see `--help`.

use anyhow::Context as _;
use clap::Parser;
use nccl_pipe::error::Error;
use nccl_pipe::program::cli::{self, InputArgs, ProgramRun, StepArgs, StepLineArgs};
use nccl_pipe::program::exit::Exit;
use nccl_pipe::source::read_manifest;
use nccl_pipe::stages::pack::{self, PackedPart};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Packs logs where they lie, into parts that every program reads as the logs
///
/// A part is some ten to a hundred times smaller than its log: a node packs its own, and one machine reads
/// the parts of all, in the place of the logs and under their names. The addresses of buffers and
/// streams are left out: they become zeros. Records, dumps and exports are packed, too; a zip archive is
/// copied as it is.
///
/// A part is named NAME.HASH.ncp, appears when it is complete, and is not written again.
///
/// Writes a JSON object for each part: v, input, bytes, part, part_bytes, lines, calls (null if the
/// input has no calls to count), damaged, torn, and skipped (the part was there).
#[derive(Debug, Parser)]
#[command(name = "nccl-pack", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(next_help_heading = "Output")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Pack also the files of this list, a path on each line; - is standard input
    #[arg(long, value_name = "LIST", help_heading = "Input")]
    manifest: Option<PathBuf>,
    /// The folder of the parts; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Keep the addresses of buffers and streams
    #[arg(long)]
    addresses: bool,
}

const AFTER: &str = "\
Examples:
  nccl-pack --to /shared/parts /local/nccl.*.log
  find /logs -name '*.log' | nccl-pack --to /shared/parts --manifest -
  nccl-check /shared/parts

Exit codes: 0 everything was packed, also damaged lines; 2 an input could not be read, or a part not
written; 141 the reader of standard output went away.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-pack", |mut cli: Cli| {
        if let Some(manifest) = &cli.manifest {
            cli.input.files.extend(read_manifest(manifest)?);
            if cli.input.files.is_empty() {
                return Ok(Exit::Clean);
            }
        }
        let steps: StepArgs = StepLineArgs::default().into();
        let mut run = ProgramRun::of_whole_logs("nccl-pack", &cli.input, &steps)?;
        let _copies = run.copy_pipes_to_files()?;
        let options = pack::PackOptions {
            to: cli.to,
            addresses: cli.addresses,
        };
        let take = |part: &PackedPart| {
            let line = serde_json::to_string(part).map_err(|e| Error::Output(e.into()))?;
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}")
                .and_then(|()| out.flush())
                .map_err(Error::Output)
        };
        let packed = pack::pack_inputs(
            &run.origins,
            &options,
            &run.options,
            &mut run.report,
            &run.bar,
            take,
        );
        match packed {
            // An engine must not take this for the end.
            Err(e) if e.is_broken_pipe() => Ok(Exit::ReaderLeft),
            packed => {
                packed.context("not all was packed")?;
                Ok(run.finish())
            }
        }
    })
}
