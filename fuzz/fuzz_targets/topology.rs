//! Topologies with any bytes in them, of each form: nothing panics, and what is found has its names and channels.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::topology::{TopologyEnd, parse_topology};

const TOPOLOGIES: [&str; 4] = [
    include_str!("../../testdata/topology/made-4.system.xml"),
    include_str!("../../testdata/topology/h200-2.graphs.xml"),
    include_str!("../../testdata/topology/h200-2.net-graphs.xml"),
    include_str!("../../testdata/topology/h200-2.matrix.txt"),
];

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    for text in TOPOLOGIES {
        let at = usize::from(at) % text.len();
        let rest = text.len().min(at + usize::from(drop));
        let text = text.as_bytes();
        let changed = [&text[..at], bytes, &text[rest..]].concat();
        let Ok(found) = parse_topology(&changed) else {
            continue;
        };
        assert!(!found.paths.is_empty() || !found.chosen.is_empty());
        assert!(found.chosen.iter().all(|way| way.channels > 0));
        let is_loose =
            |end: &TopologyEnd| matches!(end, TopologyEnd::Nic(name, _) if name.is_empty());
        assert!(!found.paths.iter().any(|path| is_loose(&path.to)));
    }
});
