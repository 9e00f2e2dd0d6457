//! The stacks of one process.

use super::limits::MAX_FRAMES;

/// The stacks of a process at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessStacks {
    /// Its process id.
    pub pid: Option<u64>,
    /// Its rank in the job, as the file's name or its text has it.
    pub rank: Option<u32>,
    /// Its threads, in the order of the text.
    pub threads: Vec<ThreadStack>,
    /// The place of the main thread among them.
    pub main: Option<usize>,
    /// The line at which they begin, from 0.
    pub line: u64,
    /// Other processes with the same stacks, which a person's text only counts.
    pub others: u32,
}

/// The stack of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadStack {
    /// Its name.
    pub name: Option<Box<str>>,
    /// The number that the system gives it.
    pub os_id: Option<u64>,
    /// True if it waits in the system; py-spy prints that.
    pub is_idle: Option<bool>,
    /// Its frames, the innermost first.
    pub frames: Vec<ThreadFrame>,
    /// Its line, from 0.
    pub line: u64,
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadFrame {
    /// The function.
    pub function: Box<str>,
    /// The file, as short as it is printed; empty if it is unknown.
    pub file: Box<str>,
    /// The line in the file.
    pub line: Option<u32>,
}

impl ProcessStacks {
    /// Returns the stack of the main thread.
    pub fn main_thread(&self) -> Option<&ThreadStack> {
        self.threads.get(self.main?)
    }

    /// The number of its main thread, if that was read.
    pub(super) fn main_thread_id(&self) -> Option<u64> {
        let main = self.threads.iter().find(|thread| thread.is_main())?;
        main.os_id
    }

    /// Finds the main thread: by its name, or by the process id.
    pub(super) fn find_main_thread(&mut self) {
        let by_name = self.threads.iter().position(ThreadStack::is_main);
        let has_pid = |thread: &ThreadStack| thread.os_id.is_some() && thread.os_id == self.pid;
        let by_pid = || self.threads.iter().position(has_pid);
        self.main = by_name.or_else(by_pid).or(self.main);
    }
}

impl ThreadStack {
    /// True for the thread that Python calls the main one.
    pub(super) fn is_main(&self) -> bool {
        self.name.as_deref() == Some("MainThread")
    }

    /// Adds a frame, if there is room.
    pub(super) fn add_frame(&mut self, frame: ThreadFrame) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push(frame);
        }
    }
}
