//! A pool of threads: tasks in, results out in the same order, with the work between on all cores.

use crate::error::Result;
use rustix::process::{Resource, getrlimit};
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Returns how many threads to use if the user asks for `asked`: by default one for each core that
/// the process may use, and never more than four times as many, or than it may open files for.
pub fn thread_count(asked: Option<usize>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Some threads may wait for a slow disk; more would only wait for each other.
    let wanted = asked.map_or(cores, |asked| asked.min(4 * cores));
    wanted.min(count_threads_with_files(
        getrlimit(Resource::Nofile).current,
    ))
}

/// Returns how many threads can have their files open if a process may open `limit`: eight for each thread,
/// since results that wait have files as well, and eight for the output and the like.
fn count_threads_with_files(limit: Option<u64>) -> usize {
    let threads = limit.map_or(u64::MAX, |limit| (limit / 8).saturating_sub(1));
    usize::try_from(threads.max(1)).unwrap_or(usize::MAX)
}

/// Runs two tasks beside each other, or one after the other on one thread.
pub fn run_both<A: Send, B: Send>(
    jobs: usize,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    match IdlePool::with_threads(jobs) {
        Some(pool) => pool.run_work(|pool| pool.join(one, other)),
        None => (one(), other()),
    }
}

/// Runs `map` over `tasks` on `jobs` threads and gives the results to `sink` in the order of the
/// tasks. Tasks are taken one at a time, so the iterator may read the next one while threads work;
/// at most `4 × jobs` results wait at any time.
///
/// # Errors
/// The first error of `sink`; no further task is begun then.
pub fn map_in_order<T: Send, R: Send>(
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
    map_as_they_come(jobs, tasks, map, sink)
}

/// Like [`map_in_order`], but does each task as soon as it is there: the next one may come much
/// later.
///
/// # Errors
/// As [`map_in_order`].
pub fn map_as_they_come<T: Send, R: Send>(
    jobs: usize,
    tasks: impl Iterator<Item = T> + Send,
    map: impl Fn(T) -> R + Sync,
    mut sink: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let Some(pool) = IdlePool::with_threads(jobs) else {
        return tasks.map(map).try_for_each(sink);
    };
    let tasks = Mutex::new(tasks.enumerate());
    let order = ResultOrder::with_jobs(jobs);
    let results = order.new_places();
    pool.run_work(|pool| {
        pool.in_place_scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|_| {
                    let _leaves = WorkerExitGuard(&order);
                    work_if_free(|| {
                        while let Some((index, task)) = take_task(&tasks)
                            && order.wait_for_place(index)
                        {
                            *order.place_of(&results, index) = Some(map(task));
                            order.result_arrived(index);
                        }
                    });
                });
            }
            while let Some(index) = order.wait_for_result() {
                let result = order.place_of(&results, index).take();
                let outcome = result.map_or(Ok(()), &mut sink);
                order.sink_done(outcome.is_err());
                outcome?;
            }
            Ok(())
        })
    })
}

/// Runs `map` over `tasks` on `jobs` threads and gives the results to `sink` in the order of the
/// tasks. No thread is reserved for the sink: the worker that has the next result calls it, so that
/// the result is still in its core's cache, and no core has more threads than it can run. No task
/// is taken before a thread is free for it, so the iterator may wait for what `sink` makes. The
/// sink must not share out work itself: a thread that waits for that may get the work of one that
/// waits for the sink.
///
/// # Errors
/// The first error of `sink`; no further task is begun then.
pub fn map_without_sink_thread<T: Send, R: Send>(
    jobs: usize,
    tasks: impl Iterator<Item = T> + Send,
    map: impl Fn(T) -> R + Sync,
    sink: impl FnMut(R) -> Result<()> + Send,
) -> Result<()> {
    let jobs = tasks.size_hint().1.map_or(jobs, |tasks| jobs.min(tasks));
    let Some(pool) = IdlePool::with_threads(jobs) else {
        return tasks.map(map).try_for_each(sink);
    };
    let tasks = Mutex::new(tasks.enumerate());
    let order = ResultOrder::with_jobs(jobs);
    let results = order.new_places();
    let sink = Mutex::new((sink, Ok(())));
    let work = || {
        while let Some((index, task)) = take_task(&tasks)
            && order.wait_for_place(index)
        {
            *order.place_of(&results, index) = Some(map(task));
            order.result_arrived(index);
            while let Some(index) = order.try_next_result() {
                let result = order.place_of(&results, index).take();
                let (sink, outcome) = &mut *lock_mutex(&sink);
                *outcome = result.map_or(Ok(()), sink);
                order.sink_done(outcome.is_err());
            }
        }
    };
    pool.run_work(|pool| {
        pool.in_place_scope(|scope| (0..jobs).for_each(|_| scope.spawn(|_| work_if_free(work))));
    });
    sink.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

thread_local! {
    /// This thread takes tasks.
    static IS_WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which takes tasks, unless this thread takes them already. Rayon gives a thread that waits in a task, for a run
/// within this one, other work of its pool. That is a second worker of the same run, which would wait for a place that only
/// the result of the waiting task frees.
fn work_if_free(work: impl FnOnce()) {
    struct FreeThreadGuard;
    impl Drop for FreeThreadGuard {
        fn drop(&mut self) {
            IS_WORKING.set(false);
        }
    }
    if !IS_WORKING.replace(true) {
        let _frees = FreeThreadGuard;
        work();
    }
}

/// Returns the next task with its number.
fn take_task<T>(tasks: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    lock_mutex(tasks).next()
}

/// Counts which result is next and which have arrived. It does not know the results' type, so that
/// the code that waits and wakes threads is compiled once.
struct ResultOrder {
    state: Mutex<ResultOrderState>,
    moved: Condvar,
    /// How many results may wait.
    ahead: usize,
}

struct ResultOrderState {
    /// How many results the sink has had.
    next: usize,
    /// Results that have arrived, by place.
    there: Vec<bool>,
    /// Threads that may still give results.
    workers: usize,
    /// The sink has a result.
    busy: bool,
    /// The sink failed.
    failed: bool,
}

impl ResultOrder {
    /// Begins with no results of `jobs` threads.
    fn with_jobs(jobs: usize) -> ResultOrder {
        let ahead = 4 * jobs;
        ResultOrder {
            state: Mutex::new(ResultOrderState {
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

    /// Makes a place for each result that may wait.
    fn new_places<R>(&self) -> Vec<Mutex<Option<R>>> {
        (0..self.ahead).map(|_| Mutex::new(None)).collect()
    }

    /// Returns the place of a result.
    fn place_of<'p, R>(
        &self,
        places: &'p [Mutex<Option<R>>],
        index: usize,
    ) -> MutexGuard<'p, Option<R>> {
        lock_mutex(&places[index % self.ahead])
    }

    /// Waits until there is a place for the result of a task; returns false if the sink failed
    /// before.
    fn wait_for_place(&self, index: usize) -> bool {
        let mut state = lock_mutex(&self.state);
        while !state.failed && index - state.next >= self.ahead {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.failed
    }

    /// Notes that a result is in its place.
    fn result_arrived(&self, index: usize) {
        lock_mutex(&self.state).there[index % self.ahead] = true;
        self.moved.notify_all();
    }

    /// Notes that a thread will give no more results.
    fn worker_left(&self) {
        lock_mutex(&self.state).workers -= 1;
        self.moved.notify_all();
    }

    /// Waits for the next result; `None` if none will come.
    fn wait_for_result(&self) -> Option<usize> {
        let mut state = lock_mutex(&self.state);
        while !state.has_result(self.ahead) && state.workers > 0 {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.take_next(self.ahead)
    }

    /// Takes the next result if it has arrived and the sink has none.
    fn try_next_result(&self) -> Option<usize> {
        lock_mutex(&self.state).take_next(self.ahead)
    }

    /// Notes that the sink has had the next result, and whether it failed.
    fn sink_done(&self, failed: bool) {
        let mut state = lock_mutex(&self.state);
        state.next += 1;
        state.busy = false;
        state.failed = failed;
        drop(state);
        self.moved.notify_all();
    }
}

impl ResultOrderState {
    fn has_result(&self, ahead: usize) -> bool {
        self.there[self.next % ahead]
    }

    /// The number of the next result, which goes to the sink.
    fn take_next(&mut self, ahead: usize) -> Option<usize> {
        let is_free = self.has_result(ahead) && !self.busy && !self.failed;
        is_free.then(|| {
            self.there[self.next % ahead] = false;
            self.busy = true;
            self.next
        })
    }
}

/// Notes that a thread ends, also if its work panics.
struct WorkerExitGuard<'o>(&'o ResultOrder);

impl Drop for WorkerExitGuard<'_> {
    fn drop(&mut self) {
        self.0.worker_left();
    }
}

/// Locks a mutex, also after a panic in another thread.
pub(crate) fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A worker that panicked has already ended the program (panic = abort) or the test.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Idle pools: a run shares out work many times. A run within a run (a large file among small ones)
/// finds none here and gets its own.
static IDLE_POOLS: Mutex<Vec<IdlePool>> = Mutex::new(Vec::new());

/// Threads that wait for work, and how many were asked for: the machine may have refused some.
struct IdlePool {
    asked: usize,
    threads: rayon::ThreadPool,
}

impl IdlePool {
    /// Takes a pool for `jobs` threads; `None` for one thread, or if the machine starts no thread
    /// at all (a container's limit): then the caller does the work.
    fn with_threads(jobs: usize) -> Option<IdlePool> {
        if jobs <= 1 {
            return None;
        }
        let mut at_rest = lock_mutex(&IDLE_POOLS);
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
        Some(IdlePool { asked, threads })
    }

    /// Gives the threads to `work`, and makes them idle again.
    fn run_work<R>(self, work: impl FnOnce(&rayon::ThreadPool) -> R) -> R {
        let result = work(&self.threads);
        lock_mutex(&IDLE_POOLS).push(self);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn few_threads_run_where_few_files_may_be_open() {
        let limits = [Some(3), Some(6), Some(24), Some(1024), None];
        let expected = [1, 1, 2, 127, usize::MAX];
        assert_eq!(limits.map(count_threads_with_files), expected);
    }

    #[test]
    fn results_come_in_the_order_of_the_tasks_whatever_their_time() {
        let slow = |i: u64| {
            std::thread::sleep(std::time::Duration::from_micros((i * 7919) % 300));
            i * i
        };
        for jobs in [1, 2, 5] {
            let (mut got, mut in_turns) = (Vec::new(), Vec::new());
            map_in_order(jobs, 0..200, slow, |r| {
                got.push(r);
                Ok(())
            })
            .unwrap();
            map_without_sink_thread(jobs, 0..200, slow, |r| {
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
        let cores = thread_count(None);
        assert_eq!(
            (thread_count(Some(1)), thread_count(Some(65535))),
            (1, 4 * cores)
        );
        let threads = Mutex::new(std::collections::BTreeSet::new());
        let note = |_| {
            lock_mutex(&threads).insert(format!("{:?}", std::thread::current().id()));
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        map_without_sink_thread(1000, [1, 2, 3].into_iter(), note, |()| Ok(())).unwrap();
        map_in_order(1000, [1, 2, 3].into_iter(), note, |()| Ok(())).unwrap();
        assert!(lock_mutex(&threads).len() <= 6);
        let at_rest = lock_mutex(&IDLE_POOLS).iter().map(|pool| pool.asked).max();
        assert!(at_rest.unwrap_or(0) < 1000);
    }

    /// Where a machine starts fewer threads than were asked for, a second worker waits for the only thread.
    #[test]
    fn a_task_that_shares_out_work_does_not_wait_for_itself() {
        let share_out = |i: u64| run_both(2, || i, || i * i).1;
        for is_in_turns in [false, true] {
            let one = rayon::ThreadPoolBuilder::new().num_threads(1);
            let threads = one.build().unwrap();
            lock_mutex(&IDLE_POOLS).insert(0, IdlePool { asked: 2, threads });
            let mut got = Vec::new();
            let put = |r| {
                got.push(r);
                Ok(())
            };
            match is_in_turns {
                true => map_without_sink_thread(2, 0..50, share_out, put).unwrap(),
                false => map_in_order(2, 0..50, share_out, put).unwrap(),
            }
            assert_eq!(got, (0..50).map(|i| i * i).collect::<Vec<_>>());
        }
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
            assert!(map_in_order(jobs, 0..100_000, |i| i, &mut stop).is_err());
            assert!(map_without_sink_thread(jobs, 0..100_000, |i| i, &mut stop).is_err());
            assert_eq!(seen, 22);
        }
    }
}
