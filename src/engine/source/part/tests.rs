use super::known_lines::KnownLines;
use super::line_split::SplitLine;
use super::line_template::CallLineTemplate;
use super::*;
use crate::source::coded::UnpackDamageSlot;
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::{Cursor, Read};

fn source(addresses: bool) -> PartSource {
    PartSource {
        name: "nccl.log".to_owned(),
        host: "node01".to_owned(),
        bytes: 7,
        hash: "ab".to_owned(),
        listed: false,
        utf16: false,
        addresses,
    }
}

fn pack(text: &[u8], addresses: bool) -> Vec<u8> {
    let pack = |jobs, text| {
        let mut part = Vec::new();
        let end = || (PartContents::default(), None);
        write_part(&source(addresses), text, jobs, &mut part, end).unwrap();
        part
    };
    let part = pack(1, PartText::Whole(text));
    if text.len() > limits::FRAME_TEXT_BYTES / 2 {
        assert!(part == pack(3, PartText::Read(Box::new(text))));
    }
    part
}

fn unpack(part: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    PartReader::new(part, UnpackDamageSlot::default()).read_to_end(&mut text)?;
    Ok(text)
}

const CALL: &str = "2026-11-27 08:09:59.000123 node1:77:78 [0] NCCL INFO AllReduce: opCount 1f sendbuff \
    0x7f00 recvbuff 0x7f10 count 4096 datatype 7 op 0 root 0 comm 0xabc0 [nranks=8] stream 0x55";

#[test]
fn lines_come_back_as_they_were() {
    let lines = [
        CALL.to_owned(),
        CALL.replace("1f", "20").replace("59.000123", "58.999999"),
        CALL.replace("1f", "0x1f"),
        CALL.replace("1f", "01F"),
        CALL.replace("2026", "99999999999999999999"),
        CALL.replace("0x7f00", "(nil)"),
        CALL.replace("0x7f00", "0x007f00"),
        CALL.replace("node1:", "node1\u{1}:"),
        CALL.replace('\n', "\r\n"),
        "node1:77:78 [0] NCCL INFO Channel 00/02 : 0 1".to_owned(),
        "opCount 1 NCCL INFO".to_owned(),
        " NCCL opCount ".to_owned(),
        String::new(),
    ];
    let text = lines.join("\n").into_bytes();
    for text in [&text[..], &[&text[..], b"\n"].concat(), b"", b"\n", b"\n\n"] {
        assert_eq!(unpack(&pack(text, true)).unwrap(), text);
    }
}

#[test]
fn without_addresses_they_are_zero_but_a_communicators() {
    let text = unpack(&pack(format!("{CALL}\n").as_bytes(), false)).unwrap();
    let zeros = [("0x7f00", "0x0000"), ("0x7f10", "0x0000"), ("0x55", "0x00")];
    let want = zeros
        .iter()
        .fold(CALL.to_owned(), |text, (is, zero)| text.replace(is, zero));
    assert_eq!(String::from_utf8(text).unwrap(), format!("{want}\n"));
}

#[test]
fn a_part_that_is_cut_or_changed_is_never_taken_for_a_whole_one() {
    let text = format!("{CALL}\nINIT\n").repeat(50);
    let part = pack(text.as_bytes(), true);
    let facts = read_part_facts(&mut Cursor::new(&part)).unwrap();
    assert_eq!(facts.source, source(true));
    assert_eq!(
        (facts.totals.text_bytes, facts.totals.lines),
        (text.len() as u64, 100)
    );
    for len in 0..part.len() {
        assert!(
            read_part_facts(&mut Cursor::new(&part[..len])).is_err(),
            "{len}"
        );
        assert!(
            unpack(&part[..len]).is_err() || len >= part.len() - 8,
            "{len}"
        );
    }
    let start = part.iter().position(|&byte| byte == b'}').unwrap() + 1;
    for at in start..part.len() {
        let mut part = part.clone();
        part[at] ^= 0x10;
        let read = unpack(&part);
        assert!(read.is_err() || read.unwrap() == text.as_bytes(), "{at}");
    }
    let mut other = part;
    other[4] = 2;
    let error = read_part_facts(&mut Cursor::new(&other)).unwrap_err();
    assert!(error.to_string().contains("found version 2"), "{error}");
}

#[test]
fn parts_that_were_put_together_are_read_to_the_end() {
    let (one, other) = (pack(b"one\n", true), pack(b"other\n", false));
    let both = [one.clone(), other].concat();
    assert_eq!(unpack(&both).unwrap(), b"one\nother\n");
    for follows in [&b"x"[..], b"garbage\n", &both[..6]] {
        assert!(
            unpack(&[&one[..], follows].concat()).is_err(),
            "{follows:?}"
        );
    }
}

#[test]
fn lines_longer_than_a_frame_and_frames_without_lines() {
    for len in [
        limits::FRAME_TEXT_BYTES - 1,
        limits::FRAME_TEXT_BYTES,
        limits::FRAME_TEXT_BYTES + 1,
        9 << 20,
    ] {
        let mut text = vec![b'x'; len];
        text.extend_from_slice(format!("\n{CALL}\n{CALL}").as_bytes());
        assert!(unpack(&pack(&text, true)).unwrap() == text, "{len}");
    }
}

/// Pieces that calls' lines are made of, in any order.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b" NCCL ".to_vec()),
        Just(b"opCount ".to_vec()),
        Just(b" 0x".to_vec()),
        Just(b"comm".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\x01".to_vec()),
        "[0-9]{1,20}".prop_map(String::into_bytes),
        "[0-9a-fA-F]{1,18}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..5),
        Just(CALL.as_bytes().to_vec()),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// Lines of a few templates, with what may be taken for a number or for text: digits of an operation, a
/// communicator that is null.
fn any_call() -> impl Strategy<Value = String> {
    let address = || {
        prop_oneof![
            9 => "0x7f[0-9a-f]{10}",
            1 => "0x[0-9a-f]{15,18}",
            1 => Just("(nil)".to_owned()),
            1 => Just("0x7fAB".to_owned()),
        ]
    };
    let one_of = |texts: &'static [&'static str]| proptest::sample::select(texts);
    (
        (
            one_of(&["", "", " 9: ", "10: ", "1234567890123456789 "]),
            one_of(&["n01:1:2", "n01:1:3", "n10:11:2", "a:11:2"]),
            one_of(&["Send", "Send0", "Send7", "Send NCCL "]),
            prop_oneof![4 => "[1-9a-f][0-9a-f]{0,3}", 1 => "0[0-9a-f]", 1 => "[0-9a-fA-F]{0,18}"],
        ),
        (address(), address(), one_of(&["7", "7", "80"])),
        one_of(&["m 0x000000000000", "m 0x7f0000000001", " 0x7f0000000001"]),
        (address(), one_of(&["", "", "", "\r", " opCount 5", "\u{1}"])),
    )
        .prop_map(|((stamp, name, op, at), (send, receive, n), comm, (stream, end))| {
            format!(
                "{stamp}{name} [0] NCCL INFO {op}: opCount {at} sendbuff {send} recvbuff {receive} \
                 count {n} com{comm} [nranks=8] stream {stream}{end}"
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]
    #[test]
    fn a_line_that_is_known_has_the_template_that_splitting_it_makes(
        lines in proptest::collection::vec(any_call(), 1..90),
        damage in proptest::option::of((0..9000_usize, any::<u8>())),
    ) {
        let mut text = lines.join("\n").into_bytes();
        if let Some((at, byte)) = damage {
            let at = at % text.len();
            text[at] = byte;
        }
        prop_assert_eq!(unpack(&pack(&text, true)).unwrap(), &text[..]);
        let (mut split, mut known) = (SplitLine::default(), KnownLines::default());
        let (mut templates, mut numbers) = (Vec::new(), HashMap::new());
        for line in text.split(|&byte| byte == b'\n') {
            let Some(at) = split.find_op_count(line) else {
                continue;
            };
            let found = known.find_template(line, at, &templates);
            let number = split.split_line(line, at).then(|| {
                let next = numbers.len();
                *numbers.entry(split.template.clone()).or_insert(next)
            });
            if number == Some(templates.len()) {
                templates.push(CallLineTemplate::parse_template(&split.template).unwrap());
                known.add_template(templates.len() - 1, &templates[templates.len() - 1]);
            }
            prop_assert!(found.is_none() || found == number, "{:?}", String::from_utf8_lossy(line));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn any_lines_come_back(text in any_line()) {
        prop_assert_eq!(unpack(&pack(&text, true)).unwrap(), text);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        at in 0usize..2000,
        bytes in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let text = format!("{CALL}\nINIT\n").repeat(9);
        let mut part = pack(text.as_bytes(), true);
        let at = at % part.len();
        part.splice(at..(at + bytes.len() / 2).min(part.len()), bytes);
        let _ = unpack(&part);
        let _ = read_part_facts(&mut Cursor::new(&part));
    }
}
