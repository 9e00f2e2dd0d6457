//! NCCL's lines with less of a header than [`super::header`] asks for.
//!
//! ```text
//! host:pid:tid [dev] INFO body                NCCL up to 2.2, which did not print its name
//! host:pid:tid [dev] file:line WARN body
//! [dev] INFO body, [dev] file:line WARN body  the same, where host and process were left out
//! file:line WARN body, file:line -> 2         the same without a device
//! [dev] [FATAL ERROR]: body                   RCCL, where they were left out
//! [FATAL ERROR]: body
//! ```
//!
//! Other programs print `[3] INFO` too. A line is NCCL's only if its text is one that NCCL prints and
//! hardly anyone else: how much of that is asked for depends on how much of the header is there.

use super::header::{self, FATAL_LEVEL, HeaderLevel, LineHeader};
use super::message::network::net::NetMessage;
use super::message::warn::{WarnCause, WarnMessage};
use super::message::{NcclMessage, parse_message};
use super::source_place::{PlacedText, is_nccl_file, split_source_place};
use super::token::dec_u32;
use memchr::{memchr_iter, memmem};

/// A line of NCCL's with a short header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShortLine<'a> {
    /// The header, if it has a host and a process.
    pub header: Option<LineHeader<'a>>,
    /// Where its level begins: the rest of the header is in front of it.
    pub level_at: usize,
    /// Its message.
    pub message: NcclMessage<'a>,
}

/// Bytes of a line in which its level is looked for.
const MAX_BYTES_BEFORE_LEVEL: usize = 256;

/// Reads a line with a short header. It is cheap for lines without a bracket in their first bytes, and for
/// all with a bracket that is not a device's or RCCL's.
pub fn parse_short_line(line: &[u8]) -> Option<ShortLine<'_>> {
    let window = &line[..line.len().min(MAX_BYTES_BEFORE_LEVEL)];
    memchr_iter(b'[', window)
        .find_map(|open| short_line_at(line, open))
        .or_else(|| parse_placed_line(line, 0))
}

/// Reads what follows the device, or a line without any header: a place in NCCL's source and a WARN or a result.
fn parse_placed_line(line: &[u8], dev_end: usize) -> Option<ShortLine<'_>> {
    let rest = &line[dev_end..];
    let PlacedText { file, text } = split_source_place(rest)?;
    let level_at = line.len() - text.len();
    let is_nccls = is_nccl_file(file);
    if let Some(body) = text.strip_prefix(b"WARN ") {
        return parse_at_level(line, [level_at, dev_end], HeaderLevel::Warn, body, is_nccls);
    }
    let message = match text.starts_with(b"-> ") && is_nccls {
        true => parse_message(HeaderLevel::Info, rest)?,
        false => return None,
    };
    matches!(message, NcclMessage::Return(_)).then_some(ShortLine {
        header: None,
        level_at: dev_end,
        message,
    })
}

/// Reads the line if the bracket at `open` is its device's or RCCL's level.
fn short_line_at(line: &[u8], open: usize) -> Option<ShortLine<'_>> {
    let rest = &line[open..];
    if let Some(body) = rest.strip_prefix(FATAL_LEVEL) {
        return parse_at_level(line, [open, open], HeaderLevel::Fatal, body, false);
    }
    let (rest, _) = dec_u32(&rest[1..]).ok()?;
    let rest = rest.strip_prefix(b"] ")?;
    let dev_end = line.len() - rest.len();
    if let Some(body) = rest.strip_prefix(b"INFO ") {
        return parse_at_level(line, [dev_end, dev_end], HeaderLevel::Info, body, false);
    }
    if let Some(body) = rest.strip_prefix(b"WARN ") {
        return parse_at_level(line, [dev_end, dev_end], HeaderLevel::Warn, body, false);
    }
    parse_placed_line(line, dev_end)
}

/// Reads `body` with its level at the first of the places; the device in front of it or of its source ends at the
/// second. `is_nccls` where the source is NCCL's.
fn parse_at_level<'a>(
    line: &'a [u8],
    [level_at, dev_end]: [usize; 2],
    level: HeaderLevel,
    body: &'a [u8],
    is_nccls: bool,
) -> Option<ShortLine<'a>> {
    let message = parse_message(level, body)?;
    let header = header::find_process_before(line, dev_end).map(|header| LineHeader {
        level,
        body: line.len() - body.len(),
        ..header
    });
    let is_sure = match &message {
        _ if header.is_some() || is_nccls => true,
        NcclMessage::Warn(warn) => is_warn_of_nccl_alone(warn),
        message => is_info_of_nccl_alone(message, body),
    };
    is_sure.then_some(ShortLine {
        header,
        level_at,
        message,
    })
}

/// Returns true for a WARN's text that no other program prints.
fn is_warn_of_nccl_alone(warn: &WarnMessage<'_>) -> bool {
    let text = warn.text;
    let is_named = [&b"NCCL"[..], b"RCCL", b"nccl", b"rccl", b"NET/"]
        .iter()
        .any(|name| memmem::find(text, name).is_some());
    let begins = |words: &[&[u8]]| words.iter().any(|words| text.starts_with(words));
    let is_known = match warn.cause {
        WarnCause::IbCompletion(_) => true,
        WarnCause::Gpu(_) => begins(&[b"Cuda failure ", b"HIP failure"]),
        WarnCause::Other => begins(&[
            b"[Service thread] ",
            b"[Proxy Service",
            b"[Proxy Progress",
            b"SHARP",
            b"MSCCL",
        ]),
    };
    is_named || is_known
}

/// Returns true for an INFO line's message that no other program prints.
fn is_info_of_nccl_alone(message: &NcclMessage<'_>, text: &[u8]) -> bool {
    match message {
        // `Using network X` may be anyone's.
        NcclMessage::Net(NetMessage::Network(_)) => false,
        NcclMessage::Plugin(_) => memmem::find(text, b"/Plugin").is_some(),
        NcclMessage::Plain(..) => [
            &b"NET/"[..],
            b"NET : ",
            b"NCCL_",
            b"nccl",
            b"MNNVL ",
            b"NVLS ",
            b"comm 0x",
            b"Setting affinity for GPU",
        ]
        .iter()
        .any(|start| text.starts_with(start)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_only_nccl_prints_needs_no_more() {
        for (line, level_at) in [
            ("[0] INFO NET : Using interface eth0:10.0.0.1<0>", 4),
            ("[3] INFO NCCL_IB_TIMEOUT set by environment to 18.", 4),
            ("[0] INFO Ring 00 : 0 -> 1 via P2P/direct pointer", 4),
            ("[0] INFO init.cu:453 -> 1", 4),
            (
                "[1] transport/p2p.cu:514 WARN Cuda failure 'out of memory'",
                25,
            ),
            ("[1] [FATAL ERROR]: HIP failure: 'invalid argument'", 4),
            ("node [1] [FATAL ERROR]: HIP failure: 'invalid argument'", 9),
            ("[FATAL ERROR]: HIP failure: 'out of memory'", 0),
            (
                "[0] include/socket.h:185 WARN Call to connect failed : x",
                25,
            ),
            (
                "misc/ibvwrap.cu:60 WARN Failed to open libibverbs.so[.1]",
                19,
            ),
            ("transport/net.cc:515 -> 2", 0),
        ] {
            let short = parse_short_line(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((short.header, short.level_at), (None, level_at), "{line}");
        }
    }

    #[test]
    fn lines_of_other_programs_are_not_nccls() {
        for line in [
            "[3] INFO epoch 4 begins",
            "[0] INFO rank 3 is ready",
            "[0] INFO Using device cuda:0",
            "[0] INFO Using network resnet50",
            "[0] INFO Loading graphs",
            "[0] WARN allocation failed",
            "[0] WARN Timeout",
            "[0] train.py:60 WARN Cuda failure 2 'out of memory'",
            "[FATAL ERROR]: no such file",
            "[2026-09-22 06:57:47] [FATAL ERROR]: no such file",
            "12:30:45 [0] INFO step 3",
            "2026-01-01T12:30:45 [0] WARN no data",
            "[rank0]: [FATAL ERROR] x",
            "src/main.cc:60 WARN allocation failed",
            "main.cc:60 -> 2",
            "",
            "[",
            "[0] ",
        ] {
            assert_eq!(parse_short_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn with_a_process_each_known_text_is_nccls() {
        for prefix in ["", " 0: ", "[1,3]<stdout>:"] {
            let line = format!("{prefix}n1:70:81 [2] INFO Launch mode Group/CGMD");
            let short = parse_short_line(line.as_bytes()).unwrap();
            let header = short.header.unwrap();
            assert_eq!((header.host, header.pid), (&b"n1"[..], 70), "{line}");
            assert_eq!((header.tid, header.dev), (Some(81), Some(2)), "{line}");
            assert_eq!(&line[header.body..], "Launch mode Group/CGMD");
            assert_eq!(&line[short.level_at..short.level_at + 4], "INFO");
        }
        let fatal = parse_short_line(b"n1:70:81 [2] [FATAL ERROR]: HIP failure: 'x'").unwrap();
        assert_eq!(fatal.header.map(|header| header.pid), Some(70));
        let warn = parse_short_line(b"n1:70:81 [2] misc/ibvwrap.cu:60 WARN Failed to open x");
        assert!(warn.is_some_and(|warn| matches!(warn.message, NcclMessage::Warn(_))));
        assert_eq!(parse_short_line(b"n1:70:81 [2] INFO something else"), None);
    }
}
