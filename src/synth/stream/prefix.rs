//! What launchers put in front of a line (shapes in public logs; a launcher labels each line it
//! reads from a process, so the second half of a spliced line gets its label too).

use crate::clock::{JobClock, write_padded};
use crate::job::SynthJob;
use crate::options::{Prefix, SynthTrainer};

/// The prefixes of a job's ranks.
#[derive(Debug)]
pub(crate) struct LauncherPrefixes {
    /// By rank; for [`Prefix::Cloudwatch`] empty, because the time is in it.
    fixed: Vec<Vec<u8>>,
    cloudwatch: bool,
}

impl LauncherPrefixes {
    /// The prefixes of this life of the job.
    pub(crate) fn new(prefix: Prefix, trainer: SynthTrainer, job: &SynthJob) -> Self {
        let width = (job.procs.len() - 1).to_string().len();
        let fixed = job
            .procs
            .iter()
            .enumerate()
            .map(|(rank, proc)| match prefix {
                Prefix::None | Prefix::Cloudwatch => String::new(),
                Prefix::Srun => format!("{rank:>width$}: "),
                Prefix::Mpirun => format!("[1,{rank}]<stdout>:"),
                // The role and the local rank; torchtitan's run_train.sh names the role.
                Prefix::Torchrun if trainer == SynthTrainer::Torchtitan => {
                    format!("[rank{}]:", proc.dev)
                }
                Prefix::Torchrun => format!("[default{}]:", proc.dev),
                Prefix::Ray => format!(
                    "(RayTrainWorker pid={}, ip=10.72.7.{}) ",
                    proc.pid,
                    6 + proc.node
                ),
                Prefix::Hydra => format!("[{rank}] "),
                Prefix::Kubectl => format!("[pod/train-worker-{}/pytorch] ", proc.node),
            });
        Self {
            fixed: fixed.map(String::into_bytes).collect(),
            cloudwatch: prefix == Prefix::Cloudwatch,
        }
    }

    /// Writes a rank's prefix.
    pub(crate) fn write_prefix(&self, buf: &mut Vec<u8>, rank: usize, clock: &JobClock) {
        if self.cloudwatch {
            buf.extend_from_slice(b"  | ");
            buf.extend_from_slice(clock.date().as_bytes());
            buf.push(b'T');
            buf.extend_from_slice(clock.time().as_bytes());
            buf.push(b'.');
            write_padded(buf, clock.ms(), 3);
            buf.extend_from_slice(b"+00:00 | ");
        } else {
            buf.extend_from_slice(&self.fixed[rank]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{JobClock, LauncherPrefixes, Prefix, SynthJob, SynthTrainer};
    use crate::options::Options;

    #[test]
    fn srun_labels_are_as_wide_as_the_widest_rank() {
        let job = SynthJob::new(
            &Options {
                ranks: 12,
                ..Options::default()
            },
            0,
        );
        let prefixes = LauncherPrefixes::new(Prefix::Srun, SynthTrainer::Nemo2, &job);
        let mut buf = Vec::new();
        prefixes.write_prefix(&mut buf, 3, &JobClock::default());
        prefixes.write_prefix(&mut buf, 11, &JobClock::default());
        assert_eq!(buf, b" 3: 11: ");
    }
}
