//! The page as one object of JSON. `docs/nccl-report.md` describes its keys; the rows of a table are those
//! that its program writes as JSON lines.

use super::{PageSection, ReportPage};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Writes the page with a line end; tables are written on `jobs` threads.
pub fn render_json(page: &ReportPage, jobs: usize) -> Vec<u8> {
    let mut all: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let job: Map<String, Value> = page
        .job
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let outliers = page.steps.find_outliers();
    let outliers: Vec<Value> = outliers
        .iter()
        .map(|o| json!({"step": o.step, "time_s": o.time_s}))
        .collect();
    let mut missing = Map::new();
    for of in PageSection::ALL {
        let table = page.table(of);
        if table.is_none() {
            missing.insert(of.key().into(), json!(page.missing_reason(of)));
        }
        let rows = table.map(|table| table.sheet().to_json(jobs));
        all.insert(of.key(), rows.unwrap_or_else(|| b"null".to_vec()));
    }
    let caveats: Vec<Value> = page
        .caveats
        .iter()
        .map(|c| json!({"table": c.stage, "severity": c.severity, "text": c.text}))
        .collect();
    for (key, value) in [
        ("caveats", json!(caveats)),
        ("schema", json!(ReportPage::JSON_SCHEMA)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("inputs", json!(page.inputs)),
        ("job", Value::Object(job)),
        ("long_steps", json!(outliers)),
        ("answer", json!(page.answer.sentence)),
        ("next", json!(page.answer.next)),
        ("compared", json!(page.compared)),
        ("judged", json!(page.judged)),
        ("rerun", json!(page.rerun)),
        ("missing", Value::Object(missing)),
    ] {
        all.insert(key, value.to_string().into_bytes());
    }
    let size = all.values().map(|value| value.len() + 32).sum();
    let mut text = Vec::with_capacity(size);
    for (key, mut value) in all {
        text.push(if text.is_empty() { b'{' } else { b',' });
        text.extend_from_slice(format!("\"{key}\":").as_bytes());
        text.append(&mut value);
    }
    text.extend_from_slice(b"}\n");
    text
}
