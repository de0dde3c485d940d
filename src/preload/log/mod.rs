//! The program's own last words, as marks beside its memory: lines that it writes to stdout and stderr.
//!
//! From `write` and `writev` (`hooks.rs`) pieces go through the channel (`pieces.rs`) to the writer, which makes lines of
//! them (`lines.rs`): progress folded, escapes and secrets out of them (`clean.rs`, `secrets.rs`). What does not come that
//! way, but into a regular file, is read from there when memory runs out and at the end (`tail.rs`).

mod clean;
mod hooks;
mod lines;
mod listener;
mod pieces;
mod secrets;
mod tail;

pub use hooks::find;
pub use listener::Listener;
pub use tail::said;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the program's lines are listened to.
static LISTENING: AtomicBool = AtomicBool::new(false);

/// Begins to listen: the recording has begun, and it is wanted.
pub fn begin() {
    LISTENING.store(true, Ordering::Release);
}

/// Listens no more.
pub fn stop() {
    LISTENING.store(false, Ordering::Release);
}

/// True for stdout and stderr, while they are listened to. Everything else costs the first comparison alone.
#[inline]
fn is_heard(fd: c_int) -> bool {
    (fd as u32).wrapping_sub(1) < 2 && LISTENING.load(Ordering::Relaxed)
}
