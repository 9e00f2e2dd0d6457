//! nccl-check keeps of a pipe only what it may have to read again: what it finds is what it finds in the file.

use crate::support::{arg, feed, files, run};
use std::path::Path;

#[test]
fn a_pipe_has_the_findings_of_its_file() {
    let all = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata"));
    let logs = all
        .iter()
        .filter(|path| path.extension().is_some_and(|of| of == "log"));
    let mut wrong = 0;
    for path in logs {
        let (name, text) = (arg(path), std::fs::read(path).unwrap());
        for form in ["text", "csv"] {
            let file = run("nccl-check", &["--format", form, name]);
            let pipe = feed("nccl-check", &["--format", form], text.clone());
            let named = |text: &str| text.replace(name, "stdin");
            assert_eq!(pipe.text(), named(&file.text()), "{name}");
            assert_eq!(pipe.stderr, named(&file.stderr), "{name}");
            assert_eq!(pipe.code, file.code, "{name}");
            wrong += u32::from(file.code == Some(1));
        }
    }
    assert!(wrong > 20, "{wrong}");
}
