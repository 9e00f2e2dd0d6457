//! The page of nccl-watch on a terminal.

use super::screen::Screen;
use crate::error::{Error, Result};
use crate::stages::check::CheckSummary;
use crate::stages::watch::JobWatch;
use crate::stages::watch::page::{PageView, WatchHistory, WatchPage, draw_page};
use anyhow::Context;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The page on the terminal.
pub struct WatchScreen {
    /// The terminal.
    pub screen: Screen,
    /// What was told.
    pub told: WatchHistory,
    name: String,
    /// Inputs that did not exist when the page was drawn last.
    missing: Vec<PathBuf>,
    /// What of it is shown.
    pub view: PageView,
    drawn: Option<Instant>,
    /// Something happened since.
    pub is_old: bool,
}

impl WatchScreen {
    /// Takes the terminal; the page names `files`.
    ///
    /// # Errors
    /// It cannot show a page.
    pub fn new(files: &[PathBuf], has_pipe: bool) -> anyhow::Result<WatchScreen> {
        let name = match files {
            [] => "a pipe".to_owned(),
            [one] => one.display().to_string(),
            many => format!("{} inputs", many.len()),
        };
        let screen = Screen::take_terminal(!has_pipe);
        let screen = screen.context("cannot show a page on this terminal")?;
        Ok(WatchScreen {
            screen,
            told: WatchHistory::default(),
            name,
            missing: files.to_vec(),
            view: PageView::default(),
            drawn: None,
            is_old: true,
        })
    }

    /// Draws the page.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw_page(&mut self, watch: &JobWatch<'_>, found: Option<&CheckSummary>) -> Result<()> {
        let WatchScreen {
            screen,
            told,
            name,
            missing,
            view,
            ..
        } = self;
        missing.retain(|path| path.as_os_str() != "-" && !path.exists());
        let name = match &missing[..] {
            [] => name.clone(),
            [one] => format!("{} does not exist yet", one.display()),
            some => format!("{name}: {} do not exist yet", some.len()),
        };
        let now = Instant::now();
        let mut page = WatchPage {
            watch,
            told,
            found,
            name: &name,
            view,
            now,
        };
        screen
            .draw_page(|frame| draw_page(&mut page, frame))
            .map_err(Error::Output)?;
        self.drawn = Some(now);
        self.is_old = false;
        Ok(())
    }

    /// Draws the page if it is old.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn redraw_if_due(
        &mut self,
        watch: &JobWatch<'_>,
        found: Option<&CheckSummary>,
    ) -> Result<()> {
        // Its times run on while nothing happens; much may happen in a short time.
        let wait = Duration::from_millis(if self.is_old { 100 } else { 500 });
        match self.drawn {
            Some(drawn) if drawn.elapsed() < wait => Ok(()),
            _ => self.draw_page(watch, found),
        }
    }
}
