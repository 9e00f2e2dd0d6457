//! Versions of NCCL, RCCL and what they run on.
//!
//! ```text
//! NCCL version 2.29.2+cuda13.1              no header of its own before 2.27
//! NCCL version 2.32.3 compiled with CUDA 12.9      the same, as RAS prints it
//! NCCL git version stable 07fa371c7
//! cudaDriverVersion 13010
//! RCCL version : 2.27.7-HEAD:0d2c4fd        its block: HIP, ROCm, Hostname, Librccl path
//! ROCr version 1.15
//! NET/OFI Using aws-ofi-nccl 1.6.0          aws-ofi-nccl
//! NET/OFI Using Libfabric version 1.21
//! ```
//!
//! From `showVersion` and `ncclInit` in `src/init.cc`, RCCL's `src/init.cc` and aws-ofi-nccl's
//! `src/nccl_ofi_net.c`.

use crate::token::{dec_u32, whole};
use memchr::memmem::{self, Finder};
use std::sync::LazyLock;

/// One version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentVersion<'a> {
    /// Of what.
    pub of: Component,
    /// As printed: `2.29.2+cuda13.1`, `13010`.
    pub text: &'a [u8],
}

/// What a version is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// NCCL, with the CUDA version it was built for.
    Nccl,
    /// NCCL's branch and commit.
    NcclGit,
    /// RCCL.
    Rccl,
    /// The CUDA driver.
    CudaDriver,
    /// The CUDA runtime.
    CudaRuntime,
    /// HIP.
    Hip,
    /// ROCm.
    Rocm,
    /// ROCr, the runtime under HIP.
    Rocr,
    /// The operating system's kernel.
    Kernel,
    /// The plugin aws-ofi-nccl.
    AwsOfi,
    /// Libfabric, under aws-ofi-nccl.
    Libfabric,
    /// The host that RCCL's version block names.
    Host,
    /// The file RCCL was loaded from.
    RcclPath,
}

const VERSION_SHAPES: [(&[u8], Component); 18] = [
    (b"NCCL version ", Component::Nccl),
    (b"NCCL git version ", Component::NcclGit),
    (b"RCCL version : ", Component::Rccl),
    (b"RCCL version ", Component::Rccl),
    (b"cudaDriverVersion ", Component::CudaDriver),
    (b"cudaRuntimeVersion ", Component::CudaRuntime),
    (b"CUDA Runtime version ", Component::CudaRuntime),
    (b"CUDA Driver version ", Component::CudaDriver),
    (b"HIP version  : ", Component::Hip),
    (b"ROCm version : ", Component::Rocm),
    (b"ROCr version ", Component::Rocr),
    (b"hipDriverVersion ", Component::Hip),
    (b"Kernel version: ", Component::Kernel),
    (b"NET/OFI Initializing aws-ofi-nccl ", Component::AwsOfi),
    (b"NET/OFI Using aws-ofi-nccl ", Component::AwsOfi),
    (b"NET/OFI Using Libfabric version ", Component::Libfabric),
    (b"NET/OFI Using CUDA driver version ", Component::CudaDriver),
    (
        b"NET/OFI Using CUDA runtime version ",
        Component::CudaRuntime,
    ),
];

/// Lines of RCCL's block that are no versions.
const RCCL_BLOCK_OTHER_LINES: [(&[u8], Component); 2] = [
    (b"Hostname     : ", Component::Host),
    (b"Librccl path : ", Component::RcclPath),
];

/// NCCL's version, and the CUDA version that it was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NcclBuild<'a> {
    /// `2.29.2`.
    pub nccl: &'a [u8],
    /// `13.1`, if it is printed.
    pub cuda: Option<&'a [u8]>,
}

impl<'a> ComponentVersion<'a> {
    /// Splits NCCL's version from the CUDA version after it.
    pub fn nccl_build(&self) -> NcclBuild<'a> {
        for between in [&b"+cuda"[..], b" compiled with CUDA "] {
            if let Some(at) = memmem::find(self.text, between) {
                let cuda = &self.text[at + between.len()..];
                let end = memchr::memchr(b' ', cuda).unwrap_or(cuda.len());
                return NcclBuild {
                    nccl: self.text[..at].trim_ascii_end(),
                    cuda: (end > 0).then_some(&cuda[..end]),
                };
            }
        }
        NcclBuild {
            nccl: self.text,
            cuda: None,
        }
    }

    /// CUDA's major and minor number, of the driver's or runtime's `13010`.
    pub fn cuda(&self) -> Option<(u32, u32)> {
        match self.of {
            Component::CudaDriver | Component::CudaRuntime => {
                let n = whole(dec_u32(self.text))?;
                Some((n / 1000, n % 1000 / 10))
            }
            _ => None,
        }
    }
}

/// A version, from a message or from a line that has no header.
pub fn parse_version(body: &[u8]) -> Option<ComponentVersion<'_>> {
    let shapes = VERSION_SHAPES.iter().chain(&RCCL_BLOCK_OTHER_LINES);
    let (text, of) = shapes
        .map(|&(start, of)| (body.strip_prefix(start), of))
        .find_map(|(text, of)| Some((text?.trim_ascii(), of)))?;
    // Processes that share a pipe glue their lines.
    let text = memmem::find(text, b"NCCL version ").map_or(text, |at| &text[..at]);
    let number = text.first().is_some_and(u8::is_ascii_digit);
    let prose = matches!(
        of,
        Component::NcclGit | Component::Host | Component::RcclPath
    );
    (number || (prose && !text.is_empty())).then_some(ComponentVersion { of, text })
}

/// A version on a line without a header, after a launcher's label: ` 0: NCCL version 2.18.5`, or a
/// line [`parse_rccl_block_version`].
pub fn parse_headerless_version(line: &[u8]) -> Option<ComponentVersion<'_>> {
    static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"CCL version "));
    if let Some(at) = NAME.find(line).and_then(|at| at.checked_sub(1)) {
        return match line[at] {
            b'N' => parse_version(&line[at..]),
            b'R' if is_label(&line[..at]) => parse_version(&line[at..]),
            _ => None,
        };
    }
    parse_rccl_block_version(line)
}

/// A line of RCCL's version block (`src/init.cc` of RCCL 2.18 and later).
pub fn parse_rccl_block_version(line: &[u8]) -> Option<ComponentVersion<'_>> {
    static COLON: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" : "));
    let end = COLON.find(line)? + b" : ".len();
    let names = VERSION_SHAPES
        .iter()
        .chain(&RCCL_BLOCK_OTHER_LINES)
        .map(|&(start, _)| start);
    let name = names
        .filter(|name| name.ends_with(b" : "))
        .find(|name| line[..end].ends_with(name))?;
    let at = end - name.len();
    is_label(&line[..at]).then(|| parse_version(&line[at..]))?
}

/// True where a launcher's label may end.
fn is_label(before: &[u8]) -> bool {
    matches!(
        before.last(),
        None | Some(b' ' | b'\t' | b':' | b'>' | b']' | b'|')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_given_as_printed() {
        let of = |text: &'static str| parse_version(text.as_bytes()).unwrap();
        assert_eq!(of("NCCL version 2.29.2+cuda13.1").text, b"2.29.2+cuda13.1");
        assert_eq!(of("NCCL git version stable 07fa").of, Component::NcclGit);
        assert_eq!(
            of("RCCL version : 2.27.7-HEAD:0d2c").text,
            b"2.27.7-HEAD:0d2c"
        );
        assert_eq!(of("cudaDriverVersion 12040").cuda(), Some((12, 4)));
        assert_eq!(of("NET/OFI Using aws-ofi-nccl 1.6.0").of, Component::AwsOfi);
        assert_eq!(of("HIP version  : 6.4.43482-0f2d").of, Component::Hip);
        assert_eq!(of("Librccl path : /opt/x.so").of, Component::RcclPath);
        assert_eq!(parse_version(b"NCCL version mismatch"), None);
        assert_eq!(parse_version(b"NCCL version "), None);
    }

    #[test]
    fn the_cuda_version_is_taken_off_nccls() {
        for (text, nccl, cuda) in [
            ("NCCL version 2.29.2+cuda13.1", "2.29.2", Some("13.1")),
            (
                "NCCL version 2.32.3 compiled with CUDA 12.9",
                "2.32.3",
                Some("12.9"),
            ),
            (
                "NCCL version 2.32.3 compiled with CUDA ",
                "2.32.3 compiled with CUDA",
                None,
            ),
            ("NCCL version 2.4.8", "2.4.8", None),
        ] {
            let build = parse_version(text.as_bytes()).unwrap().nccl_build();
            let cuda = cuda.map(str::as_bytes);
            assert_eq!((build.nccl, build.cuda), (nccl.as_bytes(), cuda), "{text}");
        }
    }

    #[test]
    fn glued_and_labelled_lines_keep_one_version() {
        let glued =
            parse_headerless_version(b" 0: NCCL version 2.7.8+cuda10.2NCCL version 2.7.8+cuda10.2");
        assert_eq!(glued.unwrap().text, b"2.7.8+cuda10.2");
        assert_eq!(parse_headerless_version(b"step 1"), None);
        for label in ["", "0: ", " 12: ", "[1,3]<stdout>:", "(Worker pid=5) "] {
            for (line, text) in [
                ("RCCL version : 2.22.3-HEAD:0123abc", "2.22.3-HEAD:0123abc"),
                (
                    "RCCL version 2.13.4+hip5.7 HEAD:0123abc",
                    "2.13.4+hip5.7 HEAD:0123abc",
                ),
                ("HIP version  : 6.4.43482-0f2d60242", "6.4.43482-0f2d60242"),
                (
                    "Librccl path : /opt/rocm/lib/librccl.so.1",
                    "/opt/rocm/lib/librccl.so.1",
                ),
            ] {
                let line = format!("{label}{line}");
                let version = parse_headerless_version(line.as_bytes());
                assert_eq!(version.map(|v| v.text), Some(text.as_bytes()), "{line}");
            }
        }
        for prose in [
            "the RCCL version of ROCm",
            "myRCCL version 2.1",
            "CCL version 2",
            "loss : 5",
        ] {
            assert_eq!(parse_headerless_version(prose.as_bytes()), None, "{prose}");
        }
    }
}
