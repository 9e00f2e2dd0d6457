//! nccl-check on public reports of failed jobs, as users pasted them, beside the cause that is known.

use crate::support::{Csv, data, feed};

/// How the first finding stands to the known cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It names the cause, or all that the text shows of it.
    Right,
    /// It names a part: who waits, which interface, what failed.
    Partly,
    /// The text does not show the failure, and the answer says so.
    NotJudged,
    /// The job is well, in what was judged.
    Well,
}
use Answer::{NotJudged, Partly, Right, Well};

/// Each text with the known cause (`data/reports/SOURCES.md`), the first finding, and how it stands to the cause.
const REPORTS: [(&str, &str, &str, Answer); 31] = [
    (
        "01",
        "two ranks on one GPU",
        "error warn_duplicate_gpu",
        Right,
    ),
    (
        "03",
        "a veth interface is used",
        "warning interface_unsuitable",
        Right,
    ),
    (
        "05",
        "bootstrap over ip6tnl0, link-local",
        "warning interface_unsuitable",
        Right,
    ),
    (
        "08",
        "lo among the interfaces",
        "warning interface_unsuitable",
        Right,
    ),
    (
        "10",
        "hangs before the first row",
        "warning benchmark_no_row",
        Right,
    ),
    ("11", "no peer access", "error warn_cuda_peer", Right),
    (
        "13",
        "/dev/shm full, outside of the excerpt",
        "note not_checked",
        NotJudged,
    ),
    ("14", "/dev/shm of 64 MB", "error warn_no_space_shm", Right),
    ("15", "no /dev/shm mount", "error warn_no_space_shm", Right),
    (
        "17",
        "CUDA's initialisation",
        "error warn_cuda_setup",
        Right,
    ),
    (
        "18",
        "ibv_modify_qp timed out, outside of the excerpt",
        "note not_checked",
        NotJudged,
    ),
    ("21", "unknown", "error watchdog_timeout", Partly),
    ("22", "time-out", "error watchdog_timeout", Right),
    (
        "25",
        "unknown: the start only",
        "warning warn_rccl_host",
        Partly,
    ),
    (
        "27",
        "a crash, outside of the excerpt",
        "note not_checked",
        NotJudged,
    ),
    (
        "29",
        "stuck after the first AllReduce",
        "note not_checked",
        NotJudged,
    ),
    ("30", "hangs later on", "note not_checked", NotJudged),
    (
        "32",
        "the network aborts connections",
        "error warn_socket",
        Right,
    ),
    (
        "34",
        "virbr0 among the interfaces",
        "warning interface_unsuitable",
        Right,
    ),
    (
        "35",
        "one GPU for two ranks",
        "error warn_duplicate_gpu",
        Right,
    ),
    (
        "41",
        "OFI cannot register memory: libcuda of another version",
        "error warn_ofi_memory",
        Partly,
    ),
    (
        "43",
        "NCCL's limit of XML nodes",
        "error warn_topology_size",
        Right,
    ),
    ("44", "healthy", "note warn_no_libibverbs", Well),
    (
        "45",
        "Send before Recv on both ranks, not grouped",
        "error warn_no_peer_address",
        Right,
    ),
    ("48", "unknown", "warning warn_rccl_host", Partly),
    ("51", "unknown", "error watchdog_timeout", Partly),
    ("53", "time-out", "error watchdog_timeout", Right),
    (
        "55",
        "CUDA 13 on an old driver",
        "error warn_cuda_driver",
        Right,
    ),
    (
        "56",
        "four ranks of MIG on one GPU",
        "error warn_duplicate_gpu",
        Right,
    ),
    (
        "58",
        "NCCL 2.26.2's own bug",
        "error warn_cuda_fault",
        Partly,
    ),
    ("steps-60", "step lines only", "note not_checked", NotJudged),
];

/// The same of a few lines for each kind of fault.
const KINDS: [(&str, &str); 34] = [
    ("afunix", "error warn_no_peer_address"),
    ("closed2", "error warn_peer_closed"),
    ("docker0", "error interface_unsuitable"),
    ("exitcode", "error nccl_error"),
    ("hang", "warning benchmark_no_row"),
    ("hca", "warning nic_differs"),
    ("lasterr", "error warn_duplicate_gpu"),
    ("lasterr2", "error warn_cuda_oom"),
    ("lasterr3", "error warn_cuda_oom"),
    ("lasterr4", "error warn_ib_retry_exceeded"),
    ("nvlsdereg", "note not_checked"),
    ("nvlsmig", "error warn_nvls_setting"),
    ("oob", "error wrong_results"),
    ("pynccl", "error nccl_error"),
    ("rail", "warning rails_crossed"),
    ("rail2", "warning rails_crossed"),
    ("rasbind", "note warn_ras_unavailable"),
    ("retry", "warning connect_retrying"),
    ("retry224", "warning interface_unsuitable"),
    ("swift", "note not_checked"),
    ("swift2", "note not_checked"),
    ("symva", "error warn_symmetric_space"),
    ("trace", "error nccl_error"),
    ("trace2", "error init_incomplete"),
    ("veth", "warning interface_unsuitable"),
    ("wd1", "error watchdog_timeout"),
    ("wd2", "error count_mismatch"),
    ("wd3", "error op_mismatch"),
    ("wd4", "error count_mismatch"),
    ("wd5", "error watchdog_timeout"),
    ("wd6", "error watchdog_timeout"),
    ("xla", "error warn_cuda_oom"),
    ("../steps-62", "note not_checked"),
    ("../steps-64", "note not_checked"),
];

/// The first finding of a text, and the exit code.
fn first_finding(name: &str) -> Option<(String, i32)> {
    let log = std::fs::read(data(&format!("reports/{name}.log"))?).unwrap();
    let out = feed("nccl-check", &["-q", "--format", "csv"], log).calm();
    let csv = Csv::of(&out);
    let of = |column| csv.column(column).first().cloned().unwrap_or_default();
    let first = format!("{} {}", of("severity"), of("finding"));
    Some((first, out.code?))
}

#[test]
fn public_reports_are_answered_or_not_judged() {
    for (name, cause, finding, answer) in REPORTS {
        let Some((first, code)) = first_finding(name) else {
            return;
        };
        assert_eq!(first, finding, "{name}: {cause}");
        let expected = match answer {
            Right | Partly => 1,
            NotJudged => 3,
            Well => 0,
        };
        assert_eq!(code, expected, "{name}: {cause}");
    }
    let is = |answer| REPORTS.iter().filter(|row| row.3 == answer).count();
    assert_eq!(
        [is(Right), is(Partly), is(NotJudged), is(Well)],
        [18, 6, 6, 1]
    );
}

#[test]
fn each_kind_of_fault_has_its_finding() {
    for (name, finding) in KINDS {
        let Some((first, _)) = first_finding(&format!("min/{name}")) else {
            return;
        };
        assert_eq!(first, finding, "{name}");
    }
}
