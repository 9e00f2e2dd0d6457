//! The text of an NVTX range of NCCL.

use crate::formats::whole_number::parse_pointer;

/// Facts about a range of NCCL; unknown ones are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RangeFacts {
    /// The communicator's id.
    pub(super) comm: Option<u64>,
    /// The bytes that the caller passed.
    pub(super) bytes: Option<u64>,
    pub(super) nranks: Option<i64>,
    pub(super) rank: Option<i64>,
    /// The CUDA device.
    pub(super) device: Option<i64>,
    /// The root or the peer.
    pub(super) root: Option<i64>,
    pub(super) redop: Option<i64>,
    /// The stream's address.
    pub(super) stream: Option<u64>,
}

/// The name of NCCL's function that a range is of, without `nccl`: `AllReduce`, `GroupEnd`.
pub(super) fn parse_function(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_prefix(b"nccl")?;
    let end = name.iter().position(|b| !b.is_ascii_alphanumeric());
    let (name, rest) = name.split_at_checked(end.unwrap_or(name.len()))?;
    let is_whole = rest.is_empty() || rest.starts_with(b"()");
    (is_whole && name.first()?.is_ascii_uppercase()).then_some(name)
}

/// Reads the words of a NCCL that is patched to name its arguments: `ncclAllReduce(): commHash 0x5f, stream
/// 0x7f, data_size 4096, type_size 4, red_op 0, pid 7`. `data_size` is bytes already.
pub(super) fn parse_facts(text: &[u8]) -> RangeFacts {
    let mut facts = RangeFacts::default();
    let Some(at) = memchr::memmem::find(text, b"(): ") else {
        return facts;
    };
    let words = text.get(at + 4..).unwrap_or_default();
    let is_between = |b: &u8| matches!(*b, b' ' | b',');
    let mut words = words.split(is_between).filter(|word| !word.is_empty());
    while let Some(key) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match key {
            b"commHash" => facts.comm = parse_pointer(value()),
            b"stream" => facts.stream = parse_pointer(value()),
            b"data_size" => facts.bytes = parse_number(value()).and_then(|n| n.try_into().ok()),
            b"nranks" => facts.nranks = parse_number(value()),
            b"rank" => facts.rank = parse_number(value()),
            b"root" | b"receiver_rank" | b"sender_rank" => facts.root = parse_number(value()),
            b"red_op" => facts.redop = parse_number(value()),
            b"cudaDev" => facts.device = parse_number(value()),
            _ => {}
        }
    }
    facts
}

fn parse_number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_ncclls_own_names() {
        let of = |text: &str| parse_function(text.as_bytes()).map(<[u8]>::to_vec);
        assert_eq!(of("ncclAllReduce"), Some(b"AllReduce".to_vec()));
        assert_eq!(of("ncclGroupEnd(): pid 7"), Some(b"GroupEnd".to_vec()));
        for text in [
            "nccl:all_reduce",
            "nccl",
            "ncclall",
            "ncclAllReduce 7",
            "record_param_comms",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn the_words_of_a_patched_nccl_are_read() {
        let text = b"ncclBroadcast(): commHash 0x5f, stream 0x7f00, data_size 4096, type_size 4, root 3, pid 7";
        let expected = RangeFacts {
            comm: Some(0x5f),
            bytes: Some(4096),
            root: Some(3),
            stream: Some(0x7f00),
            ..RangeFacts::default()
        };
        assert_eq!(parse_facts(text), expected);
        assert_eq!(
            parse_facts(b"ncclSend(): commHash 5f, data_size -1, receiver_rank"),
            RangeFacts::default()
        );
        assert_eq!(parse_facts(b"ncclGroupEnd"), RangeFacts::default());
    }
}
