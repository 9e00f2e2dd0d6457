//! A job from its start to its end: communicators, steps, evaluations, a restart.

use crate::error::Result;
use crate::fault::{CallCounter, FaultCourse, FaultPlan};
use crate::job::call::ScheduledCall;
use crate::job::schedule::{ProgramStretch, build_program};
use crate::options::{Damage, Options, Prefix, SynthTrainer};
use crate::stream::mixer::LineMixer;
use crate::stream::sink::LogSink;
use crate::stream::writer::{LineWriter, file_name};
use crate::trainer::events;
use crate::trainer::{StepFacts, StepPrint, StepPrinter};
use crate::truth::Truth;

/// Programs of all ranks, by stretch.
pub(super) struct StretchPrograms {
    pub(super) train: Vec<Vec<ScheduledCall>>,
    pub(super) eval: Vec<Vec<ScheduledCall>>,
    pub(super) checkpoint: Vec<Vec<ScheduledCall>>,
    pub(super) tail: Vec<Vec<ScheduledCall>>,
}

pub(super) struct SynthRun<'a> {
    pub(super) options: &'a Options,
    pub(super) mixer: LineMixer<'a>,
    pub(super) programs: StretchPrograms,
    pub(super) printer: StepPrinter<'a>,
    /// The wrong call.
    pub(super) plan: Option<FaultPlan>,
    /// Steps done since the last step line, with their times.
    pub(super) since: Vec<StepFacts>,
    /// MaxText: the step with a line that is not yet printed.
    queued: Option<StepFacts>,
    evaluated: bool,
    /// NCCL_DEBUG_FILE holds nothing of the trainer's.
    pub(super) silent: bool,
}

/// Writes the log and returns its truth.
pub(super) fn write_log(options: &Options, sink: &mut dyn LogSink) -> Result<Truth> {
    options.check()?;
    let mut mixer = LineMixer::new(options, LineWriter::new(options, sink));
    let mut of = |stretch| -> Vec<Vec<ScheduledCall>> {
        let job = &mixer.job;
        let cells = &mut mixer.cells;
        (0..options.ranks)
            .map(|rank| build_program(job, rank, options, stretch, cells))
            .collect()
    };
    let programs = StretchPrograms {
        train: of(ProgramStretch::Train),
        eval: of(ProgramStretch::Eval),
        checkpoint: of(ProgramStretch::Checkpoint),
        tail: of(ProgramStretch::Tail),
    };
    let done_before = options.first_step() - options.trainer.first_number();
    let steps = options.size.map_or(options.steps, |size| {
        // Lines are longer than this, so that the total announced is not reached.
        let calls: usize = programs.train.iter().map(Vec::len).sum();
        1 + size / (calls as u64 * 150)
    });
    let plan = FaultPlan::plan_fault(options, &mixer.job)?;
    mixer.watch = plan.as_ref().map(|plan| CallCounter::new(Some(plan)));
    let run = SynthRun {
        options,
        plan,
        mixer,
        programs,
        printer: StepPrinter::new(options, done_before + steps),
        since: Vec::new(),
        queued: None,
        evaluated: false,
        silent: options.trainer == SynthTrainer::None
            || options.damage_rate(Damage::Overwritten) > 0.0,
    };
    run.run_job()
}

/// Trainers print means over the interval.
pub(super) fn mean_facts(since: &[StepFacts], step: u64) -> StepFacts {
    let n = since.len().max(1) as f64;
    StepFacts {
        step,
        seconds: since.iter().map(|f| f.seconds).sum::<f64>() / n,
        tflops: since.iter().map(|f| f.tflops).sum::<f64>() / n,
        evaluated: false,
    }
}

impl SynthRun<'_> {
    fn run_job(mut self) -> Result<Truth> {
        self.describe_job();
        let options = self.options;
        if let Some(lead) = options.lead {
            self.run_ahead(lead)?;
            return self.mixer.finish();
        }
        self.start_processes()?;
        let last = options.first_step() + options.steps - 1;
        let mut step = options.first_step();
        loop {
            let course = match self.plan {
                Some(plan) if plan.step == step => self.run_faulty_step(&plan)?,
                _ => {
                    self.run_step(step)?;
                    FaultCourse::GoesOn
                }
            };
            match course {
                FaultCourse::GoesOn => {}
                FaultCourse::Ended => break,
                FaultCourse::Hangs => return self.mixer.finish(),
            }
            if options.restart_at == Some(step) && self.mixer.job.segment == 0 {
                self.restart_job(step)?;
                self.start_processes()?;
                step = options.resume_step(step);
                continue;
            }
            if options
                .size
                .map_or(step >= last, |size| self.mixer.writer.size >= size)
            {
                break;
            }
            let finished = step + 1 - options.trainer.first_number();
            if options
                .eval_every
                .is_some_and(|n| finished.is_multiple_of(n))
            {
                self.run_evaluation(step)?;
            }
            step += 1;
        }
        if let Some(facts) = self.queued.take() {
            self.print_late(&facts, facts.step, None)?;
        }
        if options.tail_calls {
            self.mixer
                .write_stretch(&self.programs.tail, step, 2_000_000, None)?;
        }
        if options.init {
            self.mixer.write_destroy_lines()?;
        }
        self.mixer.finish()
    }

    fn describe_job(&mut self) {
        let o = self.options;
        self.mixer.truth.gpus = o.ranks;
        let facts = [
            ("seed", o.seed.to_string()),
            ("ranks", o.ranks.to_string()),
            ("nodes", o.nodes.to_string()),
            ("tp", o.tp.to_string()),
            ("pp", o.pp.to_string()),
            ("dp", o.data_parallel_size().to_string()),
            ("ep", o.ep.to_string()),
            ("cp", o.cp.to_string()),
            ("nccl", o.nccl.name().to_owned()),
            ("trainer", o.trainer.name().to_owned()),
            ("prefix", o.prefix.name().to_owned()),
            ("first_step", o.first_step().to_string()),
            ("printing_rank", self.printer.marker_rank().to_string()),
        ];
        self.mixer.truth.job.extend(facts);
    }

    /// Processes start and make their communicators.
    pub(super) fn start_processes(&mut self) -> Result<()> {
        let m = &mut self.mixer;
        m.truth.begin_life(self.options, &m.job);
        let names: Vec<String> = m.job.procs.iter().map(file_name).collect();
        m.writer.open_streams(&names, m.job.segment)?;
        if !self.silent {
            for (rank, text) in events::startup_lines(self.options) {
                self.print_text_line(rank, &text)?;
            }
        }
        if self.options.init {
            self.mixer.write_init_lines()
        } else {
            Ok(())
        }
    }

    /// A line of the trainer's or the launcher's that is no step line.
    pub(super) fn print_text_line(&mut self, rank: usize, text: &str) -> Result<()> {
        if !self.silent {
            self.print_text(rank, text, true)?;
            self.mixer.truth.records.foreign += 1;
        }
        Ok(())
    }

    pub(super) fn print_text(&mut self, rank: usize, text: &str, newline: bool) -> Result<()> {
        let m = &mut self.mixer;
        let mut line = Vec::new();
        m.prefixes.write_prefix(&mut line, rank, &m.clock);
        line.extend_from_slice(text.as_bytes());
        m.writer.write_printed(rank, &line, newline)
    }

    pub(super) fn run_step(&mut self, step: u64) -> Result<()> {
        let segment = self.mixer.job.segment;
        let facts = self.printer.draw_facts(step, segment);
        let us = (facts.seconds * 1e6) as u64;
        self.since.push(facts);
        if step % 7 == 3 {
            let rank = self.mixer.rng.below(self.options.ranks);
            self.print_text_line(rank, events::aside_line(step / 7))?;
        }
        let late = self.options.trainer == SynthTrainer::Maxtext;
        let printed = if late {
            self.queued.is_some()
        } else {
            self.printer.prints_after(step)
        };
        let splice = printed
            && !self.silent
            && self
                .mixer
                .rng
                .draw_chance(self.options.damage_rate(Damage::Spliced));
        let hold = splice.then(|| self.printer.marker_rank());
        self.mixer
            .write_stretch(&self.programs.train, step, us, hold)?;
        self.print_step_end(facts, hold)
    }

    /// Prints the trainer's lines of a step.
    pub(super) fn print_step_end(&mut self, facts: StepFacts, hold: Option<usize>) -> Result<()> {
        let (step, segment) = (facts.step, self.mixer.job.segment);
        if self.options.trainer == SynthTrainer::Maxtext {
            if let Some(facts) = self.queued.replace(facts) {
                self.print_late(&facts, step, hold)?;
            }
        } else if self.printer.prints_after(step) {
            let mut mean = mean_facts(&self.since, step);
            mean.evaluated = self.evaluated;
            let lines = self.printer.print_step(&mean, &self.mixer.clock);
            self.print_step(&lines, step, hold)?;
            if !self.silent {
                let covered = self.since.len() as u64;
                self.mixer
                    .truth
                    .close_step(segment, step, covered, lines.time_s, lines.tflops);
            }
            self.since.clear();
        }
        Ok(())
    }

    /// MaxText: the line of one step comes after the calls of the next, `made`.
    fn print_late(&mut self, facts: &StepFacts, made: u64, hold: Option<usize>) -> Result<()> {
        let segment = self.mixer.job.segment;
        let lines = self.printer.print_step(facts, &self.mixer.clock);
        self.print_step(&lines, facts.step, hold)?;
        if self.silent {
            return Ok(());
        }
        let truth = &mut self.mixer.truth;
        truth.set_step_time(segment, facts.step, lines.time_s, lines.tflops);
        if !self.since.is_empty() {
            truth.close_step(segment, made, self.since.len() as u64, None, None);
            // A job of one step: its own line closes it.
            truth.set_step_time(segment, facts.step, lines.time_s, lines.tflops);
            self.since.clear();
        }
        Ok(())
    }

    pub(super) fn print_step(
        &mut self,
        printed: &StepPrint,
        step: u64,
        hold: Option<usize>,
    ) -> Result<()> {
        if self.silent {
            return Ok(());
        }
        let mut hold = hold;
        for line in &printed.lines {
            if line.marker {
                self.mixer.truth.records.step += 1;
            } else {
                self.mixer.truth.records.foreign += 1;
            }
            if line.marker
                && hold.take_if(|rank| *rank == line.rank).is_some()
                && self
                    .mixer
                    .write_held_call(&self.programs.train, line.rank, &line.text)?
            {
                continue;
            }
            // A bar leaves the cursor after it; the next line is glued to it. A launcher that labels lines
            // would glue only the same rank's next line.
            let open = line.bar && step % 4 == 3 && self.options.prefix == Prefix::None;
            self.print_text(line.rank, &line.text, !open)?;
        }
        Ok(())
    }

    /// Evaluation, then a save: calls between two steps that belong to neither.
    fn run_evaluation(&mut self, step: u64) -> Result<()> {
        let segment = self.mixer.job.segment;
        let aside = self.mixer.truth.set_open_calls_aside();
        for batch in 1..=events::EVAL_BATCHES {
            self.mixer
                .write_stretch(&self.programs.eval, step, 400_000, None)?;
            for (rank, text) in
                events::evaluation_lines(self.options, step, batch, &self.mixer.clock)
            {
                self.print_text_line(rank, &text)?;
            }
        }
        self.evaluated = true;
        self.mixer
            .truth
            .close_between_steps(segment, step, "eval", aside);
        let aside = self.mixer.truth.set_open_calls_aside();
        let (before, behind) = events::save_lines(self.options, step);
        for (rank, text) in before {
            self.print_text_line(rank, &text)?;
        }
        if !behind.is_empty() {
            self.mixer
                .write_stretch(&self.programs.checkpoint, step, 900_000, None)?;
        }
        for (rank, text) in behind {
            self.print_text_line(rank, &text)?;
        }
        self.mixer
            .truth
            .close_between_steps(segment, step, "checkpoint", aside);
        Ok(())
    }

    /// The job dies and comes back. Steps without a line belong to no step line any more.
    fn restart_job(&mut self, step: u64) -> Result<()> {
        let segment = self.mixer.job.segment;
        if self.mixer.truth.open_calls() > 0 {
            self.mixer
                .truth
                .close_between_steps(segment, step, "unfinished", Default::default());
        }
        self.since.clear();
        self.queued = None;
        self.print_restart()
    }

    /// Prints a launcher's lines and lets the time pass until all processes are there again.
    pub(super) fn print_restart(&mut self) -> Result<()> {
        let host = self.mixer.job.procs[0].host.clone();
        self.print_text_line(
            0,
            &format!("srun: error: {host}: task 0: Exited with exit code 134"),
        )?;
        self.mixer.clock.advance(60_000_000);
        self.mixer.restart_processes();
        Ok(())
    }
}
