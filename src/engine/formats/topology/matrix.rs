//! What `nvidia-smi topo -m` prints: a row and a column for each GPU and NIC.

use super::limits::{MAX_DEVICES, MAX_OTHER_LINES};
use super::{InputHead, ProbeAnswer, TopologyEnd, TopologyPath};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// Recognises the matrix alone, with or without its command before it: a log may begin with one, too.
pub(super) fn probe_matrix(head: &InputHead<'_>) -> ProbeAnswer {
    let mut lines = head.lines().peekable();
    lines.next_if(|line| memmem::find(line, b"topo -m").is_some());
    let Some(header) = lines.next() else {
        return head.no_once_closed(true);
    };
    let Some(columns) = parse_header(header) else {
        return ProbeAnswer::No;
    };
    let is_other = |line: &&[u8]| {
        let line = String::from_utf8_lossy(line);
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_device = columns
            .iter()
            .any(|name| name == first.trim_end_matches(':'));
        !(is_device || line.contains(" = ") || line.ends_with("Legend:"))
    };
    let others = lines.filter(is_other).take(MAX_OTHER_LINES + 1).count();
    head.probe_recorder(others <= MAX_OTHER_LINES)
}

/// Reads the names of the columns from the head of a matrix; `None` for another line. Terminals underline it.
fn parse_header(line: &[u8]) -> Option<Vec<String>> {
    memmem::find(line, b"CPU Affinity")?;
    let line = String::from_utf8_lossy(line);
    let line = line.replace("\u{1b}[4m", " ").replace("\u{1b}[0m", " ");
    let mut words = line.split_whitespace();
    let devices = words.by_ref().take_while(|word| *word != "CPU");
    let devices: Vec<String> = devices.take(MAX_DEVICES).map(str::to_owned).collect();
    let is_device = |name: &String| !name.contains([':', '=']);
    let is = devices.first().is_some_and(|first| first == "GPU0") && devices.iter().all(is_device);
    is.then_some(devices)
}

/// Reads the rows of GPUs. The other half of the matrix is the same.
///
/// # Errors
/// A row is cut or damaged.
pub(super) fn parse_matrix(text: &str) -> Result<Vec<TopologyPath>, String> {
    let mut lines = text.lines();
    let Some(columns) = lines.find_map(|line| parse_header(line.as_bytes())) else {
        return Ok(Vec::new());
    };
    let (mut paths, mut names, mut rows) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for line in lines {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        // The legend of NICs: `NIC0: mlx5_0`.
        if let (Some(nic), Some(name)) = (first.strip_suffix(':'), words.clone().next()) {
            names.insert(nic.to_owned(), name.to_owned());
        }
        let Some(gpu) = gpu_number(first) else {
            continue;
        };
        let ways: Vec<&str> = words.take(columns.len()).collect();
        let is_whole =
            |(column, way): (&String, &&str)| is_way(way) && (*way == "X") == (column == first);
        if ways.len() < columns.len() || !columns.iter().zip(&ways).all(is_whole) {
            return Err(format!("the row of {first} is cut or damaged"));
        }
        rows.insert(gpu);
        for (column, way) in columns.iter().zip(ways) {
            let to = match gpu_number(column) {
                Some(other) if other <= gpu => continue,
                Some(other) => TopologyEnd::Gpu(other),
                None => TopologyEnd::Nic(column.clone(), None),
            };
            let way = way.to_owned();
            paths.push(TopologyPath { gpu, to, way });
        }
    }
    let gpus = columns.iter().filter_map(|name| gpu_number(name)).count();
    if rows.len() < gpus {
        let rows = rows.len();
        return Err(format!("it has {rows} of the rows of {gpus} GPUs"));
    }
    for path in &mut paths {
        if let TopologyEnd::Nic(name, _) = &mut path.to
            && let Some(known) = names.get(name)
        {
            name.clone_from(known);
        }
    }
    Ok(paths)
}

/// True for `NV18`, `PIX`, `X` and what else may come, and false for a list of CPUs.
fn is_way(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && !word.contains(|c: char| c.is_ascii_lowercase())
}

fn gpu_number(name: &str) -> Option<u32> {
    name.strip_prefix("GPU")?.parse().ok()
}
