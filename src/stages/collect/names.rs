//! The names of hosts and users, the addresses and the folders in lines: what a case must not show.

use crate::grammar::header::all_headers;
use regex::bytes::{Captures, Regex};
use std::collections::BTreeSet;
use std::env;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// Words in front of a host's or a user's name, in the lines of launchers, PyTorch, the kernel and shells. Where a pattern has
/// several parts only one matches.
static HOSTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    compile(&[
        // `"hostname": "n1"`, torchrun's `host      : n1`, Open MPI's `Local host: n1`, `MASTER_ADDR=n1`
        r#"(?i)\b(?:hostname|host|nodename|node_name|master_addr)["']?\s*[:=]\s*["']?([a-z][\w.-]*)"#,
        // Open MPI's `  Node: n1`
        r"^\s*Node:\s+([A-Za-z][\w.-]*)",
        // `tcp://n1:29500`
        r"\btcp://([A-Za-z][\w.-]*)",
        // PyTorch's `addr=[n1]:51930`, `(n1, 29500)`
        r"\[([A-Za-z][\w.-]*)\]:\d",
        r"\(([A-Za-z][\w.-]*), \d{2,5}\)",
        // NCCL's peers, `n2<4283>`
        r"(?:^|\s)([A-Za-z][\w.-]*)<\d+>",
        // `on host n1`, `on node n1`, Slurm's `srun: error: n1: task 3: Killed`
        r"\bon (?:host|node) ([A-Za-z][\w.-]*)",
        r"\bsrun: error: ([A-Za-z][\w.-]*): task",
        // The kernel's messages, `Nov 27 20:56:54 n2 kernel:`, `2026-11-27T20:56:54+00:00 n2 kernel:`
        r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([A-Za-z][\w.-]*) ",
        r"^\d{4}-\d\d-\d\dT\S+ ([A-Za-z][\w.-]*) [\w.-]+(?:\[\d+\])?:",
        // `user@host`
        r"\b[a-z_][\w.-]*@([A-Za-z][\w.-]*)",
    ])
});
static USERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    compile(&[
        r"/(?:home|Users)/([A-Za-z_][\w.-]*)",
        r#"(?i)\b(?:user|username|logname)["']?\s*[:=]\s*["']?([a-z_][\w.-]*)"#,
        r"\b([a-z_][\w.-]*)@[A-Za-z][\w-]*\b",
    ])
});
/// A path from the root with at least two parts, not one in a web address.
static PATHS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[\s"'=:(\[,<])((?:/[\w.@%+~-]+){2,}/?)"#).expect("a constant pattern")
});
static ADDRESSES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}")
        .expect("a constant pattern")
});

fn compile(patterns: &[&str]) -> Vec<Regex> {
    let all = patterns
        .iter()
        .map(|pattern| Regex::new(pattern).expect("a constant pattern"));
    all.collect()
}

/// Words in the place of a name that name no one.
const NO_NAMES: [&[u8]; 10] = [
    b"localhost",
    b"none",
    b"null",
    b"unknown",
    b"root",
    b"kernel",
    b"true",
    b"false",
    b"self",
    b"all",
];

/// Parts of paths that are those of the system, and of no one.
const SYSTEM_ROOTS: [&[u8]; 9] = [
    b"sys", b"dev", b"proc", b"usr", b"lib", b"lib64", b"etc", b"run", b"bin",
];
/// The first part of a path that shows where it lies, and is no one's name.
const COMMON_ROOTS: [&[u8]; 13] = [
    b"home",
    b"Users",
    b"tmp",
    b"var",
    b"opt",
    b"mnt",
    b"root",
    b"data",
    b"scratch",
    b"workspace",
    b"lustre",
    b"gpfs",
    b"nfs",
];

/// What was found in the lines of a case.
#[derive(Debug, Default)]
pub(super) struct PrivateNames {
    pub(super) hosts: BTreeSet<Vec<u8>>,
    pub(super) users: BTreeSet<Vec<u8>>,
    pub(super) folders: BTreeSet<Vec<u8>>,
    pub(super) v4: BTreeSet<Ipv4Addr>,
    pub(super) v6: BTreeSet<Ipv6Addr>,
}

impl PrivateNames {
    /// The names of the machine that collects.
    pub(super) fn of_this_machine(host: &str) -> PrivateNames {
        let mut names = PrivateNames::default();
        names.add_host(host.as_bytes());
        for user in ["USER", "LOGNAME"]
            .iter()
            .filter_map(|name| env::var(name).ok())
        {
            add_name(&mut names.users, user.as_bytes());
        }
        names
    }

    /// Takes the names of a line.
    pub(super) fn take_line(&mut self, line: &[u8]) {
        for header in all_headers(line) {
            self.add_host(header.host);
        }
        for pattern in &*HOSTS {
            for found in pattern.captures_iter(line) {
                self.add_host(&found[1]);
            }
        }
        for pattern in &*USERS {
            for found in pattern.captures_iter(line) {
                add_name(&mut self.users, &found[1]);
            }
        }
        for found in find_paths(line) {
            for folder in private_folders(&found[1]) {
                self.folders.insert(folder.to_vec());
            }
        }
        for (_, address) in find_addresses(line) {
            match address {
                Address::V4(address) => self.v4.insert(address),
                Address::V6(address) => self.v6.insert(address),
            };
        }
    }

    /// Adds a host, and its name without the domain: NCCL cuts a name at its first dot.
    fn add_host(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        let is_address = name.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        if !is_address {
            let first = name.split(|&b| b == b'.').next().unwrap_or(name);
            add_name(&mut self.hosts, first);
            add_name(&mut self.hosts, name);
        }
    }
}

fn add_name(names: &mut BTreeSet<Vec<u8>>, name: &[u8]) {
    let is_none = NO_NAMES.iter().any(|none| none.eq_ignore_ascii_case(name));
    if name.len() > 1 && !is_none {
        names.insert(name.to_vec());
    }
}

/// The paths in a line; group 1 is the path.
pub(super) fn find_paths(line: &[u8]) -> impl Iterator<Item = Captures<'_>> {
    PATHS.captures_iter(line)
}

/// The parts of a path that are someone's: neither the system's nor those of a package, nor the file itself.
pub(super) fn private_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts: Vec<&[u8]> = path
        .split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    let is_system = parts
        .first()
        .is_some_and(|root| SYSTEM_ROOTS.contains(root));
    let is_package = |part: &&[u8]| matches!(*part, b"site-packages" | b"dist-packages");
    let from = usize::from(
        parts
            .first()
            .is_some_and(|root| COMMON_ROOTS.contains(root)),
    );
    let is_file = parts.last().is_some_and(|last| last.contains(&b'.'));
    let end = parts
        .iter()
        .position(is_package)
        .unwrap_or(parts.len() - usize::from(is_file));
    let end = if is_system { 0 } else { end };
    (from..end).map(move |at| parts[at])
}

/// An address of a network.
#[derive(Debug, Clone, Copy)]
pub(super) enum Address {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

/// The addresses in a line that are a machine's, with their places.
pub(super) fn find_addresses(
    line: &[u8],
) -> impl Iterator<Item = (std::ops::Range<usize>, Address)> {
    ADDRESSES.find_iter(line).filter_map(|found| {
        let is_end = |b: Option<&u8>| b.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'.');
        let before = found.start().checked_sub(1).and_then(|at| line.get(at));
        let after = line.get(found.end()..).unwrap_or_default();
        // A dot at the end of a sentence is none of a number.
        let is_whole = match after {
            [b'.', next, ..] => !next.is_ascii_digit(),
            [b'.'] => true,
            _ => is_end(after.first()),
        };
        if !is_end(before) || !is_whole {
            return None;
        }
        let text = std::str::from_utf8(found.as_bytes()).ok()?;
        let address = match text.parse::<Ipv4Addr>() {
            Ok(v4) if v4.octets()[0] == 0 || v4.is_loopback() || v4.is_broadcast() => return None,
            Ok(v4) => Address::V4(v4),
            Err(_) => match text.parse::<Ipv6Addr>().ok()? {
                v6 if v6.is_loopback() || v6.is_unspecified() => return None,
                v6 => Address::V6(v6),
            },
        };
        Some((found.range(), address))
    })
}
