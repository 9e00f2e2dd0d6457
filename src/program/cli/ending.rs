//! The format that the ending of a file's name asks for.

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::path::{Path, PathBuf};

/// What endings mean.
struct FormatEndings {
    endings: &'static [&'static str],
    /// The values of `--format` that write such a file. Without `--format` the first that a program has is
    /// taken.
    formats: &'static [&'static str],
}

/// Endings that name a format, also those that no program writes: a file must not be what its name does not
/// promise. Any other ending leaves the format as it is.
const ENDINGS: &[FormatEndings] = &[
    row(&["csv"], &["csv"]),
    row(&["tsv"], &["tsv"]),
    row(&["jsonl", "ndjson"], &["jsonl"]),
    row(&["json"], &["json", "jsonl", "chrome", "param"]),
    row(&["html", "htm"], &["html"]),
    row(&["md", "markdown"], &["md"]),
    row(&["txt"], &["text", "table"]),
    row(&["xml", "junit"], &["junit"]),
    row(&["dot", "gv"], &["dot"]),
    row(&["prom"], &["prometheus"]),
    row(&["svg"], &[]),
    row(
        &["png", "jpg", "jpeg", "gif", "webp", "pdf", "ps", "eps"],
        &[],
    ),
    row(&["parquet"], &["parquet"]),
    row(&["arrow", "feather", "orc", "avro", "npy"], &[]),
    row(&["xlsx", "xls", "ods", "docx", "yaml", "yml", "toml"], &[]),
    row(&["sqlite", "db", "duckdb", "pkl"], &[]),
    row(&["gz", "zst", "xz", "bz2", "zip", "tar", "tgz"], &[]),
];

const fn row(endings: &'static [&'static str], formats: &'static [&'static str]) -> FormatEndings {
    FormatEndings { endings, formats }
}

/// The ending of a name that a format has, and its facts.
fn find_ending(path: &Path) -> Option<(String, &'static FormatEndings)> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let known = ENDINGS.iter().find(|row| row.endings.contains(&&*ending))?;
    Some((ending, known))
}

/// The value of `--format` that the name of the output file asks for; `None` if it asks for nothing, or for
/// what `--format` names.
///
/// # Errors
/// The program has no format that such a file can have; `--format` names another one.
pub(super) fn format_of_output(
    command: &Command,
    matches: &ArgMatches,
) -> anyhow::Result<Option<String>> {
    let output = matches.try_get_one::<PathBuf>("output").ok().flatten();
    let mut args = command.get_arguments();
    let format = args.find(|arg| arg.get_id() == "format");
    let (Some(path), Some(format)) = (output, format) else {
        return Ok(None);
    };
    let Some((ending, known)) = find_ending(path) else {
        return Ok(None);
    };
    let file = path.display();
    let is_asked = matches.value_source("format") == Some(ValueSource::CommandLine);
    let asked = matches.get_raw("format").filter(|_| is_asked);
    if let Some(asked) = asked.and_then(|mut values| values.next()?.to_str()) {
        let is_same = |name: &&str| *name == asked || *name == full_name(format, asked);
        return match known.formats.iter().any(is_same) {
            true => Ok(None),
            false => bail!("-o {file} and --format {asked} name different formats"),
        };
    }
    match known.formats.iter().find(|name| has_value(format, name)) {
        Some(name) => Ok(Some((*name).to_owned())),
        None => bail!(
            "-o {file}: {} does not write .{ending}; it writes {}",
            command.get_name(),
            list_endings(format)
        ),
    }
}

/// True if an option takes this value.
fn has_value(format: &Arg, name: &str) -> bool {
    let values = format.get_possible_values();
    values.iter().any(|value| value.matches(name, false))
}

/// The name of a value that has several.
fn full_name(format: &Arg, name: &str) -> String {
    let values = format.get_possible_values();
    let value = values.iter().find(|value| value.matches(name, false));
    value.map_or(name.to_owned(), |value| value.get_name().to_owned())
}

/// The endings that name one of the values of an option.
fn list_endings(format: &Arg) -> String {
    let is_written = |row: &&FormatEndings| row.formats.iter().any(|name| has_value(format, name));
    let rows = ENDINGS.iter().filter(is_written);
    let names: Vec<String> = rows.map(|row| format!(".{}", row.endings[0])).collect();
    names.join(", ")
}

/// The path of a picture, with an ending that must not name another format.
pub(super) fn picture_path(path: PathBuf) -> Result<PathBuf, String> {
    match find_ending(&path) {
        Some((ending, _)) if ending != "svg" => Err(format!(
            "a picture is SVG, not .{ending}: name it {}",
            path.with_extension("svg").display()
        )),
        _ => Ok(path),
    }
}
