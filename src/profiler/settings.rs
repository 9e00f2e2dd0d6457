//! What the environment asks for.

use crate::system;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Kinds of NCCL's events, as bits of its mask (`nccl_profiler.h` of NCCL 2.30).
pub(crate) mod mask {
    pub(crate) const COLL: u32 = 1 << 1;
    pub(crate) const P2P: u32 = 1 << 2;
    pub(crate) const PROXY_OP: u32 = 1 << 3;
    pub(crate) const PROXY_STEP: u32 = 1 << 4;
    pub(crate) const KERNEL_CH: u32 = 1 << 6;
    pub(crate) const COLL_API: u32 = 1 << 9;
    pub(crate) const P2P_API: u32 = 1 << 10;
    pub(crate) const CE_COLL: u32 = 1 << 12;
    /// All kinds that can be recorded.
    pub(crate) const KNOWN: u32 =
        COLL | P2P | PROXY_OP | PROXY_STEP | KERNEL_CH | COLL_API | P2P_API | CE_COLL;
    /// Calls, by the interface that has these kinds.
    const CALLS: u32 = COLL | P2P;
    const CALLS_V5: u32 = CALLS | COLL_API | P2P_API;
    const CALLS_V6: u32 = CALLS_V5 | CE_COLL;

    pub(super) fn of_calls(interface: u32) -> u32 {
        match interface {
            0..=4 => CALLS,
            5 => CALLS_V5,
            _ => CALLS_V6,
        }
    }
}

/// The name of a file where none is given.
const DEFAULT_PATTERN: &str = "nccl-%h-%p.ncclrec";

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The file's name before `%h`, `%p` and `%r` are replaced.
    pattern: Vec<u8>,
    /// The mask that NCCL gets.
    pub(crate) event_mask: u32,
    /// What was asked for and is not done.
    pub(crate) refused: Option<String>,
}

impl Settings {
    /// Reads the settings of a version of the interface.
    pub(crate) fn read(interface: u32) -> Settings {
        Settings::from_values(interface, |name| env::var_os(name))
    }

    fn from_values(interface: u32, get: impl Fn(&str) -> Option<OsString>) -> Settings {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let mut refused = None;
        let events = get("NCCL_PIPE_EVENTS");
        let more = match events.as_deref().map(|value| value.as_bytes()) {
            None | Some(b"calls") => 0,
            Some(b"gpu") => mask::KERNEL_CH,
            Some(b"proxy") => mask::PROXY_OP,
            Some(b"steps") => mask::PROXY_OP | mask::PROXY_STEP,
            Some(_) => {
                refused = Some(
                    "NCCL_PIPE_EVENTS is calls, gpu, proxy or steps: calls are recorded".to_owned(),
                );
                0
            }
        };
        let asked = get("NCCL_PROFILE_EVENT_MASK").and_then(|value| parse_number(value.as_bytes()));
        let mut event_mask = mask::of_calls(interface) | more;
        if let (Some(asked), None) = (asked, &events) {
            event_mask = asked & mask::KNOWN;
            if asked != event_mask {
                let unknown = asked & !mask::KNOWN;
                refused = Some(format!(
                    "events {unknown:#x} of NCCL_PROFILE_EVENT_MASK are not recorded"
                ));
            }
        }
        let example = || {
            let mut pattern = get("NCCL_PROFILE_DUMP_FILE")?.into_vec();
            pattern.push(b'-');
            pattern.extend_from_slice(DEFAULT_PATTERN.as_bytes());
            Some(pattern)
        };
        let own = get("NCCL_PIPE_RECORD").map(OsString::into_vec);
        let pattern = own
            .or_else(example)
            .unwrap_or_else(|| DEFAULT_PATTERN.into());
        Settings {
            pattern,
            event_mask,
            refused,
        }
    }

    /// Returns the path of the file: `%h` is the host, `%p` the process, `%r` the job's rank. A folder gets a file
    /// of the usual name.
    pub(crate) fn make_path(&self) -> PathBuf {
        let mut pattern = self.pattern.clone();
        let path = Path::new(std::ffi::OsStr::from_bytes(&pattern));
        if pattern.ends_with(b"/") || path.is_dir() {
            pattern.push(b'/');
            pattern.extend_from_slice(DEFAULT_PATTERN.as_bytes());
        }
        let rank = read_rank().map_or_else(|| "unknown".to_owned(), |rank| rank.to_string());
        let (host, pid) = (system::read_host_name(), std::process::id().to_string());
        PathBuf::from(OsString::from_vec(replace(&pattern, &host, &pid, &rank)))
    }
}

fn replace(pattern: &[u8], host: &[u8], pid: &str, rank: &str) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), pattern.iter());
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'h')) => out.extend_from_slice(host),
            (b'%', Some(b'p')) => out.extend_from_slice(pid.as_bytes()),
            (b'%', Some(b'r')) => out.extend_from_slice(rank.as_bytes()),
            (b'%', Some(b'%')) => out.push(b'%'),
            _ => {
                out.push(byte);
                continue;
            }
        }
        bytes.next();
    }
    out
}

/// Reads a decimal number, or a hexadecimal one with `0x`.
fn parse_number(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the job's rank as launchers give it: torchrun, Open MPI, Slurm, MPICH.
pub(crate) fn read_rank() -> Option<u32> {
    read_first(&["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"])
}

/// Returns the number of the job's ranks, likewise.
pub(crate) fn read_world_size() -> Option<u32> {
    read_first(&[
        "WORLD_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "SLURM_NTASKS",
        "PMI_SIZE",
    ])
}

fn read_first(names: &[&str]) -> Option<u32> {
    names
        .iter()
        .find_map(|name| parse_number(env::var_os(name)?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(interface: u32, values: &[(&str, &str)]) -> Settings {
        let find = |name: &str| values.iter().find(|(known, _)| *known == name);
        Settings::from_values(interface, |name| find(name).map(|(_, value)| value.into()))
    }

    #[test]
    fn each_interface_gets_the_events_that_it_has() {
        assert_eq!(of(1, &[]).event_mask, 6);
        assert_eq!(of(5, &[]).event_mask, 6 | 0x600);
        assert_eq!(
            of(6, &[("NCCL_PIPE_EVENTS", "gpu")]).event_mask,
            6 | 0x1600 | 64
        );
        assert!(of(4, &[("NCCL_PIPE_EVENTS", "all")]).refused.is_some());
    }

    #[test]
    fn the_example_plugins_variables_are_honoured() {
        let settings = of(
            4,
            &[
                ("NCCL_PROFILE_EVENT_MASK", "0x2f"),
                ("NCCL_PROFILE_DUMP_FILE", "d/trace"),
            ],
        );
        assert_eq!(settings.event_mask, 0x0e);
        assert!(settings.refused.unwrap().contains("0x21 "));
        assert_eq!(settings.pattern, b"d/trace-nccl-%h-%p.ncclrec");
        let own = of(
            4,
            &[
                ("NCCL_PIPE_RECORD", "r"),
                ("NCCL_PROFILE_DUMP_FILE", "d/trace"),
            ],
        );
        assert_eq!(own.pattern, b"r");
    }

    #[test]
    fn a_name_has_the_host_the_process_and_the_rank() {
        assert_eq!(replace(b"%h/%p_%r%%%x%", b"n1", "7", "3"), b"n1/7_3%%x%");
    }
}
