//! CUDA's own errors, and errors of libraries that are out of memory in disguise.

use super::{bytes, pattern, start};
use crate::explain::message::{Found, Kind};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static LIBRARY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?P<code>CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED)\b|\bCUBLAS_STATUS_NOT_INITIALIZED when calling `?cublasCreate|(?:NCCL WARN|NCCL|nccl).{0,200}(?:Cuda failure(?: \d+)? '?out of memory|out of memory)|Cuda failure(?: \d+)? '?out of memory",
    )
});
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\bcudaErrorMemoryAllocation\b|\bCUDA_ERROR_OUT_OF_MEMORY\b|\bCUDA(?: driver)? [Ee]rror(?: \d+)?(?:[^:]{0,60}:)? *(?:2 )?:? ?'?out of memory|\bcudaMalloc\w* (?:failed|error).{0,60}out of memory|\bOutOfMemory\b.{0,120}(?i:cuda|GPU|requested|allocat)|\b[Cc]uda [Rr]untime \(out of memory\)|\bcudaGetErrorString.{0,40}out of memory|\b[Cc]uda (?:failure|error|Error|Runtime failure)\b.{0,60}out of memory|\bout of memory\b.{0,40}\((?:code|error)? ?=? ?2\)|\[CUDA_ERROR_OUT_OF_MEMORY\]",
    )
});
/// The macros that everybody writes around calls: `GPUassert: out of memory main.cu 42`, `cudaSafeCall() failed at main.cu:42 : out of memory`.
static MACRO: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i:\b(?:(?:gpu|cuda|hip)[ _-]?(?:assert|errchk|check|safe_?call|(?:runtime|driver|api|rt) (?:error|call)|error)|(?:check|get_?last)_?cuda_?error)[a-z_]*\b[^!?]{0,160}?(?:[:)\]=-]|\bwith|\b0*2) ?["'(]{0,2}out of memory\b|\bcode: ?2, reason: out of memory\b|^out of memory cuda[a-z0-9]{3,40} ?\()"#,
    )
});

/// TensorRT tells what it asked for.
static TENSORRT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"OutOfMemory \(Requested size was (?P<size>\d+ bytes)"));

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    if let Some(found) = LIBRARY.captures(text) {
        let name = match found.name("code").map(|code| code.as_str()) {
            Some(code) if code.starts_with("CUBLAS") => "cuBLAS",
            Some(code) if code.starts_with("CUDNN") => "cuDNN",
            Some(code) if code.starts_with("CUSOLVER") => "cuSOLVER",
            Some(code) if code.starts_with("CUSPARSE") => "cuSPARSE",
            Some(_) => "cuFFT",
            None if found[0].starts_with("CUBLAS") => "cuBLAS",
            None => "NCCL",
        };
        let mut message = Found::new(start(&found), framework(text), Kind::Library);
        message
            .facts
            .push(format!("{name} asked the driver itself"));
        return Some(message);
    }
    let found = CODE.find(text).or_else(|| MACRO.find(text))?;
    let mut message = Found::new(found.start(), framework(text), Kind::ErrorCode);
    message.numbers.requested_bytes = TENSORRT
        .captures(text)
        .and_then(|size| bytes(&size, "size"));
    Some(message)
}

/// Whose error it is, as far as its words tell.
fn framework(text: &str) -> Framework {
    const WORDS: [(&str, Framework); 6] = [
        ("torch", Framework::PyTorch(None)),
        ("RuntimeError: CUDA error", Framework::PyTorch(None)),
        ("cupy", Framework::CuPy),
        ("xla", Framework::Jax),
        ("jax", Framework::Jax),
        ("tensorflow", Framework::TensorFlow),
    ];
    let told = WORDS.iter().find(|(word, _)| text.contains(word));
    told.map_or(Framework::Cuda, |(_, framework)| *framework)
}
