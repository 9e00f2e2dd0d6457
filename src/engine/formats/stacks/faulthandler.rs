//! What Python's faulthandler prints for all threads of its process: the main thread comes last. It prints neither
//! the process id nor the rank.

use super::naming;
use super::process::{ProcessStacks, ThreadFrame, ThreadStack};
use std::collections::BTreeSet;

/// Reads the stacks of a file. A thread that comes again begins a later dump.
pub(super) fn read_faulthandler(text: &str) -> Vec<ProcessStacks> {
    let mut all: Vec<ProcessStacks> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut rank = None;
    for (line, number) in text.lines().zip(0..) {
        if let Some(id) = parse_thread_line(line) {
            if !seen.insert(id) || all.is_empty() || rank.is_some() {
                seen = BTreeSet::from([id]);
                all.push(ProcessStacks {
                    rank: rank.take(),
                    line: number,
                    ..ProcessStacks::default()
                });
            }
            let thread = ThreadStack {
                line: number,
                ..ThreadStack::default()
            };
            if let Some(process) = all.last_mut() {
                process.main = Some(process.threads.len());
                process.threads.push(thread);
            }
        } else if let Some(frame) = parse_frame_line(line) {
            let threads = all.last_mut().map(|process| &mut process.threads);
            if let Some(thread) = threads.and_then(|threads| threads.last_mut()) {
                thread.add_frame(frame);
            }
        } else if !line.starts_with(' ') {
            rank = naming::find_rank_in_line(line).or(rank);
        }
    }
    all
}

/// Reads `Thread 0x00007f (most recent call first):` or `Current thread 0x..`; Python 3.14 adds the name.
pub(super) fn parse_thread_line(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("Current thread ")
        .or_else(|| line.strip_prefix("Thread "))?;
    let is_stack = line.contains("(most recent call first)");
    let id = rest
        .split_whitespace()
        .next()
        .filter(|id| id.starts_with("0x"));
    id.filter(|_| is_stack)
}

/// Reads `  File "/app/train.py", line 39 in layer`.
fn parse_frame_line(line: &str) -> Option<ThreadFrame> {
    let (file, rest) = line.strip_prefix("  File \"")?.split_once("\", line ")?;
    let (number, function) = rest.split_once(" in ")?;
    Some(ThreadFrame {
        function: function.trim().into(),
        file: shorten_path(file).into(),
        line: number.parse().ok(),
    })
}

/// Returns a path as py-spy shortens it: below `site-packages` or the library of Python, else the file's name.
fn shorten_path(path: &str) -> &str {
    for folder in ["site-packages/", "dist-packages/"] {
        if let Some((_, rest)) = path.rsplit_once(folder) {
            return rest;
        }
    }
    if let Some((_, rest)) = path.rsplit_once("/lib/python3")
        && let Some((_, rest)) = rest.split_once('/')
    {
        return rest;
    }
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thread_is_the_main_one() {
        let text = "Timeout (0:00:30)!\nThread 0x00007f01 (most recent call first):\n  File \"/usr/lib/python3.12/threading.py\", line 355 in wait\n\n\
            Thread 0x00007f00 [python] (most recent call first):\n  File \"/v/site-packages/torch/cuda/__init__.py\", line 1162 in synchronize\n  File \"/app/train.py\", line 76 in <module>\n\
            Thread 0x00007f00 (most recent call first):\n  <no Python frame>\n";
        let [first, again] = &read_faulthandler(text)[..] else {
            panic!();
        };
        let frames: Vec<_> = first
            .main_thread()
            .unwrap()
            .frames
            .iter()
            .map(|f| &*f.file)
            .collect();
        assert_eq!(frames, ["torch/cuda/__init__.py", "train.py"]);
        assert_eq!(&*first.threads[0].frames[0].file, "threading.py");
        assert_eq!(again.threads.len(), 1);
    }
}
