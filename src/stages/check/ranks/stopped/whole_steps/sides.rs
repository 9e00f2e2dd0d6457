//! The two sides of a job: those that made fewer calls, and those that made more.

use crate::stages::check::ranks::stopped::call_counts::MemberCallCounts;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Communicators that share members.
pub(super) fn group_into_jobs(begins: &[Vec<(u32, u64)>]) -> Vec<Vec<u32>> {
    let mut of_member: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (at, members) in (0..).zip(begins) {
        for (member, _) in members {
            of_member.entry(*member).or_default().push(at);
        }
    }
    let mut seen = vec![false; begins.len()];
    let mut jobs = Vec::new();
    for first in (0..).take(begins.len()) {
        let mut job = Vec::new();
        let mut next = vec![first];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut seen[at as usize], true) {
                continue;
            }
            job.push(at);
            for (member, _) in &begins[at as usize] {
                next.extend(of_member.remove(member).into_iter().flatten());
            }
        }
        if !job.is_empty() {
            job.sort_unstable();
            jobs.push(job);
        }
    }
    jobs
}

/// How far all members came.
pub(super) struct MemberPositions {
    /// The number of each member's calls, by communicator.
    pub(super) made: Vec<MemberCallCounts>,
    /// Each member's last call.
    pub(super) last: FxHashMap<u32, u64>,
}

/// Two sides of a job that made the same call last.
pub(super) struct JobSides {
    pub(super) job: Vec<u32>,
    pub(super) behind: FxHashSet<u32>,
    pub(super) ahead: FxHashSet<u32>,
    pub(super) members: FxHashSet<u32>,
    /// The last call.
    pub(super) mark: u64,
    /// The communicators on which they are apart, and how many calls each side made there.
    pub(super) apart: BTreeMap<u32, (u64, u64)>,
}

impl MemberPositions {
    /// The sides of a job, if there are two.
    pub(super) fn find_sides(&self, job: Vec<u32>) -> Option<JobSides> {
        let (mut behind, mut ahead) = (FxHashSet::default(), FxHashSet::default());
        let (mut members, mut apart) = (FxHashSet::default(), BTreeMap::new());
        for &at in &job {
            let made = &self.made[at as usize];
            if made.member_count() == 0 {
                return None;
            }
            members.extend(made.iter_counts().map(|(member, _)| member));
            let (least, most) = (made.fewest_calls(), made.most_calls());
            if least == most {
                continue;
            }
            apart.insert(at, (least, most));
            for (member, made) in made.iter_counts() {
                let side = match made {
                    made if made == least => &mut behind,
                    made if made == most => &mut ahead,
                    _ => return None,
                };
                side.insert(member);
            }
        }
        if apart.is_empty() || !behind.is_disjoint(&ahead) {
            return None;
        }
        let mark = *self.last.get(members.iter().next()?)?;
        let is_last = |member| self.last.get(member) == Some(&mark);
        members.iter().all(is_last).then_some(JobSides {
            job,
            behind,
            ahead,
            members,
            mark,
            apart,
        })
    }
}
