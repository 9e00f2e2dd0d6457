//! Reports as JSON: an array of objects, a key on each line. nsys does not escape quotes in names.

use super::limits::MAX_OBJECT_KEYS;
use super::{StatsLine, find_columns, parse_row};

/// The object that is read.
#[derive(Debug, Default)]
pub(super) struct StatsObjects {
    /// Its keys and values so far; none outside of an object.
    open: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl StatsObjects {
    /// What the next line is.
    pub(super) fn read_line(&mut self, line: &[u8]) -> StatsLine {
        let text = line.trim_ascii();
        let text = text.strip_suffix(b",").unwrap_or(text);
        match text {
            b"{" => {
                self.open = Some(Vec::new());
                StatsLine::Other
            }
            b"}" => match self.open.take() {
                Some(object) => kernel_of_object(&object),
                None => StatsLine::End,
            },
            b"[" | b"]" => {
                self.open = None;
                StatsLine::Other
            }
            _ => {
                let Some(open) = &mut self.open else {
                    return StatsLine::End;
                };
                match parse_pair(text).filter(|_| open.len() < MAX_OBJECT_KEYS) {
                    Some(pair) => {
                        open.push(pair);
                        StatsLine::Other
                    }
                    None => {
                        self.open = None;
                        StatsLine::End
                    }
                }
            }
        }
    }
}

/// A key and its value, as text.
fn parse_pair(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let rest = text.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    let (key, rest) = rest.split_at_checked(end)?;
    let value = rest
        .get(1..)?
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii();
    let value = match value.first() {
        Some(b'"') => match serde_json::from_slice::<String>(value) {
            Ok(text) => text.into_bytes(),
            Err(_) => value.get(1..)?.strip_suffix(b"\"")?.to_vec(),
        },
        _ => value.to_vec(),
    };
    Some((key.to_vec(), value))
}

/// The kernel of an object; objects of other reports are passed over.
fn kernel_of_object(object: &[(Vec<u8>, Vec<u8>)]) -> StatsLine {
    let Some(columns) = find_columns(object.iter().map(|(key, _)| &key[..])) else {
        return StatsLine::Other;
    };
    let values = object.iter().map(|(_, value)| &value[..]);
    parse_row(columns.into_iter().zip(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_a_name_need_not_be_escaped() {
        let name = |text: &str| {
            parse_pair(text.as_bytes()).map(|(_, value)| String::from_utf8(value).unwrap())
        };
        assert_eq!(
            name("\"Name\": \"a \"b\" c\"").as_deref(),
            Some("a \"b\" c")
        );
        assert_eq!(
            name("\"Name\": \"a \\\"b\\\" c\"").as_deref(),
            Some("a \"b\" c")
        );
        assert_eq!(name("\"Instances\": 34").as_deref(), Some("34"));
        assert_eq!(name("\"Instances\" 34"), None);
    }
}
