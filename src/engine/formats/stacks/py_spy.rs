//! What `py-spy dump` prints: text, or a JSON list of threads (`--json`).

use super::naming;
use super::process::{ProcessStacks, ThreadFrame, ThreadStack};
use serde::Deserialize;

/// Reads the text of one or several dumps. The number of a main thread is that of its process, on Linux: where people
/// leave the line of the process out, or put the headers of processes with equal frames above one copy of them, the
/// main threads are those of processes.
pub(super) fn read_py_spy(text: &str) -> Vec<ProcessStacks> {
    let mut all: Vec<ProcessStacks> = Vec::new();
    let (mut rank, mut counted) = (None, 0_u32);
    // The next frame belongs to the last thread of each of these processes.
    let mut open = 0..0;
    let mut has_frames = true;
    for (line, number) in text.lines().zip(0..) {
        let thread = parse_thread_line(line, number);
        let own = thread.as_ref().filter(|thread| thread.is_main());
        let known = all.last().filter(|last| last.main_thread_id().is_none());
        let pid = parse_process_line(line).or(match known {
            Some(last) if last.pid.is_some() => None,
            _ => own.and_then(|thread| thread.os_id),
        });
        if let Some(pid) = pid {
            counted = counted.saturating_sub(1);
            all.push(ProcessStacks {
                pid: Some(pid),
                rank: rank.take(),
                line: number,
                ..ProcessStacks::default()
            });
        }
        if let Some(thread) = thread {
            let at = all.len().saturating_sub(1);
            let from = if has_frames { at } else { open.start };
            (open, has_frames) = (from..all.len(), false);
            if let Some(process) = all.last_mut() {
                process.threads.push(thread);
            }
        } else if let Some(frame) = parse_frame_line(line) {
            has_frames = true;
            if let Some(last) = all.last_mut() {
                last.others += std::mem::take(&mut counted);
            }
            for process in &mut all[open.clone()] {
                if let Some(thread) = process.threads.last_mut() {
                    thread.add_frame(frame.clone());
                }
            }
        } else {
            has_frames = true;
            if pid.is_none() && !line.starts_with(' ') {
                rank = naming::find_rank_in_line(line).or(rank);
            }
            if !line.is_empty() && !line.starts_with("```") {
                counted = naming::find_count_in_label(line).unwrap_or(0);
            }
        }
    }
    all
}

/// True for the line of a main thread.
pub(super) fn is_main_thread_line(line: &str) -> bool {
    parse_thread_line(line, 0).is_some_and(|thread| thread.is_main())
}

/// Reads `Process 603: python3 train.py`.
pub(super) fn parse_process_line(line: &str) -> Option<u64> {
    let (pid, _) = line.strip_prefix("Process ")?.split_once(':')?;
    pid.parse().ok()
}

/// Reads `Thread 603 (idle): "MainThread"`; the number may be hexadecimal, and `+gil` may follow the state.
fn parse_thread_line(line: &str, number: u64) -> Option<ThreadStack> {
    let rest = line.strip_prefix("Thread ")?;
    let (id, rest) = rest.split_once(" (")?;
    let (state, name) = rest.split_once(')')?;
    let is_idle = match state.split('+').next()? {
        "idle" => true,
        "active" => false,
        _ => return None,
    };
    let name = name
        .strip_prefix(':')
        .map(|name| name.trim().trim_matches('"'));
    Some(ThreadStack {
        name: name.filter(|name| !name.is_empty()).map(Into::into),
        os_id: id.parse().ok(),
        is_idle: Some(is_idle),
        frames: Vec::new(),
        line: number,
    })
}

/// Reads `    layer (train.py:39)`; a frame of a library has no line. Values of variables are indented more.
fn parse_frame_line(line: &str) -> Option<ThreadFrame> {
    let rest = line
        .strip_prefix("    ")
        .filter(|rest| !rest.starts_with(' '))?;
    let (function, place) = rest.rsplit_once(" (")?;
    let place = place.trim_end().strip_suffix(')')?;
    let (file, number) = match place.rsplit_once(':') {
        Some((file, number)) if number.parse::<u32>().is_ok() => (file, number.parse().ok()),
        _ => (place, None),
    };
    Some(ThreadFrame {
        function: function.into(),
        file: file.into(),
        line: number,
    })
}

/// A thread as py-spy writes it to JSON.
#[derive(Deserialize)]
struct JsonThread {
    pid: Option<u64>,
    thread_name: Option<Box<str>>,
    os_thread_id: Option<u64>,
    active: Option<bool>,
    #[serde(default)]
    frames: Vec<JsonFrame>,
}

/// A frame as py-spy writes it to JSON.
#[derive(Deserialize)]
struct JsonFrame {
    name: Box<str>,
    short_filename: Option<Box<str>>,
    filename: Option<Box<str>>,
    line: Option<i64>,
}

/// Reads one or several lists of threads. What comes after a damaged list is not read; true if there is such a list.
pub(super) fn read_py_spy_json(bytes: &[u8]) -> (Vec<ProcessStacks>, bool) {
    let mut all: Vec<ProcessStacks> = Vec::new();
    let mut lists = serde_json::Deserializer::from_slice(bytes).into_iter::<Vec<JsonThread>>();
    loop {
        let (at, first) = (lists.byte_offset(), all.len());
        let threads = match lists.next() {
            None => return (all, false),
            Some(Err(_)) => return (all, true),
            Some(Ok(threads)) => threads,
        };
        let begin = bytes.get(..at).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', begin).count() as u64;
        for thread in threads {
            // `--subprocesses` puts several processes into one list.
            let known = all[first..]
                .iter_mut()
                .find(|process| process.pid == thread.pid);
            let process = match known {
                Some(process) => process,
                None => {
                    all.push(ProcessStacks {
                        pid: thread.pid,
                        line,
                        ..ProcessStacks::default()
                    });
                    all.last_mut().expect("it was pushed")
                }
            };
            process.threads.push(thread.into_stack(line));
        }
    }
}

impl JsonThread {
    fn into_stack(self, line: u64) -> ThreadStack {
        let mut stack = ThreadStack {
            name: self.thread_name,
            os_id: self.os_thread_id,
            is_idle: self.active.map(|active| !active),
            frames: Vec::new(),
            line,
        };
        for frame in self.frames {
            let file = frame.short_filename.or(frame.filename);
            stack.add_frame(ThreadFrame {
                function: frame.name,
                file: file.unwrap_or_default(),
                line: frame
                    .line
                    .and_then(|n| n.try_into().ok())
                    .filter(|&n| n > 0),
            });
        }
        stack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "rank 4:\nProcess 603: python3 train.py\nPython v3.12.3 (/usr/bin/python3.12)\n\n\
        Thread 603 (idle): \"MainThread\"\n    layer (train.py:39)\n        Arguments:\n            n: (1:2)\n\
        \x20   <module> (train.py:75)\nThread 0x7F01 (active+gil): \"Thread-1 (run)\"\n    futex_wait (libc.so.6)\n";

    #[test]
    fn text_is_read() {
        let [process] = &read_py_spy(TEXT)[..] else {
            panic!();
        };
        assert_eq!((process.pid, process.rank), (Some(603), Some(4)));
        let [main, other] = &process.threads[..] else {
            panic!("{process:?}");
        };
        let frames: Vec<_> = main.frames.iter().map(|f| (&*f.function, f.line)).collect();
        assert_eq!(frames, [("layer", Some(39)), ("<module>", Some(75))]);
        assert_eq!((main.is_idle, other.is_idle), (Some(true), Some(false)));
        assert_eq!(
            (&*other.frames[0].file, other.frames[0].line),
            ("libc.so.6", None)
        );
    }

    #[test]
    fn main_threads_without_a_process_are_processes() {
        let text = "2 of them:\nThread 71 (active): \"MainThread\"\nThread 72 (active): \"MainThread\"\n    \
            broadcast (distributed.py:9)\n    <module> (train.py:75)\nrank 3\nThread 74 (idle): \"MainThread\"\n    \
            get (queue.py:179)\nThread 75 (idle)\n    run (queue.py:1)\n";
        let all = read_py_spy(text);
        let told: Vec<_> = (all.iter())
            .map(|one| {
                (
                    one.pid,
                    one.rank,
                    one.threads[0].frames.len(),
                    one.threads.len(),
                )
            })
            .collect();
        let expected = [(71, None, 2, 1), (72, None, 2, 1), (74, Some(3), 1, 2)];
        assert_eq!(
            told,
            expected.map(|(pid, rank, frames, threads)| (Some(pid), rank, frames, threads))
        );
    }

    #[test]
    fn a_label_has_the_number_of_processes_with_a_stack() {
        let text = "On each node 6 processes are in:\n\n```\nThread 71 (active): \"MainThread\"\n    train (train.py:9)\n```\n\
            and 2 of them:\nThread 72 (idle): \"MainThread\"\nThread 73 (idle): \"MainThread\"\n    get (queue.py:179)\n";
        let all = read_py_spy(text);
        let told: Vec<_> = all.iter().map(|one| (one.pid, one.others)).collect();
        assert_eq!(told, [(Some(71), 5), (Some(72), 0), (Some(73), 0)]);
    }

    #[test]
    fn lists_that_follow_each_other_are_read() {
        let json = include_str!("../../../../testdata/ras/crossed/stack.rank2.json");
        let (twice, is_damaged) = read_py_spy_json(format!("{json}{json}[{{").as_bytes());
        assert_eq!((twice.len(), is_damaged), (2, true));
        assert_eq!(twice[0].threads, {
            let mut threads = twice[1].threads.clone();
            threads.iter_mut().for_each(|thread| thread.line = 0);
            threads
        });
        let frames = &twice[0].threads[0].frames;
        assert_eq!(
            (&*frames[0].file, frames[0].line),
            ("torch/cuda/__init__.py", Some(1162))
        );
    }
}
