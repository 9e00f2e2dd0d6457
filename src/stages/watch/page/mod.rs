//! The page of a watched job on a terminal, drawn again as it changes.
//!
//! Drawing is a function of the state and of the terminal's size. The terminal itself is in
//! [`crate::program::screen`].

mod draw;
#[cfg(test)]
mod tests;
mod view;

pub use draw::draw_page;
pub use view::PageView;

use super::{JobWatch, StepEvent, WatchEvent, messages};
use crate::stages::check::CheckSummary;
use crate::stages::watch::limits::{MAX_WARN_BYTES, MAX_WARNS_ON_PAGE};
use std::collections::VecDeque;
use std::time::Instant;

/// The events that the page shows.
#[derive(Debug, Default)]
pub struct WatchHistory {
    last: Option<StepEvent>,
    /// The WARN lines, the newest last: the meaning, or the text.
    warned: VecDeque<String>,
    /// The log is being checked.
    pub checks: bool,
}

impl WatchHistory {
    /// Adds an event.
    pub fn add_event(&mut self, event: &WatchEvent) {
        let warned = match event {
            WatchEvent::Step(ended) => return self.last = Some(ended.clone()),
            WatchEvent::Moves(_) => return,
            WatchEvent::Dropped(_) | WatchEvent::SeveralJobs(_) | WatchEvent::StepsChanged => {
                messages::format_event(event)
            }
            WatchEvent::Warned(text, means) => {
                let text = String::from_utf8_lossy(&text[..text.len().min(MAX_WARN_BYTES)]);
                match means {
                    Some(means) => format!("{means}: {text}"),
                    None => text.into_owned(),
                }
            }
        };
        if self.warned.len() == MAX_WARNS_ON_PAGE {
            self.warned.pop_front();
        }
        self.warned.push_back(warned);
    }
}

/// The state that is drawn.
pub struct WatchPage<'a> {
    /// The job.
    pub watch: &'a JobWatch<'a>,
    /// The events.
    pub told: &'a WatchHistory,
    /// The last check's findings.
    pub found: Option<&'a CheckSummary>,
    /// The name of the inputs.
    pub name: &'a str,
    /// What of it is shown.
    pub view: &'a mut PageView,
    /// The time.
    pub now: Instant,
}
