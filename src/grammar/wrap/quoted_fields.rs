//! Quoted fields of CSV: a quote in one is doubled, and nothing is escaped.

use super::{UnwrapBuffer, WrappedLine};
use memchr::memchr;

/// Appends the quoted fields that are wanted. True where there was one, and where all of the line
/// is fields; the last may end on another line.
pub(super) fn extract_quoted_fields(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool {
    let text = line.text;
    // The byte before the first quote is the separator of fields, or else the byte after its end.
    let Some(quote) = memchr(b'"', text) else {
        return false;
    };
    let between = match text[..quote].last() {
        Some(&byte @ (b',' | b';' | b'\t')) => Some(byte),
        Some(_) => return false,
        None => None,
    };
    let mut fields = QuotedFields {
        text,
        at: 0,
        between,
    };
    let mut any = false;
    while fields.at < text.len() {
        if text[fields.at] != b'"' {
            let rest = &text[fields.at..];
            let is_end = |b: &u8| Some(*b) == fields.between;
            let len = rest.iter().position(is_end).unwrap_or(rest.len());
            if rest[..len].contains(&b'"') {
                return false;
            }
            fields.at += len + 1;
            continue;
        }
        let from = out.text.len();
        if any {
            out.append_from(line.start + fields.at, b"\n");
        }
        let content = out.text.len();
        if !fields.read_quoted(line.start, out) {
            return false;
        }
        if (line.is_wanted)(&out.text[content..]) {
            any = true;
        } else {
            out.truncate(from);
        }
    }
    any
}

struct QuotedFields<'a> {
    text: &'a [u8],
    at: usize,
    /// The separator of fields, once it is known.
    between: Option<u8>,
}

impl QuotedFields<'_> {
    /// Appends the quoted field from here on; false where it is none.
    fn read_quoted(&mut self, start: usize, out: &mut UnwrapBuffer) -> bool {
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let Some(len) = memchr(b'"', rest) else {
                out.append_from(start + self.at, rest);
                self.at = self.text.len();
                return true;
            };
            out.append_from(start + self.at, &rest[..len]);
            self.at += len + 1;
            match rest.get(len + 1) {
                Some(b'"') => {
                    out.append_from(start + self.at, b"\"");
                    self.at += 1;
                }
                None => return true,
                Some(&byte) => {
                    let known = self.between.is_none_or(|between| between == byte);
                    if !known || !matches!(byte, b',' | b';' | b'\t') {
                        return false;
                    }
                    self.between = Some(byte);
                    self.at += 1;
                    return true;
                }
            }
        }
    }
}
