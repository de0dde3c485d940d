//! `--sim`: a private folder in which `libcuda.so.1` (and `libnvidia-ml.so.1`) is the simulator, put first in the loader's
//! path. Never a runtime: the program's own stays what it is.

use super::Failure;
use crate::cli::output;
use oomhook_report::units;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What the simulator stands in for.
const NAMES: [&str; 2] = ["libcuda.so.1", "libnvidia-ml.so.1"];

/// The folder, gone when this is dropped.
pub struct Simulator {
    folder: TempDir,
    /// As given: `2x16GiB`, or empty for the simulator's own default.
    pub devices: String,
}

impl Simulator {
    /// Where `libcuda.so.1` lies.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes the folder. The simulator lies beside the library.
pub fn prepare(library: &Path, devices: &str) -> Result<Simulator, Failure> {
    let simulator = beside(library);
    if !simulator.is_file() {
        return Err(Failure::usage(format!(
            "--sim needs {}, which is missing: build it (`cargo build --release`) or leave --sim out",
            simulator.display()
        )));
    }
    let folder = tempfile::Builder::new()
        .prefix("oomhook-sim-")
        .tempdir()
        .map_err(|error| {
            Failure::usage(format!(
                "--sim needs a temporary folder: {}; set TMPDIR to a place that can be written",
                output::reason(&error)
            ))
        })?;
    for name in NAMES {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(&simulator, link).map_err(|error| {
            Failure::usage(format!(
                "--sim: cannot make a link in {}: {}",
                folder.path().display(),
                output::reason(&error)
            ))
        })?;
    }
    Ok(Simulator {
        folder,
        devices: devices.into(),
    })
}

/// Checks what `--sim=` was given, which the simulator itself would only complain about.
pub fn devices(text: &str) -> Result<String, String> {
    let wrong = || "devices are COUNTxSIZE, as in 2x16GiB or 2x16GiB,free=15.5GiB".to_owned();
    if text.is_empty() {
        return Ok(String::new());
    }
    let (devices, free) = match text.split_once(',') {
        Some((devices, rest)) => (devices, Some(rest.strip_prefix("free=").ok_or_else(wrong)?)),
        None => (text, None),
    };
    let (count, memory) = devices.split_once('x').ok_or_else(wrong)?;
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let memory = units::parse_bytes(memory).map_err(|_| wrong())?;
    let free = free.map_or(Ok(memory), units::parse_bytes);
    let free = free.map_err(|_| wrong())?;
    if !(1..=64).contains(&count) {
        return Err("there can be 1 to 64 devices".to_owned());
    }
    if memory == 0 || memory >= 1 << 44 || free > memory {
        return Err("a device has less than 16 TiB, and no more free than it has".to_owned());
    }
    Ok(text.to_owned())
}

/// Where the simulator is: with the library.
pub fn beside(library: &Path) -> PathBuf {
    library.with_file_name("liboomhook_sim.so")
}

#[cfg(test)]
mod tests {
    use super::devices;

    #[test]
    fn devices_are_checked() {
        for good in ["", "2x16GiB", "1x24GiB,free=15.5GiB", "1x1000"] {
            assert_eq!(devices(good), Ok(good.to_owned()));
        }
        for bad in [
            "foo",
            "0x1GiB",
            "65x1GiB",
            "1x0",
            "1x1GiB,free=2GiB",
            "1x1GiB,2",
            "x",
        ] {
            assert!(devices(bad).is_err(), "{bad}");
        }
    }
}
