//! Errors of HCCL, the library of Ascend NPUs, as jobs and HCCL's own log (plog) print them.
//!
//! ```text
//! EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. Reason: The Notify
//! register has not received the Notify record from remote rank [unknown].base information: [..., tag[AllReduce_...], ...]
//! ... remote rank: [24]. ... group information: [group:[...], rankSize[32], rankId[25 24]]
//! [rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send
//! EI0009: [PID: 7] 2025-09-24-20:59:48.1 Transport init error. Reason: [Create][DestLink]Create Dest error! createLink
//!     para:rank[1]-localUserrank[1]-localIpAddr[10.0.0.1], dst_rank[0]-remoteUserrank[0]-remote_ip_addr[10.0.0.2]
//! [PID: 7] 2025-12-04-21:59:08.232.310 Execution Error ROCE CQE(EI0013): An error CQE occurred ... Local information: ...
//! EI9999: Inner Error!
//! [ERROR] HCCL(808,python3):2026-06-17-02:21:43.853.666 [transport_manager.cc:470] [880][Alloc]call trace: hcclRet -> 4
//! [ERROR] HCCL(808,python3):2026-06-17-02:21:43.853.666 [x.cc:599] [880]  | 10.0.0.2(1) | 16666 | 10.0.0.1(0) | 0 | server | ...
//! RuntimeError: create_config:x/compiler_depend.ts:148 HCCL function error: hcclCommInitRootInfoConfig(..), error code is 1
//! ```
//!
//! A page may join lines. The code or the name of a value, such as `check fail. local[`, shows that a text is HCCL's:
//! a report has lines without a code, too. From `src/common/error_msg` of Ascend's hcomm, the pages of its
//! troubleshooting guide, and reports of torch_npu and vllm-ascend.

mod fields;

pub use fields::{HcclField, name_tagged_call, read_hccl_number, read_hccl_ranks, read_link_row};

use super::group_member::{GroupMember, find_group_member};
use crate::token::{dec_u32, dec_u64};
use fields::{find_error_number, find_hccl_number, read_hccl_fields};
use memchr::memmem;

/// A report of an error, or a line of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HcclReport<'a> {
    /// The rank that reports it, where the line names it.
    pub who: GroupMember<'a>,
    /// The process that reports it.
    pub pid: Option<u32>,
    /// Ascend's code, `EI0006`; HCCL's own log has none.
    pub code: Option<&'a [u8]>,
    /// The line belongs to a report that began before: it has no code, and no name of the library in front.
    pub is_part: bool,
    /// The line, or its part that makes this report.
    pub line: &'a [u8],
    /// The text after the code or the name of the library.
    pub text: &'a [u8],
}

impl<'a> HcclReport<'a> {
    /// Reads the named values of the text.
    pub fn read_fields(&self) -> Vec<(HcclField, &'a [u8])> {
        read_hccl_fields(self.text)
    }

    /// Reads the result of HCCL's function, `HcclResult`; an operator of PyTorch has codes of its own.
    pub fn read_result(&self) -> Option<u32> {
        let names: &[&[u8]] = match self.text.starts_with(b"hccl") {
            true => &[b"error code is"],
            false => &[b"hcclRet ->", b", error", b"ret"],
        };
        find_hccl_number(self.text, names).or_else(|| find_error_number(self.text))
    }
}

/// The first report in a line of HCCL's, wherever it begins.
pub(super) fn parse_hccl_report(line: &[u8]) -> Option<HcclReport<'_>> {
    parse_hccl_reports(line).next()
}

/// The reports in a line: a page may have joined several lines of a log.
pub fn parse_hccl_reports(line: &[u8]) -> impl Iterator<Item = HcclReport<'_>> {
    let heads: Vec<usize> = find_log_heads(line).collect();
    let label = find_group_member(&line[..heads.first().copied().unwrap_or(0)]);
    let starts = std::iter::once(0).chain(heads.clone());
    let ends = heads.into_iter().chain([line.len()]);
    let pieces = starts.zip(ends).map(|(from, to)| &line[from..to]);
    pieces.flat_map(move |piece| parse_piece(piece, label))
}

/// The reports of a piece; only the first may have a name of the library in front.
fn parse_piece<'a>(piece: &'a [u8], label: GroupMember<'a>) -> Vec<HcclReport<'a>> {
    if let Some((module, after)) = read_log_head(piece) {
        let is_own = piece.starts_with(b"[ERROR]") && matches!(module, b"HCCL" | b"HCCP");
        let report = is_own.then(|| {
            let pid = dec_u32(after).ok().map(|(_, pid)| pid);
            let text = &after[memchr::memchr(b')', after).map_or(0, |at| at + 1)..];
            make_report(piece, text, label, pid, None, false)
        });
        return report.into_iter().collect();
    }
    let mut reports = Vec::new();
    let (mut before, mut rest) = (&piece[..0], piece);
    while let Some(at) = find_code(rest) {
        let begin = at + CODE_BYTES;
        let end = find_code(&rest[begin..]).map_or(rest.len(), |next| begin + next);
        let text = &rest[begin..end];
        // The label of a later report is at the end of the one before.
        let before_code = if before.is_empty() {
            &rest[..at]
        } else {
            before
        };
        let pid = find_pid(text).or_else(|| find_pid(&rest[..at]));
        let (who, code) = (find_group_member(before_code), Some(&rest[at..begin]));
        reports.push(make_report(&rest[..end], text, who, pid, code, false));
        (before, rest) = (text, &rest[end..]);
    }
    if reports.is_empty() {
        reports.extend(parse_uncoded(piece));
    }
    reports
}

/// A text without a code: an exception of torch_npu, or a line of a report that has a code.
fn parse_uncoded(piece: &[u8]) -> Option<HcclReport<'_>> {
    if let Some(at) = find_function_error(piece) {
        let who = find_group_member(&piece[..at]);
        return Some(make_report(piece, &piece[at..], who, None, None, false));
    }
    let at = find_part(piece)?;
    let who = find_group_member(&piece[..at]);
    Some(make_report(piece, piece, who, None, None, true))
}

fn make_report<'a>(
    line: &'a [u8],
    text: &'a [u8],
    mut who: GroupMember<'a>,
    pid: Option<u32>,
    code: Option<&'a [u8]>,
    is_part: bool,
) -> HcclReport<'a> {
    // A part may be of any process: only its label shows to which report it belongs.
    if who.global.is_none() && !is_part {
        let fields = read_hccl_fields(text);
        let own = fields
            .iter()
            .find(|(field, _)| *field == HcclField::OwnRank);
        who.global = own.and_then(|(_, rank)| read_hccl_number(rank));
    }
    HcclReport {
        who,
        pid,
        code,
        is_part,
        line,
        text,
    }
}

/// The places of the heads of Ascend's log: `[ERROR] HCCL(808,python3):`, `[INFO] HCCP(7,`.
fn find_log_heads(line: &[u8]) -> impl Iterator<Item = usize> {
    let opens = memchr::memchr_iter(b'[', line);
    opens.filter(|&at| read_log_head(&line[at..]).is_some())
}

/// The name of the library, and the text after its parenthesis.
fn read_log_head(text: &[u8]) -> Option<(&[u8], &[u8])> {
    const LEVELS: [&[u8]; 5] = [b"[ERROR]", b"[INFO]", b"[EVENT]", b"[WARNING]", b"[DEBUG]"];
    let rest = LEVELS.iter().find_map(|level| text.strip_prefix(*level))?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let letters = rest.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let after = rest[letters..].strip_prefix(b"(")?;
    (letters > 0 && after.first().is_some_and(u8::is_ascii_digit))
        .then_some((&rest[..letters], after))
}

/// The 7 of `[PID: 7]`.
fn find_pid(text: &[u8]) -> Option<u32> {
    let at = memmem::find(text, b"[PID: ")? + b"[PID: ".len();
    Some(dec_u32(&text[at..]).ok()?.1)
}

/// The names of values by which a line without a code is HCCL's.
pub(super) const HCCL_PARTS: [&str; 12] = [
    "createLink para:",
    "LINK_ERROR_INFO",
    "dest_ip(",
    "Cluster Exception Location[",
    "Failed to connect agent[",
    "connectFailedAgentIdList[",
    "connected rankinfo[LINE ",
    " check fail. local[",
    "execute failed, reason=[",
    "wait socket establish timeout, ",
    " get socket timeout! timeout[",
    "fails to connect to dstRank (",
];

/// Finds the place of such a name, of a row of the table of connections, or of a communicator's values.
fn find_part(line: &[u8]) -> Option<usize> {
    // The source of such a text.
    if memmem::find(line, b"[%").is_some() {
        return None;
    }
    if let Some(at) = HCCL_PARTS
        .iter()
        .find_map(|name| memmem::find(line, name.as_bytes()))
    {
        return Some(at);
    }
    let fails = [&b" fail"[..], b"group:["]
        .iter()
        .any(|words| memmem::find(line, words).is_some());
    if fails && let Some(at) = memmem::find(line, b"rankSize") {
        let own = [&b"ccl"[..], b"group:["]
            .iter()
            .any(|words| memmem::find(line, words).is_some());
        return own.then_some(at);
    }
    let at = memchr::memchr(b'|', line)?;
    let mut fields = read_hccl_fields(&line[at..]).into_iter();
    fields
        .any(|(field, _)| field == HcclField::TableRow)
        .then_some(at)
}

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
        is_code && begins && is_reported(&line[..at], code, &line[at + CODE_BYTES..])
    })
}

/// True for a code with its title, `Communication_Error_Get_Socket(EI0006)`, or with the text of a report.
fn is_reported(before: &[u8], code: &[u8], after: &[u8]) -> bool {
    let is_own = matches!(code[1], b'I' | b'J');
    // In newer versions the code follows its title.
    if let Some(title) = before.strip_suffix(b"(") {
        let is_title = title.last().is_some_and(u8::is_ascii_alphabetic);
        return is_own && is_title && after.starts_with(b")")
            || after
                .strip_prefix(b"): ")
                .is_some_and(|text| is_report(text, code));
    }
    let begins = matches!(before.trim_ascii_end().last(), None | Some(b']' | b':'));
    let title = after.strip_prefix(b" ").is_some_and(|text| {
        let length = text
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count();
        text[..length].contains(&b'_')
    });
    is_own && begins && title
        || after
            .strip_prefix(b": ")
            .is_some_and(|text| is_report(text, code))
}

/// True for `[PID: 7] ...`, `2024-10-21-10:42:00.358.410 ...` and the words of the first reports without them.
fn is_report(text: &[u8], code: &[u8]) -> bool {
    let words: [&[u8]; 3] = [b"Inner Error", b"times out", b"Transport init error"];
    let has = |word: &&[u8]| memmem::find(text, word).is_some();
    let is_dated = dec_u64(text).is_ok_and(|(rest, year)| year > 2000 && rest.starts_with(b"-"));
    let is_named = is_dated || text.starts_with(b"[PID: ") || words.iter().any(has);
    is_named || code.starts_with(b"EI") && memmem::find(text, b"rank").is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The code, the rank, the rank at the other end and the result.
    type Told<'t> = (&'t str, Option<u32>, Option<u32>, Option<u32>);

    fn value_of<'a>(report: &HcclReport<'a>, name: HcclField) -> Option<&'a [u8]> {
        let mut fields = report.read_fields().into_iter();
        Some(fields.find(|(field, _)| *field == name)?.1)
    }

    fn number_of(report: &HcclReport<'_>, name: HcclField) -> Option<u32> {
        read_hccl_number(value_of(report, name)?)
    }

    fn of(text: &str) -> Option<Told<'_>> {
        let got = parse_hccl_report(text.as_bytes())?;
        let code = std::str::from_utf8(got.code.unwrap_or_default()).unwrap();
        Some((
            code,
            got.who.global,
            number_of(&got, HcclField::OtherRank),
            got.read_result(),
        ))
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
            (
                "Communication_Error_Get_Socket(EI0006)",
                Some(("EI0006", None, None, None)),
            ),
            ("# EI0006 Communication_Error_Get_Socket", None),
            ("the error (EI0006) is in the manual", None),
            (
                "HCCL_ERROR(\"%s check fail. local[%s], remote[%s]\", x);",
                None,
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
        assert_eq!(
            (got.who.global, number_of(&got, HcclField::OtherRank)),
            (Some(10), Some(11))
        );
        assert_eq!(value_of(&got, HcclField::OwnHost), Some(&b"10.0.0.9"[..]));
        assert_eq!(value_of(&got, HcclField::OtherHost), Some(&b"10.0.0.8"[..]));
        assert_eq!(number_of(&got, HcclField::OtherDevice), Some(7));
    }

    #[test]
    fn lines_that_a_page_joined_are_read_one_by_one() {
        let text = b"[EVENT] HCCP(7,py):2026-06-17-02:21:43.8 [r.c:1] error [ERROR]HCCL(8,py):2026-06-17-02:21:43.8[t.cc:9][8]\
            wait timeout [ERROR] HCCL(8,py):2026-06-17-02:21:43.8 [t.cc:9] [8]call trace: hcclRet -> 4";
        let got: Vec<_> = parse_hccl_reports(text)
            .map(|r| (r.pid, r.read_result()))
            .collect();
        assert_eq!(got, [(Some(8), None), (Some(8), Some(4))]);
        let text =
            b"[rank1]: EI0011: [PID: 7] Failed to allocate. [rank2]: EE9999: [PID: 9] Inner Error!";
        let got: Vec<_> = parse_hccl_reports(text)
            .map(|r| (r.pid, r.who.global))
            .collect();
        assert_eq!(got, [(Some(7), Some(1)), (Some(9), Some(2))]);
    }
}
