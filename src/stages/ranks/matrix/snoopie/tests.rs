//! Snoopie's sample against the numbers of its own visualizer, hand-made files, and damage.

use super::fold::{AccessCounts, MemoryOwner};
use super::views;
use super::{AccessGrouping, SnoopieReadOptions, SnoopieRuns};
use crate::output::render::{Grid, TableCell as Field};
use crate::report::Report;
use crate::shared::data;
use crate::source::{self, InputName};
use crate::testing::Nobody;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn testdata(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("testdata/snoopie").join(name)
}

/// All files of a folder.
fn files(folder: &Path) -> Vec<InputName> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(InputName::Path).collect()
}

fn read(origins: &[InputName], sampling: u64) -> SnoopieRuns {
    let mut report = Report::new("a", false, true).silenced();
    SnoopieRuns::read(origins, options(sampling), &mut report, &Nobody).unwrap()
}

fn options(sampling: u64) -> SnoopieReadOptions<'static> {
    SnoopieReadOptions {
        source: source::Options { mmap: true },
        strict: false,
        sampling,
        filter: None,
    }
}

/// All cells of all processes.
fn cells(runs: &SnoopieRuns) -> impl Iterator<Item = (&super::fold::AccessKey, &AccessCounts)> {
    runs.by.values().flat_map(|run| run.fold.iter_cells())
}

fn column<'g>(grid: &'g Grid, name: &str) -> impl Iterator<Item = &'g Field<'static>> {
    let at = grid
        .columns
        .iter()
        .position(|column| column == name)
        .unwrap();
    grid.rows.iter().map(move |row| &row[at])
}

/// Accesses by what `key` makes of a cell.
fn sums<K: Ord>(
    runs: &SnoopieRuns,
    key: impl Fn(&super::fold::AccessKey) -> K,
) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (of, cell) in cells(runs) {
        *sums.entry(key(of)).or_default() += cell.accesses;
    }
    sums
}

/// The numbers of the original, headless, which needs an eleventh column for it. Its bytes of loads and
/// stores are 4 each, which happens to be right here.
#[test]
fn the_sample_has_the_numbers_of_snoopies_visualizer() {
    let Some(golden) = data("snoopie/golden_visualizer.json") else {
        return;
    };
    let sample = golden.with_file_name("stencil-p2p_4102198");
    let runs = read(&files(&sample), 1);
    let golden: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let gpu = |device| match device {
        MemoryOwner::Gpu(gpu) => gpu,
        _ => panic!("{device:?}"),
    };
    let matrix = sums(&runs, |key| (gpu(key.running), gpu(key.owner)));
    let bytes: u128 = cells(&runs).map(|(_, cell)| cell.bytes).sum();
    let mut all = 0;
    for issuer in 0..4 {
        for owner in 0..4 {
            let of = |name: &str| {
                golden[name][issuer as usize][owner as usize]
                    .as_u64()
                    .unwrap()
            };
            let n = matrix.get(&(issuer, owner)).copied().unwrap_or(0);
            assert_eq!(n, of("matrix_count_issuer_rows_owner_cols"));
            assert_eq!(4 * n, of("matrix_bytes"));
            all += n;
        }
    }
    assert_eq!(
        (all, bytes),
        (golden["rows"].as_u64().unwrap(), u128::from(4 * all))
    );
    let run = runs.by.values().next().unwrap();
    let object =
        |key: &super::fold::AccessKey| key.range.and_then(|at| run.fold.range_at(at)?.object);
    for (id, of) in golden["objects"].as_object().unwrap() {
        let id: u64 = id.parse().unwrap();
        let own = sums(&runs, |key| (object(key) == Some(id), gpu(key.owner)));
        let total: u64 = own.iter().filter(|((is, _), _)| *is).map(|(_, n)| n).sum();
        assert_eq!(total, of["ops"].as_u64().unwrap());
        for (owner, n) in of["by_owner_dev"].as_object().unwrap() {
            let owner: u64 = owner.parse().unwrap();
            assert_eq!(own[&(true, owner)], n.as_u64().unwrap());
        }
    }
    for (line, n) in golden["lines"].as_object().unwrap() {
        let number: u64 = line.rsplit(':').next().unwrap().parse().unwrap();
        let own = sums(&runs, |key| key.line == Some(number));
        assert_eq!(own[&true], n.as_u64().unwrap(), "{line}");
    }
    let warps: u64 = cells(&runs).map(|(_, cell)| cell.warps).sum();
    assert_eq!(warps, golden["warp_groups"].as_u64().unwrap());
    assert!(cells(&runs).all(|(_, cell)| cell.others == 0));
}

#[test]
fn hand_made_files_are_read_as_they_are() {
    let runs = read(&files(&testdata("edge")), 1);
    let text = |by, name: &str| -> Vec<String> {
        let grid = views::access_grid(&runs, &[by]);
        let cells = column(&grid, name);
        cells
            .map(|cell| match cell {
                Field::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Field::Int(n) => n.to_string(),
                _ => String::new(),
            })
            .collect()
    };
    // A row before the header, and true widths.
    assert_eq!(
        text(AccessGrouping::Op, "op"),
        [
            "LDG.E.128.SYS",
            "ST.E.U8",
            "STG.E",
            "STG.E",
            "cuMemcpyDtoDAsync_v2"
        ]
    );
    assert_eq!(
        text(AccessGrouping::Op, "bytes"),
        ["16", "1", "4", "4", "524288"]
    );
    // A load brings the owner's data.
    assert_eq!(
        text(AccessGrouping::Op, "from"),
        ["gpu0", "gpu1", "gpu1", "gpu1", "gpu1"]
    );
    assert_eq!(text(AccessGrouping::Op, "owner")[3], "pinned host");
    // The quotes of these are never closed.
    assert_eq!(
        text(AccessGrouping::Context, "launched_at")[0],
        "/src/wave.py:7 < /src/run.py:20"
    );
    // A name with a comma, and a call stack of one frame.
    let stacks = text(AccessGrouping::Object, "allocated_at");
    assert!(
        stacks.contains(&"pinned<float, 2>(unsigned long) pool.cu:6".to_owned()),
        "{stacks:?}"
    );
    assert!(stacks.contains(&"cudaMalloc < main wave.cu:19".to_owned()));
    assert_eq!(text(AccessGrouping::Line, "file")[0], "/src/wave.cu");
}

#[test]
fn sampled_rows_are_scaled_with_their_error() {
    let runs = read(&files(&testdata("halo")), 10);
    let grid = views::access_grid(&runs, &[AccessGrouping::Op]);
    assert!(column(&grid, "accesses").all(|n| *n == Field::Int(30_000)));
    // 96 warps, of which three have 8 lanes: the root of 10 * 9 * (93 * 32^2 + 3 * 8^2).
    let expect = (90.0 * (93.0 * 1024.0 + 3.0 * 64.0_f64)).sqrt();
    for error in column(&grid, "error") {
        let Field::Float(error) = error else {
            panic!("{error:?}")
        };
        assert!((error - expect).abs() < 1e-6, "{error} {expect}");
    }
}

#[test]
fn copies_are_not_sampled() {
    let runs = read(&files(&testdata("edge")), 10);
    let grid = views::access_grid(&runs, &[AccessGrouping::Op]);
    let numbers = |name: &str| column(&grid, name).cloned().collect::<Vec<_>>();
    let at = column(&grid, "kind")
        .position(|kind| *kind == "copy".into())
        .unwrap();
    assert_eq!(numbers("accesses")[at], Field::Int(1));
    assert_eq!(numbers("bytes")[at], Field::Int(1 << 19));
    assert_eq!(numbers("error")[at], Field::Empty);
}

/// A folder with some files of the hand-made run.
fn folder(dir: &Path, name: &str, device: &str) -> PathBuf {
    let folder = dir.join(name);
    std::fs::create_dir(&folder).unwrap();
    let log = std::fs::read(testdata("edge/snoopie_log_1.csv")).unwrap();
    std::fs::write(folder.join("snoopie_log_1.csv"), log).unwrap();
    let table = format!("offset,size,obj_id,dev_id\n0x00007f31c0a00000,2097152,4,{device}\n");
    std::fs::write(folder.join("address_range_log_1.txt"), table).unwrap();
    folder
}

#[test]
fn runs_of_one_number_in_two_folders_are_two() {
    let dir = tempfile::tempdir().unwrap();
    let mut origins = files(&folder(dir.path(), "a", "0"));
    origins.extend(files(&folder(dir.path(), "b", "3")));
    let runs = read(&origins, 1);
    let others = runs
        .by
        .values()
        .map(|run| run.fold.iter_cells().map(|(_, cell)| cell.others).sum());
    assert_eq!(others.collect::<Vec<u64>>(), [0, 4]);
    let mut matrix = crate::stages::matrix::cells::TrafficMatrix::default();
    super::add_accesses(
        &mut matrix,
        &runs,
        &Report::new("a", false, true).silenced(),
    );
    assert_eq!(matrix.entries().len(), 4);
}

#[test]
fn a_log_and_its_packed_form_count_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path(), "a", "0");
    let packed = std::fs::File::create(folder.join("snoopie_log_1.zst")).unwrap();
    let log = std::fs::File::open(folder.join("snoopie_log_1.csv")).unwrap();
    zstd::stream::copy_encode(log, packed, 1).unwrap();
    let all: u64 = cells(&read(&files(&folder), 1))
        .map(|(_, cell)| cell.accesses)
        .sum();
    assert_eq!(all, 5);
}

#[test]
fn a_cut_frame_has_its_whole_rows() {
    let whole = std::fs::read(testdata("halo/snoopie_log_20717.zst")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snoopie_log_1.zst");
    let mut before = 0;
    for cut in (0..whole.len()).step_by(whole.len() / 12) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut report = Report::new("a", false, true).silenced();
        let runs = SnoopieRuns::read(
            &[InputName::Path(path.clone())],
            options(1),
            &mut report,
            &Nobody,
        );
        let n: u64 = cells(&runs.unwrap_or_default())
            .map(|(_, cell)| cell.accesses)
            .sum();
        assert!((before..24_000).contains(&n), "{cut} {n}");
        before = n;
    }
    assert!(before > 12_000, "{before}");
}

#[test]
fn source_lines_have_their_accesses() {
    let runs = read(&files(&testdata("edge")), 1);
    let dir = tempfile::tempdir().unwrap();
    let mut text = "\n".repeat(57);
    text.push_str("\tx[i] = y;\n");
    std::fs::write(dir.path().join("wave.cu"), text).unwrap();
    let mut out = Vec::new();
    let report = Report::new("a", false, true).silenced();
    super::annotated::write_annotated_sources(&runs, dir.path(), &report, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("4 100.00 %     58:     x[i] = y;"), "{out}");
}

/// One log of these bytes.
fn of(bytes: &[u8]) -> SnoopieRuns {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snoopie_log_1.csv");
    std::fs::write(&path, bytes).unwrap();
    let mut report = Report::new("a", false, true).silenced();
    SnoopieRuns::read(&[InputName::Path(path)], options(1), &mut report, &Nobody)
        .unwrap_or_default()
}

fn log() -> Vec<u8> {
    let path = testdata("halo/snoopie_log_20717.zst");
    let text = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let mut lines = text.split_inclusive(|&b| b == b'\n');
    let some: Vec<&[u8]> = lines.by_ref().take(400).collect();
    some.concat()
}

#[test]
fn a_cut_log_has_its_whole_rows() {
    let log = log();
    for cut in (0..log.len()).step_by(97) {
        let part = &log[..cut];
        let rows = part
            .iter()
            .filter(|&&b| b == b'\n')
            .count()
            .saturating_sub(1) as u64;
        let sum: u64 = cells(&of(part)).map(|(_, cell)| cell.accesses).sum();
        assert_eq!(sum, rows, "{cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes that are turned make other numbers or damaged rows, and no more rows than there are lines.
    #[test]
    fn turned_bytes_invent_nothing(
        flips in proptest::collection::vec((0..20_000_usize, any::<u8>()), 1..9)
    ) {
        let mut log = log();
        for (at, byte) in flips {
            let at = at % log.len();
            log[at] ^= byte;
        }
        let lines = log.split(|&b| b == b'\n').count() as u64;
        let runs = of(&log);
        let sum: u64 = cells(&runs).map(|(_, cell)| cell.accesses).sum();
        prop_assert!(sum <= lines);
        // Instructions' names are not invented: what is none has no kind and no bytes.
        for (key, cell) in cells(&runs) {
            prop_assert!(key.kind.is_some() || cell.unsized_ == cell.accesses);
        }
        for by in [AccessGrouping::Op, AccessGrouping::Object, AccessGrouping::Line, AccessGrouping::Context] {
            views::access_grid(&runs, &[by]);
        }
    }

    /// A naive twin splits the lines of rows that are as the tool writes them.
    #[test]
    fn rows_add_up_as_in_a_naive_twin(
        rows in proptest::collection::vec((0..3_usize, 0..4_i32, -1..4_i32, 0..64_u64, 0..99_u64), 0..200)
    ) {
        const OPS: [(&str, u64, bool); 3] = [("STG.E", 4, false), ("LDG.E.128", 16, true), ("RED.E.ADD.F64", 8, false)];
        let mut text = String::from("op_code, addr, thread_indx, running_dev_id, mem_dev_id, code_linenum, code_line_index, code_line_estimated_status, obj_offset, mem_range\n");
        let mut twin: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for (op, running, owner, thread, addr) in rows {
            let (name, width, is_load) = OPS[op];
            text += &format!("{name},0x{addr:016x},{thread},{running},{owner},1,2,1,0x0000000000000000,4\n");
            if owner >= 0 {
                let ends = (format!("gpu{running}"), format!("gpu{owner}"));
                let ends = if is_load { (ends.1, ends.0) } else { ends };
                let sum = twin.entry(ends).or_default();
                *sum = (sum.0 + 1, sum.1 + width);
            }
        }
        let runs = of(text.as_bytes());
        let mut matrix = crate::stages::matrix::cells::TrafficMatrix::default();
        super::add_accesses(&mut matrix, &runs, &Report::new("a", false, true).silenced());
        let text = |end: &crate::stages::matrix::endpoints::Endpoint| String::from_utf8(end.to_text()).unwrap();
        let found: BTreeMap<(String, String), (u64, u64)> = matrix
            .entries()
            .iter()
            .map(|e| ((text(e.from), text(e.to)), (e.sum.calls, e.sum.bytes as u64)))
            .collect();
        prop_assert_eq!(found, twin);
    }
}

#[test]
fn a_packed_run_is_that_of_its_files() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results-20717.zip");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for file in files(&testdata("halo")) {
        let name = file
            .path()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let of = zip::write::SimpleFileOptions::default();
        // A name that leads elsewhere is no place to write to.
        zip.start_file(format!("../results-20717/{name}"), of)
            .unwrap();
        zip.write_all(&std::fs::read(file.path().unwrap()).unwrap())
            .unwrap();
    }
    zip.finish().unwrap();
    let (packed, plain) = (
        read(&[InputName::Path(path)], 1),
        read(&files(&testdata("halo")), 1),
    );
    let rows = |runs: &SnoopieRuns| {
        let grid = views::access_grid(runs, &[AccessGrouping::Object]);
        let rows = grid.rows.into_iter();
        rows.map(|row| row[1..].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(rows(&packed), rows(&plain));
    assert!(std::fs::read_dir(dir.path()).unwrap().count() == 1);
}
