//! What the reasons for running out of memory are called, and what helps against each.

use crate::diagnosis::Cause;
use crate::units::bytes;

/// What a cause is called.
#[must_use]
pub fn cause_title(cause: Cause) -> &'static str {
    match cause {
        Cause::Capacity => "too large for the GPU or its limit",
        Cause::ActivationPeak => "activation peak",
        Cause::Fragmentation => "fragmentation or idle cache",
        Cause::Retention => "memory that stays referenced",
        Cause::Reservation => "share reserved up front",
        Cause::OtherProcess => "other processes on the GPU",
        Cause::StarvedLibrary => "library starved by the framework's cache",
        Cause::HostMemory => "host memory, not the GPU's",
        Cause::HiddenGrowth => "growth beside all allocations",
        Cause::NotClear => "not clear",
    }
}

/// Nothing else can be told.
pub const RUN_AGAIN: &str =
    "Run it once more under oomhook: its report says who held the memory when it ran out.";

/// Emptying the cache in each step is a habit worth breaking.
pub const EMPTIES_CACHE: &str = "Take torch.cuda.empty_cache() out of the step: it only gives back idle blocks, which PyTorch \
     does by itself before it gives up, and each call costs speed.";

/// One request is more than there is.
#[must_use]
pub fn larger_than_device(requested: u64, total: u64) -> String {
    format!(
        "No GPU of this size can serve {} at once (it has {}): split that tensor or the batch, or look for a wrong shape.",
        bytes(requested),
        bytes(total)
    )
}

/// A size that no machine has.
pub const WRONG_SHAPE: &str = "Look at the shapes in that line: one is wrong, negative, or their product overflowed. No setting and \
     no larger GPU helps.";

/// PyTorch was given a limit.
#[must_use]
pub fn pytorch_limit(limit: u64) -> String {
    format!(
        "The process was allowed {}, less than the GPU has: raise set_per_process_memory_fraction or what stands behind it.",
        bytes(limit)
    )
}

/// CuPy was given a limit.
#[must_use]
pub fn cupy_limit(limit: u64) -> String {
    format!(
        "CuPy's pool is limited to {}: raise CUPY_GPU_MEMORY_LIMIT or set_limit().",
        bytes(limit)
    )
}

/// XLA took a share.
#[must_use]
pub fn jax_limit(limit: u64, name: &str) -> String {
    format!(
        "XLA's pool is limited to {}: {name} sets the share (0.75 unless said), if the GPU has more.",
        bytes(limit)
    )
}

/// Some limit.
#[must_use]
pub fn some_limit(limit: u64) -> String {
    format!(
        "The allocator is limited to {}: raise that, if the GPU has more.",
        bytes(limit)
    )
}

/// The model is too large.
pub const SMALLER_MODEL: &str = "Make what is resident smaller: weights in bf16 or quantised, a leaner optimizer (8-bit, factored), \
     parameters and optimizer state sharded over GPUs (FSDP, ZeRO) or offloaded.";

/// The data is too large.
pub const SMALLER_PIECES: &str =
    "Work in smaller pieces, free what is done with before the next one, or use a smaller type.";

/// llama.cpp's model is too large.
pub const LLAMA_SMALLER: &str = "Put fewer layers on the GPU (-ngl), take a smaller quantisation, or spread over GPUs (--tensor-split).";

/// vLLM's model is too large.
pub const VLLM_SMALLER: &str = "Spread the model (--tensor-parallel-size), take a quantised one, or lower --max-num-seqs and --max-model-len.";

/// What does not lift the limit.
pub const NO_HELP_CAPACITY: &str = "Will not help: expandable segments do not lift the card's limit; emptying the cache only gives back \
     idle blocks.";

/// Smaller batches.
pub const SMALLER_BATCH: &str =
    "Try a smaller batch with gradient accumulation: if that passes, activations were the peak.";

/// Activation checkpointing in PyTorch.
pub const TORCH_CHECKPOINT: &str = "Recompute instead of keeping: torch.utils.checkpoint, or gradient_checkpointing_enable() in transformers.";

/// Activation checkpointing in JAX.
pub const JAX_CHECKPOINT: &str =
    "Recompute instead of keeping: jax.checkpoint (remat) around the layers.";

/// Activation checkpointing in TensorFlow.
pub const TF_CHECKPOINT: &str =
    "Recompute instead of keeping: tf.recompute_grad around the layers.";

/// Long sequences.
pub const BUCKETS: &str = "Cut or bucket the longest sequences: one long one makes the peak.";

/// How the switch is set.
#[must_use]
pub fn expandable(setting: &str, name_depends: bool) -> String {
    let other = if name_depends {
        " (from torch 2.9 on the variable is PYTORCH_ALLOC_CONF)"
    } else {
        ""
    };
    format!(
        "Set {setting}{other}: segments grow in place, so idle pieces join; they do not lift the card's limit."
    )
}

/// It is on.
pub const EXPANDABLE_IS_ON: &str = "Expandable segments are on already, so what is idle lies between blocks that live, or belongs to \
     another stream, or to the pool of a CUDA graph.";

/// They would be ignored.
pub const BACKEND_ASYNC: &str = "backend:cudaMallocAsync is on: expandable segments have no effect with it. The driver's pool gives back idle \
     memory at synchronisations.";

/// What older versions have instead.
#[must_use]
pub fn split_limit(setting: &str) -> String {
    format!(
        "Set {setting}: larger blocks are not split then. (This torch has no expandable segments, 2.1 and later have.)"
    )
}

/// It is on.
#[must_use]
pub fn split_limit_is_on(set: &str) -> String {
    format!(
        "max_split_size_mb:{set} is on already; this torch has no expandable segments, 2.1 and later have."
    )
}

/// There is none.
pub const NO_SWITCH: &str =
    "This torch has no switch against it; 2.1 and later have expandable segments.";

/// Fewer shapes.
pub const FEWER_SIZES: &str =
    "Let sizes vary less: pad or bucket inputs, and warm up with the largest.";

/// What `empty_cache` does and does not.
pub const EMPTY_CACHE: &str = "torch.cuda.empty_cache() only gives back segments that are idle as a whole; PyTorch has done that before it \
     gave up, and each call costs speed.";

/// CuPy's pool.
pub const CUPY_FRAGMENTATION: &str = "Give idle blocks back with cupy.get_default_memory_pool().free_all_blocks() between phases of different \
     sizes, or use cupy.cuda.MemoryAsyncPool.";

/// Own pools.
pub const ONE_SIZE: &str = "Keep blocks of like size and lifetime together, or use cudaMallocAsync, whose pool remaps idle memory.";

/// A larger card.
#[must_use]
pub fn larger_card(idle: Option<u64>) -> String {
    match idle.filter(|idle| *idle > 0) {
        Some(idle) => format!(
            "A larger card does not cure it, it puts it off: {} were idle.",
            bytes(idle)
        ),
        None => "A larger card does not cure it, it puts it off.".to_owned(),
    }
}

/// It is on.
#[must_use]
pub fn is_on_already(name: &str, value: &str) -> String {
    format!("{name}={value} is on already.")
}

/// Another allocator.
#[must_use]
pub fn async_allocator(name: &str, value: &str) -> String {
    format!(
        "Try {name}={value}: the driver's pool remaps idle memory instead of looking for one hole."
    )
}

/// References in PyTorch.
pub const BREAK_REFERENCES: &str = "Break what keeps tensors alive: del what is done with, loss.item() or detach() for what is logged or \
     collected, no retain_graph, no lists of outputs on the GPU.";

/// Inference.
pub const NO_GRAD: &str = "For inference and evaluation: torch.inference_mode() or no_grad(), else each call keeps its graph.";

/// What does not free live tensors.
pub const NO_HELP_RETENTION: &str =
    "Will not help: emptying the cache or expandable segments; what is referenced is not idle.";

/// References in JAX and TensorFlow.
pub const BREAK_ARRAYS: &str = "Break what keeps arrays alive: del what is done with, donate_argnums for state that is replaced, bring what \
     is collected to the host.";

/// Blocks of one's own.
pub const FREE_BLOCKS: &str = "Free what is done with, or keep what is collected within a bound.";

/// vLLM's share.
pub const VLLM_SHARE: &str = "--gpu-memory-utilization is the share of the GPU that vLLM takes for weights, activations and KV cache: raise it \
     if the GPU is its own, lower it if CUDA graphs or others need room.";

/// vLLM's lengths.
pub const VLLM_LENGTH: &str = "Lower --max-model-len or --max-num-seqs, or --kv-cache-dtype fp8: the KV cache grows with context and with requests at a time.";

/// vLLM beside others.
pub const VLLM_SHARE_LOWER: &str =
    "Or lower --gpu-memory-utilization: it counts the whole GPU, also what others have.";

/// Both count.
pub const SHARE_AND_REST: &str = "The share and what lies beside it (context, NCCL, CUDA graphs, other processes) add up to the card: think of \
     them together.";

/// llama.cpp's context.
pub const LLAMA_CONTEXT: &str = "Ask for a smaller context (-c): its KV cache is reserved at the start. --cache-type-k q8_0 and --cache-type-v q8_0 \
     halve it.";

/// A smaller share.
#[must_use]
pub fn smaller_share(name: &str) -> String {
    format!("Lower {name} (0.75 unless said): XLA takes that share of the GPU at the start.")
}

/// Growing instead of reserving.
#[must_use]
pub fn take_as_needed(setting: &str) -> String {
    format!("Or set {setting}: memory is taken as it is needed (which may fragment more).")
}

/// Some reservation.
pub const LESS_UP_FRONT: &str =
    "Let it take less up front: what is asked for later has to fit beside it.";

/// Others.
pub const STOP_OR_MOVE: &str = "Stop the others or take another GPU (CUDA_VISIBLE_DEVICES); oomhook doctor shows who uses which, and leftovers.";

/// What does not move others.
pub const NO_HELP_OTHERS: &str =
    "Will not help: settings of the allocator; the memory is not this process's.";

/// Room beside the cache.
pub const LEAVE_ROOM: &str = "Leave room beside the cache: torch.cuda.set_per_process_memory_fraction(0.9) before the first tensor, or a smaller \
     batch.";

/// Handles early.
pub const CREATE_EARLY: &str = "Let cuBLAS, cuDNN and NCCL make their handles early (one small call of each), before the cache grows.";

/// The host.
#[must_use]
pub fn against_host_memory(is_pytorch: bool) -> Vec<String> {
    let less = if is_pytorch {
        "fewer DataLoader workers, smaller prefetch_factor, no pin_memory, no whole data set in each worker"
    } else {
        "smaller pinned buffers, used again instead of one for each piece of work"
    };
    vec![
        format!(
            "Ask for more host memory (Slurm: --mem, container: --memory and --shm-size, locked memory: ulimit -l), or use less of \
             it: {less}."
        ),
        "Will not help: anything on the GPU.".to_owned(),
    ]
}

/// /dev/shm is full.
pub const MORE_SHARED_MEMORY: &str = "Make /dev/shm larger (docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory \
     there; df -h /dev/shm tells), or lower num_workers and prefetch_factor.";

/// Contexts, code, graphs.
#[must_use]
pub fn against_hidden_growth() -> Vec<String> {
    [
        "Look at what grows beside allocations: CUDA graphs captured for each shape, code compiled for each shape, streams and \
         contexts; oomhook's ledger says which call took it.",
        "Keep the number of shapes small, and let go of graphs and modules that are done with.",
    ]
    .map(str::to_owned)
    .to_vec()
}
