//! `--sim`: a private folder in which `libcuda.so.1` is the simulator, put first in the loader's path. Never a runtime:
//! the program's own stays what it is.

use super::Failure;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

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
                "--sim needs a temporary folder: {error}; set TMPDIR to a place that can be written"
            ))
        })?;
    std::os::unix::fs::symlink(&simulator, folder.path().join("libcuda.so.1")).map_err(
        |error| {
            Failure::usage(format!(
                "--sim: cannot make a link in {}: {error}",
                folder.path().display()
            ))
        },
    )?;
    Ok(Simulator {
        folder,
        devices: devices.into(),
    })
}

fn beside(library: &Path) -> PathBuf {
    library.with_file_name("liboomhook_sim.so")
}
