//! The findings on HCCL's own reports of errors, by the table `hccl_faults.txt`.

mod sentences;
mod told;

use super::limits::MAX_HCCL_VALUE_BYTES;
use super::{WatchdogMessage, WatchdogRecord};
use crate::grammar::message::hccl::{HcclField, HcclReport};
use crate::stages::check::finding::Finding;
use crate::stages::check::warn::known_warns::contains_pattern;
use sentences::{hccl_finding, names_missing_rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use told::{HcclTold, collect_told};

/// NCCL's settings do nothing for HCCL.
pub(super) const TIMEOUT_ADVICE: &str = "look at the ranks that are behind the others or silent, and at each rank's own log (plog, in \
     ASCEND_PROCESS_LOG_PATH or ~/ascend/log); with ASCEND_GLOBAL_LOG_LEVEL=1 it has more; HCCL's own limits are \
     HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT";

/// A report of an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct HcclError {
    /// The row of the table; none of a line that only adds values to another report.
    row: Option<usize>,
    /// Ascend's code; empty in HCCL's own log.
    code: Box<[u8]>,
    /// The process; none where the line has no values.
    pid: Option<u32>,
    /// The line belongs to a report that began before.
    is_part: bool,
    /// The result of HCCL's function.
    result: Option<u32>,
    /// The named values.
    fields: Vec<(HcclField, Box<[u8]>)>,
}

impl HcclError {
    /// Reads a report; `None` for a line of HCCL's own log that reports nothing.
    pub(super) fn from_report(report: &HcclReport<'_>) -> Option<HcclError> {
        let fields = report.read_fields();
        let is_row = |(field, _): &(HcclField, &[u8])| *field == HcclField::TableRow;
        let row = match fields.iter().any(is_row) {
            true => HCCL_ROWS.iter().position(|row| row.has_code(b"EI0006")),
            false => find_row(report),
        };
        if fields.is_empty() && (row.is_none() || report.is_part) {
            return None;
        }
        let owned = |(field, value): (HcclField, &[u8])| {
            (field, value[..value.len().min(MAX_HCCL_VALUE_BYTES)].into())
        };
        Some(HcclError {
            row,
            code: report.code.unwrap_or_default().into(),
            pid: report.pid.filter(|_| !fields.is_empty()),
            is_part: report.is_part,
            result: report.read_result(),
            fields: fields.into_iter().map(owned).collect(),
        })
    }

    fn role(&self) -> Option<HcclRole> {
        self.row.map(|row| HCCL_ROWS[row].role)
    }
}

/// The row of a report, by its text, its code, or words of failure.
fn find_row(report: &HcclReport<'_>) -> Option<usize> {
    let has_text = |row: &HcclRow| row.texts.iter().any(|t| contains_pattern(report.text, t));
    let last = HCCL_ROWS.len() - 1;
    let known = HCCL_ROWS.iter().take(last).position(has_text);
    let has_code = |row: &HcclRow| report.code.is_some_and(|code| row.has_code(code));
    let row = known.or_else(|| HCCL_ROWS.iter().position(has_code));
    let is_failure = || {
        let words = ["fail", "error", "errNo", "timeout", " -> "];
        report.code.is_some() || words.iter().any(|word| contains_pattern(report.text, word))
    };
    row.or_else(|| is_failure().then_some(last))
}

/// Whether the rank that reports an error is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HcclRole {
    Wait,
    Link,
    Lost,
    Cause,
    Inner,
}

/// A row of the table.
#[derive(Debug)]
struct HcclRow {
    role: HcclRole,
    codes: &'static str,
    texts: Vec<&'static str>,
    means: &'static str,
    /// The words where the lines have no value that differs.
    plain: &'static str,
    advice: &'static str,
}

impl HcclRow {
    fn has_code(&self, code: &[u8]) -> bool {
        self.codes.split(' ').any(|own| own.as_bytes() == code)
    }
}

static HCCL_ROWS: LazyLock<Vec<HcclRow>> = LazyLock::new(|| {
    let blocks = include_str!("hccl_faults.txt").split("\n\n");
    blocks.filter_map(read_row).collect()
});

/// Reads a block of the table.
fn read_row(block: &'static str) -> Option<HcclRow> {
    let mut lines = block.lines().filter(|line| !line.starts_with('#'));
    let role = match lines.next()? {
        "wait" => HcclRole::Wait,
        "link" => HcclRole::Link,
        "lost" => HcclRole::Lost,
        "cause" => HcclRole::Cause,
        "inner" => HcclRole::Inner,
        _ => return None,
    };
    let mut row = HcclRow {
        role,
        codes: "",
        texts: Vec::new(),
        means: "",
        plain: "",
        advice: "",
    };
    for (name, value) in lines.filter_map(|line| line.split_once(' ')) {
        match name {
            "code" => row.codes = value,
            "text" => row.texts.push(value),
            "means" => row.means = value,
            "plain" => row.plain = value,
            "do" => row.advice = value,
            _ => {}
        }
    }
    Some(row)
}

/// Makes one finding for each kind of error; of lines without a known reason only if there is no other.
pub(super) fn find_hccl_errors(records: &[WatchdogRecord]) -> Vec<Finding> {
    let mut rows: BTreeMap<usize, Vec<HcclTold<'_>>> = BTreeMap::new();
    for told in collect_told(records) {
        rows.entry(told.row).or_default().push(told);
    }
    let has_reason = |row: &usize| HCCL_ROWS[*row].role != HcclRole::Inner;
    let has_lost = |row: &usize| HCCL_ROWS[*row].role == HcclRole::Lost;
    if rows.keys().any(has_lost) {
        // A wait without a name follows from the process that was lost.
        rows.retain(|row, lines| {
            HCCL_ROWS[*row].role != HcclRole::Wait || names_missing_rank(lines)
        });
    }
    let is_timeout = |record: &WatchdogRecord| matches!(record.what, WatchdogMessage::Timeout(_));
    let mut rest = Vec::new();
    if rows.keys().any(has_reason) || records.iter().any(is_timeout) {
        let (reasons, inner) = rows.into_iter().partition(|(row, _)| has_reason(row));
        let inner: BTreeMap<usize, Vec<HcclTold<'_>>> = inner;
        rows = reasons;
        rest = inner.into_values().flatten().collect();
    }
    let each = rows.iter();
    each.map(|(row, lines)| hccl_finding(&HCCL_ROWS[*row], lines, &rest))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Watchdog;
    use super::*;
    use crate::grammar::message::c10d::parse_c10d_line;
    use crate::stages::check::finding::Kind;
    use crate::stages::net::net_stage::FirstReportLine;

    fn find(lines: &[&str]) -> Vec<(Kind, Option<u32>, String)> {
        let mut watchdog = Watchdog::default();
        for (number, line) in (0..).zip(lines) {
            let what = parse_c10d_line(line.as_bytes()).unwrap();
            watchdog.take_line(line.as_bytes(), &what, FirstReportLine::in_chunk(number));
        }
        let findings = find_hccl_errors(watchdog.kept_records());
        let each = findings.into_iter();
        each.map(|f| (f.kind, f.about.rank, f.says)).collect()
    }

    #[test]
    fn every_row_is_read() {
        let text = include_str!("hccl_faults.txt");
        let means = text.lines().filter(|line| line.starts_with("means "));
        assert_eq!(means.count(), HCCL_ROWS.len());
        assert!(HCCL_ROWS.iter().all(|row| !row.advice.is_empty()));
        assert_eq!(HCCL_ROWS.last().map(|row| row.role), Some(HcclRole::Inner));
    }

    #[test]
    fn a_chain_of_waits_ends_at_the_rank_that_waits_for_nobody() {
        let wait = |own, other| {
            format!(
                "EI0002: [PID: 7] The wait execution of the Notify register times out. remote rank: [{other}]. \
                 group information: [group:[x], rankSize[32], rankId[{own} {other}]]"
            )
        };
        let found = find(&[&wait(25, 24), &wait(24, 23)]);
        let says = "rank 23 did not come, and HCCL's wait in a call timed out on ranks 24-25";
        assert_eq!(found, [(Kind::WatchdogTimeout, Some(23), says.to_owned())]);
    }

    #[test]
    fn the_most_specific_report_decides() {
        let plog = "[ERROR] HCCL(8,):2026-06-17-02:21:43.8 [a.cc:9] [7]";
        let trace = format!("{plog}[Alloc]call trace: hcclRet -> 4");
        let link = format!(
            "{plog}Transport init error! createLink para:rank[2]-localUserrank[2]-localIpAddr[10.0.0.9/7], remoteRank[3]-\
             remoteUserrank[3]-remoteIpAddr[10.0.0.8/7]"
        );
        let found = find(&[&trace, &link]);
        let says = "HCCL reports between rank 2 (10.0.0.9) and rank 3 (10.0.0.8): a connection could not be set up";
        assert_eq!(found, [(Kind::HcclError, None, says.to_owned())]);
        let says = "HCCL reports an error (result 4: internal error); no line gives a reason that is known";
        assert_eq!(find(&[&trace]), [(Kind::HcclError, None, says.to_owned())]);
        let waits = find(&[
            "EI9999: 2024-10-21-10:42:00.3  hccl fftsplus task timeout occurred during task execution",
        ]);
        assert_eq!(waits[0].0, Kind::WatchdogTimeout);
        let port = format!(
            "{plog}[Listen] listen on ip[10.0.0.1] and specific port[16666] fail. Please check"
        );
        assert!(find(&[&port])[0].2.ends_with("cannot be used"));
    }

    fn says(lines: &[&str]) -> Vec<String> {
        find(lines).into_iter().map(|(_, _, says)| says).collect()
    }

    const PLOG: &str = "[ERROR] HCCL(8,py):2026-06-17-02:21:43.8 [a.cc:9] [7]";

    #[test]
    fn a_row_of_a_table_names_the_rank_that_did_not_connect_by_its_head() {
        let row = "| 10.0.0.2(1) | 16666 | 10.0.0.1(0) | 0 | server | time out | DISABLE |";
        let head = "| dest_ip(user_rank) | dest_port | src_ip(user_rank) | src_port | MyRole | Status | TlsStatus |";
        let wait =
            format!("{PLOG}[Wait]wait socket establish timeout, role[0] rank[0] timeout[120 s]");
        let line = format!("{wait} {PLOG} {head} {PLOG} |----|----| {PLOG} {row}");
        let expected = "rank 1 (10.0.0.2) did not come, and HCCL's connection to another rank timed out on rank 0 \
            (10.0.0.1) after 120 s";
        let found = find(&[&line]);
        assert_eq!(
            found,
            [(Kind::WatchdogTimeout, Some(1), expected.to_owned())]
        );
        let swapped = "| src_ip(rank_id) | dest_ip(rank_id) | Role | Status |";
        let lines = [
            format!("{PLOG} {swapped}"),
            format!("{PLOG} | 10.0.0.1(4) | 10.0.0.2(5) | client | no connect |"),
            format!("{PLOG} | 10.0.0.1(4) | 10.0.0.2(6) | client | connected |"),
        ];
        let expected = "rank 5 (10.0.0.2) did not come, and HCCL's connection to another rank timed out on rank 4 \
            (10.0.0.1)";
        assert_eq!(says(&[&lines[0], &lines[1], &lines[2]]), [expected]);
        // Without its head, a row does not show which end it is of.
        assert!(says(&[&lines[1]]).is_empty());
    }

    #[test]
    fn ranks_that_do_not_come_are_those_that_a_line_lists_or_leaves_out() {
        let timeout = format!("{PLOG}topo exchange server get socket timeout! timeout[120 s]");
        let listed = format!(
            "{PLOG} TopoDetect ERROR occur !!! fault_info[\"Failed to connect agent[1,3,]\"]"
        );
        let size = format!(
            "{PLOG}rank num[4]is different with rank list size[2] in total topo rank info."
        );
        let expected = "ranks 1, 3 of 4 did not come, and HCCL's collection of all ranks' addresses timed out after \
            120 s";
        assert_eq!(says(&[&timeout, &listed, &size]), [expected]);
        let count = |count| format!("{PLOG}total connected num is [{count}],line num is [1]");
        let came =
            format!("{PLOG}connected rankinfo[LINE 0]: [0000000000000000],[0000000000000002];");
        let init = format!("{PLOG}Init failed, return[0x0000000005000004], rankNum[4]");
        let told = says(&[&timeout, &count(2), &came, &init]);
        assert!(
            told[0].starts_with("ranks 1, 3 did not come, and "),
            "{told:?}"
        );
        let told = says(&[&timeout, &count(3), &came, &init]);
        assert!(
            told[0].ends_with("the lines do not name the rank that was missing"),
            "{told:?}"
        );
        let agent = format!("{PLOG}TopoExchangeAgent: connect server[10.0.0.1 : 60000] failed");
        let told = says(&[&agent]);
        assert!(
            told[0].ends_with("it could not connect to 10.0.0.1 : 60000"),
            "{told:?}"
        );
    }

    #[test]
    fn calls_that_differ_are_named_with_the_values_of_both_ends() {
        let differ = "HCCL reports: ranks make different calls: ";
        let check = |name, own, other| {
            format!("{PLOG}CMD information {name} check fail. local[{own}], remote[{other}]")
        };
        let line = check("tag", "AllGather_10.0.0.1%e_1", "AllReduce_10.0.0.1%e_1")
            + &check("op", "255", "0");
        let of_calls = "AllGather on the rank that reports, AllReduce on the other";
        assert_eq!(says(&[&line]), [format!("{differ}{of_calls}")]);
        assert_eq!(
            says(&[&check("cmdType", "6", "2")]),
            [format!("{differ}{of_calls}")]
        );
        let of_count = "count of AllReduce is 16 on the rank that reports, 8 on the other";
        for text in [
            "EI0005: 2024-04-24-06:32:27.7 The arguments are inconsistent between ranks:tag[HcomAllReduce_66_0], \
             parameter[count], local[16], remote [8]",
            "EI0005: 2026-04-24-06:32:27.7 The parameters of operator AllReduce are inconsistent between ranks, parameter \
             count is 16 on the local rank and 8 on the remote rank.",
        ] {
            let link = "        Create Dest error! createLink para:rank[5]-localUserrank[4]-localIpAddr[10.0.0.1], \
                        dst_rank[6]-remoteUserrank[7]-remote_ip_addr[10.0.0.1]";
            assert_eq!(says(&[text]), [format!("{differ}{of_count}")]);
            let whole = format!(
                "HCCL reports on rank 4: ranks make different calls: {of_count}; its connection to rank 7 failed"
            );
            assert_eq!(says(&[text, link]), [whole]);
        }
        let versions = "EI0008: [PID: 5] The HCCL versions are inconsistent. The local version is 8.0, while the remote \
            version is 8.1.";
        assert!(
            says(&[versions])[0]
                .ends_with("version is 8.0 on the rank that reports, 8.1 on the other")
        );
    }

    #[test]
    fn a_place_without_a_rank_is_named_by_its_host_and_device() {
        let lost = "[ERROR]HCCL(8,py):2025-10-23-17:28:06.0[t.cc:610][8]Cluster Exception Location[IP/ID]:[10.0.0.1/1], \
            Discoverer:[10.0.0.1/2], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1. Process has exited";
        let expected = "HCCL reports that device 1 of 10.0.0.1 sent no more heartbeats: its process ended, or the network \
            between the two failed; device 2 of 10.0.0.1 found it";
        let wait =
            "EI0002: [PID: 8] The wait execution of the Notify register times out. Reason: 1.";
        assert_eq!(says(&[wait, lost]), [expected]);
        let cqe = "[PID: 8] 2025-12-04-21:59:08.2 Execution Error ROCE CQE(EI0013): An error CQE occurred. Local \
            information: server 10.0.0.1, device ID 0, device IP 10.1.0.1. Peer information: server 10.0.0.2, device ID 1, \
            device IP 10.1.0.2.";
        let between = "HCCL reports between device 0 of 10.0.0.1 (10.1.0.1) and device 1 of 10.0.0.2 (10.1.0.2): ";
        assert!(says(&[cqe])[0].starts_with(between));
        let connect = "Communication_Error_Get_Socket(EI0006): srcRank[10.0.0.1/0] connect destRank[10.0.0.2/3] fail";
        let expected = "HCCL's connection to another rank timed out on device 0 of 10.0.0.1; it could not connect to device 3 \
            of 10.0.0.2";
        assert_eq!(says(&[connect]), [expected]);
    }

    #[test]
    fn lines_without_the_librarys_name_add_the_rank_and_the_reason() {
        let init = format!("{PLOG}errNo[0x0000000005000002]HcclCommInitRootInfo failed.");
        let runner = "[error] [7] [hccl_runner.cpp:132] HcclCommInitRootInfo fail, error:2, rank:1, rankSize:4";
        let expected = "HCCL reports an error in HcclCommInitRootInfo on rank 1 of 4 (result 2: empty pointer); no line gives \
            a reason that is known";
        assert_eq!(says(&[&init, runner]), [expected]);
        let inner = "[rank1]: EE9999: [PID: 5] 2025-04-27-03:11:08.2 get error: phyid:0 realDeviceId:0 is err:0x7010003";
        let reason = |reason| {
            format!("[rank1]:        rtGetDeviceIndexByPhyId execute failed, reason=[{reason}]")
        };
        let expected =
            "HCCL reports on rank 1: the runtime does not accept the number of an NPU (NPU 0)";
        assert_eq!(says(&[inner, &reason("device id error")]), [expected]);
        assert!(
            says(&[inner, &reason("stream error")])[0]
                .ends_with("; the runtime's reason: stream error")
        );
        assert!(says(&[&reason("device id error")]).is_empty());
    }
}
