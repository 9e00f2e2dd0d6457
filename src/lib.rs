//! nccl-pipe: programs for the logs NCCL leaves behind.
//!
//! Under `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL` NCCL prints a line for every call it is
//! given. The programs of this package turn such a log into numbers: which operations, how many,
//! how large, in which training step, on which communicator. Each does one thing, reads files or
//! standard input, writes a table, and says on stderr what it could not read. This page is the
//! manual of the whole; a program's flags and columns are in its `--help`.
//!
//! # The stages
//!
//! Everything is in this library; a program in `src/bin` is arguments and exit code. A stage has
//! a module in [`stages`], with plain `Options` and no knowledge of the command line.
//!
//! **nccl-steps** ([`stages::steps`]) finds the trainer's step lines and passes the lines of the
//! chosen steps, byte for byte, or gives one row a step.
//!
//! ```console
//! $ nccl-steps nccl.log --list
//! $ nccl-steps nccl.log --steps 45..49 --keep-init > part.log
//! ```
//!
//! **nccl-timing** ([`stages::timing`]) reads step time and TFLOP/s per GPU off the same lines.
//!
//! ```console
//! $ nccl-timing nccl.log --steps 45..49
//! $ nccl-timing nccl.log --per-step --format csv > steps.csv
//! ```
//!
//! **nccl-comms** ([`stages::comms`]) writes the call table: a row for every call, or with
//! `--unique` one for equal calls.
//!
//! ```console
//! $ nccl-comms nccl.log --steps 45..49 > calls.csv
//! $ nccl-comms nccl.log --unique --op AllGather,ReduceScatter --rank 0
//! ```
//!
//! **nccl-hist** ([`stages::hist`]), **nccl-ops** ([`stages::ops`]) and **nccl-agg**
//! ([`stages::agg`]) count calls by size bucket, by operation, and by distinct call. They take a
//! log or a call table, so a pipe can be cut anywhere: these three give the same bytes.
//!
//! ```console
//! $ nccl-hist nccl.log --steps 45..49
//! $ nccl-comms nccl.log --steps 45..49 | nccl-hist
//! $ nccl-steps nccl.log --steps 45..49 | nccl-comms --unique | nccl-hist
//! ```
//!
//! ```console
//! $ nccl-ops nccl.log --by step --basis wire
//! ```
//!
//! ```console
//! $ nccl-agg nccl.log --by comm_id
//! ```
//!
//! **nccl-communicators** ([`stages::communicators`]) says who is in a communicator, where its
//! ranks are, what it was split from, how long it took to make, and what it is for.
//!
//! ```console
//! $ nccl-communicators nccl.log
//! $ nccl-communicators logs/ --members --format csv > members.csv
//! ```
//!
//! **nccl-net** ([`stages::net`]) and **nccl-tuning** ([`stages::tuning`]) read NCCL's other lines:
//! what the job runs over and which hosts differ; which algorithm served which size.
//!
//! ```console
//! $ nccl-net nccl.log
//! $ nccl-net nccl.log --pairs
//! $ nccl-tuning nccl.log
//! ```
//!
//! **nccl-diff** ([`stages::diff`]) says what changed between two runs. It keeps in one walk what
//! the stages above keep, and holds the two against each other.
//!
//! ```console
//! $ nccl-diff before.log after.log --tolerance 1%
//! ```
//!
//! **nccl-check** ([`stages::check`]) says what is wrong with a job, with the lines that show it.
//!
//! ```console
//! $ nccl-check nccl.log
//! $ nccl-check logs/ --expect net=ib,gdr=on,mismatch=0
//! ```
//!
//! **nccl-synth** ([`synth`]) writes the log of a job that never ran, and the truth about it. The
//! tests and the benches hold every other program against that truth.
//!
//! ```console
//! $ nccl-synth --ranks 16 --nodes 2 --tp 4 --pp 2 --truth truth.json | nccl-hist
//! ```
//!
//! # The wire
//!
//! Between programs flows the call table: CSV with a header, or JSON lines. Columns are found by
//! name and new ones go last ([`output::table::COLUMNS`]). An empty field, in JSON null, means not known;
//! nothing is guessed. Texts are written as they are: a cell that begins with `=` is nobody's formula
//! here, and whoever opens the table in a spreadsheet imports its columns as text. A reader needs `op`, `count` and `datatype`, and makes do without the rest.
//! [`formats`] recognises an input by its first bytes, never by its name: a log, a call table in
//! either form, or the `op count datatype bytes` lines of the AWK chain.
//!
//! # How a log is read
//!
//! ```text
//! source ── chunks ──► scan, on all cores ──► merge, in order ──► rows
//!                      (grammar, a Visit)     (origin, join, timeline)
//! ```
//!
//! *Chunks.* [`source`] maps a file, or reads what cannot be mapped in blocks of constant size.
//! A chunk ends at a line end, and if one is near at a quiet place ([`formats::log::walk::quiet`]): where no
//! line before it waits for a piece behind it.
//!
//! *The walk.* [`formats::log::walk::scan`] goes through a chunk from one COLL body to the next
//! ([`grammar::coll::ANCHOR`]). A line that is a header met before and one whole body takes the
//! short way; every other line is looked at from all sides: step lines ([`grammar::trainer`]),
//! INIT lines (`grammar::message::communicator::init`), bodies glued behind other text, pieces of torn lines. Each
//! line is put into one class of the [`formats::account`], so that the classes add up to the lines. What
//! a stage keeps of the calls is its [`formats::log::walk::Visit`]; three stages share one, [`count::tally`].
//!
//! *Gaps.* The walk does not know steps. It numbers the gaps between marks, and a stage counts
//! by gap. A trainer prints its line when the step is over, so only when the log has been walked
//! can [`formats::log::timeline::resolve`] name each gap: a step's, between steps, behind the last. It chooses
//! among the shapes of step lines by the whole log, and `attempts` gives it the places where new
//! processes took over. This is why nccl-steps and nccl-comms walk a log twice and spool a pipe.
//!
//! *The merge.* Chunks are added in the order of the file, whatever thread was first, and so the
//! output does not depend on their number ([`pool::ordered`]). [`members`] gives hosts, processes
//! and communicators their final numbers and learns from INIT lines who is which rank.
//! [`formats::log::torn`] puts pieces of torn lines together where they fit with certainty, across chunks too;
//! pieces that find no other half are damaged.
//!
//! # Where to change what
//!
//! | to add | change |
//! |---|---|
//! | a trainer's step line | a file in `grammar/trainer` with its facts, its [`grammar::trainer::Trainer`] |
//! | what a step's time is where no line prints one | `formats/log/timeline/times.rs` |
//! | whose step lines count where there are several | `formats/log/timeline/choice.rs` |
//! | what tells a restart | `attempts`, and a launcher's words in `grammar/trainer/launcher.rs` |
//! | what is proposed where no step line is known | `propose` |
//! | a shape of NCCL's calls | [`grammar::coll`] or [`grammar::header`], and the same in [`synth`] |
//! | a shape of NCCL's other lines | its family's file in [`grammar::message`] |
//! | a word by which a job or a process ends | `grammar::ending` |
//! | who of several that ended failed first | `stages/check/log/first_failure.rs` |
//! | what shows that ranks stopped | `stages/check/ranks/stopped.rs` |
//! | what a WARN means | its row in `stages/check/warn/known/table.rs` |
//! | what stands around a line (JSON, HTML, CSV, colours) | a layer in `grammar::wrap` |
//! | a kind of damage | `formats/log/walk/line.rs` to see it, [`formats::log::torn`] to mend it, [`synth`] to make it |
//! | a fault of a made job | [`synth::fault`]; what its ranks then do, `synth/ahead` |
//! | how the ranks of a made job split a model | `synth/job/strategies.rs` |
//! | a way of packing | `source/packed.rs` |
//! | an input format | a file in [`formats`] that gives [`output::table::Row`]s, and its mark in [`formats::recognise`] |
//! | a column | [`output::table`], where it goes last |
//! | a grouping | [`count::groups::By`] and its flag in [`program::cli`] |
//! | something that [`stages::diff`] compares | its file there, and [`stages::diff::row::Aspect`] |
//! | a WARN body | `stages/check/warn/known/table.rs` |
//! | a finding | a file in [`stages::check`] that gives `stages::check::finding::Finding`s |
//! | a stage | a file in [`stages`], a program in `src/bin`, its goldens in `tests/it` |
//! | what a person is told | [`report`] |
//!
//! # What real jobs showed
//!
//! `testdata/captured` holds logs of real jobs with what each job recorded of its own calls where
//! they enter NCCL (PyTorch's flight recorder; for JAX and CUDA graphs a library in between). Held against that
//! record (`tests/it/real/captured.rs`, `captured_tables.rs`, and for what went wrong `check.rs`):
//!
//! - **Every call is found**, with its elements, datatype, communicator and rank: in all logs
//!   whose lines are whole, torn or cut into blocks nothing is lost or beyond the record. PyTorch 2.11 hands an
//!   all-to-all with even splits to NCCL 2.28 as one AlltoAll, one with uneven splits as a Send and
//!   a Recv for each peer.
//! - **Position is not always the step.** NCCL prints when a rank enqueues, the trainer when its
//!   printing rank is done, and other ranks are then already in the next step. Where the step ends
//!   with a call of all ranks and the host waits for it, position is exact (`ddp`, `3d`, `pp`). In
//!   `fsdp` 4 % of the calls stand in the step before theirs, in `tp-stamps` 5 %, in `lightning`
//!   7 %; where every rank prints (`torchtitan`) 0.2 % stand in the step behind. The log itself
//!   tells: members of a communicator make the same calls in the same order, so a call is in the step
//!   in which the rank that prints makes the same one ([`placement`]).
//! - **`torchrun --tee` shuffles.** It polls one file a rank; calls land up to eight steps off
//!   (`ddp-tee`).
//! - **`python -u` keeps NCCL's lines whole.** It takes the buffer off C's standard output too.
//!   Without it, and several ranks on one file, each process writes blocks of 4,096 bytes that end
//!   anywhere; half lines of different ranks then meet, and a count may be glued to another
//!   (`ddp-buffered`). Such a log is recognised and its lines are put together again.
//! - **One `NCCL_DEBUG_FILE` for all ranks** leaves a quarter of four ranks' calls (`ddp-shared`).
//! - **NCCL 2.30.7 tears lines at byte 128** on an unbuffered pipe, one in 200 with four ranks that
//!   log at full speed. Two beginnings may stand before their two ends, an end behind another's
//!   beginning, the tear in the address by which an end is known: all are joined (`tp-torn`).
//! - **A CUDA graph** shows its calls once, when it is captured; its replays show none (`graph`). PyTorch's own recorder
//!   leaves out even these.
//! - **JAX** sums all gradients and the loss in one AllReduce a step (`jax`): its line, one step late, is put right.
//! - **A rank that stalls comes back** (`ddp-stall`): a minute later it makes its calls, waits in vain itself, and its watchdog
//!   speaks of a later call. What ranks say of how far they are is then of two moments.
//! - **An evaluation** of Megatron-LM is half as many calls as a step's; it belongs to no step.
//! - Hugging Face's Trainer gathers the loss after its bar has moved on, so these calls count to the
//!   next step; its version 5 prints the values of its dictionary as strings.
//!
//! # How ranks are held against each other
//!
//! Members of a communicator make the same collectives in the same order. So of each member's
//! calls only a running hash is kept, and what it was behind every 256 calls: 8 bytes for 256 calls.
//! Equal hashes are equal calls, and the log is done. Else the first block that differs is read
//! again, with the lines. That ranks are at different calls where a log ends is no fault: jobs are killed,
//! and logs copied while they run. It is one where a line reports a failure, or where ranks are further
//! behind and silent for longer than any was before. Who is to blame, of ranks that stopped: the one that is behind somebody
//! and ahead of nobody. A rank that left out a Send is told from one that stopped by its own
//! rhythm: the distances between its calls to that peer come again and again, and where one is
//! missing two of them are one. In real hung jobs (`testdata/captured/ddp-*`) ranks go on after
//! PyTorch's watchdog spoke; what they do then is left out.
//!
//! Up to NCCL 2.17, and where only calls are logged, no line says which addresses are one communicator. Where
//! each of the log's N processes uses one of N ranks, they are: a second would have no members. That is as
//! sure as it is that the log has all ranks, so nothing found by it is quite sure (`stages/check/ranks/unnamed_communicators.rs`).
//!
//! # Where the time goes
//!
//! Of `nccl-hist -j1` over a log of 1 GB (5.5 million calls, 75 ns each) about 55 % is the walk
//! over the lines, 15 % the counting, 10 % the kernel's mapping of pages, 3 % the interning of
//! operations, 4 % what each chunk and the merge do once. What brought the walk there, largest
//! first:
//!
//! - **No search in the common line** ([`grammar::hot`]): the closing bracket of the header is
//!   looked for where it stood on the line before, the header is found by its pid and thread in a
//!   small table and compared whole, and the operation follows it. A search for `: opCount ` and
//!   back to the line's start took longer than all of it.
//! - **Usual lengths first**: a pointer of twelve digits ends where it always ends. Its digits are
//!   still checked, but the next field is read without waiting for them.
//! - **What a stage does not ask for is not read**: the call is inlined into each stage's walk, so
//!   that a stream's address is checked and not converted where no column shows it.
//! - **Short records**: counting touches the place of a key and its 64-bit sums; 128-bit sums
//!   come at the merge, or where 64 bits would not do.
//! - **Chunks of up to 32 MB** of large files: what a chunk learns anew (headers, members, keys)
//!   was a tenth of the time at 4 MB.
//! - **`MADV_POPULATE_READ`** for each chunk halves the page faults' time.
//!
//! The call table (`nccl-comms -j1`, 1.07 GB of log to 0.75 GB of CSV) is for 20 % the first walk,
//! 20 % the second, 35 % the making of text, 20 % the kernel's copy of it. What brought it there:
//!
//! - **Blocks of about 140 kB** from the row to the kernel: text is written while it is in the
//!   core's own cache, into memory that is used again. Blocks of 1 MB and more took the kernel
//!   four times as long, and new memory for each a fault for every page.
//! - **Text that comes again is copied**: who speaks is written out once for a log, what a call is
//!   once for a block ([`stages::comms`]).
//! - **No rounds**: chunks to walk and blocks to make into text are handed to the same threads, so
//!   that none waits for the others to end a round; pools of threads are kept ([`pool`]).
//!
//! With two threads all that costs what it costs with one, which it did not:
//!
//! - **Memory of a chunk's calls is used again**: a megabyte that one thread allocates and another
//!   frees goes back to the kernel, and the next chunk's is faulted in anew (90,000 page faults
//!   more than with one thread, a quarter of the kernel's time).
//! - **Who has the next block writes it** ([`pool::in_turn`]): a thread of its own for the writing
//!   is one more than there are cores, and copies what lies in another core's cache.
//!
//! Rows by groups (`--by step,comm`: 0.9 million rows for 5.5 million calls) are not built, and
//! nothing of them is put in order before they are written: to gather and to sort the cells was
//! half of the run, and on one core. A chunk keeps its keys' numbers from step to step, so that to
//! begin a step costs nothing, and leaves short records ([`count::tally`]); only the keys, a few hundred,
//! are sorted; a few steps at a time are then gathered, put in the keys' order and made into text on
//! all cores, in memory that is used again ([`count::cells`], [`count::groups`]). The steps of a job are alike:
//! where a group's calls are those that it had in another step, the text of its rows is copied and
//! only the columns in front are new ([`output::render::Sink`]). A count takes 16 bytes where all its calls
//! are of one size, which saved half of the page faults. Of the processors' time the plain run
//! takes 1, to count every step, to gather it and to write its rows (100 MB) 0.15 more, where to
//! make each row anew took 0.3 (170 ns each). To read a step's counts in place, and not to copy
//! them before they are sorted, gave
//! nothing. The percentiles of nccl-ops are counted off the sorted sizes: an hdrhistogram for each
//! row took 24 GB and, emptied and used again, 15 times as long as the walk.
//!
//! A call table is read a line at a time on one core: commas are found eight bytes at a time, and
//! no line is searched for quotes where the megabyte around it has none.
//!
//! 10,000 files of 100 kB take 1.3 to 1.4 times what their bytes take in one. A worker reads
//! some of them one behind the other and walks them as one chunk, so that tables, keys and the
//! merge cost once what they cost for each file ([`formats::log::walk::together`]); only what a torn line is in,
//! or a step line where steps are told apart, is walked file by file. A folder says which of its entries are
//! plain files, so that no path is looked up twice. What is left is the kernel's: its copy of what
//! is read takes 0.45 of the time that the one file takes, mapping that 0.1, opening and closing
//! 0.05.
//!
//! On a damaged log (NCCL 2.29, 2 % torn) a line behind a torn one is what it looks like where its
//! process was seen to use the communicator, in the same chunk and for certain; else it is left
//! to the merge without being looked at from all sides. What a joined line says is read once.
//!
//! What did not pay: hashing the whole header text for each line; one hash table of all of a
//! key's fields; converting with a table of hexadecimal digits; mapping small files (with two
//! threads each unmapping stops the other core, three times the time of reading; to leave them
//! mapped takes as long as to read them); reading them without their access time, or in pieces of
//! 16 kB; to have the workers merge small files in turn instead of a thread that does only that;
//! inserting joined calls one by one into a chunk's list (it was ten times the walk).
//!
//! # Limits
//!
//! - A log has no durations: NCCL prints a call when it is enqueued.
//! - Which step a call belongs to is decided by position. Other ranks than the one that prints
//!   the step lines may be ahead of it or behind.
//! - Memory grows with the number of distinct things (communicators, sizes, steps when they are
//!   told apart), not with the number of calls. Of a line of more than 16 MiB the rest is left out,
//!   counted and said.
//! - Counts are exact up to 2^64-1, sums of bytes are 128 bits wide. Percentiles have three
//!   significant digits.
//! - A mapped file that is truncated while it is read ends the program with a message and code
//!   2; `--no-mmap` is immune, but for programs that read twice: see [`source`].
//! - Two inputs that hold the same calls are warned of by a few places of each ([`members::twice`]), not by all
//!   of their bytes: a part of a log without step lines is not recognised.
//! - Only [`source`] has `unsafe` code.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod count;
pub mod error;
pub mod formats;
pub mod grammar;
pub mod members;
pub mod output;
pub mod pool;
pub mod program;
pub mod report;
pub mod source;
pub mod stages;
pub mod synth;
