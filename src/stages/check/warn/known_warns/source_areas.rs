//! The part of NCCL that a WARN line comes from, by its source file.

use std::sync::LazyLock;

/// What lines of a part of NCCL mostly are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AreaRole {
    /// Where a failure begins.
    Cause,
    /// What follows from a failure elsewhere.
    Consequence,
    /// One or the other.
    Either,
    /// Nothing that the job fails by.
    Harmless,
}

impl AreaRole {
    /// A clause on what such lines mostly are.
    pub(crate) fn describe_role(self) -> &'static str {
        match self {
            AreaRole::Cause => "lines of this part mostly report where a failure begins",
            AreaRole::Consequence => "lines of this part mostly follow from a failure elsewhere",
            AreaRole::Either => {
                "lines of this part may report a cause, or follow from a failure elsewhere"
            }
            AreaRole::Harmless => "the job does not fail by what this part reports",
        }
    }
}

/// A part of NCCL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceArea {
    /// The file or folder below `src`.
    pub(crate) path: &'static str,
    /// What its lines mostly are.
    pub(crate) role: AreaRole,
    /// Its name, with an article where it needs one.
    pub(crate) name: &'static str,
}

const AREAS_TEXT: &str = include_str!("areas.txt");

static AREAS: LazyLock<Vec<SourceArea>> = LazyLock::new(|| {
    let lines = AREAS_TEXT.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(parse_area).collect()
});

fn parse_area(line: &'static str) -> Option<SourceArea> {
    let mut parts = line.splitn(3, ' ');
    let (path, role, name) = (parts.next()?, parts.next()?, parts.next()?);
    let role = match role {
        "cause" => AreaRole::Cause,
        "consequence" => AreaRole::Consequence,
        "either" => AreaRole::Either,
        "harmless" => AreaRole::Harmless,
        _ => return None,
    };
    Some(SourceArea { path, role, name })
}

/// Finds the part of NCCL that the source file of a line belongs to.
pub(crate) fn find_source_area(source: &[u8]) -> Option<&'static SourceArea> {
    // Folders above `src` may have any name.
    let below = memchr::memmem::rfind(source, b"src/").map_or(0, |at| at + b"src/".len());
    let source = &source[below..];
    let is_in = |area: &&SourceArea| {
        let path = area.path.as_bytes();
        memchr::memmem::find_iter(source, path).any(|at| {
            let begins = at == 0 || source[at - 1] == b'/';
            let after = source.get(at + path.len());
            begins && after.is_some_and(|byte| matches!(byte, b'.' | b'/'))
        })
    };
    AREAS
        .iter()
        .filter(is_in)
        .max_by_key(|area| area.path.len())
}

/// Finds the source file, with its line, in a WARN's header: `n1:100:110 [0] misc/socket.cc:537 (fn) NCCL WARN `.
pub(crate) fn find_source_file(header: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::rfind(header, b"NCCL WARN")?;
    let mut before = header[..at].trim_ascii_end();
    // The function, since 2.29; or the target of a link, where a web page made one of the place.
    if before.ends_with(b")") {
        before = before[..memchr::memrchr(b'(', before)?].trim_ascii_end();
    }
    let word = before.rsplit(u8::is_ascii_whitespace).next()?;
    let word = word.strip_prefix(b"[").unwrap_or(word);
    let word = word.strip_suffix(b"]").unwrap_or(word);
    let word = word.strip_suffix(b":").unwrap_or(word);
    let has_letter = word.iter().any(u8::is_ascii_alphabetic);
    (has_letter && word.contains(&b'.')).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = AREAS_TEXT
            .lines()
            .filter(|l| !l.starts_with('#') && !l.is_empty());
        assert_eq!(lines.count(), AREAS.len());
        let mut paths: Vec<_> = AREAS.iter().map(|area| area.path).collect();
        paths.sort_unstable();
        assert!(paths.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn a_header_has_the_source_file() {
        for (header, file) in [
            (
                "n1:100:110 [0] misc/socket.cc:537 NCCL WARN ",
                Some("misc/socket.cc:537"),
            ),
            (
                "[1] nccl/src/register/register.cc:42 (ncclRegister) NCCL WARN ",
                Some("nccl/src/register/register.cc:42"),
            ),
            (
                "n1:1:1 [0] [p2p.cc:648](https://x) NCCL WARN ",
                Some("p2p.cc:648"),
            ),
            ("graph/xml.h: NCCL WARN ", Some("graph/xml.h")),
            ("n1.x:100:110 [0] NCCL WARN ", None),
            ("n1:1:1 [0] register_mr_buffers:647 NCCL WARN ", None),
            ("", None),
        ] {
            let found = find_source_file(header.as_bytes());
            assert_eq!(found, file.map(str::as_bytes), "{header}");
        }
    }

    #[test]
    fn the_longest_path_names_the_part() {
        let name = |source: &str| find_source_area(source.as_bytes()).map(|area| area.path);
        assert_eq!(name("transport/net_ib.cc:12"), Some("transport/net_ib"));
        assert_eq!(
            name("/x/hipify/src/transport/net_ib/init.cc:3"),
            Some("transport/net_ib")
        );
        assert_eq!(name("init.cc:3"), Some("init"));
        assert_eq!(name("/x/src/plugin/net.cc:3"), Some("plugin/net"));
        assert_eq!(name("internet.cc:3"), None);
        assert_eq!(name("planet/init_x.cc:3"), None);
    }
}
