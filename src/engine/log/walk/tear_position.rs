//! Where NCCL 2.29.2+ tears a line: at byte 128 of it, or at a multiple.

use super::limits::{MAX_CHANCE_BYTES, TEAR_STRIDE_BYTES};
use crate::grammar::coll;
use crate::grammar::header::HeaderLevel;

/// Counts the bytes of a line that are its own if it was torn in front of the next writer's bytes:
/// `text` reaches from its beginning to them. A launcher's `label` may be in front of them.
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
    let after = text.len().checked_sub(tear)?;
    if after % TEAR_STRIDE_BYTES == 0 {
        return Some(text.len());
    }
    let gap = &text[text.len() - after % TEAR_STRIDE_BYTES..];
    (!label.is_empty() && is_same_label_form(label, gap)).then(|| text.len() - gap.len())
}

/// Counts the bytes of a call that are its own if other bytes follow them: `text` is the line from
/// its beginning, with its message at `body`, and breaks off `at`.
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

/// Returns true for two labels of one launcher: they differ in numbers, and in blanks beside them.
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
