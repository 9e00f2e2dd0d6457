//! A line of a trace: one event's beginning or end. The plugin writes each with the same keys in the
//! same order, so that a line is read by itself, whatever is wrong with those around it.

use crate::grammar::token::dec_u64;
use crate::output::table::Lacks;
use memchr::memmem;

/// The kinds of events of all versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cat {
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

const CATS: [(&[u8], Cat); 15] = [
    (b"GROUP", Cat::Group),
    (b"GROUP_API", Cat::GroupApi),
    (b"COLL", Cat::Coll),
    (b"COLL_API", Cat::CollApi),
    (b"P2P", Cat::P2p),
    (b"P2P_API", Cat::P2pApi),
    (b"PROXY", Cat::Proxy),
    (b"NET", Cat::Net),
    (b"NET_IB", Cat::NetIb),
    (b"NET_SOCK", Cat::NetSock),
    (b"GPU", Cat::Gpu),
    (b"KERNEL_LAUNCH", Cat::KernelLaunch),
    (b"CE_COLL", Cat::CeColl),
    (b"CE_SYNC", Cat::CeSync),
    (b"CE_BATCH", Cat::CeBatch),
];

/// A line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Line<'l> {
    Event(Event<'l>),
    /// The brackets around the events, and the empty one after the last.
    Frame,
    /// No line of the plugin's.
    Foreign,
    /// An event that is cut or overwritten.
    Damaged(Lacks),
}

/// The beginning or the end of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Event<'l> {
    pub(super) name: &'l [u8],
    pub(super) cat: Cat,
    pub(super) is_begin: bool,
    pub(super) pid: u64,
    /// ns since the plugin began in its process.
    pub(super) ts: u64,
    pub(super) args: Args<'l>,
    /// It begins with a quote of a word processor.
    pub(super) is_curly: bool,
}

/// What is in the braces of `"args"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Args<'l>(&'l [u8]);

/// Reads a line without its end.
pub(super) fn line(text: &[u8]) -> Line<'_> {
    let text = text.trim_ascii();
    let bare = text.strip_suffix(b",").unwrap_or(text);
    if matches!(
        bare,
        b"" | b"[" | b"]" | b"{}" | b"{}]" | b"[{}]" | b"[ {}]"
    ) {
        return Line::Frame;
    }
    let bare = bare.strip_prefix(b"[").unwrap_or(bare).trim_ascii_start();
    if !bare.starts_with(b"{") {
        return match memmem::find(bare, b"\"cat\": \"") {
            Some(_) => Line::Damaged("the beginning of an event"),
            None => Line::Foreign,
        };
    }
    match event(bare) {
        Ok(event) => Line::Event(event),
        Err(lacks) => Line::Damaged(lacks),
    }
}

fn event(text: &[u8]) -> Result<Event<'_>, Lacks> {
    const CURLY: &[u8] = "{\u{201c}name\": \"".as_bytes();
    let rest = text.strip_prefix(b"{\"name\": \"");
    let is_curly = rest.is_none();
    let rest = rest
        .or(text.strip_prefix(CURLY))
        .ok_or("the name of an event")?;
    let (name, rest) = until(rest, b"\", \"cat\": \"").ok_or("the kind of an event")?;
    let (cat, rest) = until(rest, b"\", \"ph\": \"").ok_or("a phase")?;
    let (_, cat) = *CATS
        .iter()
        .find(|(known, _)| *known == cat)
        .ok_or("a known kind of event")?;
    let (phase, rest) = until(rest, b"\", \"id\": ").ok_or("an id")?;
    let is_begin = match phase {
        b"b" => true,
        b"e" => false,
        _ => return Err("phase b or e"),
    };
    let (id, rest) = until(rest, b", \"pid\": ").ok_or("a process")?;
    number(id).ok_or("an id")?;
    let (pid, rest) = until(rest, b", \"tid\": ").ok_or("a thread")?;
    let pid = number(pid).ok_or("a process")?;
    let (tid, rest) = until(rest, b", \"ts\": ").ok_or("a time")?;
    number(tid).ok_or("a thread")?;
    let (rest, args) = match until(rest, b", \"args\": {") {
        Some((ts, args)) => {
            let args = args.strip_suffix(b"}}").ok_or("the end of an event")?;
            (ts, Args(args))
        }
        None => (
            rest.strip_suffix(b"}").ok_or("the end of an event")?,
            Args(b""),
        ),
    };
    Ok(Event {
        name,
        cat,
        is_begin,
        pid,
        ts: micros(rest).ok_or("a time")?,
        args,
        is_curly,
    })
}

/// What is before `mark`, and what is after.
fn until<'l>(text: &'l [u8], mark: &[u8]) -> Option<(&'l [u8], &'l [u8])> {
    let at = memmem::find(text, mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

fn number(text: &[u8]) -> Option<u64> {
    match dec_u64(text) {
        Ok((b"", n)) => Some(n),
        _ => None,
    }
}

/// Microseconds with decimals, in ns; a time before 0 is 0.
fn micros(text: &[u8]) -> Option<u64> {
    if let Some(rest) = text.strip_prefix(b"-") {
        return micros(rest).map(|_| 0);
    }
    let (whole, part) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let mut ns = number(whole)?.checked_mul(1000)?;
    if !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    for (digit, scale) in part.iter().zip([100, 10, 1]) {
        ns = ns.checked_add(u64::from(digit - b'0') * scale)?;
    }
    Some(ns)
}

impl<'l> Args<'l> {
    /// The value of a key as it is written, without quotes.
    pub(super) fn text(self, key: &str) -> Option<&'l [u8]> {
        let rest = self.after(key)?;
        if let Some(rest) = rest.strip_prefix(b"\"") {
            return until(rest, b"\"").map(|(value, _)| value);
        }
        let end = rest.iter().position(|b| b",}".contains(b));
        Some(rest[..end.unwrap_or(rest.len())].trim_ascii())
    }

    /// A whole number.
    pub(super) fn number(self, key: &str) -> Option<u64> {
        number(self.text(key)?)
    }

    /// A number of microseconds, in ns.
    pub(super) fn micros(self, key: &str) -> Option<u64> {
        micros(self.text(key)?)
    }

    /// `{"step": 3, "ts": 2408.3}`: the steps, and when.
    pub(super) fn phase(self, key: &str) -> Option<(u64, u64)> {
        let (inner, _) = until(self.after(key)?.strip_prefix(b"{")?, b"}")?;
        let inner = Args(inner);
        Some((inner.number("step")?, inner.micros("ts")?))
    }

    /// A text that is written without quotes, as no JSON is.
    pub(super) fn is_bare(self, key: &str) -> bool {
        self.after(key).is_some_and(|rest| !rest.starts_with(b"\""))
    }

    fn after(self, key: &str) -> Option<&'l [u8]> {
        let Args(mut rest) = self;
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
        let Line::Event(event) = line(text) else {
            panic!("{:?}", line(text));
        };
        assert_eq!(
            (event.name, event.cat, event.is_begin),
            (&b"Send"[..], Cat::Proxy, true)
        );
        assert_eq!((event.pid, event.ts), (7, 121_806));
        assert_eq!(event.args.number("Channel"), Some(3));
        assert_eq!(event.args.phase("POSTED"), Some((2, 2_408_305)));
        assert_eq!(event.args.text("Stream"), Some(&b"0x50"[..]));
        assert!(event.args.is_bare("Stream") && !event.args.is_bare("op"));
        for cut in 1..text.len() - 1 {
            assert!(
                matches!(line(&text[..cut]), Line::Damaged(_)) || cut < 2,
                "{cut}"
            );
        }
        assert_eq!(line(b"{}]"), Line::Frame);
        assert_eq!(line(b" ... [ trace truncated for brevity ]"), Line::Foreign);
    }
}
