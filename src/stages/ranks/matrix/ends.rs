//! The ends of a matrix: who sends, and who receives.

use std::cmp::Ordering;

/// A name whose numbers sort as people count: `node2` before `node10`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// That of a host.
    pub fn of(name: &[u8]) -> Name {
        Name(name.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// True where none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        let parts = |name: &Name| crate::stages::communicators::natural(&name.0);
        parts(self)
            .cmp(&parts(other))
            .then_with(|| self.0.cmp(&other.0))
    }
}

/// One end of a cell: who sends, or who receives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A rank of the job.
    Rank(u32),
    /// A host.
    Host(Name),
    /// A GPU of a host; the host may be unknown.
    Gpu(Name, u64),
    /// A rank of a communicator, whose rank in the job is not known.
    Member(Name, u32),
    /// The memory of a host; the host may be unknown.
    Memory(Name),
    /// Not known.
    Unknown,
}

impl End {
    /// As it is written.
    pub fn text(&self) -> Vec<u8> {
        match self {
            End::Rank(rank) => rank.to_string().into_bytes(),
            End::Host(name) => name.0.to_vec(),
            End::Gpu(host, gpu) => [prefix(host), format!("gpu{gpu}").into_bytes()].concat(),
            End::Member(comm, rank) => [&comm.0[..], format!(":{rank}").as_bytes()].concat(),
            End::Memory(host) => [prefix(host), b"memory".to_vec()].concat(),
            End::Unknown => Vec::new(),
        }
    }
}

fn prefix(host: &Name) -> Vec<u8> {
    match host.is_empty() {
        true => Vec::new(),
        false => [&host.0[..], b"/"].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Name {
        Name::of(name.as_bytes())
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
        let text = |end: End| String::from_utf8(end.text()).unwrap();
        assert_eq!(text(End::Gpu(host("vm"), 3)), "vm/gpu3");
        assert_eq!(text(End::Gpu(host(""), 3)), "gpu3");
        assert_eq!(text(End::Memory(host("vm"))), "vm/memory");
        assert_eq!(text(End::Member(host("0xab"), 1)), "0xab:1");
        assert_eq!(text(End::Unknown), "");
    }
}
