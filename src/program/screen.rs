//! A terminal that shows one page at a time and is given back as it was: when the page is left, when
//! the program fails or panics, and when a signal ends it.

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::crossterm::{cursor, execute};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level;
use std::io::{self, Read, Stdout};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Whether a page is on the terminal: it changes, and is drawn, under the lock alone, so that nothing
/// is drawn once the terminal was given back.
static SHOWN: Mutex<bool> = Mutex::new(false);

fn lock_shown() -> MutexGuard<'static, bool> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The terminal on standard output while it shows a page.
pub struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal. Ctrl-C stays the signal that it is without a page: it also ends the program that writes
    /// to the pipe. A signal gives the terminal back. With `is_last` no other thread waits for signals: Ctrl-C leaves the
    /// page as its key does, and a second one, or another signal, ends the program.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub fn take_terminal(is_last: bool) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // It may have happened while the page was drawn, under the lock.
                reset_terminal();
                before(info);
            }));
        });
        listen_for_signals(is_last)?;
        let mut shown = lock_shown();
        terminal::enable_raw_mode()?;
        *shown = true;
        let begin = || {
            keep_signal_keys()?;
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
            let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
            // Some terminals have no second screen.
            terminal.clear()?;
            Ok(Screen(terminal))
        };
        begin().inspect_err(|_| restore_terminal(&mut shown))
    }

    /// Draws a page, if the terminal is still taken.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw_page(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let shown = lock_shown();
        if *shown {
            self.0.draw(draw)?;
        }
        Ok(())
    }

    /// Gives the pressed keys to `press`. Returns true where the page was left: by its key, or by a signal.
    pub fn read_keys(&self, mut press: impl FnMut(KeyCode)) -> bool {
        // Keys come from the terminal; a program without one is ended otherwise.
        while let Ok(true) = event::poll(Duration::ZERO) {
            if let Ok(Event::Key(key)) = event::read()
                && key.kind == KeyEventKind::Press
            {
                match key.code {
                    KeyCode::Char('q' | 'Q') => return true,
                    code => press(code),
                }
            }
        }
        !*lock_shown()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal(&mut lock_shown());
    }
}

/// Raw mode takes all keys; of those that send signals Ctrl-C still does.
fn keep_signal_keys() -> io::Result<()> {
    let terminal = io::stdout();
    let mut modes = termios::tcgetattr(&terminal)?;
    modes.local_modes |= LocalModes::ISIG;
    // 0 is no key: a program that was stopped could not give the terminal back.
    modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
    modes.special_codes[SpecialCodeIndex::VQUIT] = 0;
    Ok(termios::tcsetattr(&terminal, OptionalActions::Now, &modes)?)
}

fn restore_terminal(shown: &mut bool) {
    if std::mem::take(shown) {
        reset_terminal();
    }
}

/// Ignores errors, since the terminal is the only place to report them.
fn reset_terminal() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// Gives the terminal back at the first signal, and ends the program where nothing else does.
fn end_at_signals(mut signal_came: impl FnMut() -> bool, signal: &AtomicUsize, is_last: bool) {
    if !signal_came() {
        return;
    }
    restore_terminal(&mut lock_shown());
    let number = || signal.load(Ordering::Acquire) as i32;
    // A pipe ends at the first two of them; what was found is written.
    let is_left = number() == SIGINT || !is_last && number() == SIGTERM;
    // Where only the page was left the next signal ends the program.
    if !is_left || is_last && signal_came() {
        let _ = low_level::emulate_default_handler(number());
    }
}

/// Waits for signals on a thread of its own.
fn listen_for_signals(is_last: bool) -> io::Result<()> {
    let signal = Arc::new(AtomicUsize::new(0));
    let (mut wake, waker) = UnixStream::pair()?;
    for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
        low_level::pipe::register(number, waker.try_clone()?)?;
    }
    let signal_came = move || wake.read_exact(&mut [0]).is_ok();
    std::thread::Builder::new().spawn(move || end_at_signals(signal_came, &signal, is_last))?;
    Ok(())
}
