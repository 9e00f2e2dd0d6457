//! The page of a watched job: what a terminal shows of it, drawn anew as it changes.
//!
//! Drawing is a function of what is known and of the terminal's size. The terminal itself is in
//! [`crate::program::screen`].

mod draw;
#[cfg(test)]
mod tests;

pub use draw::draw;

use super::{Ended, Event, Watch};
use crate::stages::check::Checked;
use std::collections::VecDeque;
use std::time::Instant;

/// So many WARN lines are kept: few terminals have more rows.
const WARNS: usize = 64;

/// Of a WARN line so many bytes are kept: no terminal is wider.
const WIDEST: usize = 1024;

/// What happened so far, as far as the page shows it.
#[derive(Debug, Default)]
pub struct Told {
    last: Option<Ended>,
    /// The newest last: what it means, or its text.
    warned: VecDeque<String>,
    /// The log is being checked.
    pub checks: bool,
}

impl Told {
    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Step(ended) => self.last = Some(ended.clone()),
            Event::Warned(text, means) => {
                if self.warned.len() == WARNS {
                    self.warned.pop_front();
                }
                let text = String::from_utf8_lossy(&text[..text.len().min(WIDEST)]);
                self.warned.push_back(match means {
                    Some(means) => format!("{means}: {text}"),
                    None => text.into_owned(),
                });
            }
            Event::Moves(_) => {}
        }
    }
}

/// What is drawn.
pub struct Page<'a> {
    /// The job.
    pub watch: &'a Watch<'a>,
    /// What happened.
    pub told: &'a Told,
    /// What the last check came to.
    pub found: Option<&'a Checked>,
    /// What is watched.
    pub name: &'a str,
    /// The time.
    pub now: Instant,
}
