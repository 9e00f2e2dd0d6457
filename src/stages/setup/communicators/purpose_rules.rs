//! Finds the purpose of communicators from their members' places and their traffic.
//!
//! Use and place are judged separately. A label is *high* if both agree and nothing else fits, *low* if
//! only one of them shows it, and unknown otherwise.
//!
//! | label | use | place |
//! |---|---|---|
//! | expert | every rank sends to every rank, itself too; high where the parts vary from call to call | any |
//! | pipeline | Send and Recv with the next and the previous rank | outside a communicator of gradients |
//! | context | Send to the next rank, Recv from the previous, round in a ring | inside one of gradients, or all of it |
//! | data | sums of gradients: averages, fp32 where the gathers are halves, buckets once a step, what shards scattered | all ranks, or ranks apart |
//! | data | buckets and gathers (ZeRO-2), two gathers for each scatter (ZeRO-3) | all ranks, and no other dimension |
//! | tensor | sums of activations: the same size many times a step | ranks side by side on a node |
//! | tensor | sums of halves of a sequence and of a few tokens, no steps: inference | all ranks |
//! | embedding | sums | the first and the last rank of a pipeline |
//! | world | nothing but small calls | all ranks |

use super::fold::CommunicatorSide;
use super::identity::{CommunicatorKey, JobGpu, MergedCommunicator, gpu_of_side};
use super::purpose::{CommunicatorPurpose, PurposeLabel};
use super::traffic::{CommunicatorTraffic, TrafficClass};
use crate::members::DisjointSets;
use crate::members::OpInterner;
use rustc_hash::{FxHashMap, FxHashSet};

/// Labels all communicators of logs with `steps` steps (0: unknown).
pub(crate) fn label_communicators(
    all: &mut [MergedCommunicator],
    sides: &[CommunicatorSide],
    ops: &OpInterner,
    steps: u64,
) {
    let traffic: Vec<CommunicatorTraffic> = all
        .iter()
        .map(|c| CommunicatorTraffic::from_calls(c, sides, ops, steps))
        .collect();
    let job = JobCommunicators::new(all, sides, &traffic);
    // Labels that need no other label come first.
    let mut labels: Vec<PurposeLabel> = (0..all.len()).map(|at| job.label_alone(at)).collect();
    job.label_gradient_sums(&mut labels);
    job.label_chains(&mut labels);
    job.label_tensor_groups(&mut labels);
    for (communicator, mut label) in all.iter_mut().zip(labels) {
        let place = &communicator.place;
        if !(place.known_ranks().is_some() && place.whole)
            && label.of != CommunicatorPurpose::Unknown
        {
            label.high = false;
            label.evidence.push(
                match place.whole {
                    true => "no communicator of all ranks is known",
                    false => "not all members are in the log",
                }
                .to_owned(),
            );
        }
        communicator.label = label;
    }
}

/// Communicators of a job.
struct JobCommunicators<'c> {
    all: &'c [MergedCommunicator],
    traffic: &'c [CommunicatorTraffic],
    /// The GPUs of each.
    gpus: Vec<FxHashSet<JobGpu>>,
    /// For each: communicators that share a GPU with it and have other members.
    beside: Vec<Vec<usize>>,
    /// For each: communicators with the same members.
    same: Vec<Vec<usize>>,
    /// Communicators that sum the gradients of layers at both ends of a pipeline: they are no dimension of
    /// the job.
    ends: Vec<bool>,
    /// GPUs by rank of each communicator that connects neighbours.
    chains: Vec<Vec<JobGpu>>,
}

impl<'c> JobCommunicators<'c> {
    fn new(
        all: &'c [MergedCommunicator],
        sides: &[CommunicatorSide],
        traffic: &'c [CommunicatorTraffic],
    ) -> JobCommunicators<'c> {
        let gpus: Vec<FxHashSet<JobGpu>> = all
            .iter()
            .map(|c| match c.key {
                CommunicatorKey::Own(_) => FxHashSet::default(),
                _ => c.sides.iter().map(|&at| gpu_of_side(&sides[at])).collect(),
            })
            .collect();
        let mut of: FxHashMap<JobGpu, Vec<usize>> = FxHashMap::default();
        for (at, gpus) in gpus.iter().enumerate() {
            // Only communicators with traffic help to label another.
            if traffic[at].class != TrafficClass::Control {
                for &gpu in gpus {
                    of.entry(gpu).or_default().push(at);
                }
            }
        }
        let near = gpus.iter().enumerate().map(|(at, own)| {
            let mut near: Vec<usize> = own
                .iter()
                .filter_map(|gpu| of.get(gpu))
                .flatten()
                .copied()
                .filter(|&other| other != at)
                .collect();
            near.sort_unstable();
            near.dedup();
            near.into_iter().partition(|&other| gpus[other] != *own)
        });
        let (beside, same) = near.unzip();
        let ends = find_pipeline_ends(&gpus, traffic);
        let chains = all
            .iter()
            .zip(traffic)
            .map(|(c, traffic)| match traffic.class {
                TrafficClass::Chain { ring: false } => {
                    c.sides.iter().map(|&at| gpu_of_side(&sides[at])).collect()
                }
                _ => Vec::new(),
            });
        let chains = chains.collect();
        JobCommunicators {
            all,
            traffic,
            beside,
            same,
            gpus,
            ends,
            chains,
        }
    }

    /// Counts the GPUs that two communicators share.
    fn count_shared_gpus(&self, a: usize, b: usize) -> usize {
        let (a, b) = (&self.gpus[a], &self.gpus[b]);
        let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
        few.iter().filter(|gpu| many.contains(gpu)).count()
    }

    /// Returns the communicators that sum and cross it at one GPU: other dimensions of the job.
    fn crossing_dimensions(&self, at: usize) -> impl Iterator<Item = usize> {
        self.beside[at].iter().copied().filter(move |&other| {
            self.traffic[other].class == TrafficClass::Sums
                && !self.ends[other]
                && self.count_shared_gpus(at, other) == 1
        })
    }

    /// Labels a communicator by itself.
    fn label_alone(&self, at: usize) -> PurposeLabel {
        let (own, traffic) = (&self.all[at], &self.traffic[at]);
        let mut named = self
            .all
            .iter()
            .filter(|c| !matches!(c.key, CommunicatorKey::Own(_)));
        let evidence = traffic.evidence.clone();
        let none = |why: &str| PurposeLabel {
            evidence: vec![why.to_owned()],
            ..PurposeLabel::default()
        };
        if matches!(own.key, CommunicatorKey::Own(_)) {
            return none("its members are unknown");
        }
        if own.nranks == Some(1) {
            return none("one rank");
        }
        let of = |of: CommunicatorPurpose, high: bool, place: Option<String>| PurposeLabel {
            of,
            high,
            evidence: evidence.iter().cloned().chain(place).collect(),
        };
        match traffic.class {
            TrafficClass::Exchange => of(CommunicatorPurpose::Expert, traffic.is_uneven, None),
            // The first unused communicator with all ranks is the one that every job has.
            TrafficClass::Control
                if own.place.has_all_job_ranks()
                    && (traffic.calls > 0
                        || named.next().is_some_and(|c| c.key == own.key)
                            && named.next().is_some()) =>
            {
                let others = self.all.len() > 1;
                let place = format!("all {} ranks", own.place.world);
                of(
                    CommunicatorPurpose::World,
                    others && traffic.calls > 0,
                    Some(place),
                )
            }
            _ if self.ends[at] => match self.find_pipeline_length(at) {
                Some(stages) => {
                    let place = "the first and the last rank of a pipeline";
                    of(
                        CommunicatorPurpose::Embedding,
                        stages > 2,
                        Some(place.to_owned()),
                    )
                }
                None => of(
                    CommunicatorPurpose::Unknown,
                    false,
                    Some("inside a pipeline".to_owned()),
                ),
            },
            _ => of(CommunicatorPurpose::Unknown, false, None),
        }
    }

    /// Returns the communicators that sum, with more than one GPU.
    fn summing_communicators(&self) -> impl Iterator<Item = usize> {
        (0..self.all.len()).filter(|&at| {
            self.traffic[at].class == TrafficClass::Sums
                && !self.ends[at]
                && self.gpus[at].len() > 1
        })
    }

    /// Labels communicators that sum gradients.
    fn label_gradient_sums(&self, labels: &mut [PurposeLabel]) {
        for at in self.summing_communicators() {
            let traffic = &self.traffic[at];
            let place = &self.all[at].place;
            let busier = self
                .crossing_dimensions(at)
                .any(|other| self.traffic[other].sums > 4.0 * traffic.sums);
            let stride = place.stride();
            // Gradients are summed across the copies of a model, which are outside its shards.
            let inside = self
                .crossing_dimensions(at)
                .any(|other| self.all[other].place.stride() > stride);
            let fits = place.has_all_job_ranks() || stride.is_some() && !inside;
            // Gradients scattered by a crossing communicator are summed over the copies of a model (HSDP).
            let again = traffic.only_reduces()
                && self
                    .crossing_dimensions(at)
                    .any(|other| traffic.sums_scattered_by(&self.traffic[other]));
            // Without another dimension all ranks train on different data.
            let zero = place.has_all_job_ranks()
                && traffic.is_zero()
                && self.crossing_dimensions(at).next().is_none();
            let (strong, weak) = (
                traffic.sums_gradients() || again,
                traffic.is_buckets || busier,
            );
            let is_data = strong || weak && fits || zero;
            if !is_data {
                continue;
            }
            let label = &mut labels[at];
            label.of = CommunicatorPurpose::Data;
            let is_weak = busier || !zero && place.has_all_job_ranks() && traffic.again > 0.0;
            label.high = fits && (strong || is_weak);
            if again {
                label
                    .evidence
                    .push("it sums the parts that a crossing communicator scattered".to_owned());
            }
            if busier {
                label
                    .evidence
                    .push("a crossing communicator has far more calls".to_owned());
            }
            label.evidence.push(self.describe_ranks(at));
        }
    }

    /// Labels communicators of Send and Recv between neighbours.
    fn label_chains(&self, labels: &mut [PurposeLabel]) {
        for at in 0..self.all.len() {
            let (TrafficClass::Chain { ring }, place) =
                (self.traffic[at].class, &self.all[at].place)
            else {
                continue;
            };
            let data = |&other: &usize| labels[other].of == CommunicatorPurpose::Data;
            let beside = || self.beside[at].iter().copied().filter(data);
            // Ranks that sum gradients together have the same layers, so they are no pipeline.
            let inside = beside().any(|other| self.count_shared_gpus(at, other) > 1)
                || self.same[at].iter().any(data);
            // The pipeline is the outermost dimension: its neighbours are further apart than a communicator
            // of gradients is wide.
            let outside = beside().any(|other| {
                let of = &self.all[other];
                self.count_shared_gpus(at, other) == 1
                    && labels[other].high
                    && place
                        .stride()
                        .zip(of.place.stride())
                        .is_some_and(|(own, s)| {
                            own >= s.saturating_mul(of.nranks.unwrap_or(u32::MAX))
                        })
            });
            let (of, high, why) = if inside {
                (
                    CommunicatorPurpose::Context,
                    ring,
                    Some("its ranks are inside a communicator that sums gradients"),
                )
            } else if ring {
                (CommunicatorPurpose::Context, false, None)
            } else if outside {
                let why = "its ranks are further apart than the width of a communicator that sums \
                           gradients";
                (CommunicatorPurpose::Pipeline, true, Some(why))
            } else {
                (CommunicatorPurpose::Pipeline, false, None)
            };
            let label = &mut labels[at];
            (label.of, label.high) = (of, high);
            label.evidence.extend(why.map(str::to_owned));
            label.evidence.push(self.describe_ranks(at));
        }
    }

    /// Labels communicators that sum activations.
    fn label_tensor_groups(&self, labels: &mut [PurposeLabel]) {
        for at in self.summing_communicators() {
            let (own, traffic) = (&self.all[at], &self.traffic[at]);
            let gradients = traffic.sums_gradients() || traffic.is_sharded();
            if gradients || labels[at].of != CommunicatorPurpose::Unknown {
                continue;
            }
            let crossing: Vec<usize> = self.crossing_dimensions(at).collect();
            let busiest = crossing
                .iter()
                .all(|&other| traffic.sums > 4.0 * self.traffic[other].sums);
            let beside_gradients = crossing.iter().any(|&other| {
                labels[other].of == CommunicatorPurpose::Data
                    && self.traffic[other].sums_gradients()
            });
            // Sums of a shard are repeated by the communicator that sums them over the copies (HSDP).
            let again = crossing
                .iter()
                .any(|&other| self.traffic[other].sums_scattered_by(traffic));
            let busiest = busiest && !crossing.is_empty();
            // Without steps, other communicators show whether calls are frequent, or whether tokens come
            // alone.
            let tokens = traffic.again == 0.0 && own.place.has_all_job_ranks() && traffic.is_tokens;
            let many = traffic.again >= 4.0 || traffic.again == 0.0 && busiest || tokens;
            if again || !(many || beside_gradients || busiest) {
                continue;
            }
            let place = &own.place;
            let near = place.stride() == Some(1);
            // Another dimension begins after the last rank of this one.
            let next = self.beside[at].iter().any(|&other| {
                matches!(
                    labels[other].of,
                    CommunicatorPurpose::Data | CommunicatorPurpose::Pipeline
                ) && self.count_shared_gpus(at, other) == 1
                    && self.all[other]
                        .place
                        .stride()
                        .is_some_and(|stride| Some(stride) >= own.nranks)
            });
            if !near && !many {
                continue;
            }
            let use_fits = busiest || beside_gradients;
            let label = &mut labels[at];
            label.of = CommunicatorPurpose::Tensor;
            label.high = near && next && use_fits && many && !place.has_all_job_ranks();
            if beside_gradients {
                label
                    .evidence
                    .push("it crosses a communicator that sums gradients".to_owned());
            } else if busiest {
                label
                    .evidence
                    .push("it has far more calls than crossing communicators".to_owned());
            }
            if tokens {
                label
                    .evidence
                    .push("sums of a sequence and of a few tokens".to_owned());
            }
            label.evidence.push(self.describe_ranks(at));
        }
    }

    /// Returns the length of the pipeline that begins and ends at its members.
    fn find_pipeline_length(&self, at: usize) -> Option<usize> {
        let own = &self.gpus[at];
        let is_own = |all: &&Vec<JobGpu>| {
            let both = all.first().zip(all.last());
            let both = both.filter(|_| own.len() == 2);
            both.is_some_and(|(first, last)| own.contains(first) && own.contains(last))
        };
        self.chains.iter().find(is_own).map(Vec::len)
    }

    /// Describes the places of a communicator's ranks.
    fn describe_ranks(&self, at: usize) -> String {
        let place = &self.all[at].place;
        match place.stride() {
            _ if place.has_all_job_ranks() => format!("all {} ranks", place.world),
            Some(1) => "ranks next to each other".to_owned(),
            Some(n) => format!("ranks {n} apart"),
            None => "ranks at uneven distances".to_owned(),
        }
    }
}

/// Finds communicators that only reduce, all between ranks of one pipeline.
fn find_pipeline_ends(gpus: &[FxHashSet<JobGpu>], traffic: &[CommunicatorTraffic]) -> Vec<bool> {
    let mut numbers: FxHashMap<JobGpu, usize> = FxHashMap::default();
    for gpu in gpus.iter().flatten() {
        let next = numbers.len();
        numbers.entry(*gpu).or_insert(next);
    }
    let mut pipeline = DisjointSets::new(numbers.len());
    for (gpus, traffic) in gpus.iter().zip(traffic) {
        if traffic.class == (TrafficClass::Chain { ring: false }) {
            let mut members = gpus.iter().map(|gpu| numbers[gpu]);
            if let Some(first) = members.next() {
                members.for_each(|other| pipeline.join_sets(first, other));
            }
        }
    }
    let mut is_end = |(gpus, traffic): (&FxHashSet<JobGpu>, &CommunicatorTraffic)| {
        let mut roots = gpus.iter().map(|gpu| pipeline.find_root(numbers[gpu]));
        let first = roots.next();
        gpus.len() > 1
            && traffic.class == TrafficClass::Sums
            && traffic.only_reduces()
            && roots.all(|root| Some(root) == first)
    };
    gpus.iter().zip(traffic).map(&mut is_end).collect()
}
