//! Replaces names, folders and addresses by others, each in the same way everywhere.

use super::limits::OCTET_VALUES;
use super::names::{Address, PrivateNames, find_addresses, find_paths, private_folders};
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What stands in the place of each name.
#[derive(Debug)]
pub(super) struct Redactor {
    /// Hosts, then users.
    names: Option<AhoCorasick>,
    words: Vec<String>,
    folders: BTreeMap<Vec<u8>, String>,
    v4: BTreeMap<Ipv4Addr, Ipv4Addr>,
    v6: BTreeMap<Ipv6Addr, Ipv6Addr>,
}

impl Redactor {
    /// Numbers the names in their order, so the order of inputs changes nothing.
    pub(super) fn new(names: &PrivateNames) -> Redactor {
        let first_label = |host: &[u8]| host.split(|&b| b == b'.').next().unwrap_or(host).to_vec();
        let labels: BTreeSet<Vec<u8>> = names.hosts.iter().map(|host| first_label(host)).collect();
        let width = labels.len().to_string().len();
        let of_host = |host: &Vec<u8>| {
            let at = labels.range(..first_label(host)).count() + 1;
            format!("host{at:0width$}")
        };
        let users = names.users.difference(&names.hosts);
        let mut patterns: Vec<&[u8]> = names.hosts.iter().map(Vec::as_slice).collect();
        let mut words: Vec<String> = names.hosts.iter().map(of_host).collect();
        for (at, user) in (1..).zip(users) {
            patterns.push(user);
            words.push(format!("user{at}"));
        }
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns);
        // A user's folder has the user's name.
        let is_other =
            |folder: &&Vec<u8>| !names.hosts.contains(*folder) && !names.users.contains(*folder);
        let folders = names.folders.iter().filter(is_other).cloned();
        Redactor {
            names: matcher.ok().filter(|_| !words.is_empty()),
            words,
            folders: folders.zip((1..).map(|at| format!("d{at}"))).collect(),
            v4: number_v4(&names.v4),
            v6: number_v6(&names.v6),
        }
    }

    /// Appends the line with other names to `out`.
    pub(super) fn redact_line(&self, line: &[u8], out: &mut Vec<u8>) {
        let without_paths = self.replace_folders(line);
        let without_names = self.replace_names(&without_paths);
        let mut done = 0;
        for (place, address) in find_addresses(&without_names) {
            let other = match address {
                Address::V4(address) => self.v4.get(&address).map(Ipv4Addr::to_string),
                Address::V6(address) => self.v6.get(&address).map(Ipv6Addr::to_string),
            };
            if let Some(other) = other {
                out.extend_from_slice(&without_names[done..place.start]);
                out.extend_from_slice(other.as_bytes());
                done = place.end;
            }
        }
        out.extend_from_slice(&without_names[done..]);
    }

    fn replace_folders(&self, line: &[u8]) -> Vec<u8> {
        let (mut out, mut done) = (Vec::with_capacity(line.len()), 0);
        for found in find_paths(line) {
            for folder in private_folders(&found[1]) {
                // A part of the match, so it lies in the line.
                let start = folder.as_ptr().addr() - line.as_ptr().addr();
                if let Some(other) = self.folders.get(folder) {
                    out.extend_from_slice(&line[done..start]);
                    out.extend_from_slice(other.as_bytes());
                    done = start + folder.len();
                }
            }
        }
        out.extend_from_slice(&line[done..]);
        out
    }

    fn replace_names(&self, line: &[u8]) -> Vec<u8> {
        let Some(names) = &self.names else {
            return line.to_vec();
        };
        let (mut out, mut done) = (Vec::with_capacity(line.len()), 0);
        for found in names.find_iter(line) {
            let is_edge = |b: Option<&u8>| b.is_none_or(|b| !b.is_ascii_alphanumeric());
            let before = found.start().checked_sub(1).and_then(|at| line.get(at));
            if is_edge(before) && is_edge(line.get(found.end())) {
                out.extend_from_slice(&line[done..found.start()]);
                out.extend_from_slice(self.words[found.pattern().as_usize()].as_bytes());
                done = found.end();
            }
        }
        out.extend_from_slice(&line[done..]);
        out
    }
}

/// Numbers addresses octet by octet: those of one network stay in one network. The address of a link stays one.
fn number_v4(all: &BTreeSet<Ipv4Addr>) -> BTreeMap<Ipv4Addr, Ipv4Addr> {
    let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut number = |prefix: &[u8], within: &[u8]| {
        let count = counts.entry(within.to_vec()).or_default();
        *known.entry(prefix.to_vec()).or_insert_with(|| {
            *count += 1;
            *count - 1
        })
    };
    let mut other = |address: &Ipv4Addr| {
        let octets = address.octets();
        let network = number(&octets[..2], &[]);
        let group = number(&octets[..3], &octets[..2]) % OCTET_VALUES;
        let host = (number(&octets, &octets[..3]) + 1) % OCTET_VALUES;
        let [first, second] = match address.is_link_local() {
            true => [169, 254],
            false => [10 + network / OCTET_VALUES, network % OCTET_VALUES],
        };
        Ipv4Addr::from([first, second, group, host].map(|value| value as u8))
    };
    all.iter()
        .map(|address| (*address, other(address)))
        .collect()
}

/// Numbers addresses and their networks of /64. The address of a link stays one.
fn number_v6(all: &BTreeSet<Ipv6Addr>) -> BTreeMap<Ipv6Addr, Ipv6Addr> {
    let network = |address: &Ipv6Addr| address.to_bits() >> 64;
    let networks: BTreeSet<u128> = all.iter().map(network).collect();
    let other = |at: u128, address: &Ipv6Addr| {
        let prefix = match address.is_unicast_link_local() {
            true => 0xfe80 << 48,
            false => (0xfd00 << 48) + networks.range(..network(address)).count() as u128,
        };
        Ipv6Addr::from_bits((prefix << 64) + at)
    };
    (1..)
        .zip(all)
        .map(|(at, address)| (*address, other(at, address)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(lines: &[&str]) -> Vec<String> {
        let mut names = PrivateNames::default();
        lines
            .iter()
            .for_each(|line| names.take_line(line.as_bytes()));
        let redactor = Redactor::new(&names);
        let other = |line: &&str| {
            let mut out = Vec::new();
            redactor.redact_line(line.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        lines.iter().map(other).collect()
    }

    #[test]
    fn what_belongs_together_still_does() {
        let lines = [
            "gpu-b:31:31 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>",
            "gpu-a:31:31 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.77<0>, then fe80::ab:1%ib0<0> and fd12::1",
            "gpu-a:31:31 [0] misc/socket.cc:49 NCCL WARN Connection closed by remote peer gpu-b.lab.example<4283>, 10.9.2.3.",
            "  host      : gpu-a.lab.example",
            "  File \"/home/alice/big/train.py\", line 3; see https://pytorch.org/docs/stable/x.html",
            "  File \"/home/alice/env/lib/python3.11/site-packages/torch/nn/x.py\", line 3",
            "bob@gpu-b: /sys/class/net/eth0 gpu-ba 2.28.9.1x 127.0.0.1 ::1 12:34:56 0000:3b:00.0 localhost alices",
        ];
        let expected = [
            "host2:31:31 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
            "host1:31:31 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>, then fe80::2%ib0<0> and fd00::1",
            "host1:31:31 [0] misc/socket.cc:49 NCCL WARN Connection closed by remote peer host2<4283>, 10.1.0.1.",
            "  host      : host1",
            "  File \"/home/user1/d1/train.py\", line 3; see https://pytorch.org/docs/stable/x.html",
            "  File \"/home/user1/d2/d3/d4/site-packages/torch/nn/x.py\", line 3",
            "user2@host2: /sys/class/net/eth0 gpu-ba 2.28.9.1x 127.0.0.1 ::1 12:34:56 0000:3b:00.0 localhost alices",
        ];
        assert_eq!(redacted(&lines), expected);
    }

    #[test]
    fn the_order_of_lines_changes_nothing() {
        let lines = [
            "b:1:2 [0] NCCL INFO 10.0.0.9",
            "a:1:2 [0] NCCL INFO /x/y/z.py 10.0.0.7",
            "c@a: /y/x/z.py",
        ];
        let mut turned = lines;
        turned.reverse();
        let mut back = redacted(&turned);
        back.reverse();
        assert_eq!(redacted(&lines), back);
    }
}
