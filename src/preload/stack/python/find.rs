//! The interpreters of the process: looked for in the loaded objects each time these have changed, without the loader.
//! A statically linked Python is found as well as a library that was loaded for itself alone (`RTLD_LOCAL`).

use super::super::super::doors::elf::{self, Kind, Object};
use super::code::Types;
use super::layout::{self, Layout};
use super::memory::Known;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

/// Interpreters that a process can have.
const MOST: usize = 4;

static FOUND: [AtomicPtr<Interpreter>; MOST] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
/// Generation of the loaded objects that was looked at last, plus one.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Where an interpreter keeps what we need; 0 for what it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Symbols {
    runtime: u64,
    thread_state: u64,
    is_initialized: u64,
    version: u64,
    get_version: u64,
    code_type: u64,
    text_type: u64,
    bytes_type: u64,
    latest_interpreter: u64,
    main_interpreter: u64,
    evaluation: Range<u64>,
}

/// A CPython in this process. Never freed: hooks may be using it.
pub struct Interpreter {
    symbols: Symbols,
    /// As in `Py_Version`.
    pub version: u32,
    /// How it keeps its frames, or why that is not known.
    pub layout: Result<Layout, String>,
    /// Addresses of its types.
    pub types: Types,
    /// What has been found out about the layout; see `super`.
    pub checked: AtomicU8,
}

impl Symbols {
    fn of(object: &Object<'_>) -> Symbols {
        let start = |name: &CStr, kind| object.range(name, kind).map_or(0, |range| range.start);
        let runtime = start(c"_PyRuntime", Kind::Data);
        let code_type = start(c"PyCode_Type", Kind::Data);
        if runtime == 0 && code_type == 0 {
            return Symbols::default();
        }
        Symbols {
            runtime,
            code_type,
            thread_state: start(c"PyGILState_GetThisThreadState", Kind::Function),
            is_initialized: start(c"Py_IsInitialized", Kind::Function),
            version: start(c"Py_Version", Kind::Data),
            get_version: start(c"Py_GetVersion", Kind::Function),
            text_type: start(c"PyUnicode_Type", Kind::Data),
            bytes_type: start(c"PyBytes_Type", Kind::Data),
            latest_interpreter: start(c"PyInterpreterState_Head", Kind::Function),
            main_interpreter: start(c"PyInterpreterState_Main", Kind::Function),
            evaluation: object
                .range(c"_PyEval_EvalFrameDefault", Kind::Function)
                .unwrap_or_default(),
        }
    }

    /// What the program defines itself, the libraries use, too (a type that it refers to is copied into it).
    fn or_of(self, program: &Symbols) -> Symbols {
        let or = |own: u64, of_program: u64| if of_program != 0 { of_program } else { own };
        Symbols {
            runtime: or(self.runtime, program.runtime),
            thread_state: or(self.thread_state, program.thread_state),
            is_initialized: or(self.is_initialized, program.is_initialized),
            version: or(self.version, program.version),
            get_version: or(self.get_version, program.get_version),
            code_type: or(self.code_type, program.code_type),
            text_type: or(self.text_type, program.text_type),
            bytes_type: or(self.bytes_type, program.bytes_type),
            latest_interpreter: or(self.latest_interpreter, program.latest_interpreter),
            main_interpreter: or(self.main_interpreter, program.main_interpreter),
            evaluation: self.evaluation,
        }
    }

    /// Enough to know an interpreter, of whatever version.
    fn are_an_interpreters(&self) -> bool {
        let needed = [
            self.thread_state,
            self.is_initialized,
            self.code_type,
            self.version | self.get_version,
        ];
        !needed.contains(&0)
    }

    /// Enough to read one.
    fn are_whole(&self) -> bool {
        ![self.runtime, self.text_type, self.bytes_type].contains(&0)
    }

    fn version(&self) -> u32 {
        if self.version != 0 {
            let at = std::ptr::with_exposed_provenance::<u32>(self.version as usize);
            // SAFETY: `Py_Version` is a constant of the loaded interpreter, an unsigned long.
            return unsafe { at.read() };
        }
        type GetVersion = unsafe extern "C" fn() -> *const c_char;
        let get = std::ptr::with_exposed_provenance::<c_void>(self.get_version as usize);
        // SAFETY: `Py_GetVersion` of the loaded interpreter; it may be called at any time, without the GIL: it writes the
        // same text into the same place each time, and returns it.
        let text =
            unsafe { CStr::from_ptr(std::mem::transmute::<*const c_void, GetVersion>(get)()) };
        number_of(&text.to_string_lossy())
    }
}

/// `3.10.13 (main, ...)` is 0x030a0d00.
fn number_of(version: &str) -> u32 {
    let numbers = version.split(|c: char| !c.is_ascii_digit()).take(3);
    numbers.zip([24, 16, 8]).fold(0, |sum, (number, shift)| {
        sum | number.parse::<u32>().unwrap_or(0).min(255) << shift
    })
}

impl Interpreter {
    fn new(symbols: Symbols) -> Interpreter {
        let version = symbols.version();
        Interpreter {
            version,
            layout: match symbols.are_whole() {
                // The runtime's beginning is constant data of the loaded interpreter.
                true => layout::of(version, symbols.runtime, Known),
                false => Err(layout::unknown(version)),
            },
            types: Types {
                code: symbols.code_type,
                text: symbols.text_type,
                bytes: symbols.bytes_type,
            },
            symbols,
            checked: AtomicU8::new(0),
        }
    }

    /// False before it is initialised, and from the beginning of its end on.
    pub fn is_initialized(&self) -> bool {
        type IsInitialized = unsafe extern "C" fn() -> c_int;
        let ask = std::ptr::with_exposed_provenance::<c_void>(self.symbols.is_initialized as usize);
        // SAFETY: `Py_IsInitialized` of a loaded interpreter, a plain load of a flag, at any time, without the GIL.
        unsafe { std::mem::transmute::<*const c_void, IsInitialized>(ask)() != 0 }
    }

    /// The state that Python keeps of the calling thread, if it knows it.
    pub fn thread_state(&self) -> Option<u64> {
        type ThreadState = unsafe extern "C" fn() -> *const c_void;
        let ask = std::ptr::with_exposed_provenance::<c_void>(self.symbols.thread_state as usize);
        // SAFETY: `PyGILState_GetThisThreadState` of a loaded interpreter: a look at a thread-local value, without the GIL.
        let state = unsafe { std::mem::transmute::<*const c_void, ThreadState>(ask)() };
        (!state.is_null()).then_some(state.expose_provenance() as u64)
    }

    /// True if there are others in the process whose frames this version does not tell of: before 3.12 a thread's state is
    /// that of the first.
    #[inline]
    pub fn hides_others(&self) -> bool {
        const TELLS: u32 = 0x030c_0000;
        self.version < TELLS && self.has_others()
    }

    fn has_others(&self) -> bool {
        type Ask = unsafe extern "C" fn() -> *const c_void;
        let (latest, main) = (
            self.symbols.latest_interpreter,
            self.symbols.main_interpreter,
        );
        if latest == 0 || main == 0 {
            return false;
        }
        let ask = |function: u64| {
            let function = std::ptr::with_exposed_provenance::<c_void>(function as usize);
            // SAFETY: of a loaded interpreter that is initialised: plain loads of two pointers, which are only compared.
            unsafe { std::mem::transmute::<*const c_void, Ask>(function)() }
        };
        ask(latest) != ask(main)
    }

    /// Where the function lies that evaluates frames.
    pub fn evaluation(&self) -> &Range<u64> {
        &self.symbols.evaluation
    }
}

/// The interpreters of this process, while the loaded objects are those of this generation.
#[inline]
pub fn interpreters(generation: u32) -> impl Iterator<Item = &'static Interpreter> {
    if LOOKED.load(Ordering::Acquire) != u64::from(generation) + 1 {
        look(generation);
    }
    FOUND
        .iter()
        // They fill the slots from the first on, and hardly any process has one too many.
        .map_while(|slot| {
            let found = slot.load(Ordering::Acquire);
            // SAFETY: leaked boxes, never freed.
            unsafe { found.as_ref() }
        })
}

#[cold]
fn look(generation: u32) {
    let mut candidates: [Symbols; MOST] = Default::default();
    let mut number = 0;
    let mut program = None;
    elf::each(&mut |object| {
        let own = Symbols::of(&object);
        let program: &Symbols = program.get_or_insert_with(|| own.clone());
        let symbols = match own == Symbols::default() {
            true => return false,
            false => own.or_of(program),
        };
        if symbols.are_an_interpreters()
            && !candidates[..number]
                .iter()
                .any(|one| one.code_type == symbols.code_type)
        {
            candidates[number] = symbols;
            number += 1;
        }
        number == MOST
    });
    let mut slots = FOUND.iter();
    for symbols in candidates.into_iter().take(number) {
        let Some(slot) = slots.next() else { break };
        let known = slot.load(Ordering::Acquire);
        // SAFETY: leaked boxes, never freed.
        if unsafe { known.as_ref() }.is_some_and(|known| known.symbols == symbols) {
            continue;
        }
        let new = Box::into_raw(Box::new(Interpreter::new(symbols)));
        if slot
            .compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: it was not published.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    for slot in slots {
        slot.store(std::ptr::null_mut(), Ordering::Release);
    }
    LOOKED.store(u64::from(generation) + 1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_their_text() {
        assert_eq!(number_of("3.10.13 (main, May  9 2026)"), 0x030a_0d00);
        assert_eq!(number_of("3.8.18+ (default)"), 0x0308_1200);
        assert_eq!(number_of(""), 0);
        assert_eq!(number_of("x.y"), 0);
    }

    #[test]
    fn a_process_without_python_has_no_interpreter() {
        assert_eq!(interpreters(7).count(), 0);
        assert_eq!(LOOKED.load(Ordering::Relaxed), 8);
        assert_eq!(interpreters(7).count(), 0);
    }
}
