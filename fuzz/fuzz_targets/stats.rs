//! What nsys stats prints, of any bytes after a header of each layout: no panic, every line accounted for,
//! and no kernel without a name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::stats;

const HEADERS: [&[u8]; 5] = [
    b"",
    b"Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),GridXYZ,BlockXYZ,Name\n",
    b"Time (%)\tTotal Time (us)\tInstances\tAvg (us)\tMin (us)\tMax (us)\tName\n",
    b"| Time(%) | Total Time (ns) | Instances | Average | Minimum | Maximum | Name |\n",
    b" Time (%)  Total Time (ns)  Instances  Min (ns)  Max (ns)  Name\n --------  ---------------  ---------  --------  --------  ----\n",
];

fuzz_target!(|data: &[u8]| {
    for header in HEADERS {
        let text = [header, data].concat();
        for by_grid in [false, true] {
            let read = stats::parse_stats(&text, by_grid);
            assert_eq!(read.account.count_decided_lines(), read.account.lines);
            assert!(read.kernels.iter().all(|kernel| !kernel.name.is_empty()));
            assert!(read.kernels.len() as u64 <= read.account.lines);
        }
    }
});
