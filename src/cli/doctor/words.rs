//! Every sentence of `oomhook doctor`.

use super::python::Python;
use super::who::{Standing, User};
use nvml_wrapper::error::NvmlError;
use oomhook_report::units::bytes;

/// Nothing is in the way.
pub const READY: &str = "nothing stands in the way";

/// The verdict.
pub fn verdict(obstacles: usize) -> String {
    match obstacles {
        0 => READY.to_owned(),
        1 => "one thing stands in the way".to_owned(),
        number => format!("{number} things stand in the way"),
    }
}

/// Why NVML gives no answer.
pub fn reason(error: &NvmlError) -> String {
    let text = match error {
        NvmlError::NotSupported => "not available here",
        NvmlError::NoPermission => "not permitted",
        NvmlError::GpuLost => "the GPU is lost (it no longer answers; see dmesg for Xid)",
        NvmlError::ResetRequired => "the GPU needs a reset",
        NvmlError::DriverNotLoaded => "the driver's kernel module is not loaded",
        NvmlError::LibRmVersionMismatch => {
            "the driver's libraries and its kernel module have different versions; reboot, or load the module again"
        }
        NvmlError::OperatingSystem => "the operating system blocks the GPU",
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
            "this driver is too old to tell"
        }
        NvmlError::Utf8Error(_) => "no readable text",
        NvmlError::Unknown => "unknown error of NVML",
        NvmlError::UnexpectedVariant(number) => return format!("error {number} of NVML"),
        other => return other.to_string(),
    };
    text.to_owned()
}

/// NVML hangs.
pub const NVML_SILENT: &str =
    "it has not answered within 30 s: the driver is in trouble (see dmesg for Xid)";
/// Figures that contradict each other.
pub const NONSENSE: &str = "its figures contradict each other";
/// Stands for a figure that NVML does not give.
pub const NOT_AVAILABLE: &str = "(not available here)";

/// No driver at all.
pub fn no_driver(in_container: bool) -> String {
    let advice = match in_container {
        true => "start the container with GPUs (docker run --gpus all), or",
        false => "install the driver, or",
    };
    format!(
        "there is no NVIDIA driver (no libcuda.so.1): {advice} try `oomhook demo`, which needs none"
    )
}

/// A library without anything to drive.
pub const NO_DEVICE: &str = "libcuda.so.1 is here, but no GPU (no /dev/nvidiactl): start the container with GPUs, or load the driver's module";

/// The driver sees nothing.
pub const NO_GPU: &str = "the driver sees no GPU";

/// The driver does not start.
pub fn driver_fails(reason: &str) -> String {
    format!("the NVIDIA driver does not work: {reason}")
}

/// A GPU that cannot be asked.
pub fn gpu_unreachable(index: u32, reason: &str) -> String {
    format!("GPU {index} cannot be used: {reason}")
}

/// Compute mode 2.
pub fn prohibited(index: u32) -> String {
    format!(
        "GPU {index} cannot be used: its compute mode is prohibited (nvidia-smi -c 0 allows it)"
    )
}

/// Compute mode 3, and somebody is there.
pub fn taken(index: u32, pid: u32) -> String {
    format!("GPU {index} serves one process at a time (exclusive), and process {pid} has it")
}

/// By its variable.
pub const HIDDEN: &str = "CUDA_VISIBLE_DEVICES hides every GPU: unset it";

/// What a program sees.
pub fn visible(value: &str) -> String {
    format!("CUDA_VISIBLE_DEVICES={value}: programs see only these GPUs, and number them from 0")
}

/// NVML counts by the bus, CUDA by speed.
pub const OTHER_ORDER: &str = "the GPUs differ: CUDA, and so oomhook's reports, may number them otherwise (the fastest first); with CUDA_DEVICE_ORDER=PCI_BUS_ID the numbers are those above";

/// `580.95.05, CUDA up to 13.0, NVML 13.580.95.05`.
pub fn driver(version: Option<&str>, cuda: Option<&str>, simulated: bool) -> String {
    let what = if simulated {
        " (oomhook's simulator)"
    } else {
        ""
    };
    let version = version.unwrap_or("version not known");
    match cuda {
        Some(cuda) => format!("{version}{what}, CUDA up to {cuda}"),
        None => format!("{version}{what}"),
    }
}

/// There is no NVML.
pub const NO_NVML: &str = "NVML (libnvidia-ml.so.1) is not here: GPUs, their memory and who uses them are not known; recording works without it";

/// NVML does not begin.
pub fn nvml_failed(reason: &str) -> String {
    format!("NVML does not begin: {reason}; GPUs, their memory and who uses them are not known")
}

/// NVML does not count.
pub fn not_counted(reason: &str) -> String {
    format!("NVML cannot count the GPUs: {reason}")
}

/// What Windows does to the figures.
pub const WSL: &str = "WSL: how much each process has is not available, and programs of Windows use the GPU unseen; oomhook's own figures are exact";
/// Memory of host and GPU are one.
pub const INTEGRATED: &str =
    "an integrated GPU shares its memory with the host: free memory is the host's as well";

/// In a container.
pub fn container(sign: &str) -> String {
    format!(
        "a container ({sign}): processes outside may be missing or have other numbers; a GPU's figures are those of all containers"
    )
}

/// What slices do to the figures.
pub fn sliced(indices: &[u32]) -> String {
    let list: Vec<String> = indices.iter().map(u32::to_string).collect();
    format!(
        "MIG is on (GPU {}): NVML's figures are the whole GPU's, a slice has less, and how much each process has may be missing; reports have what CUDA says of the slice",
        list.join(", ")
    )
}

/// Memory that nobody gets.
pub fn reserved(most: u64) -> String {
    format!(
        "the total includes what the driver keeps for itself (up to {})",
        bytes(most)
    )
}

/// Keys of one GPU without a value.
pub fn unknown(index: u32, keys: &[&str], reason: &str) -> String {
    let named: Vec<&str> = keys
        .iter()
        .map(|key| match *key {
            "pci_bus_id" => "PCI bus",
            "uuid" => "UUID",
            "mig" => "MIG mode",
            "compute_mode" => "compute mode",
            "processes" => "who uses it",
            other => other,
        })
        .collect();
    format!("GPU {index}: not known: {} ({reason})", named.join(", "))
}

/// Nobody is there.
pub const UNUSED: &str = "no process uses a GPU";

/// What is said of a process besides its name.
pub fn standing(user: &User) -> Option<&'static str> {
    match user.standing {
        Standing::Yours | Standing::Others => None,
        Standing::Ended => Some("ended, not yet released"),
        Standing::NotHere => Some("another container or a leftover"),
    }
}

/// Memory that no listed process has.
pub fn unlisted(index: u32, size: u64, any: bool) -> String {
    let whose = if any {
        "none of these processes"
    } else {
        "no process that can be seen here"
    };
    format!(
        "GPU {index}: {} used by {whose}: another container, another user's process, or a leftover",
        bytes(size)
    )
}

/// Limits.
pub fn limits(memlock: Option<u64>, address_space: Option<u64>) -> String {
    let size = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), bytes);
    format!(
        "locked memory {}, address space {}",
        size(memlock),
        size(address_space)
    )
}

/// CUDA reserves addresses for all memory that there is.
pub const FEW_ADDRESSES: &str = "CUDA reserves many times the GPU's memory in addresses: under a limit of the address space (ulimit -v) it may fail to start";

/// No folder.
pub const NO_SUCH_FOLDER: &str = "there is no such folder";
/// Something else.
pub const NO_FOLDER: &str = "it is no folder";
/// Of the kernel.
pub const PSEUDO: &str = "it belongs to the kernel";

/// A pattern that names a folder.
pub fn names_a_folder(path: &str) -> String {
    format!(
        "OOMHOOK_OUTPUT={path} is a folder: the trace would lie beside it; write {}/oomhook.%h.%p.trace",
        path.trim_end_matches('/')
    )
}

/// Traces have no place.
pub fn no_place(folder: &str, reason: &str, instead: Option<&str>) -> String {
    let instead = match instead {
        Some(folder) => format!("traces would go to {folder}"),
        None => "there would be no trace".to_owned(),
    };
    format!("traces cannot be written in {folder}: {reason}; {instead}")
}

/// Where traces go.
pub fn place(pattern: &str, folder: &str, varies: bool, free: Option<u64>) -> String {
    let below = if varies { "below" } else { "in" };
    let free = free.map_or(String::new(), |free| format!(", {} free", bytes(free)));
    let varies = if varies {
        "; the folders that the pattern names must be there"
    } else {
        ""
    };
    format!("{pattern} {below} {folder}{free}{varies}")
}

/// `OOMHOOK_KEEP=none`.
pub const NO_TRACE: &str = "no file is kept (OOMHOOK_KEEP=none)";
/// Slow places.
pub const NETWORK: &str =
    "a network file system: it is written once a second, so SIGKILL may cost a second";
/// Full places.
pub fn little_room(free: u64) -> String {
    format!(
        "only {} are free there: a full disk ends a trace early",
        bytes(free)
    )
}

/// A typing error.
pub fn no_such_setting(name: &str) -> String {
    format!("{name} is no setting of oomhook (README lists them)")
}

/// Nothing is set.
pub const NO_SETTINGS: &str = "none set";
/// `OOMHOOK=0`.
pub const SWITCHED_OFF: &str = "OOMHOOK=0 switches recording off: unset it";
/// `OOMHOOK_ONLY`.
pub fn only(glob: &str) -> String {
    format!("OOMHOOK_ONLY={glob}: only commands of such a name are watched")
}

/// An entry of LD_PRELOAD that is not there.
pub fn preload_missing(path: &str) -> String {
    format!("LD_PRELOAD names {path}, which is missing: the loader will complain")
}

/// The program that is loaded in the end.
pub fn program(path: &str, image: &str, watchable: bool) -> String {
    let what = match path == image {
        true => path.to_owned(),
        false => format!("{path}, run by {image}"),
    };
    match watchable {
        true => format!("{what}: can be watched"),
        false => format!("{what}: cannot be watched"),
    }
}

/// How it reaches CUDA.
pub fn cuda(how: &str) -> String {
    format!("CUDA: {how}")
}

/// By libraries.
pub fn links(names: &[String]) -> String {
    format!("links {}", names.join(", "))
}

/// Inside.
pub const STATIC_RUNTIME: &str = "a static CUDA runtime is inside";
/// By itself.
pub const NAMES_DRIVER: &str = "opens libcuda.so.1 by itself";
/// Nothing, of a program that cannot be watched.
pub const NOTHING_THERE: &str = "nothing visible in the file";
/// The interpreter of a script.
pub fn for_script(script: &str, failure: &str) -> String {
    format!("the first line of {script}: {failure}")
}
/// Scripts whose interpreters are scripts.
pub fn script_of_scripts(script: &str) -> String {
    format!(
        "{script}: its interpreter is a script, and that one's as well, and so on: the kernel does not follow so far"
    )
}
/// Nothing.
pub const NOTHING_VISIBLE: &str = "nothing visible in the file; it may load CUDA later, or start programs that do (both are seen)";

/// An interpreter.
pub fn python(python: &Python) -> String {
    let kind = match python.implementation.as_deref() {
        Some("cpython") => "CPython",
        Some(other) => other,
        None => "",
    };
    let version = python.version.as_deref().unwrap_or_default();
    let name = match kind.is_empty() {
        true => python.path.clone(),
        false => format!("{kind} {version} ({})", python.path),
    };
    match &python.problem {
        None => format!("Python: {name}: its frames are read"),
        Some(problem) => format!("Python: {name}: native frames only, since {problem}"),
    }
}

/// It did not answer.
pub const PYTHON_SILENT: &str = "it did not tell its version within 5 s";
/// PyPy and others.
pub const NOT_CPYTHON: &str = "only CPython's frames can be read";
/// Too old or too new.
pub const OTHER_PYTHON: &str = "only those of CPython 3.8 to 3.14 can be read";
/// No GIL.
pub const FREE_THREADED: &str = "those of a free-threaded build cannot be read";
/// By the user's wish.
pub const WITHOUT_PYTHON: &str = "OOMHOOK_STACKS leaves Python frames out";
