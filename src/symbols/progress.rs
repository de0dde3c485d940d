//! A line on the terminal while names are looked up, if that takes long enough to wonder.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oomhook_report::{attribution, sentences};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shorter work goes without a word.
const WORTH_A_WORD: Duration = Duration::from_millis(300);

/// How far the naming is.
#[derive(Default)]
pub struct Progress {
    busy: Duration,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// What is done now: so many frames of a library are named. `since` is when this frame was begun.
    pub fn tell(&mut self, library: &str, frames: usize, since: Instant) {
        if self.busy + since.elapsed() < WORTH_A_WORD || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            // Four times a second are enough for a person and for a slow line.
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        let library = attribution::file_name(library);
        bar.set_message(sentences::naming(frames, library));
        bar.tick();
    }

    /// A frame took so long.
    pub fn took(&mut self, time: Duration) {
        self.busy += time;
    }

    /// Takes the line away: something else will be printed.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
