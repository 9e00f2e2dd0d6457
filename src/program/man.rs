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
pub(crate) fn page(command: Command, out: &mut dyn Write) -> io::Result<()> {
    let after = command.get_after_long_help().map(ToString::to_string);
    let command = command.after_long_help(Resettable::Reset);
    clap_mangen::Man::new(command).render(out)?;
    let mut roff = Roff::new();
    for (title, text) in sections(after.as_deref().unwrap_or_default()) {
        roff.control("SH", [title]);
        if title == "EXAMPLES" {
            roff.control("nf", []);
        }
        for paragraph in text.split("\n\n") {
            roff.control("PP", []);
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
    roff.to_writer(out)
}

/// The parts of a program's text after its arguments: examples and exit codes under the titles
/// that man pages have for them, all else as notes.
fn sections(after: &str) -> Vec<(&'static str, String)> {
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
    fn what_follows_the_arguments_has_titles_of_its_own() {
        let after = "One.\n\nTwo.\n\nExamples:\n  a | b\n  c 'd'\n\nExit codes: 0 well,\n1 not.";
        let expect = [
            ("NOTES", "One.\n\nTwo.".to_owned()),
            ("EXAMPLES", "  a | b\n  c 'd'".to_owned()),
            ("EXIT STATUS", "0 well,\n1 not.".to_owned()),
        ];
        assert_eq!(sections(after), expect);
        let mut page_of = Vec::new();
        page(Command::new("x").after_long_help(after), &mut page_of).unwrap();
        let text = String::from_utf8(page_of).unwrap();
        assert!(
            text.contains(".SH EXAMPLES") && text.contains(".SH \"EXIT STATUS\""),
            "{text}"
        );
        assert!(!text.contains("EXTRA"), "{text}");
    }
}
