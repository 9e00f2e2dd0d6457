//! nccl-net --topology: which GPU reaches which GPU and NIC over what, what NCCL chose, and the machines that differ.

use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::{self, InputOutcomes, OpenInput};
use crate::formats::topology::{ChosenWay, TopologyEnd, TopologyPath, load_topology};
use crate::log;
use crate::output::render::{Grid, TableCell};
use crate::report::Report;
use crate::report::account::Account;
use crate::source::{self, InputName};
use std::collections::{BTreeMap, BTreeSet};

/// Two ends: the graph (none for a way that exists), the GPU, and the other end.
type WayEnds = (Option<&'static str>, u32, TopologyEnd);

/// The topologies of all inputs.
#[derive(Debug, Default)]
pub struct TopologySummary {
    inputs: Vec<String>,
    ways: BTreeMap<WayEnds, BTreeMap<WayValue, BTreeSet<u32>>>,
}

/// The facts of a way.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct WayValue {
    way: String,
    /// The NIC is one of the nearest to the GPU.
    is_nearest: bool,
    channels: Option<u64>,
    /// In thousandths.
    gbs: Option<u64>,
}

/// Reads the topologies of all inputs.
///
/// # Errors
/// No input could be read, or one has no topology.
pub fn read_topology(
    origins: &[InputName],
    source: source::Options,
    strict: bool,
    report: &mut Report,
) -> Result<TopologySummary> {
    let mut found = TopologySummary::default();
    let mut outcome = InputOutcomes::new(origins);
    for origin in origins {
        let known = open::open_input(origin, source, Provides::TOPOLOGY);
        let read = known.and_then(|known| found.read_input(&known, strict, report));
        outcome.add_result(origin, read, report)?;
    }
    outcome.finish(report)?;
    Ok(found)
}

impl TopologySummary {
    fn read_input(&mut self, known: &OpenInput, strict: bool, report: &mut Report) -> Result<()> {
        let topology = load_topology(known.input())?;
        let mut account = Account::default();
        account.broken = log::check_unpacked(known.input(), strict)?;
        report.report_input(&known.name(), &account);
        self.inputs.push(known.name());
        let nearest = rank_nearest(&topology.paths);
        for path in topology.paths {
            let rank = distance(&path.way);
            let value = WayValue {
                is_nearest: matches!(path.to, TopologyEnd::Nic(..))
                    && nearest.get(&path.gpu) == Some(&rank),
                way: path.way,
                channels: None,
                gbs: None,
            };
            self.add_way((None, path.gpu, path.to), value);
        }
        for ChosenWay {
            graph,
            path,
            channels,
            gbs,
        } in topology.chosen
        {
            let value = WayValue {
                way: path.way,
                is_nearest: false,
                channels: Some(channels),
                gbs: Some((gbs * 1e3).round() as u64),
            };
            self.add_way((Some(graph), path.gpu, path.to), value);
        }
        Ok(())
    }

    /// Adds a way of the input that was added last.
    fn add_way(&mut self, ends: WayEnds, value: WayValue) {
        let input = self.inputs.len() as u32 - 1;
        let values = self.ways.entry(ends).or_default();
        values.entry(value).or_default().insert(input);
    }
}

/// Returns how near the nearest NIC of each GPU is.
fn rank_nearest(paths: &[TopologyPath]) -> BTreeMap<u32, usize> {
    let mut nearest = BTreeMap::new();
    for path in paths {
        if let TopologyEnd::Nic(..) = path.to {
            let rank = distance(&path.way);
            let least = nearest.entry(path.gpu).or_insert(rank);
            *least = rank.min(*least);
        }
    }
    nearest
}

/// Orders ways over PCIe, the nearest first.
fn distance(way: &str) -> usize {
    let ways = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    ways.iter()
        .position(|known| *known == way)
        .unwrap_or(ways.len())
}

/// Builds a row for each way and value. A value that at most half of the inputs have, or that few lack, has a row for each
/// of them.
pub fn build_topology_grid(found: &TopologySummary) -> Grid {
    let columns = [
        "graph",
        "from",
        "to",
        "nic",
        "way",
        "nearest",
        "channels",
        "gbs",
        "inputs",
        "of_inputs",
        "minority",
        "input",
    ];
    let mut having: BTreeMap<Option<&str>, BTreeSet<u32>> = BTreeMap::new();
    for ((graph, ..), values) in &found.ways {
        let all = having.entry(*graph).or_default();
        values.values().for_each(|inputs| all.extend(inputs));
    }
    let none = (WayValue::default(), BTreeSet::new());
    let mut rows = Vec::new();
    for (ends, values) in &found.ways {
        let of = &having[&ends.0];
        let is_few = |n: usize| n < of.len() && 2 * n <= of.len();
        let mut row = |value: &WayValue, inputs: &BTreeSet<u32>, minority: &str, input: u32| {
            let name = found.inputs[input as usize].clone();
            let counts = [inputs.len(), of.len()].map(|n| n as u64);
            rows.push(build_way_row(
                ends,
                value,
                counts,
                minority.to_owned(),
                name,
            ));
        };
        for (value, inputs) in values {
            match is_few(inputs.len()) {
                true => inputs
                    .iter()
                    .for_each(|&input| row(value, inputs, "yes", input)),
                false => inputs
                    .iter()
                    .take(1)
                    .for_each(|&input| row(value, inputs, "", input)),
            }
        }
        let have: BTreeSet<u32> = values.values().flatten().copied().collect();
        if !is_few(have.len()) {
            let lack = of.difference(&have);
            lack.for_each(|&input| row(&none.0, &none.1, "lacks", input));
        }
    }
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

fn build_way_row(
    ends: &WayEnds,
    value: &WayValue,
    [inputs, of]: [u64; 2],
    minority: String,
    input: String,
) -> Vec<TableCell<'static>> {
    let (graph, gpu, to) = ends;
    let (name, nic) = match to {
        TopologyEnd::Gpu(gpu) => (format!("GPU{gpu}"), None),
        TopologyEnd::Nic(name, nic) => (name.clone(), *nic),
    };
    vec![
        (*graph).into(),
        format!("GPU{gpu}").into(),
        name.into(),
        nic.map(u64::from).into(),
        value.way.clone().into(),
        if value.is_nearest { "yes" } else { "" }.into(),
        value.channels.into(),
        value.gbs.map(|gbs| gbs as f64 / 1e3).into(),
        inputs.into(),
        of.into(),
        minority.into(),
        input.into(),
    ]
}
