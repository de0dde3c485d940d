//! Words on stderr: in one piece, past all buffers of the program, and without a trace in it: no SIGPIPE where nobody
//! listens, no cancellation, nothing into a file that has merely got the number.

use super::cancel::NoCancel;
use super::{environment, log};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Nobody reads for so long: the rest is not said. The program must not wait for a reader of ours.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pipe that can be written takes so much at once without waiting.
const PIECE: usize = 4096;

/// Writes text to stderr.
pub fn write(text: &str) {
    if !environment::stderr_is_stderr() {
        return;
    }
    // In a file it stands among the program's own lines.
    log::said(text);
    let _whole = NoCancel::begin();
    let _quiet = NoSigpipe::begin();
    let mut rest = text.as_bytes();
    let mut deadline = Instant::now() + PATIENCE;
    while !rest.is_empty() && is_writable(deadline) {
        let length = rest.len().min(PIECE);
        // By its number: `write` is ours, and hears the program.
        // SAFETY: a valid buffer of that length.
        let written =
            unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, rest.as_ptr(), length) };
        match usize::try_from(written) {
            Ok(length) if length > 0 => {
                rest = &rest[length..];
                deadline = Instant::now() + PATIENCE;
            }
            _ => match std::io::Error::last_os_error().kind() {
                std::io::ErrorKind::Interrupted => {}
                // Somebody else was faster.
                std::io::ErrorKind::WouldBlock => {}
                // A closed stderr is no error of the program's.
                _ => return,
            },
        }
    }
}

/// Waits until stderr can be written, no longer than the deadline.
fn is_writable(deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut stderr = libc::pollfd {
            fd: libc::STDERR_FILENO,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one valid descriptor entry.
        match unsafe { libc::poll(&mut stderr, 1, left.as_millis() as c_int) } {
            0 => return false,
            // Errors and a closed end are for `write` to find.
            1 => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

/// One line.
pub fn say(text: &str) {
    write(&format!("oomhook: {text}\n"));
}

/// Keeps SIGPIPE away from the calling thread until dropped, and takes back one that our own writing has made.
struct NoSigpipe {
    before: libc::sigset_t,
    was_pending: bool,
}

fn only_sigpipe() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is emptied before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

fn is_pending() -> bool {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigpending fills the set.
    unsafe {
        libc::sigpending(set.as_mut_ptr()) == 0
            && libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1
    }
}

impl NoSigpipe {
    fn begin() -> NoSigpipe {
        let was_pending = is_pending();
        let set = only_sigpipe();
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `set` is a valid set, `before` is filled.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr());
            NoSigpipe {
                before: before.assume_init(),
                was_pending,
            }
        }
    }
}

impl Drop for NoSigpipe {
    fn drop(&mut self) {
        if !self.was_pending && is_pending() {
            let none = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let set = only_sigpipe();
            // SAFETY: takes the pending signal, waiting for none.
            unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &none) };
        }
        // SAFETY: the mask that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
