//! The list of formats. A format is a file here with its [`InputFormat`], and a line in the list below. Stages
//! take any input that provides the parts they need ([`open`]).

mod binary;
pub mod flight;
pub mod format;
pub mod gpu;
mod inspector;
pub mod machine;
mod mpi;
pub mod open;
pub mod profiler;
pub mod quality;
pub mod ras;
mod recording;
pub mod rows;
pub mod snoopie;
pub mod stacks;
pub mod topology;
mod unsupported_text;
mod whole_number;

pub use format::{HeadEnd, InputFormat, InputHead, ProbeAnswer, Provides};

use crate::log;
pub use gpu::{cuda, stats};
use gpu::{kineto, nsys};
pub use rows::lines;
pub use rows::table_rows;
use rows::{chain, ordered};

use crate::error::{Error, Result};
use crate::members::duplicate_inputs::DuplicateInputs;
use crate::report::account::Account;
use crate::source::Input;
use lines::RowVisitor;

/// Returns true for an archive that begins with `head`, as Snoopie's launcher packs a run.
pub fn is_archive(head: &[u8]) -> bool {
    (binary::ZIP.probe)(&InputHead::from_bytes(head)) == ProbeAnswer::Yes
}

/// The error of an archive without a file of Snoopie, with the command that unpacks it.
pub fn refuse_archive(name: String) -> Error {
    let advice = binary::advice(&binary::ZIP, &name);
    let what = "a zip archive without a file of Snoopie";
    Error::NoText { name, what, advice }
}

/// Makes the list of formats with their readers, one line for each format.
macro_rules! formats {
    (
        records { $($name:ident: $format:path, $reader:path;)+ }
        ordered { $($in_order:path, $read:path;)+ }
        refused { $($other:path;)+ }
    ) => {
        /// All formats but the log, which is any other input. The first that is sure of an input wins.
        static FORMATS: &[(InputFormat, FormatReader)] = &[
            $(($format, FormatReader::Records(Records::$name)),)+
            $(($in_order, FormatReader::Ordered($read)),)+
            $(($other, FormatReader::None),)+
        ];

        /// The formats with a record on each line.
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
        ras::TEXT, ordered::refuse_without_calls;
        ras::JSON, ordered::refuse_without_calls;
        stacks::PY_SPY, ordered::refuse_without_calls;
        stacks::PY_SPY_JSON, ordered::refuse_without_calls;
        stacks::GDB, ordered::refuse_without_calls;
        stacks::FAULTHANDLER, ordered::refuse_without_calls;
        topology::SYSTEM, ordered::refuse_without_calls;
        topology::GRAPHS, ordered::refuse_without_calls;
        topology::MATRIX, ordered::refuse_without_calls;
        machine::KERNEL, ordered::refuse_without_calls;
        machine::FABRIC, ordered::refuse_without_calls;
        machine::TOOLS, ordered::refuse_without_calls;
        flight::PICKLE, flight::read_calls;
        flight::JSON, flight::read_calls;
        profiler::FORMAT, profiler::read_calls;
        recording::FORMAT, recording::read_calls;
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
        unsupported_text::SPREAD_INSPECTOR_RECORDS;
        unsupported_text::ROCPROFILER;
        unsupported_text::TORCHCOMMS;
        unsupported_text::JSON;
        unsupported_text::CSV;
    }
}

/// Recognises an input by its beginning, and returns its format and reader. `None` if more of the input
/// decides: any part of a head gives `None` or the answer of the whole head.
fn recognise_format(head: &InputHead<'_>, needs: Provides) -> Option<RecognisedFormat> {
    if head.is_open() && !head.has_whole_line() {
        return None;
    }
    let mut perhaps = None;
    for (format, reader) in FORMATS {
        let found = RecognisedFormat {
            format,
            reader: *reader,
        };
        match (format.probe)(head) {
            ProbeAnswer::Yes => return Some(found),
            ProbeAnswer::Undecided if head.is_open() => return None,
            ProbeAnswer::Perhaps => _ = perhaps.get_or_insert(found),
            ProbeAnswer::No | ProbeAnswer::Undecided => {}
        }
    }
    // Any text may have step lines.
    let perhaps = perhaps.filter(|_| !needs.has(Provides::STEP_LINES));
    // Lines of other programs may come before Snoopie's.
    let is_awaited = needs.has(Provides::ACCESSES);
    let is_undecided = head.is_open() && (perhaps.is_some() || is_awaited || head.is_document());
    let log = RecognisedFormat {
        format: &log::FORMAT,
        reader: FormatReader::Log,
    };
    (!is_undecided).then(|| perhaps.unwrap_or(log))
}

/// Returns the parts that the format of a row's column `src` provides; nothing if no format has that name.
pub fn find_parts_of_source(src: &[u8]) -> Provides {
    let mut formats = FORMATS.iter().map(|(format, _)| format);
    let named = formats.find(|format| format.name.as_bytes() == src);
    named.map_or(Provides::NOTHING, |format| format.tells)
}

/// The format of an input.
#[derive(Debug, Clone, Copy)]
struct RecognisedFormat {
    format: &'static InputFormat,
    reader: FormatReader,
}

/// The reader of an input.
#[derive(Debug, Clone, Copy)]
enum FormatReader {
    /// The walk over a log.
    Log,
    /// The driver of records.
    Records(Records),
    /// A reader from the first byte to the last.
    Ordered(ordered::OrderedReader),
    /// Nothing.
    None,
}

/// The formats of call tables: their calls are a log's or a record's.
const CALL_TABLE_FORMATS: [&str; 3] = ["csv", "jsonl", "chain"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::{Column, MEANINGS};
    use std::collections::BTreeSet;

    fn of(text: &str) -> &'static str {
        let head = InputHead::from_bytes(text.as_bytes());
        let found = recognise_format(&head, Provides::CALLS);
        found.unwrap().format.name
    }

    #[test]
    fn each_format_is_known_by_its_first_line() {
        assert_eq!(of("step,op,count,datatype\n1,Send,1,int8\n"), "csv");
        assert_eq!(of("\"op\",\"count\",\"datatype\"\n"), "csv");
        assert_eq!(of("{\"step\":1,\"op\":\"Send\"}\n"), "jsonl");
        assert_eq!(of("AllGather 8388608 bf16 16777216\n"), "chain");
        assert_eq!(of("h:1:2 [0] NCCL INFO AllReduce: opCount 0\n"), "log");
        assert_eq!(of(""), "log");
        assert_eq!(of("\n\nhello, world\n"), "log");
    }

    /// The row of a table has the source that the table was made from.
    #[test]
    fn the_column_src_names_the_formats_with_calls() {
        let formats = FORMATS.iter().map(|(format, _)| format);
        let with_calls = formats.chain([&log::FORMAT]).filter(|format| {
            format.tells.has(Provides::CALLS) && !CALL_TABLE_FORMATS.contains(&format.name)
        });
        let names: BTreeSet<&str> = with_calls.map(|format| format.name).collect();
        let meaning = MEANINGS[Column::src as usize];
        let words = meaning.strip_prefix("source: ").unwrap();
        let words: BTreeSet<&str> = words.split(", ").flat_map(|w| w.split(" or ")).collect();
        assert_eq!(names, words);
        assert!(find_parts_of_source(b"mpi").has(Provides::MPI));
        assert!(!find_parts_of_source(b"log").has(Provides::MPI));
    }

    #[test]
    fn what_may_have_step_lines_is_a_log_where_they_are_wanted() {
        let of = |needs| {
            let head = InputHead::from_bytes(b"epoch,rate,loss\n1,2,3\n");
            recognise_format(&head, needs).unwrap().format.name
        };
        assert_eq!((of(Provides::CALLS), of(Provides::STEP_LINES)), ("", "log"));
    }

    #[test]
    fn a_part_of_a_head_is_undecided_or_decides_as_the_head_does() {
        let trace = "{\"name\": \"Group\", \"cat\": \"GROUP\", \"ph\": \"b\", \"id\": 0, \"pid\": 7, \
                     \"tid\": 1, \"ts\": 46.244980, \"args\": {\"groupId\": 0}},\n";
        let ras = "NCCL version 2.28.9 compiled with CUDA 13.0\nCUDA runtime version 13000, driver \
                   version 13000\n\nJob summary\n===========\n";
        let texts: [&[u8]; 20] = [
            b"step,op,count,datatype\n1,Send,1,int8\n",
            b"{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":2.4}\n",
            b"[0] one\nh:1:2 [0] NCCL INFO x\n",
            b"[0.000492] MPI_Init: world_rank=0\n[0.000592] MPI_Init: world_rank=1\n",
            b"[0.000492] MPI_Init: world_rank=0\nh:1:2 [0] NCCL INFO x\n",
            b"epoch,rate,loss\n1,2,3\n2,3,4\n",
            b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01\n\npg_config}pg_status",
            b"{\n\"schemaVersion\": 1,\n\"traceEvents\": []\n}\n",
            trace.as_bytes(),
            ras.as_bytes(),
            b"Fri Nov 27 20:56:54 UTC 2026\n#0-0 (42f187a69ed99798) MISMATCH\n",
            b"NCCL version 2.21.5+cuda12.4\nh:1:2 [0] NCCL INFO x\n",
            b"{\n\"nccl_version\": \"2.28.9\",\n\"communicators_count\": 1\n\"communicators\": [\n]}\n",
            b"rank 3\nProcess 603: python3 train.py\nPython v3.12.3\n\nThread 603 (idle): \"M\"\n",
            b"[New LWP 604]\n\nThread 1 (Thread 0x7f00 (LWP 603)):\n#0  0x1 in f ()\n",
            b"Thread 0x00007f01 (most recent call first):\n  File \"a.py\", line 355 in wait\n",
            b"[  123.4] x\n[  123.5] NVRM: loading\nNov 27 20:56:54 n1 kernel: y\n",
            b"Nov 27 20:56:54 n1 python[81]: step 1\nNov 27 20:56:54 n1 kernel: y\nz\nz\nz\n",
            b"==============NVSMI LOG==============\n\nTimestamp : x\n",
            b"GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n",
        ];
        for text in texts {
            for needs in [Provides::CALLS, Provides::STEP_LINES] {
                let whole = recognise_format(&InputHead::from_bytes(text), needs).unwrap();
                for to in 0..text.len() {
                    let (bytes, end) = (&text[..to], HeadEnd::Open);
                    let part = recognise_format(&InputHead { bytes, end }, needs);
                    let is_equal = part.is_none_or(|part| part.format.what == whole.format.what);
                    assert!(is_equal, "{:?}", bytes.escape_ascii().to_string());
                }
            }
        }
        for bytes in [
            &b"W0101 launcher: started\n"[..],
            b"Nov 27 20:56:54 n1 python[81]: step 1\nNov 27 20:56:55 n1 python[81]: h:1:2 [0] NCCL INFO x\n",
            b"GPU 0: NVIDIA H100 (UUID: GPU-1)\nh:1:2 [0] NCCL INFO x\n",
        ] {
            let end = HeadEnd::Open;
            let log = InputHead { bytes, end };
            assert!(recognise_format(&log, Provides::CALLS).is_some());
        }
    }

    #[test]
    fn the_log_of_a_recorded_job_is_a_log() {
        let nccl = "h:1:2 [0] NCCL INFO Bootstrap\n";
        let mpi = "[0.000492] MPI_Init: world_rank=0\n";
        assert_eq!((of(mpi), of(&format!("{mpi}{mpi}{nccl}"))), ("mpi", "log"));
    }
}
