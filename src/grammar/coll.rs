//! The COLL line: one call of a collective, `Send` or `Recv`, printed when it is enqueued.
//!
//! ```text
//! AllReduce: opCount 1a sendbuff 0x10048f82700 recvbuff 0x10048f82800 count 64 datatype 7 op 0 root 0 comm
//! 0x7f0c741162f0 [nranks=2] stream 0x7f0c74002f00
//! ```
//!
//! The format string is `ncclEnqueueCheck`'s in `src/enqueue.cc`, the same in NCCL 2.4.2 to
//! 2.30.7. RCCL adds `acc PTR` after recvbuff (ROCm 7) and ` task N globalrank N` at the end.

use super::token::{
    PResult, ParseFailure, dec_i64, dec_u32, dec_u64, hex_u64, is_name_byte, pointer, skip_pointer,
    word,
};
use crate::values::is_known_op;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// What every COLL body has after its operation, and nothing else NCCL prints.
pub const COLL_ANCHOR: &[u8] = b": opCount ";

/// Finds [`COLL_ANCHOR`].
pub static COLL_ANCHOR_FINDER: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(COLL_ANCHOR));

/// One call as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coll<'a> {
    /// The operation as printed, `AllReduce`, `Send`, `mscclpp_ncclAllGather`.
    pub op: &'a [u8],
    /// NCCL's opCount (printed in hex). Not a sequence number.
    pub op_count: u64,
    /// Elements.
    pub count: u64,
    /// The datatype's code, see [`crate::values::Datatype`].
    pub datatype: u32,
    /// The reduction's code; large for a user's own.
    pub redop: u64,
    /// The root, or the peer of `Send` and `Recv`.
    pub root: i64,
    /// The communicator's address in its process.
    pub comm: u64,
    /// Size of the communicator.
    pub nranks: Option<u32>,
    /// The CUDA stream's address; `(nil)` is 0.
    pub stream: u64,
}

/// The longest operation name taken for one; the longest printed has 24 bytes.
const MAX_OP_NAME_BYTES: usize = 64;

/// The operation's name that ends where [`COLL_ANCHOR`] begins, at `anchor` in `line`: its start,
/// or `None` where no name is there.
pub fn find_op_name(line: &[u8], anchor: usize) -> Option<usize> {
    let floor = anchor.saturating_sub(MAX_OP_NAME_BYTES);
    let start = line[floor..anchor]
        .iter()
        .rposition(|&b| !is_name_byte(b))
        .map_or(floor, |i| floor + i + 1);
    (start < anchor && is_name(&line[start..anchor])).then_some(start)
}

/// The operations NCCL and RCCL print.
const OP_NAMES: [&[u8]; 15] = [
    b"AllReduce",
    b"AllGather",
    b"ReduceScatter",
    b"Broadcast",
    b"Reduce",
    b"AlltoAll",
    b"AllToAll",
    b"Gather",
    b"Scatter",
    b"Send",
    b"Recv",
    b"PutSignal",
    b"WaitSignal",
    b"Signal",
    b"AllReduceWithBias",
];

/// True for what may be an operation's name: a known one, or a new one that is not the rest of
/// a line cut in it (`olGather`) and not two names glued where lines were cut (`AllGaAllGather`).
fn is_name(name: &[u8]) -> bool {
    if OP_NAMES.contains(&name) {
        return true;
    }
    let first = name.first().copied().unwrap_or_default();
    let is_ours = [&b"nccl"[..], b"mscclpp", b"rccl"]
        .iter()
        .any(|start| name.starts_with(start));
    is_ours || first.is_ascii_uppercase() && !is_glued(name)
}

/// True for the beginning of a known name with the end of one after it.
fn is_glued(name: &[u8]) -> bool {
    let begins = |head: &[u8]| {
        OP_NAMES
            .iter()
            .any(|n| n.len() > head.len() && n.starts_with(head))
    };
    let ends = |tail: &[u8]| OP_NAMES.iter().any(|n| n.ends_with(tail));
    (1..name.len().saturating_sub(2)).any(|at| begins(&name[..at]) && ends(&name[at..]))
}

/// The body after [`COLL_ANCHOR`], to the end of its last field. `op` is the name in front.
pub fn parse_coll_body<'a>(op: &'a [u8], input: &'a [u8]) -> PResult<'a, Coll<'a>> {
    let (i, op_count) = hex_u64(input)?;
    let (i, _) = word(" sendbuff ", "sendbuff")(i)?;
    let (i, ()) = skip_pointer(i)?;
    let (i, _) = word(" recvbuff ", "recvbuff")(i)?;
    let (i, ()) = skip_pointer(i)?;
    let i = match i.strip_prefix(b" acc ") {
        Some(i) => skip_pointer(i)?.0,
        None => i,
    };
    let (i, _) = word(" count ", "count")(i)?;
    let (i, count) = dec_u64(i)?;
    let (i, _) = word(" datatype ", "datatype")(i)?;
    let (i, datatype) = dec_u32(i)?;
    let (i, _) = word(" op ", "op")(i)?;
    let (i, redop) = dec_u64(i)?;
    let (i, _) = word(" root ", "root")(i)?;
    let (i, root) = dec_i64(i)?;
    let (i, _) = word(" comm ", "comm")(i)?;
    let (i, comm) = pointer(i)?;
    let (i, nranks) = match i.strip_prefix(b" [nranks=") {
        Some(i) => {
            let (i, n) = dec_u32(i)?;
            let (i, _) = word("]", "] after nranks")(i)?;
            (i, Some(n))
        }
        None => (i, None),
    };
    let (i, _) = word(" stream ", "stream")(i)?;
    let (i, stream) = pointer(i)?;
    let i = skip_rccl_tail(i).map_or(i, |(rest, ())| rest);
    Ok((
        i,
        Coll {
            op,
            op_count,
            count,
            datatype,
            redop,
            root,
            comm,
            nranks,
            stream,
        },
    ))
}

/// RCCL's ` task N globalrank N`.
pub(super) fn skip_rccl_tail(input: &[u8]) -> PResult<'_, ()> {
    let (i, _) = word(" task ", "task")(input)?;
    let (i, _) = dec_u32(i)?;
    let (i, _) = word(" globalrank ", "globalrank")(i)?;
    let (i, _) = dec_u32(i)?;
    Ok((i, ()))
}

/// Reads the whole body around the [`COLL_ANCHOR`] at `anchor` in `line`: its start, its values and
/// its end. An error has the expected text and the number of bytes of `line` that were left.
pub fn parse_coll_at(line: &[u8], anchor: usize) -> Result<(usize, Coll<'_>, usize), ParseFailure> {
    let Some(start) = find_op_name(line, anchor) else {
        return Err(ParseFailure {
            what: "an operation's name",
            left: line.len() - anchor,
        });
    };
    match parse_coll_body(&line[start..anchor], &line[anchor + COLL_ANCHOR.len()..]) {
        Ok((rest, coll)) => Ok((start, coll, line.len() - rest.len())),
        Err(nom::Err::Error(e) | nom::Err::Failure(e)) => Err(e),
        Err(nom::Err::Incomplete(_)) => Err(ParseFailure {
            what: "more",
            left: 0,
        }),
    }
}

/// True for text that can only be the end of a COLL line, with its beginning elsewhere: it
/// ends as one ends, with `comm`'s size and the stream.
pub fn is_tail(line: &[u8]) -> bool {
    STREAM.find(line).is_some_and(|at| {
        memchr::memmem::rfind(&line[..at], NRANKS_FIELD).is_some()
            && pointer(&line[at + b"] stream ".len()..]).is_ok()
    })
}

/// True for text that may be the very end of a COLL line, from within the communicator's size on.
pub fn is_short_tail(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    if let Some(at) = STREAM.find(line) {
        let (before, stream) = (&line[..at], &line[at + b"] stream ".len()..]);
        let digits = before.iter().rev().take_while(|b| b.is_ascii_digit());
        let word = &before[..before.len() - digits.count()];
        let is_size = word.len() < before.len() && NRANKS_FIELD.ends_with(word);
        return (is_size || before.is_empty()) && pointer(stream).is_ok();
    }
    let Some(blank) = memchr::memrchr(b' ', line) else {
        return false;
    };
    let (word, stream) = line.split_at(blank + 1);
    b"] stream ".ends_with(word) && word.len() > 1 && matches!(pointer(stream), Ok((b"", _)))
}

static STREAM: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"] stream "));
const NRANKS_FIELD: &[u8] = b" [nranks=";

/// True for the first bytes of a call's message: with some end it is whole.
pub fn is_begun(message: &[u8]) -> bool {
    const ENDS: [&[u8]; 2] = [
        b" sendbuff 0x1 recvbuff 0x1 count 1 datatype 1 op 1 root 1 comm 0x1 [nranks=1] stream 0x1",
        b" sendbuff (nil) recvbuff (nil) count 1 datatype 1 op 1 root 1 comm 0x1 [nranks=1] stream (nil)",
    ];
    let Some(anchor) = COLL_ANCHOR_FINDER.find(message) else {
        let begins = |name: &&[u8]| match message.strip_prefix(*name) {
            Some(rest) => COLL_ANCHOR.starts_with(rest),
            None => name.starts_with(message),
        };
        return !message.is_empty() && OP_NAMES.iter().any(begins);
    };
    let completes = |end: &[u8]| {
        let text = [message, end].concat();
        parse_coll_at(&text, anchor)
            .is_ok_and(|(_, _, end)| end == text.len() && end > message.len())
    };
    let number = anchor + COLL_ANCHOR.len() == message.len();
    if number {
        return find_op_name(message, anchor).is_some();
    }
    ENDS.iter()
        .any(|end| (0..end.len()).any(|from| completes(&end[from..])))
}

/// True for a message that can only be a call's and has no [`COLL_ANCHOR`]: bytes of it are not what NCCL
/// wrote, or its end is missing. It begins with an operation and the rest of the anchor, or it
/// has the words of a call's arguments: TUNING lines begin as calls do, and of these words a line on
/// a registered buffer may have one or two.
pub fn is_broken(message: &[u8]) -> bool {
    static DATATYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" datatype "));
    const WORDS: [&[u8]; 5] = [
        b" sendbuff ",
        b" recvbuff ",
        b" count ",
        b" root ",
        b" stream ",
    ];
    let begins = || {
        let name = message.iter().take_while(|&&b| is_name_byte(b)).count();
        let rest = &message[name..];
        let begun =
            rest.starts_with(&COLL_ANCHOR[..b": op".len()]) || COLL_ANCHOR.starts_with(rest);
        begun && rest.len() > 1 && is_known_op(&message[..name])
    };
    let has = |word: &&&[u8]| memchr::memmem::find(message, word).is_some();
    begins() || DATATYPE.find(message).is_some() && WORDS.iter().filter(has).count() > 2
}

/// The communicator's address in a tail (see [`is_tail`]), if it is there whole: the tear may
/// be in it, or in the word before it.
pub fn find_tail_comm(tail: &[u8]) -> Option<u64> {
    let nranks = memchr::memmem::rfind(tail, b" [nranks=")?;
    let word = memchr::memrchr(b' ', &tail[..nranks]).map_or(0, |blank| blank + 1);
    pointer(&tail[word..nranks]).ok().map(|(_, p)| p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(usize, Coll<'_>, usize), ParseFailure> {
        let anchor = COLL_ANCHOR_FINDER.find(line.as_bytes()).unwrap();
        parse_coll_at(line.as_bytes(), anchor)
    }

    #[test]
    fn the_line_of_nccl_2_4_to_2_30() {
        let line = "n1:13:14 [0] NCCL INFO AllReduce: opCount 1a sendbuff 0x10 recvbuff 0x20 \
                    count 64 datatype 7 op 0 root 0 comm 0x7f0c741162f0 [nranks=2] stream 0x7f0";
        let (start, c, end) = parse(line).unwrap();
        assert_eq!(&line[start..start + 9], "AllReduce");
        assert_eq!(end, line.len());
        assert_eq!(
            (c.op, c.op_count, c.count, c.datatype),
            (&b"AllReduce"[..], 0x1a, 64, 7)
        );
        assert_eq!(
            (c.comm, c.nranks, c.stream),
            (0x7f0c741162f0, Some(2), 0x7f0)
        );
    }

    #[test]
    fn rccl_has_acc_a_null_stream_and_a_task_tail() {
        let (_, c, end) = parse(
            "AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x7 acc (nil) count 1 datatype 7 op 4 \
             root 0 comm 0x2b [nranks=2] stream (nil) task 0 globalrank 5",
        )
        .unwrap();
        assert_eq!((c.redop, c.stream), (4, 0));
        assert!(end > 100 && c.count == 1);
    }

    #[test]
    fn send_has_a_null_buffer_and_its_peer_as_root() {
        let (_, c, _) = parse(
            "Send: opCount d60 sendbuff (nil) recvbuff 0x7f count 0 datatype 9 op 0 root 3 \
             comm 0x1 [nranks=4] stream 0x5 ",
        )
        .unwrap();
        assert_eq!((c.op, c.root, c.count), (&b"Send"[..], 3, 0));
    }

    #[test]
    fn a_cut_at_any_byte_before_the_stream_is_never_half_read() {
        let line = "AllGather: opCount 2 sendbuff 0x7f recvbuff 0x7e count 131072 datatype 9 op 0 \
                    root 0 comm 0x9bb [nranks=4096] stream 0x9001";
        let last = line.find(" stream 0x").unwrap() + " stream 0x".len();
        for cut in "AllGather: opCount ".len()..=last {
            assert!(parse(&line[..cut]).is_err(), "{}", &line[..cut]);
        }
    }

    #[test]
    fn a_count_over_64_bits_is_damage() {
        let line = "AllGather: opCount 2 sendbuff 0x7f recvbuff 0x7e count 18446744073709551616 \
                    datatype 9 op 0 root 0 comm 0x9bb [nranks=4] stream 0x9";
        assert_eq!(parse(line).unwrap_err().what, "a number below 2^64");
    }

    #[test]
    fn half_a_name_and_two_glued_ones_are_none_and_new_ones_are() {
        for name in [
            "olGather",
            "opCoceScatter",
            "AllGaAllGather",
            "ther",
            "ce",
            "AllRecv",
            "7x",
        ] {
            assert!(!is_name(name.as_bytes()), "{name}");
        }
        for name in [
            "AllReduce",
            "AllGatherV",
            "PutSignal",
            "AlltoAllv",
            "SendRecv",
            "Barrier",
            "ReduceScatterV",
            "mscclpp_ncclAllGather",
            "ncclAllReduce",
        ] {
            assert!(is_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_changed_byte_in_front_of_the_fields_is_seen() {
        let line = "AllGather: opCount 2 sendbuff 0x7f recvbuff 0x7e count 131072 datatype 9 op 0 \
                    root 0 comm 0x9bb [nranks=4096] stream 0x9001";
        let anchor = line.find(": opCount ").unwrap();
        for at in anchor..anchor + COLL_ANCHOR.len() {
            let mut changed = line.as_bytes().to_vec();
            changed[at] ^= 0x15;
            assert!(COLL_ANCHOR_FINDER.find(&changed).is_none() && is_broken(&changed));
            // Cut soon after the change, the rest of the anchor is enough.
            let cut = &changed[..anchor + COLL_ANCHOR.len()];
            assert_eq!(is_broken(cut), at >= anchor + 4, "{at}");
        }
        for end in anchor + 2..anchor + COLL_ANCHOR.len() {
            assert!(is_broken(&line.as_bytes()[..end]), "{end}");
        }
    }

    #[test]
    fn other_lines_with_words_of_a_call_are_none() {
        for line in [
            "AllReduce: 8589934592 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
            "AllReduce:",
            "AllReduce: 40 Bytes -> Algo 1 proto 0 time 8.616000",
            "rank 3 successfully registered sendbuff 0x7f recvbuff 0x7e for count 5",
            "Broadcast |  0.0/  0.0 |",
            "Reduce",
            "comm 0x7f rank 3 nranks 4 cudaDev 3 - Destroy COMPLETE",
        ] {
            assert!(!is_broken(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_tail_is_known_by_its_end_and_names_its_communicator() {
        let tail = b"2600 count 4096 datatype 9 op 0 root 0 comm 0x55d0 [nranks=4] stream 0x55d";
        assert!(is_tail(tail));
        assert_eq!(find_tail_comm(tail), Some(0x55d0));
        assert!(is_tail(b" 0x55d0 [nranks=4] stream 0x55d"));
        for part in [
            &b"s=4] stream 0x55d"[..],
            b"4] stream (nil) ",
            b"] stream 0x55d",
            b"tream 0x55d",
            b" [nranks=4] stream 0x55d",
        ] {
            assert!(is_short_tail(part), "{}", String::from_utf8_lossy(part));
        }
        for other in [
            &b"ls per peer"[..],
            b"the stream 0x55d",
            b"a stream 0x55d",
            b" 0x55d",
            b"peers=4] stream 0x55d",
            b"stream 0x55d is used",
        ] {
            assert!(!is_tail(other) && !is_short_tail(other));
        }
    }

    #[test]
    fn a_call_cut_anywhere_is_begun_and_other_text_is_not() {
        let line = b"ReduceScatter: opCount 2c sendbuff (nil) recvbuff 0x7e count 4096 datatype 9 \
                     op 0 root 3 comm 0x55d0 [nranks=4] stream 0x55d";
        for end in 1..line.len() {
            assert!(
                is_begun(&line[..end]),
                "{}",
                String::from_utf8_lossy(&line[..end])
            );
        }
        for other in [
            &b""[..],
            b"AllReduce: 8589934592 Bytes -> Algo",
            b"Init timings",
            b"AllReduce: opCount 2c sendbuff 0x7e recvbuff 0x7e count 40[1,1]<stdout>:96",
            b"AllReduce: opCount 2c sendbuff 0x7e recvbuff 0x7e count 40lusterSize 4",
        ] {
            assert!(!is_begun(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
