//! Archives with any bytes in them: nothing panics, and each file lies in the folder of its archive under its name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::source::expand_paths;
use std::sync::LazyLock;

/// An archive of three files, as tar makes it.
static MADE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut made = tar::Builder::new(Vec::new());
    for (name, text) in [
        ("a.log", "NCCL\n"),
        ("logs/b.log", ""),
        ("logs/c.log", "x\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        let added = made.append_data(&mut header, name, text.as_bytes());
        added.expect("memory takes it");
    }
    made.into_inner().expect("memory takes it")
});

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    let at = usize::from(at) % MADE.len();
    let rest = MADE.len().min(at + usize::from(drop));
    let changed = [&MADE[..at], bytes, &MADE[rest..]].concat();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("case.tar");
    std::fs::write(&path, changed).expect("a file");
    let Ok(found) = expand_paths(std::slice::from_ref(&path), &[]) else {
        return;
    };
    let folder = found.unpacked[0].path();
    let shown = path.to_string_lossy();
    for file in &found.origins {
        assert!(file.is_listed() && file.name().starts_with(&*shown));
        assert!(
            file.path()
                .is_some_and(|path| path.starts_with(folder) && path.is_file())
        );
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1);
});
