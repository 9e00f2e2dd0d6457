//! One door for inputs. A format is a file here with its [`Format`], and a line in the list below:
//! the stages take any input that tells what they need ([`door`]).

mod binary;
pub mod door;
pub mod flight;
pub mod gpu;
mod inspector;
mod mpi;
mod other;
pub mod profiler;
pub mod rows;
pub mod snoopie;

use crate::log;
pub use gpu::{cuda, stats};
use gpu::{kineto, nsys};
pub use rows::lines;
pub use rows::table_rows;
use rows::{chain, ordered};

use crate::error::Result;
use crate::members::twice::Twice;
use crate::report::account::Account;
use crate::source::Input;
use lines::Rows;

/// What an input may be.
#[derive(Debug)]
pub struct Format {
    /// The column `src` of its calls.
    pub name: &'static str,
    /// What it is, with its article: `an NCCL log`.
    pub what: &'static str,
    /// What it tells; nothing where it is only recognised, to be refused.
    pub tells: Tells,
    /// Whether an input that begins so is one.
    pub probe: fn(&Head<'_>) -> Is,
}

/// The answer of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Is {
    /// It is another format.
    No,
    /// It looks so, and has no calls. Any text may have step lines.
    Perhaps,
    /// Nothing else looks so.
    Yes,
}

impl Is {
    /// Yes or no.
    pub fn sure(is: bool) -> Is {
        if is { Is::Yes } else { Is::No }
    }

    /// Perhaps or no.
    pub fn perhaps(is: bool) -> Is {
        if is { Is::Perhaps } else { Is::No }
    }
}

/// The beginning of an input.
#[derive(Debug, Clone, Copy)]
pub struct Head<'h> {
    /// The first bytes, unpacked.
    pub bytes: &'h [u8],
    /// They are all.
    pub is_whole: bool,
}

impl<'h> Head<'h> {
    /// The beginning of what begins with `bytes`.
    pub fn of(bytes: &'h [u8]) -> Head<'h> {
        let is_whole = bytes.len() < crate::source::HEAD;
        Head { bytes, is_whole }
    }

    /// Its lines that are not blank, without blanks around them.
    pub fn lines(&self) -> impl Iterator<Item = &'h [u8]> {
        let lines = self.bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty())
    }

    /// The first of them.
    pub fn line(&self) -> &'h [u8] {
        self.lines().next().unwrap_or_default()
    }

    /// True where `is` holds of most lines.
    pub fn mostly(&self, is: impl Fn(&[u8]) -> bool) -> bool {
        let (mut all, mut those) = (0, 0);
        for line in self.lines() {
            (all, those) = (all + 1, those + usize::from(is(line)));
        }
        2 * those > all
    }

    /// Yes where it `is` text of another recorder. Where NCCL's own lines are among it, it is a log.
    pub fn other(&self, is: bool) -> Is {
        let has = |word: &[u8]| memchr::memmem::find(self.bytes, word).is_some();
        Is::sure(is && !has(b"NCCL INFO") && !has(b"NCCL WARN"))
    }
}

/// Parts of what an input may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tells(u16);

impl Tells {
    /// Nothing that is read.
    pub const NOTHING: Tells = Tells(0);
    /// Which calls were made.
    pub const CALLS: Tells = Tells(1 | Tells::TIMED.0);
    /// Which calls were made, or times of calls without their number.
    pub const TIMED: Tells = Tells(1 << 13);
    /// The steps of calls.
    pub const STEPS: Tells = Tells(1 << 1);
    /// A trainer's step lines.
    pub const STEP_LINES: Tells = Tells(1 << 2);
    /// The members of communicators.
    pub const MEMBERS: Tells = Tells(1 << 3);
    /// NCCL's other lines.
    pub const MESSAGES: Tells = Tells(1 << 4);
    /// When a call began.
    pub const STARTS: Tells = Tells(1 << 5);
    /// How long a call took.
    pub const DURATIONS: Tells = Tells(1 << 6);
    /// Which algorithm served a call.
    pub const ALGORITHMS: Tells = Tells(1 << 7);
    /// The lines of a log, with which anything can be shown.
    pub const LINES: Tells = Tells(1 << 8);
    /// What NCCL's proxy thread did.
    pub const PROXY: Tells = Tells(1 << 9);

    /// The name of that part.
    const OF_PROXY: &str = "operations of NCCL's proxy thread";

    /// What a recorder saw of calls: such files are beside a job's logs.
    pub const RECORDED: Tells = Tells(1 << 10);
    /// What the GPUs did, and when: see [`gpu`].
    pub const GPU: Tells = Tells(1 << 11);

    /// No part: rows are to have steps, and where an input has calls without and a log too, the log
    /// is read.
    pub const BY_STEP: Tells = Tells(1 << 12);

    /// The name of that part.
    const OF_GPU: &str = "activities of GPUs";
    /// Calls of CUDA's interfaces: see [`cuda`].
    pub const CUDA: Tells = Tells(1 << 14);

    /// The name of that part.
    const OF_CUDA: &str = "calls of CUDA";

    /// Loads and stores of GPUs in others' memory (Snoopie).
    pub const ACCESSES: Tells = Tells(1 << 15);

    /// The name of that part.
    const OF_ACCESSES: &str = "accesses to other GPUs' memory";

    /// Each part by its name.
    const NAMES: [(Tells, &str); 15] = [
        (Tells::CALLS, "calls"),
        (Tells::TIMED, "times of calls"),
        (Tells::RECORDED, "records"),
        (Tells::STEPS, "steps"),
        (Tells::STEP_LINES, "step lines"),
        (Tells::MEMBERS, "members of communicators"),
        (Tells::MESSAGES, "other lines of NCCL"),
        (Tells::STARTS, "start times"),
        (Tells::DURATIONS, "durations"),
        (Tells::ALGORITHMS, "algorithms"),
        (Tells::LINES, "log lines"),
        (Tells::PROXY, Tells::OF_PROXY),
        (Tells::GPU, Tells::OF_GPU),
        (Tells::CUDA, Tells::OF_CUDA),
        (Tells::ACCESSES, Tells::OF_ACCESSES),
    ];

    /// These parts and `other`.
    pub const fn and(self, other: Tells) -> Tells {
        Tells(self.0 | other.0)
    }

    /// These parts without `other`.
    const fn without(self, other: Tells) -> Tells {
        Tells(self.0 & !other.0)
    }

    /// True where all of `parts` are told.
    pub const fn has(self, parts: Tells) -> bool {
        self.0 & parts.0 == parts.0
    }

    /// The first of `needs` that is not told, by its name.
    fn lacks(self, needs: Tells) -> Option<&'static str> {
        let mut names = Tells::NAMES.into_iter();
        let is_lacking = |part: Tells| needs.has(part) && !self.has(part);
        names.find_map(|(part, name)| is_lacking(part).then_some(name))
    }
}

/// Makes the list of the formats, and what reads those that are a record a line, or in order: one
/// line for each.
macro_rules! formats {
    (
        records { $($name:ident: $format:path, $reader:path;)+ }
        ordered { $($in_order:path, $read:path;)+ }
        refused { $($other:path;)+ }
    ) => {
        /// All formats but the log: what is none of these is one. The first that is sure of an
        /// input has it.
        static FORMATS: &[(Format, Reader)] = &[
            $(($format, Reader::Records(Records::$name)),)+
            $(($in_order, Reader::Ordered($read)),)+
            $(($other, Reader::None),)+
        ];

        /// The formats that are a record a line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Records {
            $($name,)+
        }

        impl Records {
            fn read<R: Rows + Send>(
                self,
                input: &Input,
                options: lines::Options,
                twice: &mut Twice,
                new: impl Fn() -> R + Sync,
                progress: impl Fn(u64),
                sink: impl FnMut(R) -> Result<()>,
            ) -> Result<Account> {
                match self {
                    $(Records::$name => {
                        lines::read::<$reader, R>(input, options, twice, new, progress, sink)
                    })+
                }
            }
        }
    };
}

formats! {
    records {
        Csv: rows::CSV, rows::Csv;
        Jsonl: rows::JSONL, rows::Jsonl;
        Chain: chain::FORMAT, chain::Chain;
        Inspector: inspector::FORMAT, inspector::Inspector;
        Mpi: mpi::FORMAT, mpi::Mpi;
        Metrics: inspector::METRICS, inspector::Metrics;
        Cuda: cuda::TIMELINE, cuda::Timeline;
        Snoopie: snoopie::LOG, snoopie::Lines;
        OldSnoopie: snoopie::OLD, snoopie::Lines;
    }
    ordered {
        flight::PICKLE, flight::read;
        flight::JSON, flight::read;
        profiler::FORMAT, profiler::read;
        nsys::FORMAT, nsys::read;
        stats::FORMAT, ordered::no_calls;
        kineto::FORMAT, kineto::read;
        cuda::METRICS, ordered::no_calls;
        snoopie::TABLE, ordered::no_calls;
    }
    refused {
        binary::REPORT;
        binary::ELF;
        binary::SQLITE;
        binary::ZIP;
        binary::BZIP2;
        binary::XZ;
        binary::PNG;
        binary::PARQUET;
        binary::NUMPY;
        binary::PICKLE;
        binary::OTHER;
        other::JSON;
        other::CSV;
    }
}

/// Recognises an input by its beginning; with that comes what reads it.
fn recognise(head: &Head<'_>, needs: Tells) -> (&'static Format, Reader) {
    let mut perhaps = None;
    for (format, reader) in FORMATS {
        let reader = *reader;
        match (format.probe)(head) {
            Is::Yes => return (format, reader),
            Is::Perhaps => _ = perhaps.get_or_insert((format, reader)),
            Is::No => {}
        }
    }
    // Any text may have step lines.
    perhaps
        .filter(|_| !needs.has(Tells::STEP_LINES))
        .unwrap_or((&log::FORMAT, Reader::Log))
}

/// What reads an input.
#[derive(Debug, Clone, Copy)]
enum Reader {
    /// The walk over a log.
    Log,
    /// The driver of records.
    Records(Records),
    /// That of what is read in order.
    Ordered(ordered::Read1),
    /// Nothing.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_first_line() {
        let of = |text: &str| recognise(&Head::of(text.as_bytes()), Tells::CALLS).0.name;
        assert_eq!(of("step,op,count,datatype\n1,Send,1,int8\n"), "csv");
        assert_eq!(of("\"op\",\"count\",\"datatype\"\n"), "csv");
        assert_eq!(of("{\"step\":1,\"op\":\"Send\"}\n"), "jsonl");
        assert_eq!(of("AllGather 8388608 bf16 16777216\n"), "chain");
        assert_eq!(of("h:1:2 [0] NCCL INFO AllReduce: opCount 0\n"), "log");
        assert_eq!(of(""), "log");
        assert_eq!(of("\n\nhello, world\n"), "log");
    }

    #[test]
    fn what_may_have_step_lines_is_a_log_where_they_are_wanted() {
        let of = |needs| {
            recognise(&Head::of(b"epoch,rate,loss\n1,2,3\n"), needs)
                .0
                .name
        };
        assert_eq!((of(Tells::CALLS), of(Tells::STEP_LINES)), ("", "log"));
    }

    #[test]
    fn the_log_of_a_recorded_job_is_a_log() {
        let of = |text: &str| recognise(&Head::of(text.as_bytes()), Tells::CALLS).0.name;
        let nccl = "h:1:2 [0] NCCL INFO Bootstrap\n";
        let mpi = "[0.000492] MPI_Init: world_rank=0\n";
        assert_eq!((of(mpi), of(&format!("{mpi}{mpi}{nccl}"))), ("mpi", "log"));
    }
}
