//! Messages that are kept to be shown elsewhere.

use rustc_hash::FxHashSet;

/// A message as it was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportMessage {
    /// The stage that reported it, for messages of `Report::absorb`.
    pub stage: Option<&'static str>,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// The message without the program's name.
    pub text: String,
}

/// Messages without repeats, in their order.
#[derive(Debug, Default)]
pub(super) struct KeptMessages {
    pub(super) list: Vec<ReportMessage>,
    known: FxHashSet<(&'static str, String)>,
}

impl KeptMessages {
    /// Adds a message; returns false if it is known.
    pub(super) fn push(&mut self, message: &ReportMessage) -> bool {
        let is_new = self.known.insert((message.severity, message.text.clone()));
        if is_new {
            self.list.push(message.clone());
        }
        is_new
    }
}
