//! The way from an exported function to the driver's state: process state, faults, lock, panics.

use crate::abi::Handle;
use crate::codes::{Answer, Code, number, require};
use crate::faults::Faults;
use crate::os;
use crate::pointer::Out;
use crate::settings::Settings;
use crate::state::{Driver, Stream, Thread};
use std::ffi::c_int;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

static INITIALISED: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);
/// The process that initialised the driver: a forked child sees what its parent has.
static PROCESS: AtomicU32 = AtomicU32::new(0);

struct Simulator {
    faults: Faults,
    driver: Mutex<Driver>,
}

fn simulator() -> &'static Simulator {
    static SIMULATOR: OnceLock<Simulator> = OnceLock::new();
    SIMULATOR.get_or_init(|| {
        let variable = |name: &str| std::env::var(name).ok();
        // Nobody may be listening; that is no reason to fail.
        let complain = |sentence: String| drop(writeln!(std::io::stderr(), "{sentence}"));
        let settings = Settings::read(variable, complain);
        Simulator {
            faults: Faults::read(variable, complain),
            driver: Mutex::new(Driver::new(&settings)),
        }
    })
}

/// Marks the driver as initialised, and learns of the end of the process and of forks.
pub fn initialise() {
    extern "C" fn ended() {
        ENDED.store(true, Ordering::SeqCst);
    }
    unsafe extern "C" fn forked() {
        FORKED.store(true, Ordering::SeqCst);
    }
    if !INITIALISED.swap(true, Ordering::SeqCst) {
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        os::watch_process(ended, forked);
    }
}

/// The number of the process whose contexts these are.
pub fn process() -> u32 {
    PROCESS.load(Ordering::SeqCst)
}

/// Does the work of a function of NVML, which cares neither for the driver's beginning nor for its end. `None` after a
/// panic, and where the lock cannot be had: a forked child may find it held for ever.
pub fn ask<T>(
    symbol: &'static str,
    work: impl FnOnce(&mut Driver) -> Answer<T>,
) -> Option<Answer<T>> {
    let guarded = catch_unwind(AssertUnwindSafe(|| {
        let simulator = simulator();
        let (failure, stall) = simulator.faults.meet(symbol);
        let answer = match failure {
            Some(Code::SUCCESS) | None => Some(work(&mut *locked_soon(&simulator.driver)?)),
            Some(code) => Some(Err(code)),
        };
        if let Some(time) = stall {
            std::thread::sleep(time);
        }
        answer
    }));
    guarded.ok().flatten()
}

fn locked_soon(driver: &Mutex<Driver>) -> Option<MutexGuard<'_, Driver>> {
    for _ in 0..1000 {
        match driver.try_lock() {
            Ok(driver) => return Some(driver),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// One call of an exported function.
#[derive(Clone, Copy)]
pub struct Call {
    pub symbol: &'static str,
    /// Whether the NULL stream means the thread's own.
    pub per_thread: bool,
}

impl Call {
    /// Does the work of a function that needs `cuInit` first.
    pub fn run<T>(self, work: impl FnOnce(&mut Driver, Thread) -> Answer<T>) -> Answer<T> {
        self.pass(|driver, thread| {
            if !INITIALISED.load(Ordering::SeqCst) {
                return Err(Code::NOT_INITIALIZED);
            }
            work(driver, thread)
        })
    }

    /// Does the work of a function that may come before `cuInit`.
    pub fn pass<T>(self, work: impl FnOnce(&mut Driver, Thread) -> Answer<T>) -> Answer<T> {
        if ENDED.load(Ordering::SeqCst) {
            return Err(Code::DEINITIALIZED);
        }
        // In a forked child the lock may be held for ever, so this comes before it.
        if FORKED.load(Ordering::SeqCst) {
            return Err(Code::NOT_INITIALIZED);
        }
        let guarded = catch_unwind(AssertUnwindSafe(|| {
            let simulator = simulator();
            let (failure, stall) = simulator.faults.meet(self.symbol);
            let answer = match failure {
                Some(Code::SUCCESS) | None => {
                    let mut driver = simulator.driver.lock().unwrap_or_else(|e| e.into_inner());
                    work(&mut driver, Thread(os::thread()))
                }
                Some(code) => Err(code),
            };
            if let Some(time) = stall {
                std::thread::sleep(time);
            }
            answer
        }));
        guarded.unwrap_or(Err(Code::UNKNOWN))
    }

    /// A stream as this function understands it.
    pub fn stream(self, handle: Handle) -> Stream {
        Stream {
            handle,
            per_thread: self.per_thread,
        }
    }

    /// [`Call::run`] for a function without results.
    pub fn act(self, work: impl FnOnce(&mut Driver, Thread) -> Answer<()>) -> c_int {
        number(&self.run(work))
    }

    /// [`Call::run`] for a function with one result, whose place may not be NULL.
    pub fn give<T: Copy>(
        self,
        out: Out<T>,
        work: impl FnOnce(&mut Driver, Thread) -> Answer<T>,
    ) -> c_int {
        let answer = self.run(|driver, thread| {
            require(out.is_set())?;
            work(driver, thread)
        });
        out.store(answer);
        number(&answer)
    }
}
