//! Wraps text into lines that fit a terminal: a long line goes on below its own beginning, and the
//! word that names its severity has its colour.

use super::look::{DrawStyle, value_style, wrap_text};
use crate::error::escape::escape_for_terminal;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Writes lines to `out` so that they fit where `look` is.
#[derive(Debug)]
pub struct WrapWriter<W> {
    look: DrawStyle,
    out: W,
    line: Vec<u8>,
}

impl<W: Write> WrapWriter<W> {
    /// Writes to `out`.
    pub fn new(look: DrawStyle, out: W) -> WrapWriter<W> {
        let line = Vec::new();
        WrapWriter { look, out, line }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        let line = escape_for_terminal(&line, false);
        let lines = match self.look.width {
            Some(width) if !is_command(&line) => wrap_hanging(&line, width),
            _ => vec![line],
        };
        for (at, line) in lines.iter().enumerate() {
            let text = line.trim_start();
            let blanks = line.len() - text.len();
            let word = text.split([':', ' ']).next().unwrap_or_default();
            let style = ["severity", "verdict"]
                .iter()
                .find_map(|of| value_style(of, word));
            match style.filter(|_| self.look.colour && at == 0) {
                Some(style) => {
                    let rest = &text[word.len()..];
                    writeln!(self.out, "{:blanks$}{style}{word}{style:#}{rest}", "")?;
                }
                None => writeln!(self.out, "{line}")?,
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for WrapWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            match byte {
                b'\n' => self.write_line()?,
                _ => self.line.push(byte),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.write_line()?;
        }
        self.out.flush()
    }
}

/// A line that people copy stays whole.
fn is_command(line: &str) -> bool {
    let word = line.trim_start().split(' ').next().unwrap_or_default();
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    })
}

/// Breaks a line into several: the later ones begin below its text, after blanks and a word that
/// two blanks follow.
fn wrap_hanging(line: &str, width: usize) -> Vec<String> {
    if line.width() <= width {
        return vec![line.to_owned()];
    }
    let blanks = line.len() - line.trim_start().len();
    let text = &line[blanks..];
    let tag = match text.find("  ") {
        Some(end) if blanks > 0 && !text[..end].contains(' ') => {
            end + text[end..].len() - text[end..].trim_start().len()
        }
        _ => 0,
    };
    let under = match blanks + tag {
        under if under * 2 < width => under,
        _ => 0,
    };
    let (first, rest) = line.split_at(under);
    let mut lines = Vec::new();
    for (at, part) in wrap_text(rest, width - under).iter().enumerate() {
        let begin = if at == 0 { first } else { "" };
        lines.push(format!("{begin:under$}{part}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(of: &str, width: usize) -> String {
        let look = DrawStyle {
            width: Some(width),
            ..DrawStyle::default()
        };
        let mut out = Vec::new();
        let mut wrapped = WrapWriter::new(look, &mut out);
        wrapped.write_all(of.as_bytes()).unwrap();
        wrapped.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_goes_on_below_its_text() {
        let given = "error: rank 1 is late\n    sure  high: the calls before it\n    NCCL_DEBUG=INFO PYTHONUNBUFFERED=1 x\n";
        let expected = "error: rank 1 is late\n    sure  high: the\n          calls\n          before it\n    NCCL_DEBUG=INFO PYTHONUNBUFFERED=1 x\n";
        assert_eq!(text(given, 21), expected);
        assert_eq!(text("a\n\nb", 80), "a\n\nb\n");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_line_is_too_wide(of in "( {0,4}[a-z]{1,12}){0,30}", width in 20..90_usize) {
            let got = text(&of, width);
            prop_assert!(got.lines().all(|line| line.width() <= width), "{got}");
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(letters(&got), letters(&of));
        }
    }
}
