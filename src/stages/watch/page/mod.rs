//! The page of a watched job: what a terminal shows of it, drawn anew as it changes.
//!
//! Drawing is a function of what is known and of the terminal's size. The terminal itself is in
//! [`crate::program::screen`].

mod draw;
#[cfg(test)]
mod tests;

pub use draw::draw_page;

use super::{JobWatch, StepEvent, WatchEvent};
use crate::stages::check::CheckSummary;
use std::collections::VecDeque;
use std::time::Instant;

/// So many WARN lines are kept: few terminals have more rows.
const MAX_WARNS_ON_PAGE: usize = 64;

/// Of a WARN line so many bytes are kept: no terminal is wider.
const MAX_WARN_BYTES: usize = 1024;

/// What happened so far, as far as the page shows it.
#[derive(Debug, Default)]
pub struct WatchHistory {
    last: Option<StepEvent>,
    /// The newest last: what it means, or its text.
    warned: VecDeque<String>,
    /// The log is being checked.
    pub checks: bool,
}

impl WatchHistory {
    /// Something happened.
    pub fn add_event(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Step(ended) => self.last = Some(ended.clone()),
            WatchEvent::Warned(text, means) => {
                if self.warned.len() == MAX_WARNS_ON_PAGE {
                    self.warned.pop_front();
                }
                let text = String::from_utf8_lossy(&text[..text.len().min(MAX_WARN_BYTES)]);
                self.warned.push_back(match means {
                    Some(means) => format!("{means}: {text}"),
                    None => text.into_owned(),
                });
            }
            WatchEvent::Moves(_) => {}
        }
    }
}

/// What is drawn.
pub struct WatchPage<'a> {
    /// The job.
    pub watch: &'a JobWatch<'a>,
    /// What happened.
    pub told: &'a WatchHistory,
    /// What the last check came to.
    pub found: Option<&'a CheckSummary>,
    /// What is watched.
    pub name: &'a str,
    /// The time.
    pub now: Instant,
}
