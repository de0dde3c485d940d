//! The text report that the process prints about itself at its end.

use super::state::Recorder;
use super::writer::{self, Books};

/// Prints the report where the settings want it.
pub fn print(recorder: &Recorder, _books: &Books) {
    if !writer::reports_itself(recorder) {
        return;
    }
}
