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
//! ... [Rank 0] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
//! ... Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, ...   2.4+
//! ```
//!
//! From `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`. Older ones have no numbers of elements.

use crate::token::{dec_i64, dec_u32, dec_u64, fraction, until};
use memchr::memmem::{self, Finder};
use std::sync::LazyLock;

/// A line of PyTorch's watchdog.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum C10dMessage<'a> {
    /// A call took too long.
    Timeout(C10dTimeout<'a>),
    /// How far a process group is.
    LastWork(C10dLastWork<'a>),
    /// The watchdog itself failed, mostly because CUDA reported an error to it.
    Exception(C10dException<'a>),
    /// The process leaves in the ordinary way, and did not destroy the process group.
    NotDestroyed(GroupMember<'a>),
}

impl<'a> C10dMessage<'a> {
    /// Returns the member of a process group that printed the line.
    pub fn member(&self) -> GroupMember<'a> {
        match self {
            C10dMessage::Timeout(timeout) => timeout.who,
            C10dMessage::LastWork(last) => last.who,
            C10dMessage::Exception(exception) => exception.who,
            C10dMessage::NotDestroyed(who) => *who,
        }
    }
}

/// A call that took too long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct C10dTimeout<'a> {
    /// The member that printed the line.
    pub who: GroupMember<'a>,
    /// The call's number in its process group.
    pub seq: u64,
    /// PyTorch's name of the operation, `ALLREDUCE`, `_ALLGATHER_BASE`.
    pub op: &'a [u8],
    /// Elements in; printed since 2.1.
    pub numel_in: Option<u64>,
    /// Elements out; printed since 2.1.
    pub numel_out: Option<u64>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long it took, in milliseconds.
    pub ran_ms: f64,
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
}

/// What the watchdog failed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct C10dException<'a> {
    /// The member that the watchdog belongs to.
    pub who: GroupMember<'a>,
    /// The exception's words.
    pub what: &'a [u8],
}

/// A process in a process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember<'a> {
    /// The process group as printed: `ID 0 GUID 0(default_pg)`, `0`; printed since 2.2.
    pub group: Option<&'a [u8]>,
    /// The rank in it.
    pub rank: Option<u32>,
    /// The rank in the job: `[rank3]:` in front of the line; printed since 2.3.
    pub global: Option<u32>,
}

static TIMEOUT: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"Watchdog caught collective operation timeout: WorkNCCL("));
/// Without its first letter, which is a capital one in some lines.
static LAST_ENQUEUED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"ast enqueued "));
static EXCEPTION: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"watchdog thread terminated with exception: "));
static NOT_DESTROYED: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"process group has NOT been destroyed before we destruct"));

/// A line of the watchdog, wherever it begins.
pub fn parse_c10d_line(line: &[u8]) -> Option<C10dMessage<'_>> {
    if let Some(at) = TIMEOUT.find(line) {
        let work = &line[at + TIMEOUT.needle().len()..];
        return parse_timeout(find_group_member(&line[..at]), work).map(C10dMessage::Timeout);
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
        return (!what.is_empty()).then_some(C10dMessage::Exception(C10dException { who, what }));
    }
    let at = NOT_DESTROYED.find(line)?;
    Some(C10dMessage::NotDestroyed(find_group_member(&line[..at])))
}

fn parse_timeout<'a>(who: GroupMember<'a>, text: &'a [u8]) -> Option<C10dTimeout<'a>> {
    // `Timeout(ms)=` has a parenthesis of its own.
    let (rest, work) = until(") ran for ", "the end of the work")(text).ok()?;
    let field = |name: &[u8]| {
        let fields = work.split(|&b| b == b',').map(<[u8]>::trim_ascii);
        fields.filter_map(|field| field.strip_prefix(name)).next()
    };
    let number = |name: &[u8]| match dec_u64(field(name)?) {
        Ok((b"", n)) => Some(n),
        _ => None,
    };
    let (after, ran_ms) = fraction(rest).ok()?;
    after.starts_with(b" milliseconds").then_some(())?;
    Some(C10dTimeout {
        who,
        seq: number(b"SeqNum=")?,
        op: field(b"OpType=")?,
        numel_in: number(b"NumelIn="),
        numel_out: number(b"NumelOut="),
        timeout_ms: number(b"Timeout(ms)=")?,
        ran_ms,
    })
}

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
    ended.then(|| C10dLastWork {
        who: find_group_member(before),
        at,
        enqueued,
        completed,
    })
}

/// The longest text that is searched for a process group, in bytes before the message.
const MAX_MEMBER_PREFIX_BYTES: usize = 400;

/// The `[rank3]:` in a text.
fn find_global_rank(text: &[u8]) -> Option<u32> {
    let at = memmem::find(text, b"[rank")? + b"[rank".len();
    let (rest, rank) = dec_u32(&text[at..]).ok()?;
    rest.starts_with(b"]:").then_some(rank)
}

/// The last `[... Rank 1]` in a text.
fn find_group_member(text: &[u8]) -> GroupMember<'_> {
    let global = find_global_rank(&text[..text.len().min(MAX_MEMBER_PREFIX_BYTES)]);
    let none = GroupMember {
        group: None,
        rank: None,
        global,
    };
    let text = &text[text.len().saturating_sub(MAX_MEMBER_PREFIX_BYTES)..];
    let mut from = text.len();
    while let Some(open) = memchr::memrchr(b'[', &text[..from]) {
        let inner = &text[open + 1..];
        let inner = &inner[..memchr::memchr(b']', inner).unwrap_or(0)];
        if let Some(at) = memmem::rfind(inner, b"Rank ")
            && let Ok((b"", rank)) = dec_u32(&inner[at + b"Rank ".len()..])
        {
            let group = inner[..at].trim_ascii().strip_prefix(b"PG ");
            return GroupMember {
                group,
                rank: Some(rank),
                global,
            };
        }
        from = open;
    }
    none
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
                    (1580, &b"ALLREDUCE"[..], Some(3))
                );
                assert_eq!((t.numel_in, t.numel_out), (Some(466), Some(467)));
                assert_eq!((t.timeout_ms, t.ran_ms), (600_000, 600_060.0));
            }
            other => panic!("{other:?}"),
        }
        for cut in 0..text.find(" before").unwrap() {
            assert_eq!(parse_c10d_line(&text.as_bytes()[..cut]), None, "{cut}");
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
    fn an_ordinary_end_names_its_rank() {
        let text = b" 7: [rank7]:[W1011 06:17:10.7 ProcessGroupNCCL.cpp:1218] Warning: WARNING: \
            process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal";
        let got = parse_c10d_line(text).map(|c10d| c10d.member().global);
        assert_eq!(got, Some(Some(7)));
    }
}
