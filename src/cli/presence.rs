//! The locks of a trace from outside: whether its process lives, and asking it for its latest events. See
//! `oomhook_trace::locks`.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use oomhook_trace::locks::{ALIVE, ANSWERS, ASKED, PLACES};
use std::fs::File;

/// Who records into a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its number here; none if it runs in another pid namespace, or on another machine.
    pub pid: Option<u32>,
}

/// Who records into this trace now; nobody if its process has ended, or where the place keeps no locks.
pub fn owner(file: &File) -> Option<Owner> {
    let lock = held(file, ALIVE, 1)?;
    let pid = u32::try_from(lock.l_pid).ok().filter(|pid| *pid > 0);
    Some(Owner { pid })
}

/// The count of the process's answers.
pub fn count(file: &File) -> Option<i64> {
    let lock = held(file, ANSWERS, PLACES)?;
    // While it steps on, two places are held; the kernel may tell of them as one.
    Some((lock.l_start - ANSWERS).clamp(0, PLACES - 1))
}

/// A request for the latest events; gone with the value, and with this process.
pub struct Request<'a>(&'a File);

impl Request<'_> {
    /// Asks. Where the place keeps no locks nobody hears it, and nobody answers.
    pub fn make(file: &File) -> Request<'_> {
        let lock = lock(libc::F_RDLCK, ASKED, 1);
        // A lock of this open file: other descriptors of it may come and go.
        let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&lock));
        Request(file)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let lock = lock(libc::F_UNLCK, ASKED, 1);
        let _ = fcntl(self.0, FcntlArg::F_OFD_SETLK(&lock));
    }
}

fn lock(kind: libc::c_int, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

/// The first write lock that somebody else holds in this range.
fn held(file: &File, start: i64, length: i64) -> Option<libc::flock> {
    let mut lock = lock(libc::F_RDLCK, start, length);
    fcntl(file, FcntlArg::F_GETLK(&mut lock)).ok()?;
    (lock.l_type == libc::F_WRLCK as libc::c_short).then_some(lock)
}
