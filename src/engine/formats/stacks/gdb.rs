//! What gdb prints for `thread apply all bt`, from the highest thread to the main one, which has the number 1.

use super::naming;
use super::process::{ProcessStacks, ThreadFrame, ThreadStack};

/// Reads the stacks of one or several processes.
pub(super) fn read_gdb(text: &str) -> Vec<ProcessStacks> {
    let mut all: Vec<ProcessStacks> = Vec::new();
    let (mut rank, mut is_ended) = (None, true);
    // `bt` prints the stack of one thread, without the line that begins it.
    let mut is_asked = false;
    for (line, number) in text.lines().zip(0..) {
        if let Some((thread, is_main)) = parse_thread_line(line, number) {
            if std::mem::take(&mut is_ended) {
                all.push(ProcessStacks {
                    rank: rank.take(),
                    line: number,
                    ..ProcessStacks::default()
                });
            }
            if let Some(process) = all.last_mut() {
                if is_main {
                    process.main = Some(process.threads.len());
                    process.pid = process.pid.or(thread.os_id);
                    is_ended = true;
                }
                process.threads.push(thread);
            }
        } else if let Some(frame) = parse_frame_line(line) {
            if std::mem::take(&mut is_asked) {
                all.push(ProcessStacks {
                    rank: rank.take(),
                    line: number,
                    threads: vec![ThreadStack::default()],
                    main: Some(0),
                    ..ProcessStacks::default()
                });
                is_ended = true;
            }
            let threads = all.last_mut().map(|process| &mut process.threads);
            if let Some(thread) = threads.and_then(|threads| threads.last_mut()) {
                thread.add_frame(frame);
            }
        } else if let Some(pid) = parse_detached_line(line) {
            if let Some(process) = all.last_mut() {
                process.pid = Some(pid);
            }
            is_ended = true;
        } else if !line.starts_with(' ') {
            is_asked = asks_for_stack(line);
            rank = naming::find_rank_in_line(line).or(rank);
        }
    }
    all
}

/// True for `(gdb) bt`.
pub(super) fn asks_for_stack(line: &str) -> bool {
    let command = line.strip_prefix("(gdb) ").map(str::trim);
    matches!(command, Some("bt" | "where" | "backtrace"))
}

/// Reads `Thread 2 (Thread 0x7f0 (LWP 604) "pt_autograd"):`, and whether it is the first.
fn parse_thread_line(line: &str, number: u64) -> Option<(ThreadStack, bool)> {
    let (index, rest) = line.strip_prefix("Thread ")?.split_once(" (")?;
    let index: u64 = index.parse().ok()?;
    let (_, lwp) = rest.split_once("LWP ")?;
    let digits = lwp.len() - lwp.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let name = rest.split('"').nth(1);
    let thread = ThreadStack {
        name: name.map(Into::into),
        os_id: lwp[..digits].parse().ok(),
        is_idle: None,
        frames: Vec::new(),
        line: number,
    };
    Some((thread, index == 1))
}

/// True for the first line of a thread.
pub(super) fn is_thread_line(line: &str) -> bool {
    parse_thread_line(line, 0).is_some()
}

/// Reads `#1  0x00007f in poll (fds=0x1) at poll.c:29`, or `#0  0x00007f in cuStreamSynchronize () from /lib/libcuda.so`.
fn parse_frame_line(line: &str) -> Option<ThreadFrame> {
    let (index, rest) = line.strip_prefix('#')?.split_once(' ')?;
    index.parse::<u32>().ok()?;
    let rest = rest.trim_start();
    let rest = match rest.split_once(" in ") {
        Some((address, rest)) if address.starts_with("0x") => rest,
        _ => rest,
    };
    let end = rest.find(" (").unwrap_or(rest.len());
    let (function, place) = rest.split_at(end);
    let (file, number) = match (place.rsplit_once(" at "), place.rsplit_once(" from ")) {
        (Some((_, place)), _) => match place.rsplit_once(':') {
            Some((file, number)) => (file, number.trim().parse().ok()),
            None => (place, None),
        },
        (None, Some((_, file))) => (file, None),
        (None, None) => ("", None),
    };
    let file = file.rsplit('/').next().unwrap_or(file).trim();
    Some(ThreadFrame {
        function: function.trim().into(),
        file: file.into(),
        line: number,
    })
}

/// Reads `[Inferior 1 (process 603) detached]`.
fn parse_detached_line(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("[Inferior ")?.split_once("(process ")?;
    rest.split(')').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_the_process_are_read() {
        let text = "[New LWP 604]\n[Thread debugging using libthread_db enabled]\n\
            0x00007f in cuStreamSynchronize () from /lib/libcuda.so.1\n\n\
            Thread 2 (Thread 0x7f01 (LWP 604) \"pt_nccl_watchdg\"):\n#0  0x00007f in __futex_abstimed_wait_common () from /lib/libc.so.6\n\n\
            Thread 1 (Thread 0x7f00 (LWP 603) \"python3\"):\n#0  0x00007f in sched_yield () at ../sysdeps/unix/syscall-template.S:120\n\
            #1  0x00007f in cuStreamSynchronize () from /lib/libcuda.so.1\n#2  main (argc=1, argv=0x1) at /src/main.c:12\n\
            [Inferior 1 (process 603) detached]\nrank 1\nThread 1 (Thread 0x7f (LWP 700)):\n#0  f ()\n";
        let [one, other] = &read_gdb(text)[..] else {
            panic!();
        };
        assert_eq!(
            (one.pid, one.threads.len(), one.main),
            (Some(603), 2, Some(1))
        );
        let frames = &one.main_thread().unwrap().frames;
        let frames: Vec<_> = frames
            .iter()
            .map(|f| (&*f.function, &*f.file, f.line))
            .collect();
        assert_eq!(
            frames,
            [
                ("sched_yield", "syscall-template.S", Some(120)),
                ("cuStreamSynchronize", "libcuda.so.1", None),
                ("main", "main.c", Some(12))
            ]
        );
        assert_eq!(
            (other.pid, other.rank, other.main),
            (Some(700), Some(1), Some(0))
        );
    }

    #[test]
    fn one_thread_that_a_person_asked_for_is_read() {
        let text = "(gdb) bt   \n#0  0x00007f in sched_yield () at x.S:120\n#1  0x00007f in ?? ()\n   from /lib/libcuda.so.1\n\
            #2  0x00007f in cudaLaunchKernel ()\n   from /lib/libcudart.so.12\n";
        let [process] = &read_gdb(text)[..] else {
            panic!();
        };
        let frames = &process.main_thread().unwrap().frames;
        assert_eq!(&*frames[2].function, "cudaLaunchKernel");
        assert!(read_gdb("#0  f ()\n#1  main ()\n").is_empty());
    }
}
