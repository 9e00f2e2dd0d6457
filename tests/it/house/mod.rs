//! The test of the house: what the sources may at most be. Each figure is a ceiling that may only fall.
//!
//! `cargo test --test it house:: -- --nocapture` prints the table of the present figures. Where a change
//! lowers one, lower its ceiling in the same commit.

mod circles;
mod measures;
mod sources;

use crate::support::root;
use measures::{Figures, measure};
use std::fmt::Write as _;

/// Lines of code that each room may have: without tests, comments and blank lines.
const ROOMS: [(&str, usize); 30] = [
    ("src/grammar", 13_783),
    ("src/recording", 1_300),
    ("src/profiler", 1_950),
    ("src/synth", 7_400),
    ("src/engine/source", 5_282),
    ("src/engine/members", 1_918),
    ("src/engine/log", 13_565),
    ("src/engine/formats", 13_049),
    ("src/engine/count", 3_856),
    ("src/engine/filter", 600),
    ("src/engine/output", 4_187),
    ("src/engine/report", 1_321),
    ("src/stages/calls", 4_852),
    ("src/stages/check", 29_045),
    ("src/stages/collect", 780),
    ("src/stages/diff", 1_850),
    ("src/stages/gpus", 1_600),
    ("src/stages/page", 3_906),
    ("src/stages/pictures", 400),
    ("src/stages/ranks/matrix", 3_150),
    ("src/stages/ranks/proxy", 570),
    ("src/stages/ranks/skew", 3_586),
    ("src/stages/setup/communicators", 3_107),
    ("src/stages/setup/net", 2_850),
    ("src/stages/setup/tuning", 1_095),
    ("src/stages/trainer", 1_870),
    ("src/stages/watch", 2_463),
    ("src/program", 2_263),
    ("src/bin", 2_618),
    ("src", 136_888),
];

/// Reads one figure.
type Measure = fn(&Figures) -> f64;

/// The other figures, as the table prints them.
const CEILINGS: [(&str, Measure, f64); 11] = [
    (
        "files over 400 lines of code",
        |f| f.long_files.len() as f64,
        0.0,
    ),
    (
        "functions over 80 lines",
        |f| f.long_functions.len() as f64,
        0.0,
    ),
    (
        "folders over 14 files (src/bin apart)",
        |f| f.large_folders.len() as f64,
        0.0,
    ),
    ("circles between files", |f| f.circles.len() as f64, 0.0),
    ("types that share a name, %", Figures::shared_percent, 3.1),
    (
        "parameters taken apart as tuples",
        |f| f.tuple_parameters.len() as f64,
        0.0,
    ),
    (
        "constants outside limits.rs",
        |f| f.constants.len() as f64,
        4.0,
    ),
    (
        "hard phrases per 1,000 words of comments",
        Figures::hard_per_thousand,
        0.3,
    ),
    (
        "functions named by one word, %",
        Figures::one_word_percent,
        16.1,
    ),
    (
        "TODO, todo!, unimplemented!",
        |f| f.unfinished.len() as f64,
        0.0,
    ),
    (
        "unsafe blocks outside src/engine/source and the profiler's ABI",
        |f| f.unsafe_elsewhere.len() as f64,
        0.0,
    ),
];

#[test]
fn the_house_stays_small() {
    let figures = measure(root());
    let mut table = String::new();
    let mut broken = Vec::new();
    for (room, ceiling) in ROOMS {
        let lines = figures.room(room);
        assert!(lines > 0, "the room {room} is gone: take it off the list");
        writeln!(table, "{lines:>8} of {ceiling:>7}  {room}").unwrap();
        if lines > ceiling {
            broken.push(format!(
                "{room} has {lines} lines of code, at most {ceiling}"
            ));
        }
    }
    for (name, value, ceiling) in CEILINGS {
        let value = value(&figures);
        writeln!(table, "{value:>8.1} of {ceiling:>7.1}  {name}").unwrap();
        if value > ceiling {
            broken.push(format!("{name}: {value:.1}, at most {ceiling:.1}"));
        }
    }
    println!("{table}");
    if std::env::var_os("HOUSE").is_some() {
        println!("{}", figures.places());
    }
    assert!(
        broken.is_empty(),
        "{}\nHOUSE=1 cargo test --test it house:: -- --nocapture lists the places.\n\
         Make the change smaller; a ceiling is raised only with its reason in the commit.",
        broken.join("\n")
    );
}
