//! Where NCCL 2.29.2+ tears a line: at byte 128 of it, or at a multiple.

use super::fragment::TEAR_STRIDE_BYTES;
use crate::grammar::coll;
use crate::grammar::header::HeaderLevel;

/// How far after the tear a line may go on by chance: another's bytes may look like its own
/// next digits.
const MAX_CHANCE_BYTES: usize = 16;

/// How many of a line's first bytes are there, if what is in front of the next writer's bytes was
/// torn: `text` goes from its beginning to theirs. A launcher's `label` may be in front of theirs.
pub(super) fn own_bytes_before_next(
    text: &[u8],
    level: HeaderLevel,
    label: &[u8],
) -> Option<usize> {
    // A WARN begins with an empty line.
    let tear = if level == HeaderLevel::Warn {
        TEAR_STRIDE_BYTES - 1
    } else {
        TEAR_STRIDE_BYTES
    };
    let behind = text.len().checked_sub(tear)?;
    if behind % TEAR_STRIDE_BYTES == 0 {
        return Some(text.len());
    }
    let gap = &text[text.len() - behind % TEAR_STRIDE_BYTES..];
    (!label.is_empty() && is_same_label_form(label, gap)).then(|| text.len() - gap.len())
}

/// How many of a call's first bytes are its own, if what follows them is not: `text` is the line
/// from its beginning, with its message at `body`, and breaks off `at`.
pub(super) fn own_bytes_of_call(text: &[u8], body: usize, at: usize) -> Option<usize> {
    let tears = (1..=text.len() / TEAR_STRIDE_BYTES)
        .map(|n| n * TEAR_STRIDE_BYTES)
        .rev();
    tears
        .skip_while(|&tear| tear > at + MAX_CHANCE_BYTES)
        .find(|&tear| {
            let own = text.get(body..tear).is_some_and(coll::is_begun);
            own && at <= tear + MAX_CHANCE_BYTES
        })
}

/// True for two labels of one launcher: they differ in numbers, and in blanks beside these.
pub(super) fn is_same_label_form(a: &[u8], b: &[u8]) -> bool {
    let shape = |text: &'_ [u8]| -> Vec<u8> {
        let mut shape = Vec::with_capacity(text.len());
        for &b in text {
            match b {
                b'0'..=b'9' if shape.last() == Some(&b'0') => {}
                b'0'..=b'9' => {
                    while shape.last() == Some(&b' ') {
                        shape.pop();
                    }
                    shape.push(b'0');
                }
                _ => shape.push(b),
            }
        }
        shape
    };
    !a.is_empty() && shape(a) == shape(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_one_launcher_differ_in_numbers() {
        assert!(is_same_label_form(b"[1,0]<stdout>:", b"[1,12]<stdout>:"));
        assert!(is_same_label_form(b" 9: ", b"10: "));
        assert!(is_same_label_form(b"worker-0: ", b"worker-11: "));
        assert!(!is_same_label_form(b"[1,0]<stdout>:", b"[1,0]<stderr>:"));
        assert!(!is_same_label_form(b"", b""));
    }

    #[test]
    fn a_line_is_torn_at_multiples_of_128() {
        let text = [b'x'; 300];
        assert_eq!(
            own_bytes_before_next(&text[..128], HeaderLevel::Info, b""),
            Some(128)
        );
        assert_eq!(
            own_bytes_before_next(&text[..256], HeaderLevel::Info, b""),
            Some(256)
        );
        assert_eq!(
            own_bytes_before_next(&text[..127], HeaderLevel::Warn, b""),
            Some(127)
        );
        assert_eq!(
            own_bytes_before_next(&text[..127], HeaderLevel::Info, b""),
            None
        );
        let labelled = [&text[..128], b"[1,12]<stdout>:"].concat();
        let label = b"[1,3]<stdout>:";
        assert_eq!(
            own_bytes_before_next(&labelled, HeaderLevel::Info, label),
            Some(128)
        );
        assert_eq!(
            own_bytes_before_next(&labelled, HeaderLevel::Info, b"3: "),
            None
        );
    }
}
