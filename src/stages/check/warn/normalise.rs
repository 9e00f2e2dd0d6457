//! A WARN's text without the parts that vary from line to line.

use crate::stages::check::warn::limits::MAX_NORMALISED_BYTES;

/// Prefixes of numbers with a meaning: two lines with other numbers differ.
const MEANINGFUL_NUMBER_PREFIXES: [&[u8]; 6] = [
    b"status=",
    b"res=",
    b"retcode ",
    b"with error ",
    b"closed=",
    b"RC: -",
];

/// Appends `text` to `out` with `#` for its numbers, addresses and the digits of its names.
pub(crate) fn normalise_text(text: &[u8], out: &mut Vec<u8>) {
    let text = &text[..text.len().min(MAX_NORMALISED_BYTES)];
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if !byte.is_ascii_alphanumeric() {
            out.push(byte);
            at += 1;
            continue;
        }
        let rest = &text[at..];
        let end = rest.iter().position(|b| !b.is_ascii_alphanumeric());
        let word = &rest[..end.unwrap_or(rest.len())];
        at += word.len();
        if MEANINGFUL_NUMBER_PREFIXES
            .iter()
            .any(|before| out.ends_with(before))
        {
            out.extend_from_slice(word);
        } else if is_number(word) {
            out.push(b'#');
        } else {
            push_normalised_name(word, out);
        }
    }
}

/// True for `17`, `0x7f00`, `3beac3`: in base 16, and with a digit.
fn is_number(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"0x").unwrap_or(word);
    digits.iter().all(u8::is_ascii_hexdigit) && digits.iter().any(u8::is_ascii_digit)
}

/// True for a name such as `mlx5` or `node17`.
fn push_normalised_name(word: &[u8], out: &mut Vec<u8>) {
    let mut before = false;
    for &byte in word {
        let digit = byte.is_ascii_digit();
        match (digit, before) {
            (true, true) => {}
            (true, false) => out.push(b'#'),
            (false, _) => out.push(byte),
        }
        before = digit;
    }
}

#[cfg(test)]
mod tests {
    use super::normalise_text;

    #[test]
    fn only_what_differs_from_line_to_line_goes() {
        for (text, body) in [
            (
                "[Proxy Service 511] Failed to execute operation Close from rank 510, retcode 3",
                "[Proxy Service #] Failed to execute operation Close from rank #, retcode 3",
            ),
            (
                "NET/IB: Got completion from peer 10.0.0.1<51161> with status=12 opcode=32614 \
                 localGid fd00::ff22 hca mlx5_1",
                "NET/IB: Got completion from peer #.#.#.#<#> with status=12 opcode=# localGid \
                 #::# hca mlx#_#",
            ),
            (
                "NET/IB : error addr 0x7ff rkey 3beac3",
                "NET/IB : error addr # rkey #",
            ),
            (
                "closed by remote peer node17<42830>",
                "closed by remote peer node#<#>",
            ),
            ("\u{e9} 5", "\u{e9} #"),
        ] {
            let mut out = Vec::new();
            normalise_text(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), body);
        }
    }
}
