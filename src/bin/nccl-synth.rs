//! `nccl-synth`: arguments in, [`nccl_pipe::synth`] called, log and truth out.

use anyhow::Context;
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nccl_pipe::error::Error;
use nccl_pipe::program::cli;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::synth::fault::Fault;
use nccl_pipe::synth::options::size;
use nccl_pipe::synth::options::{
    Damage, HostStyle, LogLayout, Nccl, Options, Prefix, Strategy, SynthEnd, SynthNet,
    SynthTrainer, Timestamps,
};
use nccl_pipe::synth::{FolderSink, LogSink, StreamSink, generate};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// A parser of one of the library's named values.
macro_rules! named {
    ($kind:ident) => {
        PossibleValuesParser::new($kind::NAMES).try_map(|name| name.parse::<$kind>())
    };
}

/// Write the NCCL debug log of a training job whose truth is known
///
/// The job never runs. Its ranks, communicators, calls and step lines are invented, with the line
/// shapes of the chosen NCCL version and trainer, and with the chosen damage. The same options
/// give the same bytes.
#[derive(Parser)]
#[command(name = "nccl-synth", version, after_long_help = EXAMPLES)]
#[command(next_help_heading = "Job")]
pub(crate) struct Cli {
    /// The seed; the same seed and options give the same bytes
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    seed: u64,
    /// Processes, one GPU each
    #[arg(long, value_name = "N", default_value_t = 8)]
    ranks: usize,
    /// Hosts
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: usize,
    /// How the model is split among the ranks; megatron has the sizes that follow
    #[arg(long, value_name = "NAME", default_value = "megatron", value_parser = named!(Strategy))]
    strategy: Strategy,
    /// Tensor-parallel size [default: 2 with megatron]
    #[arg(long, value_name = "N")]
    tp: Option<usize>,
    /// Pipeline-parallel size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pp: usize,
    /// Expert-parallel size; divides ranks / (tp * cp * pp)
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    ep: usize,
    /// Context-parallel size: keys and values are passed around a ring; divides ranks / (tp * pp)
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    cp: usize,
    /// Transformer layers of the whole model
    #[arg(long, value_name = "N", default_value_t = 4, hide_short_help = true)]
    layers: usize,
    /// Steps to train
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    steps: u64,
    /// Number of the first step [default: the trainer's]
    #[arg(long, value_name = "N", hide_short_help = true)]
    first_step: Option<u64>,
    /// Print the step line of every K-th step
    #[arg(
        long,
        value_name = "K",
        default_value_t = 1,
        help_heading = "Log",
        hide_short_help = true
    )]
    log_interval: u64,
    /// Steps in an epoch: NeMo's iteration starts again
    #[arg(long, value_name = "N", hide_short_help = true)]
    epoch_steps: Option<u64>,
    /// The job dies after step N and resumes some steps earlier
    #[arg(long, value_name = "N", hide_short_help = true)]
    restart_at: Option<u64>,
    /// Evaluate and save every N steps
    #[arg(long, value_name = "N", hide_short_help = true)]
    eval_every: Option<u64>,
    /// Make calls after the last step
    #[arg(long, hide_short_help = true)]
    tail_calls: bool,
    /// Line shapes of this version
    #[arg(long, value_name = "VERSION", default_value = "2.28", value_parser = named!(Nccl), help_heading = "Log", hide_possible_values = true, long_help = format!("Line shapes of this version: {}", Nccl::NAMES.join(", ")))]
    nccl: Nccl,
    /// The trainer that prints the step lines
    #[arg(long, value_name = "NAME", default_value = "nemo2", value_parser = named!(SynthTrainer), help_heading = "Log")]
    trainer: SynthTrainer,
    /// torchtitan, maxtext: every rank prints its step line
    #[arg(long, help_heading = "Log", hide_short_help = true)]
    every_rank: bool,
    /// The prefix that the launcher puts on every line
    #[arg(long, value_name = "KIND", default_value = "none", value_parser = named!(Prefix), help_heading = "Log", hide_short_help = true)]
    prefix: Prefix,
    /// Time stamps as NCCL_DEBUG_TIMESTAMP_FORMAT would set them
    #[arg(long, value_name = "FORMAT", default_value = "none", value_parser = named!(Timestamps), help_heading = "Log", hide_short_help = true)]
    timestamps: Timestamps,
    /// Print a CALL line after each COLL line, as with NCCL_DEBUG=TRACE
    #[arg(long, help_heading = "Log", hide_short_help = true)]
    trace: bool,
    /// Print no INIT, NET, GRAPH and NVLS lines
    #[arg(long, help_heading = "Log", hide_short_help = true)]
    no_init: bool,
    /// Split all communicators from the first, which has all ranks (NCCL 2.21 or later)
    #[arg(long, hide_short_help = true)]
    split: bool,
    /// Print NICs and connections of this network, with their truth
    #[arg(long, value_name = "KIND", value_parser = named!(SynthNet), help_heading = "Log", hide_short_help = true)]
    net: Option<SynthNet>,
    /// The NVLink switches can be used (with --net)
    #[arg(long, help_heading = "Log", hide_short_help = true)]
    nvls: bool,
    /// Print a TUNING line after each call of a rank 0
    #[arg(long, help_heading = "Log", hide_short_help = true)]
    tuning: bool,
    /// The style of host names
    #[arg(long, value_name = "STYLE", default_value = "plain", value_parser = named!(HostStyle), help_heading = "Log", hide_short_help = true)]
    host_style: HostStyle,
    /// Include Send and Recv of no elements in the token exchanges (needs --ep)
    #[arg(long, hide_short_help = true)]
    zero_counts: bool,
    /// One stream, a file for each process in the folder -o, or one stream written in blocks
    #[arg(long, value_name = "KIND", default_value = "stream", value_parser = named!(LogLayout), help_heading = "Output")]
    layout: LogLayout,
    /// Add steps until this size is reached: 100M, 1G
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Output")]
    size: Option<u64>,
    /// Damage this share of the lines; may be given several times
    ///
    /// torn, cut, glued, glued-cut, orphan: of COLL lines. spliced: of step lines. truncated: of
    /// Trees lines. crlf, overwritten: of the whole file, with rate 1. torn, orphan and
    /// overwritten need --prefix none.
    #[arg(long, value_name = "KIND=RATE", value_parser = damage, help_heading = "Damage")]
    damage: Vec<(Damage, f64)>,
    /// Put one fault into the job, and into the truth
    ///
    /// A wrong call of one rank: skip, count, datatype, redop, root, order; recv (a Send or Recv of
    /// a pipeline is missing); die, stall (a rank makes no more calls). The other ranks make theirs
    /// until they wait, and the job hangs as a real one would; PyTorch's watchdog reports it. A
    /// host that differs: sockets, gpudirect, nvls, channels, version, setting; a rank slow to
    /// start: slow-init. Only with --lead: op, extra (a call twice), lone (a collective of one rank),
    /// group, peer, crossed (two communicators in the other order), retry, rest (of a step),
    /// more-steps, fewer-steps, skip-step, lone-save. KEY is step, rank, host (from 0), comm (world, tensor, pipeline, data,
    /// expert, context, shard) or watchdog (on, off). A key that is not given is drawn from the seed.
    #[arg(long, value_name = "KIND[,KEY=VALUE...]", value_parser = str::parse::<Fault>, help_heading = "Damage")]
    fault: Option<Fault>,
    /// Hosts run up to N steps ahead of their GPUs, each at its own pace (0 to 3)
    ///
    /// The ranks are simulated by events: a host waits where it reads a value, a collective waits
    /// for all its members. A job with a fault goes on until no rank can go on. The truth has the
    /// step of each call. Without --lead the ranks of a step are mixed at random.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Damage",
        hide_short_help = true
    )]
    lead: Option<u64>,
    /// The end of the job (with --lead): killed or cancelled at any moment, or cut inside a line
    #[arg(long, value_name = "HOW", default_value = "whole", value_parser = named!(SynthEnd), help_heading = "Damage", hide_short_help = true)]
    end: SynthEnd,
    /// The output file; a folder with --layout per-rank [default: stdout]
    #[arg(short, long, value_name = "PATH", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write the truth about the log to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    truth: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nccl-synth --ranks 16 --nodes 2 --tp 4 --pp 2 --truth truth.json | nccl-hist
  nccl-synth --nccl 2.29 --damage torn=0.01 --trainer megatron > job.log
  nccl-synth --size 1G -o big.log
  nccl-synth --layout per-rank -o logs/
  nccl-synth --ranks 16 --tp 4 --fault skip,comm=data --truth truth.json > hangs.log

Exit codes: 0 the log is written, 2 the program failed.";

fn damage(text: &str) -> Result<(Damage, f64), Error> {
    let (kind, rate) = text.split_once('=').unwrap_or((text, ""));
    let kind = kind.parse().map_err(convert_error)?;
    let rate = rate.parse();
    rate.map(|rate| (kind, rate)).map_err(|_| {
        Error::Usage(format!(
            "expected KIND=RATE with a rate of 0 to 1, found \"{text}\""
        ))
    })
}

impl Cli {
    fn into_parts(self) -> (Option<PathBuf>, Option<PathBuf>, Options) {
        let options = Options {
            seed: self.seed,
            ranks: self.ranks,
            nodes: self.nodes,
            strategy: self.strategy,
            tp: self
                .tp
                .unwrap_or(1 + usize::from(self.strategy == Strategy::Megatron)),
            pp: self.pp,
            ep: self.ep,
            cp: self.cp,
            layers: self.layers,
            steps: self.steps,
            first_step: self.first_step,
            log_interval: self.log_interval,
            epoch_steps: self.epoch_steps,
            restart_at: self.restart_at,
            eval_every: self.eval_every,
            tail_calls: self.tail_calls,
            nccl: self.nccl,
            trainer: self.trainer,
            every_rank: self.every_rank,
            prefix: self.prefix,
            timestamps: self.timestamps,
            trace: self.trace,
            init: !self.no_init,
            split: self.split,
            net: self.net,
            nvls: self.nvls,
            tuning: self.tuning,
            host_style: self.host_style,
            zero_counts: self.zero_counts,
            layout: self.layout,
            size: self.size,
            damage: self.damage,
            fault: self.fault,
            lead: self.lead,
            end: self.end,
        };
        (self.output, self.truth, options)
    }
}

fn open_sink(options: &Options, output: Option<PathBuf>) -> anyhow::Result<Box<dyn LogSink>> {
    Ok(match (options.layout, output) {
        (LogLayout::PerRank, None) => {
            return Err(Error::Usage("--layout per-rank needs a folder: -o logs/".into()).into());
        }
        (LogLayout::PerRank, Some(path)) => {
            let name = path.display().to_string();
            Box::new(FolderSink::new(path).with_context(|| name)?)
        }
        (LogLayout::Stream | LogLayout::Blocks, Some(path)) => Box::new(StreamSink::new(
            File::create(&path).with_context(|| path.display().to_string())?,
        )),
        (LogLayout::Stream | LogLayout::Blocks, None) => {
            Box::new(StreamSink::new(std::io::stdout().lock()))
        }
    })
}

/// The error as the programs know it, which decides how the program exits.
fn convert_error(error: nccl_pipe::synth::Error) -> Error {
    match error {
        nccl_pipe::synth::Error::Output(cause) => Error::Output(cause),
        other => Error::Usage(other.to_string()),
    }
}

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-synth", |cli: Cli| {
        let (output, truth, options) = cli.into_parts();
        // Before any file is made: a refusal leaves nothing behind.
        options.check().map_err(convert_error)?;
        let mut sink = open_sink(&options, output)?;
        let made = generate(&options, sink.as_mut()).map_err(convert_error)?;
        if let Some(path) = truth {
            let name = || path.display().to_string();
            let mut file = BufWriter::new(File::create(&path).with_context(name)?);
            serde_json::to_writer_pretty(&mut file, &made).with_context(name)?;
            file.write_all(b"\n")
                .and_then(|()| file.flush())
                .with_context(name)?;
        }
        Ok(Exit::Clean)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound() {
        super::Cli::command().debug_assert();
    }
}
