//! Which frame of a stack a person can change: the first one that is neither ours, nor the driver's, nor the
//! runtime's, nor an allocator's that serves the caller.

use crate::schema::{Frame, Language};

/// Whose a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ours.
    Own,
    /// The driver's.
    Driver,
    /// The CUDA runtime's, shared or linked into the program.
    Runtime,
    /// An allocator's that keeps memory to serve others; its name goes to `via`.
    Serving(&'static str),
    /// What makes a framework's results for its operators: the operator is the place, if it is on the stack.
    Making,
    /// An interpreter's and what starts threads and programs: nobody's place, unless there is no other.
    Plumbing,
    /// Somebody's who asked for the memory.
    Caller,
}

/// How a rule looks at a frame.
enum Test {
    /// The library's file name begins so.
    File(&'static str),
    /// The library's path contains this.
    Path(&'static str),
    /// The function's name (without arguments) begins so, and goes on with a capital.
    Function(&'static str),
    /// The function's qualified name begins so.
    Prefix(&'static str),
    /// The function's qualified name contains this.
    Name(&'static str),
}

/// The table. The first rule that fits decides.
const RULES: &[(Test, Role)] = &[
    // The preloaded library itself, should one of its frames have been kept.
    (Test::File("liboomhook.so"), Role::Own),
    // The driver (libcuda.so, libcuda.so.1, libcuda.so.580.65.06) and the simulated one.
    (Test::File("libcuda.so"), Role::Driver),
    (Test::File("liboomhook_sim"), Role::Driver),
    // PTX compilation and debugging parts of the driver allocate on behalf of a driver call.
    (Test::File("libnvidia-"), Role::Driver),
    // The shared runtime, also by a wheel's or a framework's renamed copy (libcudart-d0da41ae.so.11.0).
    (Test::File("libcudart"), Role::Runtime),
    // Python's bindings of the driver and of the runtime: NVIDIA's own (numba-cuda calls through them) and CuPy's,
    // which has the static runtime inside, without names.
    (Test::Path("/cuda/bindings/"), Role::Driver),
    (Test::Path("/cupy_backends/cuda/"), Role::Runtime),
    // The static runtime keeps its exported names, and its inner ones are hashed with this prefix.
    (Test::Prefix("libcudart_static_"), Role::Runtime),
    (Test::Prefix("cudart::"), Role::Runtime),
    (Test::Prefix("__cudart"), Role::Runtime),
    // cudaMalloc and its kin, and the C++ templates of the runtime's headers around them.
    (Test::Function("cuda"), Role::Runtime),
    // Bindings that wrap each driver call in a function of their own: cudarc's, and the demo's.
    (Test::Prefix("cudarc::driver::result::"), Role::Runtime),
    (Test::Prefix("cudarc::runtime::result::"), Role::Runtime),
    (Test::Prefix("oomhook_demo::driver::"), Role::Runtime),
    // PyTorch's cache: it asks the driver for segments and hands out pieces.
    (Test::File("libc10_cuda"), Role::Serving("libc10_cuda")),
    (
        Test::Prefix("c10::cuda::CUDACachingAllocator"),
        Role::Serving("libc10_cuda"),
    ),
    // RMM's memory resources, in their library or inlined into cuDF and others.
    (Test::File("librmm"), Role::Serving("rmm")),
    (Test::Prefix("rmm::"), Role::Serving("rmm")),
    // CuPy's pool, a Cython module (cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so), and the one for pinned memory.
    (Test::Path("/cupy/cuda/memory"), Role::Serving("cupy")),
    (
        Test::Path("/cupy/cuda/pinned_memory"),
        Role::Serving("cupy"),
    ),
    // XLA's best-fit allocator, and the layer that makes its driver calls (with or without that allocator).
    (Test::Name("BFCAllocator"), Role::Serving("xla_bfc")),
    (Test::Prefix("stream_executor::"), Role::Runtime),
    // What makes PyTorch's empty tensors, and its dispatcher: every operator's results come through here.
    (Test::Prefix("at::detail::empty_"), Role::Making),
    (Test::Prefix("at::native::empty_"), Role::Making),
    (Test::Prefix("at::empty"), Role::Making),
    (Test::Prefix("at::_ops::empty"), Role::Making),
    (
        Test::Name("(anonymous namespace)::create_out"),
        Role::Making,
    ),
    (Test::Name("::set_output_"), Role::Making),
    (Test::Prefix("at::TensorIteratorBase::"), Role::Making),
    (
        Test::Name("(anonymous namespace)::wrapper_CUDA_"),
        Role::Making,
    ),
    (Test::Prefix("c10::impl::wrap_kernel_functor"), Role::Making),
    // CPython, as a library or as the program, and its way into C.
    (Test::File("libpython3"), Role::Plumbing),
    (Test::File("python3"), Role::Plumbing),
    (Test::File("_ctypes."), Role::Plumbing),
    (Test::File("libffi"), Role::Plumbing),
    // Python's own machinery of imports, and what starts its threads.
    (Test::Path("<frozen "), Role::Plumbing),
    // Numba's bindings of the driver, written in Python.
    (Test::Path("/numba/cuda/cudadrv/"), Role::Runtime),
    // Below every main and every thread's function.
    (Test::File("libc.so"), Role::Plumbing),
    (Test::File("libpthread.so"), Role::Plumbing),
    (Test::File("ld-linux"), Role::Plumbing),
];

/// Families of libraries that are often linked into a program or into another library, by the beginning of their
/// functions' names. (cuBLAS and its kin hide their inner names behind `libcublas_static_` and a hash.)
const FAMILIES: &[(&str, &str)] = &[
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn"),
    ("cufft", "libcufft"),
    ("cusparse", "libcusparse"),
    ("cusolver", "libcusolver"),
    ("curand", "libcurand"),
    ("nccl", "libnccl"),
    ("nvshmem", "libnvshmem"),
    ("nppi", "libnpp"),
];

/// Handles of libraries. A function that asks for memory and is handed one makes that library's workspace (PyTorch's
/// `at::cuda::setWorkspaceForHandle(cublasContext*, …)`, `at::native::run_conv_plan(cudnnContext*, …)`): the library owns it.
const HANDLES: &[(&str, &str)] = &[
    ("cublasContext*", "libcublas"),
    ("cublasLtContext*", "libcublasLt"),
    ("cudnnContext*", "libcudnn"),
    ("cusparseContext*", "libcusparse"),
    ("cusparseLtHandle", "libcusparseLt"),
    ("cusolverDnContext*", "libcusolver"),
    ("ncclComm*", "libnccl"),
];

/// A frame as attribution sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The library's path; empty if unknown.
    pub path: &'a str,
    /// The function's demangled name, if known.
    pub function: Option<&'a str>,
}

/// Whose a frame is.
#[must_use]
pub fn role(frame: Seen<'_>) -> Role {
    let file = file_name(frame.path);
    let name = frame.function.map(bare_name).unwrap_or_default();
    let fits = |test: &Test| match test {
        Test::File(prefix) => file.starts_with(prefix),
        Test::Path(part) => frame.path.contains(part),
        Test::Function(prefix) => name
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase())),
        Test::Prefix(prefix) => name.starts_with(prefix),
        Test::Name(part) => name.contains(part),
    };
    RULES
        .iter()
        .find(|(test, _)| fits(test))
        .map_or(Role::Caller, |(_, role)| *role)
}

/// Whose a Python frame is, by its file. (Its name may be anything.)
#[must_use]
pub fn python_role(file: &str) -> Role {
    let fits = |test: &Test| matches!(test, Test::Path(part) if file.contains(part));
    RULES
        .iter()
        .find(|(test, _)| fits(test))
        .map_or(Role::Caller, |(_, role)| *role)
}

/// True for Python files that a person has installed and not written: they are shown if there is no other.
#[must_use]
pub fn is_installed(file: &str) -> bool {
    const PLACES: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python3"];
    // Code made at run time has no file.
    file.starts_with('<') || PLACES.iter().any(|place| file.contains(place))
}

/// True for frames of the Python interpreter and of its way into C: text reports leave them out, since the Python frames
/// say the same.
#[must_use]
pub fn is_interpreter(frame: &Frame) -> bool {
    const FILES: [&str; 4] = ["libpython3", "python3", "_ctypes.", "libffi"];
    let is_python = frame.language == Language::Python;
    !is_python && FILES.iter().any(|file| frame.library.starts_with(file))
}

/// The library a person knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The file that holds the frame.
    File(&'a str),
    /// A library that is linked into the file.
    Inside(&'static str),
    /// A library for which the frame makes a workspace; where it is loaded, its file is the owner.
    Workspace(&'static str),
}

/// True for a library of kernels that works in memory of its own: what it takes is room to work in.
#[must_use]
pub fn is_working_library(library: &str) -> bool {
    FAMILIES
        .iter()
        .any(|(_, family)| library.starts_with(family))
}

/// The library that owns what a frame asks for.
#[must_use]
pub fn owner(frame: Seen<'_>) -> Owner<'_> {
    let file = file_name(frame.path);
    let function = frame.function.unwrap_or_default();
    let name = bare_name(function);
    let family = FAMILIES
        .iter()
        .find(|(prefix, family)| is_of_family(name, prefix, family));
    if let Some((_, family)) = family.filter(|(_, family)| !file.starts_with(family)) {
        return Owner::Inside(family);
    }
    let first = parameters(function).split(',').next().unwrap_or_default();
    let handle = HANDLES.iter().find(|(handle, _)| first == *handle);
    if let Some((_, library)) = handle.filter(|(_, library)| !file.starts_with(library)) {
        return Owner::Workspace(library);
    }
    Owner::File(if file.is_empty() { "unknown" } else { file })
}

fn is_of_family(name: &str, prefix: &str, family: &str) -> bool {
    let hidden = name
        .strip_prefix(family)
        .is_some_and(|rest| rest.starts_with("_static_"));
    let named = name
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    hidden || named
}

/// The parameters of a function's demangled name, without the brackets.
fn parameters(function: &str) -> &str {
    let bare = bare_name(function);
    let after = function.find(bare).map(|at| &function[at + bare.len()..]);
    let Some((_, parameters)) = after.and_then(|rest| rest.split_once('(')) else {
        return "";
    };
    parameters.trim_end_matches(')')
}

/// The node of PyTorch's backward pass that a function runs: `torch::autograd::generated::AddmmBackward0::apply(…)` is
/// `AddmmBackward0`. (Its threads have no Python frames: this is what the reader knows from `grad_fn`.)
#[must_use]
pub fn autograd_node(function: &str) -> Option<&str> {
    let name = bare_name(function).strip_prefix("torch::autograd::")?;
    let node = name.strip_suffix("::apply")?.rsplit("::").next()?;
    (node != "PyNode").then_some(node)
}

/// True if the function runs what was left for the end of the process.
#[must_use]
pub fn runs_at_exit(frame: Seen<'_>) -> bool {
    let in_libc = file_name(frame.path).starts_with("libc.so");
    let at_exit = [
        "exit",
        "quick_exit",
        "__run_exit_handlers",
        "__cxa_finalize",
        "on_exit",
    ];
    in_libc && frame.function.is_some_and(|name| at_exit.contains(&name))
}

/// The last part of a path.
#[must_use]
pub fn file_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(" (deleted)").unwrap_or(name)
}

/// A function's qualified name without return type, template arguments at its end and parameters:
/// `cudaError cudaMalloc<float>(float**, unsigned long)` is `cudaMalloc`.
#[must_use]
pub fn bare_name(function: &str) -> &str {
    let mut depth = 0i32;
    let mut start = 0;
    let mut end = function.len();
    let bytes = function.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // `operator<`, `operator()`, `operator new`: not brackets, and the end of what matters.
            b'o' if depth == 0 && function[at..].starts_with("operator") => {
                // A lambda is known by itself: `step()::{lambda(int)#1}::operator()(int) const`.
                if function[..at].ends_with("}::") {
                    end = at - 2;
                }
                break;
            }
            b'(' if function[at..].starts_with("(anonymous namespace)") => depth += 1,
            b'(' if depth == 0 && !encloses(&function[at..]) => {
                end = at;
                break;
            }
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth -= 1,
            b' ' if depth == 0 && !function[at..].starts_with(" const::") => start = at + 1,
            _ => {}
        }
    }
    let name = &function[start.min(end)..end];
    // An operator of PyTorch is known by its name, not by how it is dispatched.
    if let Some(operator) = name.strip_prefix("at::_ops::") {
        let ways = ["::call", "::redispatch"];
        let known = ways.iter().find_map(|way| operator.strip_suffix(way));
        return known.map_or(name, |known| {
            &name[..name.len() - operator.len() + known.len()]
        });
    }
    match name.find('<') {
        // Only arguments at the end go; those of a class in the middle are part of the name.
        Some(at) if name.ends_with('>') && !name[at..].contains(">::") && at > 0 => &name[..at],
        _ => name,
    }
}

/// True if these parameters are those of a function around: `step()::Cache::fill(int)`, `f(int) const::{lambda()#1}`.
fn encloses(from_bracket: &str) -> bool {
    let mut depth = 0i32;
    for (at, byte) in from_bracket.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let rest = &from_bracket[at + 1..];
            return rest
                .strip_prefix(" const")
                .unwrap_or(rest)
                .starts_with("::");
        }
    }
    false
}

#[cfg(test)]
mod tests;
