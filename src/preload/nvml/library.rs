//! NVIDIA's management library, as far as it is needed: loaded at run time, absent without harm. Names, structures and codes
//! are those of <nvml.h>.

use super::super::doors;
use oomhook_trace::record::Other;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

const SUCCESS: c_int = 0;
const INSUFFICIENT_SIZE: c_int = 7;
/// What a library says that does not know a question, or a version of it: invalid argument, not supported, function not
/// found, version mismatch.
const UNKNOWN_QUESTION: [c_int; 4] = [2, 3, 13, 25];

/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;

/// Most processes that are asked for.
const MOST: usize = 1024;

type Device = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Memory2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

type Init = unsafe extern "C" fn() -> c_int;
type ByUuid = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type MemoryOf = unsafe extern "C" fn(Device, *mut Memory) -> c_int;
type MemoryOf2 = unsafe extern "C" fn(Device, *mut Memory2) -> c_int;
type ProcessesOf = unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> c_int;
type NameOf = unsafe extern "C" fn(c_uint, *mut c_char, c_uint) -> c_int;

/// The loaded and initialised library.
pub struct Library {
    by_uuid: ByUuid,
    memory: Option<MemoryOf>,
    memory2: Option<MemoryOf2>,
    compute: Option<ProcessesOf>,
    graphics: Option<ProcessesOf>,
    name: Option<NameOf>,
}

/// A device as the library knows it.
#[derive(Clone, Copy)]
pub struct Handle(Device);

/// What a look at a device says.
pub struct Look {
    /// Bytes in use, without what the driver keeps from everybody where that is told.
    pub used: u64,
    /// Bytes of the device, likewise.
    pub total: u64,
    /// All processes with their bytes; `None` if they cannot be had.
    pub processes: Option<Vec<(u32, Option<u64>)>>,
}

const SONAME: &CStr = c"libnvidia-ml.so.1";

/// The library's function of this name and type; `None` if it is too old to have it.
macro_rules! function {
    ($handle:ident, $name:literal as $type:ty) => {{
        let found = doors::symbol_in($handle, $name);
        // SAFETY: the functions of these names have these signatures in every version of the library.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, $type>(found) })
    }};
}

impl Library {
    /// Loads it; `None` if it is not there or does not want to. Takes the loader's lock: for a thread that nobody waits for.
    pub fn load() -> Option<Library> {
        // SAFETY: a NUL-terminated name; the library is made to be loaded by anybody.
        let handle = unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return None;
        }
        let init = function!(handle, c"nvmlInit_v2" as Init)?;
        // SAFETY: takes nothing.
        if unsafe { init() } != SUCCESS {
            return None;
        }
        Some(Library {
            by_uuid: function!(handle, c"nvmlDeviceGetHandleByUUID" as ByUuid)?,
            memory: function!(handle, c"nvmlDeviceGetMemoryInfo" as MemoryOf),
            memory2: function!(handle, c"nvmlDeviceGetMemoryInfo_v2" as MemoryOf2),
            compute: function!(
                handle,
                c"nvmlDeviceGetComputeRunningProcesses_v3" as ProcessesOf
            ),
            graphics: function!(
                handle,
                c"nvmlDeviceGetGraphicsRunningProcesses_v3" as ProcessesOf
            ),
            name: function!(handle, c"nvmlSystemGetProcessName" as NameOf),
        })
    }

    /// The device with this UUID, as the driver's 16 bytes.
    pub fn device(&self, uuid: &[u8; 16]) -> Option<Handle> {
        let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "{}-{}-{}-{}-{}",
            hex[..4].concat(),
            hex[4..6].concat(),
            hex[6..8].concat(),
            hex[8..10].concat(),
            hex[10..].concat()
        );
        // A slice of a device goes by a name of its own.
        ["GPU", "MIG"].into_iter().find_map(|kind| {
            let name = CString::new(format!("{kind}-{text}")).ok()?;
            let mut device: Device = std::ptr::null_mut();
            // SAFETY: a NUL-terminated name, and a place for the handle.
            let code = unsafe { (self.by_uuid)(name.as_ptr(), &mut device) };
            (code == SUCCESS && !device.is_null()).then_some(Handle(device))
        })
    }

    /// A look at the device.
    pub fn look(&self, device: Handle) -> Option<Look> {
        let (used, total) = self.memory_of(device)?;
        Some(Look {
            used,
            total,
            processes: self.processes(device),
        })
    }

    fn memory_of(&self, device: Handle) -> Option<(u64, u64)> {
        if let Some(ask) = self.memory2 {
            let mut memory = Memory2 {
                version: size_of::<Memory2>() as c_uint | 2 << 24,
                ..Memory2::default()
            };
            // SAFETY: a handle of the library's, and a structure of the version that it says.
            match unsafe { ask(device.0, &mut memory) } {
                SUCCESS => {
                    return Some((memory.used, memory.total.saturating_sub(memory.reserved)));
                }
                code if UNKNOWN_QUESTION.contains(&code) => {}
                // The older question counts what is kept from everybody: its answer among those of the newer one would look
                // as if that came and went.
                _ => return None,
            }
        }
        let mut memory = Memory::default();
        // SAFETY: as above.
        let code = unsafe { (self.memory?)(device.0, &mut memory) };
        (code == SUCCESS).then_some((memory.used, memory.total))
    }

    fn processes(&self, device: Handle) -> Option<Vec<(u32, Option<u64>)>> {
        let compute = list(self.compute?, device)?;
        let graphics = self.graphics.and_then(|ask| list(ask, device));
        let mut all: Vec<(u32, Option<u64>)> = Vec::new();
        for process in compute.into_iter().chain(graphics.into_iter().flatten()) {
            let bytes = Some(process.bytes).filter(|bytes| *bytes != NOT_AVAILABLE);
            // One that computes and draws is in both lists.
            match all.iter_mut().find(|known| known.0 == process.pid) {
                Some(known) => known.1 = known.1.max(bytes),
                None => all.push((process.pid, bytes)),
            }
        }
        Some(all)
    }

    /// Another process, with its name.
    pub fn other(&self, pid: u32, bytes: Option<u64>) -> Other {
        let mut name = [0u8; 256];
        let asked = self.name.and_then(|ask| {
            // SAFETY: a buffer of that length.
            let code = unsafe { ask(pid, name.as_mut_ptr().cast(), name.len() as c_uint - 1) };
            (code == SUCCESS).then(|| CStr::from_bytes_until_nul(&name).ok())?
        });
        let asked = asked.map(|name| name.to_string_lossy().into_owned());
        Other {
            pid,
            name: asked.filter(|name| !name.is_empty()).unwrap_or_default(),
            bytes,
        }
    }
}

fn list(ask: ProcessesOf, device: Handle) -> Option<Vec<Process>> {
    let mut processes = vec![Process::default(); 64];
    loop {
        let mut count = processes.len() as c_uint;
        // SAFETY: room for as many as `count` says.
        match unsafe { ask(device.0, &mut count, processes.as_mut_ptr()) } {
            SUCCESS => {
                processes.truncate(count as usize);
                return Some(processes);
            }
            INSUFFICIENT_SIZE if processes.len() < MOST => {
                let more = (count as usize).max(processes.len() * 2).min(MOST);
                processes.resize(more, Process::default());
            }
            _ => return None,
        }
    }
}
