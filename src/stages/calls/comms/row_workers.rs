//! Two kinds of tasks for the same threads: to walk a chunk, and to make what was walked into text. Text goes
//! first, so that few chunks wait; a thread without a task waits for a walk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Something to do.
pub(super) enum RowTask<C, B> {
    /// Walk a chunk.
    Walk(C),
    /// Make a block into text.
    Make(B),
}

/// The tasks: an iterator that several threads share.
pub(super) struct RowTaskQueue<I, B> {
    state: Mutex<RowTaskState<I, B>>,
    changed: Condvar,
}

struct RowTaskState<I, B> {
    chunks: Option<I>,
    /// Chunks that are being walked: blocks come of them.
    walking: usize,
    blocks: VecDeque<B>,
}

impl<I: Iterator, B> RowTaskQueue<I, B> {
    pub(super) fn new(chunks: I) -> Self {
        RowTaskQueue {
            state: Mutex::new(RowTaskState {
                chunks: Some(chunks),
                walking: 0,
                blocks: VecDeque::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, RowTaskState<I, B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the blocks of a walked chunk.
    pub(super) fn add_blocks(&self, blocks: impl Iterator<Item = B>) {
        let mut state = self.lock_state();
        state.walking -= 1;
        state.blocks.extend(blocks);
        self.changed.notify_all();
    }

    /// Drops all tasks.
    pub(super) fn stop(&self) {
        let mut state = self.lock_state();
        (state.chunks, state.walking) = (None, 0);
        state.blocks.clear();
        self.changed.notify_all();
    }
}

impl<I: Iterator, B> Iterator for &RowTaskQueue<I, B> {
    type Item = RowTask<I::Item, B>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut state = self.lock_state();
        loop {
            if let Some(block) = state.blocks.pop_front() {
                return Some(RowTask::Make(block));
            }
            if let Some(chunk) = state.chunks.as_mut().and_then(Iterator::next) {
                state.walking += 1;
                return Some(RowTask::Walk(chunk));
            }
            state.chunks = None;
            if state.walking == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
