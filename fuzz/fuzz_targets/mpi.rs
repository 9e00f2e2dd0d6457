//! The MPI message logger's lines with any bytes in them: nothing panics, every line is accounted for, and no
//! more calls are read than lines could have.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::error::Result;
use nccl_pipe::formats::lines::{Options, RowVisitor};
use nccl_pipe::formats::{Provides, open};
use nccl_pipe::members::duplicate_inputs::DuplicateInputs;
use nccl_pipe::output::table::Row;
use nccl_pipe::source::{self, InputName};
use nccl_pipe_fuzz::adds_up;
use std::io::Write;
use tempfile::NamedTempFile;

const LOG: &str = "[0.000000] MPI_Init: world_rank=0
[0.000492] MPI_Allreduce: world_rank=0 comm_rank=0 comm_size=4 bytes=128 comm=0x5598e4b98480
[0.000608] MPI_Bcast: world_rank=0 comm_rank=0 comm_size=2 root=0 bytes=64 comm=0x5598f993e770
[0.000614] MPI_Allgather: world_rank=0 comm_rank=0 comm_size=4 send_bytes=64 recv_bytes=64 comm=0x44000000
[0.000949] MPI_Send: world_rank=0 comm_rank=0 -> dest=1 tag=7 bytes=16 comm=0x5598e4b98480
[0.000953] MPI_Sendrecv: world_rank=0 comm_rank=0 send-> dest=1 tag=3 send_bytes=64 ; recv<- source=3 tag=3 recv_bytes=64 comm=0x1
[0.010307] MPI_Finalize: world_rank=0
";

#[derive(Default)]
struct Counted(u64);

impl RowVisitor for Counted {
    fn visit_row(&mut self, row: &Row<'_>) {
        assert!(row.only_bytes.is_some() && row.rank.is_some());
        self.0 += 1;
    }
}

fn read(bytes: &[u8]) -> Result<()> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let origin = InputName::Path(file.path().to_owned());
    let known = open::open_input::<()>(&origin, source::Options::default(), Provides::CALLS)?;
    // The drawn bytes may hold most lines, of another format.
    if !known.provides(Provides::MPI) {
        return Ok(());
    }
    let (options, mut rows) = (
        Options {
            jobs: 2,
            strict: false,
        },
        0,
    );
    let sink = |part: Counted| {
        rows += part.0;
        Ok(())
    };
    let account = known.read_records(
        options,
        &mut DuplicateInputs::default(),
        Counted::default,
        |_| {},
        sink,
    )?;
    adds_up(&account);
    // A line is one call, or two.
    assert!(rows <= 2 * account.lines);
    Ok(())
}

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    let at = usize::from(at) % LOG.len();
    let behind = LOG.len().min(at + usize::from(drop));
    let changed = [&LOG.as_bytes()[..at], bytes, &LOG.as_bytes()[behind..]].concat();
    // It is known by most of its lines.
    let _ = read(&[LOG.repeat(3).as_bytes(), &changed].concat());
});
