//! Strings of JSON, and of Python's `repr`: escaped, in quotes, in records and lists.

use super::{UnwrapBuffer, WrappedLine, contains_nccl_line};
use memchr::{memchr, memchr2, memmem};

/// What the records of collectors call a line: Docker and Fluent Bit `log`, Vector and Elastic
/// `message`, CloudWatch `message` or `@message`, journald `MESSAGE`, Google Cloud `textPayload`,
/// Azure `LogMessage`, Splunk `_raw`, Ansible `stdout`.
const LOG_LINE_KEYS: [&[u8]; 9] = [
    b"log",
    b"message",
    b"@message",
    b"MESSAGE",
    b"textPayload",
    b"LogMessage",
    b"_raw",
    b"stdout",
    b"stderr",
];

/// Appends the strings that are a log's lines: those that end with a line end, that a record calls
/// lines, or that have wanted contents. Returns true if there is one and all of the line is JSON or
/// Python. A string may begin before the line and end after it.
pub(super) fn extract_strings(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool {
    let from = out.text.len();
    if let Some(begin) = find_first_token(line.text) {
        // A launcher's label in front of a record belongs to the line in it.
        let label = &line.text[..begin];
        if !label.trim_ascii().is_empty() {
            out.append_from(line.start, label);
        }
        if StringExtractor::new(line, begin, out).read_line(None) {
            return true;
        }
        out.truncate(from);
    }
    find_open_quote(line.text)
        .is_some_and(|quote| StringExtractor::new(line, 0, out).read_line(Some(quote)))
}

/// Returns the first token, if the line can be JSON or Python: at its begin, or at a record or list
/// after other text.
fn find_first_token(text: &[u8]) -> Option<usize> {
    let blanks = text.len() - text.trim_ascii_start().len();
    let opens = |at: usize| {
        let rest = text[at..].trim_ascii_start();
        matches!(rest, [b'"' | b'\'', ..] | [b'b' | b'u', b'"' | b'\'', ..])
    };
    match text[blanks..] {
        [b'"' | b'\'', ..] | [b'b' | b'u', b'"' | b'\'', ..] => return Some(blanks),
        [b',' | b']' | b'}', ..] => return Some(blanks),
        [b'{' | b'[' | b'(', ref rest @ ..] => {
            let inner = rest.trim_ascii_start();
            if opens(blanks + 1) || matches!(inner, [b'{' | b'[' | b'(', ..]) {
                return Some(blanks);
            }
        }
        _ => {}
    }
    let quote = memchr(b'"', text)?;
    let before = text[..quote].trim_ascii_end();
    let brackets = before.iter().rev().take_while(|b| matches!(b, b'{' | b'['));
    let begin = before.len() - brackets.count();
    let is_free = text[..begin]
        .last()
        .is_none_or(|b| matches!(b, b' ' | b'\t'));
    (begin < before.len() && is_free).then_some(begin)
}

/// Returns the quote of a string that began before the line, if NCCL's text is in it: the first quote
/// ends a string, or the letters `\n` are before the end, a quote or another line of NCCL.
fn find_open_quote(text: &[u8]) -> Option<u8> {
    let closes = |quote: u8| {
        let mut all = memchr::memchr_iter(quote, text);
        let first = all.find(|&at| at == 0 || text[at - 1] != b'\\');
        first.is_some_and(|at| is_behind_string(&text[at + 1..]))
    };
    let has_line_end = || {
        memchr(b'\\', text)?;
        let at = memmem::find(text, b"\\n")? + 2;
        let rest = &text[at..];
        let is_end = matches!(rest, [] | [b'"' | b'\'' | b'\\', ..]) || contains_nccl_line(rest);
        is_end.then_some(b'"')
    };
    let quote = [b'"', b'\''].into_iter().find(|&quote| closes(quote));
    quote
        .or_else(has_line_end)
        .filter(|_| contains_nccl_line(text))
}

/// Reads tokens and appends strings.
struct StringExtractor<'a, 'o> {
    line: &'a WrappedLine<'a>,
    at: usize,
    out: &'o mut UnwrapBuffer,
    /// Whether there is other text in front.
    is_labelled: bool,
    /// Whether a string was taken.
    any: bool,
    /// The name before the value in hand.
    name: &'a [u8],
    /// The string taken last: its name, and where it is.
    last: (&'a [u8], usize),
}

impl<'a, 'o> StringExtractor<'a, 'o> {
    fn new(line: &'a WrappedLine<'a>, at: usize, out: &'o mut UnwrapBuffer) -> Self {
        let last = (&b""[..], out.text.len());
        let is_labelled = !line.text[..at].trim_ascii().is_empty();
        StringExtractor {
            line,
            at,
            out,
            is_labelled,
            any: false,
            name: b"",
            last,
        }
    }

    /// Reads all of the line, which may begin inside a string.
    fn read_line(mut self, inside: Option<u8>) -> bool {
        let mut may_be_value = inside.is_none();
        if let Some(quote) = inside {
            self.read_string(quote);
        }
        let text = self.line.text;
        while let Some(&byte) = text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'{' | b'}' | b'[' | b']' | b'(' | b')' | b',' => {
                    self.at += 1;
                    self.name = b"";
                    // After a value that ends comes a comma; two in a row are a cut line's.
                    may_be_value = !matches!(byte, b'}' | b']' | b')');
                }
                b':' => {
                    self.at += 1;
                    may_be_value = true;
                }
                b'"' | b'\'' if may_be_value => {
                    self.at += 1;
                    self.read_string(byte);
                    may_be_value = false;
                }
                b'b' | b'u' if may_be_value && self.is_quote(self.at + 1) => self.at += 1,
                _ if may_be_value => match constant_len(&text[self.at..]) {
                    Some(len) => {
                        self.at += len;
                        may_be_value = false;
                    }
                    None => return false,
                },
                _ => return false,
            }
        }
        self.any
    }

    fn is_quote(&self, at: usize) -> bool {
        matches!(self.line.text.get(at), Some(b'"' | b'\''))
    }

    /// The string from here on, up to `quote` or to the line's end.
    fn read_string(&mut self, quote: u8) {
        let text = self.line.text;
        let (begin, from) = (self.at, self.out.text.len());
        let is_first = !self.any;
        if !is_first && !self.out.text.ends_with(b"\n") {
            self.out.append_from(self.line.start + begin, b"\n");
        }
        let content = self.out.text.len();
        let mut end = None;
        while let Some(&byte) = text.get(self.at) {
            if byte == b'\\' {
                self.read_escape();
                continue;
            }
            if byte == quote {
                end = Some(self.at);
                self.at += 1;
                break;
            }
            let rest = &text[self.at..];
            let run = memchr2(b'\\', quote, rest).unwrap_or(rest.len());
            self.out
                .append_from(self.line.start + self.at, &rest[..run]);
            self.at += run;
        }
        let behind = text[self.at..].trim_ascii_start();
        if behind.starts_with(b":") {
            self.name = &text[begin..end.unwrap_or(self.at)];
            return self.out.truncate(from);
        }
        let value = &self.out.text[content..];
        let named = LOG_LINE_KEYS.contains(&self.name);
        // After other text a record may be the text's own.
        let is_line = named && !value.is_empty()
            || value.ends_with(b"\n") && !self.is_labelled
            || (self.line.is_wanted)(value);
        // Some collectors store a line twice, under two names.
        let (name, last) = self.last;
        let again = self.any && self.name != name && {
            let before = self.out.text[last..content].trim_ascii_end();
            before == value.trim_ascii_end()
        };
        if !is_line || again {
            return self.out.truncate(from);
        }
        self.any = true;
        self.last = (self.name, content);
    }

    /// A backslash and what follows it.
    fn read_escape(&mut self) {
        let from = self.line.start + self.at;
        match decode_escape(&self.line.text[self.at + 1..]) {
            Some((character, len)) => {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).as_bytes();
                self.out.append_from(from, bytes);
                self.at += 1 + len;
            }
            None => {
                self.out.append_from(from, b"\\");
                self.at += 1;
            }
        }
    }
}

/// Returns the character that a backslash and the first bytes of `rest` encode, and the number of these
/// bytes.
fn decode_escape(rest: &[u8]) -> Option<(char, usize)> {
    let code = |digits: &[u8], radix: u32| {
        let digits = std::str::from_utf8(digits).ok()?;
        u32::from_str_radix(digits, radix).ok()
    };
    let character = match *rest.first()? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'e' => '\u{1b}',
        b'0' if rest.starts_with(b"033") => return Some(('\u{1b}', 3)),
        b'x' => return Some((char::from_u32(code(rest.get(1..3)?, 16)?)?, 3)),
        b'u' => {
            let first = code(rest.get(1..5)?, 16)?;
            let second = || code(rest.get(5..11)?.strip_prefix(b"\\u")?, 16);
            if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (first, second()) {
                let both = 0x10000 + ((first - 0xd800) << 10 | (low - 0xdc00));
                return Some((char::from_u32(both)?, 11));
            }
            return Some((char::from_u32(first).unwrap_or('\u{fffd}'), 5));
        }
        other if other.is_ascii_punctuation() => char::from(other),
        _ => return None,
    };
    Some((character, 1))
}

/// True for what follows the quote that ends a string.
fn is_behind_string(rest: &[u8]) -> bool {
    matches!(
        rest.trim_ascii_start(),
        [] | [b',' | b']' | b'}' | b')', ..]
    )
}

/// The length of the number or constant that `text` begins with.
fn constant_len(text: &[u8]) -> Option<usize> {
    const CONSTANTS: [&[u8]; 8] = [
        b"true", b"false", b"null", b"True", b"False", b"None", b"NaN", b"nan",
    ];
    let len = text
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        .count();
    let word = &text[..len];
    let is_number = matches!(word, [b'0'..=b'9' | b'-', ..])
        && word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    (is_number || CONSTANTS.contains(&word)).then_some(len)
}
