//! Tasks in, results out in the same order, with the work between on all cores.

use crate::error::Result;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many threads a core is given at most: some may wait for a slow disk, more only for each
/// other.
const PER_CORE: usize = 4;

/// How many threads there are where the user asks for `asked`: by default as many as there are
/// cores that we may use, and never more than four times as many.
pub fn jobs(asked: Option<usize>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or(cores, |asked| asked.min(PER_CORE * cores))
}

/// Runs `map` over `tasks` on `jobs` threads and gives the results to `sink` in the order of
/// the tasks. Tasks are taken one at a time, so a reader behind them reads while others work; at
/// most `4 × jobs` results wait at any time.
///
/// # Errors
/// The first error of `sink`; no further task is begun then.
pub fn ordered<T: Send, R: Send>(
    jobs: usize,
    mut tasks: impl Iterator<Item = T> + Send,
    map: impl Fn(T) -> R + Sync,
    sink: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    // More threads than tasks would only be started.
    let jobs = tasks.size_hint().1.map_or(jobs, |tasks| jobs.min(tasks));
    // One task needs no threads: a small file among thousands.
    let (first, second) = if jobs > 1 {
        (tasks.next(), tasks.next())
    } else {
        (None, None)
    };
    let jobs = if second.is_none() { 1 } else { jobs };
    let tasks = first.into_iter().chain(second).chain(tasks);
    as_they_come(jobs, tasks, map, sink)
}

/// The same, where each task is done as soon as it is there: the next one may come much later.
///
/// # Errors
/// As [`ordered`].
pub fn as_they_come<T: Send, R: Send>(
    jobs: usize,
    tasks: impl Iterator<Item = T> + Send,
    map: impl Fn(T) -> R + Sync,
    mut sink: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let Some(pool) = Pool::of(jobs) else {
        return tasks.map(map).try_for_each(sink);
    };
    let tasks = Mutex::new(tasks.enumerate());
    let order = Order::of(jobs);
    let results = order.places();
    pool.run(|pool| {
        pool.in_place_scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|_| {
                    let _leaves = Leaves(&order);
                    while let Some((index, task)) = take(&tasks)
                        && order.admits(index)
                    {
                        *order.place(&results, index) = Some(map(task));
                        order.done(index);
                    }
                });
            }
            while let Some(index) = order.wait() {
                let result = order.place(&results, index).take();
                let outcome = result.map_or(Ok(()), &mut sink);
                order.passed(outcome.is_err());
                outcome?;
            }
            Ok(())
        })
    })
}

/// Runs `map` over `tasks` on `jobs` threads and gives the results to `sink` in the order of the
/// tasks. No thread is there for the sink: who has the next result hands it over, so that what it
/// made is still in its core's cache, and no core has more threads than it can run. No task is
/// taken before a thread is there to do it, so the iterator may wait for what `sink` makes. The
/// sink must not share out work itself: a thread that waits for that may be given the work of one
/// that waits for the sink.
///
/// # Errors
/// The first error of `sink`; no further task is begun then.
pub fn in_turn<T: Send, R: Send>(
    jobs: usize,
    tasks: impl Iterator<Item = T> + Send,
    map: impl Fn(T) -> R + Sync,
    sink: impl FnMut(R) -> Result<()> + Send,
) -> Result<()> {
    let jobs = tasks.size_hint().1.map_or(jobs, |tasks| jobs.min(tasks));
    let Some(pool) = Pool::of(jobs) else {
        return tasks.map(map).try_for_each(sink);
    };
    let tasks = Mutex::new(tasks.enumerate());
    let order = Order::of(jobs);
    let results = order.places();
    let sink = Mutex::new((sink, Ok(())));
    let work = || {
        while let Some((index, task)) = take(&tasks)
            && order.admits(index)
        {
            *order.place(&results, index) = Some(map(task));
            order.done(index);
            while let Some(index) = order.turn() {
                let result = order.place(&results, index).take();
                let (sink, outcome) = &mut *lock(&sink);
                *outcome = result.map_or(Ok(()), sink);
                order.passed(outcome.is_err());
            }
        }
    };
    pool.run(|pool| {
        pool.in_place_scope(|scope| (0..jobs).for_each(|_| scope.spawn(|_| work())));
    });
    sink.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

/// The next task with its number.
fn take<T>(tasks: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    lock(tasks).next()
}

/// Which result is next, and which are there. It does not know what results are: what waits and wakes
/// threads is compiled once.
struct Order {
    state: Mutex<State>,
    moved: Condvar,
    /// How many results may wait.
    ahead: usize,
}

struct State {
    /// How many results the sink has had.
    next: usize,
    /// Which results are there, by place.
    there: Vec<bool>,
    /// Threads that may still give some.
    workers: usize,
    /// A result is at the sink.
    busy: bool,
    /// The sink failed.
    failed: bool,
}

impl Order {
    /// Nothing done yet by `jobs` threads.
    fn of(jobs: usize) -> Order {
        let ahead = 4 * jobs;
        Order {
            state: Mutex::new(State {
                next: 0,
                there: vec![false; ahead],
                workers: jobs,
                busy: false,
                failed: false,
            }),
            moved: Condvar::new(),
            ahead,
        }
    }

    /// A place for each result that may wait.
    fn places<R>(&self) -> Vec<Mutex<Option<R>>> {
        (0..self.ahead).map(|_| Mutex::new(None)).collect()
    }

    /// The place of a result.
    fn place<'p, R>(
        &self,
        places: &'p [Mutex<Option<R>>],
        index: usize,
    ) -> MutexGuard<'p, Option<R>> {
        lock(&places[index % self.ahead])
    }

    /// Waits until there is a place for the result of a task; false if the sink failed before.
    fn admits(&self, index: usize) -> bool {
        let mut state = lock(&self.state);
        while !state.failed && index - state.next >= self.ahead {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.failed
    }

    /// A result is in its place.
    fn done(&self, index: usize) {
        lock(&self.state).there[index % self.ahead] = true;
        self.moved.notify_all();
    }

    /// A thread will give no more results.
    fn leave(&self) {
        lock(&self.state).workers -= 1;
        self.moved.notify_all();
    }

    /// Waits for the next result; `None` where none will come.
    fn wait(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        while !state.is_there(self.ahead) && state.workers > 0 {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.take(self.ahead)
    }

    /// The next result, if it is there and none is at the sink.
    fn turn(&self) -> Option<usize> {
        lock(&self.state).take(self.ahead)
    }

    /// The sink has had the next result, and `failed` or not.
    fn passed(&self, failed: bool) {
        let mut state = lock(&self.state);
        state.next += 1;
        state.busy = false;
        state.failed = failed;
        drop(state);
        self.moved.notify_all();
    }
}

impl State {
    fn is_there(&self, ahead: usize) -> bool {
        self.there[self.next % ahead]
    }

    /// The number of the next result, which goes to the sink.
    fn take(&mut self, ahead: usize) -> Option<usize> {
        let is_free = self.is_there(ahead) && !self.busy && !self.failed;
        is_free.then(|| {
            self.there[self.next % ahead] = false;
            self.busy = true;
            self.next
        })
    }
}

/// A thread that leaves, also where its work panics.
struct Leaves<'o>(&'o Order);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A worker that panicked has already ended the program (panic = abort) or the test.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pools at rest: a run shares out work many times. A run within a run (a large file among small
/// ones) finds none here and gets its own.
static AT_REST: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// Threads that wait for work, and how many were asked for: the machine may have refused some.
struct Pool {
    asked: usize,
    threads: rayon::ThreadPool,
}

impl Pool {
    /// A pool for the work of `jobs` threads; `None` where that is one, or where the machine starts
    /// no thread at all (a container's limit): then the work is done here.
    fn of(jobs: usize) -> Option<Pool> {
        if jobs <= 1 {
            return None;
        }
        let mut at_rest = lock(&AT_REST);
        if let Some(at) = at_rest.iter().position(|pool| pool.asked >= jobs) {
            return Some(at_rest.swap_remove(at));
        }
        // Smaller ones would only add to the threads.
        at_rest.clear();
        drop(at_rest);
        let fewer = |n: &usize| (*n > 1).then_some(n / 2);
        let start = |n: usize| rayon::ThreadPoolBuilder::new().num_threads(n).build().ok();
        let threads = std::iter::successors(Some(jobs), fewer).find_map(start)?;
        let asked = jobs;
        Some(Pool { asked, threads })
    }

    /// Gives the threads to `work`, and puts them to rest.
    fn run<R>(self, work: impl FnOnce(&rayon::ThreadPool) -> R) -> R {
        let result = work(&self.threads);
        lock(&AT_REST).push(self);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn results_come_in_the_order_of_the_tasks_whatever_their_time() {
        let slow = |i: u64| {
            std::thread::sleep(std::time::Duration::from_micros((i * 7919) % 300));
            i * i
        };
        for jobs in [1, 2, 5] {
            let (mut got, mut in_turns) = (Vec::new(), Vec::new());
            ordered(jobs, 0..200, slow, |r| {
                got.push(r);
                Ok(())
            })
            .unwrap();
            in_turn(jobs, 0..200, slow, |r| {
                in_turns.push(r);
                Ok(())
            })
            .unwrap();
            assert_eq!(got, (0..200).map(|i| i * i).collect::<Vec<_>>());
            assert_eq!(got, in_turns);
        }
    }

    #[test]
    fn no_more_threads_are_started_than_there_are_tasks_or_a_machine_can_use() {
        let cores = jobs(None);
        assert_eq!((jobs(Some(1)), jobs(Some(65535))), (1, PER_CORE * cores));
        let threads = Mutex::new(std::collections::BTreeSet::new());
        let note = |_| {
            lock(&threads).insert(format!("{:?}", std::thread::current().id()));
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        in_turn(1000, [1, 2, 3].into_iter(), note, |()| Ok(())).unwrap();
        ordered(1000, [1, 2, 3].into_iter(), note, |()| Ok(())).unwrap();
        assert!(lock(&threads).len() <= 6);
        let at_rest = lock(&AT_REST).iter().map(|pool| pool.asked).max();
        assert!(at_rest.unwrap_or(0) < 1000);
    }

    #[test]
    fn the_first_error_of_the_sink_ends_the_run() {
        for jobs in [1, 3] {
            let mut seen = 0;
            let mut stop = |i| {
                seen += 1;
                if i % 100 == 10 {
                    Err(Error::Usage("stop".into()))
                } else {
                    Ok(())
                }
            };
            assert!(ordered(jobs, 0..100_000, |i| i, &mut stop).is_err());
            assert!(in_turn(jobs, 0..100_000, |i| i, &mut stop).is_err());
            assert_eq!(seen, 22);
        }
    }
}
