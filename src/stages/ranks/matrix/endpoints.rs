//! The ends of a matrix: senders and receivers.

use crate::stages::communicators::natural_parts;
use std::cmp::Ordering;

/// A name with numbers in natural order: `node2` before `node10`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostLabel(Box<[u8]>);

impl HostLabel {
    /// Returns the label of a host.
    pub fn from_host(name: &[u8]) -> HostLabel {
        HostLabel(name.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// True if the host is unknown.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialOrd for HostLabel {
    fn partial_cmp(&self, other: &HostLabel) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HostLabel {
    fn cmp(&self, other: &HostLabel) -> Ordering {
        natural_parts(&self.0)
            .cmp(natural_parts(&other.0))
            .then_with(|| self.0.cmp(&other.0))
    }
}

/// One end of a cell: a sender or a receiver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A rank of the job.
    Rank(u32),
    /// A host.
    Host(HostLabel),
    /// A GPU of a host; the host may be unknown.
    Gpu(HostLabel, u64),
    /// A rank of a communicator with an unknown rank in the job.
    Member(HostLabel, u32),
    /// The memory of a host; the host may be unknown.
    Memory(HostLabel),
    /// Unknown.
    Unknown,
}

impl Endpoint {
    /// Returns the end's text in tables.
    pub fn to_text(&self) -> Vec<u8> {
        match self {
            Endpoint::Rank(rank) => rank.to_string().into_bytes(),
            Endpoint::Host(name) => name.0.to_vec(),
            Endpoint::Gpu(host, gpu) => {
                [host_prefix(host), format!("gpu{gpu}").into_bytes()].concat()
            }
            Endpoint::Member(comm, rank) => [&comm.0[..], format!(":{rank}").as_bytes()].concat(),
            Endpoint::Memory(host) => [host_prefix(host), b"memory".to_vec()].concat(),
            Endpoint::Unknown => Vec::new(),
        }
    }
}

fn host_prefix(host: &HostLabel) -> Vec<u8> {
    match host.is_empty() {
        true => Vec::new(),
        false => [&host.0[..], b"/"].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostLabel {
        HostLabel::from_host(name.as_bytes())
    }

    #[test]
    fn names_count_as_people_do() {
        let mut names = [host("node10"), host("node2"), host("node2b"), host("a")];
        names.sort();
        let sorted = [host("a"), host("node2"), host("node2b"), host("node10")];
        assert_eq!(names, sorted);
    }

    #[test]
    fn ends_are_written_as_what_they_are() {
        let text = |end: Endpoint| String::from_utf8(end.to_text()).unwrap();
        assert_eq!(text(Endpoint::Gpu(host("vm"), 3)), "vm/gpu3");
        assert_eq!(text(Endpoint::Gpu(host(""), 3)), "gpu3");
        assert_eq!(text(Endpoint::Memory(host("vm"))), "vm/memory");
        assert_eq!(text(Endpoint::Member(host("0xab"), 1)), "0xab:1");
        assert_eq!(text(Endpoint::Unknown), "");
    }
}
