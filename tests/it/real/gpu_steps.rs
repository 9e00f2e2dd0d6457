//! Jobs captured on GPUs against the marks in their record (../shared/data/gpu): each call in the step
//! that its own rank made it in.

use crate::support::{Csv, data, files, run};
use std::collections::BTreeMap;
use std::path::Path;

/// Jobs whose logs do not allow it: their step lines are in another file than all calls, or all ranks
/// write one pipe in blocks.
const UNTOLD: [&str; 2] = ["mix-profiler-2.32.3-nvl2", "train-buffered-2x2"];

/// By process: the step of each call, in order; none behind the last mark.
type Steps = BTreeMap<String, Vec<Option<u64>>>;

fn recorded(folder: &Path) -> Steps {
    let mut steps = Steps::new();
    let text = super::gpu::unpacked(&folder.join("truth.csv.gz"));
    for line in text.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let own = steps.entry(f[1].to_owned()).or_default();
        match f[5] {
            "mark" if f[13] == "before_step" => {
                let step = f[7].parse().unwrap();
                let open = own.iter_mut().rev().take_while(|call| call.is_none());
                open.for_each(|call| *call = Some(step));
            }
            "mark" | "result" => {}
            op if op.starts_with("Comm") => {}
            _ => own.push(None),
        }
    }
    steps
}

fn shown(folder: &Path) -> Steps {
    let table = Csv::of(&run("nccl-comms", &[folder.join("nccl.log.gz")]).calm());
    let mut steps = Steps::new();
    for row in &table.rows {
        let own = steps.entry(table.get(row, "pid").to_owned()).or_default();
        own.push(table.get(row, "step").parse().ok());
    }
    steps
}

#[test]
fn every_recorded_call_is_in_its_true_step() {
    let Some(folder) = data("gpu") else { return };
    let (mut wrong, mut jobs) = (Vec::new(), 0);
    for record in files(&folder) {
        let folder = record.parent().unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        if !record.ends_with("truth.csv.gz") || UNTOLD.contains(&name) {
            continue;
        }
        jobs += 1;
        let (record, table) = (recorded(folder), shown(folder));
        for (pid, own) in &record {
            let none = Vec::new();
            let calls = own.iter().zip(table.get(pid).unwrap_or(&none));
            let told = calls.filter(|(step, _)| step.is_some());
            let others = told.filter(|(step, is)| step != is).count();
            if others > 0 {
                wrong.push(format!("{name}, process {pid}: {others} calls"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(jobs >= 16, "only {jobs} jobs have a record");
}
