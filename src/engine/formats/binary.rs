//! Files that are not text. They are recognised by their first bytes and refused.

use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::source::limits::MIN_HOLE_BYTES;
use crate::source::program_name;
use memchr::memmem;
use std::ffi::OsStr;
use std::path::Path;

/// A kind of file that begins with `magic`.
macro_rules! magic {
    ($magic:literal, $what:literal) => {
        InputFormat {
            name: "",
            what: $what,
            tells: Provides::NOTHING,
            probe: |head| ProbeAnswer::yes_or_no(head.bytes.starts_with($magic)),
        }
    };
}

/// A report of `nsys profile`. Users must export it.
pub(super) const REPORT: InputFormat = InputFormat {
    name: "report",
    what: "an Nsight Systems report",
    tells: Provides::NOTHING,
    probe: |head| ProbeAnswer::yes_or_no(head.bytes.starts_with(b"NVIDIA Tegra Profiler Report")),
};

/// True for the name of a report of `nsys profile`.
pub(super) fn has_report_name(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| ["nsys-rep", "qdrep"].contains(&ending))
}

/// The command that makes `file`, which has this format, readable, after a colon; empty if there is none.
pub(super) fn advice(format: &InputFormat, file: &str) -> String {
    let unpacked = |by: &str| format!(": {by} {file} | {} -", program_name());
    match format.what {
        what if what == ZIP.what => unpacked("unzip -p"),
        what if what == BZIP2.what => unpacked("bzip2 -dc"),
        what if what == XZ.what => unpacked("xz -dc"),
        what if what == SQLITE.what => {
            ", or an export of Nsight Systems: nsys export --type sqlite \
                                        --include-blobs=true REPORT"
                .to_owned()
        }
        _ => String::new(),
    }
}

pub(super) const ELF: InputFormat = magic!(b"\x7fELF", "an ELF program or library");
/// A database that is no export of Nsight Systems.
pub(super) const SQLITE: InputFormat = InputFormat {
    name: "",
    what: "an SQLite database",
    tells: Provides::NOTHING,
    probe: |head| head.yes_once_closed(head.bytes.starts_with(super::nsys::SQLITE_MAGIC)),
};
pub(super) const ZIP: InputFormat = magic!(b"PK\x03\x04", "a zip archive");
pub(super) const BZIP2: InputFormat = magic!(b"BZh", "a bzip2 file");
pub(super) const XZ: InputFormat = magic!(b"\xfd7zXZ\0", "an xz file");
pub(super) const PNG: InputFormat = magic!(b"\x89PNG", "a picture");
pub(super) const PARQUET: InputFormat = magic!(b"PAR1", "a Parquet file");
pub(super) const NUMPY: InputFormat = magic!(b"\x93NUMPY", "a NumPy array");

/// Any pickle.
pub(super) const PICKLE: InputFormat = InputFormat {
    name: "",
    what: "a Python pickle",
    tells: Provides::NOTHING,
    probe: |head| head.yes_once_closed(is_pickle(head)),
};

/// Anything else that is no text.
pub(super) const OTHER: InputFormat = InputFormat {
    name: "",
    what: "a binary file",
    tells: Provides::NOTHING,
    probe: |head| head.yes_once_closed(is_binary(head.bytes)),
};

pub(super) fn is_pickle(head: &InputHead<'_>) -> bool {
    matches!(head.bytes, [0x80, 2..=5, ..])
}

/// Returns true for binary data. A NUL alone proves nothing, and a hole still less.
fn is_binary(head: &[u8]) -> bool {
    // Checked first: the first line of most logs has it.
    if memmem::find(head, b"NCCL").is_some() {
        return false;
    }
    let runs = head.chunk_by(|a, b| (*a == 0) == (*b == 0));
    let is_hole = |run: &&[u8]| run.len() >= MIN_HOLE_BYTES && run[0] == 0;
    let written: Vec<&[u8]> = runs.filter(|run| !is_hole(run)).collect();
    let head = match written.is_empty() {
        true => head,
        false => &written.concat(),
    };
    let is_strange = |b: &&u8| **b < 0x20 && !b"\t\n\r\x0c\x1b\x08".contains(b);
    let mut strange = head.iter().filter(is_strange).count();
    // Numbers and packed bytes; text in another encoding has no NUL.
    if head.contains(&0) {
        let invalid = head.utf8_chunks().map(|part| part.invalid().len());
        strange += invalid.sum::<usize>();
    }
    strange > head.len() / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Option<&'static str> {
        let head = InputHead::from_bytes(bytes);
        let format = crate::formats::recognise_format(&head, Provides::CALLS)?.format;
        (format.name != "log").then_some(format.what)
    }

    #[test]
    fn binary_is_told_from_a_log_with_holes() {
        assert!(kind(b"\x7fELF\x02\x01").is_some());
        assert!(kind(&[0; 4096]).is_some());
        assert!(kind(b"\x80\x04\x95\x0c\0\0\0torch.Tensor and what else is text in it").is_some());
        let floats: Vec<u8> = (0..4000_u16)
            .flat_map(|i| (f32::from(i) / 7.0).to_le_bytes())
            .collect();
        assert!(kind(&floats).is_some());
        let mut packed = vec![0_u8; 4096];
        (0..4096_u32)
            .for_each(|i| packed[i as usize] = (i.wrapping_mul(2_654_435_761) >> 24) as u8);
        assert!(kind(&packed).is_some());
        assert!(kind(&[&b"loss "[..], &[0xca, 0xfd, 0xbe, 0xdd].repeat(100)].concat()).is_none());
        let mut holes = vec![0; 1000];
        holes.extend_from_slice(b"h:1:2 [0] NCCL INFO x\n");
        assert!(kind(&holes).is_none());
        let trainer = [&b"epoch 1 done\n"[..], &[0; 9000], b"\nepoch 2 done\n"].concat();
        assert!(kind(&trainer).is_none());
        assert!(kind("步骤 1 loss 2\r\n".as_bytes()).is_none());
        assert!(kind(b"").is_none());
    }

    #[test]
    fn databases_and_pickles_are_known_by_what_is_in_them() {
        let database = |table: &str| {
            [
                crate::formats::nsys::SQLITE_MAGIC,
                b"CREATE TABLE ",
                table.as_bytes(),
            ]
            .concat()
        };
        let nsys = crate::formats::nsys::FORMAT.what;
        assert_eq!(kind(&database("TARGET_INFO_GPU")), Some(nsys));
        assert_eq!(kind(&database("users")), Some("an SQLite database"));
        let pickle = b"\x80\x04\x95}(\x8c\x07version\x8c\x032.4\x8c\tpg_config}\x8c\x07entries]";
        assert_eq!(kind(pickle), Some(crate::formats::flight::PICKLE.what));
        assert_eq!(
            kind(b"\x80\x04\x95}(\x8c\x05model"),
            Some("a Python pickle")
        );
    }
}
