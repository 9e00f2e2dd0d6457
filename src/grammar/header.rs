//! The header in front of NCCL's lines, wherever it is in a line.
//!
//! ```text
//! host:pid:tid [dev] NCCL INFO body                    INFO
//! host:pid:tid [dev] file:line (func) NCCL WARN body   WARN; (func) since 2.30.7
//! host:pid:tid [dev] file:line (func) NCCL ATTN body   2.32
//! host:pid:tid [dev] 123.456 func:line NCCL TRACE body TRACE
//! host:pid:tid [dev] 1558545003174220 NCCL INFO body   old RCCL
//! host:pid:tid NCCL CALL fn(args)                      CALL
//! ```
//!
//! From `ncclDebugLog` in NCCL's `src/debug.cc` (2.4 to 2.30.7). A time stamp in the user's
//! own strftime format, a launcher's prefix or other text may be in front. `dev` is the CUDA
//! device current at print time, not a rank.

use super::token::{PResult, ParseFailure, dec_u32, dec_u64, is_host_byte, word};
use memchr::{memchr_iter, memmem};

/// What kind of line the header opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderLevel {
    /// `NCCL INFO`, by far the most.
    Info,
    /// `NCCL WARN`.
    Warn,
    /// `NCCL ATTN`, since 2.32: what was a WARN or an INFO line before, such as a plugin that could
    /// not be initialised.
    Attention,
    /// `NCCL CALL`: the API call's twin of a COLL line, never a second call.
    Call,
    /// `NCCL TRACE`.
    Trace,
    /// A level this version does not know, such as `NCCL ABORT`.
    Other,
}

/// One header in a line. Offsets are in that line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineHeader<'a> {
    /// Where the host begins.
    pub start: usize,
    /// Where the message begins, after `NCCL <LEVEL> `.
    pub body: usize,
    /// The host as it is there. Glued text in front may have lent it bytes.
    pub host: &'a [u8],
    /// The process.
    pub pid: u64,
    /// The thread.
    pub tid: u64,
    /// The CUDA device in brackets; CALL lines have none.
    pub dev: Option<u32>,
    /// The level.
    pub level: HeaderLevel,
}

impl LineHeader<'_> {
    /// Takes the bytes before `start`, which is in its host, off it: they are another line's.
    pub fn cut_host_before(&mut self, start: usize) {
        let glued = start.saturating_sub(self.start).min(self.host.len());
        self.host = &self.host[glued..];
        self.start += glued;
    }
}

/// The longest text between `[dev] ` and `NCCL `: a WARN's file may be an absolute path.
const MAX_SOURCE_PLACE_BYTES: usize = 400;

/// The first header at or after `from`.
pub fn find_header(line: &[u8], from: usize) -> Option<LineHeader<'_>> {
    memchr_iter(b':', line.get(from..)?).find_map(|colon| header_at_colon(line, from, from + colon))
}

/// All headers of a line, in order.
pub fn all_headers(line: &[u8]) -> impl Iterator<Item = LineHeader<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let header = find_header(line, from)?;
        from = header.body;
        Some(header)
    })
}

/// Reads the header with its host ending at `colon` and no byte before `floor`.
fn header_at_colon(line: &[u8], floor: usize, colon: usize) -> Option<LineHeader<'_>> {
    if !line.get(colon + 1)?.is_ascii_digit() || colon == floor {
        return None;
    }
    let start = find_host_start(&line[floor..colon])? + floor;
    let (rest, (pid, tid, dev)) = parse_process(&line[colon + 1..]).ok()?;
    let (level, message) = parse_level(rest, dev.is_some())?;
    Some(LineHeader {
        start,
        body: line.len() - message.len(),
        host: &line[start..colon],
        pid,
        tid,
        dev,
        level,
    })
}

/// Where the host begins that `text` ends with. In a published log it may be a placeholder:
/// `[pod-name]`, `<host>`, `***`.
fn find_host_start(text: &[u8]) -> Option<usize> {
    let behind = |is_of: fn(u8) -> bool| {
        let before = text.iter().rposition(|&b| !is_of(b));
        Some(before.map_or(0, |i| i + 1)).filter(|&start| start < text.len())
    };
    let open = match text.last()? {
        b']' => b'[',
        b'>' => b'<',
        b'}' => b'{',
        b'*' => return behind(|b| b == b'*'),
        _ => return behind(is_host_byte),
    };
    let inner = &text[..text.len() - 1];
    let start = inner.iter().rposition(|&b| !is_host_byte(b))?;
    (inner[start] == open && start + 1 < inner.len()).then_some(start)
}

/// `pid:tid [dev] ` or `pid:tid `.
fn parse_process(input: &[u8]) -> PResult<'_, (u64, u64, Option<u32>)> {
    let (i, pid) = dec_u64(input)?;
    let (i, _) = word(":", "the thread")(i)?;
    let (i, tid) = dec_u64(i)?;
    let (i, _) = word(" ", "a blank")(i)?;
    match i.strip_prefix(b"[") {
        Some(i) => {
            let (i, dev) = dec_u32(i)?;
            let (i, _) = word("] ", "the end of the device")(i)?;
            Ok((i, (pid, tid, Some(dev))))
        }
        None => Ok((i, (pid, tid, None))),
    }
}

/// The level and the message after it. Without `[dev]` only CALL is a header.
fn parse_level(input: &[u8], has_dev: bool) -> Option<(HeaderLevel, &[u8])> {
    if let Some(rest) = input.strip_prefix(b"NCCL INFO ") {
        return has_dev.then_some((HeaderLevel::Info, rest));
    }
    if !has_dev {
        return input
            .strip_prefix(b"NCCL CALL ")
            .map(|rest| (HeaderLevel::Call, rest));
    }
    // A place (`file:line`, a time, a function) may be between `[dev]` and `NCCL`. Another
    // bracket means another header: the text between is not a place.
    let window = &input[..input.len().min(MAX_SOURCE_PLACE_BYTES)];
    let nccl = memmem::find(window, b"NCCL ")?;
    if nccl > 0 && (input[nccl - 1] != b' ' || input[..nccl].contains(&b'[')) {
        return None;
    }
    let rest = &input[nccl + b"NCCL ".len()..];
    let known: [(&[u8], HeaderLevel); 5] = [
        (b"INFO ", HeaderLevel::Info),
        (b"WARN ", HeaderLevel::Warn),
        (b"ATTN ", HeaderLevel::Attention),
        (b"TRACE ", HeaderLevel::Trace),
        (b"ABORT ", HeaderLevel::Other),
    ];
    known
        .iter()
        .find_map(|(word, level)| rest.strip_prefix(*word).map(|rest| (*level, rest)))
}

/// The time stamp that ends where `header` starts, as printed, without brackets and blanks;
/// empty where none is printed. NCCL 2.26+ prints `[2026-03-03 12:11:38] ` or the user's own
/// format; collectors put theirs in front too.
pub fn find_time_stamp(before: &[u8]) -> &[u8] {
    let text = before.trim_ascii_end();
    // No stamp is shorter than a clock.
    if text.len() < b"1:23".len() {
        return b"";
    }
    if let Some(inner) = text.strip_suffix(b"]") {
        return match memchr::memrchr(b'[', inner) {
            Some(open) if is_time(&inner[open + 1..]) => &inner[open + 1..],
            _ => b"",
        };
    }
    let text = text.strip_suffix(b"|").map_or(text, <[u8]>::trim_ascii_end);
    // `2025-07-25 19:54:57.101122` is two words, `16:39:51` and `1763640000.5` are one.
    let word = memchr::memrchr(b' ', text).map_or(0, |i| i + 1);
    if !is_time(&text[word..]) {
        return b"";
    }
    let day = text[..word].trim_ascii_end();
    let day_start = memchr::memrchr(b' ', day).map_or(0, |i| i + 1);
    if is_date(&day[day_start..]) {
        &text[day_start..]
    } else {
        &text[word..]
    }
}

fn is_time(text: &[u8]) -> bool {
    let count = |of: fn(&u8) -> bool| text.iter().filter(|b| of(b)).count();
    let digits = count(u8::is_ascii_digit);
    // A clock has colons, a date two dashes or strokes, an epoch many digits; `100.66` is none.
    let clock = count(|&b| b == b':') >= 1 && digits >= 3;
    let date = digits == 8 && count(|&b| b == b'-' || b == b'/') == 2;
    let epoch = digits >= 9 && text.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    (clock || date || epoch)
        && text
            .iter()
            .all(|&b| b.is_ascii_alphanumeric() || b":.,-+/ ".contains(&b))
        && text.first().is_some_and(u8::is_ascii_digit)
}

fn is_date(text: &[u8]) -> bool {
    text.len() >= 4
        && text
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'/' | b'.'))
}

impl From<nom::Err<ParseFailure>> for ParseFailure {
    fn from(e: nom::Err<ParseFailure>) -> ParseFailure {
        match e {
            nom::Err::Error(e) | nom::Err::Failure(e) => e,
            nom::Err::Incomplete(_) => ParseFailure {
                what: "more",
                left: 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> (String, u64, u64, Option<u32>, HeaderLevel, String) {
        let h = find_header(line.as_bytes(), 0).unwrap_or_else(|| panic!("no header in {line}"));
        (
            String::from_utf8_lossy(h.host).into_owned(),
            h.pid,
            h.tid,
            h.dev,
            h.level,
            line[h.body..].to_owned(),
        )
    }

    #[test]
    fn each_level_has_its_own_shape() {
        let (host, pid, tid, dev, level, body) = one("mew0:64904:64905 [1] NCCL INFO Init");
        assert_eq!(
            (host.as_str(), pid, tid, dev),
            ("mew0", 64904, 64905, Some(1))
        );
        assert_eq!((level, body.as_str()), (HeaderLevel::Info, "Init"));
        let cases = [
            (
                "h:1:2 [0] transport/net_ib.cc:789 NCCL WARN x",
                HeaderLevel::Warn,
            ),
            (
                "h:1:2 [0] net.cc:7 (ncclNetInit) NCCL WARN x",
                HeaderLevel::Warn,
            ),
            (
                "h:1:2 [0] plugin/net.cc:7 (ncclNetInit) NCCL ATTN x",
                HeaderLevel::Attention,
            ),
            (
                "[2026-03-03 12:11:38] h:1:2 [0] a.cc:1 NCCL WARN x",
                HeaderLevel::Warn,
            ),
            (
                "h:1:2 [3] 123.456000 initTransports:44 NCCL TRACE x",
                HeaderLevel::Trace,
            ),
            ("h:1:2 NCCL CALL ncclGroupStart()", HeaderLevel::Call),
            (
                "h:1:2 [1] 1558545003174220 NCCL INFO AllReduce",
                HeaderLevel::Info,
            ),
        ];
        for (line, level) in cases {
            let got = one(line);
            assert_eq!(
                (got.0.as_str(), got.1, got.2, got.4),
                ("h", 1, 2, level),
                "{line}"
            );
        }
    }

    #[test]
    fn a_host_may_be_a_placeholder() {
        for host in ["[pod-name]", "<host>", "{node_1}", "***"] {
            for before in ["", "(Ray pid=5) ", "[1,7]<stdout>:", "[0]: "] {
                let line = format!("{before}{host}:1:2 [0] NCCL INFO x");
                assert_eq!(one(&line).0, host, "{line}");
            }
        }
        for line in [
            "[a b]:1:2 [0] NCCL INFO x",
            "[]:1:2 [0] NCCL INFO x",
            "]:1:2 [0] NCCL INFO x",
        ] {
            assert_eq!(find_header(line.as_bytes(), 0), None, "{line}");
        }
    }

    #[test]
    fn a_header_is_found_behind_any_prefix() {
        for prefix in [
            " 0: ",
            "511: ",
            "[1,26]<stdout>:",
            "[0] ",
            "[default0]:",
            "(RayTrainWorker pid=615, ip=10.72.7.6) ",
            "  | 2025-05-16T16:39:51.208-07:00 | ",
            "[2026-04-28 14:14:49] ",
            "12:11:38 ",
            "2025-07-25 19:54:57.101122 ",
            "[pod/job-0/main] ",
            "> ",
        ] {
            let got = one(&format!("{prefix}104-171-202-216:21:22 [1] NCCL INFO x"));
            assert_eq!((got.0.as_str(), got.1), ("104-171-202-216", 21), "{prefix}");
        }
    }

    #[test]
    fn the_clock_is_no_header() {
        assert_eq!(find_header(b"12:11:38 [0] loading", 0), None);
        assert_eq!(find_header(b"epoch 1:2:3 NCCL INFO", 0), None);
        assert_eq!(find_header(b":1:2 [0] NCCL INFO x", 0), None);
    }

    #[test]
    fn every_header_of_a_glued_line_is_found() {
        let line = b"a:1:2 [0] NCCL INFO comm 0x9 rank 1 nb:3:4 [1] NCCL INFO Trees";
        let hosts: Vec<_> = all_headers(line).map(|h| (h.host, h.start)).collect();
        assert_eq!(hosts, [(&b"a"[..], 0), (&b"nb"[..], 36)]);
    }

    #[test]
    fn the_stamp_is_given_as_printed() {
        assert_eq!(
            find_time_stamp(b"[2026-04-28 14:14:49] "),
            b"2026-04-28 14:14:49"
        );
        assert_eq!(
            find_time_stamp(b" 0: [2026-04-28 14:14:49.123] "),
            b"2026-04-28 14:14:49.123"
        );
        assert_eq!(
            find_time_stamp(b"2025-07-25 19:54:57.101122 "),
            b"2025-07-25 19:54:57.101122"
        );
        assert_eq!(find_time_stamp(b"0: 19:54:57 "), b"19:54:57");
        assert_eq!(find_time_stamp(b"1763640000.125 "), b"1763640000.125");
        assert_eq!(
            find_time_stamp(b"  | 2025-05-16T16:39:51.208-07:00 | "),
            b"2025-05-16T16:39:51.208-07:00"
        );
        for none in [
            &b""[..],
            b"  83.33  100.66      ",
            b" 0: ",
            b"[0] ",
            b"[1,26]<stdout>:",
            b"[pod/job-0/main] ",
        ] {
            assert_eq!(
                find_time_stamp(none),
                b"",
                "{}",
                String::from_utf8_lossy(none)
            );
        }
    }
}
