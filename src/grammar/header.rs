//! The header in front of NCCL's lines, wherever it is in a line.
//!
//! ```text
//! host:pid:tid [dev] NCCL INFO body                    INFO
//! host:pid:tid [dev] file:line (func) NCCL WARN body   WARN; (func) since 2.30.7
//! host:pid:tid [dev] file:line (func) NCCL ATTN body   2.32
//! host:pid:tid [dev] 123.456 func:line NCCL TRACE body TRACE
//! host:pid:tid [dev] 1558545003174220 NCCL INFO body   old RCCL
//! host:pid:tid [dev] [FATAL ERROR]: body               RCCL 2.27 of ROCm 7.2; printed by default
//! host:pid:tid NCCL CALL fn(args)                      CALL
//! host:pid NCCL DIAG body                              2.31, `NCCL_RUN_DIAGNOSTICS=1`
//! ```
//!
//! From `ncclDebugLog` in NCCL's `src/debug.cc` (2.4 to 2.30.7), RCCL's of that name, and
//! `src/diagnostics.cc`. A time stamp in the user's
//! own strftime format, a launcher's prefix or other text may be in front. `dev` is the CUDA
//! device current at print time, not a rank. Headers without a host, and those of NCCL up to 2.2, are
//! [`super::short_header`]'s.

use super::source_place::{MAX_SOURCE_PLACE_BYTES, is_source_place};
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
    /// `[FATAL ERROR]:` of RCCL: an error that it prints even without `NCCL_DEBUG`.
    Fatal,
    /// `NCCL DIAG`, since 2.31: a check that the user asked for.
    Diagnostic,
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
    /// The thread; DIAG lines have none.
    pub tid: Option<u64>,
    /// The CUDA device in brackets; CALL and DIAG lines have none.
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

/// The level of an error that RCCL prints even without `NCCL_DEBUG`.
pub(super) const FATAL_LEVEL: &[u8] = b"[FATAL ERROR]: ";

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
    let process = parse_process(&line[colon + 1..]).ok()?;
    let (rest, HeaderProcess { pid, tid, dev }) = process;
    let (level, message) = match tid {
        Some(_) => parse_level(rest, dev.is_some())?,
        None => (HeaderLevel::Diagnostic, rest),
    };
    let host = &line[start..colon];
    if is_clock(host, &line[colon + 1..line.len() - rest.len()]) {
        return None;
    }
    Some(LineHeader {
        start,
        body: line.len() - message.len(),
        host,
        pid,
        tid,
        dev,
        level,
    })
}

/// Reads `host:pid:tid [dev] ` that ends at `end`. What follows is no level that [`find_header`] knows, so
/// the caller gives the level and the body.
pub(super) fn find_process_before(line: &[u8], end: usize) -> Option<LineHeader<'_>> {
    memchr_iter(b':', &line[..end]).find_map(|colon| {
        let start = find_host_start(&line[..colon])?;
        let (rest, HeaderProcess { pid, tid, dev }) = parse_process(&line[colon + 1..]).ok()?;
        let (host, process) = (&line[start..colon], &line[colon + 1..end]);
        let is_it = line.len() - rest.len() == end && !is_clock(host, process);
        (is_it && dev.is_some()).then_some(LineHeader {
            start,
            body: end,
            host,
            pid,
            tid,
            dev,
            level: HeaderLevel::Other,
        })
    })
}

/// Returns true if `hours` and the minutes and seconds that `rest` begins with are a time of day: host
/// and process were left out of the header after it. A host may end in a number, but not in a `T`
/// after a date and two digits.
fn is_clock(hours: &[u8], rest: &[u8]) -> bool {
    let Some((before, hour)) = hours.split_last_chunk::<2>() else {
        return false;
    };
    let is_below = |pair: &[u8], tens: u8| matches!(pair, [ten, one] if (b'0'..tens).contains(ten) && one.is_ascii_digit());
    let is_hour = is_below(hour, b'3')
        && match before {
            [] => true,
            [.., day, b'T' | b'_'] => day.is_ascii_digit(),
            _ => false,
        };
    let [minutes @ .., b' '] = rest.get(..b"30:45 ".len()).unwrap_or_default() else {
        return false;
    };
    is_hour && is_below(&minutes[..2], b'6') && minutes[2] == b':' && is_below(&minutes[3..], b'6')
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

/// The process, its thread and its device in a header.
struct HeaderProcess {
    pid: u64,
    tid: Option<u64>,
    dev: Option<u32>,
}

/// `pid:tid [dev] `, `pid:tid `, or `pid NCCL DIAG `, which is the one header without a thread.
fn parse_process(input: &[u8]) -> PResult<'_, HeaderProcess> {
    let (i, pid) = dec_u64(input)?;
    if let Some(i) = i.strip_prefix(b" NCCL DIAG ") {
        let (tid, dev) = (None, None);
        return Ok((i, HeaderProcess { pid, tid, dev }));
    }
    let (i, _) = word(":", "the thread")(i)?;
    let (i, tid) = dec_u64(i)?;
    let (i, _) = word(" ", "a blank")(i)?;
    let (i, dev) = match i.strip_prefix(b"[") {
        Some(i) => {
            let (i, dev) = dec_u32(i)?;
            let (i, _) = word("] ", "the end of the device")(i)?;
            (i, Some(dev))
        }
        None => (i, None),
    };
    let tid = Some(tid);
    Ok((i, HeaderProcess { pid, tid, dev }))
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
    if let Some(rest) = input.strip_prefix(FATAL_LEVEL) {
        return Some((HeaderLevel::Fatal, rest));
    }
    // A place (`file:line`, a time, a function) may be between `[dev]` and `NCCL`. Another
    // bracket means another header, if it is not a place that a web page made a link of.
    let window = &input[..input.len().min(MAX_SOURCE_PLACE_BYTES)];
    let nccl = memmem::find(window, b"NCCL ")?;
    let place = &input[..nccl];
    let is_place = !place.contains(&b'[') || is_source_place(place);
    if nccl > 0 && (input[nccl - 1] != b' ' || !is_place) {
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

    fn one(line: &str) -> (String, u64, Option<u64>, Option<u32>, HeaderLevel, String) {
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
            ("mew0", 64904, Some(64905), Some(1))
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
                "h:1:2 [0] [FATAL ERROR]: HIP failure: 'x'",
                HeaderLevel::Fatal,
            ),
            (
                "h:1:2 [0] [p2p.cc:648](https://example.com/p2p.cc#L648) NCCL WARN x",
                HeaderLevel::Warn,
            ),
            ("h:1:2 [0] graph/xml.h: NCCL WARN x", HeaderLevel::Warn),
            (
                "h:1:2 [1] 1558545003174220 NCCL INFO AllReduce",
                HeaderLevel::Info,
            ),
        ];
        for (line, level) in cases {
            let got = one(line);
            assert_eq!(
                (got.0.as_str(), got.1, got.2, got.4),
                ("h", 1, Some(2), level),
                "{line}"
            );
        }
    }

    #[test]
    fn a_diagnostic_has_a_process_only() {
        let (host, pid, tid, dev, level, body) = one("n7:42 NCCL DIAG [OK]   p2p: verified");
        assert_eq!((host.as_str(), pid, tid, dev), ("n7", 42, None, None));
        assert_eq!(
            (level, body.as_str()),
            (HeaderLevel::Diagnostic, "[OK]   p2p: verified")
        );
    }

    #[test]
    fn a_clock_is_no_host() {
        for line in [
            "12:11:38 [0] NCCL INFO x",
            "2026-09-22T06:57:47 [0] NCCL INFO x",
            "2026-09-22_23:57:47 [0] [FATAL ERROR]: x",
            "[2026-09-22 06:57:47 [0] a.cc:1 NCCL WARN x",
        ] {
            assert_eq!(find_header(line.as_bytes(), 0), None, "{line}");
        }
        for line in [
            "node12:11:38 [0] NCCL INFO x",
            "10-0-0-12:11:38 [0] NCCL INFO x",
            "12:1:38 [0] NCCL INFO x",
            "99:11:38 [0] NCCL INFO x",
            "12:11:99 [0] NCCL INFO x",
            "AT12:11:38 [0] NCCL INFO x",
        ] {
            assert!(find_header(line.as_bytes(), 0).is_some(), "{line}");
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
