//! Refuses options that contradict each other, before a byte is written.

use crate::error::{Error, Result};
use crate::options::{Damage, LogLayout, Nccl, Options, Prefix, Strategy, SynthEnd, SynthTrainer};

/// An overwritten file is simulated in memory, byte for byte.
pub(crate) const MAX_OVERWRITTEN_BYTES: u64 = 64 << 20;

fn refuse_options(text: String) -> Result<()> {
    Err(Error::Usage(text))
}

impl Options {
    /// Ranks that share a shard of the model, and sum its gradients: data times context.
    pub fn shard_copies(&self) -> usize {
        self.ranks / (self.tp * self.pp).max(1)
    }

    /// Data-parallel size.
    pub fn data_parallel_size(&self) -> usize {
        self.shard_copies() / self.cp.max(1)
    }

    /// The number of the first step.
    pub fn first_step(&self) -> u64 {
        self.first_step
            .unwrap_or_else(|| self.trainer.first_number())
    }

    /// The share of lines a kind of damage hits.
    pub fn damage_rate(&self, kind: Damage) -> f64 {
        self.damage
            .iter()
            .find(|(k, _)| *k == kind)
            .map_or(0.0, |&(_, rate)| rate)
    }

    /// The step the resumed job starts with. It lies far enough back that the first step line
    /// printed after the restart has a lower number than the last one before it: nothing else
    /// in a log shows a restart.
    pub fn resume_step(&self, died_after: u64) -> u64 {
        (died_after + 1)
            .saturating_sub((2 * self.log_interval).max(4))
            .max(self.first_step())
    }

    /// Refuses contradictions, and names what to do instead.
    pub fn check(&self) -> Result<()> {
        self.check_layout()?;
        self.check_steps()?;
        self.check_tuning()?;
        self.check_damage()?;
        self.check_lead()?;
        self.check_fault()
    }

    fn check_tuning(&self) -> Result<()> {
        if self.nvls && self.net.is_none() {
            return refuse_options("--nvls needs --net: add --net ib".into());
        }
        let at_calls = |(kind, rate): &(Damage, f64)| {
            let elsewhere = matches!(kind, Damage::Truncated | Damage::Crlf);
            *rate > 0.0 && !elsewhere
        };
        if self.tuning && (self.trace || self.damage.iter().any(at_calls)) {
            return refuse_options(
                "--tuning cannot be combined with --trace or damaged calls".into(),
            );
        }
        Ok(())
    }

    fn check_lead(&self) -> Result<()> {
        let Some(lead) = self.lead else {
            if self.end == SynthEnd::Whole {
                return Ok(());
            }
            return refuse_options(format!("--end {} needs --lead", self.end.name()));
        };
        if lead > 3 {
            return refuse_options(format!("--lead must be 0 to 3, not {lead}"));
        }
        let whole = |kind: &Damage| matches!(kind, Damage::Truncated | Damage::Crlf);
        if self.size.is_some() || self.damage.iter().any(|(kind, _)| !whole(kind)) {
            return refuse_options(
                "--lead cannot be combined with --size, or with --damage except truncated and crlf"
                    .into(),
            );
        }
        if self.end != SynthEnd::Whole && (self.fault.is_some() || self.layout == LogLayout::Blocks)
        {
            return refuse_options(format!(
                "--end {} cannot be combined with --fault or --layout blocks",
                self.end.name()
            ));
        }
        Ok(())
    }

    fn check_layout(&self) -> Result<()> {
        let Options {
            ranks,
            nodes,
            tp,
            pp,
            ep,
            cp,
            layers,
            ..
        } = *self;
        for (name, value, most) in [
            ("ranks", ranks, 65_536),
            ("nodes", nodes, ranks.max(1)),
            ("tp", tp, ranks.max(1)),
            ("pp", pp, ranks.max(1)),
            ("ep", ep, ranks.max(1)),
            ("cp", cp, ranks.max(1)),
            ("layers", layers, 10_000),
        ] {
            if value == 0 || value > most {
                return refuse_options(format!("--{name} must be 1 to {most}, not {value}"));
            }
        }
        if self.strategy != Strategy::Megatron {
            let name = self.strategy.name();
            if tp * pp * ep * cp > 1 {
                return refuse_options(format!(
                    "--strategy {name} has no --tp, --pp, --ep and --cp of its own"
                ));
            }
            if self.strategy == Strategy::Hsdp && !ranks.is_multiple_of(self.shard_size()) {
                return refuse_options(format!(
                    "--strategy {name} needs an even number of --ranks"
                ));
            }
        }
        if self.split && (!self.nccl.since(Nccl::V2_21) || self.nccl.is_rccl()) {
            return refuse_options("--split needs --nccl 2.21 or later, not RCCL".to_owned());
        }
        if !ranks.is_multiple_of(nodes) {
            return refuse_options(format!("--nodes {nodes} does not divide --ranks {ranks}"));
        }
        // Neither can overflow: both are at most 65,536.
        if !ranks.is_multiple_of(tp * pp) {
            return refuse_options(format!(
                "--tp {tp} times --pp {pp} does not divide --ranks {ranks}"
            ));
        }
        if !self.shard_copies().is_multiple_of(cp) {
            return refuse_options(format!(
                "--cp {cp} does not divide the {} copies of the model (ranks / (tp * pp))",
                self.shard_copies()
            ));
        }
        if !self.data_parallel_size().is_multiple_of(ep) {
            return refuse_options(format!(
                "--ep {ep} does not divide the data-parallel size {} (ranks / (tp * cp * pp))",
                self.data_parallel_size()
            ));
        }
        if layers < pp {
            return refuse_options(format!(
                "--pp {pp} stages need at least as many --layers, not {layers}"
            ));
        }
        if !self.nccl.since(Nccl::V2_7) && (pp > 1 || ep > 1 || cp > 1 || self.zero_counts) {
            return refuse_options(
                "NCCL 2.4 has no Send and Recv: --pp, --ep, --cp and --zero-counts need --nccl 2.7"
                    .into(),
            );
        }
        if self.zero_counts && ep < 2 {
            return refuse_options("--zero-counts needs token exchanges: --ep 2 or more".into());
        }
        if self.nccl.is_rccl() && self.trace {
            return refuse_options("--trace needs NCCL: RCCL has no CALL lines".into());
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<()> {
        let first = self.first_step();
        if self.steps == 0 || self.log_interval == 0 {
            return refuse_options("--steps and --log-interval must be at least 1".into());
        }
        if self.epoch_steps == Some(0) || self.eval_every == Some(0) {
            return refuse_options("--epoch-steps and --eval-every must be at least 1".into());
        }
        if first < self.trainer.first_number() {
            return refuse_options(format!(
                "{} counts from 1 and cannot begin with --first-step 0",
                self.trainer.name()
            ));
        }
        if first
            .checked_add(self.steps)
            .is_none_or(|last| last > 1 << 40)
        {
            return refuse_options("--first-step and --steps are too large".into());
        }
        if self.log_interval > 1 << 20 {
            return refuse_options("--log-interval is too large".into());
        }
        if self.log_interval > 1 && matches!(self.trainer, SynthTrainer::Maxtext) {
            return refuse_options("MaxText prints every step and needs --log-interval 1".into());
        }
        if self.every_rank
            && !matches!(
                self.trainer,
                SynthTrainer::Torchtitan | SynthTrainer::Maxtext
            )
        {
            return refuse_options("--every-rank is for --trainer torchtitan or maxtext".into());
        }
        if let Some(at) = self.restart_at {
            let last = first + self.steps - 1;
            if at < first + 2 * self.log_interval + 1 || (self.size.is_none() && at > last) {
                return refuse_options(format!(
                    "--restart-at {at} must be between steps {} and {last}",
                    first + 2 * self.log_interval + 1
                ));
            }
        }
        Ok(())
    }

    fn check_damage(&self) -> Result<()> {
        let whole = |kind: &Damage| matches!(kind, Damage::Truncated | Damage::Crlf);
        let harmed = self.damage.iter().any(|(kind, _)| !whole(kind));
        if self.layout == LogLayout::Blocks && (harmed || self.prefix != Prefix::None) {
            return refuse_options(
                "--layout blocks cuts lines itself: it needs --prefix none, and no --damage except \
                 truncated and crlf"
                    .into(),
            );
        }
        for (i, &(kind, rate)) in self.damage.iter().enumerate() {
            let name = kind.name();
            if !(0.0..=1.0).contains(&rate) {
                return refuse_options(format!("--damage {name}={rate}: the rate must be 0 to 1"));
            }
            if self.damage[..i].iter().any(|(k, _)| *k == kind) {
                return refuse_options(format!("--damage {name} is given twice"));
            }
            let shared = !matches!(kind, Damage::Spliced | Damage::Cut)
                && !matches!(kind, Damage::Truncated | Damage::Crlf);
            if shared && self.layout == LogLayout::PerRank {
                return refuse_options(format!(
                    "--damage {name} needs processes that share a stream: --layout stream"
                ));
            }
            match kind {
                Damage::Torn | Damage::Orphan if self.prefix != Prefix::None => {
                    return refuse_options(format!(
                        "--damage {name} needs --prefix none: a launcher that labels lines reads \
                         each process through its own pipe, which no other process shares"
                    ));
                }
                Damage::Truncated if self.nccl.since(Nccl::V2_29) || !self.init => {
                    return refuse_options(
                        "--damage truncated needs Trees lines: NCCL before 2.29, and no --no-init"
                            .into(),
                    );
                }
                Damage::Spliced if self.trainer == SynthTrainer::None => {
                    return refuse_options("--damage spliced needs step lines: --trainer".into());
                }
                Damage::Crlf | Damage::Overwritten if rate != 0.0 && rate != 1.0 => {
                    return refuse_options(format!(
                        "--damage {name} affects the whole file: use {name}=1"
                    ));
                }
                Damage::Overwritten if self.damage.len() > 1 || self.prefix != Prefix::None => {
                    return refuse_options(
                        "--damage overwritten cannot be combined with other damage and needs \
                         --prefix none: NCCL_DEBUG_FILE bypasses the launcher"
                            .into(),
                    );
                }
                Damage::Overwritten if self.size.is_some_and(|s| s > MAX_OVERWRITTEN_BYTES) => {
                    return refuse_options("--damage overwritten needs a size of up to 64M".into());
                }
                _ => {}
            }
        }
        let lines = [
            Damage::Torn,
            Damage::Cut,
            Damage::Glued,
            Damage::GluedCut,
            Damage::Orphan,
        ];
        if lines.iter().map(|&k| self.damage_rate(k)).sum::<f64>() > 1.0 {
            return refuse_options(
                "the rates of torn, cut, glued, glued-cut and orphan add up to over 1".into(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Damage, Nccl, Options, Prefix};

    fn said(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::default();
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_sound() {
        Options::default().check().unwrap();
    }

    #[test]
    fn nonsense_is_named() {
        assert!(said(|o| o.ranks = 0).contains("--ranks"));
        assert!(said(|o| o.nodes = 9).contains("--nodes"));
        assert!(said(|o| o.tp = 3).contains("--tp 3"));
        assert!(said(|o| o.ep = 3).contains("--ep 3"));
        assert!(said(|o| o.cp = 3).contains("--cp 3"));
        assert!(said(|o| (o.cp, o.ep) = (4, 2)).contains("--ep 2"));
        assert!(said(|o| o.damage = vec![(Damage::Cut, 1.5)]).contains("0 to 1"));
        assert!(said(|o| o.damage = vec![(Damage::Cut, f64::NAN)]).contains("0 to 1"));
        assert!(said(|o| (o.nccl, o.pp) = (Nccl::V2_4, 2)).contains("2.7"));
        assert!(said(|o| o.restart_at = Some(1)).contains("--restart-at"));
        assert!(said(|o| o.steps = u64::MAX).contains("too large"));
    }

    #[test]
    fn a_tear_behind_a_launcher_label_is_refused() {
        let text = said(|o| {
            o.prefix = Prefix::Srun;
            o.damage = vec![(Damage::Torn, 0.1)];
        });
        assert!(text.contains("--prefix none"), "{text}");
    }
}
