//! A message of any bytes: the grammar does not panic, a value gives all its items, and of a
//! message whose end is missing only lists are given, flagged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::header::Level;
use nccl_pipe::grammar::message::graph::Graph;
use nccl_pipe::grammar::message::graph::nvls::Nvls;
use nccl_pipe::grammar::message::network::net::Net;
use nccl_pipe::grammar::message::setup::version;
use nccl_pipe::grammar::message::{self, Message, c10d};

/// The items of a value, and whether it is a list that is flagged.
fn items(message: &Message<'_>) -> (usize, bool) {
    match message {
        Message::Timings(timings) => (timings.parts().count(), false),
        Message::Net(Net::Nics(nics)) => (nics.iter().count(), nics.cut),
        Message::Graph(Graph::Trees(trees)) => (trees.iter().count(), trees.cut),
        Message::Graph(Graph::Ring(ring)) => (ring.ranks().count(), ring.cut),
        Message::Nvls(Nvls::Head(head)) => (head.ranks().count(), head.cut),
        _ => (0, false),
    }
}

fuzz_target!(|bytes: &[u8]| {
    for level in [Level::Info, Level::Warn, Level::Call, Level::Trace] {
        if let Some(message) = message::message(level, bytes) {
            let (items, _) = items(&message);
            assert!(items <= bytes.len(), "{message:?}");
        }
        if let Some(message) = message::cut(level, bytes) {
            assert!(items(&message).1, "{message:?}");
        }
    }
    let _ = (c10d::line(bytes), version::headerless(bytes));
});
