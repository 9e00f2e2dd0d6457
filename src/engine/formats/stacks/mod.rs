//! Stacks of a job's processes: `py-spy dump` as text and JSON, gdb's `thread apply all bt`, and Python's
//! faulthandler. An input may hold those of several processes, or of one at several times.

mod faulthandler;
mod gdb;
mod limits;
mod naming;
mod process;
mod py_spy;

pub use process::{ProcessStacks, ThreadFrame, ThreadStack};

use super::ordered;
use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::error::Result;
use crate::source::Input;
use limits::{MAX_LINES_BEFORE_HEADER, MAX_RANK_LINE_BYTES, MAX_STACKS_BYTES};
use memchr::memmem;

/// The text of `py-spy dump`.
pub(super) const PY_SPY: InputFormat = InputFormat {
    name: "stacks",
    what: "stacks of processes (py-spy dump)",
    tells: Provides::STACKS,
    probe: |head| {
        let is_main = py_spy::is_main_thread_line;
        let is_first = |line: &str| py_spy::parse_process_line(line).is_some() || is_main(line);
        let is_mark = |line: &str| line.starts_with("Python v") || is_main(line);
        probe_text(head, is_first, is_mark)
    },
};

/// The JSON of `py-spy dump --json`.
pub(super) const PY_SPY_JSON: InputFormat = InputFormat {
    probe: |head| {
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        let is_list = head.bytes.trim_ascii_start().starts_with(b"[");
        let has_keys = has(b"\"os_thread_id\"") && has(b"\"owns_gil\"");
        head.probe_recorder(is_list && has_keys)
    },
    ..PY_SPY
};

/// The text of gdb.
pub(super) const GDB: InputFormat = InputFormat {
    what: "stacks of processes (gdb, thread apply all bt)",
    probe: |head| {
        let begins = [
            "[New LWP ",
            "Attaching to ",
            "[Thread debugging ",
            "Using host libthread_db ",
            "GNU gdb ",
            "(gdb) ",
        ];
        let is_first = |line: &str| {
            gdb::is_thread_line(line)
                || line.contains(" received signal SIG")
                || begins.iter().any(|begin| line.starts_with(begin))
        };
        probe_text(head, is_first, gdb::is_thread_line)
    },
    ..PY_SPY
};

/// The text of faulthandler.
pub(super) const FAULTHANDLER: InputFormat = InputFormat {
    what: "stacks of processes (Python's faulthandler)",
    probe: |head| {
        let is_thread = |line: &str| faulthandler::parse_thread_line(line).is_some();
        // Those behind `Fatal Python error: ` are of a process that crashed: a log's line.
        let is_first = |line: &str| is_thread(line) || line.starts_with("Timeout (");
        probe_text(head, is_first, is_thread)
    },
    ..PY_SPY
};

/// Recognises a text by its first line, before which a few lines may come, and by a mark that any line from there on
/// may be.
fn probe_text(
    head: &InputHead<'_>,
    is_first: impl Fn(&str) -> bool,
    is_mark: impl Fn(&str) -> bool,
) -> ProbeAnswer {
    let mut lines = head.lines().map(String::from_utf8_lossy).peekable();
    let mut is_begun = false;
    for _ in 0..MAX_LINES_BEFORE_HEADER {
        let Some(line) = lines.peek() else { break };
        is_begun = is_first(line);
        if is_begun || !may_come_before(line) {
            break;
        }
        lines.next();
    }
    let is_open = lines.peek().is_none();
    match is_begun && lines.any(|line| is_mark(&line)) {
        true => head.probe_recorder(true),
        false => head.no_once_closed(is_begun || is_open),
    }
}

/// True for a line with the time or the rank, which a script prints before the stacks, for one that names the tool,
/// as of a program that dumps its own stacks, and for a person's label or fence. Any other line is a log's, and a
/// pipe of a log is not to wait.
fn may_come_before(line: &str) -> bool {
    let names_tool = ["py-spy", "Pyspy"].iter().any(|tool| line.contains(tool));
    let is_label = line.is_empty() || line.ends_with(':') || line.starts_with("```");
    let is_short = line.len() <= MAX_RANK_LINE_BYTES && !line.contains("NCCL");
    let is_rank = naming::find_rank_in_line(line).is_some();
    is_short && (is_rank || is_label || names_tool) || super::ras::is_time_line(line.as_bytes())
}

/// The stacks of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadStacks {
    /// The processes, in the order of the text.
    pub processes: Vec<ProcessStacks>,
    /// True if a part of it could not be read.
    pub is_damaged: bool,
}

/// Reads the stacks of the file `name`.
pub fn parse_stacks(bytes: &[u8], name: &str) -> ReadStacks {
    let mut read = match bytes.trim_ascii_start().first() {
        Some(b'[') if memmem::find(bytes, b"\"owns_gil\"").is_some() => {
            let (processes, is_damaged) = py_spy::read_py_spy_json(bytes);
            ReadStacks {
                processes,
                is_damaged,
            }
        }
        _ => {
            let text = strip_quotation(&String::from_utf8_lossy(bytes));
            let is_any = |is: &dyn Fn(&str) -> bool| text.lines().any(is);
            let is_py_spy = |line: &str| {
                py_spy::parse_process_line(line).is_some() || py_spy::is_main_thread_line(line)
            };
            let processes = if is_any(&is_py_spy) {
                py_spy::read_py_spy(&text)
            } else if is_any(&gdb::is_thread_line) || is_any(&gdb::asks_for_stack) {
                gdb::read_gdb(&text)
            } else {
                faulthandler::read_faulthandler(&text)
            };
            ReadStacks {
                processes,
                is_damaged: false,
            }
        }
    };
    let pids = read.processes.iter().map(|process| process.pid);
    let is_one = pids.clone().all(|pid| Some(pid) == pids.clone().next());
    // With `--subprocesses` the process comes before its workers.
    let first = read.processes.first().and_then(|process| process.pid);
    for process in &mut read.processes {
        process.find_main_thread();
        process.rank = process.rank.or_else(|| match is_one {
            true => naming::find_rank_in_name(name, process.pid),
            false if process.pid == first => naming::find_word_rank_in_name(name),
            false => None,
        });
    }
    read
}

/// Strips what a person's text has in front of each line of a stack: blanks, marks of a quotation.
fn strip_quotation(text: &str) -> String {
    let is_mark = |c: char| c == '>' || c.is_whitespace();
    let mut begins = text.lines().filter_map(|line| {
        let rest = line.trim_start_matches(is_mark);
        let is_header =
            py_spy::is_main_thread_line(rest) || faulthandler::parse_thread_line(rest).is_some();
        is_header.then(|| &line[..line.len() - rest.len()])
    });
    match begins.next() {
        None | Some("") => text.to_owned(),
        Some(begin) => {
            let lines = text
                .lines()
                .map(|line| line.strip_prefix(begin).unwrap_or(line));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Reads the stacks of an input.
///
/// # Errors
/// It cannot be read, or is too long.
pub fn load_stacks(input: &Input) -> Result<ReadStacks> {
    let bytes = ordered::read_whole(input, MAX_STACKS_BYTES)?;
    Ok(parse_stacks(&bytes, &input.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_in_the_name_of_a_file_with_one_process() {
        let one =
            "Process 603: a\nPython v3\n\nThread 603 (idle): \"MainThread\"\n    f (a.py:1)\n";
        let read = parse_stacks(one.as_bytes(), "stack.rank3.txt.gz");
        assert_eq!(
            (read.processes[0].rank, read.processes[0].main),
            (Some(3), Some(0))
        );
        let two = format!("{one}{}", one.replace("603", "604"));
        let read = parse_stacks(two.as_bytes(), "stack.rank3.txt");
        let ranks = read.processes.iter().map(|p| p.rank);
        assert_eq!(ranks.collect::<Vec<_>>(), [Some(3), None]);
        let read = parse_stacks(two.as_bytes(), "stack.3.txt");
        assert_eq!(
            read.processes.iter().map(|p| p.rank).collect::<Vec<_>>(),
            [None, None]
        );
    }

    #[test]
    fn quoted_stacks_are_read() {
        let text = "it hangs:\n> Thread 603 (idle): \"MainThread\"\n>     f (a.py:1)\n>     g (a.py:2)\nwhy?\n";
        let read = parse_stacks(text.as_bytes(), "");
        assert_eq!(read.processes[0].threads[0].frames.len(), 2);
    }

    #[test]
    fn any_bytes_are_read() {
        let texts = [
            "Process 1: a\nPython v3\nThread 1 (idle): \"M\"\n    f (a.py:1)\n    g (b:99999999999)\n    h ()\n",
            "Thread 1 (Thread 0x7f (LWP 99999999999999999999)):\n#0  f (\n#x  g\n#1  0x1 in h () at :\n",
            "Thread 0x1 (most recent call first):\n  File \"a\", line 9 in \n  File \"\", line x in y\n",
            "[{\"owns_gil\": 1, \"os_thread_id\": -1, \"frames\": [{\"name\": \"f\", \"line\": -5}]}]",
        ];
        for text in texts {
            for to in 0..=text.len() {
                _ = parse_stacks(&text.as_bytes()[..to], "rank\u{e9}");
                _ = parse_stacks(&text.as_bytes()[to..], "");
            }
        }
    }
}
