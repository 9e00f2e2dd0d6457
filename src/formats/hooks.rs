//! Text logs of Alnair's hooks of CUDA. They are recognised, not read yet.

use super::{Format, Tells};

/// `name:cuInit, start:1663174503143895116, burst:4336641, bytes:0, kind:-1`
pub(super) const CUDA: Format = Format {
    name: "alnair",
    what: "an Alnair log of CUDA calls",
    tells: Tells::NOTHING,
    probe: |head| {
        head.other(is_cuda(head.line()) && head.mostly(|line| is_cuda(line) || is_field(line)))
    },
};

fn is_cuda(line: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"name:cu", b"name:cuda", b"name:mem_used,count:"];
    names.iter().any(|name| line.starts_with(name))
}

/// A line of the version with a line for each field.
fn is_field(line: &[u8]) -> bool {
    line.starts_with(b"count:") || line.starts_with(b"burst:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn each_is_known_by_most_of_its_lines() {
        let is =
            |format: &Format, text: &str| (format.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        assert!(is(
            &CUDA,
            "name:cuInit, start:16, burst:43, bytes:0, kind:-1\n"
        ));
        assert!(is(
            &CUDA,
            "name:cuInit\ncount:4\nburst:4213891\nname:cuMemAlloc\n"
        ));
        assert!(!is(&CUDA, "name: custom\n"));
    }
}
