//! The table of intercepted functions against CUDA's own headers: every function that allocates, frees, maps, loads or
//! imports is in the table with the header's signature, or left out with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Words in a name that say that a function may have to do with memory.
const VERBS: [&str; 27] = [
    "Alloc",
    "Free",
    "Create",
    "Destroy",
    "Release",
    "Retain",
    "Reset",
    "Map",
    "Unmap",
    "Register",
    "Unregister",
    "Import",
    "Open",
    "Close",
    "Load",
    "Reserve",
    "Bind",
    "Unbind",
    "Instantiate",
    "Launch",
    "Trim",
    "Clone",
    "SetLimit",
    "Detach",
    "EndCapture",
    "BeginCapture",
    "SetAccess",
];

/// A class of C types that are passed alike: how many bytes.
type Width = usize;

/// Signatures by exact symbol.
type Signatures = BTreeMap<String, Vec<Width>>;

fn table() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/preload/hooks/table.rs");
    fs::read_to_string(path).expect("the table")
}

/// Width of a Rust argument of the table.
fn rust_width(kind: &str) -> Width {
    match kind.trim() {
        "c_uint" | "c_int" | "DevicePointer32" | "DeviceOrdinal" => 4,
        "IpcHandle" => 64,
        "Extent" => 24,
        "Dim3" => 12,
        "usize" | "u64" | "c_ulonglong" | "DevicePointer" | "VmmHandle" => 8,
        "Context" | "Stream" | "Pool" | "Array" | "Graph" | "Module" | "Function" | "Event"
        | "External" => 8,
        pointer if pointer.starts_with('*') => 8,
        other => panic!("a type that this test does not know: {other}"),
    }
}

/// What stands in the table.
fn hooked() -> Signatures {
    let table = table();
    let rows = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix("fn "));
    rows.filter(|row| row.contains(" => "))
        .map(|row| {
            let (name, rest) = row.split_once('(').expect("arguments");
            let (arguments, _) = rest.split_once(") as ").expect("a name in reports");
            let arguments = arguments
                .split(", ")
                .filter(|argument| !argument.is_empty());
            let widths =
                arguments.map(|argument| rust_width(argument.split_once(": ").expect("a type").1));
            (name.to_owned(), widths.collect())
        })
        .collect()
}

/// Names that are left out on purpose.
fn left_out() -> BTreeSet<String> {
    let table = table();
    let lines = table
        .lines()
        .filter_map(|line| line.strip_prefix("// left out: "));
    lines
        .flat_map(|line| {
            let (names, reason) = line.split_once(": ").expect("a reason");
            assert!(!reason.trim().is_empty());
            names.split(' ').map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// Width of a C parameter.
fn c_width(parameter: &str) -> Width {
    let parameter = parameter.trim();
    if parameter.contains('*') || parameter.contains('[') {
        return 8;
    }
    let words: Vec<&str> = parameter
        .split_whitespace()
        .filter(|word| *word != "const")
        .collect();
    let kind = match words.as_slice() {
        ["unsigned", "long", "long", ..] => return 8,
        ["unsigned", "int", ..] | ["unsigned"] | ["enum", ..] => return 4,
        [kind, ..] => *kind,
        [] => panic!("an empty parameter"),
    };
    match kind {
        "int" | "CUdevice" | "CUdevice_v1" | "CUdeviceptr_v1" | "size_t_v1" => 4,
        "struct" => c_width(&words[1..].join(" ")),
        "CUipcMemHandle" | "CUipcMemHandle_v1" | "CUipcEventHandle" | "CUipcEventHandle_v1" => 64,
        "cudaIpcMemHandle_t" | "cudaIpcEventHandle_t" => 64,
        "cudaExtent" => 24,
        "dim3" => 12,
        "size_t" | "cuuint64_t" | "CUdeviceptr" | "CUdeviceptr_v2" => 8,
        "cuuint32_t" => 4,
        // Enumerations of the driver and the runtime.
        name if [
            "Type",
            "limit",
            "Limit",
            "mode",
            "Mode",
            "Kind",
            "_enum",
            "_attribute",
            "CUmemAllocationType",
        ]
        .iter()
        .any(|part| name.ends_with(part))
            || name == "cudaMemAllocationHandleType" =>
        {
            4
        }
        // All else that goes by value is a handle.
        _ => 8,
    }
}

fn widths(parameters: &str) -> Vec<Width> {
    let parameters = parameters
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest));
    let parameters: String = parameters.collect();
    let listed = parameters.split(',').map(str::trim);
    listed
        .filter(|parameter| !parameter.is_empty() && *parameter != "void")
        .map(c_width)
        .collect()
}

/// The driver's functions: every version of a name, as `cudaTypedefs.h` lists them. The oldest version has the bare symbol,
/// the next one `_v2`, and so on.
fn driver_functions(include: &Path) -> Signatures {
    let text = fs::read_to_string(include.join("cudaTypedefs.h")).expect("the header");
    let mut versions: BTreeMap<(String, String), BTreeMap<u32, Vec<Width>>> = BTreeMap::new();
    for declaration in text.split(';').filter_map(|part| part.split_once("*PFN_")) {
        let (name, rest) = declaration.1.split_once(')').expect("a name");
        let parameters = rest
            .trim()
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        let Some((base, version)) = name.rsplit_once("_v") else {
            continue;
        };
        let (version, suffix) = match version.split_once('_') {
            Some((version, suffix)) => (version, format!("_{suffix}")),
            None => (version, String::new()),
        };
        let version = version.parse().expect("a version");
        let listed = widths(parameters.expect("parameters"));
        versions
            .entry((base.to_owned(), suffix))
            .or_default()
            .insert(version, listed);
    }
    assert!(versions.len() > 300, "{}", versions.len());
    let mut functions = Signatures::new();
    for ((base, suffix), versions) in versions {
        for (signature, number) in versions.into_values().zip(1..) {
            let version = if number == 1 {
                String::new()
            } else {
                format!("_v{number}")
            };
            functions.insert(format!("{base}{version}{suffix}"), signature);
        }
    }
    functions
}

/// The runtime's functions.
fn runtime_functions(include: &Path) -> Signatures {
    let text = fs::read_to_string(include.join("cuda_runtime_api.h")).expect("the header");
    let mut functions = Signatures::new();
    for (at, _) in text.match_indices("CUDARTAPI cuda") {
        let rest = &text[at + "CUDARTAPI ".len()..];
        let (declaration, _) = rest.split_once(';').expect("an end");
        let (name, parameters) = declaration.split_once('(').expect("parameters");
        let parameters = parameters.rsplit_once(')').expect("their end").0;
        // Default arguments are a macro: `unsigned int flags __dv(0)`.
        let parameters: String = parameters
            .split(',')
            .map(|one| one.split("__dv").next().unwrap_or(one))
            .collect::<Vec<_>>()
            .join(",");
        functions.insert(name.to_owned(), widths(&parameters));
    }
    assert!(functions.len() > 200, "{}", functions.len());
    functions
}

fn is_about_memory(name: &str) -> bool {
    VERBS.iter().any(|verb| name.contains(verb))
}

/// The name without version and stream suffix.
fn base(symbol: &str) -> &str {
    let symbol = symbol
        .strip_suffix("_ptsz")
        .or(symbol.strip_suffix("_ptds"))
        .unwrap_or(symbol);
    match symbol.rsplit_once("_v") {
        Some((base, version)) if version.chars().all(|digit| digit.is_ascii_digit()) => base,
        _ => symbol,
    }
}

fn includes() -> Option<[PathBuf; 2]> {
    let wheels = PathBuf::from(std::env::var_os("OOMHOOK_TEST_WHEELS")?);
    let twelve = wheels.join("nvidia-cuda-runtime-cu12/nvidia/cuda_runtime/include");
    let thirteen = wheels.join("nvidia-cuda-runtime/nvidia/cu13/include");
    Some([twelve, thirteen])
}

/// Two names changed their list of arguments between CUDA 11, 12 and 13; their rows hand on the longer list.
const CHANGED: [&str; 2] = ["cudaGraphAddNode", "cudaGraphInstantiate"];

#[test]
fn the_table_agrees_with_the_headers() {
    let Some(includes) = includes() else {
        eprintln!(
            "NOT RUN: OOMHOOK_TEST_WHEELS is not set (.ci/run fetches the wheels and sets it)"
        );
        return;
    };
    let (hooked, left_out) = (hooked(), left_out());
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for include in &includes {
        let runtime = runtime_functions(include);
        for (symbol, signature) in driver_functions(include).into_iter().chain(runtime) {
            known.insert(symbol.clone());
            match hooked.get(&symbol) {
                Some(ours) if CHANGED.contains(&symbol.as_str()) => {
                    if !ours.starts_with(&signature) && !is_wider(ours, &signature) {
                        wrong.push(format!(
                            "{symbol} has {ours:?}, which does not cover {signature:?}"
                        ));
                    }
                }
                Some(ours) if *ours != signature => {
                    wrong.push(format!("{symbol} has {ours:?}, the header {signature:?}"));
                }
                Some(_) => {}
                None => {
                    let named = base(&symbol).replacen("cuda", "cu", 1);
                    let excused = left_out.contains(base(&symbol)) || left_out.contains(&named);
                    if is_about_memory(&symbol) && !excused {
                        wrong.push(format!(
                            "{symbol} {signature:?} is neither hooked nor left out with a reason"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A symbol that no header knows would never be asked for. The runtime's per-thread forms are macros there.
    let strange: Vec<_> = hooked
        .keys()
        .filter(|symbol| {
            !known.contains(*symbol) && !known.contains(symbol.trim_end_matches("_ptsz"))
        })
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// At least as many arguments, each at least as wide: registers hold them alike.
fn is_wider(ours: &[Width], theirs: &[Width]) -> bool {
    ours.len() >= theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| ours >= theirs)
}
