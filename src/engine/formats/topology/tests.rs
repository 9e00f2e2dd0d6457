use super::*;

fn sample(name: &str) -> MachineTopology {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/topology");
    parse_topology(&std::fs::read(format!("{here}/{name}")).unwrap()).unwrap()
}

/// The ways of a text, as `0-1 NV18, 0-mlx5_0 PIX`.
fn list(topology: &MachineTopology) -> String {
    let way = |path: &TopologyPath| match &path.to {
        TopologyEnd::Gpu(to) => format!("{}-{to} {}", path.gpu, path.way),
        TopologyEnd::Nic(to, _) => format!("{}-{to} {}", path.gpu, path.way),
    };
    topology
        .paths
        .iter()
        .map(way)
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn ways_of_a_machine_are_those_of_its_tree() {
    assert_eq!(
        list(&sample("h200-2.system.xml")),
        "0-1 NV18, 0-eth0 PHB, 1-eth0 PHB"
    );
    let made = list(&sample("made-4.system.xml"));
    let of_first =
        "0-1 NV18, 0-2 NV18, 0-3 NV18, 0-mlx5_0 PIX, 0-mlx5_1 PHB, 0-mlx5_2 SYS, 0-mlx5_3 SYS";
    assert!(made.starts_with(of_first), "{made}");
    assert!(
        made.contains("2-mlx5_1 SYS, 2-mlx5_2 PIX, 2-mlx5_3 PHB"),
        "{made}"
    );
}

/// Two bridges, NVLinks from GPU to GPU, a NIC with two ports, and what NCCL 2.12 wrote: decimal numbers.
#[test]
fn nested_bridges_and_direct_links_are_counted() {
    let text = r#"<?xml version="1.0"?>
      <system version="1"><cpu numaid="0">
        <pci busid="0000:01:00.0" class="0x060400">
          <pci busid="0000:02:00.0" class="0x060400">
            <pci busid="0000:07:00.0" class="0x030200"><gpu dev="0" sm="70" rank="0" gdr="1">
              <nvlink target="0000:0a:00.0" count="2" tclass="0x030200"/>
            </gpu></pci>
          </pci>
          <pci busid="0000:08:00.0" class="0x060400">
            <pci busid="0000:0a:00.0" class="0x030200"><gpu dev="1" sm="70" rank="1" gdr="1">
              <nvlink target="0000:07:00.0" count="2" tclass="0x030200"/>
            </gpu></pci>
            <pci busid="0000:0b:00.0" class="0x030200"><gpu dev="12" sm="70" rank="2" gdr="1"/></pci>
          </pci>
          <pci busid="0000:09:00.0" class="0x020000"><nic>
            <net name="mlx5_0" dev="0" speed="100000" port="1"/><net name="mlx5_0" dev="1" speed="100000" port="2"/>
          </nic></pci>
        </pci>
      </cpu></system>"#;
    let found = parse_topology(text.as_bytes()).unwrap();
    let ways = list(&found);
    let right = "0-1 NV2, 0-12 PXB, 0-mlx5_0 PXB, 0-mlx5_0 PXB, 1-12 PIX, 1-mlx5_0 PXB, 1-mlx5_0 PXB, 12-mlx5_0 PXB, 12-mlx5_0 PXB";
    assert_eq!(ways, right);
    let nics = |path: &TopologyPath| matches!(path.to, TopologyEnd::Nic(_, Some(1)));
    assert_eq!(found.paths.iter().filter(|path| nics(path)).count(), 3);
}

#[test]
fn a_matrix_has_its_nics_names() {
    let text = "$ nvidia-smi topo -m\n        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n\
                GPU0     X      NV4     NODE    PIX     64-71   1               N/A\n\
                GPU1    NV4      X      SYS     NODE    64-71   1               N/A\n\
                NIC0    NODE    SYS      X      PIX\nNIC1    PIX     NODE    PIX      X\n\n\
                Legend:\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n";
    let found = parse_topology(text.as_bytes()).unwrap();
    assert_eq!(
        list(&found),
        "0-1 NV4, 0-mlx5_0 NODE, 0-mlx5_bond_0 PIX, 1-mlx5_0 SYS, 1-mlx5_bond_0 NODE"
    );
    assert_eq!(list(&sample("h200-2.matrix.txt")), "0-1 NV18");
}

/// A job's output may begin with a matrix.
#[test]
fn a_matrix_alone_is_recognised() {
    let here = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/topology/h200-2.matrix.txt"
    );
    let text = std::fs::read_to_string(here).unwrap();
    let probe = |text: &str| (MATRIX.probe)(&InputHead::from_bytes(text.as_bytes()));
    for is in [
        text.clone(),
        format!("$ nvidia-smi topo -m\n{text}$ exit\n"),
    ] {
        assert_eq!(probe(&is), ProbeAnswer::Yes, "{is}");
    }
    for no in ["step 1\nstep 2\nTraceback\n", "h:1:1 [0] NCCL INFO x\n"] {
        assert_eq!(probe(&format!("{text}{no}")), ProbeAnswer::No);
        assert_eq!(probe(&format!("a line\n{text}")), ProbeAnswer::No);
    }
    let part = InputHead {
        bytes: b"$ nvidia-smi topo -m\n",
        end: super::super::HeadEnd::Open,
    };
    assert_eq!((MATRIX.probe)(&part), ProbeAnswer::Undecided);
}

#[test]
fn graphs_have_their_ways_and_channels() {
    let found = sample("h200-2.graphs.xml").chosen;
    let ways: Vec<_> = found
        .iter()
        .map(|way| {
            (
                way.graph,
                way.path.gpu,
                &way.path.to,
                &*way.path.way,
                way.channels,
                way.gbs,
            )
        })
        .collect();
    let gpu = TopologyEnd::Gpu;
    let right = [
        ("ring", 0, &gpu(1), "NVL", 12, 30.0),
        ("tree", 0, &gpu(1), "NVL", 6, 60.0),
        ("tree", 1, &gpu(0), "NVL", 6, 60.0),
    ];
    assert_eq!(ways, right);
    let net = sample("h200-2.net-graphs.xml").chosen;
    let nic = TopologyEnd::Nic("NIC0".to_owned(), Some(0));
    let expected = ChosenWay {
        graph: "ring",
        path: TopologyPath {
            gpu: 0,
            to: nic,
            way: "PHB".to_owned(),
        },
        channels: 1,
        gbs: 1.2,
    };
    assert_eq!(net[0], expected);
}

#[test]
fn what_is_no_topology_is_refused_and_ends_soon() {
    for text in [
        "",
        "<system",
        "<system version=\"1\"/>",
        "<graphs version=\"1\"></graphs>",
        "GPU0 GPU1\n",
        "<a><b></a>",
    ] {
        assert!(parse_topology(text.as_bytes()).is_err(), "{text}");
    }
    let deep = "<pci class=\"0x060400\">".repeat(200_000);
    let gpus = "<gpu dev=\"0\"/><net dev=\"1\"/>".repeat(5_000);
    assert!(parse_topology(format!("<system>{deep}{gpus}").as_bytes()).is_err());
    let refusal = |text: String| parse_topology(text.as_bytes()).unwrap_err();
    let ends = "</pci>".repeat(200_000);
    let error = refusal(format!("<system>{deep}{gpus}{ends}</system>"));
    assert!(error.contains("more than 256 elements gpu"), "{error}");
    let error = refusal(format!(
        "<system>{deep}<gpu dev=\"0\"/><gpu dev=\"1\"/>{ends}</system>"
    ));
    assert!(error.contains("inside more than 64"), "{error}");
}

/// What stands in a damaged row may be of another column.
#[test]
fn a_damaged_matrix_is_refused() {
    let rows = [
        "GPU0 X NV4 PIX 0-7 0 N/A",
        "GPU1 NV4 X SYS 0-7 0 N/A",
        "NIC0 PIX SYS X",
    ];
    let read = |rows: &[&str]| {
        let text = format!("GPU0 GPU1 NIC0 CPU Affinity\n{}\n", rows.join("\n"));
        parse_topology(text.as_bytes())
    };
    assert!(read(&rows).is_ok());
    let damaged = [
        "GPU1 X SYS 0-7 0 N/A",
        "GPU1 NV4 X",
        "GPU1 X NV4 SYS",
        "GPU1 NV4 X 0-7",
    ];
    for row in damaged {
        assert_eq!(
            read(&[rows[0], row, rows[2]]),
            Err("the row of GPU1 is cut or damaged".to_owned()),
            "{row}"
        );
    }
    assert_eq!(
        read(&rows[..1]),
        Err("it has 1 of the rows of 2 GPUs".to_owned())
    );
}
