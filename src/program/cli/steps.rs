//! Steps: which ones, and what a step line looks like.

use crate::error::escape::escape_for_terminal;
use crate::grammar::trainer::{Recogniser, Trainer};
use crate::log::timeline::StepWindow;
use anyhow::Context;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, ValueEnum};
use std::ffi::OsStr;

/// Which steps, and what a step line looks like.
#[derive(Debug, Args, Default)]
pub struct StepArgs {
    /// Only these steps, both ends included: 45..49, 45.., 45
    ///
    /// In the trainer's own numbers, both ends included: 45..49, 45.., ..49, 45.
    #[arg(short, long, value_name = "A..B", help_heading = "Steps")]
    steps: Option<StepWindow>,
    #[command(flatten)]
    pub(super) lines: StepLineArgs,
    /// The rank that prints the step lines; its own calls are placed by position (default:
    /// detected)
    #[arg(
        long,
        value_name = "RANK",
        conflicts_with = "by_position",
        hide_short_help = true,
        help_heading = "Steps"
    )]
    pub(super) printer: Option<u32>,
    /// Count all calls between two step lines in the step of the second line, for all ranks
    #[arg(long, hide_short_help = true, help_heading = "Steps")]
    pub(super) by_position: bool,
    /// Use the AWK chain's window (steps 45..50, lines after the marker)
    #[arg(
        long,
        value_enum,
        value_name = "WHOSE",
        hide_short_help = true,
        help_heading = "Steps"
    )]
    pub compat: Option<CompatMode>,
}

/// What a step line looks like.
#[derive(Debug, Args, Default)]
pub struct StepLineArgs {
    /// The trainer of the step lines (default: detected)
    #[arg(
        long,
        value_name = "NAME",
        value_parser = TrainerParser,
        hide_possible_values = true,
        long_help = trainers(), help_heading = "Steps")]
    trainer: Option<Trainer>,
    // The pattern's groups are no HTML.
    #[allow(rustdoc::invalid_html_tags)]
    /// The shape of a step line, with groups step, tflops and one of time_s, time_ms, steps_per_s:
    /// 'step=(?P<step>\d+) took (?P<time_s>[\d.]+)' (nccl-steps --list proposes some if it knows
    /// none)
    #[arg(
        long,
        value_name = "REGEX",
        conflicts_with = "trainer",
        hide_short_help = true,
        help_heading = "Steps"
    )]
    step_regex: Option<String>,
    /// Whether a step line is printed at the end of its step or at its start
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t = StepLinePosition::End,
        hide_short_help = true, help_heading = "Steps")]
    pub(super) marker: StepLinePosition,
}

impl From<StepLineArgs> for StepArgs {
    fn from(lines: StepLineArgs) -> StepArgs {
        StepArgs {
            lines,
            ..StepArgs::default()
        }
    }
}

/// When a step line comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum StepLinePosition {
    /// When the step is over.
    #[default]
    End,
    /// When the step begins.
    Start,
}

/// The tool with the numbers to reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompatMode {
    /// The AWK chain's.
    Awk,
}

/// Reads a trainer by one of its names; shells complete the first.
#[derive(Debug, Clone, Copy)]
struct TrainerParser;

impl TypedValueParser for TrainerParser {
    type Value = Trainer;

    fn parse_ref(
        &self,
        _: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Trainer, clap::Error> {
        let name = value.to_string_lossy();
        Trainer::from_name(&name).ok_or_else(|| {
            let names: Vec<_> = Trainer::all().map(Trainer::name).collect();
            let wrong = format!(
                "--trainer {name}: expected one of {} (or use --step-regex)\n",
                names.join(", ")
            );
            clap::Error::raw(ErrorKind::InvalidValue, wrong)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value =
            |trainer: Trainer| PossibleValue::new(trainer.name()).aliases(trainer.aliases());
        Some(Box::new(Trainer::all().map(value)))
    }
}

/// Lists the trainers for the long help; the list is too long for the short one.
fn trainers() -> String {
    let names: Vec<_> = Trainer::all().map(Trainer::name).collect();
    format!(
        "The trainer of the step lines (default: detected): {}. For others see --step-regex",
        names.join(", ")
    )
}

/// The AWK chain's own markers: NeMo's `iteration` in any epoch.
const AWK_MARKER: &str = r"Training epoch.*?iteration (?P<step>\d+)(?:[^|]*(?:\|[^|]*?)*?train_step_timing in s: (?P<time_s>[0-9.eE+-]+))?(?:[^|]*(?:\|[^|]*?)*?TFLOPS_per_GPU: (?P<tflops>[0-9.eE+-]+))?";

/// The window of the AWK chain's first script.
pub(super) const AWK_WINDOW: StepWindow = StepWindow { from: 45, to: 50 };

impl StepArgs {
    pub(super) fn build_recogniser(&self) -> anyhow::Result<Recogniser> {
        if self.compat.is_some() {
            return Recogniser::for_pattern(AWK_MARKER).map_err(anyhow::Error::msg);
        }
        match (&self.lines.step_regex, self.lines.trainer) {
            // The complaint repeats the pattern.
            (Some(pattern), _) => Recogniser::for_pattern(pattern)
                .map_err(|what| anyhow::Error::msg(escape_for_terminal(&what, false)))
                .context("--step-regex"),
            (None, Some(trainer)) => Ok(Recogniser::for_trainer(trainer)),
            (None, None) => Ok(Recogniser::all()),
        }
    }

    /// True if the user described the step lines.
    pub(super) fn is_asked(&self) -> bool {
        self.compat.is_some() || self.lines.step_regex.is_some() || self.lines.trainer.is_some()
    }

    /// The window given; without one `compat`, the AWK chain's own.
    pub fn window(&self, compat: StepWindow) -> Option<StepWindow> {
        self.steps.or(self.compat.map(|_| compat))
    }
}
