//! A simulated CUDA driver. Programs load it under the name `libcuda.so.1`; under `libnvidia-ml.so.1` it is NVML.
//!
//! It answers as the driver of an H200 does, code by code, where that was measured; otherwise as the
//! header documents, and where that is silent, with the likeliest code. It computes nothing: device memory is an address that nobody can
//! touch, while host memory and managed memory are real and may be read and written.
//!
//! # Settings
//!
//! All are environment variables, read at the first call. A malformed one is named on stderr in
//! one line, and its default is used.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `OOMHOOK_SIM` | devices, `COUNTxSIZE`; `,free=SIZE` says how much of each is free because another process, nobody in particular, holds the rest; `0x16GiB` is a machine without a device | `2x16GiB` |
//! | `OOMHOOK_SIM_CONTEXT` | device memory that each context takes | `0` |
//! | `OOMHOOK_SIM_MODULE` | device memory that each load of a module takes | `0` |
//! | `OOMHOOK_SIM_STACK` | device memory for each byte of stack that `cuCtxSetLimit` asks for beyond 1024; an H200 takes 270,336 | `0` |
//! | `OOMHOOK_SIM_LAUNCH` | device memory that the first launch in a context takes | `0` |
//! | `OOMHOOK_SIM_FUNCTION` | device memory that the first launch of each function takes in a context | `0` |
//! | `OOMHOOK_SIM_STREAM` | device memory that each fourth stream of a context takes | `0` |
//! | `OOMHOOK_SIM_GRAPH_EXEC` | device memory that each executable graph takes, beside what its nodes allocate | `0` |
//! | `OOMHOOK_SIM_DRIVER` | version that the driver reports | `13000` |
//! | `OOMHOOK_SIM_NAME` | name of the devices; `A\|B`: of the first, and of all others | `oomhook simulated GPU` |
//! | `OOMHOOK_SIM_NEIGHBOURS` | other processes, `DEVICE:PID:SIZE:NAME,…`; `G` before the device: one that draws, `CG`: one that does both | none |
//! | `OOMHOOK_SIM_NEIGHBOUR_GROWS` | what the first neighbour of a device has more at each question for its memory (`nvmlDeviceGetMemoryInfo`) after the first, as long as it is free | `0` |
//! | `OOMHOOK_SIM_RESERVE` | memory of each device beyond its size that NVML counts and `cuMemGetInfo` does not | `0` |
//! | `OOMHOOK_SIM_PROCESS_BYTES` | `off`: NVML does not tell how much each process has | `on` |
//! | `OOMHOOK_SIM_PID` | number by which NVML lists this process, as a process in a container is listed by one that it does not know; `none`: it is not listed at all | its own |
//! | `OOMHOOK_SIM_MIG` | `on`: NVML says that the devices are cut into slices | `off` |
//! | `OOMHOOK_SIM_COMPUTE_MODE` | 0 to 3, as NVML gives it | `0` |
//! | `OOMHOOK_SIM_FAIL` | `SYMBOL#N=CODE,…`: the N-th call of that exported symbol (`*`: every call) answers CODE and does nothing | none |
//! | `OOMHOOK_SIM_STALL` | `SYMBOL#N=50ms,…`: that call sleeps after its effect and before it returns (`us`, `ms`, `s`) | none |
//!
//! Sizes are `B`, `KiB`, `MiB`, `GiB`, `TiB`, `KB`, `MB`, `GB`, `TB`, or plain bytes; fractions are allowed.
//!
//! # Rules of the model
//!
//! - **Linear and pitched memory** takes the requested bytes (pitch x height), rounded up to 512,
//!   both for the capacity check and for `cuMemGetInfo`. Nothing else is packed or rounded.
//! - **Addresses** are reused at once: the one freed last for the same size first, else the
//!   tightest hole. They are multiples of 512 in a range where nothing is mapped; those of the
//!   32-bit functions lie below 4 GiB.
//! - **Pools** grow in steps of 32 MiB. What lies above the release threshold goes back at the next
//!   synchronisation of a stream, event or context of that device. Idle reserve is not lent to
//!   other allocations.
//! - **Physical handles** are multiples of 2 MiB; the memory is free again once no reference
//!   and no mapping is left.
//! - **Managed memory** takes no device memory; the host pins at most 512 GiB.
//! - **Arrays** take element x channels x width x height x depth, and mipmapped arrays the sum of
//!   their levels, unrounded. Sparse ones and those of deferred mapping take nothing themselves.
//! - **Graphs**: an alloc node, captured or added, has one address for ever. Memory comes with the first
//!   launch or upload of an executable graph, in steps of 32 MiB for what its nodes have at a time, and
//!   counts as used until that is destroyed; then it is idle reserve for other graphs until it is
//!   trimmed. Executable graphs share no memory that is in use.
//! - **Memory of others** (opened handles, imported pools, physical and external memory) takes nothing
//!   here. Each process has devices of its own: handles and files only carry a description, so nothing
//!   tells whether the exporter still has the memory.
//! - **Modules and libraries** take what the setting says in each context; the `.global` variables of
//!   PTX come on top. Cubins, fat binaries and PTX are told by their first bytes; anything else is no
//!   image.
//! - **First launches** take what the settings say, once a context and once a function: the former goes with the
//!   context, the latter with the module as well. A launch that is captured takes nothing. What streams took
//!   stays until the context ends; an executable graph gives back at once what it took by itself.
//! - **NVML** counts its own initialisations, and goes on after the driver has ended. This process is in its lists
//!   while it has a context or memory, with everything that it takes from the device; so are the neighbours,
//!   whose bytes are taken for the driver as well.
//! - **A green context** is its device's primary one.
//! - **A failing call** writes garbage into its out parameters.
//! - **Exit**: from the `atexit` handler registered by the first `cuInit` on, every call answers 4,
//!   those for error names and texts excepted. A forked child of an initialised process gets 3.
//! - **Handles** are looked up and never followed.
//!
//! # Shape
//!
//! `state` is the driver as plain data with methods and knows nothing of C; `entry` holds the
//! exported functions, one row each, from which the resolver reads too; `gate` stands between
//! them (state of the process, injected failures, lock, panics); `nvml` is the other library's door to the same
//! state; `pointer` and `os` hold
//! what is unsafe.

mod abi;
mod codes;
mod entry;
mod faults;
mod gate;
mod neighbours;
mod nvml;
mod os;
mod pointer;
mod ptx;
mod settings;
mod state;
mod ticket;
