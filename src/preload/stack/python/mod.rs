//! Python frames of the calling thread, read by plain loads: the GIL is never taken (in a hook that would stop PyTorch for
//! good), and of Python nothing is called but two functions that only look at a flag and at a thread-local value.

mod cache;
mod code;
mod find;
mod latest;
mod layout;
mod lines;
mod memory;
pub mod merge;
mod text;
mod walk;
pub mod words;

use super::super::channel;
use super::super::raw::Raw;
use super::super::state::Recorder;
use super::kept::Zeroed;
use super::reads::{Reads, Repeats};
use super::room::Room;
use find::Interpreter;
use latest::Latest;
use memory::{Asked, Known, Noted};
use merge::Placed;
use oomhook_trace::Record;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use walk::Walk;

/// Most Python frames of a stack, with the mark of a gap.
pub const MOST_FRAMES: usize = walk::INNERMOST + walk::OUTERMOST + 1;

/// `Interpreter::checked`: its frames have been found where they should be.
const SOUND: u8 = 1;

/// Reads that tell a stack from all others: seven for each frame from Python 3.12 on, some twenty before.
const MOST_READS: usize = 1024;

/// Set for good when an interpreter cannot be read.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// The Python frames of a stack.
pub struct Stack {
    frames: Room<Placed, MOST_FRAMES>,
    /// Where the function lies that evaluates them.
    pub evaluation: Range<u64>,
}

impl Stack {
    fn clear(&mut self) {
        self.frames.reset(MOST_FRAMES);
    }

    /// The frames, innermost first.
    pub fn frames(&self) -> &[Placed] {
        &self.frames
    }

    fn is(&self, other: &Stack) -> bool {
        self.frames() == other.frames() && self.evaluation == other.evaluation
    }
}

/// What a thread keeps from capture to capture: the latest stack and the one before, so that it is seen when they are the same.
pub struct Captures {
    /// They take turns.
    stacks: [Stack; 2],
    latest: usize,
    repeats: Repeats,
    work: Work,
    unchanged: Unchanged,
}

/// What makes frames.
struct Work {
    walk: Walk,
    latest: Latest,
}

// SAFETY: numbers, lists without items, and no walk's reads.
unsafe impl Zeroed for Captures {}

/// What the latest stack depends on.
struct Unchanged {
    /// Address of the [`Interpreter`].
    interpreter: usize,
    thread: u64,
    reads: Reads<MOST_READS>,
}

impl Unchanged {
    /// True if this interpreter would have the latest stack again.
    #[inline]
    fn is_the_same(&self, interpreter: &Interpreter) -> bool {
        self.interpreter == std::ptr::from_ref(interpreter).addr()
            && interpreter.is_initialized()
            && interpreter.thread_state() == Some(self.thread)
            && self.reads.are_the_same()
            && interpreter.is_initialized()
    }
}

impl Captures {
    /// Takes the calling thread's Python frames, if it has any; true if they are those of the latest capture. The loaded objects
    /// are those of this generation.
    #[inline]
    pub fn take(&mut self, recorder: &Recorder, generation: u32) -> bool {
        let to = &mut self.stacks[1 - self.latest];
        to.clear();
        let mut is_noted = false;
        if !IS_OFF.load(Ordering::Relaxed) {
            let mut interpreters = find::interpreters(generation);
            let first = interpreters.next();
            if first.is_some_and(|first| self.unchanged.is_the_same(first)) {
                self.repeats.saved();
                return true;
            }
            self.unchanged.reads.clear();
            let mut notes = self
                .repeats
                .are_worth_notes()
                .then_some(&mut self.unchanged);
            is_noted = notes.is_some();
            for interpreter in first.into_iter().chain(interpreters) {
                take(recorder, interpreter, &mut self.work, to, notes.take());
                if !to.frames.is_empty() {
                    break;
                }
            }
        }
        if to.frames.is_empty() {
            // Another interpreter may have frames the next time, or this one may have begun anew.
            self.unchanged.reads.clear();
        }
        self.latest = 1 - self.latest;
        let [one, other] = &self.stacks;
        let is_same = one.is(other);
        let notes = is_noted.then(|| self.unchanged.reads.are_whole());
        self.repeats.walked(is_same, notes);
        is_same
    }

    /// The thread ends.
    pub fn forget(&mut self) {
        self.unchanged.reads.forget();
    }

    /// The latest.
    pub fn stack(&self) -> &Stack {
        &self.stacks[self.latest]
    }
}

fn take(
    recorder: &Recorder,
    interpreter: &Interpreter,
    work: &mut Work,
    to: &mut Stack,
    notes: Option<&mut Unchanged>,
) {
    if !interpreter.is_initialized() {
        return;
    }
    let Some(thread) = interpreter.thread_state() else {
        return;
    };
    let layout = match &interpreter.layout {
        Ok(layout) => layout,
        Err(reason) => return switch_off(recorder, reason),
    };
    if interpreter.hides_others() {
        tell_of_others(recorder);
    }
    let Stack {
        frames: kept,
        evaluation,
    } = to;
    let Work { walk, latest } = work;
    walk.reset();
    latest.of_thread(thread);
    let types = &interpreter.types;
    let is_sound = interpreter.checked.load(Ordering::Relaxed) == SOUND;
    let mut notes = notes.filter(|_| is_sound);
    if let Some(unchanged) = &mut notes {
        unchanged.interpreter = std::ptr::from_ref(interpreter).addr();
        unchanged.thread = thread;
        unchanged.reads.begin();
        let noted = Noted::new(&mut unchanged.reads);
        if walk.run(layout, thread, types.code, &noted).is_err() {
            unchanged.reads.spoil();
        }
    } else if is_sound {
        // A chain that breaks off (it never should) is good up to there.
        let _ = walk.run(layout, thread, types.code, Known);
    } else {
        let whole = walk.run(layout, thread, types.code, Asked).is_ok();
        let (inner, _, outer) = walk.finish();
        let frames = inner.iter().chain(outer);
        let sound = frames.filter(|frame| code::is_sound(layout, types, frame, Asked));
        // One or the other may have a name of a type of its own.
        if !whole || sound.count() * 2 < inner.len() + outer.len() {
            let (major, minor) = (interpreter.version >> 24, interpreter.version >> 16 & 0xff);
            let reason =
                format!("this build of CPython {major}.{minor} keeps its frames in an unknown way");
            return switch_off(recorder, &reason);
        }
        if inner.is_empty() {
            return;
        }
        interpreter.checked.store(SOUND, Ordering::Relaxed);
        walk.reset();
        let _ = walk.run(layout, thread, types.code, Known);
    }
    let (inner, left_out, outer) = walk.finish();
    if let Some(unchanged) = notes {
        let noted = Noted::new(&mut unchanged.reads);
        for frame in inner.iter().chain(outer) {
            code::tell_apart(layout, frame, &noted);
        }
        unchanged.reads.end();
    }
    let word = |frame| code::word(recorder, layout, types, frame);
    for (frame, distance) in inner.iter().zip((0..inner.len()).rev()) {
        let version = code::version(layout, frame, Known);
        kept.push(Placed {
            word: latest.word(distance, frame, version, || word(frame)),
            by: frame.by,
        });
    }
    if let Some(last) = inner.last().filter(|_| left_out > 0) {
        kept.push(Placed {
            word: words::gap(left_out),
            by: last.by,
        });
    }
    for frame in outer {
        kept.push(Placed {
            word: word(frame),
            by: frame.by,
        });
    }
    *evaluation = interpreter.evaluation().clone();
    // Its end may have begun meanwhile, and with it the end of this thread's frames.
    if !interpreter.is_initialized() {
        kept.clear();
    }
}

#[cold]
fn tell_of_others(recorder: &Recorder) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::AcqRel) {
        let note = Record::Note {
            time_ns: recorder.now(),
            text: "there are several Python interpreters: before Python 3.12 stacks show the frames of the first only".into(),
        };
        channel::send(&recorder.sender, Raw::boxed(note));
    }
}

#[cold]
fn switch_off(recorder: &Recorder, reason: &str) {
    if IS_OFF.swap(true, Ordering::AcqRel) {
        return;
    }
    let note = Record::Note {
        time_ns: recorder.now(),
        text: format!("no Python frames in stacks: {reason}"),
    };
    channel::send(&recorder.sender, Raw::boxed(note));
}
