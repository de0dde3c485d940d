//! Our own threads, made by pthread calls: a thread of Rust's library registers destructors as it starts, for which it takes
//! the loader's lock; a constructor that waits for one of our threads would wait for ever.

use std::ffi::{CStr, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Kernel ids of our threads; 0 where there is none. The writer's and the file's are always there; one asks the driver for
/// figures at the end, one makes a report on demand, one looks at whole devices.
static TIDS: [AtomicU32; 5] = [const { AtomicU32::new(0) }; 5];

struct Start {
    name: &'static CStr,
    work: Box<dyn FnOnce() + Send>,
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` leaked it for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    want_short_slices();
    // SAFETY: both take values of this thread.
    let tid = unsafe {
        libc::prctl(libc::PR_SET_NAME, start.name.as_ptr());
        libc::gettid() as u32
    };
    let slot = TIDS.iter().find(|slot| {
        slot.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    // Whoever calls this has fenced its panics.
    (start.work)();
    if let Some(slot) = slot {
        slot.store(0, Ordering::Release);
    }
    std::ptr::null_mut()
}

/// `struct sched_attr` of <linux/sched/types.h>, its first version.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks the scheduler for short slices. Our threads work for microseconds and sleep for milliseconds; with the slices of a
/// program that computes all the time they would wait for one of its own, several milliseconds, before each bit of work,
/// and what they have not written then is lost to SIGKILL. (Linux 6.12 and later; others take no notice.)
fn want_short_slices() {
    const SLICE_NS: u64 = 100_000;
    let mut now = Scheduling {
        size: size_of::<Scheduling>() as u32,
        ..Scheduling::default()
    };
    // SAFETY: this thread's own attributes, into and from a structure of the size that it says.
    unsafe {
        let code = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, now.size, 0);
        // What the program has asked for besides (batch, idle, real time) stays as it is.
        if code == 0 && now.policy == libc::SCHED_OTHER as u32 {
            now.runtime = SLICE_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0);
        }
    }
}

/// Starts a detached thread with all signals blocked: the program's are not for it.
pub fn spawn(
    name: &'static CStr,
    stack: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let start = Box::into_raw(Box::new(Start {
        name,
        work: Box::new(work),
    }));
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut thread = std::mem::MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: each is initialised before it is used; `start` is the thread's own if it comes to be, and ours if not.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let code =
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, start.cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if code != 0 {
            drop(Box::from_raw(start));
            return Err(io::Error::from_raw_os_error(code));
        }
    }
    Ok(())
}

/// True in a thread of ours.
pub fn is_ours() -> bool {
    // SAFETY: gettid takes nothing.
    let tid = unsafe { libc::gettid() } as u32;
    TIDS.iter()
        .any(|known| known.load(Ordering::Acquire) == tid)
}

/// True if no thread is left but ours: the program's main thread has ended by `pthread_exit`, and so have all others.
/// Without us the process would have ended with the last of them.
pub fn are_alone() -> bool {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else {
        return false;
    };
    let leader = std::process::id();
    for entry in entries.flatten() {
        let tid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        let Some(tid) = tid else { return false };
        let ours = TIDS
            .iter()
            .any(|known| known.load(Ordering::Acquire) == tid);
        let ended = tid == leader && is_zombie(tid);
        if !ours && !ended {
            return false;
        }
    }
    true
}

fn is_zombie(tid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    // `tid (name) state …`; the name may hold anything.
    status
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}
