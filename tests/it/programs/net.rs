//! nccl-net: facts by job and host, and who reaches whom.

use crate::support::{Csv, Out, Work, arg, data, feed, gzip, run, run_in, sh};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// A capture of a real job, packed.
fn captured(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    arg(&path.join(name).join("nccl.log.gz")).to_owned()
}

/// The lines of a log, unpacked if it is packed.
fn lines(path: &str) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let mut text = Vec::new();
    if path.ends_with(".gz") {
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text)
            .unwrap();
    } else {
        text = bytes;
    }
    let lines = text.split(|&b| b == b'\n');
    lines
        .map(|l| String::from_utf8_lossy(l).into_owned())
        .collect()
}

/// `subject = value` of a table's job rows.
fn said(table: &Csv) -> BTreeSet<String> {
    let job = table.rows.iter().filter(|r| table.get(r, "scope") == "job");
    job.map(|r| format!("{} = {}", table.get(r, "subject"), table.get(r, "value")))
        .collect()
}

/// Fails unless the table has each fact, and its line the words that prove it.
#[track_caller]
fn proves(table: &Csv, log: &[String], facts: &[(&str, &str, &str)]) {
    for (subject, value, proof) in facts {
        let row = table
            .rows
            .iter()
            .find(|r| table.get(r, "subject") == *subject && table.get(r, "value") == *value);
        let row = row.unwrap_or_else(|| panic!("no {subject} = {value} in {:#?}", said(table)));
        if !proof.is_empty() {
            let line: usize = table.get(row, "line").parse().unwrap();
            assert!(
                log[line - 1].contains(proof),
                "{subject}: {}",
                log[line - 1]
            );
        }
    }
}

fn table(out: &Out) -> Csv {
    Csv::of(out)
}

#[test]
fn a_job_on_one_node_is_told_from_its_own_lines() {
    let path = captured("3d");
    let log = lines(&path);
    let out = run("nccl-net", &[&path]).ends(0);
    let table = table(&out);
    proves(
        &table,
        &log,
        &[
            ("job.hosts", "1", ""),
            ("job.nvls", "disabled by NCCL_NVLS_ENABLE=0", ""),
            ("job.pxn", "no network connections", ""),
            ("network", "Socket", "Using network Socket"),
            ("nic.Socket.0", "eth0 IPv4", "NET/Socket : Using [0]eth0:"),
            ("nic.IB", "no device", "NET/IB : No device found"),
            ("transport", "P2P/CUMEM", "via P2P/CUMEM"),
            (
                "gpudirect.eth0",
                "off",
                "GPU Direct RDMA Disabled for HCA 0 'eth0'",
            ),
            ("version.nccl", "2.28.9", "NCCL version 2.28.9+cuda13.0"),
            ("version.driver", "13.0", "cudaDriverVersion 13000"),
            (
                "setting.NCCL_NVLS_ENABLE",
                "0",
                "NCCL_NVLS_ENABLE set by environment to 0.",
            ),
            (
                "plugin.net",
                "Socket assigned",
                "Assigned NET plugin Socket to comm",
            ),
        ],
    );
    // Every one of the 1,024 lines finds its communicator. A ring has 24 channels.
    let pairs = Csv::of(&run("nccl-net", &[&path, "--pairs"]).ends(0));
    assert_eq!(pairs.rows.len(), 40);
    assert!(
        pairs
            .column("comm_id")
            .iter()
            .all(|id| id.starts_with("0x"))
    );
    assert!(pairs.column("from_host").iter().all(|h| h == "vm"));
    assert!(pairs.column("to_host").iter().all(|h| h == "vm"));
    let world: Vec<_> = (0..8)
        .map(|r| format!("{r} {} P2P CUMEM 24", (r + 1) % 8))
        .collect();
    let of = [
        "nranks",
        "from_rank",
        "to_rank",
        "transport",
        "via",
        "channels",
    ];
    let picked = pairs.pick(&of);
    let world = world.into_iter().map(|w| format!("8 {w}"));
    assert!(
        world.into_iter().all(|row| picked.contains(&row)),
        "{picked:?}"
    );
    assert_eq!(pairs.sum("channels"), 1024);
}

#[test]
fn ranks_that_pose_as_hosts_meet_over_sockets() {
    let path = captured("ddp-sockets");
    let log = lines(&path);
    let table = table(&run("nccl-net", &[&path]).ends(0));
    proves(
        &table,
        &log,
        &[
            ("job.gpudirect", "off", ""),
            ("job.pxn", "not used", ""),
            ("job.rails", "same NIC number at both ends", ""),
            ("transport", "NET/Socket", "via NET/Socket/0"),
            ("nic_used", "Socket/0", "via NET/Socket/0"),
            ("interface.oob", "lo IPv4", "OOB lo:"),
        ],
    );
    let pairs = Csv::of(&run("nccl-net", &[&path, "--pairs"]).ends(0));
    // 16 lines [send] and 16 [receive].
    assert_eq!(pairs.sum("channels"), 32);
    assert_eq!(pairs.column("gdr"), vec!["no"; pairs.rows.len()]);
    let ends = |side: &str| -> BTreeSet<String> {
        let rows = pairs
            .rows
            .iter()
            .filter(|r| pairs.get(r, "direction") == side);
        rows.map(|r| format!("{} {}", pairs.get(r, "from_rank"), pairs.get(r, "to_rank")))
            .collect()
    };
    assert_eq!(ends("send"), ends("receive"));
    let dot = run("nccl-net", &[&path, "--dot"]).ends(0).text();
    assert!(dot.starts_with("digraph nccl {\n") && dot.ends_with("}\n"));
    assert!(
        dot.contains("c0r0 -> c0r1 [label=\"NET/Socket x2\", color=red];"),
        "{dot}"
    );
}

#[test]
fn real_logs_say_what_a_reader_finds_by_hand() {
    type Facts = &'static [(&'static str, &'static str, &'static str)];
    let cases: &[(&str, Facts)] = &[
        (
            "nemo-mlperf-2.27.7-16xB200.log",
            &[
                ("job.hosts", "2", ""),
                ("job.gpudirect", "on", ""),
                ("job.pxn", "used", ""),
                ("network", "IBext_v10", "Using network IBext_v10"),
                ("nic.IB.7", "mlx5_14:1/RoCE", "[7]mlx5_14:1/RoCE"),
                ("transport", "NET/IBext_v10 GDRDMA", "via NET/IBext_v10/"),
                ("transport", "P2P/CUMEM", "via P2P/CUMEM"),
                ("version.nccl", "2.27.7", "NCCL version 2.27.7+cuda13.0"),
            ],
        ),
        (
            "nccl-tests-efa-nvls-mpirun-tagged.log",
            &[
                ("job.hosts", "2", ""),
                ("job.gpudirect", "on", ""),
                ("job.pxn", "not used", ""),
                ("job.rails", "same NIC number at both ends", ""),
                ("job.nvls", "created; its use is unknown", ""),
                ("provider", "efa", "Provider is efa"),
                (
                    "nvls.support",
                    "available",
                    "NVLS multicast support is available",
                ),
                ("nvls.tree", "connected", "Connected NVLS tree"),
                (
                    "setting.NCCL_BUFFSIZE",
                    "8388608",
                    "NCCL_BUFFSIZE set by environment",
                ),
                (
                    "version.aws-ofi-nccl",
                    "1.9.2-aws",
                    "aws-ofi-nccl 1.9.2-aws",
                ),
            ],
        ),
        (
            "megatron-2.7.8-64ranks.log",
            &[
                ("job.hosts", "16", ""),
                ("job.gpudirect", "off", ""),
                ("nic.IB.0", "hfi1_2:1/IB", "[0]hfi1_2:1/IB"),
                ("transport", "NET/IB", "via NET/IB/"),
                ("transport", "P2P/IPC", "via P2P/IPC"),
                ("version.nccl", "2.7.8", "NCCL version 2.7.8+cuda10.2"),
            ],
        ),
        (
            "bert-2.12.10-64xA100.log",
            &[
                ("job.hosts", "8", ""),
                ("transport", "COLLNET/SHARP GDRDMA", "via COLLNET/SHARP/"),
                (
                    "setting.NCCL_COLLNET_ENABLE",
                    "1",
                    "NCCL_COLLNET_ENABLE set by",
                ),
            ],
        ),
        (
            "nemo-rccl-2.22.3-16xMI325X.log",
            &[
                ("job.gpudirect", "on for 772 of 964 network connections", ""),
                ("version.rccl", "2.22.3-HEAD:271856d", "RCCL version"),
                (
                    "setting.NCCL_SOCKET_IFNAME",
                    "eno1",
                    "NCCL_SOCKET_IFNAME set by",
                ),
            ],
        ),
    ];
    for (name, facts) in cases {
        let Some(path) = data(&format!("nccl-logs/{name}")) else {
            return;
        };
        let out = run("nccl-net", &[arg(&path)]).calm();
        proves(&Csv::of(&out), &lines(arg(&path)), facts);
    }
}

/// What hosts print; one of them, `odd`, prints something else.
fn hosts(odd: usize) -> String {
    let mut text = String::new();
    for host in 0..5 {
        for dev in 0..2 {
            let mut says = |body: &str| {
                let pid = 100 + dev;
                writeln!(text, "n{host}:{pid}:{pid} [{dev}] NCCL INFO {body}").unwrap();
            };
            let differs = host == odd;
            says(if differs {
                "NCCL version 2.27.3+cuda12.9"
            } else {
                "NCCL version 2.28.9+cuda13.0"
            });
            says("NCCL_DEBUG set by environment to INFO");
            if !differs {
                says("NCCL_IB_TIMEOUT set by environment to 22.");
            }
            let second = if differs { "" } else { "[1]mlx5_1:1/IB " };
            says(&format!(
                "NET/IB : Using [0]mlx5_0:1/IB {second}[RO]; OOB eth0:10.0.0.{host}<0>"
            ));
            says("Using network IB");
        }
    }
    text
}

#[test]
fn the_host_that_differs_stands_behind_what_most_say() {
    let out = feed("nccl-net", &[], hosts(3)).ends(0);
    let table = Csv::of(&out);
    let of = ["scope", "host", "subject", "value", "minority"];
    let rows: Vec<Vec<&str>> = table
        .rows
        .iter()
        .map(|r| of.iter().map(|c| table.get(r, c)).collect())
        .collect();
    let differ: Vec<&Vec<&str>> = rows.iter().filter(|r| r[0] == "host").collect();
    assert_eq!(
        differ,
        [
            &["host", "n3", "nic.IB.1", "mlx5_1:1/IB", "lacks"],
            &["host", "n3", "version.cuda", "12.9", "yes"],
            &["host", "n3", "version.nccl", "2.27.3", "yes"],
            &["host", "n3", "setting.NCCL_IB_TIMEOUT", "22", "lacks"],
        ]
    );
    let most = rows
        .iter()
        .position(|r| r[..4] == ["job", "", "version.nccl", "2.28.9"]);
    let at = most.unwrap();
    assert_eq!(
        (table.get(&table.rows[at], "hosts"), rows[at + 2][1]),
        ("4", "n3")
    );
    // Nobody differs where all say the same.
    let same = Csv::of(&feed("nccl-net", &[], hosts(9)).ends(0));
    assert!(same.column("minority").iter().all(String::is_empty));
    // Addresses are the hosts' own.
    let all = Csv::of(&feed("nccl-net", &["--hosts"], hosts(3)).ends(0));
    let addresses = all.column("subject");
    assert_eq!(addresses.iter().filter(|s| *s == "address.oob").count(), 5);
}

#[test]
fn what_no_line_says_is_unknown_and_how_to_learn_it_is_said() {
    let log = "h:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n";
    let out = feed("nccl-net", &[], log).ends(0).says(&[
        "no line reports network, nic, transport, plugin, setting, tuning",
        "NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,P2P,SHM,GRAPH,NVLS,TUNING",
    ]);
    let said = said(&Csv::of(&out));
    for subject in ["network", "transport", "gpudirect", "pxn", "rails", "nvls"] {
        let unknown = format!("job.{subject} = unknown");
        assert!(said.contains(&unknown), "{subject}: {said:?}");
    }
    feed("nccl-net", &["-q"], log).ends(0);
    feed("nccl-net", &[], "op,count,datatype\nSend,5,int8\n")
        .ends(2)
        .says(&["nccl-net: error: stdin is a call table: it has no other lines of NCCL"]);
    let out = feed("nccl-net", &[], "")
        .ends(1)
        .says(&["the input is empty"]);
    assert!(out.text().starts_with("scope,host,subject,value,"));
}

#[test]
fn text_of_the_log_cannot_leave_its_quotes_in_a_graph() {
    let log = "h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/a\"];x\\/0\n";
    let dot = feed("nccl-net", &["--dot"], log).ends(0).text();
    assert!(dot.contains("label=\"NET/a\\\"];x\\\\ x1\""), "{dot}");
    let pairs = Csv::of(&feed("nccl-net", &["--pairs"], log).ends(0));
    assert_eq!(
        pairs.pick(&["comm_id", "nranks", "via", "nic"]),
        ["  a\"];x\\ 0"]
    );
}

#[test]
fn connections_of_a_made_job_come_back_exactly() {
    for (options, ranks) in [
        ("--ranks 8 --tp 4 --net nvlink", 8),
        (
            "--ranks 16 --nodes 2 --tp 4 --pp 2 --ep 2 --net ib --nvls --tuning",
            16,
        ),
        (
            "--ranks 16 --nodes 4 --tp 2 --pp 2 --net socket --nccl 2.20",
            16,
        ),
        (
            "--ranks 32 --nodes 4 --tp 4 --pp 2 --ep 2 --net roce --prefix srun",
            32,
        ),
        (
            "--ranks 64 --nodes 8 --tp 2 --pp 4 --ep 4 --net efa --nccl 2.22 --tuning",
            64,
        ),
        (
            "--ranks 64 --nodes 16 --tp 4 --pp 2 --net nvlink --layout per-rank",
            64,
        ),
        (
            "--ranks 16 --nodes 4 --tp 4 --net ib --fault sockets,host=1",
            16,
        ),
        (
            "--ranks 16 --nodes 2 --tp 4 --net ib --nvls --tuning --fault gpudirect",
            16,
        ),
        (
            "--ranks 16 --nodes 4 --tp 2 --net roce --fault channels",
            16,
        ),
        (
            "--ranks 1024 --nodes 128 --tp 8 --pp 8 --ep 4 --net ib --nccl 2.18",
            1024,
        ),
    ] {
        let work = Work::new();
        std::fs::create_dir(work.dir().join("logs")).unwrap();
        let to = match options.contains("per-rank") {
            true => "logs",
            false => "logs/job.log",
        };
        let mut args: Vec<&str> = options.split(' ').collect();
        args.extend([
            "--steps",
            "1",
            "--layers",
            "8",
            "-o",
            to,
            "--truth",
            "truth.json",
        ]);
        run_in(work.dir(), "nccl-synth", &args).ends(0);
        let truth = std::fs::read(work.dir().join("truth.json")).unwrap();
        let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
        let columns = [
            "comm_id",
            "nranks",
            "from_rank",
            "to_rank",
            "from_host",
            "to_host",
            "transport",
            "via",
            "nic",
            "direction",
            "channels",
            "gdr",
            "pxn",
        ];
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => String::new(),
            other => other.to_string(),
        };
        let mut want: Vec<String> = truth["connections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| columns.map(|c| text(&row[c])).join(" "))
            .collect();
        want.sort();
        let out = run_in(work.dir(), "nccl-net", &["logs", "--pairs"]).ends(0);
        let got = Csv::of(&out).pick(&columns);
        assert!(
            got == want,
            "{options}: {} rows, {} in truth",
            got.len(),
            want.len()
        );
        let table = Csv::of(&run_in(work.dir(), "nccl-net", &["logs"]).ends(0));
        let said = said(&table);
        assert_eq!(
            table.get(&table.rows[0], "processes"),
            ranks.to_string(),
            "{options}"
        );
        let has = |fact: &str| assert!(said.contains(fact), "{options}: no {fact} in {said:#?}");
        match options {
            o if o.contains("--fault sockets") => {
                has("network = IB");
                has("network = Socket");
            }
            o if o.contains("--fault gpudirect") => has("gpudirect.mlx5_0 = off"),
            o if o.contains("net ib") => {
                has("job.gpudirect = on");
                has("network = IB");
            }
            o if o.contains("net roce") => has("nic.IB.0 = mlx5_0:1/RoCE"),
            o if o.contains("net efa") => has("network = AWS Libfabric"),
            o if o.contains("net socket") => has("transport = SHM/direct"),
            _ => has("job.gpudirect = no network connections; NICs support it"),
        }
        match options.contains("--nvls") {
            true => has("job.nvls = used"),
            false if options.contains("2.18") => has("job.nvls = unknown"),
            false => has("job.nvls = not available"),
        }
    }
}

#[test]
fn every_way_in_and_every_number_of_threads_gives_the_same_bytes() {
    let work = Work::new();
    let text = lines(&captured("3d")).join("\n");
    work.file("nccl.log", &text);
    work.file("packed.log", gzip(text.as_bytes()));
    for program in [
        "nccl-net",
        "nccl-net --pairs",
        "nccl-net --dot",
        "nccl-tuning --sizes",
    ] {
        let expect = sh(work.dir(), &format!("{program} nccl.log -j1")).ends(0);
        assert!(expect.stdout.len() > 200, "{program}");
        for way in [
            "P nccl.log -j2",
            "P nccl.log -j5",
            "P nccl.log --no-mmap",
            "P < nccl.log",
            "cat nccl.log | P -j3",
            "P packed.log",
        ] {
            let got = sh(work.dir(), &way.replace('P', program)).ends(0);
            assert!(got.stdout == expect.stdout, "{program}: {way}");
        }
    }
}

#[test]
fn several_files_are_one_job() {
    let work = Work::new();
    let text = hosts(3);
    let of = |host: usize| -> String {
        let own = text.lines().filter(|l| l.starts_with(&format!("n{host}:")));
        own.map(|l| format!("{l}\n")).collect()
    };
    for host in 0..5 {
        work.file(&format!("n{host}.log"), of(host));
    }
    let args = ["n0.log", "n1.log", "n2.log", "n3.log", "n4.log"];
    let parts = Csv::of(&run_in(work.dir(), "nccl-net", &args).ends(0));
    let whole = Csv::of(&feed("nccl-net", &[], text).ends(0));
    let of = [
        "scope",
        "host",
        "subject",
        "value",
        "hosts",
        "processes",
        "minority",
    ];
    assert_eq!(parts.pick(&of), whole.pick(&of));
    let odd = parts
        .rows
        .iter()
        .find(|r| parts.get(r, "value") == "2.27.3")
        .unwrap();
    assert_eq!(
        (parts.get(odd, "input"), parts.get(odd, "line")),
        ("n3.log", "1")
    );
}

#[test]
fn each_ring_visits_each_rank_once_and_each_tree_has_one_root() {
    let logs = [
        "nccl-logs/nemo-mlperf-2.27.7-16xB200.log",
        "nccl-logs/nccl-tests-efa-nvls-mpirun-tagged.log",
    ];
    let of_data = logs
        .iter()
        .filter_map(|log| data(log))
        .map(|path| arg(&path).to_owned());
    let own = captured("ddp-all");
    for log in of_data.chain([own]) {
        for (flag, index) in [("--rings", "ring"), ("--trees", "tree")] {
            let table = Csv::of(&run("nccl-net", &[flag, "-q", "--format", "csv", &log]).calm());
            let mut graphs: BTreeMap<(String, String), BTreeMap<u32, u32>> = BTreeMap::new();
            let mut sizes = BTreeMap::new();
            for row in table
                .rows
                .iter()
                .filter(|row| !table.get(row, "comm_id").is_empty())
            {
                let number = |name: &str| table.get(row, name).parse::<u32>().unwrap();
                let id = table.get(row, "comm_id").to_owned();
                let graph = (id, table.get(row, index).to_owned());
                sizes.insert(graph.clone(), number("nranks"));
                let hops = graphs.entry(graph).or_default();
                assert_eq!(
                    hops.insert(number("from_rank"), number("to_rank")),
                    None,
                    "{log} {row:?}"
                );
            }
            assert!(!graphs.is_empty(), "{log} {flag}");
            let whole = graphs.iter().filter(|(graph, hops)| {
                let all = hops.len() as u32;
                all == sizes[*graph] - u32::from(index == "tree")
            });
            let mut n = 0;
            for (graph, hops) in whole {
                n += 1;
                let mut at = *hops.keys().next().unwrap();
                let mut met = BTreeSet::from([at]);
                while let Some(&next) = hops.get(&at) {
                    if !met.insert(next) {
                        break;
                    }
                    at = next;
                }
                if index == "ring" {
                    assert_eq!(met.len() as u32, sizes[graph], "{log} {graph:?}");
                }
            }
            assert!(n > 0, "{log} {flag}");
        }
    }
}

/// The topology of a machine without one NIC beside two that have it, in any way that it comes in.
#[test]
fn machines_whose_topology_differs_are_named() {
    let work = Work::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/topology");
    let whole = std::fs::read_to_string(folder.join("made-4.system.xml")).unwrap();
    for name in ["topo/n0.xml", "topo/n2.xml"] {
        work.file(name, &whole);
    }
    let without = whole.lines().filter(|line| !line.contains("mlx5_3"));
    work.file("topo/n1.xml", without.collect::<Vec<_>>().join("\n"));
    let table = Csv::of(&run_in(work.dir(), "nccl-net", &["--topology", "topo", "-q"]).ends(0));
    let row = |from: &str, to: &str| {
        let is = |row: &&Vec<String>| table.get(row, "from") == from && table.get(row, "to") == to;
        let rows = table.rows.iter().filter(is);
        rows.map(|row| {
            ["way", "nearest", "inputs", "of_inputs"].map(|name| table.get(row, name).to_owned())
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(row("GPU0", "GPU3"), [["NV18", "", "3", "3"]]);
    assert_eq!(row("GPU1", "mlx5_1"), [["PIX", "yes", "3", "3"]]);
    // The NIC beside it is the nearest of the GPU that lacks its own.
    assert_eq!(
        row("GPU3", "mlx5_2"),
        [["PHB", "", "2", "3"], ["PHB", "yes", "1", "3"]]
    );
    let lacking = [["PIX", "yes", "2", "3"], ["", "", "0", "3"]];
    assert_eq!(row("GPU3", "mlx5_3"), lacking);
    let odd = table
        .rows
        .iter()
        .filter(|row| !table.get(row, "minority").is_empty());
    let odd: BTreeSet<&str> = odd.map(|row| table.get(row, "input")).collect();
    assert_eq!(odd, BTreeSet::from(["topo/n1.xml"]));
    // By every way in, alike.
    let named = run_in(work.dir(), "nccl-net", &["--topology", "topo/n0.xml", "-q"]).ends(0);
    let piped = feed(
        "nccl-net",
        &["--topology", "-q"],
        whole.clone().into_bytes(),
    )
    .ends(0);
    assert_eq!(named.text().replace("topo/n0.xml", "stdin"), piped.text());
    let packed = feed("nccl-net", &["--topology", "-q"], gzip(whole.as_bytes())).ends(0);
    assert_eq!(packed.text(), piped.text());
    for program in ["nccl-net", "nccl-hist", "nccl-check", "nccl-report"] {
        let out = run_in(work.dir(), program, &["topo/n0.xml"]).ends(2);
        out.says(&[
            "is the topology of a machine (NCCL_TOPO_DUMP_FILE)",
            "nccl-net --topology",
        ]);
    }
    let log = run("nccl-net", &["--topology", &captured("3d")]).ends(2);
    log.says(&[
        "is an NCCL log: it has no topology of a machine",
        "NCCL_TOPO_DUMP_FILE",
    ]);
}
