//! Bytes in: a path, a folder, `-` or nothing becomes named inputs that hand out chunks.
//!
//! A plain file is memory-mapped. A file that cannot be mapped (gzip, zstd, UTF-16, any under `--no-mmap`) is
//! read in blocks of constant size, as often as needed; so is standard input that is a file, from its present
//! position. A pipe is opened once, and its first bytes can be examined before they are read (`pipe`).
//! Chunks end at line ends.
//!
//! Other processes may change a log while it is read. Appending is harmless: the map keeps its first
//! length. Truncating ends a program that has mapped the file, with a message of `guard`; under `--no-mmap` it
//! is damage. For two passes use [`Input::make_rewindable`]: the second pass sees what the first saw, or fails
//! (`change_check`). A packed file is read as far as it can be unpacked (`coded`). Many small files are read
//! by the workers that walk them (`small_files`), several at a time, since opening and mapping each one costs
//! more than reading it.

mod archive;
mod change_check;
mod chunks;
mod coded;
mod file_pattern;
mod growing;
mod guard;
mod input;
pub(crate) mod limits;
mod list;
mod manifest;
mod name;
mod named_parts;
pub mod part;
mod pipe;
mod read;
mod rejoin;
mod small_files;

pub use archive::unpack_command;
pub use chunks::{CutClassifier, CutPlace, FlushReason, InputChunk, InputChunks};
pub use coded::{UnpackDamage, contains_utf16_text, is_coded, is_packed};
pub use file_pattern::FilePattern;
pub use growing::growing_files::{AppendedBytes, GrowingFiles};
pub use growing::live_reader::ending_signal;
pub use guard::{name_program, program_name};
pub use input::{Input, InputBeginning, PipeCopy};
pub use limits::{INPUT_HEAD_BYTES, STDIO_BUFFER_BYTES};
pub use list::{InputListing, expand_paths};
pub use manifest::{InputDifferences, read_manifest};
pub use name::{FollowTargets, InputName, NamedPart};
pub use named_parts::{PART_ENDING, host_name};
pub use pipe::PipeSlot;
pub use pipe::spool::{NotedLines, PipeSpool};
pub(crate) use read::{FillEnd, fill_buffer, fill_until_idle, read_first_bytes, read_some};
pub(crate) use rejoin::RejoinCountsSlot;
pub use rejoin::{LineRejoiner, RejoinCounts};
pub use small_files::{SmallFileTexts, read_small_files};

/// How inputs are opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Map plain files (default). Without, every file is read in blocks.
    pub mmap: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { mmap: true }
    }
}

#[cfg(test)]
mod tests {
    use super::input::data::InputData;
    use super::*;
    use crate::error::Result;
    use std::fs::File;
    use std::io::{self, Read};

    use crate::log::mend::blocks::BLOCK_REJOINER;

    /// All bytes of a pass, by chunks or as a stream.
    fn pass(input: &Input, by_chunks: bool) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        if by_chunks {
            for chunk in input.open_chunks(1 << 20, |_, _| CutPlace::Quiet)? {
                let chunk = chunk?;
                chunk.check_unchanged()?;
                all.extend_from_slice(chunk.bytes());
            }
        } else {
            let mut reader = input.open_reader()?;
            reader
                .read_to_end(&mut all)
                .map_err(|e| input.origin.read_error(e))?;
        }
        Ok(all)
    }

    #[test]
    fn a_second_pass_sees_what_the_first_saw_or_is_an_error() {
        let lines = |seed: u64, n: u64| -> Vec<u8> {
            let line = |i: u64| {
                format!(
                    "line {i} {:x}\n",
                    (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                )
            };
            (0..n).flat_map(|i| line(i).into_bytes()).collect()
        };
        let log = lines(1, 150_000);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        for mmap in [true, false] {
            for (first, second) in [(true, true), (true, false), (false, false)] {
                let what = (mmap, first, second);
                let begin = || {
                    std::fs::write(&path, &log).unwrap();
                    let input = Input::open(
                        &InputName::Path(path.clone()),
                        Options { mmap },
                        BLOCK_REJOINER,
                    );
                    let input = input.unwrap().make_rewindable().unwrap();
                    assert!(pass(&input, first).unwrap() == log, "{what:?}");
                    input
                };
                let again = |input: &Input| pass(&input.share_input().unwrap(), second);
                let input = begin();
                assert!(again(&input).unwrap() == log, "{what:?}");
                // Grown.
                let mut file = File::options().append(true).open(&path).unwrap();
                io::Write::write_all(&mut file, &lines(2, 1000)).unwrap();
                assert!(again(&input).unwrap() == log, "{what:?}");
                // Written over; its size is as it was.
                let input = begin();
                let mut file = File::options().write(true).open(&path).unwrap();
                io::Write::write_all(&mut file, &lines(3, 150_000)).unwrap();
                assert!(again(&input).is_err(), "{what:?}");
                let part = input.mapped_range(1000, 2000);
                assert!(
                    part.is_err() || !mmap && matches!(part, Ok(None)),
                    "{what:?}"
                );
                // Replaced: a map is still of the old one.
                let input = begin();
                let other = dir.path().join("b.log");
                std::fs::write(&other, lines(4, 150_000)).unwrap();
                std::fs::rename(&other, &path).unwrap();
                assert_eq!(again(&input).is_ok(), mmap, "{what:?}");
                // Truncated; a map is ended by a signal then.
                if !mmap {
                    let input = begin();
                    file.set_len(0).unwrap();
                    std::fs::write(&path, &log[..log.len() / 2]).unwrap();
                    assert!(again(&input).is_err(), "{what:?}");
                }
            }
        }
    }

    #[test]
    fn a_small_input_at_rest_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        std::fs::write(&path, "a\nb\n").unwrap();
        let input = Input::open(
            &InputName::Path(path.clone()),
            Options::default(),
            BLOCK_REJOINER,
        )
        .unwrap();
        let input = input.make_rewindable().unwrap();
        pass(&input, true).unwrap();
        let input = input.release_map();
        assert!(matches!(input.data, InputData::Again(_)));
        assert_eq!(
            pass(&input.share_input().unwrap(), true).unwrap(),
            b"a\nb\n"
        );
        std::fs::write(&path, "a\n").unwrap();
        assert!(pass(&input.share_input().unwrap(), true).is_err());
    }
}
