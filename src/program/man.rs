//! Man pages: what clap_mangen makes of the arguments, and the text after them in sections of
//! their own.

use clap::Command;
use clap::builder::Resettable;
use roff::{Roff, roman};
use std::io::{self, Write};

/// Writes the man page of `command`.
///
/// clap_mangen would put the whole text after the arguments into one section called EXTRA.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn write_man_page(command: Command, out: &mut dyn Write) -> io::Result<()> {
    let after = command.get_after_long_help().map(ToString::to_string);
    let name = command.get_name().to_owned();
    let programs: Vec<(String, String)> = describe_programs(&command);
    let command = command
        .after_help(Resettable::Reset)
        .after_long_help(Resettable::Reset);
    let man = clap_mangen::Man::new(command).title(name.to_uppercase());
    if programs.is_empty() {
        man.render(out)?;
    } else {
        man.render_title(out)?;
        man.render_name_section(out)?;
        man.render_synopsis_section(out)?;
        man.render_description_section(out)?;
        man.render_options_section(out)?;
    }
    let mut roff = Roff::new();
    write_programs(&programs, &mut roff);
    for (title, text) in split_sections(after.as_deref().unwrap_or_default()) {
        roff.control("SH", [title]);
        if title == "EXAMPLES" {
            roff.control("nf", []);
        }
        for (at, paragraph) in text.split("\n\n").enumerate() {
            if at > 0 {
                roff.control("PP", []);
            }
            roff.text(
                paragraph
                    .lines()
                    .map(|line| roman(format!("{line}\n")))
                    .collect::<Vec<_>>(),
            );
        }
        if title == "EXAMPLES" {
            roff.control("fi", []);
        }
    }
    write_see_also(&name, &mut roff);
    roff.to_writer(out)
}

/// The programs that a command starts, under their whole names, and their lines.
fn describe_programs(command: &Command) -> Vec<(String, String)> {
    let programs = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help");
    let describe = |program: &Command| {
        let about = program.get_about().map(ToString::to_string);
        (
            format!("nccl-{}", program.get_name()),
            about.unwrap_or_default(),
        )
    };
    programs.map(describe).collect()
}

/// The section of the programs that a command starts. clap_mangen would put the command's own name before
/// theirs.
fn write_programs(programs: &[(String, String)], roff: &mut Roff) {
    if programs.is_empty() {
        return;
    }
    roff.control("SH", ["PROGRAMS"]);
    for (name, about) in programs {
        roff.control("TP", []);
        roff.control("BR", [name.as_str(), "(1)"]);
        roff.text([roman(about.as_str())]);
    }
}

/// Which programs come before and after each in a pipe, or answer the next question.
const RELATED_PROGRAMS: [(&str, &[&str]); 22] = [
    ("nccl-agg", &["nccl-comms", "nccl-hist", "nccl-ops"]),
    ("nccl-check", &["nccl-report", "nccl-skew", "nccl-watch"]),
    ("nccl-collect", &["nccl-check", "nccl-pack", "nccl-report"]),
    (
        "nccl-comms",
        &["nccl-agg", "nccl-hist", "nccl-ops", "nccl-steps"],
    ),
    (
        "nccl-communicators",
        &["nccl-comms", "nccl-matrix", "nccl-net"],
    ),
    ("nccl-cuda", &["nccl-hist", "nccl-kernels", "nccl-ops"]),
    ("nccl-diff", &["nccl-check", "nccl-report", "nccl-timing"]),
    ("nccl-hist", &["nccl-agg", "nccl-comms", "nccl-ops"]),
    ("nccl-kernels", &["nccl-ops", "nccl-overlap"]),
    (
        "nccl-matrix",
        &["nccl-comms", "nccl-communicators", "nccl-net"],
    ),
    (
        "nccl-net",
        &["nccl-communicators", "nccl-matrix", "nccl-tuning"],
    ),
    ("nccl-ops", &["nccl-agg", "nccl-comms", "nccl-hist"]),
    ("nccl-overlap", &["nccl-kernels", "nccl-timing"]),
    ("nccl-pack", &["nccl-check", "nccl-report"]),
    ("nccl-proxy", &["nccl-net", "nccl-ops", "nccl-skew"]),
    ("nccl-report", &["nccl-check", "nccl-diff", "nccl-timing"]),
    ("nccl-skew", &["nccl-check", "nccl-comms", "nccl-timing"]),
    ("nccl-steps", &["nccl-comms", "nccl-timing"]),
    ("nccl-synth", &["nccl-check", "nccl-comms", "nccl-hist"]),
    ("nccl-timing", &["nccl-diff", "nccl-skew", "nccl-steps"]),
    ("nccl-tuning", &["nccl-comms", "nccl-net", "nccl-ops"]),
    ("nccl-watch", &["nccl-check", "nccl-report", "nccl-timing"]),
];

/// The section of a program's neighbours.
fn write_see_also(name: &str, roff: &mut Roff) {
    let Some((_, neighbours)) = RELATED_PROGRAMS.iter().find(|(of, _)| *of == name) else {
        return;
    };
    roff.control("SH", ["SEE ALSO"]);
    for (at, neighbour) in neighbours.iter().enumerate() {
        let end = if at + 1 == neighbours.len() {
            "(1)"
        } else {
            "(1),"
        };
        roff.control("BR", [*neighbour, end]);
    }
}

/// The parts of a program's text after its arguments: examples and exit codes under the titles
/// that man pages have for them, all else as notes.
fn split_sections(after: &str) -> Vec<(&'static str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for paragraph in after.split("\n\n") {
        let (title, text) = if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
            ("EXAMPLES", examples.to_owned())
        } else if let Some(codes) = paragraph.strip_prefix("Exit codes: ") {
            ("EXIT STATUS", codes.to_owned())
        } else {
            ("NOTES", paragraph.to_owned())
        };
        match sections.last_mut() {
            _ if text.is_empty() => {}
            Some((last, before)) if *last == title => {
                before.push_str("\n\n");
                before.push_str(&text);
            }
            _ => sections.push((title, text)),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_neighbours_and_they_are_programs() {
        let is_program = |name: &str| RELATED_PROGRAMS.iter().any(|(known, _)| *known == name);
        for (name, neighbours) in RELATED_PROGRAMS {
            let known = |other: &&str| is_program(other) && *other != name;
            assert!(neighbours.iter().all(known), "{name}: {neighbours:?}");
        }
    }

    #[test]
    fn what_follows_the_arguments_has_titles_of_its_own() {
        let after = "One.\n\nTwo.\n\nExamples:\n  a | b\n  c 'd'\n\nExit codes: 0 well,\n1 not.";
        let expect = [
            ("NOTES", "One.\n\nTwo.".to_owned()),
            ("EXAMPLES", "  a | b\n  c 'd'".to_owned()),
            ("EXIT STATUS", "0 well,\n1 not.".to_owned()),
        ];
        assert_eq!(split_sections(after), expect);
        let mut page_of = Vec::new();
        write_man_page(Command::new("x").after_long_help(after), &mut page_of).unwrap();
        let text = String::from_utf8(page_of).unwrap();
        assert!(
            text.contains(".SH EXAMPLES") && text.contains(".SH \"EXIT STATUS\""),
            "{text}"
        );
        assert!(!text.contains("EXTRA"), "{text}");
    }
}
