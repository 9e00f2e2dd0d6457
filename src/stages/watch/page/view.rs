//! What of the page is shown: the first row of a long table, and the help.

use ratatui::crossterm::event::KeyCode;

/// The keys of the page, and what they do.
pub(super) const PAGE_KEYS: [(&str, &str); 5] = [
    ("Up, Down, k, j", "scroll the communicators by a row"),
    ("PageUp, PageDown, Space", "scroll them by a page"),
    ("Home, End, g, G", "go to the first row, to the last"),
    ("?", "show or hide this list"),
    ("q, Ctrl-C", "leave the page"),
];

/// What of the page is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageView {
    /// The first row of the communicators.
    pub(super) first_row: usize,
    /// The last row that may be the first, as the page was drawn last.
    last_first_row: usize,
    /// How many rows had room then.
    room: usize,
    /// The list of keys is shown.
    pub(super) shows_keys: bool,
}

impl PageView {
    /// Takes a key. Returns true if the view changes.
    pub fn press_key(&mut self, key: KeyCode) -> bool {
        let before = *self;
        let row = self.first_row;
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.first_row = row.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first_row = row.saturating_add(1),
            KeyCode::PageUp => self.first_row = row.saturating_sub(self.room),
            KeyCode::PageDown | KeyCode::Char(' ') => {
                self.first_row = row.saturating_add(self.room);
            }
            KeyCode::Home | KeyCode::Char('g') => self.first_row = 0,
            KeyCode::End | KeyCode::Char('G') => self.first_row = usize::MAX,
            KeyCode::Char('?') => self.shows_keys = !self.shows_keys,
            _ => {}
        }
        self.first_row = self.first_row.min(self.last_first_row);
        *self != before
    }

    /// Returns the first of `rows` rows that is shown where `room` fit, and keeps it: further down there is nothing.
    pub(super) fn bound_first_row(&mut self, rows: usize, room: usize) -> usize {
        self.room = room.max(1);
        self.last_first_row = rows.saturating_sub(self.room);
        self.first_row = self.first_row.min(self.last_first_row);
        self.first_row
    }
}
