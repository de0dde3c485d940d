//! Shows by locks on the trace that this process lives, and answers those who ask for its latest events: see
//! `oomhook_trace::locks`. No socket, no second file; a request is gone with whoever made it.

use super::now;
use super::sink::Sink;
use oomhook_trace::locks::{ALIVE, ANSWERS, ASKED, PLACES};
use std::ffi::{c_int, c_short};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Between two looks for a request.
const LOOK: Duration = Duration::from_millis(50);
/// The same where each look is heard by another machine.
const LOOK_ON_NETWORK: Duration = Duration::from_secs(1);
/// There the locks are taken anew at each so many looks only.
const RENEW_ON_NETWORK: u32 = 10;
/// One look waits no longer than so many, however long there has been a request at each.
const MOST_INSISTENCE: u32 = 20;

/// The state of the locks.
pub struct Presence {
    on_network: bool,
    looks: u32,
    next: Instant,
    /// Looks in a row that have found a request.
    insistence: u32,
    /// Requests answered, twice; odd while one is being answered.
    count: i64,
    /// The flush that answers.
    ticket: Option<u64>,
}

impl Presence {
    /// Nobody has asked yet.
    pub fn new(on_network: bool) -> Presence {
        Presence {
            on_network,
            looks: 0,
            insistence: 0,
            next: Instant::now(),
            count: 0,
            ticket: None,
        }
    }

    /// Takes the locks. Where the place keeps none, nothing is shown, and readers say nothing of it.
    pub fn show(&self, file: &File) {
        set(file, libc::F_WRLCK, ALIVE);
        set(file, libc::F_WRLCK, ANSWERS + self.count);
    }

    /// Looks after the locks, when it is time to; closing any descriptor of the file, also one of the program's, loses them.
    pub fn keep(&mut self, sink: &mut Sink) {
        if self.is_time()
            && let Ok(file) = sink.file()
        {
            self.show(file);
        }
    }

    /// The same, and takes in a request.
    pub fn attend(&mut self, sink: &mut Sink) {
        if !self.is_time() {
            return;
        }
        let renew = !self.on_network || self.looks % RENEW_ON_NETWORK == 1 || !sink.is_the_file();
        let Ok(file) = sink.file() else { return };
        if renew {
            self.show(file);
        }
        if self.ticket.is_none() && !is_asked(file) {
            self.insistence = 0;
        } else if self.ticket.is_none() {
            // Whoever stops while he asks must not have the file written to all the time.
            self.insistence = (self.insistence + 1).min(MOST_INSISTENCE);
            self.next += LOOK * (self.insistence - 1);
            // First the count: what is sent from here on need not be in the answer.
            self.step(file);
            self.ticket = Some(now::bring_up_to_date());
        }
    }

    /// Everything up to this ticket is in the file.
    pub fn flushed(&mut self, ticket: u64, sink: &mut Sink) {
        if self.ticket.is_some_and(|wanted| wanted <= ticket) {
            self.ticket = None;
            if let Ok(file) = sink.file() {
                self.step(file);
            }
        }
    }

    fn is_time(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.looks = self.looks.wrapping_add(1);
        self.next = now
            + if self.on_network {
                LOOK_ON_NETWORK
            } else {
                LOOK
            };
        true
    }

    /// The new place is taken before the old one is given up: the count is never away.
    fn step(&mut self, file: &File) {
        let before = self.count;
        self.count = (before + 1) % PLACES;
        set(file, libc::F_WRLCK, ANSWERS + self.count);
        set(file, libc::F_UNLCK, ANSWERS + before);
    }
}

fn lock(kind: c_int, at: i64) -> libc::flock {
    // SAFETY: zeroes are a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as c_short;
    lock.l_whence = libc::SEEK_SET as c_short;
    lock.l_start = at;
    lock.l_len = 1;
    lock
}

fn set(file: &File, kind: c_int, at: i64) {
    let lock = lock(kind, at);
    // SAFETY: the descriptor is open as long as `file` lives, and the lock is valid for reads.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) };
}

/// True if somebody else holds the lock of those who ask.
fn is_asked(file: &File) -> bool {
    let mut lock = lock(libc::F_WRLCK, ASKED);
    // SAFETY: as above; the lock is valid for writes.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) };
    code == 0 && lock.l_type == libc::F_RDLCK as c_short
}
