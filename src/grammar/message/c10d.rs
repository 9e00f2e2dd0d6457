//! Lines of PyTorch about NCCL's work when it hangs. They have no NCCL header.
//!
//! ```text
//! [rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout:
//! WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for
//! 600060 milliseconds before timing out.
//! ... [PG ID 0 PG GUID 0(default_pg) Rank 1] Exception (...) detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.
//! ... [PG 0 Rank 1] Timeout at NCCL work: 5, last enqueued NCCL work: 6, last completed NCCL work: 4.      2.2-2.3
//! ... failure detected by watchdog at work sequence id: 3 PG status: last enqueued work: 5, last completed work: 2   2.6+
//! ... Received a dump signal due to a collective timeout from  rank 3 and we will try our best to dump the debug info. Last enqueued NCCL work: 4, last completed NCCL work: 4.This is ...
//! [E ProcessGroupNCCL.cpp:587] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for ...    1.9
//! ... WorkNCCL(SeqNum=5, OpType=ALLREDUCE, TensorShape=[1, 4], Timeout(ms)=1800000) ran for ...   1.13 to 2.0
//! ... [Rank 1] Work WorkNCCL(SeqNum=2521, ..., Timeout(ms)=600000) timed out in blocking wait.    2.4+
//! ... [Rank 1] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=196, ...             torch_npu; WorkXCCL of Intel
//! ... [Rank 0] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
//! ... [PG ID 2 PG GUID 9 Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring ...    2.2+
//! ... [PG 3 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=121
//! ... [Rank 1] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, ...
//! ... [Rank 1] To avoid data inconsistency, we are taking the entire process down.
//! Exception raised from ncclCommWatchdog at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1521
//! frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<...>) + 0x1d2 (0x15.. in libtorch_cuda.so)
//! [2025-03-04 05:06:07 TP2] Watchdog timeout (self.watchdog_timeout=300)      SGLang's scheduler
//! ... Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, ...   2.4+
//! ```
//!
//! From `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`. Older ones have no numbers of elements. A terminal or a web page
//! may break a line anywhere: [`parse_wrapped_timeout`] takes the joined pieces.

use super::fingerprint::{DifferingCalls, parse_differing_calls};
use super::group_member::{GroupMember, find_group_member};
use super::hccl::{HCCL_PARTS, HcclReport, parse_hccl_report};
use super::horovod::{StalledTensor, parse_stalled_tensors};
use crate::ending::process_of_line;
use crate::token::{dec_i64, dec_u32, dec_u64, fraction};
use aho_corasick::AhoCorasick;
use memchr::memmem::{self, Finder};
use std::sync::LazyLock;

/// A line of PyTorch's watchdog.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum C10dMessage<'a> {
    /// A call took too long.
    Timeout(C10dTimeout<'a>),
    /// A call took too long, and the line ends before it names it.
    TimeoutCut(GroupMember<'a>),
    /// HCCL, the library of Ascend NPUs, reports an error.
    Hccl(HcclReport<'a>),
    /// Ranks make different calls.
    Differ(DifferingCalls<'a>),
    /// Horovod waits for ranks that did not submit a tensor; the first of the line.
    Stalled(StalledTensor<'a>),
    /// How far a process group is.
    LastWork(C10dLastWork<'a>),
    /// The watchdog itself failed, mostly because CUDA reported an error to it.
    Exception(C10dException<'a>),
    /// The watchdog itself makes no progress: a call of CUDA or NCCL does not return.
    Stuck(C10dStuck<'a>),
    /// The watchdog of SGLang's scheduler: it finished no batch in time.
    NoBatch(C10dStuck<'a>),
    /// The watchdog ends its process: a call failed or timed out.
    GaveUp(GroupMember<'a>),
    /// The process leaves in the ordinary way, and did not destroy the process group.
    NotDestroyed(GroupMember<'a>),
}

impl<'a> C10dMessage<'a> {
    /// Returns the member of a process group that printed the line.
    pub fn member(&self) -> GroupMember<'a> {
        match self {
            C10dMessage::Timeout(timeout) => timeout.who,
            C10dMessage::TimeoutCut(who) => *who,
            C10dMessage::Hccl(hccl) => hccl.who,
            C10dMessage::Differ(differ) => differ.who,
            C10dMessage::Stalled(_) => NOBODY,
            C10dMessage::LastWork(last) => last.who,
            C10dMessage::Exception(exception) => exception.who,
            C10dMessage::Stuck(stuck) | C10dMessage::NoBatch(stuck) => stuck.who,
            C10dMessage::GaveUp(who) | C10dMessage::NotDestroyed(who) => *who,
        }
    }
}

const NOBODY: GroupMember<'static> = GroupMember {
    group: None,
    rank: None,
    global: None,
};

/// A call that took too long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct C10dTimeout<'a> {
    /// The member that printed the line.
    pub who: GroupMember<'a>,
    /// The first letter of the library: `N` of `WorkNCCL`, `H` of `WorkHCCL`.
    pub library: u8,
    /// The call's number in its process group; printed since 1.13.
    pub seq: Option<u64>,
    /// PyTorch's name of the operation, `ALLREDUCE`, `_ALLGATHER_BASE`.
    pub op: &'a [u8],
    /// Elements in; printed since 2.1.
    pub numel_in: Option<u64>,
    /// Elements out; printed since 2.1, and before as the tensor's shape.
    pub numel_out: Option<u64>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long it took, in milliseconds; the line may end before.
    pub ran_ms: Option<f64>,
}

/// How far a process group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct C10dLastWork<'a> {
    /// The member that printed the line.
    pub who: GroupMember<'a>,
    /// The call that failed.
    pub at: Option<i64>,
    /// The call enqueued last.
    pub enqueued: i64,
    /// The call completed last.
    pub completed: i64,
    /// The rank in the job that signalled a time-out to all.
    pub signalled_by: Option<u32>,
}

/// What the watchdog failed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct C10dException<'a> {
    /// The member that the watchdog belongs to.
    pub who: GroupMember<'a>,
    /// The exception's words.
    pub what: &'a [u8],
}

/// A watchdog that makes no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct C10dStuck<'a> {
    /// The member that the watchdog belongs to.
    pub who: GroupMember<'a>,
    /// The time, where the line has it.
    pub seconds: Option<u64>,
}

/// In `WorkNCCL(`, `WorkHCCL(`, `WorkXCCL(`.
static WORK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"CCL("));
static WATCHDOG: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"] Watchdog"));
/// Without its first letter, which is a capital one in some lines.
static LAST_ENQUEUED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"ast enqueued "));
static EXCEPTION: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"watchdog thread terminated with exception: "));
static STUCK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"watchdog got stuck for "));
static NO_HEARTBEAT: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"Heartbeat monitor timed out"));
static NO_BATCH: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"atchdog timeout (self.watchdog_timeout="));
static NOT_DESTROYED: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"process group has NOT been destroyed before we destruct"));
/// What PyTorch prints when its watchdog ends the process, and where it raises the error.
const GAVE_UP: [&str; 4] = [
    "operations have failed or timed out",
    "taking the entire process down",
    "Exception raised from ncclCommWatchdog",
    "::checkTimeout(",
];

/// Each line of this module has one of these words, of [`GAVE_UP`] or of [`HCCL_PARTS`]. Most lines have none, and one search shows that.
const C10D_ANCHORS: [&str; 25] = [
    "CCL(",
    "ast enqueued ",
    "watchdog thread terminated with exception: ",
    "watchdog got stuck for ",
    "Heartbeat monitor timed out",
    "process group has NOT been destroyed before we destruct",
    "] Watchdog",
    "mismatch between collectives on ranks",
    " [missing ranks: ",
    " [ready ranks: ",
    ": [Horovod",
    ": [allreduce.",
    ": [broadcast.",
    ": [allgather.",
    "[ERROR] HCCP(",
    "function error: ",
    "EI00",
    "EI9999",
    "EJ00",
    "EE1002",
    "EE9999",
    "| time out |",
    "| no connect |",
    "rankSize",
    "atchdog timeout (self.watchdog_timeout=",
];

/// A line of the watchdog, wherever it begins.
pub fn parse_c10d_line(line: &[u8]) -> Option<C10dMessage<'_>> {
    static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let all = C10D_ANCHORS.iter().chain(&GAVE_UP).chain(&HCCL_PARTS);
        AhoCorasick::new(all).ok()
    });
    match ANCHORS.as_ref() {
        Some(anchors) if anchors.is_match(line) => parse_anchored_line(line),
        _ => None,
    }
}

fn parse_anchored_line(line: &[u8]) -> Option<C10dMessage<'_>> {
    if let Some(timeout) = parse_timeout(line) {
        return Some(C10dMessage::Timeout(timeout));
    }
    if let Some(at) = LAST_ENQUEUED.find(line) {
        let before = line[..at].strip_suffix(b"l");
        let before = before.or_else(|| line[..at].strip_suffix(b"L"))?;
        return parse_last_work(before, &line[at + LAST_ENQUEUED.needle().len()..])
            .map(C10dMessage::LastWork);
    }
    if let Some(at) = EXCEPTION.find(line) {
        let what = line[at + EXCEPTION.needle().len()..].trim_ascii_end();
        let who = find_group_member(&line[..at]);
        // It quotes a time-out, and the line ends before the call.
        let quoted = what
            .strip_prefix(b"[")
            .and_then(|rest| rest.iter().position(|&b| b == b']'));
        if quoted.is_some_and(|end| is_cut_timeout(what[end + 2..].trim_ascii_start())) {
            return Some(C10dMessage::TimeoutCut(who));
        }
        return (!what.is_empty()).then_some(C10dMessage::Exception(C10dException { who, what }));
    }
    if let Some(at) = STUCK.find(line).or_else(|| NO_HEARTBEAT.find(line)) {
        let seconds = line[at..].strip_prefix(STUCK.needle());
        let who = find_group_member(&line[..at]);
        let seconds = seconds.and_then(|rest| Some(dec_u64(rest).ok()?.1));
        return Some(C10dMessage::Stuck(C10dStuck { who, seconds }));
    }
    if let Some(at) = NO_BATCH.find(line) {
        let global = process_of_line(line).rank;
        let who = GroupMember { global, ..NOBODY };
        let seconds = dec_u64(&line[at + NO_BATCH.needle().len()..]).ok();
        let seconds = seconds.map(|(_, seconds)| seconds);
        return Some(C10dMessage::NoBatch(C10dStuck { who, seconds }));
    }
    if let Some(at) = NOT_DESTROYED.find(line) {
        return Some(C10dMessage::NotDestroyed(find_group_member(&line[..at])));
    }
    if let Some(at) = WATCHDOG.find(line) {
        let (before, phrase) = line.split_at(at + b"] ".len());
        return is_cut_timeout(phrase).then(|| C10dMessage::TimeoutCut(find_group_member(before)));
    }
    let mut gave_up = GAVE_UP.iter();
    if let Some(at) = gave_up.find_map(|words| memmem::find(line, words.as_bytes())) {
        let who = find_group_member(&line[..at]);
        let global = who.global.or(process_of_line(line).rank);
        return Some(C10dMessage::GaveUp(GroupMember { global, ..who }));
    }
    let hccl = || parse_hccl_report(line).map(C10dMessage::Hccl);
    let stalled = || parse_stalled_tensors(line).next().map(C10dMessage::Stalled);
    let differ = parse_differing_calls(line).map(C10dMessage::Differ);
    differ.or_else(hccl).or_else(stalled)
}

const TIMEOUT_PHRASE: &[u8] = b"Watchdog caught collective operation timeout:";

/// True for the phrase, or its beginning at the end of a line.
fn is_cut_timeout(text: &[u8]) -> bool {
    text.starts_with(TIMEOUT_PHRASE) || TIMEOUT_PHRASE.starts_with(text.trim_ascii_end())
}

/// A time-out that is whole in one line.
fn parse_timeout(line: &[u8]) -> Option<C10dTimeout<'_>> {
    let at = WORK.find(line)?;
    let (name, library) = find_work_name(&line[..at])?;
    let (before, rest) = (&line[..name], &line[at + WORK.needle().len()..]);
    let (work, after) = split_work(rest)?;
    let is_timeout = memmem::find(before, b"operation timeout").is_some()
        || memmem::find(after, b"timed out").is_some()
        || memmem::find(after, b"before timing").is_some();
    is_timeout.then_some(())?;
    let ran_ms = after.trim_ascii_start().strip_prefix(b"ran for ");
    parse_work(find_group_member(before), library, work, ran_ms)
}

/// The place of `WorkN` at the end of the text before `CCL(`, and the library's letter.
fn find_work_name(before: &[u8]) -> Option<(usize, u8)> {
    let (&library, before) = before.split_last()?;
    let work = before.strip_suffix(b"Work")?;
    library
        .is_ascii_uppercase()
        .then_some((work.len(), library))
}

/// Splits `SeqNum=1, OpType=X, Timeout(ms)=6) ran` into the work and what follows.
fn split_work(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // `Timeout(ms)=` has a parenthesis of its own.
    let limit = memmem::find(text, b"Timeout(ms)=")? + b"Timeout(ms)=".len();
    let end = limit + memchr::memchr(b')', &text[limit..])?;
    Some((&text[..end], &text[end + 1..]))
}

fn parse_work<'a>(
    who: GroupMember<'a>,
    library: u8,
    work: &'a [u8],
    ran_ms: Option<&[u8]>,
) -> Option<C10dTimeout<'a>> {
    let field = |name: &[u8]| {
        let fields = work.split(|&b| b == b',').map(trim_marks);
        let mut values = fields.filter_map(|field| field.strip_prefix(name));
        values.next().map(trim_marks)
    };
    let number = |name: &[u8]| match dec_u64(field(name)?) {
        // PyTorch prints -1 for an unknown number.
        Ok((b"", n)) => Some(n).filter(|&n| n != u64::MAX),
        _ => None,
    };
    let ran_ms = ran_ms.and_then(|text| fraction(text).ok());
    let ran_ms = ran_ms.filter(|(rest, _)| rest.trim_ascii_start().starts_with(b"milli"));
    Some(C10dTimeout {
        who,
        library,
        seq: number(b"SeqNum="),
        op: field(b"OpType=").filter(|op| !op.is_empty())?,
        numel_in: number(b"NumelIn="),
        numel_out: number(b"NumelOut=").or_else(|| count_shape(work)),
        timeout_ms: number(b"Timeout(ms)=")?,
        ran_ms: ran_ms.map(|(_, ran_ms)| ran_ms),
    })
}

/// Trims blanks, and Markdown's marks of bold words and of code.
fn trim_marks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'*' | b'`', rest @ ..] | [rest @ .., b' ' | b'*' | b'`'] = text {
        text = rest;
    }
    text
}

/// The elements of `TensorShape=[2, 3]`.
fn count_shape(work: &[u8]) -> Option<u64> {
    let at = memmem::find(work, b"TensorShape=[")? + b"TensorShape=[".len();
    let shape = &work[at..at + memchr::memchr(b']', &work[at..])?];
    let sizes = shape
        .split(|&b| b == b',')
        .map(|size| dec_u64(size.trim_ascii()));
    sizes.into_iter().try_fold(1_u64, |all, size| match size {
        Ok((b"", size)) => all.checked_mul(size),
        _ => None,
    })
}

/// Parses a time-out of a broken line: `member` is its first piece, `text` all pieces without their white space, since
/// a break may have replaced a space or not. `None` while pieces are missing.
pub fn parse_wrapped_timeout<'a>(member: &'a [u8], text: &'a [u8]) -> Option<C10dTimeout<'a>> {
    let at = memmem::find(text, b"operationtimeout:Work")?;
    let at = at + WORK.find(&text[at..])?;
    let (_, library) = find_work_name(&text[..at])?;
    let (work, after) = split_work(&text[at + WORK.needle().len()..])?;
    parse_work(
        find_group_member(member),
        library,
        work,
        after.strip_prefix(b"ranfor"),
    )
}

/// In front of the rank that signalled it.
const SIGNAL_PHRASE: &[u8] = b" dump signal due to a collective timeout from ";

fn parse_last_work<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<C10dLastWork<'a>> {
    // `NCCL work: 811, last completed NCCL work: 807.`
    let numbers = |text: &'a [u8]| -> Option<(&'a [u8], i64)> {
        let text = text.strip_prefix(b"NCCL ").unwrap_or(text);
        dec_i64(text.strip_prefix(b"work: ")?).ok()
    };
    let (rest, enqueued) = numbers(behind)?;
    let (rest, completed) = numbers(rest.strip_prefix(b", last completed ")?)?;
    // A cut line may end in half a number: a full stop or another byte after it ends it.
    let ended = rest.first().is_some_and(|&b| !b.is_ascii_digit())
        || memmem::find(before, b"PG status").is_some();
    let at = [
        &b"at work sequence id: "[..],
        b"at work: ",
        b"at NCCL work: ",
    ]
    .iter()
    .find_map(|word| {
        let from = memmem::rfind(before, word)? + word.len();
        dec_i64(&before[from..]).ok().map(|(_, n)| n)
    });
    let who = find_group_member(before);
    let signalled_by = memmem::find(before, SIGNAL_PHRASE).and_then(|at| {
        let from = before[at + SIGNAL_PHRASE.len()..].trim_ascii_start();
        match from.strip_prefix(b"rank ") {
            Some(rank) => Some(dec_u32(rank).ok()?.1),
            None if from.starts_with(b"this local rank") => who.global.or(who.rank),
            None => None,
        }
    });
    ended.then_some(C10dLastWork {
        who,
        at,
        enqueued,
        completed,
        signalled_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_says_which_call() {
        let text = "[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught \
            collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466, \
            NumelOut=467, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.";
        match parse_c10d_line(text.as_bytes()) {
            Some(C10dMessage::Timeout(t)) => {
                assert_eq!(
                    (t.seq, t.op, t.who.rank),
                    (Some(1580), &b"ALLREDUCE"[..], Some(3))
                );
                assert_eq!((t.numel_in, t.numel_out), (Some(466), Some(467)));
                assert_eq!((t.timeout_ms, t.ran_ms), (600_000, Some(600_060.0)));
            }
            other => panic!("{other:?}"),
        }
        // A cut line never has half a number.
        for cut in 0..text.find(") ran").unwrap() {
            let got = parse_c10d_line(&text.as_bytes()[..cut]);
            let is_cut = matches!(got, None | Some(C10dMessage::TimeoutCut(_)));
            assert!(is_cut, "{cut}: {got:?}");
        }
    }

    fn timeout(text: &str) -> Option<C10dTimeout<'_>> {
        match parse_c10d_line(text.as_bytes()) {
            Some(C10dMessage::Timeout(timeout)) => Some(timeout),
            _ => None,
        }
    }

    #[test]
    fn all_versions_and_libraries_say_which_call() {
        for (text, seq, op, out) in [
            (
                "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, \
              Timeout(ms)=1800000) ran for 1803308 milliseconds before timing out.",
                None,
                "ALLREDUCE",
                None,
            ),
            (
                "[Rank 0] Caught collective operation timeout: WorkNCCL(OpType=BROADCAST, TensorShape=[2, 3], \
              Timeout(ms)=1800000) ran for 1806986 milliseconds before timing out.",
                None,
                "BROADCAST",
                Some(6),
            ),
            (
                "[rank1]:[E324 13:00:25.4 compiler_depend.ts:574] [Rank 1] Watchdog caught collective operation \
              timeout: WorkHCCL(SeqNum=196, OpType=ALLREDUCE, Timeout(ms)=3600000) ran for 3600185 \
              milliseconds before timing out.",
                Some(196),
                "ALLREDUCE",
                None,
            ),
            (
                "[Rank 1] Work WorkNCCL(SeqNum=2521, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, \
              Timeout(ms)=600000) timed out in blocking wait.",
                Some(2521),
                "ALLREDUCE",
                Some(16),
            ),
            (
                "> [Rank 2] Watchdog caught collective operation **timeout**: WorkNCCL(**SeqNum=5**, OpType=`SEND`, \
              Timeout(ms)=600000) ran for 600001 milliseconds before timing out.",
                Some(5),
                "SEND",
                None,
            ),
            (
                "[rank3] Watchdog caught collective operation timeout: WorkXCCL(SeqNum=7, OpType=SEND, NumelIn=1, \
              NumelOut=32, Timeout(ms)=600000)",
                Some(7),
                "SEND",
                Some(32),
            ),
        ] {
            let got = timeout(text).expect(text);
            assert_eq!(
                (got.seq, got.op, got.numel_out),
                (seq, op.as_bytes(), out),
                "{text}"
            );
            assert!(got.who.rank.or(got.who.global).is_some(), "{text}");
        }
        assert_eq!(
            timeout("WorkNCCL(SeqNum=1, OpType=SEND, Timeout(ms)=6) is queued"),
            None
        );
        assert_eq!(
            timeout("[Rank 0] operation timeout: Work(OpType=SEND, Timeout(ms)=6)"),
            None
        );
    }

    #[test]
    fn an_exception_that_quotes_a_time_out_is_cut_until_the_call() {
        let whole = "[rank2]:[E1 x.cpp:6] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with \
            exception: [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, Op";
        let from = whole.find("[Rank 2] Watchdog").unwrap() + "[Rank 2]".len();
        for at in from..whole.len() {
            let got = parse_c10d_line(&whole.as_bytes()[..at]);
            assert!(
                matches!(got, Some(C10dMessage::TimeoutCut(_))),
                "{at}: {got:?}"
            );
        }
        for other in [
            "CUDA error: an illegal memory access",
            "[Rank 2] NCCL error",
        ] {
            let line = whole[..from - "[Rank 2]".len()].to_owned() + other;
            let got = parse_c10d_line(line.as_bytes());
            assert!(
                matches!(got, Some(C10dMessage::Exception(_))),
                "{line}: {got:?}"
            );
        }
    }

    #[test]
    fn a_broken_line_is_the_same_call_wherever_it_breaks() {
        let text = "[rank3]:[E1 x.cpp:6] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=64, \
            OpType=ALLGATHER, NumelIn=1, NumelOut=32, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.";
        let whole = timeout(text).unwrap();
        let from = text.find("Watchdog").unwrap() + "Watchdog".len();
        let until = text.find("000) ran").unwrap();
        for at in from..until {
            let (first, rest) = text.split_at(at);
            let got = parse_c10d_line(first.as_bytes());
            assert!(
                matches!(got, Some(C10dMessage::TimeoutCut(_))),
                "{first}: {got:?}"
            );
            let joined: String = format!("{first}{rest}").split_whitespace().collect();
            let got = parse_wrapped_timeout(first.as_bytes(), joined.as_bytes());
            assert_eq!(got, Some(whole), "{first}");
        }
    }

    #[test]
    fn the_last_work_says_how_far() {
        for (text, group, at) in [
            (
                "[PG ID 0 PG GUID 0(default_pg) Rank 1] Exception (x) detected by watchdog at work: \
              808, last enqueued NCCL work: 811, last completed NCCL work: 807.",
                "ID 0 PG GUID 0(default_pg)",
                808,
            ),
            (
                "[PG 0 Rank 1] Timeout at NCCL work: 808, last enqueued NCCL work: 811, last \
              completed NCCL work: 807.",
                "0",
                808,
            ),
            (
                "[PG ID 1 PG GUID 1 Rank 1] failure detected by watchdog at work sequence id: 3 PG \
              status: last enqueued work: 811, last completed work: 807",
                "ID 1 PG GUID 1",
                3,
            ),
        ] {
            let (group, rank) = (Some(group.as_bytes()), Some(1));
            let global = None;
            let who = GroupMember {
                group,
                rank,
                global,
            };
            let (at, enqueued, completed) = (Some(at), 811, 807);
            let expected = C10dLastWork {
                who,
                at,
                enqueued,
                completed,
                signalled_by: None,
            };
            assert_eq!(
                parse_c10d_line(text.as_bytes()),
                Some(C10dMessage::LastWork(expected)),
                "{text}"
            );
        }
        assert_eq!(
            parse_c10d_line(b"last enqueued NCCL work: 811, last completed NCCL work: 80"),
            None
        );
    }

    #[test]
    fn a_rank_that_only_heard_of_it_says_how_far_it_is() {
        let text = b"[rank1]:[E1120 14:02:46.8 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID \
            0(default_pg) Rank 1] Received a dump signal due to a collective timeout from  rank 3 \
            and we will try our best to dump the debug info. Last enqueued NCCL work: 134, last \
            completed NCCL work: 133.This is most likely caused by";
        let Some(C10dMessage::LastWork(last)) = parse_c10d_line(text) else {
            panic!("no work");
        };
        assert_eq!((last.who.rank, last.who.global), (Some(1), Some(1)));
        assert_eq!((last.at, last.enqueued, last.completed), (None, 134, 133));
        assert_eq!(last.signalled_by, Some(3));
    }

    #[test]
    fn an_exception_has_its_words() {
        let text = b"[E ProcessGroupNCCL.cpp:916] [Rank 3] NCCL watchdog thread terminated with \
            exception: CUDA error: an illegal memory access was encountered\r";
        let Some(C10dMessage::Exception(got)) = parse_c10d_line(text) else {
            panic!("no exception");
        };
        let what = b"CUDA error: an illegal memory access was encountered";
        assert_eq!((got.who.rank, got.what), (Some(3), &what[..]));
    }

    #[test]
    fn a_watchdog_that_is_stuck_names_its_rank() {
        for (text, rank, seconds) in [
            (
                "[rank2]:[E4 x.cpp:14] [PG ID 2 PG GUID 9 Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 \
                 seconds without making progress in monitoring enqueued collectives.",
                2,
                Some(480),
            ),
            (
                "[rank1]:[E4 x.cpp:14] [PG 3 Rank 1] Heartbeat monitor timed out! Process will be terminated",
                1,
                None,
            ),
        ] {
            let Some(C10dMessage::Stuck(stuck)) = parse_c10d_line(text.as_bytes()) else {
                panic!("{text}");
            };
            assert_eq!((stuck.who.rank, stuck.seconds), (Some(rank), seconds));
        }
    }

    #[test]
    fn an_ordinary_end_names_its_rank() {
        let text = b" 7: [rank7]:[W1011 06:17:10.7 ProcessGroupNCCL.cpp:1218] Warning: WARNING: \
            process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal";
        let got = parse_c10d_line(text).map(|c10d| c10d.member().global);
        assert_eq!(got, Some(Some(7)));
    }
}
