//! Looks at whole devices: by a thread of its own, since the management library is loaded at run time (the loader's lock is
//! not for the writer to take) and may take milliseconds to answer. It looks once in a period, and when it is asked to:
//! around a context's creation, at a new peak, at a failure, at the end. It asks the driver for the figures of pools as well,
//! so that nobody else needs to begin a thread for that at the end of the process: where `exit` was called in a signal
//! handler, the allocator may be locked for ever, and a new thread wants memory of it.

mod library;

use super::bell::Bell;
use super::cancel;
use super::costs::contexts::Coming;
use super::costs::traffic::Quiet;
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
/// Longest wait while nobody asks.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A device that misses so many looks in a row does not answer.
const SILENT: u8 = 2;
/// Stack of the thread: the driver's and the library's own frames are on it.
const STACK: usize = 1 << 20;

/// The latest figures of a device.
struct Latest {
    used: AtomicU64,
    process: AtomicU64,
    others: AtomicBool,
    /// The library answers for it; one question that it missed changes nothing.
    answers: AtomicBool,
}

impl Latest {
    fn forget(&self) {
        self.used.store(UNKNOWN, Ordering::Release);
        self.process.store(UNKNOWN, Ordering::Release);
        self.others.store(false, Ordering::Release);
    }
}

static LATEST: [Latest; DEVICES] = [const {
    Latest {
        used: AtomicU64::new(UNKNOWN),
        process: AtomicU64::new(UNKNOWN),
        others: AtomicBool::new(false),
        answers: AtomicBool::new(false),
    }
}; DEVICES];

static BELL: Bell = Bell::new();
/// Looks asked for, and those made; and up to which one they are to be written down.
static WANTED: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);
static TO_WRITE: AtomicU64 = AtomicU64::new(0);
/// A look is wanted soon, and nobody waits for it.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// The library is there and answers.
static IS_THERE: AtomicBool = AtomicBool::new(false);
/// It is not, or not any more.
static IS_MISSING: AtomicBool = AtomicBool::new(true);

/// The driver may be asked for the figures of its pools once more, though the exit handlers run.
static LAST_FIGURES: AtomicBool = AtomicBool::new(false);

/// Starts the thread; `period` between two looks by itself, if there are to be any.
pub fn start(recorder: &'static Recorder, period: Option<Duration>) {
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
        cancel::sleep(Duration::from_micros(50));
    }
    IS_THERE.load(Ordering::Acquire)
}

/// The process ends with its last thread, which must not be this one.
pub fn leave() {
    BELL.ring();
}

/// A last look, at the end of the process: the driver is asked for its figures if it may be.
pub fn look_at_the_end(patience: Duration, may_ask_driver: bool) {
    LAST_FIGURES.store(may_ask_driver, Ordering::Release);
    make(patience, true);
}

/// Has a look made, and does not wait.
pub fn ask() {
    if IS_THERE.load(Ordering::Acquire) {
        IS_ASKED.store(true, Ordering::Release);
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

/// True if the library answers for the device, as far as is known.
pub fn answers(device: u8) -> bool {
    let latest = LATEST.get(usize::from(device));
    latest.is_some_and(|latest| latest.answers.load(Ordering::Acquire))
}

/// True if other processes were on the device at the latest look.
pub fn has_others(device: u8) -> bool {
    let latest = LATEST.get(usize::from(device));
    latest.is_some_and(|latest| latest.others.load(Ordering::Acquire))
}

/// A look that nobody waits for should not fall into a call that is taking memory and has not said so yet: it would find it
/// unexplained. So many times it is put off, by a millisecond each; while a context is being made, as long as that takes.
const PATIENCE: u32 = 20;

/// A moment for a look.
struct Calm {
    /// From when on no call was under way; `None` where calls follow each other too fast to wait for that.
    quiet: Option<Quiet>,
}

impl Calm {
    fn begin(patience: &mut u32) -> Option<Calm> {
        if Coming::is_any() {
            return None;
        }
        let quiet = Quiet::from_now();
        if quiet.is_none() && *patience > 0 {
            *patience -= 1;
            return None;
        }
        Some(Calm { quiet })
    }

    fn lasted(&self) -> bool {
        !Coming::is_any() && self.quiet.is_none_or(Quiet::until_now)
    }
}

/// What was written last of a device.
struct Written {
    sample: Sample,
    at: Instant,
}

fn watch(recorder: &'static Recorder, period: Option<Duration>) {
    // Without looks by itself the library is not wanted either.
    let library = period.and_then(|_| Library::load());
    if period.is_some() && library.is_none() {
        tell(
            recorder,
            "NVML (libnvidia-ml.so.1) cannot be used: what other processes have on the GPUs is not known",
        );
    }
    IS_THERE.store(library.is_some(), Ordering::Release);
    let period = period.filter(|_| library.is_some());
    let mut seen = Seen::default();
    let mut next = Instant::now();
    let mut patience = PATIENCE;
    while !state::is_off() && !writer::is_left_alone() {
        let rung = BELL.rung();
        let ticket = WANTED.load(Ordering::Acquire);
        let made = MADE.load(Ordering::Acquire);
        let is_due = IS_ASKED.load(Ordering::Acquire) || period.is_some() && Instant::now() >= next;
        if ticket > made || is_due {
            let quiet = Quiet::from_now();
            let calm = is_due.then(|| Calm::begin(&mut patience)).flatten();
            let asked = TO_WRITE.load(Ordering::Acquire) > made;
            // Once the exit handlers run, the driver may be gone at any moment, but for the one time that they wait for.
            let may_ask = !writer::is_in_a_hurry() || LAST_FIGURES.swap(false, Ordering::AcqRel);
            if (asked || calm.is_some()) && may_ask {
                pools::send_states(recorder);
            }
            if let Some(library) = &library {
                seen.look(recorder, library, asked, calm.as_ref(), quiet);
            }
            MADE.fetch_max(ticket, Ordering::AcqRel);
            let was_calm = calm.is_some_and(|calm| calm.lasted());
            if asked || !is_due || was_calm || patience == 0 {
                next = Instant::now() + period.unwrap_or(LONGEST_WAIT);
                IS_ASKED.store(false, Ordering::Release);
                patience = PATIENCE;
            }
        }
        let left = next.saturating_duration_since(Instant::now());
        BELL.wait(rung, left.clamp(Duration::from_millis(1), LONGEST_WAIT));
    }
}

/// The devices as the library knows them, and what was written last of each.
struct Seen {
    handles: [Option<Handle>; DEVICES],
    written: Vec<Option<Written>>,
    /// Looks that a device missed in a row; as many as are told of are told once.
    silent: [u8; DEVICES],
    told_of_strangers: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            handles: [None; DEVICES],
            written: (0..DEVICES).map(|_| None).collect(),
            silent: [0; DEVICES],
            told_of_strangers: false,
        }
    }
}

impl Seen {
    fn look(
        &mut self,
        recorder: &Recorder,
        library: &Library,
        asked: bool,
        calm: Option<&Calm>,
        quiet: Option<Quiet>,
    ) {
        let mut fell_silent = Vec::new();
        for device in devices::announced() {
            let handle = &mut self.handles[usize::from(device)];
            let uuid = devices::uuid(device);
            if handle.is_none() {
                *handle = uuid.and_then(|uuid| library.device(&uuid));
            }
            let Some(look) = handle.and_then(|handle| library.look(handle)) else {
                // A device that is gone, or that does not answer any more: what it said before holds no longer.
                LATEST[usize::from(device)].forget();
                // One whose UUID was being asked for just then will answer; any may miss a question now and then.
                let silent = &mut self.silent[usize::from(device)];
                *silent = silent.saturating_add(u8::from(uuid.is_some()));
                if *silent == SILENT {
                    LATEST[usize::from(device)]
                        .answers
                        .store(false, Ordering::Release);
                    fell_silent.push(device);
                }
                continue;
            };
            if self.silent[usize::from(device)] < SILENT {
                self.silent[usize::from(device)] = 0;
            }
            let (sample, listed) = take(recorder, library, device, look);
            let sample = Sample {
                is_quiet: quiet.is_some_and(Quiet::until_now),
                ..sample
            };
            if let Listed::Not(text) = listed
                && !std::mem::replace(&mut self.told_of_strangers, true)
            {
                tell(recorder, &text);
            }
            if asked || calm.is_some_and(Calm::lasted) {
                write(
                    recorder,
                    sample,
                    asked,
                    &mut self.written[usize::from(device)],
                );
            }
        }
        if !fell_silent.is_empty() {
            tell(recorder, &does_not_answer(&fell_silent));
        }
    }
}

fn tell(recorder: &Recorder, text: &str) {
    let note = Record::Note {
        time_ns: recorder.now(),
        text: text.to_owned(),
    };
    channel::send(&recorder.sender, Raw::boxed(note));
}

fn does_not_answer(devices: &[u8]) -> String {
    let numbers: Vec<String> = devices.iter().map(u8::to_string).collect();
    let numbers = numbers.join(", ");
    let it = if devices.len() > 1 {
        "they have"
    } else {
        "it has"
    };
    format!(
        "NVML does not answer for GPU {numbers}: what {it} in use, and what other processes have, is not known"
    )
}

fn lists_nobody(device: u8) -> String {
    format!(
        "NVML lists no process on GPU {device}, not even this one, as it is in some containers: what this process has in all is \
         not known, nor what others have"
    )
}

fn lists_strangers(device: u8) -> String {
    format!(
        "NVML lists the processes on GPU {device} by numbers that are not this container's: which of them is this process is \
         not known, nor what others have"
    )
}

/// Whether the library lists this process.
enum Listed {
    /// It does, or it need not, or it lists nothing at all.
    Fine,
    /// It does not, in words.
    Not(String),
}

fn take(recorder: &Recorder, library: &Library, device: u8, seen: Look) -> (Sample, Listed) {
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
    // One that is on the device and not listed is in a namespace whose processes the library does not list.
    let is_missing = listed.is_some() && process.is_none() && devices::has_context(device);
    let is_hidden = is_missing && others.is_empty();
    let listing = match is_missing {
        true if is_hidden => Listed::Not(lists_nobody(device)),
        true => Listed::Not(lists_strangers(device)),
        false => Listed::Fine,
    };
    let process = match process {
        Some(bytes) => bytes,
        None if others.is_empty() && listed.is_some() && !is_hidden => Some(0),
        None => None,
    };
    let latest = &LATEST[usize::from(device)];
    latest.answers.store(true, Ordering::Release);
    latest.used.store(seen.used, Ordering::Release);
    latest
        .process
        .store(process.unwrap_or(UNKNOWN), Ordering::Release);
    latest.others.store(!others.is_empty(), Ordering::Release);
    let sample = Sample {
        time_ns: recorder.now(),
        device,
        used: seen.used,
        total: seen.total,
        process,
        others_known: listed.is_some() && !is_hidden,
        others,
        is_quiet: false,
    };
    (sample, listing)
}

fn write(recorder: &Recorder, sample: Sample, asked: bool, written: &mut Option<Written>) {
    // A quiet one settles what one amid calls left open.
    let is_same = |known: &Written| {
        Sample {
            time_ns: sample.time_ns,
            is_quiet: sample.is_quiet,
            ..known.sample.clone()
        } == sample
            && (known.sample.is_quiet || !sample.is_quiet)
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
