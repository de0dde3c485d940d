//! `sigaction`, `signal` and their relatives: the program sees and sets its own dispositions, never ours.
//!
//! The kernel knows which handler is installed; kept here is only what the program believes where that is one of ours.

use super::super::doors;
use super::super::state;
use super::signals::{self, asks, ended, is_watched, once};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// What the program believes of a signal.
struct View {
    handler: AtomicUsize,
    flags: AtomicUsize,
    mask: AtomicU64,
}

const SIGNALS: usize = 65;

/// What glibc adds to the flags of every action that it installs (`SA_RESTORER`), and hands out again.
const FLAGS_OF_GLIBC: c_int = if cfg!(target_arch = "x86_64") {
    0x0400_0000
} else {
    0
};
/// What the kernel takes out of every mask.
const NEVER_BLOCKED: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);

static VIEWS: [View; SIGNALS] = [const {
    View {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicUsize::new(0),
        mask: AtomicU64::new(0),
    }
}; SIGNALS];

/// The signal that asks for a report (`OOMHOOK_SIGNAL`); 0 for none. Our handler stays in the kernel for it, and does what the
/// program believes to have set besides.
static ASKING: AtomicI32 = AtomicI32::new(0);

/// True for the signal that asks for a report.
pub fn is_asking(signal: c_int) -> bool {
    signal != 0 && ASKING.load(Ordering::Acquire) == signal
}

/// A handler of the program's.
pub enum Action {
    /// Takes the signal.
    Plain(unsafe extern "C" fn(c_int)),
    /// Takes what the kernel says of it as well.
    WithInfo(unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)),
}

/// A disposition without its restorer, which is glibc's own business.
#[derive(Clone, Copy)]
struct Disposition {
    handler: usize,
    flags: c_int,
    /// The kernel's 64 signals.
    mask: u64,
}

fn view(signal: c_int) -> Option<&'static View> {
    VIEWS.get(usize::try_from(signal).ok()?)
}

impl View {
    fn load(&self) -> Disposition {
        Disposition {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Acquire) as c_int,
            mask: self.mask.load(Ordering::Acquire),
        }
    }

    /// Keeps what the kernel says.
    fn keep(&self, disposition: Disposition) {
        self.flags
            .store(disposition.flags as usize, Ordering::Release);
        self.mask.store(disposition.mask, Ordering::Release);
        self.handler.store(disposition.handler, Ordering::Release);
    }

    /// Keeps what the program says, as the kernel would show it.
    fn store(&self, disposition: Disposition) {
        let flags = disposition.flags | FLAGS_OF_GLIBC;
        let mask = disposition.mask & !NEVER_BLOCKED;
        self.flags.store(flags as usize, Ordering::Release);
        self.mask.store(mask, Ordering::Release);
        self.handler.store(disposition.handler, Ordering::Release);
    }
}

impl Disposition {
    fn of(action: &libc::sigaction) -> Disposition {
        let mask: *const libc::sigset_t = &raw const action.sa_mask;
        Disposition {
            handler: action.sa_sigaction,
            flags: action.sa_flags,
            // SAFETY: glibc's set begins with the kernel's 64 bits.
            mask: unsafe { mask.cast::<u64>().read() },
        }
    }

    fn put_into(self, action: &mut libc::sigaction) {
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        let mask: *mut libc::sigset_t = &raw mut action.sa_mask;
        // SAFETY: as in `of`.
        unsafe { mask.cast::<u64>().write(self.mask) };
    }
}

type SigAction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

// SAFETY: glibc's own name for its `sigaction`.
unsafe extern "C" {
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

/// A function behind us, looked up once.
fn real(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let found = doors::behind_us(name);
    cache.store(found, Ordering::Release);
    found
}

unsafe fn real_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let found = real(&REAL, c"sigaction");
    let call: SigAction = if found.is_null() {
        __sigaction
    } else {
        // SAFETY: the next function of this name has its signature.
        unsafe { std::mem::transmute::<*mut c_void, SigAction>(found) }
    };
    // SAFETY: the caller's own arguments.
    unsafe { call(signal, new, old) }
}

fn empty() -> libc::sigaction {
    // SAFETY: zeroes are a valid value: the default action, no flags, no signals.
    unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() }
}

/// What is installed now.
fn installed(signal: c_int) -> Option<Disposition> {
    let mut now = empty();
    // SAFETY: `now` is valid for writes.
    let code = unsafe { real_sigaction(signal, std::ptr::null(), &mut now) };
    (code == 0).then(|| Disposition::of(&now))
}

/// Stands in for the default action, if that is what is installed, or what will be when a handler has run once.
pub fn stand_in(signal: c_int) {
    let (Some(now), Some(view)) = (installed(signal), view(signal)) else {
        return;
    };
    let action = if now.handler == libc::SIG_DFL {
        ours()
    } else if is_for_once(now) && !is_ours(now.handler) {
        for_once(now)
    } else {
        return;
    };
    view.keep(now);
    // SAFETY: a complete action with a handler of this library, which is never unloaded.
    unsafe { real_sigaction(signal, &action, std::ptr::null_mut()) };
}

/// True if our handler stands in for the signal's default action.
pub fn stands_in(signal: c_int) -> bool {
    installed(signal).is_some_and(|now| now.handler == ended as *const () as usize)
}

fn is_for_once(disposition: Disposition) -> bool {
    disposition.flags & libc::SA_RESETHAND != 0
        && !matches!(disposition.handler, libc::SIG_DFL | libc::SIG_IGN)
}

/// Our handler in the place of one that is to run once.
fn for_once(wanted: Disposition) -> libc::sigaction {
    let mut action = empty();
    Disposition {
        handler: once as *const () as usize,
        flags: (wanted.flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO,
        mask: wanted.mask,
    }
    .put_into(&mut action);
    action
}

/// Has a signal ask for a report from now on. False if it cannot be caught.
pub fn ask_by(signal: c_int) -> bool {
    let (Some(now), Some(view)) = (installed(signal), view(signal)) else {
        return false;
    };
    let believed = shown(now, view.load());
    view.keep(believed);
    ASKING.store(signal, Ordering::Release);
    // SAFETY: a complete action with a handler of this library, which is never unloaded.
    unsafe { real_sigaction(signal, &asking(believed), std::ptr::null_mut()) == 0 }
}

/// Has the signal that asked before ask again.
pub fn ask_again() {
    let signal = ASKING.load(Ordering::Acquire);
    if signal != 0 {
        ask_by(signal);
    }
}

/// Our handler for the signal that asks, where the program believes this. Its flags stay: it may want its system calls
/// interrupted, or this signal only. Where it has no handler, nothing is to be interrupted.
fn asking(believed: Disposition) -> libc::sigaction {
    let has_function = !matches!(believed.handler, libc::SIG_DFL | libc::SIG_IGN);
    let flags = if has_function {
        // Also whether it wants the alternate stack: there may be too little room on it.
        believed.flags & !libc::SA_RESETHAND
    } else {
        libc::SA_RESTART | libc::SA_ONSTACK
    };
    let mut action = empty();
    Disposition {
        handler: asks as *const () as usize,
        flags: flags | libc::SA_SIGINFO,
        mask: if has_function { believed.mask } else { 0 },
    }
    .put_into(&mut action);
    action
}

/// In the child of a fork, and before exec: the signal means what it would have meant without us. (A program that is
/// executed takes over what is ignored.)
pub fn in_child() {
    let signal = ASKING.load(Ordering::Acquire);
    if signal == 0 {
        return;
    }
    let is_ours = installed(signal).is_some_and(|now| now.handler == asks as *const () as usize);
    if let Some(view) = view(signal).filter(|_| is_ours) {
        let mut action = empty();
        view.load().put_into(&mut action);
        // SAFETY: a complete action, the program's own.
        unsafe { real_sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

/// Our handler with all signals blocked, on the alternate stack where there is one: a thread whose stack has run out has no
/// other.
fn ours() -> libc::sigaction {
    let mut action = empty();
    let own = Disposition {
        handler: ended as *const () as usize,
        flags: libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART,
        mask: u64::MAX,
    };
    own.put_into(&mut action);
    action
}

/// Puts the default action back, with the flags that the program gave it. Safe in a signal handler.
pub fn put_back(signal: c_int) {
    let mut action = empty();
    if let Some(view) = view(signal) {
        let shown = view.load();
        Disposition {
            handler: libc::SIG_DFL,
            ..shown
        }
        .put_into(&mut action);
    }
    // SAFETY: a complete action.
    unsafe { real_sigaction(signal, &action, std::ptr::null_mut()) };
}

/// The program's handler that runs once; from now on its default action is back, and ours in the place of that.
pub fn take_once(signal: c_int) -> Option<Action> {
    let view = view(signal)?;
    let handler = view.handler.swap(libc::SIG_DFL, Ordering::AcqRel);
    let action = function(handler, view.flags.load(Ordering::Acquire) as c_int)?;
    // SAFETY: a complete action with a handler of this library, which is never unloaded.
    unsafe { real_sigaction(signal, &ours(), std::ptr::null_mut()) };
    Some(action)
}

/// The program's handler of the signal that asks, if it has one.
pub fn besides(signal: c_int) -> Option<Action> {
    let view = view(signal)?;
    let flags = view.flags.load(Ordering::Acquire) as c_int;
    let handler = if flags & libc::SA_RESETHAND != 0 {
        view.handler.swap(libc::SIG_DFL, Ordering::AcqRel)
    } else {
        view.handler.load(Ordering::Acquire)
    };
    function(handler, flags)
}

/// The program's handler, as it believes to have installed it.
pub fn handler_of(signal: c_int) -> Option<Action> {
    let view = view(signal)?;
    function(
        view.handler.load(Ordering::Acquire),
        view.flags.load(Ordering::Acquire) as c_int,
    )
}

/// The program's function, if it is one.
fn function(handler: usize, flags: c_int) -> Option<Action> {
    if matches!(handler, libc::SIG_DFL | libc::SIG_IGN) {
        return None;
    }
    // SAFETY: the program installed a function of the kind that its flags name.
    Some(unsafe {
        if flags & libc::SA_SIGINFO != 0 {
            Action::WithInfo(std::mem::transmute::<
                usize,
                unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
            >(handler))
        } else {
            Action::Plain(std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(
                handler,
            ))
        }
    })
}

/// True in the process that is recorded: not in a child of `vfork`, which shares its memory, nor in one of `fork`.
pub fn is_recorded_here() -> bool {
    state::recorder_at_the_end().is_some_and(|recorder| recorder.pid == std::process::id())
}

fn is_ours(handler: usize) -> bool {
    let own = [
        ended as *const () as usize,
        once as *const () as usize,
        asks as *const () as usize,
    ];
    own.contains(&handler)
}

/// What the program is to see in the place of what is installed.
fn shown(installed: Disposition, believed: Disposition) -> Disposition {
    if is_ours(installed.handler) {
        believed
    } else {
        installed
    }
}

/// `sigaction`.
#[cfg_attr(test, allow(dead_code))]
unsafe fn set(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    let Some(view) = view(signal).filter(|_| is_watched(signal)) else {
        // SAFETY: the caller's own arguments.
        return unsafe { real_sigaction(signal, new, old) };
    };
    let believed = view.load();
    // SAFETY: NULL, or valid for reads by the contract of sigaction.
    let wanted = unsafe { new.as_ref() }.map(Disposition::of);
    let mut passed = wanted.map(|wanted| {
        let mut action = empty();
        wanted.put_into(&mut action);
        action
    });
    if let (Some(wanted), Some(passed)) = (wanted, passed.as_mut())
        && is_recorded_here()
    {
        let is_default = wanted.handler == libc::SIG_DFL;
        if is_asking(signal) {
            *passed = asking(wanted);
            view.store(wanted);
        } else if is_default && signals::may_stand_in(signal) {
            *passed = ours();
            view.store(wanted);
        } else if is_for_once(wanted) {
            *passed = for_once(wanted);
            view.store(wanted);
        }
    }
    let mut now = empty();
    let passed = passed.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both are complete actions of ours.
    let code = unsafe { real_sigaction(signal, passed, &mut now) };
    if code == 0 {
        // SAFETY: NULL, or valid for writes by the contract of sigaction.
        if let Some(old) = unsafe { old.as_mut() } {
            *old = now;
            shown(Disposition::of(&now), believed).put_into(old);
        }
    }
    code
}

/// `signal` and its relatives, which differ in the flags that they set.
#[cfg_attr(test, allow(dead_code))]
fn set_simply(signal: c_int, handler: usize, flags: c_int) -> usize {
    let mut new = empty();
    let own = 1u64
        .checked_shl((signal - 1) as u32)
        .filter(|_| flags & libc::SA_NODEFER == 0);
    Disposition {
        handler,
        flags,
        mask: own.unwrap_or(0),
    }
    .put_into(&mut new);
    let mut old = empty();
    // SAFETY: both are complete.
    if unsafe { set(signal, &new, &mut old) } == 0 {
        old.sa_sigaction
    } else {
        libc::SIG_ERR
    }
}

/// The handler that a call answers, as the program believes it to be.
#[cfg_attr(test, allow(dead_code))]
fn of_the_program(signal: c_int, call: impl FnOnce() -> usize) -> usize {
    let believed = view(signal).map(View::load);
    let before = call();
    match believed {
        Some(believed) if is_watched(signal) && is_ours(before) => believed.handler,
        _ => before,
    }
}

#[cfg(not(test))]
mod export {
    use super::{
        c_int, is_asking, is_recorded_here, is_watched, of_the_program, real, set, set_simply,
        stand_in,
    };
    use std::ffi::{CStr, c_void};
    use std::sync::atomic::AtomicPtr;

    type Signal = unsafe extern "C" fn(c_int, usize) -> usize;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn sigaction(
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> c_int {
        // SAFETY: the caller's own arguments.
        unsafe { set(signal, new, old) }
    }

    /// Ours where it is about a default action, else the real function of that name.
    fn simple(
        cache: &AtomicPtr<c_void>,
        name: &CStr,
        flags: c_int,
        signal: c_int,
        handler: usize,
    ) -> usize {
        let found = real(cache, name);
        let is_ours_to_do =
            handler == libc::SIG_DFL || flags & libc::SA_RESETHAND != 0 || is_asking(signal);
        if found.is_null() || is_watched(signal) && is_ours_to_do {
            return set_simply(signal, handler, flags);
        }
        // SAFETY: the next function of this name has its signature.
        let call = unsafe { std::mem::transmute::<*mut c_void, Signal>(found) };
        // SAFETY: the caller's own arguments.
        of_the_program(signal, || unsafe { call(signal, handler) })
    }

    /// `sigset` of System V, which also blocks.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn sigset(signal: c_int, handler: usize) -> usize {
        static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
        let found = real(&REAL, c"sigset");
        if found.is_null() {
            return libc::SIG_ERR;
        }
        // SAFETY: the next function of this name has its signature.
        let call = unsafe { std::mem::transmute::<*mut c_void, Signal>(found) };
        // SAFETY: the caller's own arguments.
        let before = of_the_program(signal, || unsafe { call(signal, handler) });
        if handler == libc::SIG_DFL && is_watched(signal) && is_recorded_here() {
            stand_in(signal);
        }
        before
    }

    macro_rules! simple {
        ($name:ident, $flags:expr) => {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
                static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                const NAME: &CStr =
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a symbol cannot hold a NUL"),
                    };
                simple(&REAL, NAME, $flags, signal, handler)
            }
        };
    }

    simple!(signal, libc::SA_RESTART);
    simple!(bsd_signal, libc::SA_RESTART);
    simple!(ssignal, libc::SA_RESTART);
    simple!(sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER);
    simple!(__sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER);
}
