//! The page as one object of JSON. Its keys are in `docs/nccl-report.md`.

use super::{Of, Page};
use crate::output::render::cells::plain;
use crate::output::render::text::nine;
use crate::output::render::{Cell, Grid};
use serde_json::{Map, Value, json};

/// The number of the schema: one more where a key changes its meaning or goes.
pub const SCHEMA: u64 = 1;

/// The page, with a line end.
pub fn page(page: &Page) -> String {
    let mut all = Map::new();
    let job: Map<String, Value> = page
        .job
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    all.insert("schema".into(), json!(SCHEMA));
    all.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
    all.insert("inputs".into(), json!(page.inputs));
    all.insert("job".into(), Value::Object(job));
    let outliers = page.steps.outliers();
    let outliers: Vec<Value> = outliers
        .iter()
        .map(|o| json!({"step": o.step, "time_s": o.time_s}))
        .collect();
    all.insert("long_steps".into(), json!(outliers));
    all.insert("compared".into(), json!(page.compared));
    all.insert("rerun".into(), json!(page.rerun));
    let mut missing = Map::new();
    for of in Of::ALL {
        let value = match (page.grid(of), page.missing(of)) {
            (Some(grid), _) => rows(grid),
            (None, why) => {
                missing.insert(of.key().into(), json!(why));
                Value::Null
            }
        };
        all.insert(of.key().into(), value);
    }
    all.insert("missing".into(), Value::Object(missing));
    let mut text = Value::Object(all).to_string();
    text.push('\n');
    text
}

/// A list of objects with all columns; what is not known is null.
fn rows(grid: &Grid) -> Value {
    let object = |row: &Vec<Cell<'static>>| {
        let fields = grid.columns.iter().zip(row);
        let fields = fields.map(|(name, cell)| (name.clone(), value(cell)));
        Value::Object(fields.collect())
    };
    grid.rows.iter().map(object).collect()
}

fn value(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Empty => Value::Null,
        // No reader has larger whole numbers than these.
        Cell::Int(n) => u64::try_from(*n).map_or_else(|_| json!(*n as f64), |n| json!(n)),
        // As in JSON lines one that is whole has no fraction.
        Cell::Float(x) | Cell::Share(x) if x.fract() == 0.0 && x.abs() < 1e15 => json!(*x as i64),
        Cell::Float(x) | Cell::Share(x) => json!(nine(*x).parse().unwrap_or(*x)),
        Cell::Text(text) if text.is_empty() => Value::Null,
        Cell::Text(_) => json!(plain(cell)),
    }
}
