//! `liboomhook.so`: preloaded into any process, it watches every CUDA memory call and says where the memory went.
//!
//! What this library promises the process that it lives in:
//!
//! - the same return codes, outputs, `errno` and exit code as without it; no CUDA call that could disturb the program;
//! - nothing at all (no thread, no file, no output) while the process makes no CUDA call;
//! - no lock across a real call, no allocation in the hot path after warm-up, no panic into C;
//! - a full channel makes the caller wait, it drops nothing.
//!
//! The way of the data: `hooks` → `record` → `channel` → `writer` → trace and ledger → report.

#[cfg(not(target_os = "linux"))]
compile_error!("oomhook watches Linux processes only");

mod preload;
