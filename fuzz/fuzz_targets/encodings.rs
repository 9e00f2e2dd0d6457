//! Text in UTF-16: it gives what it gives in UTF-8, through every way in, and any bytes after it or in it end
//! without a panic.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::log::mend::blocks::BLOCK_REJOINER;
use nccl_pipe::source::{Input, Options};
use nccl_pipe::stages::comms;
use nccl_pipe_fuzz::{Nobody, Work, drawn_small, gzip, options, report, whole_small};
use std::io::Read;

fn units(text: &str, is_big: bool) -> Vec<u8> {
    let bytes = |unit: u16| match is_big {
        true => unit.to_be_bytes(),
        false => unit.to_le_bytes(),
    };
    text.encode_utf16().flat_map(bytes).collect()
}

/// The text of a file, whether it is UTF-16, and whether it is damaged.
fn read(work: &Work, name: &str, bytes: &[u8]) -> (Vec<u8>, bool, bool) {
    let origin = work.file(name, bytes);
    let input = Input::open(&origin, Options::default(), BLOCK_REJOINER).expect("a file");
    let mut text = Vec::new();
    let mut reader = input.open_document().expect("a file");
    reader.read_to_end(&mut text).expect("a file");
    (text, input.is_utf16(), input.unpack_damage().is_some())
}

fn calls(work: &Work, bytes: &[u8], jobs: usize) -> Option<Vec<u8>> {
    let origins = [work.file("x.log", bytes)];
    let (mut table, mut report) = (Vec::new(), report());
    let all = comms::Options::default();
    comms::write_rows(
        &origins,
        &options(jobs, true),
        &all,
        &mut report,
        &Nobody,
        &mut table,
    )
    .ok()
    .map(|_| table)
}

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let (Ok(log), Ok(is_big), Ok(has_mark)) = (drawn_small(&mut u), u.arbitrary(), u.arbitrary())
    else {
        return;
    };
    let work = Work::default();
    let text = String::from_utf8_lossy(&log).into_owned();
    let mark = if has_mark { "\u{feff}" } else { "" };
    let coded = units(&format!("{mark}{text}"), is_big);
    let (plain, is_utf16, is_damaged) = read(&work, "x.log", &coded);
    let packed = read(&work, "x.gz", &gzip(&coded));
    assert_eq!(packed, (plain.clone(), is_utf16, is_damaged), "packed");
    if is_utf16 && !is_damaged {
        assert!(plain == text.as_bytes(), "all of the text");
        assert_eq!(calls(&work, text.as_bytes(), 2), calls(&work, &coded, 2));
    }
    // Another encoding after it, or before it.
    let rest: &[u8] = u.peek_bytes(u.len()).unwrap_or_default();
    let mixed = match rest.first().map_or(0, |b| b % 3) {
        0 => [&coded[..], text.as_bytes()].concat(),
        1 => [text.as_bytes(), &coded[..], rest].concat(),
        _ => [&coded[..coded.len() / 2], rest].concat(),
    };
    assert_eq!(calls(&work, &mixed, 1), calls(&work, &mixed, 3));
    // Text of one byte for each letter after it is text as well.
    if is_utf16 {
        let other = whole_small(&mut u);
        let (read, ..) = read(&work, "x.log", &[&coded[..], &other].concat());
        assert!(read.ends_with(&other), "a change of the encoding is read");
    }
});
