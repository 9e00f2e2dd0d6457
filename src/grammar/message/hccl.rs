//! Errors of HCCL, the library of Ascend NPUs, as jobs and HCCL's own log (plog) print them.
//!
//! ```text
//! EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. Reason: The Notify
//! register has not received the Notify record from remote rank [unknown].base information: [..., tag[AllReduce_...], ...]
//! ... remote rank: [24]. ... group information: [group:[...], rankSize[32], rankId[25 24]]
//! [rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send
//! EI0009: [PID: 7] 2025-09-24-20:59:48.1 Transport init error. Reason: [Create][DestLink]Create Dest error! createLink
//!     para:rank[1]-localUserrank[1]-localIpAddr[10.0.0.1], dst_rank[0]-remoteUserrank[0]-remote_ip_addr[10.0.0.2]
//! EI9999: Inner Error!
//! [ERROR] HCCL(808,python3):2026-06-17-02:21:43.853.666 [transport_manager.cc:470] [880][Alloc]call trace: hcclRet -> 4
//! RuntimeError: create_config:x/compiler_depend.ts:148 HCCL function error: hcclCommInitRootInfoConfig(..), error code is 1
//! ```
//!
//! From `src/common/error_msg` of Ascend's hcomm, the pages of its troubleshooting guide, and reports of torch_npu and
//! vllm-ascend.

use super::group_member::{GroupMember, find_group_member};
use crate::token::{dec_u32, dec_u64};
use memchr::memmem;

/// A report of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HcclReport<'a> {
    /// The rank that reports it, where the line names it.
    pub who: GroupMember<'a>,
    /// Ascend's code, `EI0006`; HCCL's own log has none.
    pub code: Option<&'a [u8]>,
    /// The result of HCCL's function, `HcclResult`.
    pub result: Option<u32>,
    /// The line's text after the code or the name of the library.
    pub text: &'a [u8],
    /// The rank at the other end, where the line names it.
    pub remote: Option<u32>,
    /// The addresses of the two ends, the own one first.
    pub addresses: Option<(&'a [u8], &'a [u8])>,
}

/// A line of HCCL's, wherever it begins.
pub(super) fn parse_hccl_report(line: &[u8]) -> Option<HcclReport<'_>> {
    let (code, at) = match find_code(line) {
        Some(at) => (Some(&line[at..at + CODE_BYTES]), at),
        None => (
            None,
            find_own_log(line).or_else(|| find_function_error(line))?,
        ),
    };
    let text = &line[at + code.map_or(0, <[u8]>::len)..];
    // HCCL's INVALID_VALUE_RANKID: it does not know the rank either.
    let remote = find_number(text, &REMOTE_RANKS).filter(|rank| *rank != u32::MAX);
    let mut who = find_group_member(&line[..at]);
    if who.global.is_none() {
        let own = remote.and_then(|remote| find_other_rank(text, remote));
        who.global = own.or_else(|| find_number(text, &[b"localUserrank["]));
    }
    let own = find_bracketed(text, &[b"localIpAddr["]);
    let other = find_bracketed(text, &[b"remoteIpAddr[", b"remote_ip_addr["]);
    Some(HcclReport {
        who,
        code,
        result: find_result(text),
        text,
        remote,
        addresses: own.zip(other),
    })
}

/// Words in front of the rank at the other end.
const REMOTE_RANKS: [&[u8]; 5] = [
    b"remote rank: [",
    b"remote rank [",
    b"remoteUserrank[",
    b"peer rank: ",
    b"Remote rank: ",
];

/// The length of `EI0006`.
const CODE_BYTES: usize = 6;

/// Finds a code in front of its report: a page or a program may have the code, too.
fn find_code(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'E', line).find(|&at| {
        let Some(code) = line.get(at..at + CODE_BYTES) else {
            return false;
        };
        let is_code =
            matches!(code[1], b'E' | b'I' | b'J') && code[2..].iter().all(u8::is_ascii_digit);
        // Not a part of another word, such as TEI0006.
        let begins = at == 0 || !line[at - 1].is_ascii_alphanumeric();
        let after = &line[at + CODE_BYTES..];
        // In newer versions the code follows its name.
        let text = after
            .strip_prefix(b")")
            .unwrap_or(after)
            .strip_prefix(b": ");
        is_code && begins && text.is_some_and(|text| is_report(text, code))
    })
}

/// True for `[PID: 7] ...`, `2024-10-21-10:42:00.358.410 ...` and the words of the first reports without them.
fn is_report(text: &[u8], code: &[u8]) -> bool {
    let words: [&[u8]; 3] = [b"Inner Error", b"times out", b"Transport init error"];
    let has = |word: &&[u8]| memmem::find(text, word).is_some();
    let is_dated = dec_u64(text).is_ok_and(|(rest, year)| year > 2000 && rest.starts_with(b"-"));
    let is_named = is_dated || text.starts_with(b"[PID: ") || words.iter().any(has);
    is_named || code.starts_with(b"EI") && memmem::find(text, b"rank").is_some()
}

/// Finds the name of the library in HCCL's own log.
fn find_own_log(line: &[u8]) -> Option<usize> {
    let at = memmem::find(line, b"[ERROR] HCC")? + b"[ERROR] ".len();
    let rest = &line[at..];
    (rest.starts_with(b"HCCL(") || rest.starts_with(b"HCCP(")).then_some(at)
}

/// Finds the name of HCCL's function in an exception of torch_npu.
fn find_function_error(line: &[u8]) -> Option<usize> {
    let at = memmem::find(line, FUNCTION_ERROR)? + FUNCTION_ERROR.len();
    line[at..]
        .get(..4)?
        .eq_ignore_ascii_case(b"hccl")
        .then_some(at)
}

const FUNCTION_ERROR: &[u8] = b"function error: ";

/// The 4 of `hcclRet -> 4`, the 1 of `HCCL function error: hcclCommInitRootInfo(..), error code is 1`.
fn find_result(text: &[u8]) -> Option<u32> {
    let words: &[&[u8]] = match text.starts_with(b"hccl") {
        true => &[b"error code is "],
        false => &[b"hcclRet -> "],
    };
    find_number(text, words)
}

/// The number after the first of the words that is in the text.
fn find_number(text: &[u8], words: &[&[u8]]) -> Option<u32> {
    let after = |word: &&[u8]| Some(&text[memmem::find(text, word)? + word.len()..]);
    let (rest, number) = dec_u32(words.iter().find_map(after)?).ok()?;
    let ends = rest.first().is_none_or(|b| !b.is_ascii_alphanumeric());
    ends.then_some(number)
}

/// The text in the brackets that one of the words opens, without what follows a slash.
fn find_bracketed<'a>(text: &'a [u8], words: &[&[u8]]) -> Option<&'a [u8]> {
    let after = |word: &&[u8]| Some(&text[memmem::find(text, word)? + word.len()..]);
    let rest = words.iter().find_map(after)?;
    let end = rest.iter().position(|b| b"]/".contains(b))?;
    Some(&rest[..end])
}

/// The 25 of `rankId[25 24]`, of the two ranks 25 and `missing` = 24.
fn find_other_rank(text: &[u8], missing: u32) -> Option<u32> {
    let at = memmem::find(text, b"rankId[")? + b"rankId[".len();
    let ranks = &text[at..at + memchr::memchr(b']', &text[at..])?];
    let mut ranks = ranks.split(|&b| b == b' ').map(|rank| match dec_u32(rank) {
        Ok((b"", rank)) => Some(rank),
        _ => None,
    });
    match (ranks.next()??, ranks.next()??, ranks.next()) {
        (own, other, None) if other == missing => Some(own),
        (other, own, None) if other == missing => Some(own),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code, the rank, the rank at the other end and the result.
    type Told<'t> = (&'t str, Option<u32>, Option<u32>, Option<u32>);

    fn of(text: &str) -> Option<Told<'_>> {
        let got = parse_hccl_report(text.as_bytes())?;
        let code = std::str::from_utf8(got.code.unwrap_or_default()).unwrap();
        Some((code, got.who.global, got.remote, got.result))
    }

    #[test]
    fn a_report_names_its_code_and_the_two_ends() {
        for (text, expected) in [
            (
                "EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. \
                 remote rank: [24]. group information: [group:[hccl_world], rankSize[32], rankId[25 24]]",
                Some(("EI0002", Some(25), Some(24), None)),
            ),
            (
                "EI0002: [PID: 7277] The wait execution of the Notify register times out. Reason: The Notify register has \
                 not received the Notify record from remote rank [unknown].base information: [streamID:[1]]",
                Some(("EI0002", None, None, None)),
            ),
            (
                "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received \
                 the Notify record from remote rank [4294967295].base information: [streamID:[1]]",
                Some(("EI0002", None, None, None)),
            ),
            (
                "[rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank",
                Some(("EI0006", Some(1), None, None)),
            ),
            (
                "[PID: 7] 2025-12-29-03:16:15.7 Get_Socket_Timeout(EI0006): Getting socket times out. Reason: 1.",
                Some(("EI0006", None, None, None)),
            ),
            ("EE9999: Inner Error!", Some(("EE9999", None, None, None))),
            (
                "EI9999: 2024-10-21-10:42:00.3  The error from device(chipId:5)",
                Some(("EI9999", None, None, None)),
            ),
            (
                "[ERROR] HCCL(81,):2026-06-17-02:21:43.8 [a.cc:9] [7][Alloc]call trace: hcclRet -> 4",
                Some(("", None, None, Some(4))),
            ),
            (
                "RuntimeError: f:x.ts:148 HCCL function error: hcclCommInitRootInfo(n, &id), error code is 15",
                Some(("", None, None, Some(15))),
            ),
            (
                "[rank4]: RuntimeError: f:x.cpp:2 OPS function error: HcclAllreduce, error code is 6",
                Some(("", Some(4), None, None)),
            ),
            ("TEI0006: Deterministic Validation times out", None),
            ("EI0004: The file is invalid", None),
            ("### EI0002: notify wait timeout", None),
            ("EI000", None),
            ("function error: x", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_link_has_two_addresses() {
        let text = b"[ERROR] HCCL(8,py):2026-06-17-02:21:43.8 [t.cc:9] [8][Init]Transport init error! createLink para:rank[2]-\
            localUserrank[10]-localIpAddr[10.0.0.9/7], remoteRank[3]-remoteUserrank[11]-remoteIpAddr[10.0.0.8/7]";
        let got = parse_hccl_report(text).unwrap();
        assert_eq!((got.who.global, got.remote), (Some(10), Some(11)));
        assert_eq!(got.addresses, Some((&b"10.0.0.9"[..], &b"10.0.0.8"[..])));
    }
}
