//! A message of any bytes: the grammar does not panic, a value gives all its items, and of a
//! message whose end is missing only lists are given, flagged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::header::HeaderLevel;
use nccl_pipe::grammar::message::graph::GraphMessage;
use nccl_pipe::grammar::message::graph::nvls::NvlsMessage;
use nccl_pipe::grammar::message::network::net::NetMessage;
use nccl_pipe::grammar::message::setup::version;
use nccl_pipe::grammar::message::{self, NcclMessage, c10d};
use nccl_pipe::grammar::nccl_tests::{self, BenchmarkLine};
use nccl_pipe::grammar::short_header;

/// The items of a value, and whether it is a list that is flagged.
fn items(message: &NcclMessage<'_>) -> (usize, bool) {
    match message {
        NcclMessage::Timings(timings) => (timings.parts().count(), false),
        NcclMessage::Net(NetMessage::Nics(nics)) => (nics.iter().count(), nics.cut),
        NcclMessage::Graph(GraphMessage::Trees(trees)) => (trees.iter().count(), trees.cut),
        NcclMessage::Graph(GraphMessage::Ring(ring)) => (ring.ranks().count(), ring.cut),
        NcclMessage::Nvls(NvlsMessage::Head(head)) => (head.ranks().count(), head.cut),
        _ => (0, false),
    }
}

/// Reads the first line as the header of a table of nccl-tests, and the rest as a row of it.
fn read_table(bytes: &[u8]) {
    let clean = nccl_tests::remove_output_tags(bytes);
    let mut lines = clean.split(|b| *b == b'\n');
    let header = lines.next().and_then(nccl_tests::parse_benchmark_line);
    let rest: Vec<&[u8]> = lines.collect();
    for line in &rest {
        let _ = nccl_tests::parse_benchmark_line(line);
        if let Some(BenchmarkLine::Columns(columns)) = &header
            && let Some(mut row) = columns.read_row(line)
        {
            for values in &rest {
                row.add_values(columns, values);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    read_table(bytes);
    for level in [
        HeaderLevel::Info,
        HeaderLevel::Warn,
        HeaderLevel::Attention,
        HeaderLevel::Fatal,
        HeaderLevel::Diagnostic,
        HeaderLevel::Call,
        HeaderLevel::Trace,
    ] {
        if let Some(message) = message::parse_message(level, bytes) {
            let (items, _) = items(&message);
            assert!(items <= bytes.len(), "{message:?}");
        }
        if let Some(message) = message::parse_cut_message(level, bytes) {
            assert!(items(&message).1, "{message:?}");
        }
    }
    if let Some(short) = short_header::parse_short_line(bytes) {
        assert!(short.level_at <= bytes.len(), "{short:?}");
    }
    let _ = (
        c10d::parse_c10d_line(bytes),
        c10d::parse_wrapped_timeout(bytes, bytes),
        version::parse_headerless_version(bytes),
    );
});
