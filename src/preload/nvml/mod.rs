//! Looks at whole devices: by a thread of its own, since the management library is loaded at run time (the loader's lock is
//! not for the writer to take) and may take milliseconds to answer. It looks once in a period, and when it is asked to:
//! around a context's creation, at a new peak, at a failure, at the end.

mod library;

use super::bell::Bell;
use super::devices::pools;
use super::raw::Raw;
use super::state::{self, Recorder};
use super::{channel, devices, thread, writer};
use library::{Handle, Library, Look};
use oomhook_trace::Record;
use oomhook_trace::record::Sample;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Devices that are told apart.
const DEVICES: usize = 64;
/// What is not known.
const UNKNOWN: u64 = u64::MAX;
/// A look that found the same as the one before is written as rarely as this.
const SAME_AGAIN: Duration = Duration::from_secs(30);
/// A device that nobody has announced yet is looked for as often as this while someone waits.
const STACK: usize = 512 << 10;

/// The latest figures of a device.
struct Latest {
    used: AtomicU64,
    process: AtomicU64,
    others: AtomicBool,
}

static LATEST: [Latest; DEVICES] = [const {
    Latest {
        used: AtomicU64::new(UNKNOWN),
        process: AtomicU64::new(UNKNOWN),
        others: AtomicBool::new(false),
    }
}; DEVICES];

static BELL: Bell = Bell::new();
/// Looks asked for, and those made; and up to which one they are to be written down.
static WANTED: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);
static TO_WRITE: AtomicU64 = AtomicU64::new(0);
/// The library is there and answers.
static IS_THERE: AtomicBool = AtomicBool::new(false);
/// It is not, or not any more.
static IS_MISSING: AtomicBool = AtomicBool::new(true);

/// Starts the thread; `period` between two looks.
pub fn start(recorder: &'static Recorder, period: Duration) {
    IS_MISSING.store(false, Ordering::Release);
    let work = move || {
        let watch = AssertUnwindSafe(|| watch(recorder, period));
        let _ = std::panic::catch_unwind(watch);
        IS_MISSING.store(true, Ordering::Release);
    };
    if thread::spawn(c"oomhook-nvml", STACK, work).is_err() {
        IS_MISSING.store(true, Ordering::Release);
    }
}

/// Has a look made and written down, and waits for it, but no longer than `patience`. True if it was made.
pub fn look(patience: Duration) -> bool {
    make(patience, true)
}

/// The same, written nowhere: a look between a call and the record of what it took would find it unexplained.
pub fn look_only(patience: Duration) -> bool {
    make(patience, false)
}

fn make(patience: Duration, write: bool) -> bool {
    if IS_MISSING.load(Ordering::Acquire) {
        return false;
    }
    let ticket = WANTED.fetch_add(1, Ordering::AcqRel) + 1;
    if write {
        TO_WRITE.fetch_max(ticket, Ordering::AcqRel);
    }
    BELL.ring();
    let deadline = Instant::now() + patience;
    while MADE.load(Ordering::Acquire) < ticket {
        if IS_MISSING.load(Ordering::Acquire) || Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    IS_THERE.load(Ordering::Acquire)
}

/// True if the management library is there and answers.
pub fn is_there() -> bool {
    IS_THERE.load(Ordering::Acquire) && !IS_MISSING.load(Ordering::Acquire)
}

/// Has a look made, and does not wait.
pub fn ask() {
    if IS_THERE.load(Ordering::Acquire) {
        let ticket = WANTED.fetch_add(1, Ordering::AcqRel) + 1;
        TO_WRITE.fetch_max(ticket, Ordering::AcqRel);
        BELL.ring();
    }
}

fn known(value: &AtomicU64) -> Option<u64> {
    Some(value.load(Ordering::Acquire)).filter(|value| *value != UNKNOWN)
}

/// Bytes of this process on the device at the latest look; 0 if it is not on it.
pub fn process_bytes(device: u8) -> Option<u64> {
    known(&LATEST.get(usize::from(device))?.process)
}

/// Bytes in use on the device at the latest look.
pub fn used_bytes(device: u8) -> Option<u64> {
    known(&LATEST.get(usize::from(device))?.used)
}

/// True if other processes were on the device at the latest look.
pub fn has_others(device: u8) -> bool {
    let latest = LATEST.get(usize::from(device));
    latest.is_some_and(|latest| latest.others.load(Ordering::Acquire))
}

/// What was written last of a device.
struct Written {
    sample: Sample,
    at: Instant,
}

fn watch(recorder: &'static Recorder, period: Duration) {
    let Some(library) = Library::load() else {
        return;
    };
    IS_THERE.store(true, Ordering::Release);
    let mut handles: [Option<Handle>; DEVICES] = [None; DEVICES];
    let mut written: Vec<Option<Written>> = (0..DEVICES).map(|_| None).collect();
    let mut next = Instant::now();
    while !state::is_off() {
        let rung = BELL.rung();
        let ticket = WANTED.load(Ordering::Acquire);
        let made = MADE.load(Ordering::Acquire);
        let is_due = Instant::now() >= next;
        if ticket > made || is_due {
            let asked = TO_WRITE.load(Ordering::Acquire) > made;
            // Once the exit handlers run, the driver may be gone at any moment; they ask it themselves.
            if (asked || is_due) && !writer::is_in_a_hurry() {
                pools::send_states(recorder);
            }
            for device in devices::announced() {
                let handle = &mut handles[usize::from(device)];
                if handle.is_none() {
                    *handle = devices::uuid(device).and_then(|uuid| library.device(&uuid));
                }
                if let Some(handle) = *handle
                    && let Some(seen) = library.look(handle)
                {
                    let sample = take(recorder, &library, device, seen);
                    write(recorder, sample, asked, &mut written[usize::from(device)]);
                }
            }
            MADE.fetch_max(ticket, Ordering::AcqRel);
            next = Instant::now() + period;
        }
        BELL.wait(
            rung,
            next.saturating_duration_since(Instant::now()).min(period),
        );
    }
}

fn take(recorder: &Recorder, library: &Library, device: u8, seen: Look) -> Sample {
    let own = std::process::id();
    let listed = seen.processes.as_ref();
    // In a namespace of its own a process does not know the number by which it is listed.
    let process = listed
        .and_then(|all| all.iter().find(|one| one.0 == own))
        .map(|one| one.1);
    let others: Vec<_> = listed
        .into_iter()
        .flatten()
        .filter(|(pid, _)| *pid != own)
        .map(|(pid, bytes)| library.other(*pid, *bytes))
        .collect();
    let process = match process {
        Some(bytes) => bytes,
        None if others.is_empty() && listed.is_some() => Some(0),
        None => None,
    };
    let latest = &LATEST[usize::from(device)];
    latest.used.store(seen.used, Ordering::Release);
    latest
        .process
        .store(process.unwrap_or(UNKNOWN), Ordering::Release);
    latest.others.store(!others.is_empty(), Ordering::Release);
    Sample {
        time_ns: recorder.now(),
        device,
        used: seen.used,
        total: seen.total,
        process,
        others_known: listed.is_some(),
        others,
    }
}

fn write(recorder: &Recorder, sample: Sample, asked: bool, written: &mut Option<Written>) {
    let is_same = |known: &Written| {
        let time_ns = sample.time_ns;
        Sample {
            time_ns,
            ..known.sample.clone()
        } == sample
            && known.at.elapsed() < SAME_AGAIN
    };
    if !asked && written.as_ref().is_some_and(is_same) {
        return;
    }
    *written = Some(Written {
        sample: sample.clone(),
        at: Instant::now(),
    });
    channel::send(&recorder.sender, Raw::boxed(Record::Sample(sample)));
}
