//! Lines by which a launcher reports that it ends a job's processes, or that one of them failed.
//!
//! A job that is started again begins after them, so that the calls before, of a step that was
//! never over, are not its first step's.

use super::facts::RecordReader;
use super::parts::piece::LinePiece;
use super::{TrainerMark, TrainerRecord};

/// torchrun, to the siblings of a process that failed: `Sending process 785 closing signal SIGTERM`
/// (`torch/distributed/elastic/multiprocessing/api.py`, PyTorch 1.9 to 2.11).
const CLOSING_SIGNAL: &[u8] = b"signal SIG";
/// torchrun, of the process that failed: `failed (exitcode: 1) local_rank: 1 (pid: 786)` (same file).
const PROCESS_FAILED: &[u8] = b"failed (exitcode: ";
/// The end of `CANCELLED AT `; searching NCCL's lines for its beginning is slow.
/// Slurm: `slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2024-01-17T13:47:27 ***`; a job that is
/// requeued appends to the same file.
const CANCELLED: &[u8] = b"LLED AT ";

/// These words, each with the reader of the line around it.
pub(super) const LAUNCHER_ANCHORS: &[(&[u8], RecordReader)] = &[
    (CLOSING_SIGNAL, read_closing_signal),
    (PROCESS_FAILED, read_process_failed),
    (CANCELLED, read_slurm_cancelled),
];

/// The line around `hit`, to its end: nothing else is on it.
fn mark_job_end(piece: &LinePiece<'_>, hit: usize) -> TrainerRecord {
    TrainerRecord {
        start: hit,
        end: piece.text.len(),
        mark: TrainerMark::Ended,
    }
}

fn read_closing_signal(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    (piece.skip_word_back(b"closing ", hit) < hit).then(|| mark_job_end(piece, hit))
}

fn read_process_failed(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    Some(mark_job_end(piece, hit))
}

fn read_slurm_cancelled(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    (piece.skip_word_back(b"CANCE", hit) < hit).then(|| mark_job_end(piece, hit))
}

#[cfg(test)]
mod tests {
    use super::super::TrainerMark;
    use super::super::tests::found;

    #[test]
    fn what_ends_a_jobs_processes_is_a_mark() {
        for text in [
            "W1122 00:06:37.2 685 torch/x/api.py:1012] Sending process 785 closing signal SIGTERM",
            "E1122 00:06:37.5 685 x/api.py:986] failed (exitcode: -9) local_rank: 2 (pid: 16) of binary",
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2024-01-17T13:47:27 ***",
        ] {
            let all = found(text);
            assert_eq!((all.len(), all[0].mark), (1, TrainerMark::Ended), "{text}");
        }
    }
}
