//! What a question may look at: everything that was gathered besides the calls of each rank.

use crate::members::jobs::SeparateJob;
use crate::report::account::Account;
use crate::stages::check::finding::Finding;
use crate::stages::check::walk::WalkedInput;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::NetSummary;
use crate::stages::net::table::{NetFacts, NetSubject};

/// A job, as its lines show it.
pub(super) struct JobFacts<'s> {
    pub(super) net: &'s NetSummary,
    /// The facts of `net`, and the same by what hosts may differ in.
    pub(super) facts: &'s NetFacts,
    pub(super) subjects: Vec<NetSubject<'s>>,
    pub(super) found: &'s CommunicatorsSummary,
    pub(super) inputs: &'s [WalkedInput],
    /// The account of each input.
    pub(super) accounts: &'s [Account],
    /// The jobs, if there are several.
    pub(super) separate: &'s [SeparateJob],
}

impl JobFacts<'_> {
    /// Returns the findings on each input, which is given with its number.
    pub(super) fn ask_each_input(
        &self,
        ask: impl Fn(u32, &WalkedInput, &Account) -> Vec<Finding>,
    ) -> Vec<Finding> {
        let inputs = (0..).zip(self.inputs).zip(self.accounts);
        let each = inputs.flat_map(|((number, input), account)| ask(number, input, account));
        each.collect()
    }
}
