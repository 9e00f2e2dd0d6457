//! What the packages are made of names every program (docs/packaging.md).

use crate::support::ALL;
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn names(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).unwrap();
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|file| stem(&file.unwrap().path())).collect()
}

#[test]
fn every_list_of_programs_has_all_of_them() {
    let programs = names("src/bin");
    assert_eq!(programs, ALL.map(str::to_owned).into());
    assert_eq!(programs, names("packaging/wheel/scripts"));
    let launcher = read("packaging/launcher");
    let all = read("packaging/all.rs");
    let readme = read("README.md");
    let mut listed = 0;
    for program in &programs {
        assert_eq!(
            read(&format!("packaging/wheel/scripts/{program}")),
            launcher
        );
        let module = program.strip_prefix("nccl-").unwrap();
        assert!(
            all.contains(&format!("\"../src/bin/{program}.rs\"")),
            "{program}"
        );
        assert!(
            all.contains(&format!("(\"{program}\", {module}::main),")),
            "{program}"
        );
        listed += 1;
        // packaging/all.rs calls it.
        let main = "\npub(crate) fn main() -> ExitCode {\n";
        assert!(
            read(&format!("src/bin/{program}.rs")).contains(main),
            "{program}"
        );
        assert!(
            readme.contains(&format!("](docs/{program}.md")),
            "{program} has no row in the README"
        );
    }
    assert_eq!(all.matches("::main),").count(), listed);
}

#[test]
fn packages_say_what_cargo_says() {
    let cargo = read("Cargo.toml");
    // The version is said once, in Cargo.toml.
    let python = read("pyproject.toml");
    assert!(python.contains("dynamic = [\"version\", ") && python.contains("name = \"nccl-pipe\""));
    assert!(
        python.contains("features = [\"all\"]") && cargo.contains("required-features = [\"all\"]")
    );
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(read(licence).len() > 500);
    }
    for folder in [
        "usr/bin/",
        "usr/share/man/man1/",
        "usr/share/bash-completion/completions/",
    ] {
        assert!(
            cargo.contains(&format!("\"{folder}\"")),
            "the .deb has no {folder}"
        );
    }
}
