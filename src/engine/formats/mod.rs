//! One door for inputs. A format is a file here with its [`InputFormat`], and a line in the list below:
//! the stages take any input that tells what they need ([`open`]).

mod binary;
pub mod flight;
pub mod gpu;
mod inspector;
mod mpi;
pub mod open;
pub mod profiler;
pub mod rows;
pub mod snoopie;
mod unsupported_text;

use crate::log;
pub use gpu::{cuda, stats};
use gpu::{kineto, nsys};
pub use rows::lines;
pub use rows::table_rows;
use rows::{chain, ordered};

use crate::error::Result;
use crate::members::duplicate_inputs::DuplicateInputs;
use crate::report::account::Account;
use crate::source::Input;
use lines::RowVisitor;

/// What an input may be.
#[derive(Debug)]
pub struct InputFormat {
    /// The column `src` of its calls.
    pub name: &'static str,
    /// What it is, with its article: `an NCCL log`.
    pub what: &'static str,
    /// What it tells; nothing where it is only recognised, to be refused.
    pub tells: Provides,
    /// Whether an input that begins so is one.
    pub probe: fn(&InputHead<'_>) -> ProbeAnswer,
}

/// The answer of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It is another format.
    No,
    /// It looks so, and has no calls. Any text may have step lines.
    Perhaps,
    /// Nothing else looks so.
    Yes,
}

impl ProbeAnswer {
    /// Yes or no.
    pub fn yes_or_no(is: bool) -> ProbeAnswer {
        if is {
            ProbeAnswer::Yes
        } else {
            ProbeAnswer::No
        }
    }

    /// Perhaps or no.
    pub fn perhaps_or_no(is: bool) -> ProbeAnswer {
        if is {
            ProbeAnswer::Perhaps
        } else {
            ProbeAnswer::No
        }
    }
}

/// The beginning of an input.
#[derive(Debug, Clone, Copy)]
pub struct InputHead<'h> {
    /// The first bytes, unpacked.
    pub bytes: &'h [u8],
    /// They are all.
    pub is_whole: bool,
}

impl<'h> InputHead<'h> {
    /// The beginning of what begins with `bytes`.
    pub fn from_bytes(bytes: &'h [u8]) -> InputHead<'h> {
        let is_whole = bytes.len() < crate::source::INPUT_HEAD_BYTES;
        InputHead { bytes, is_whole }
    }

    /// Its lines that are not blank, without blanks around them.
    pub fn lines(&self) -> impl Iterator<Item = &'h [u8]> {
        let lines = self.bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty())
    }

    /// The first of them.
    pub fn first_line(&self) -> &'h [u8] {
        self.lines().next().unwrap_or_default()
    }

    /// True where `is` holds of most lines.
    pub fn most_lines(&self, is: impl Fn(&[u8]) -> bool) -> bool {
        let (mut all, mut those) = (0, 0);
        for line in self.lines() {
            (all, those) = (all + 1, those + usize::from(is(line)));
        }
        2 * those > all
    }

    /// Yes where it `is` text of another recorder. Where NCCL's own lines are among it, it is a log.
    pub fn probe_recorder(&self, is: bool) -> ProbeAnswer {
        let has = |word: &[u8]| memchr::memmem::find(self.bytes, word).is_some();
        ProbeAnswer::yes_or_no(is && !has(b"NCCL INFO") && !has(b"NCCL WARN"))
    }
}

/// Parts of what an input may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provides(u16);

impl Provides {
    /// Nothing that is read.
    pub const NOTHING: Provides = Provides(0);
    /// Which calls were made.
    pub const CALLS: Provides = Provides(1 | Provides::TIMED.0);
    /// Which calls were made, or times of calls without their number.
    pub const TIMED: Provides = Provides(1 << 13);
    /// The steps of calls.
    pub const STEPS: Provides = Provides(1 << 1);
    /// A trainer's step lines.
    pub const STEP_LINES: Provides = Provides(1 << 2);
    /// The members of communicators.
    pub const MEMBERS: Provides = Provides(1 << 3);
    /// NCCL's other lines.
    pub const MESSAGES: Provides = Provides(1 << 4);
    /// When a call began.
    pub const STARTS: Provides = Provides(1 << 5);
    /// How long a call took.
    pub const DURATIONS: Provides = Provides(1 << 6);
    /// Which algorithm served a call.
    pub const ALGORITHMS: Provides = Provides(1 << 7);
    /// The lines of a log, with which anything can be shown.
    pub const LINES: Provides = Provides(1 << 8);
    /// What NCCL's proxy thread did.
    pub const PROXY: Provides = Provides(1 << 9);

    /// The name of that part.
    const PROXY_PART_NAME: &str = "operations of NCCL's proxy thread";

    /// What a recorder saw of calls: such files are beside a job's logs.
    pub const RECORDED: Provides = Provides(1 << 10);
    /// What the GPUs did, and when: see [`gpu`].
    pub const GPU: Provides = Provides(1 << 11);

    /// No part: rows are to have steps, and where an input has calls without and a log too, the log
    /// is read.
    pub const BY_STEP: Provides = Provides(1 << 12);

    /// The name of that part.
    const GPU_PART_NAME: &str = "activities of GPUs";
    /// Calls of CUDA's interfaces: see [`cuda`].
    pub const CUDA: Provides = Provides(1 << 14);

    /// The name of that part.
    const CUDA_PART_NAME: &str = "calls of CUDA";

    /// Loads and stores of GPUs in others' memory (Snoopie).
    pub const ACCESSES: Provides = Provides(1 << 15);

    /// The name of that part.
    const ACCESSES_PART_NAME: &str = "accesses to other GPUs' memory";

    /// Each part by its name.
    const PART_NAMES: [(Provides, &str); 15] = [
        (Provides::CALLS, "calls"),
        (Provides::TIMED, "times of calls"),
        (Provides::RECORDED, "records"),
        (Provides::STEPS, "steps"),
        (Provides::STEP_LINES, "step lines"),
        (Provides::MEMBERS, "members of communicators"),
        (Provides::MESSAGES, "other lines of NCCL"),
        (Provides::STARTS, "start times"),
        (Provides::DURATIONS, "durations"),
        (Provides::ALGORITHMS, "algorithms"),
        (Provides::LINES, "log lines"),
        (Provides::PROXY, Provides::PROXY_PART_NAME),
        (Provides::GPU, Provides::GPU_PART_NAME),
        (Provides::CUDA, Provides::CUDA_PART_NAME),
        (Provides::ACCESSES, Provides::ACCESSES_PART_NAME),
    ];

    /// These parts and `other`.
    pub const fn and(self, other: Provides) -> Provides {
        Provides(self.0 | other.0)
    }

    /// These parts without `other`.
    const fn without(self, other: Provides) -> Provides {
        Provides(self.0 & !other.0)
    }

    /// True where all of `parts` are told.
    pub const fn has(self, parts: Provides) -> bool {
        self.0 & parts.0 == parts.0
    }

    /// The first of `needs` that is not told, by its name.
    fn first_missing(self, needs: Provides) -> Option<&'static str> {
        let mut names = Provides::PART_NAMES.into_iter();
        let is_lacking = |part: Provides| needs.has(part) && !self.has(part);
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
        static FORMATS: &[(InputFormat, FormatReader)] = &[
            $(($format, FormatReader::Records(Records::$name)),)+
            $(($in_order, FormatReader::Ordered($read)),)+
            $(($other, FormatReader::None),)+
        ];

        /// The formats that are a record a line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Records {
            $($name,)+
        }

        impl Records {
            fn read<R: RowVisitor + Send>(
                self,
                input: &Input,
                options: lines::Options,
                twice: &mut DuplicateInputs,
                new: impl Fn() -> R + Sync,
                progress: impl Fn(u64),
                sink: impl FnMut(R) -> Result<()>,
            ) -> Result<Account> {
                match self {
                    $(Records::$name => {
                        lines::read_records::<$reader, R>(input, options, twice, new, progress, sink)
                    })+
                }
            }
        }
    };
}

formats! {
    records {
        Csv: rows::CSV, rows::CsvCallTable;
        Jsonl: rows::JSONL, rows::JsonlCallTable;
        Chain: chain::FORMAT, chain::ChainFormat;
        Inspector: inspector::FORMAT, inspector::InspectorFormat;
        Mpi: mpi::FORMAT, mpi::MpiFormat;
        Metrics: inspector::METRICS, inspector::InspectorMetrics;
        Cuda: cuda::TIMELINE, cuda::CudaTimeline;
        Snoopie: snoopie::LOG, snoopie::SnoopieFormat;
        OldSnoopie: snoopie::OLD_LOG, snoopie::SnoopieFormat;
    }
    ordered {
        flight::PICKLE, flight::read_calls;
        flight::JSON, flight::read_calls;
        profiler::FORMAT, profiler::read_calls;
        nsys::FORMAT, nsys::read_calls;
        stats::FORMAT, ordered::refuse_without_calls;
        kineto::FORMAT, kineto::read_calls;
        cuda::METRICS, ordered::refuse_without_calls;
        snoopie::TABLE, ordered::refuse_without_calls;
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
        unsupported_text::JSON;
        unsupported_text::CSV;
    }
}

/// Recognises an input by its beginning; with that comes what reads it.
fn recognise_format(head: &InputHead<'_>, needs: Provides) -> (&'static InputFormat, FormatReader) {
    let mut perhaps = None;
    for (format, reader) in FORMATS {
        let reader = *reader;
        match (format.probe)(head) {
            ProbeAnswer::Yes => return (format, reader),
            ProbeAnswer::Perhaps => _ = perhaps.get_or_insert((format, reader)),
            ProbeAnswer::No => {}
        }
    }
    // Any text may have step lines.
    perhaps
        .filter(|_| !needs.has(Provides::STEP_LINES))
        .unwrap_or((&log::FORMAT, FormatReader::Log))
}

/// What reads an input.
#[derive(Debug, Clone, Copy)]
enum FormatReader {
    /// The walk over a log.
    Log,
    /// The driver of records.
    Records(Records),
    /// That of what is read in order.
    Ordered(ordered::OrderedReader),
    /// Nothing.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_first_line() {
        let of = |text: &str| {
            recognise_format(&InputHead::from_bytes(text.as_bytes()), Provides::CALLS)
                .0
                .name
        };
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
            recognise_format(&InputHead::from_bytes(b"epoch,rate,loss\n1,2,3\n"), needs)
                .0
                .name
        };
        assert_eq!((of(Provides::CALLS), of(Provides::STEP_LINES)), ("", "log"));
    }

    #[test]
    fn the_log_of_a_recorded_job_is_a_log() {
        let of = |text: &str| {
            recognise_format(&InputHead::from_bytes(text.as_bytes()), Provides::CALLS)
                .0
                .name
        };
        let nccl = "h:1:2 [0] NCCL INFO Bootstrap\n";
        let mpi = "[0.000492] MPI_Init: world_rank=0\n";
        assert_eq!((of(mpi), of(&format!("{mpi}{mpi}{nccl}"))), ("mpi", "log"));
    }
}
