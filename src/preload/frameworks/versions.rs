//! Which frameworks are in the process, and which version where a file beside them says so.

use super::super::libraries;
use std::collections::BTreeMap;
use std::path::Path;

/// What to look for: a framework, a part of the path of one of its libraries, and the file that tells the version, as a path from
/// the folder that the part ends in.
const KNOWN: [(&str, &str, &str); 7] = [
    ("torch", "/torch/lib/libc10", "version.py"),
    ("jax", "/jax_plugins/xla_cuda", "../jaxlib/version.py"),
    ("jax", "/jaxlib/", "version.py"),
    ("tensorflow", "/tensorflow/libtensorflow_framework", ""),
    ("cupy", "/cupy_backends/cuda/", "../cupy/_version.py"),
    ("vllm", "/vllm/_C", "_version.py"),
    ("ggml", "/libggml-cuda", ""),
];

/// A file that tells a version is short.
const LONGEST: u64 = 64 << 10;

/// The frameworks that are loaded; the version is empty where it is not known.
pub fn loaded() -> BTreeMap<String, String> {
    of(libraries::paths().iter().map(String::as_str))
}

fn of<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for path in paths {
        for (name, part, file) in KNOWN {
            let Some(at) = path.find(part) else { continue };
            let version = found.entry(name.to_owned()).or_default();
            if version.is_empty() && !file.is_empty() {
                // `/torch/lib/libc10`: the package's folder is `/torch`.
                let package = part[1..].find('/').map_or(part, |end| &part[..=end]);
                let folder = Path::new(&path[..at + package.len()]);
                *version = read(&folder.join(file)).unwrap_or_default();
            }
        }
    }
    found
}

/// The version that such a file sets: `__version__ = '2.11.0+cu130'`.
fn read(file: &Path) -> Option<String> {
    let size = std::fs::metadata(file).ok()?.len();
    let text = (size <= LONGEST)
        .then(|| std::fs::read_to_string(file).ok())
        .flatten()?;
    text.lines().find_map(version_in)
}

fn version_in(line: &str) -> Option<String> {
    let rest = ["__version__", "_version", "version"]
        .iter()
        .find_map(|name| line.strip_prefix(name))?;
    let value = rest.split_once('=')?.1.trim();
    let value = value.trim_matches(|c| matches!(c, '\'' | '"'));
    let is_version = value.starts_with(|c: char| c.is_ascii_digit()) && value.len() < 64;
    is_version.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_files_beside() {
        let folder = std::env::temp_dir().join(format!("oomhook-versions-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("torch/lib")).expect("a folder");
        let file = "from typing import Optional\n\n__version__ = '2.11.0+cu130'\ndebug = False\n";
        std::fs::write(folder.join("torch/version.py"), file).expect("a file");
        let path = folder
            .join("torch/lib/libc10_cuda.so")
            .display()
            .to_string();
        let found = of([path.as_str(), "/opt/lib/libggml-cuda.so", "/lib/libc.so.6"].into_iter());
        std::fs::remove_dir_all(&folder).expect("the folder");
        let found: Vec<_> = found
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(found, [("ggml", ""), ("torch", "2.11.0+cu130")]);
    }

    #[test]
    fn other_lines_are_no_versions() {
        assert_eq!(version_in("_version = \"0.7.2\""), Some("0.7.2".into()));
        assert_eq!(version_in("version_info = (1, 2)"), None);
        assert_eq!(version_in("__version__ = get_version()"), None);
    }
}
