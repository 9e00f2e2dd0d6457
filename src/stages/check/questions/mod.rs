//! The questions that need nothing but what was gathered, each in a file of its own.

pub(in crate::stages::check) mod benchmarks;
mod hosts;
mod hygiene;
pub(super) mod initialisation;
mod job_facts;
mod odd_steps;
mod setting_effects;
mod settings;
mod several_jobs;

use super::finding::Finding;
use super::walk::WalkedInput;
use crate::members::jobs::SeparateJob;
use crate::report::account::Account;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::NetSummary;
use crate::stages::net::table;
use hosts::initialisation as init_times;
use hosts::{channels, gpudirect, nvls, plugins, rails, setting_differences, transport};
use job_facts::JobFacts;

/// The questions, in the order in which they are asked.
const QUESTIONS: [fn(&JobFacts<'_>) -> Vec<Finding>; 17] = [
    |job| Vec::from_iter(transport::find_socket_use(job)),
    |job| Vec::from_iter(gpudirect::find_gdr_off(job)),
    |job| Vec::from_iter(transport::find_uneven_pxn(job)),
    |job| Vec::from_iter(rails::find_crossed_rails(job)),
    |job| Vec::from_iter(nvls::find_nvls_unused(job)),
    transport::find_p2p_off,
    |job| Vec::from_iter(transport::find_shm_off(job)),
    hosts::find_version_differences,
    plugins::find_plugin_differences,
    hosts::find_missing_nics,
    setting_differences::find_setting_differences,
    settings::find_bad_settings,
    init_times::find_slow_inits,
    channels::find_fewer_channels,
    odd_steps::find_odd_steps,
    hygiene::find_hygiene_faults,
    |job| Vec::from_iter(several_jobs::find_several_jobs(job)),
];

/// Asks all questions.
pub(super) fn ask_questions(
    net: &NetSummary,
    found: &CommunicatorsSummary,
    inputs: &[WalkedInput],
    accounts: &[Account],
    separate: &[SeparateJob],
) -> Vec<Finding> {
    // Each job has a version, plugins and settings of its own.
    let subjects = match separate {
        [] => table::group_by_subject(net),
        _ => Vec::new(),
    };
    let job = JobFacts {
        net,
        facts: net.facts(),
        subjects,
        found,
        inputs,
        accounts,
        separate,
    };
    QUESTIONS.iter().flat_map(|ask| ask(&job)).collect()
}
