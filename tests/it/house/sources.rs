//! The sources as text: what is code, what is a comment, what is a test.

use crate::support::files;
use std::path::Path;

/// One file without its tests.
pub(super) struct Source {
    /// Its path from the checkout's root, such as `src/engine/pool.rs`.
    pub(super) name: String,
    /// The code with comments removed and the contents of string literals blanked; line by line as in the file.
    pub(super) code: String,
    /// The text of its comments.
    pub(super) comments: String,
}

impl Source {
    /// Returns the lines that have code.
    pub(super) fn lines(&self) -> usize {
        let lines = self.code.lines();
        lines.filter(|line| !line.trim().is_empty()).count()
    }

    /// Returns the number of the line that byte `at` of the code is in, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }
}

/// Returns every source file of `src` that is no test.
pub(super) fn read_sources(root: &Path) -> Vec<Source> {
    let mut all = Vec::new();
    for path in files(&root.join("src")) {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let is_test = stem.ends_with("tests") || ["testing", "shared", "twin"].contains(&stem);
        if !name.ends_with(".rs") || is_test || name.contains("/tests/") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (code, comments) = divide(without_tests(&text));
        all.push(Source {
            name,
            code,
            comments,
        });
    }
    all
}

/// Cuts a file at its test module, which stands last.
fn without_tests(text: &str) -> &str {
    let mut from = 0;
    while let Some(at) = text[from..].find("#[cfg(test)]\n").map(|at| from + at) {
        let rest = text[at..]
            .trim_start_matches(|c: char| c != '\n')
            .trim_start();
        let is_module = rest
            .lines()
            .find(|line| !line.starts_with("#["))
            .is_some_and(|line| line.contains("mod ") && line.ends_with('{'));
        if is_module {
            return &text[..at];
        }
        from = at + 1;
    }
    text
}

/// Divides a text into code and comments. What is in string literals is left out of both.
fn divide(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let (mut code, mut comments) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            let line = &rest[..end];
            let start = line.iter().position(|b| !b"/!".contains(b)).unwrap_or(end);
            comments.extend_from_slice(&line[start..]);
            comments.push(b'\n');
            at += end;
        } else if let Some(length) = literal(rest) {
            code.push(b'"');
            code.extend(rest[..length].iter().filter(|&&b| b == b'\n'));
            code.push(b'"');
            at += length;
        } else {
            code.push(bytes[at]);
            at += 1;
        }
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(code), text(comments))
}

/// Returns the length of the string or character literal that begins here.
fn literal(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().skip(1).take_while(|&&b| b == b'#').count();
    if rest[0] == b'r' && rest.get(1 + hashes) == Some(&b'"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = &rest[hashes + 2..];
        let at = body.windows(end.len()).position(|w| w == end.as_bytes())?;
        return Some(hashes + 2 + at + end.len());
    }
    if rest[0] == b'"' {
        let mut at = 1;
        while at < rest.len() && rest[at] != b'"' {
            at += if rest[at] == b'\\' { 2 } else { 1 };
        }
        return Some((at + 1).min(rest.len()));
    }
    if rest[0] == b'\'' {
        let is_escape = rest.get(1) == Some(&b'\\');
        let close = rest.iter().skip(2).take(11).position(|&b| b == b'\'')?;
        let body = std::str::from_utf8(&rest[1..close + 2]).ok()?;
        return (is_escape || body.chars().count() == 1).then_some(close + 3);
    }
    None
}
