//! The two libraries, built through cargo (it holds no lock while tests run, so a cargo inside one does not deadlock).
#![allow(dead_code, reason = "tests and benches use one profile each")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The two libraries; the command is `env!("CARGO_BIN_EXE_oomhook")`.
pub struct Artefacts {
    /// liboomhook.so
    pub library: PathBuf,
    /// liboomhook_sim.so
    pub simulator: PathBuf,
}

/// Built as the tests are.
pub fn artefacts() -> &'static Artefacts {
    static ARTEFACTS: OnceLock<Artefacts> = OnceLock::new();
    ARTEFACTS.get_or_init(|| make(escargot::CargoBuild::new()))
}

/// Built for speed.
pub fn release() -> Artefacts {
    make(escargot::CargoBuild::new().release())
}

/// The library that compares the unwinders (tests/unwind/check.rs).
pub fn unwind_check() -> PathBuf {
    let cargo = escargot::CargoBuild::new().example("unwind_check");
    find(&build(cargo), "libunwind_check.so")
}

fn make(cargo: escargot::CargoBuild) -> Artefacts {
    let files = build(
        cargo
            .arg("--lib")
            .args(["-p", "oomhook", "-p", "oomhook-sim"]),
    );
    Artefacts {
        library: find(&files, "liboomhook.so"),
        simulator: find(&files, "liboomhook_sim.so"),
    }
}

fn build(cargo: escargot::CargoBuild) -> Vec<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let messages = cargo.manifest_path(manifest).exec();
    let mut files: Vec<PathBuf> = Vec::new();
    for message in messages.expect("cargo builds the libraries") {
        let message = message.expect("cargo speaks");
        if let Ok(escargot::format::Message::CompilerArtifact(artifact)) = message.decode() {
            files.extend(artifact.filenames.iter().map(|name| name.to_path_buf()));
        }
    }
    files
}

fn find(files: &[PathBuf], name: &str) -> PathBuf {
    let found = files
        .iter()
        .find(|path| path.file_name() == Some(OsStr::new(name)));
    found
        .unwrap_or_else(|| panic!("cargo has not built {name}"))
        .clone()
}
