//! Step lines of benchmarks, examples, and trainers of vision and recommendation models.

pub(super) mod dllogger;
pub(super) mod eta;
pub(super) mod hugectr;
pub(super) mod mlperf;
pub(super) mod mxnet;
pub(super) mod reference;
