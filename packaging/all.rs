//! nccl-pipe: all programs in one, for packages (docs/packaging.md).
//!
//! Each program links most of the library, so twenty of them are ten times as large as this one. A package
//! has this one under the names of all: as links, or as the script `packaging/launcher` where there can be
//! no links. It is the program that its own name says (`argv[0]`), else the one that its first argument
//! says: `nccl-pipe nccl-hist LOG` is `nccl-hist LOG`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

#[path = "../src/bin/nccl-agg.rs"]
mod agg;
#[path = "../src/bin/nccl-check.rs"]
mod check;
#[path = "../src/bin/nccl-comms.rs"]
mod comms;
#[path = "../src/bin/nccl-communicators.rs"]
mod communicators;
#[path = "../src/bin/nccl-cuda.rs"]
mod cuda;
#[path = "../src/bin/nccl-diff.rs"]
mod diff;
#[path = "../src/bin/nccl-hist.rs"]
mod hist;
#[path = "../src/bin/nccl-kernels.rs"]
mod kernels;
#[path = "../src/bin/nccl-matrix.rs"]
mod matrix;
#[path = "../src/bin/nccl-net.rs"]
mod net;
#[path = "../src/bin/nccl-ops.rs"]
mod ops;
#[path = "../src/bin/nccl-overlap.rs"]
mod overlap;
#[path = "../src/bin/nccl-proxy.rs"]
mod proxy;
#[path = "../src/bin/nccl-report.rs"]
mod report;
#[path = "../src/bin/nccl-skew.rs"]
mod skew;
#[path = "../src/bin/nccl-steps.rs"]
mod steps;
#[path = "../src/bin/nccl-synth.rs"]
mod synth;
#[path = "../src/bin/nccl-timing.rs"]
mod timing;
#[path = "../src/bin/nccl-tuning.rs"]
mod tuning;
#[path = "../src/bin/nccl-watch.rs"]
mod watch;

/// Where a program begins.
type Main = fn() -> ExitCode;

/// Every program of `src/bin`.
const PROGRAMS: &[(&str, Main)] = &[
    ("nccl-agg", agg::main),
    ("nccl-check", check::main),
    ("nccl-comms", comms::main),
    ("nccl-communicators", communicators::main),
    ("nccl-cuda", cuda::main),
    ("nccl-diff", diff::main),
    ("nccl-hist", hist::main),
    ("nccl-kernels", kernels::main),
    ("nccl-matrix", matrix::main),
    ("nccl-net", net::main),
    ("nccl-ops", ops::main),
    ("nccl-overlap", overlap::main),
    ("nccl-proxy", proxy::main),
    ("nccl-report", report::main),
    ("nccl-skew", skew::main),
    ("nccl-steps", steps::main),
    ("nccl-synth", synth::main),
    ("nccl-timing", timing::main),
    ("nccl-tuning", tuning::main),
    ("nccl-watch", watch::main),
];

fn main() -> ExitCode {
    let mut args = env::args_os();
    let own = args.next().unwrap_or_default();
    if let Some(name) = Path::new(&own).file_name()
        && let Some(program) = find(name)
    {
        return program();
    }
    let first = args.next().unwrap_or_default();
    if find(&first).is_some() {
        return as_program(&own, &first, args);
    }
    let failed = match first.to_str() {
        Some("--version" | "-V") => {
            writeln!(std::io::stdout(), "nccl-pipe {}", env!("CARGO_PKG_VERSION")).is_err()
        }
        Some("--help" | "-h") => list(std::io::stdout()).is_err(),
        _ => {
            // Nothing is left to tell where this cannot be written.
            let _ = list(std::io::stderr());
            true
        }
    };
    if failed {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}

fn find(name: &OsStr) -> Option<Main> {
    PROGRAMS
        .iter()
        .find(|(program, _)| name == *program)
        .map(|(_, main)| *main)
}

/// Begins again under the program's name: it is what help and messages show, and the arguments are then
/// those of the program alone.
fn as_program(own: &OsStr, name: &OsStr, args: env::ArgsOs) -> ExitCode {
    // A root without /proc has no path of a running program. The launcher gives the whole path.
    let file = env::current_exe().map_or_else(|_| own.to_owned(), OsString::from);
    let error = Command::new(&file).arg0(name).args(args).exec();
    let _ = writeln!(
        std::io::stderr(),
        "nccl-pipe: cannot start {}: {error}",
        Path::new(&file).display()
    );
    ExitCode::from(2)
}

fn list(mut out: impl std::io::Write) -> std::io::Result<()> {
    writeln!(out, "Usage: nccl-pipe PROGRAM [ARGUMENT]...\n\nPrograms:")?;
    PROGRAMS
        .iter()
        .try_for_each(|(name, _)| writeln!(out, "  {name}"))
}
