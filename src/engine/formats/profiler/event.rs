//! A line of a trace: one event's beginning or end. The plugin writes each with the same keys in the
//! same order, so that a line can be read even if those around it are damaged.

use crate::formats::whole_number::parse_decimal;
use crate::output::table::Lacks;
use memchr::memmem;

/// The kinds of events of all versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProfilerEventKind {
    Group,
    GroupApi,
    Coll,
    CollApi,
    P2p,
    P2pApi,
    Proxy,
    Net,
    NetIb,
    NetSock,
    Gpu,
    KernelLaunch,
    CeColl,
    CeSync,
    CeBatch,
}

const EVENT_KINDS: [(&[u8], ProfilerEventKind); 15] = [
    (b"GROUP", ProfilerEventKind::Group),
    (b"GROUP_API", ProfilerEventKind::GroupApi),
    (b"COLL", ProfilerEventKind::Coll),
    (b"COLL_API", ProfilerEventKind::CollApi),
    (b"P2P", ProfilerEventKind::P2p),
    (b"P2P_API", ProfilerEventKind::P2pApi),
    (b"PROXY", ProfilerEventKind::Proxy),
    (b"NET", ProfilerEventKind::Net),
    (b"NET_IB", ProfilerEventKind::NetIb),
    (b"NET_SOCK", ProfilerEventKind::NetSock),
    (b"GPU", ProfilerEventKind::Gpu),
    (b"KERNEL_LAUNCH", ProfilerEventKind::KernelLaunch),
    (b"CE_COLL", ProfilerEventKind::CeColl),
    (b"CE_SYNC", ProfilerEventKind::CeSync),
    (b"CE_BATCH", ProfilerEventKind::CeBatch),
];

/// A line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ProfilerLine<'l> {
    Event(ProfilerEvent<'l>),
    /// The brackets around the events, and the empty one after the last.
    Frame,
    /// Not a line of the plugin.
    Foreign,
    /// An event that is cut or overwritten.
    Damaged(Lacks),
}

/// The beginning or the end of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProfilerEvent<'l> {
    pub(super) name: &'l [u8],
    pub(super) cat: ProfilerEventKind,
    pub(super) is_begin: bool,
    pub(super) pid: u64,
    /// ns since the plugin began in its process.
    pub(super) ts: u64,
    pub(super) args: ProfilerArgs<'l>,
    /// It begins with a quote of a word processor.
    pub(super) is_curly: bool,
}

/// The text in the braces of `"args"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProfilerArgs<'l>(&'l [u8]);

/// Reads a line without its end.
pub(super) fn parse_line(text: &[u8]) -> ProfilerLine<'_> {
    let text = text.trim_ascii();
    let bare = text.strip_suffix(b",").unwrap_or(text);
    if matches!(
        bare,
        b"" | b"[" | b"]" | b"{}" | b"{}]" | b"[{}]" | b"[ {}]"
    ) {
        return ProfilerLine::Frame;
    }
    let bare = bare.strip_prefix(b"[").unwrap_or(bare).trim_ascii_start();
    if !bare.starts_with(b"{") {
        return match memmem::find(bare, b"\"cat\": \"") {
            Some(_) => ProfilerLine::Damaged("the beginning of an event"),
            None => ProfilerLine::Foreign,
        };
    }
    match parse_event(bare) {
        Ok(event) => ProfilerLine::Event(event),
        Err(lacks) => ProfilerLine::Damaged(lacks),
    }
}

fn parse_event(text: &[u8]) -> Result<ProfilerEvent<'_>, Lacks> {
    const CURLY: &[u8] = "{\u{201c}name\": \"".as_bytes();
    let rest = text.strip_prefix(b"{\"name\": \"");
    let is_curly = rest.is_none();
    let rest = rest
        .or(text.strip_prefix(CURLY))
        .ok_or("the name of an event")?;
    let (name, rest) = split_at_mark(rest, b"\", \"cat\": \"").ok_or("the kind of an event")?;
    let (cat, rest) = split_at_mark(rest, b"\", \"ph\": \"").ok_or("a phase")?;
    let (_, cat) = *EVENT_KINDS
        .iter()
        .find(|(known, _)| *known == cat)
        .ok_or("a known kind of event")?;
    let (phase, rest) = split_at_mark(rest, b"\", \"id\": ").ok_or("an id")?;
    let is_begin = match phase {
        b"b" => true,
        b"e" => false,
        _ => return Err("phase b or e"),
    };
    let (id, rest) = split_at_mark(rest, b", \"pid\": ").ok_or("a process")?;
    parse_decimal(id).ok_or("an id")?;
    let (pid, rest) = split_at_mark(rest, b", \"tid\": ").ok_or("a thread")?;
    let pid = parse_decimal(pid).ok_or("a process")?;
    let (tid, rest) = split_at_mark(rest, b", \"ts\": ").ok_or("a time")?;
    parse_decimal(tid).ok_or("a thread")?;
    let (rest, args) = match split_at_mark(rest, b", \"args\": {") {
        Some((ts, args)) => {
            let args = args.strip_suffix(b"}}").ok_or("the end of an event")?;
            (ts, ProfilerArgs(args))
        }
        None => (
            rest.strip_suffix(b"}").ok_or("the end of an event")?,
            ProfilerArgs(b""),
        ),
    };
    Ok(ProfilerEvent {
        name,
        cat,
        is_begin,
        pid,
        ts: parse_micros(rest).ok_or("a time")?,
        args,
        is_curly,
    })
}

/// Splits a text into the parts before and after `mark`.
fn split_at_mark<'l>(text: &'l [u8], mark: &[u8]) -> Option<(&'l [u8], &'l [u8])> {
    let at = memmem::find(text, mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// Microseconds with decimals, in ns; a time before 0 is 0.
fn parse_micros(text: &[u8]) -> Option<u64> {
    if let Some(rest) = text.strip_prefix(b"-") {
        return parse_micros(rest).map(|_| 0);
    }
    let (whole, part) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let mut ns = parse_decimal(whole)?.checked_mul(1000)?;
    if !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    for (digit, scale) in part.iter().zip([100, 10, 1]) {
        ns = ns.checked_add(u64::from(digit - b'0') * scale)?;
    }
    Some(ns)
}

impl<'l> ProfilerArgs<'l> {
    /// The value of a key as it is written, without quotes.
    pub(super) fn text(self, key: &str) -> Option<&'l [u8]> {
        let rest = self.after_key(key)?;
        if let Some(rest) = rest.strip_prefix(b"\"") {
            return split_at_mark(rest, b"\"").map(|(value, _)| value);
        }
        let end = rest.iter().position(|b| b",}".contains(b));
        Some(rest[..end.unwrap_or(rest.len())].trim_ascii())
    }

    /// A whole number.
    pub(super) fn number(self, key: &str) -> Option<u64> {
        parse_decimal(self.text(key)?)
    }

    /// A number of microseconds, in ns.
    pub(super) fn micros(self, key: &str) -> Option<u64> {
        parse_micros(self.text(key)?)
    }

    /// Reads the steps and the time of a phase: `{"step": 3, "ts": 2408.3}`.
    pub(super) fn phase(self, key: &str) -> Option<(u64, u64)> {
        let (inner, _) = split_at_mark(self.after_key(key)?.strip_prefix(b"{")?, b"}")?;
        let inner = ProfilerArgs(inner);
        Some((inner.number("step")?, inner.micros("ts")?))
    }

    /// A text that is written without quotes, as no JSON is.
    pub(super) fn is_bare(self, key: &str) -> bool {
        self.after_key(key)
            .is_some_and(|rest| !rest.starts_with(b"\""))
    }

    fn after_key(self, key: &str) -> Option<&'l [u8]> {
        let ProfilerArgs(mut rest) = self;
        loop {
            let at = memmem::find(rest, key.as_bytes())?;
            let is_key = at.checked_sub(1).and_then(|at| rest.get(at)) == Some(&b'"');
            let after = &rest[at + key.len()..];
            if is_key && let Some(value) = after.strip_prefix(b"\":") {
                return Some(value.trim_ascii_start());
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_event_or_says_what_it_lacks() {
        let text = br#"{"name": "Send", "cat": "PROXY", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 121.806595, "args": {"Channel": 3, "POSTED": {"step": 2, "ts": 2408.305432}, "Stream": 0x50, "op": "x"}},"#;
        let ProfilerLine::Event(event) = parse_line(text) else {
            panic!("{:?}", parse_line(text));
        };
        assert_eq!(
            (event.name, event.cat, event.is_begin),
            (&b"Send"[..], ProfilerEventKind::Proxy, true)
        );
        assert_eq!((event.pid, event.ts), (7, 121_806));
        assert_eq!(event.args.number("Channel"), Some(3));
        assert_eq!(event.args.phase("POSTED"), Some((2, 2_408_305)));
        assert_eq!(event.args.text("Stream"), Some(&b"0x50"[..]));
        assert!(event.args.is_bare("Stream") && !event.args.is_bare("op"));
        for cut in 1..text.len() - 1 {
            assert!(
                matches!(parse_line(&text[..cut]), ProfilerLine::Damaged(_)) || cut < 2,
                "{cut}"
            );
        }
        assert_eq!(parse_line(b"{}]"), ProfilerLine::Frame);
        assert_eq!(
            parse_line(b" ... [ trace truncated for brevity ]"),
            ProfilerLine::Foreign
        );
    }
}
