//! What kind of place this is: WSL, a container, limits; and whether a driver is installed, without using it.

use super::words;
use oomhook_report::clean;
use rustix::process::Resource;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The place.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub wsl: bool,
    /// What tells that this is a container.
    pub container: Option<String>,
    /// The GPU is a part of the processor.
    pub integrated: bool,
}

/// Limits of processes that are started from here; null is unlimited.
#[derive(Debug, Serialize)]
pub struct Limits {
    pub memlock_bytes: Option<u64>,
    pub address_space_bytes: Option<u64>,
}

impl Machine {
    /// Looks at a machine whose files are below `root`.
    pub fn look(root: &Path, variable: impl Fn(&str) -> bool) -> Machine {
        let read = |path: &str| {
            let bytes = fs::read(root.join(path)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let kernel = read("proc/version").to_ascii_lowercase();
        let wsl = kernel.contains("microsoft") || root.join("dev/dxg").exists();
        Machine {
            wsl,
            container: container(root, &read, variable),
            integrated: root.join("etc/nv_tegra_release").exists(),
        }
    }
}

fn container(
    root: &Path,
    read: &impl Fn(&str) -> String,
    variable: impl Fn(&str) -> bool,
) -> Option<String> {
    for file in [".dockerenv", "run/.containerenv", ".singularity.d"] {
        if root.join(file).exists() {
            return Some(format!("/{file}"));
        }
    }
    for name in [
        "KUBERNETES_SERVICE_HOST",
        "APPTAINER_CONTAINER",
        "SINGULARITY_CONTAINER",
    ] {
        if variable(name) {
            return Some(name.to_owned());
        }
    }
    const WORDS: [&str; 5] = ["docker", "kubepods", "containerd", "libpod", "lxc"];
    let groups = read("proc/1/cgroup");
    let word = WORDS.iter().find(|word| groups.contains(**word))?;
    Some(format!("{word} in /proc/1/cgroup"))
}

impl Limits {
    /// Those of this process.
    pub fn look() -> Limits {
        let limit = |which| rustix::process::getrlimit(which).current;
        Limits {
            memlock_bytes: limit(Resource::Memlock),
            address_space_bytes: limit(Resource::As),
        }
    }
}

/// A driver that is installed.
#[derive(Debug, Default)]
pub struct Installed {
    /// Where programs would find it.
    pub libcuda: Option<PathBuf>,
    /// It is oomhook's own.
    pub simulated: bool,
    /// What the kernel module says of itself.
    pub version: Option<String>,
    /// There is a device that it could drive.
    pub has_device: bool,
}

impl Installed {
    /// Looks where the loader would, and loads nothing.
    pub fn look() -> Installed {
        let libcuda = find_library("libcuda.so.1");
        let real = libcuda.as_ref().and_then(|path| path.canonicalize().ok());
        let devices = [
            "/dev/nvidiactl",
            "/dev/dxg",
            "/dev/nvhost-ctrl",
            "/dev/nvmap",
        ];
        Installed {
            simulated: real.is_some_and(|path| path.ends_with("liboomhook_sim.so")),
            libcuda,
            version: fs::read_to_string("/proc/driver/nvidia/version")
                .ok()
                .and_then(|text| module_version(&text)),
            has_device: devices.iter().any(|path| Path::new(path).exists()),
        }
    }
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build …`
fn module_version(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        let first = parts.next().is_some_and(|part| part.len() >= 3);
        first
            && word.contains('.')
            && word
                .bytes()
                .all(|byte| byte == b'.' || byte.is_ascii_digit())
    };
    words.find(is_version).map(clean::text)
}

fn find_library(name: &str) -> Option<PathBuf> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|folder| !folder.as_os_str().is_empty());
    let cached = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let cached = cached_paths(&cached, name);
    const USUAL: [&str; 8] = [
        "/lib64",
        "/usr/lib64",
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib/wsl/lib",
        "/lib",
        "/usr/lib",
    ];
    let usual = USUAL.iter().map(|folder| Path::new(folder).join(name));
    let listed = listed.map(|folder| folder.join(name));
    let found = listed.chain(cached).chain(usual).find(|path| path.exists());
    found.map(|path| std::path::absolute(&path).unwrap_or(path))
}

/// Paths in the loader's cache that end with this name: its strings are terminated, whatever else is between them.
fn cached_paths(cache: &[u8], name: &str) -> Vec<PathBuf> {
    let end = format!("/{name}");
    let strings = cache.split(|byte| *byte == 0);
    let paths = strings.filter_map(|string| std::str::from_utf8(string).ok());
    let paths = paths.filter(|path| path.starts_with('/') && path.ends_with(&end));
    paths.map(PathBuf::from).collect()
}

impl Machine {
    /// What it means for what can be shown.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        if self.wsl {
            hints.push(words::WSL.to_owned());
        }
        if let Some(sign) = &self.container {
            hints.push(words::container(sign));
        }
        if self.integrated {
            hints.push(words::INTEGRATED.to_owned());
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(files: &[(&str, &str)], set: &str) -> Machine {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        Machine::look(root.path(), |name| name == set)
    }

    #[test]
    fn wsl_is_told_by_its_kernel_or_its_device() {
        let kernel = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x)";
        assert!(look(&[("proc/version", kernel)], "").wsl);
        assert!(look(&[("dev/dxg", "")], "").wsl);
        assert!(!look(&[("proc/version", "Linux version 6.8.0")], "").wsl);
    }

    #[test]
    fn a_container_is_told_by_several_signs() {
        for (file, text, sign) in [
            (".dockerenv", "", "/.dockerenv"),
            ("run/.containerenv", "", "/run/.containerenv"),
            (
                "proc/1/cgroup",
                "0::/kubepods/x",
                "kubepods in /proc/1/cgroup",
            ),
        ] {
            assert_eq!(look(&[(file, text)], "").container.as_deref(), Some(sign));
        }
        let pod = look(&[], "KUBERNETES_SERVICE_HOST").container;
        assert_eq!(pod.as_deref(), Some("KUBERNETES_SERVICE_HOST"));
        assert_eq!(
            look(&[("proc/1/cgroup", "0::/init.scope")], "").container,
            None
        );
    }

    #[test]
    fn the_version_of_the_module_and_the_paths_of_the_cache_are_read() {
        let text =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n";
        assert_eq!(module_version(text).as_deref(), Some("580.95.05"));
        assert_eq!(module_version("junk"), None);
        let cache = b"glibc-ld.so.cache1.1\0\x07\0libcuda.so.1\0/usr/lib/wsl/lib/libcuda.so.1\0/x/libcuda.so.1.1\0";
        assert_eq!(
            cached_paths(cache, "libcuda.so.1"),
            [PathBuf::from("/usr/lib/wsl/lib/libcuda.so.1")]
        );
    }
}
