//! How a program reaches CUDA, as far as its file shows.

use super::words;
use crate::cli::run::program;
use object::{Object, ObjectSection, ObjectSymbol};
use serde::Serialize;
use std::fs::File;
use std::path::Path;

/// What the file shows.
#[derive(Debug, Default, Serialize)]
pub struct Reach {
    /// Libraries of CUDA that it is linked with.
    pub links: Vec<String>,
    /// The runtime is inside.
    pub static_runtime: bool,
    /// It holds code for GPUs.
    pub gpu_code: bool,
    /// It has the driver's name in it, to open it by itself.
    pub names_driver: bool,
}

/// Beginnings of names of libraries that are CUDA's or bring it.
const BRINGERS: [&str; 14] = [
    "libcuda.so",
    "libcudart.so",
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnvrtc",
    "libnccl",
    "libtorch",
    "libc10_cuda",
    "libonnxruntime",
    "libtensorflow",
];
/// Constants of more bytes are not searched.
const MOST: u64 = 64 << 20;

impl Reach {
    /// Looks into a file.
    pub fn of(path: &Path) -> Reach {
        let mut reach = Reach::default();
        if let Some(needs) = program::needs(path) {
            let brings = |name: &String| BRINGERS.iter().any(|known| name.starts_with(known));
            reach.links = needs.libraries.into_iter().filter(brings).collect();
        }
        let Ok(file) = File::open(path) else {
            return reach;
        };
        let data = object::ReadCache::new(file);
        let Ok(file) = object::File::parse(&data) else {
            return reach;
        };
        let has = |name: &str| file.section_by_name(name).is_some();
        reach.gpu_code = has(".nv_fatbin") || has("__nv_relfatbin");
        let defines = |wanted: &str| {
            let mut symbols = file.symbols().chain(file.dynamic_symbols());
            symbols.any(|one| one.is_definition() && one.name() == Ok(wanted))
        };
        let links_runtime = reach.links.iter().any(|name| name.starts_with("libcudart"));
        reach.names_driver = file
            .section_by_name(".rodata")
            .filter(|section| section.size() <= MOST)
            .and_then(|section| section.data().ok())
            .is_some_and(|data| contains(data, b"libcuda.so.1\0"));
        reach.static_runtime =
            !links_runtime && (defines("cudaMalloc") || (reach.gpu_code && reach.names_driver));
        reach
    }

    /// The same in words.
    pub fn said(&self, watchable: bool) -> String {
        let mut parts = Vec::new();
        if !self.links.is_empty() {
            parts.push(words::links(&self.links));
        }
        if self.static_runtime {
            parts.push(words::STATIC_RUNTIME.to_owned());
        } else if self.names_driver {
            parts.push(words::NAMES_DRIVER.to_owned());
        }
        if parts.is_empty() {
            let words = match watchable {
                true => words::NOTHING_VISIBLE,
                false => words::NOTHING_THERE,
            };
            return words.to_owned();
        }
        parts.join("; ")
    }
}

fn contains(data: &[u8], wanted: &[u8]) -> bool {
    data.windows(wanted.len()).any(|part| part == wanted)
}
