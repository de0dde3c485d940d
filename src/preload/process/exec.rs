//! `exec`: another program takes the process's place, and with this one goes all its memory on the device. The trace is
//! closed before, since nothing of ours is left after; if the call fails, it goes on.

use super::super::doors;
use super::super::state;
use super::super::thread;
use super::super::writer::hold;
use super::dispositions;
use oomhook_trace::record::EndKind;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// Does what may put another program in the place of this one.
fn closed(is_there: impl FnOnce() -> bool, call: impl FnOnce() -> c_int) -> c_int {
    let recorder = state::recorder().filter(|recorder| recorder.pid == std::process::id());
    // A shell tries one folder after the other: an end that cannot be is not worth a report.
    if recorder.is_none() || thread::is_ours() || !is_there() {
        return call();
    }
    hold::close(EndKind::Exec, None, super::thread_number());
    dispositions::in_child();
    let code = call();
    let errno = std::io::Error::last_os_error().raw_os_error();
    dispositions::ask_again();
    hold::go_on();
    if let Some(errno) = errno {
        // SAFETY: the location of this thread's errno is always valid.
        unsafe { *libc::__errno_location() = errno };
    }
    code
}

/// Begins every program in machine code.
const ELF: &[u8] = b"\x7fELF";

/// True if the file can be executed: what can be told before it is tried. A report of an end that does not come is a lie.
fn is_program(path: *const c_char) -> bool {
    is_executable(path) && begins_well(path, 0)
}

fn is_executable(path: *const c_char) -> bool {
    // SAFETY: a NUL-terminated path by the contract of exec.
    !path.is_null() && unsafe { libc::access(path, libc::X_OK) } == 0
}

/// Machine code, or a script whose interpreter is there.
fn begins_well(path: *const c_char, depth: u32) -> bool {
    // SAFETY: as above.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    if !std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
        return false;
    }
    let mut first = [0u8; 256];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut first));
    let Ok(length) = read else {
        // Executable and not readable: the kernel can, we cannot.
        return true;
    };
    let first = &first[..length];
    if let Some(line) = first.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        let interpreter = words.next().and_then(|word| CString::new(word).ok());
        return depth < 4
            && interpreter.is_some_and(|path| {
                is_executable(path.as_ptr()) && begins_well(path.as_ptr(), depth + 1)
            });
    }
    first.starts_with(ELF)
}

/// True if the file can be executed, or one of that name in the folders of PATH; a file that is neither machine code nor a
/// script is then the shell's.
fn is_command(name: *const c_char) -> bool {
    if name.is_null() {
        return false;
    }
    let is_file = |path: *const c_char| {
        // SAFETY: a NUL-terminated path.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        std::fs::metadata(path).is_ok_and(|about| about.is_file())
    };
    // SAFETY: a NUL-terminated name by the contract of exec.
    let file = unsafe { CStr::from_ptr(name) };
    if file.to_bytes().contains(&b'/') {
        return is_executable(name) && is_file(name);
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders).any(|folder| {
        let path = [folder.as_os_str().as_bytes(), b"/", file.to_bytes()].concat();
        CString::new(path).is_ok_and(|path| is_executable(path.as_ptr()) && is_file(path.as_ptr()))
    })
}

/// True if the kernel takes so many arguments.
///
/// # Safety
/// A list of NUL-terminated texts that ends with NULL, or NULL.
unsafe fn fits(list: List) -> bool {
    /// A single text, and all of them where the stack has its usual size.
    const LONGEST: usize = 128 << 10;
    const MOST: usize = 2 << 20;
    let mut sum = 0;
    let mut at = list;
    // SAFETY: by this function's contract.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            let length = CStr::from_ptr(*at).count_bytes() + 1;
            sum += length + size_of::<usize>();
            if length > LONGEST || sum > MOST {
                return false;
            }
            at = at.add(1);
        }
    }
    true
}

#[cfg_attr(test, allow(dead_code))]
fn is_open(descriptor: c_int) -> bool {
    // SAFETY: takes a number.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
}

type List = *const *const c_char;

/// Calls the function of this name behind us.
macro_rules! real {
    ($name:literal ($($type:ty),*) ($($argument:expr),*)) => {{
        let found = doors::behind_us($name);
        if found.is_null() {
            // SAFETY: the location of this thread's errno is always valid.
            unsafe { *libc::__errno_location() = libc::ENOSYS };
            -1
        } else {
            // SAFETY: the next function of this name has its signature; the arguments are the caller's own.
            unsafe {
                std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> c_int>(found)($($argument),*)
            }
        }
    }};
}

#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn by_path(path: *const c_char, arguments: List) -> c_int {
    closed(
        // SAFETY: the caller's own list.
        || is_program(path) && unsafe { fits(arguments) },
        || real!(c"execv" (*const c_char, List) (path, arguments)),
    )
}

#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn by_name(file: *const c_char, arguments: List) -> c_int {
    closed(
        // SAFETY: the caller's own list.
        || is_command(file) && unsafe { fits(arguments) },
        || real!(c"execvp" (*const c_char, List) (file, arguments)),
    )
}

#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn with_environment(
    path: *const c_char,
    arguments: List,
    environment: List,
) -> c_int {
    closed(
        // SAFETY: the caller's own lists.
        || is_program(path) && unsafe { fits(arguments) && fits(environment) },
        || real!(c"execve" (*const c_char, List, List) (path, arguments, environment)),
    )
}

/// `execle`: the environment stands behind the NULL that ends the arguments.
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn with_environment_behind(path: *const c_char, arguments: List) -> c_int {
    let mut end = arguments;
    // SAFETY: the list ends with NULL, and one more argument follows, by the contract of execle.
    let environment = unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        (*end.add(1)).cast::<*const c_char>()
    };
    // SAFETY: the caller's own arguments.
    unsafe { with_environment(path, arguments, environment) }
}

#[cfg(not(test))]
mod export {
    use super::{
        List, by_name, by_path, closed, doors, is_command, is_open, with_environment,
        with_environment_behind,
    };
    use std::ffi::{c_char, c_int};

    #[unsafe(no_mangle)]
    unsafe extern "C" fn execve(path: *const c_char, arguments: List, environment: List) -> c_int {
        // SAFETY: the caller's own arguments.
        unsafe { with_environment(path, arguments, environment) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn execv(path: *const c_char, arguments: List) -> c_int {
        // SAFETY: the caller's own arguments.
        unsafe { by_path(path, arguments) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn execvp(file: *const c_char, arguments: List) -> c_int {
        // SAFETY: the caller's own arguments.
        unsafe { by_name(file, arguments) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn execvpe(file: *const c_char, arguments: List, environment: List) -> c_int {
        closed(
            || is_command(file),
            || real!(c"execvpe" (*const c_char, List, List) (file, arguments, environment)),
        )
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn fexecve(descriptor: c_int, arguments: List, environment: List) -> c_int {
        closed(
            || is_open(descriptor),
            || {
                real!(c"fexecve"(c_int, List, List)(
                    descriptor,
                    arguments,
                    environment
                ))
            },
        )
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn execveat(
        folder: c_int,
        path: *const c_char,
        arguments: List,
        environment: List,
        flags: c_int,
    ) -> c_int {
        closed(
            // SAFETY: the caller's own arguments.
            || unsafe {
                libc::faccessat(folder, path, libc::X_OK, 0) == 0
                    || flags & libc::AT_EMPTY_PATH != 0
            },
            || {
                real!(c"execveat" (c_int, *const c_char, List, List, c_int)
                    (folder, path, arguments, environment, flags))
            },
        )
    }

    /// The arguments of a variadic call as one list: those in registers are put in front of those on the stack.
    #[cfg(target_arch = "x86_64")]
    macro_rules! list {
        ($name:ident, $target:path) => {
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "pop r10",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "mov rsi, rsp",
                    "push r10",
                    "call {target}",
                    "pop r10",
                    "add rsp, 40",
                    "push r10",
                    "ret",
                    target = sym $target,
                )
            }
        };
    }
    #[cfg(target_arch = "aarch64")]
    macro_rules! list {
        ($name:ident, $target:path) => {
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "bti c",
                    "sub sp, sp, #64",
                    "str x30, [sp]",
                    "stp x1, x2, [sp, #8]",
                    "stp x3, x4, [sp, #24]",
                    "stp x5, x6, [sp, #40]",
                    "str x7, [sp, #56]",
                    "add x1, sp, #8",
                    "bl {target}",
                    "ldr x30, [sp]",
                    "add sp, sp, #64",
                    "ret",
                    target = sym $target,
                )
            }
        };
    }
    list!(execl, by_path);
    list!(execlp, by_name);
    list!(execle, with_environment_behind);
}
