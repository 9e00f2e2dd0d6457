//! Text on a terminal: what a log carries may be looked at, but must not drive the terminal.

use std::io::Write;
use std::path::Path;

/// Returns true for a character that a terminal acts on instead of showing it: control characters,
/// also of Latin-1 (U+009B begins an escape sequence as ESC [ does), line and paragraph separators,
/// and Unicode's Bidi_Control, which changes the direction of the text after it.
fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// True for a text of ASCII's visible characters, with line ends if `multiline`.
fn is_plain_text(text: &str, multiline: bool) -> bool {
    let is_plain = |b: u8| matches!(b, b' '..=b'~') || multiline && b == b'\n';
    text.bytes().all(is_plain)
}

/// Escapes the characters of `text` that a terminal would act on. Line ends stay if `multiline`.
pub fn escape_for_terminal(text: &str, multiline: bool) -> String {
    // Most texts are plain: only the others are gone through letter by letter.
    if is_plain_text(text, multiline) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts_on_terminal(c) && !(multiline && c == '\n') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Escapes the characters of `text` that XML does not have, for a writer that escapes its marks itself.
pub fn escape_for_xml_text(text: &str) -> String {
    if is_plain_text(text, true) {
        return text.to_owned();
    }
    escape_for_terminal(text, true).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Escapes a log's text for HTML or XML.
pub fn escape_markup(text: &str) -> String {
    let text = escape_for_xml_text(text);
    let is_mark = |byte: u8| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'');
    if !text.bytes().any(is_mark) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(entity);
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out
}

/// Writes to a terminal. Escapes the characters that it would act on, except line ends and tabs, and
/// bytes that are not UTF-8: rows and lines of a log can carry any bytes.
#[derive(Debug)]
pub struct EscapingWriter<W> {
    out: W,
    /// The first bytes of a character that is not complete yet.
    begun: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> EscapingWriter<W> {
        let begun = Vec::new();
        EscapingWriter { out, begun }
    }

    fn write_escaped_text(&mut self, text: &str) -> std::io::Result<()> {
        let is_acting = |c: char| acts_on_terminal(c) && c != '\n' && c != '\t';
        let mut from = 0;
        for (at, acting) in text.match_indices(is_acting) {
            self.out.write_all(&text.as_bytes()[from..at])?;
            match acting.as_bytes() {
                [byte] => write!(self.out, "{}", byte.escape_ascii())?,
                _ => write!(self.out, "{}", acting.escape_default())?,
            }
            from = at + acting.len();
        }
        self.out.write_all(&text.as_bytes()[from..])
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.write_escaped_text(chunk.valid())?;
            let invalid = chunk.invalid();
            let ended = chunks.peek().is_some()
                || std::str::from_utf8(invalid).is_ok_and(str::is_empty)
                || std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_some());
            if ended {
                write!(self.out, "{}", invalid.escape_ascii())?;
            } else {
                self.begun = invalid.to_vec();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        write!(self.out, "{}", begun.escape_ascii())?;
        self.out.flush()
    }
}

/// Returns a path as messages show it. A path that is not UTF-8 is shown as the shell's `$'...'`, which
/// can be typed: replacement characters would all look alike.
pub(crate) fn shown_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut name = "$'".to_owned();
    for part in bytes.utf8_chunks() {
        name += &part.valid().replace('\\', r"\\").replace('\'', r"\'");
        for byte in part.invalid() {
            name += &format!(r"\x{byte:02x}");
        }
    }
    name + "'"
}

/// A word that a shell takes as it is.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(parts: &[&[u8]]) -> Vec<u8> {
        let mut out = EscapingWriter::new(Vec::new());
        parts.iter().for_each(|part| out.write_all(part).unwrap());
        out.flush().unwrap();
        out.out
    }

    #[test]
    fn what_is_written_to_a_terminal_is_escaped() {
        assert_eq!(
            written(&["a\x1b[2Jb\r\n█\t".as_bytes()]),
            "a\\x1b[2Jb\\r\n█\t".as_bytes()
        );
        // As a character and as a byte of no character.
        assert_eq!(written(&["\u{9b}2J".as_bytes()]), b"\\u{9b}2J");
        assert_eq!(written(&[b"\x9b2J\xff"]), b"\\x9b2J\\xff");
        assert_eq!(written(&["a\u{202e}b".as_bytes()]), b"a\\u{202e}b");
    }

    proptest! {
        #[test]
        fn markup_is_escaped_letter_by_letter(text in "[ -~\\n\u{1b}\u{202e}\u{ffff}ш]{0,40}") {
            let mut naive = String::new();
            for c in escape_for_xml_text(&text).chars() {
                match c {
                    '&' => naive.push_str("&amp;"),
                    '<' => naive.push_str("&lt;"),
                    '>' => naive.push_str("&gt;"),
                    '"' => naive.push_str("&quot;"),
                    '\'' => naive.push_str("&#39;"),
                    c => naive.push(c),
                }
            }
            prop_assert_eq!(escape_markup(&text), naive);
        }
    }

    #[test]
    fn escapes_cannot_reach_a_terminal() {
        assert_eq!(
            escape_for_terminal("a\x1b[31mb\r\n", false),
            "a\\u{1b}[31mb\\r\\n"
        );
        assert_eq!(escape_for_terminal("a\nb", true), "a\nb");
        assert_eq!(escape_for_terminal("шаг 1", false), "шаг 1");
        assert_eq!(escape_for_terminal("a\u{9b}2J", true), "a\\u{9b}2J");
        assert_eq!(
            escape_for_terminal("\u{2066}x\u{202e}", false),
            "\\u{2066}x\\u{202e}"
        );
    }

    proptest! {
        /// Bytes of all kinds, written in parts that end anywhere: nothing of them acts, and where
        /// they end makes no difference.
        #[test]
        fn parts_that_end_anywhere_are_escaped_as_the_whole(
            text in "[ -~\n\t\u{80}-\u{9f}█шa\u{202e}\x1b]{0,20}",
            noise in proptest::collection::vec(any::<u8>(), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let bytes = [text.as_bytes(), &noise, text.as_bytes()].concat();
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            let whole = written(&[&bytes]);
            prop_assert_eq!(&whole, &written(&[front, back]));
            let shown = String::from_utf8(whole).unwrap();
            prop_assert!(!shown.contains(|c| acts_on_terminal(c) && c != '\n' && c != '\t'), "{}", shown);
        }
    }
}
