//! Everything a person reads about bad input: counts, places, and text made safe to print.

/// `text` with control bytes escaped, so that log text cannot drive a terminal. Newlines stay
/// when `multiline`.
pub fn printable(text: &str, multiline: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !(multiline && c == '\n') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
