//! The sentences of an explanation, but for the advice.

use oomhook_report::diagnosis::Framework;
use oomhook_report::units::bytes;

/// A framework in a word, for programs.
pub fn framework(framework: Framework) -> &'static str {
    match framework {
        Framework::PyTorch(_) => "pytorch",
        Framework::Jax => "jax",
        Framework::TensorFlow => "tensorflow",
        Framework::CuPy => "cupy",
        Framework::LlamaCpp => "llama_cpp",
        Framework::Vllm => "vllm",
        Framework::Cuda => "cuda",
        Framework::Unknown => "unknown",
    }
}

/// A framework as people write it; empty if not known.
pub fn framework_title(framework: Framework) -> &'static str {
    match framework {
        Framework::PyTorch(_) => "PyTorch",
        Framework::Jax => "JAX",
        Framework::TensorFlow => "TensorFlow",
        Framework::CuPy => "CuPy",
        Framework::LlamaCpp => "llama.cpp",
        Framework::Vllm => "vLLM",
        Framework::Cuda => "CUDA",
        Framework::Unknown => "",
    }
}

pub fn more_than_device(requested: u64, total: u64) -> String {
    format!(
        "{} were asked for, the whole GPU has {}",
        bytes(requested),
        bytes(total)
    )
}

pub fn at_limit(limit: u64, free: Option<u64>) -> String {
    let free = free.map_or_else(String::new, |free| {
        format!(", though {} of the GPU were free", bytes(free))
    });
    format!("the process may take {} and was there{free}", bytes(limit))
}

pub fn others_have(others: u64, count: usize) -> String {
    let who = if count == 1 {
        "another process has"
    } else {
        "other processes have"
    };
    format!("{who} {}: without, it would have fitted", bytes(others))
}

pub fn rest_is_not_ours(rest: u64) -> String {
    format!(
        "{} of the GPU are neither free nor in PyTorch's cache: other processes, or other libraries of this one (the message does not tell them apart)",
        bytes(rest)
    )
}

pub fn pids_hidden(rest: u64) -> String {
    format!("{} are neither free nor this process's", bytes(rest))
}

pub fn idle_would_do(idle: u64, requested: u64) -> String {
    format!(
        "{} lay idle in the cache, more than the {} asked for, yet in no single piece",
        bytes(idle),
        bytes(requested)
    )
}

pub fn idle_and_free_would_do(idle: u64, free: u64) -> String {
    format!(
        "{} idle in the cache and {} free would do together, but are not one piece",
        bytes(idle),
        bytes(free)
    )
}

pub fn graph_pools(private: u64) -> String {
    format!(
        "{} are in pools of CUDA graphs, which nobody else can use",
        bytes(private)
    )
}

pub fn free_would_do(free: u64, requested: u64) -> String {
    format!(
        "{} were free when the message was written, more than the {} asked for: freed or taken meanwhile, a limit of the host or the container, or no single piece; the message does not tell",
        bytes(free),
        bytes(requested)
    )
}

pub fn live_fills(live: u64, total: u64, idle: Option<u64>) -> String {
    let idle = match idle {
        Some(idle) if idle >= total / 100 => format!(", {} are idle", bytes(idle)),
        Some(_) => ", next to nothing is idle".to_owned(),
        None => String::new(),
    };
    format!("{} of {} are live tensors{idle}", bytes(live), bytes(total))
}

pub fn one_request(requested: u64, total: u64) -> String {
    format!(
        "one request of {} is a large part of {}",
        bytes(requested),
        bytes(total)
    )
}

pub const AT_LOADING: &str = "it failed while weights were brought to the GPU";
pub const AT_OPTIMIZER: &str = "it failed in the optimizer's step, where its state is made first";
pub const AT_BACKWARD: &str = "it failed in a backward pass, when activations are at their peak";
pub const AT_FORWARD: &str = "it failed in a forward pass, while activations pile up";

pub fn at_step(step: u64) -> String {
    match step {
        0 | 1 => format!("it failed at step {step}, at the start"),
        _ => format!("it failed after step {step}: earlier ones had passed"),
    }
}

pub const STEPS_PASSED: &str =
    "if memory grew from step to step, something keeps references; the message does not tell";
pub const POOL_FULL: &str = "the pool has less left than was asked for";
pub const DRIVER_REFUSED: &str =
    "the driver refused the pool's own request: its share was not free";
pub const COMPILER_SAYS: &str =
    "the compiled program needs more than there is, whatever else is on the GPU";
pub const POOL_UNKNOWN: &str = "the message tells what was asked for, not what the pool had (its lines \"Limit\" and \"InUse\" are not in the log)";
pub const CODE_ONLY: &str = "the message tells neither sizes nor who holds the memory";
pub const BEYOND_ALL: &str =
    "no machine has what was asked for: a size that overflowed, as of a wrong shape";
pub const CUT_SHORT: &str = "the message ends before it tells who holds the memory";
pub const SIZES_ONLY: &str =
    "by its sizes neither live tensors nor idle blocks nor other processes fill the GPU";
pub const CODE_LATE: &str = "it may come from an earlier call: CUDA reports errors late (CUDA_LAUNCH_BLOCKING=1 tells where)";
pub const LIBRARY_ASKED: &str =
    "the library takes its memory beside the framework's cache, and found none";
pub const LIBRARY_OTHER: &str = "cuBLAS says the same after an index out of range in an earlier kernel; CUDA_LAUNCH_BLOCKING=1 tells";
pub const BUFFER_CACHE: &str =
    "the buffer was for the KV cache, which is reserved for the whole context";
pub const BUFFER_WEIGHTS: &str = "the buffer was for the model's weights";
pub const BUFFER_COMPUTE: &str =
    "the buffer was for computing, which grows with context and batch (-b, -ub)";
pub const BUFFER_POOL: &str = "ggml's pool for computing found no more room beside weights and KV cache (it grows with -b, -ub and the context)";
pub const BUFFER_UNKNOWN: &str = "the log does not tell what the buffer was for";

pub fn context(tokens: u64) -> String {
    format!("n_ctx = {tokens}")
}

pub const NO_BLOCKS: &str =
    "weights and the peak of the trial run fill vLLM's share, nothing is left for the KV cache";
pub const SHARE_HOLDS: &str = "with vLLM that is weights, KV cache and what a step computes with";
pub const SHARE_OTHERS: &str = "less is free at the start than the share wants, so others have it";
pub const SHARE_FEW: &str = "the share wants nearly the whole GPU, more than is free at the start";
pub const CACHE_SMALL: &str =
    "the KV cache within the share is too small for one request of full length";
pub const WARM_UP: &str = "vLLM's share and the warm-up do not fit together";
pub const HOST_REFUSED: &str = "the host's memory was asked for, not the GPU's";
pub const SHARED_FULL: &str = "shared memory (/dev/shm) had no room: processes hand tensors over in it, DataLoader workers to the trainer";
pub const HOST_KILLED: &str = "the kernel or the batch system killed for want of host memory";
pub const KILLED: &str = "a process was killed (signal 9): mostly for want of host memory, but a person, a time limit or the end of another rank look the same";
pub const POOL_LIVE: &str = "what is allocated and what was asked for are more than the limit";
pub const NO_TOTAL: &str = "the message does not tell the GPU's size, nor who else is on it";
pub const NO_KINDS: &str = "the message does not tell weights from activations";
pub const CACHE_SHARE: &str = "vLLM counts its share of the whole GPU, not of what is free";

/// A fact of PyTorch's message.
pub const FACT_DRIVER_POOL: &str =
    "by the driver's pool (backend:cudaMallocAsync): what is idle in it is not told";
/// A fact of XLA's message.
pub const FACT_DRIVER: &str = "the driver itself said no, not the pool";
/// A fact of XLA's message.
pub const FACT_COMPILER: &str = "XLA's compiler said so before the program ran";

pub fn more_than_pool(requested: u64, limit: u64) -> String {
    format!(
        "{} were asked for, the whole pool has {}",
        bytes(requested),
        bytes(limit)
    )
}

pub fn planned(temporary: u64, parameters: u64) -> String {
    format!(
        "the compiled program wants {} of temporaries (activations) beside its {} of parameters",
        bytes(temporary),
        bytes(parameters)
    )
}

pub fn taken_for_own(pid: u32) -> String {
    format!("process {pid} is likely this one, whose number a container hides")
}

pub fn beside_cache(beside: u64) -> String {
    format!(
        "{} of this process lie beside PyTorch's cache",
        bytes(beside)
    )
}

/// The first line.
pub fn headline(group: &super::Group, class: Option<oomhook_report::diagnosis::Cause>) -> String {
    use super::message::Kind;
    use oomhook_report::diagnosis::Cause;
    let title = framework_title(group.of);
    let whose = match group.kind {
        Kind::HostAllocator | Kind::HostKill => "out of host memory".to_owned(),
        Kind::SharedMemory => "out of shared memory on the host".to_owned(),
        Kind::Killed => "a process was killed".to_owned(),
        Kind::NoCacheBlocks | Kind::ShareNotFree | Kind::CacheTooSmall => {
            "vLLM's share of the GPU does not do".to_owned()
        }
        _ if title.is_empty() => "out of memory".to_owned(),
        _ => format!("out of memory in {title}"),
    };
    let device = match group.numbers.device {
        Some(device) if group.devices.len() <= 1 => format!(" on GPU {device}"),
        Some(_) => format!(" on {} GPUs", group.devices.len()),
        None => String::new(),
    };
    let why = match class {
        Some(Cause::NotClear) | None => "the log does not tell why".to_owned(),
        Some(Cause::HostMemory) if group.kind != Kind::Killed => String::new(),
        Some(class) => format!("likely {}", class.title()),
    };
    match why.is_empty() {
        true => format!("{whose}{device}"),
        false => format!("{whose}{device}; {why}"),
    }
}

/// A place in the user's own code.
pub fn place(place: &super::context::Place) -> String {
    let mut text = format!("{}:{}", place.file, place.line);
    if let Some(function) = &place.function {
        text.push_str(&format!(" in {function}"));
    }
    if let Some(source) = &place.source {
        text.push_str(&format!(": {source}"));
    }
    oomhook_report::clean::text(&text)
}
