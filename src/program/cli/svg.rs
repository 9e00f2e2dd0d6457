//! A picture beside the rows.

use super::ending::picture_path;
use crate::report::Report;
use anyhow::Context;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::PathBuf;

/// Where a picture goes.
#[derive(Debug, Clone, Args, Default)]
pub struct SvgArgs {
    /// Draw the rows as a picture (SVG) into this file, too
    #[arg(long, value_name = "FILE", help_heading = "Output",
          value_parser = PathBufValueParser::new().try_map(picture_path))]
    svg: Option<PathBuf>,
}

impl SvgArgs {
    /// True where a picture is wanted.
    pub fn is_wanted(&self) -> bool {
        self.svg.is_some()
    }

    /// Writes what `picture` draws, if that is wanted; where there is nothing to draw, a warning
    /// reports it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_picture(
        &self,
        picture: impl FnOnce() -> Option<String>,
        report: &Report,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.svg else {
            return Ok(());
        };
        let Some(picture) = picture() else {
            report.warn("--svg: the rows have nothing to draw, so the file is not written");
            return Ok(());
        };
        std::fs::write(path, picture).with_context(|| format!("cannot write {}", path.display()))
    }
}
