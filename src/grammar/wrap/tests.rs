//! Every wrapping, and what is none.

use super::*;
use proptest::prelude::*;

const LINE: &str = "node-1:21:22 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/\"CUMEM\" <0>";

fn wanted(text: &[u8]) -> bool {
    contains_nccl_line(text) || memmem::find(text, b"step:").is_some()
}

/// The lines that `line` holds, `None` where it is bare.
fn of(line: &str) -> Option<Vec<String>> {
    let unwrapped = unwrap_line(line.as_bytes(), &wanted)?;
    let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
    Some(unwrapped.lines().map(|(_, line)| text(line)).collect())
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&#34;")
}

/// A way to wrap a line, with its name.
type Wrap = (&'static str, fn(&str) -> String);

const WRAPS: &[Wrap] = &[
    ("notebook", |l| {
        format!("      {},", json(&format!("{l}\n")))
    }),
    ("notebook's last", |l| format!("   {}", json(l))),
    ("docker", |l| {
        let log = json(&format!("{l}\n"));
        format!("{{\"log\":{log},\"stream\":\"stderr\",\"time\":\"2026-04-28T14:14:49.1Z\"}}")
    }),
    ("collector", |l| {
        format!(
            "{{\"ts\": 1.5e9, \"labels\": {{\"app\": \"x\"}}, \"message\": {}}}",
            json(l)
        )
    }),
    ("stored twice", |l| {
        let line = json(l);
        format!("{{\"message\": {line}, \"event\": {{\"original\": {line}}}, \"n\": null}}")
    }),
    ("html in json", |l| {
        json(&format!("{l}\n")).replace('>', "\\u003e")
    }),
    ("one field on a line", |l| {
        format!("  \"textPayload\": {},", json(l))
    }),
    ("behind a label", |l| format!("{{\"log\": {}}}", json(l))),
    ("python's list", |l| {
        format!("['{}\\n']", l.replace('\'', "\\'"))
    }),
    ("python's bytes", |l| {
        format!("b'{}\\n'", l.replace('\'', "\\'"))
    }),
    ("cut at its begin", |l| {
        let line = json(&format!("{l}\n"));
        format!("{}],", &line[1..])
    }),
    ("cut at its end", |l| {
        let line = json(&format!("{l}\n"));
        format!("{{\"a\": 1, \"b\": {}", &line[..line.len() - 1])
    }),
    ("csv", |l| {
        format!(
            "2026-04-28 14:14:49,{},\"{}\",stdout",
            5,
            l.replace('"', "\"\"")
        )
    }),
    ("csv, first", |l| {
        format!("\"{}\";\"x\"", l.replace('"', "\"\""))
    }),
    ("html", html),
    ("html twice", |l| html(&html(l))),
    ("colours", |l| {
        format!(
            "\x1b[36;1m{}\x1b[0m",
            l.replace("NCCL INFO", "\x1b[31mNCCL INFO")
        )
    }),
    ("reset", |l| format!("{l}\x1b[0m\x1b[K")),
    ("title", |l| format!("\x1b]0;a title\x07\x1b(B{l}")),
    ("link", |l| {
        format!("\x1b]8;;http://x\x1b\\{l}\x1b]8;;\x1b\\")
    }),
    ("rsyslog", |l| format!("#033[36m{l}#033[0m")),
    ("cat -v", |l| format!("^[[36m{l}^[[0m")),
    ("shown", |l| {
        format!("\\x1b[36m{l}\\033[0m").replace("\\033", "\\x1b")
    }),
    ("lost", |l| format!("[36m{l}[0m")),
    ("ray", |l| format!("{l} [repeated 6x across cluster]")),
    ("ray's colours", |l| {
        format!("{l}\x1b[32m [repeated 6x across cluster]\x1b[0m")
    }),
    ("ray's lost ones", |l| {
        format!("{l} [32m [repeated 6x across cluster] [0m")
    }),
    ("ray's first", |l| {
        format!("{l} [repeated 2x across cluster] (see http://x/logging.html#log-deduplication)")
    }),
    ("markdown", |l| format!("``{l}``")),
    ("byte order", |l| format!("\u{feff}{l}")),
];

/// Wrappings that occur inside others.
const INNER: [&str; 9] = [
    "colours",
    "reset",
    "html",
    "docker",
    "ray's colours",
    "title",
    "notebook's last",
    "collector",
    "cat -v",
];

/// Those that a line wrapped in one of [`INNER`] is put into.
const OUTER: [&str; 8] = [
    "notebook",
    "docker",
    "collector",
    "one field on a line",
    "html in json",
    "csv",
    "html",
    "cut at its end",
];

fn wrap(name: &str, line: &str) -> String {
    let (_, wrap) = WRAPS.iter().find(|(n, _)| *n == name).unwrap();
    wrap(line)
}

#[test]
fn every_wrapping_is_taken_off() {
    for (name, wrap) in WRAPS {
        let text = wrap(LINE);
        assert_eq!(of(&text), Some(vec![LINE.to_owned()]), "{name}: {text}");
    }
}

#[test]
fn a_wrapping_in_another_is_taken_off() {
    for inner in INNER {
        for outer in OUTER {
            let text = wrap(outer, &wrap(inner, LINE));
            let lines = Some(vec![LINE.to_owned()]);
            assert_eq!(of(&text), lines, "{inner} in {outer}: {text}");
        }
    }
}

#[test]
fn a_line_may_hold_several() {
    let (a, b) = ("n:1:2 [0] NCCL INFO a", "n:1:2 [0] NCCL INFO b");
    for text in [
        format!("[\"{a}\\n\",\"{b}\\n\"]"),
        format!("{{\"cells\":[{{\"text\":[\"{a}\\n\", \"{b}\\n\"],\"n\":[]}}]}}"),
        format!("{{\"log\":\"{a}\\r\\n{b}\\n\"}}"),
        format!("{a}\\n{b}\\n\"]}}"),
        format!("{a}\\n\",\"{b}\\n\","),
        format!("{{\"message\":\"{a}\"}}{{\"message\":\"{b}\"}}"),
        format!("5,\"{a}\",\"{b}\""),
        format!("fatal: [h]: FAILED! => {{\"msg\": [\"{a}\\n{b}\\n\"]}}")
            .replace("fatal: [h]: FAILED! => {\"msg\": [\"", ""),
    ] {
        assert_eq!(of(&text), Some(vec![a.to_owned(), b.to_owned()]), "{text}");
    }
    // Equal events are two, a line under two names is one.
    let twice = format!("[{{\"message\":\"{a}\"}},{{\"message\":\"{a}\"}}]");
    assert_eq!(of(&twice).map(|l| l.len()), Some(2));
}

#[test]
fn a_label_in_front_of_a_record_stays_in_front_of_the_line() {
    let text = format!(
        "[pod/job-0/main] {{\"log\":{}}}",
        json(&format!("{LINE}\n"))
    );
    assert_eq!(of(&text), Some(vec![format!("[pod/job-0/main] {LINE}")]));
}

#[test]
fn what_is_not_wrapped_is_left_alone() {
    for line in [
        LINE,
        "",
        "\"",
        "h:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to \"mlx5_0\"",
        "h:1:2 [0] NCCL INFO NCCL_TOPO_FILE set by environment to C:\\new\\t.xml",
        "h:1:2 [0] NCCL INFO x | a & b; c && d",
        "## [170260.347287] [07:00] 000001 KL HWID 42300700",
        "{'loss': 0.5, 'epoch': '0.1'}",
        "{\"step\": 5, \"loss\": 1.5, \"name\": \"x\"}",
        ":::MLLOG {\"namespace\": \"\", \"key\": \"train_loss\", \"metadata\": {\"file\": \"a\\n\"}}",
        "Namespace(prompt='a\\nb', n=5)",
        "elapsed [2m30s] of [3m",
        "[rank0]: torch.OutOfMemoryError: \"x\"",
        "a `word` and another",
        "RuntimeError: NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.10.3",
        "https://host/?a=1&lt=2&gt",
    ] {
        assert_eq!(of(line), None, "{line}");
    }
}

#[test]
fn places_are_those_of_the_wrapped_line() {
    let inner = format!("\x1b[36m(W pid=1)\x1b[0m {LINE}");
    let text = wrap("docker", &html(&inner));
    let unwrapped = unwrap_line(text.as_bytes(), &wanted).unwrap();
    for word in ["node-1", "NCCL", "CUMEM", "via"] {
        let here = memmem::find(unwrapped.text(), word.as_bytes()).unwrap();
        assert_eq!(
            Some(unwrapped.source_offset(here)),
            text.find(word),
            "{word}"
        );
    }
    let text = b"a\x1b[31mbc\x1b[38;2;1;2;3m\x1b[0md\x1b[0m";
    let clean = strip_escapes(text).unwrap();
    assert_eq!(clean.text(), b"abcd");
    for (at, byte) in (0..).zip(b"abcd") {
        assert_eq!(text[clean.source_offset(at)], *byte);
    }
    assert_eq!(clean.source_offset(4), text.len());
    assert_eq!(strip_escapes(b"plain"), None);
}

#[test]
fn lines_of_many_wrappings_take_no_long_time() {
    for text in [
        "&amp;".repeat(50_000),
        "\"".repeat(100_000),
        "\x1b]".repeat(100_000),
        "[\"\\n\",".repeat(50_000),
        "NCCL \\n\" ".repeat(20_000),
        format!("NCCL {}", "[1".repeat(100_000)),
        "a,\"\"".repeat(50_000),
    ] {
        let _ = of(&text);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_and_places_stay_in_the_line(
        bytes in proptest::collection::vec(prop_oneof![
            4 => any::<u8>(),
            1 => prop::sample::select(&b"\"'\\n,:{}[]&;#\x1bm"[..]),
        ], 0..200),
        nccl in any::<bool>(),
    ) {
        let bytes = if nccl { [b"NCCL ", &bytes[..]].concat() } else { bytes };
        let bytes: Vec<u8> = bytes.into_iter().filter(|&b| b != b'\n').collect();
        if let Some(unwrapped) = unwrap_line(&bytes, &wanted) {
            let places: Vec<usize> =
                (0..=unwrapped.text().len()).map(|at| unwrapped.source_offset(at)).collect();
            prop_assert!(places.iter().all(|&place| place <= bytes.len()));
            prop_assert!(places.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }

    #[test]
    fn printed_text_comes_back_from_every_wrapping(
        text in "[ -%'-~]{0,60}",
        outer in 0..OUTER.len(),
    ) {
        let line = format!("h:1:2 [0] NCCL INFO a{text}b");
        if of(&line).is_none() {
            let wrapped = wrap(OUTER[outer], &line);
            let lines = (wrapped != line).then(|| vec![line]);
            prop_assert_eq!(of(&wrapped), lines, "{}", wrapped);
        }
    }
}
