//! Helpers that the tests of this crate and of the stages share: the stages include this file too.

use crate::count::calls::{Options, Progress};
use crate::grammar::trainer::Recogniser;
use crate::log::{self, timeline};
use crate::source;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A progress that is not shown.
pub(crate) struct Nobody;

impl Progress for Nobody {
    fn advance(&self, _: u64) {}
}

/// Options with every trainer's steps, on `jobs` threads.
pub(crate) fn options(jobs: usize, strict: bool) -> Options {
    Options {
        source: source::Options::default(),
        log: log::Options {
            jobs,
            recogniser: Recogniser::all(),
            strict,
            keep_init_lines: false,
            keep_marks: true,
        },
        timeline: timeline::Options::default(),
        window: None,
    }
}

/// Returns `state` as another machine reads what was written here.
pub(crate) fn sent<T: Serialize + DeserializeOwned>(state: &T) -> T {
    let mut bytes = Vec::new();
    ciborium::into_writer(state, &mut bytes).unwrap();
    ciborium::from_reader(&*bytes).unwrap()
}
