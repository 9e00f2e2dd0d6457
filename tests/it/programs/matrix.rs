//! nccl-matrix: who sends to whom, against the lines of the logs themselves.

use crate::support::{Csv, Work, arg, captured, data, feed, run, sh};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// Calls and bytes by sender and receiver.
type Cells = BTreeMap<(String, String), (u64, u128)>;

/// The cells of a basis.
fn cells(table: &Csv, basis: &str) -> Cells {
    let mut cells = Cells::new();
    for row in table
        .rows
        .iter()
        .filter(|row| table.get(row, "basis") == basis)
    {
        let of = |column| table.get(row, column).to_owned();
        let value = (of("calls").parse().unwrap(), of("bytes").parse().unwrap());
        assert!(cells.insert((of("from"), of("to")), value).is_none());
    }
    cells
}

fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let mut text = Vec::new();
    match path.extension().is_some_and(|end| end == "gz") {
        true => _ = GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap(),
        false => text = bytes,
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// What follows a word, up to a blank.
fn after<'l>(line: &'l str, word: &str) -> Option<&'l str> {
    line.split_once(word)?.1.split_whitespace().next()
}

/// `host:pid` of a line.
fn process(line: &str) -> Option<String> {
    let head = line.split_once(" NCCL INFO ")?.0.rsplit_once(" [")?.0;
    let head = head.split_whitespace().last()?;
    Some(head.rsplit_once(':')?.0.to_owned())
}

/// The Sends of a log, line by line: no torn lines, no communicators of splits. The first communicator that
/// has all processes has the ranks of the job.
fn naive(log: &str) -> Cells {
    const SIZES: [u128; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    let mut addresses: BTreeMap<(String, String), (String, u32)> = BTreeMap::new();
    let mut members: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    let mut order = Vec::new();
    let mut sends = Vec::new();
    for line in log.lines() {
        let Some(process) = process(line) else {
            continue;
        };
        if let (true, Some(id)) = (line.contains("Init COMPLETE"), after(line, "commId ")) {
            let rank = after(line, " rank ").unwrap().parse().unwrap();
            let comm = after(line, " comm ").unwrap().to_owned();
            if !members.contains_key(id) {
                order.push(id.to_owned());
            }
            let of = members.entry(id.to_owned()).or_default();
            of.insert(rank, process.clone());
            addresses.insert((process, comm), (id.to_owned(), rank));
        } else if line.contains("NCCL INFO Send: ") {
            let number = |word| -> u128 { after(line, word).unwrap().parse().unwrap() };
            let bytes = number(" count ") * SIZES[number(" datatype ") as usize];
            let comm = after(line, " comm ").unwrap().to_owned();
            let (id, _) = addresses[&(process.clone(), comm)].clone();
            sends.push((process, id, number(" root ") as u32, bytes));
        }
    }
    let processes: std::collections::BTreeSet<&String> =
        members.values().flat_map(BTreeMap::values).collect();
    let world = order
        .iter()
        .find(|id| members[*id].len() == processes.len())
        .unwrap();
    let ranks: BTreeMap<&String, u32> = members[world]
        .iter()
        .map(|(rank, of)| (of, *rank))
        .collect();
    let mut cells = Cells::new();
    for (from, id, peer, bytes) in &sends {
        let key = (
            ranks[from].to_string(),
            ranks[&members[id][peer]].to_string(),
        );
        let (calls, all) = cells.entry(key).or_default();
        *calls += 1;
        *all += bytes;
    }
    cells
}

#[test]
fn messages_are_those_of_the_logs_own_lines() {
    let mut paths: Vec<_> = ["pp", "pp-recv", "3d", "3d-die", "ep"]
        .iter()
        .map(|job| captured(job).join("nccl.log.gz"))
        .collect();
    paths.push(captured("megatron/nccl.log"));
    paths.extend(["testdata/stopped/ring.log.gz", "testdata/kineto/ep.log.gz"].map(Into::into));
    if let Some(folder) = data("gpu") {
        for job in [
            "m3d-16",
            "ulysses-2x2",
            "x-direction",
            "mix-inspector-2.28.9-2x2",
        ] {
            paths.push(folder.join(job).join("nccl.log.gz"));
        }
    }
    for path in paths {
        let found = Csv::of(&run("nccl-matrix", &[arg(&path), "--recorded"]).ends(0));
        let naive = naive(&text(&path));
        assert!(!naive.is_empty());
        assert_eq!(cells(&found, "sent"), naive, "{}", path.display());
        assert_eq!(found.rows.len(), naive.len(), "{}", path.display());
        // In the pipe behind the call table it is the same.
        let rows = run("nccl-comms", &[arg(&path)]).ends(0).stdout;
        let piped = feed("nccl-matrix", &["--recorded", "-j", "3"], rows).ends(0);
        assert_eq!(Csv::of(&piped).rows, found.rows, "{}", path.display());
    }
}

/// What a small library recorded between PyTorch and NCCL of a job of which many lines are torn.
#[test]
fn messages_are_those_that_were_recorded_beside_the_log() {
    let Some(folder) = data("gpu/ring-2x2-2.32.3") else {
        return;
    };
    let log = folder.join("nccl.log.gz");
    let truth = Csv::read(text(&folder.join("truth.csv.gz")).as_bytes());
    let (mut ids, mut members) = (BTreeMap::new(), BTreeMap::new());
    let mut recorded = Cells::new();
    for row in &truth.rows {
        let of = |column| truth.get(row, column).to_owned();
        let own = (of("rank"), of("comm"));
        match truth.get(row, "ev") {
            "CommInit" => {
                let id = of("extra").split(';').nth(1).unwrap().to_owned();
                members.insert((id.clone(), of("dtype")), of("rank"));
                ids.insert(own, id);
            }
            "Send" => {
                let peer = members_later(&ids[&own], &of("root"));
                let bytes = of("count").parse::<u128>().unwrap() * 2;
                assert_eq!(of("dtype"), "9");
                let cell = recorded.entry((of("rank"), peer)).or_default();
                *cell = (cell.0 + 1, cell.1 + bytes);
            }
            _ => {}
        }
    }
    let named = recorded.into_iter().map(|((from, peer), value)| {
        let (id, rank) = peer.rsplit_once('/').unwrap();
        let to = members[&(id.to_owned(), rank.to_owned())].clone();
        ((from, to), value)
    });
    // Torn lines that no program reads are no loss.
    let found = Csv::of(&run("nccl-matrix", &[arg(&log), "--recorded"]).ends(0));
    assert_eq!(cells(&found, "sent"), named.collect());
}

/// A rank of a communicator whose members are not all met yet.
fn members_later(id: &str, rank: &str) -> String {
    format!("{id}/{rank}")
}

#[test]
fn an_export_has_the_messages_of_its_log() {
    let Some(folder) = data("gpu/nsys") else {
        return;
    };
    let of = |name: &str| {
        let path = folder.join(name);
        Csv::of(&run("nccl-matrix", &[arg(&path), "--recorded"]).ends(0))
    };
    let (export, log) = (of("nsring.sqlite.gz"), of("nsring.nccl.log.gz"));
    assert_eq!(cells(&export, "sent"), cells(&log, "sent"));
    assert_eq!(log.column("calls"), ["24", "24"]);
    // Counted in the table CUPTI_ACTIVITY_KIND_MEMCPY.
    let copied = cells(&export, "copied");
    let end = |name: &str| name.to_owned();
    assert_eq!(copied[&(end("memory"), end("0"))], (334, 5_982_032));
    assert_eq!(copied[&(end("1"), end("memory"))], (6, 24));
}

#[test]
fn a_trace_has_its_copies_and_messages() {
    let traces = [
        "testdata/kineto/ep-rank0.json.gz",
        "testdata/kineto/ep-rank1.json.gz",
    ];
    let out = run("nccl-matrix", &[traces[0], traces[1], "--by", "device"]).ends(0);
    let table = Csv::of(&out);
    let end = |name: &str| name.to_owned();
    assert_eq!(
        cells(&table, "copied")[&(end("gpu0"), end("gpu0"))],
        (228, 50_851_840)
    );
    let log = run("nccl-matrix", &["testdata/kineto/ep.log.gz", "--recorded"]).ends(0);
    // The profiler saw some of the job's steps.
    let (seen, all) = (cells(&table, "sent"), cells(&Csv::of(&log), "sent"));
    assert_eq!((seen.len(), all.len()), (4, 4));
    for ((from, to), (calls, bytes)) in &seen {
        let rank = |gpu: &String| gpu.trim_start_matches("gpu").to_owned();
        let whole = all[&(rank(from), rank(to))];
        assert!(*calls <= whole.0 && *bytes <= whole.1);
    }
}

#[test]
fn mpi_messages_are_between_ranks_of_the_job() {
    let Some(folder) = data("mpi-logger") else {
        return;
    };
    let logs = [folder.join("r0.log"), folder.join("r1.log")];
    let out = run("nccl-matrix", &[arg(&logs[0]), arg(&logs[1]), "--recorded"]).ends(0);
    let expected = "from,to,calls,bytes,basis\n\
                    0,1,6,332880,sent\n\
                    1,2,3,266304,sent\n\
                    3,0,3,266304,received\n";
    assert_eq!(out.text(), expected);
}

/// A log of two ranks with a ring and a tree on two channels.
const LOG: &str = "\
h:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - Init START
h:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0x77 - Init START
h:1:1 [0] NCCL INFO Channel 00/02 : 0 1
h:1:1 [0] NCCL INFO Channel 01/02 : 0 1
h:1:1 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1
h:2:2 [1] NCCL INFO Trees [0] -1/-1/-1->1->0 [1] -1/-1/-1->1->0
h:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - Init COMPLETE
h:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0x77 - Init COMPLETE
h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 101 datatype 1 op 0 root 0 comm 0xa [nranks=2] stream 0x5
h:1:1 [0] NCCL INFO AllReduce: 101 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}
h:2:2 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 101 datatype 1 op 0 root 0 comm 0xb [nranks=2] stream 0x5
h:1:1 [0] NCCL INFO Broadcast: opCount 1 sendbuff 0x1 recvbuff 0x1 count 10 datatype 7 op 0 root 1 comm 0xa [nranks=2] stream 0x5
h:2:2 [1] NCCL INFO Broadcast: opCount 1 sendbuff 0x1 recvbuff 0x1 count 10 datatype 7 op 0 root 1 comm 0xb [nranks=2] stream 0x5
h:1:1 [0] NCCL INFO AllGather: opCount 2 sendbuff 0x1 recvbuff 0x1 count 7 datatype 1 op 0 root 0 comm 0xa [nranks=2] stream 0x5
h:2:2 [1] NCCL INFO AllGather: opCount 2 sendbuff 0x1 recvbuff 0x1 count 7 datatype 1 op 0 root 0 comm 0xb [nranks=2] stream 0x5
h:1:1 [0] NCCL INFO Send: opCount 3 sendbuff 0x1 recvbuff 0x1 count 7 datatype 1 op 0 root 1 comm 0xa [nranks=2] stream 0x5
h:2:2 [1] NCCL INFO Recv: opCount 3 sendbuff 0x1 recvbuff 0x1 count 8 datatype 1 op 0 root 0 comm 0xb [nranks=2] stream 0x5
";

#[test]
fn rings_and_trees_are_a_model() {
    let out = feed("nccl-matrix", &[], LOG).ends(0);
    let expected = "from,to,calls,bytes,basis\n\
                    0,1,1,7,sent\n\
                    0,1,1,7,ring model\n\
                    0,1,1,101,tree model\n\
                    1,0,2,47,ring model\n\
                    1,0,1,101,tree model\n";
    assert_eq!(out.text(), expected);
    let stderr = "nccl-matrix: warning: 1 pair of ranks in which the receiver expected something else than what was \
                  sent; the first: on communicator 0x77 rank 0 sent 1 message of 7 bytes to rank 1, which expected 1 \
                  message of 8 bytes\n\
                  nccl-matrix: note: the model has 6 calls of collectives, 2 over rings or trees, as the inputs tell, \
                  and 4 over rings: which algorithm served them is not known; it is what they would send by \
                  definition of the algorithms, and --recorded omits it\n";
    assert_eq!(out.stderr, stderr);
    let out = feed("nccl-matrix", &["--recorded", "-q", "--by", "host"], LOG).ends(0);
    assert_eq!(out.text(), "from,to,calls,bytes,basis\nh,h,1,7,sent\n");
    let out = feed(
        "nccl-matrix",
        &["-q", "--format", "json", "--recorded"],
        LOG,
    )
    .ends(0);
    let line = "{\"from\":\"0\",\"to\":\"1\",\"calls\":1,\"bytes\":7,\"basis\":\"sent\"}\n";
    assert_eq!(out.text(), line);
    let out = feed(
        "nccl-matrix",
        &["-q", "--format", "table", "--by", "device"],
        LOG,
    )
    .ends(0);
    let table = "bytes from each row to each column, K is 1024; sent 7, ring model 54, tree model 202\n\
                 from    h/gpu0  h/gpu1\n\
                 h/gpu0 ·       █   115\n\
                 h/gpu1 █   148 ·\n";
    assert_eq!(out.text(), table);
}

#[test]
fn the_picture_and_the_graph_have_all_ends() {
    let work = Work::new();
    work.file("log", LOG);
    let out = sh(
        work.dir(),
        "nccl-matrix -q log --format dot --unit calls --svg m.svg",
    )
    .ends(0);
    let graph = out.text();
    assert!(
        graph.starts_with("digraph matrix {\n") && graph.ends_with("}\n"),
        "{graph}"
    );
    assert!(
        graph.contains("n0 -> n1 [label=\"1 sent\", weight=50, penwidth=2.00];"),
        "{graph}"
    );
    assert!(
        graph.contains(
            "n1 -> n0 [label=\"2 ring model\", weight=100, penwidth=4.00, style=dashed];"
        )
    );
    let svg = std::fs::read_to_string(work.dir().join("m.svg")).unwrap();
    assert!(
        svg.contains("calls from each row to each column")
            && svg.contains("sent 1, ring model 3, tree model 2")
    );
    sh(work.dir(), "nccl-matrix -q log --svg no/folder.svg").ends(2);
}

#[test]
fn a_log_that_sends_nothing_gives_an_empty_matrix() {
    let path = captured("ddp/nccl.log.gz");
    let out = run("nccl-matrix", &[arg(&path), "--recorded"]).ends(0);
    assert_eq!(out.text(), "from,to,calls,bytes,basis\n");
    out.says(&["the matrix is empty: no call that was read has peers"]);
    feed("nccl-matrix", &[], "").ends(1);
    run("nccl-matrix", &["testdata/cuda/metrics.log"]).ends(2);
}

#[test]
fn a_line_has_its_objects_and_the_filter_is_that_of_calls() {
    let folder = "testdata/snoopie/halo";
    let table = |args: &[&str]| {
        let args = [&[folder], args].concat();
        Csv::of(&run("nccl-matrix", &args).ends(0))
    };
    let (line, object) = (table(&["--by", "line"]), table(&["--by", "object"]));
    let both = table(&["--by", "line,object"]);
    for column in [
        "file",
        "line",
        "object",
        "address",
        "allocated_at",
        "accesses",
    ] {
        assert!(both.columns.iter().any(|name| name == column), "{column}");
    }
    assert!(!both.columns.iter().any(|name| name == "strip"));
    assert_eq!(both.sum("accesses"), 24_000);
    for (one, key) in [(&line, "line"), (&object, "object")] {
        let values = |table: &Csv| {
            let mut sums = BTreeMap::new();
            for row in &table.rows {
                let n: u64 = table.get(row, "accesses").parse().unwrap();
                *sums.entry(table.get(row, key).to_owned()).or_insert(0) += n;
            }
            sums
        };
        assert_eq!(values(one), values(&both));
    }
    assert!(both.rows.len() >= line.rows.len().max(object.rows.len()));
    // The filter counts everywhere: in the matrix, and in each table.
    let edge = "testdata/snoopie/edge";
    for by in [&["--by", "op"][..], &["--by", "line"], &[]] {
        let stores = [&[edge, "--op", "STG.E"], by].concat();
        let out = run("nccl-matrix", &stores)
            .ends(0)
            .says(&["the filter kept 2 of 5 calls"]);
        let stores = Csv::of(&out);
        let column = if by.is_empty() { "calls" } else { "accesses" };
        // One of both goes to memory of the host, which is no GPU.
        assert_eq!(stores.sum(column), if by.is_empty() { 1 } else { 2 });
    }
    run(
        "nccl-matrix",
        &[edge, "--by", "op", "--where", "bytes > 1K"],
    )
    .ends(0)
    .says(&["the filter kept 1 of 5 calls"]);
    run("nccl-matrix", &[edge, "--op", "AllReduce"])
        .ends(0)
        .says(&["no call has op = AllReduce"]);
}

#[test]
fn the_page_has_the_accesses() {
    let folder = "testdata/snoopie/halo";
    for format in ["text", "md", "json", "html"] {
        let out = run("nccl-report", &[folder, "--format", format]).ends(0);
        let text = out.text();
        assert!(
            text.contains("gpu3") && text.contains("gpu0"),
            "{format}: {text}"
        );
        assert!(!out.stderr.contains("skipped"), "{}", out.stderr);
    }
    let log = captured("ddp/nccl.log.gz");
    let out = run("nccl-report", &[arg(&log), folder]).ends(0);
    for text in ["WHO SENDS TO WHOM", "AllReduce"] {
        assert!(out.text().contains(text), "{}", out.text());
    }
}

#[test]
fn accesses_are_refused_where_they_have_no_answer() {
    let run_of = "testdata/snoopie/edge";
    run("nccl-matrix", &[run_of, "--by", "step"])
        .ends(2)
        .says(&["Snoopie's logs have no times and no steps"]);
    let log = captured("ddp/nccl.log.gz");
    run("nccl-matrix", &[arg(&log), "--by", "op"])
        .ends(2)
        .says(&["need the files of Snoopie"]);
    run("nccl-matrix", &[run_of, "--by", "op,host"]).ends(2);
    run("nccl-matrix", &[run_of, "--by", "line", "--format", "dot"]).ends(2);
    // A table beside no log, and a log beside no table.
    run("nccl-matrix", &["testdata/snoopie/edge/codeline_log_1.txt"])
        .ends(0)
        .says(&["the matrix is empty"]);
    let log = "testdata/snoopie/edge/snoopie_log_1.csv";
    let table = Csv::of(&run("nccl-matrix", &[log, "--by", "object"]).ends(0));
    assert!(table.column("allocated_at").iter().all(String::is_empty));
    assert_eq!(table.sum("accesses"), 5);
    let ops = Csv::of(&run("nccl-ops", &[log]).ends(0));
    assert_eq!(ops.pick(&["op", "total_bytes"])[0], "LDG.E.128.SYS 16");
}
