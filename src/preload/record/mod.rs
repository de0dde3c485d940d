//! The hot path: what happens around every intercepted call.
//!
//! A *recipe* says what a call means. It is built for each call from the call's arguments and asked before and after
//! the real function: frees are recorded before (another thread may get the same address the moment the real free
//! returns) and taken back if they fail; allocations are recorded after.

pub mod array;
pub mod capture;
pub mod context;
pub mod failure;
pub mod graph;
pub mod image;
pub mod import;
pub mod info;
pub mod memory;
pub mod object;
pub mod pitch;
pub mod pool;
pub mod resolve;
pub mod virtual_memory;

use super::cancel::NoCancel;
use super::costs::Measure;
use super::costs::traffic::{Passage, Scope};
use super::guard::{self, NO_ROW, Thread};
use super::hooks::RowId;
use super::hooks::abi::{Code, OUT_OF_MEMORY, SUCCESS};
use super::pretend::{self, Ask, Claim};
use super::raw::{NO_DEVICE, Raw};
use super::state::{self, Recorder};
use super::{channel, devices, stack, threads};
use oomhook_trace::Record;
use oomhook_trace::record::CostKind;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How a call is recorded.
pub trait Recipe {
    /// The recording begins with such a call: a context creation or an attempt to allocate.
    fn starts(&self) -> bool {
        false
    }
    /// Nothing but out of memory is recorded of it: asked after a failure only.
    fn only_failures(&self) -> bool {
        false
    }
    /// It can make events.
    fn records(&self) -> bool {
        true
    }
    /// A driver call of this kind stands for the runtime call above it. (A runtime call that makes the context on its
    /// way is not that.)
    fn stands_for_runtime(&self) -> bool {
        true
    }
    /// The block that the call would make, if it makes one: whether it fits a pretended size is decided by that, and
    /// attempts to allocate are counted by it. `None` also for what the driver refuses or answers without memory.
    fn asks(&self) -> Option<Ask> {
        None
    }
    /// It may take device memory that it does not speak of, for this: measured around the call.
    fn cost(&self) -> Option<CostKind> {
        None
    }
    /// Whose memory it may move.
    fn scope(&self) -> Scope {
        Scope::Any
    }
    /// Before the real call.
    fn before(&mut self, _call: &Call) {}
    /// After the real call.
    fn after(&mut self, _call: &Call, _code: Code) {}
    /// After the real call, also when nothing is recorded.
    fn always(&mut self, _code: Code) {}
    /// A runtime call has returned and no driver hook saw anything. True if it did something that a driver hook should
    /// have seen: this runtime goes past our doors.
    fn unseen(&mut self, _call: &Call, _code: Code) -> bool {
        false
    }
}

/// A call that is only named, never recorded.
pub struct Pass;

impl Recipe for Pass {
    fn records(&self) -> bool {
        false
    }
}

/// A call in progress, with all that recording needs.
pub struct Call<'a> {
    recorder: &'static Recorder,
    thread: &'a Thread,
    row: RowId,
}

impl Call<'_> {
    /// Sends an event, filling in time, thread and call.
    pub fn send(&self, raw: Raw) {
        self.send_with_stack(raw, 0);
    }

    /// Sends an event with the stack of the calling thread.
    pub fn send_here(&self, raw: Raw) {
        self.send_with_stack(raw, stack::capture(self.recorder));
    }

    fn send_with_stack(&self, raw: Raw, stack: u32) {
        let label = self.thread.label.get();
        let row = if label == NO_ROW { self.row } else { label };
        let thread = threads::number(self.recorder, self.thread);
        let raw = Raw {
            time_ns: self.recorder.now(),
            thread,
            call: row + 1,
            stack,
            ..raw
        };
        channel::send(&self.recorder.sender, raw);
    }

    /// What records this process.
    pub fn recorder(&self) -> &'static Recorder {
        self.recorder
    }

    /// Nanoseconds since the recording began.
    pub fn now(&self) -> u64 {
        self.recorder.now()
    }

    /// The calling thread's number.
    pub fn thread_number(&self) -> u32 {
        threads::number(self.recorder, self.thread)
    }

    /// Sends what does not fit into an event.
    pub fn announce(&self, record: Record) {
        let thread = threads::number(self.recorder, self.thread);
        channel::send(
            &self.recorder.sender,
            Raw {
                thread,
                ..Raw::boxed(record)
            },
        );
    }
}

/// Leaves `errno` as it was when dropped: our own work must not show in it.
struct Errno(libc::c_int);

impl Errno {
    fn keep() -> Errno {
        // SAFETY: the location of this thread's errno is always valid.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Our own work: marked as busy, `errno` kept, and no panic gets out.
#[inline]
fn busy_with(thread: &Thread, work: impl FnOnce()) {
    struct Leave<'a>(&'a Thread);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.busy.set(false);
        }
    }
    if thread.busy.replace(true) {
        return;
    }
    let _leave = Leave(thread);
    let _errno = Errno::keep();
    if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
        give_up();
    }
}

#[cold]
fn give_up() {
    state::switch_off("an error inside oomhook; recording stops here, the program goes on");
}

/// Our own work around a call, which may ask the driver: it is not cancelled either.
fn at_work(work: impl FnOnce()) {
    guard::with(|thread| {
        busy_with(thread, || {
            let _whole = NoCancel::begin();
            work();
        });
    });
}

/// What a framework or the program tells on its way, outside any call of CUDA, if the process is recorded. It comes so often that
/// each step counts: nothing in `work` is a cancellation point (what waits, sleeps by `cancel::sleep`).
#[inline]
pub fn on_the_way(thread: &Thread, work: impl FnOnce(&'static Recorder)) {
    if thread.busy.get() {
        return;
    }
    if let Some(recorder) = state::recorder() {
        busy_with(thread, || work(recorder));
    }
}

/// Around a driver function.
pub fn driver_call(row: RowId, recipe: &mut dyn Recipe, real: &mut dyn FnMut() -> Code) -> Code {
    guard::with(|thread| {
        if thread.busy.get() {
            return real();
        }
        if recipe.only_failures() {
            let code = real();
            if code == OUT_OF_MEMORY
                && let Some(recorder) = state::recorder()
            {
                thread.recorded.set(true);
                at_work(|| {
                    recipe.after(
                        &Call {
                            recorder,
                            thread,
                            row,
                        },
                        code,
                    )
                });
            }
            return code;
        }
        if !recipe.records() {
            let code = real();
            at_work(|| recipe.always(code));
            return code;
        }
        if recipe.starts() && !state::is_on() && !state::is_off() {
            at_work(state::start);
        }
        if recipe.stands_for_runtime() {
            thread.recorded.set(true);
        }
        thread.depth.set(thread.depth.get() + 1);
        let call = state::recorder().map(|recorder| Call {
            recorder,
            thread,
            row,
        });
        let is_outermost = thread.depth.get() == 1;
        let passage = call
            .as_ref()
            .filter(|_| is_outermost)
            .map(|call| passage(call, recipe.scope()));
        let mut claim = Claim::Pass;
        if let Some(call) = &call {
            // A call inside a call (a wrapper below us) is part of that, and was judged with it.
            if pretend::is_on() && is_outermost {
                at_work(|| {
                    if let Some(ask) = recipe.asks() {
                        claim = pretend::judge(call, ask);
                    }
                });
            }
            at_work(|| recipe.before(call));
        }
        let mut measure = None;
        if let Some(call) = &call
            && let Some(kind) = recipe.cost().filter(|_| is_outermost)
        {
            at_work(|| measure = Measure::begin(kind, call));
        }
        let code = if claim.is_refused() {
            OUT_OF_MEMORY
        } else {
            real()
        };
        if code != SUCCESS {
            // Recording a failure may take a while.
            claim = Claim::Pass;
        }
        at_work(|| {
            if let Some(measure) = &mut measure {
                measure.look();
            }
            if let Some(call) = &call {
                recipe.after(call, code);
                if let Some(measure) = measure.take() {
                    measure.end(call);
                }
            }
            recipe.always(code);
        });
        drop(passage);
        // Not before the block is sent: who asks the ledger must find the bytes in one of the two places.
        drop(claim);
        let depth = thread.depth.get() - 1;
        thread.depth.set(depth);
        if depth == 0 {
            thread.forget_nested();
        }
        code
    })
}

/// The call is under way from now on.
#[inline]
fn passage(call: &Call, scope: Scope) -> Passage {
    let known = match scope {
        Scope::Any => None,
        Scope::On(device) => Passage::begin_on(device),
        Scope::Current => {
            let mut device = NO_DEVICE;
            at_work(|| device = devices::current(call).device);
            Passage::begin_on(device)
        }
    };
    known.unwrap_or_else(|| Passage::begin(std::ptr::from_ref(call.thread) as usize))
}

/// Around a runtime function: puts its name on the driver calls below it, and records itself only what they do not see.
pub fn runtime_call(
    row: RowId,
    real_address: usize,
    recipe: &mut dyn Recipe,
    real: &mut dyn FnMut() -> Code,
) -> Code {
    guard::with(|thread| {
        // A runtime function called by another one is part of that.
        if thread.busy.get() || thread.label.get() != NO_ROW {
            return real();
        }
        thread.label.set(row);
        let code = if goes_past_us(real_address) {
            driver_call(row, recipe, real)
        } else {
            thread.recorded.set(false);
            let code = real();
            if pretend::is_on() && !recipe.records() {
                // Answers of a runtime that goes past us are pretended here.
                at_work(|| recipe.always(code));
            }
            if !thread.recorded.get() && recipe.records() {
                at_work(|| record_unseen(thread, row, real_address, recipe, code));
            }
            code
        };
        thread.label.set(NO_ROW);
        code
    })
}

#[cold]
fn record_unseen(thread: &Thread, row: RowId, real: usize, recipe: &mut dyn Recipe, code: Code) {
    // A runtime that found no driver has nothing to tell; on a machine without a GPU no file should be left.
    if recipe.starts() && !state::is_off() && super::doors::has_libcuda() {
        state::start();
    }
    let Some(recorder) = state::recorder() else {
        return;
    };
    let call = Call {
        recorder,
        thread,
        row,
    };
    if recipe.unseen(&call, code) {
        if pretend::is_on() && recipe.asks().is_some() {
            pretend::passed_unseen();
        }
        remember_bypass(&call, real);
    }
}

/// Runtime functions that were seen to reach the driver past our doors (a library loaded with RTLD_DEEPBIND, a private
/// entry): they are recorded at their own level from then on.
static BYPASSING: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
static ANY_BYPASSING: AtomicBool = AtomicBool::new(false);

#[inline]
fn goes_past_us(real: usize) -> bool {
    ANY_BYPASSING.load(Ordering::Relaxed)
        && BYPASSING
            .iter()
            .any(|known| known.load(Ordering::Relaxed) == real)
}

#[cold]
fn remember_bypass(call: &Call, real: usize) {
    let free = BYPASSING.iter().find(|entry| {
        entry
            .compare_exchange(0, real, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    if free.is_none() {
        return;
    }
    let first = !ANY_BYPASSING.swap(true, Ordering::AcqRel);
    if first {
        let library = super::libraries::path_of(real);
        call.announce(Record::Note {
            time_ns: call.recorder.now(),
            text: format!(
                "{library} reaches the driver past oomhook's doors (loaded with RTLD_DEEPBIND?): \
                 its calls are recorded at the level of the CUDA runtime"
            ),
        });
    }
}
