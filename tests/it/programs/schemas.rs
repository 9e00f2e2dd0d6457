//! schemas: what nccl-check and nccl-report write as JSON is what the schemas have.

use crate::support::{root, run};
use jsonschema::{Registry, Resource, Validator};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Reads a schema that allows only the keys that it has: a new key is to be described.
fn closed_schema(name: &str) -> Value {
    let path = root().join("schemas").join(name);
    let mut schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    schema["additionalProperties"] = json!(false);
    if let Some(job) = schema["properties"].get_mut("job") {
        job["additionalProperties"] = json!(false);
    }
    schema
}

fn validator_of<'r>(schema: &Value, registry: &'r Registry<'r>) -> Validator {
    let options = jsonschema::options().with_registry(registry);
    options.build(schema).unwrap()
}

/// Fails with the place in the value and the reason.
fn assert_valid(schema: &Validator, value: &Value, what: &str) {
    let faults = schema.iter_errors(value);
    let faults: Vec<String> = faults
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{what}: {faults:#?}");
}

#[test]
fn every_capture_has_the_findings_and_the_page_of_the_schemas() {
    let (finding, page) = (closed_schema("finding.json"), closed_schema("page.json"));
    let id = finding["$id"].as_str().unwrap().to_owned();
    let registry = Registry::new().add(id, Resource::from_contents(finding.clone()));
    let registry = registry.unwrap().prepare().unwrap();
    let (of_finding, of_page) = (
        validator_of(&finding, &registry),
        validator_of(&page, &registry),
    );
    assert!(!of_finding.is_valid(&json!({"severity": "bad"})));
    let folder = std::fs::read_dir(root().join("testdata/captured")).unwrap();
    let mut inputs: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    inputs
        .extend(["testdata/kineto", "testdata/nsys", "testdata/flight"].map(|at| root().join(at)));
    let mut kinds = 0;
    for input in inputs {
        let input = input.to_str().unwrap();
        let rows = run("nccl-check", &[input, "-q", "--format", "jsonl"]).calm();
        for row in rows.lines() {
            let row: Value = serde_json::from_str(&row).unwrap();
            assert_valid(&of_finding, &row, input);
            kinds += 1;
        }
        let page = run("nccl-report", &[input, "-q", "--format", "json"]).calm();
        let page: Value = serde_json::from_str(&page.text()).unwrap();
        assert_valid(&of_page, &page, input);
    }
    assert!(kinds > 20, "{kinds} findings");
}

#[test]
fn the_schema_has_all_kinds_of_findings() {
    let list = run("nccl-check", &["--explain", "list"]).calm().text();
    let known: BTreeSet<&str> = list.lines().filter_map(|l| l.split(' ').next()).collect();
    let schema = closed_schema("finding.json");
    let kinds = schema["properties"]["finding"]["enum"].as_array().unwrap();
    let kinds: BTreeSet<&str> = kinds.iter().filter_map(Value::as_str).collect();
    assert_eq!(kinds, known);
}
