//! Finds liboomhook.so.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const NAME: &str = "liboomhook.so";

/// The absolute path of the library: `OOMHOOK_LIB`, beside the command, in `../lib`, or in `../lib/oomhook`.
///
/// # Errors
/// In words, when it is not there, or where LD_PRELOAD cannot take it.
pub fn find() -> Result<PathBuf, String> {
    let found = search()?;
    let text = found.to_string_lossy();
    if text.contains([' ', ':']) {
        return Err(format!(
            "LD_PRELOAD cannot hold a path with a space or a colon: {text}. Copy {NAME} elsewhere and set OOMHOOK_LIB"
        ));
    }
    Ok(found)
}

fn search() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("OOMHOOK_LIB").filter(|path| !path.is_empty()) {
        let path = Path::new(&path);
        return absolute(path).ok_or_else(|| {
            format!(
                "OOMHOOK_LIB={} is no file: set it to the path of {NAME}, or unset it",
                path.display()
            )
        });
    }
    let command = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| {
            format!("cannot tell where this command lies ({error}): set OOMHOOK_LIB to the path of {NAME}")
        })?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    build_under_cargo_run(folder)?;
    let places = [
        folder.join(NAME),
        folder.join("../lib").join(NAME),
        folder.join("../lib/oomhook").join(NAME),
    ];
    places.iter().find_map(|path| absolute(path)).ok_or_else(|| {
        let folder = folder.display();
        format!(
            "{NAME} is missing: it is neither in {folder} nor in ../lib or ../lib/oomhook from there. \
             Set OOMHOOK_LIB to its path"
        )
    })
}

/// `cargo run` builds the command alone: there is no way to tell cargo that a program needs a library that it cannot
/// link. So the command has cargo build the libraries, which costs a moment when they are there already.
fn build_under_cargo_run(folder: &Path) -> Result<(), String> {
    let is_ours = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name == env!("CARGO_PKG_NAME"));
    let (Some(cargo), Some(manifest), true) = (
        std::env::var_os("CARGO"),
        std::env::var_os("CARGO_MANIFEST_DIR"),
        is_ours,
    ) else {
        return Ok(());
    };
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("release") => "release",
        Some("debug") => "dev",
        // Installed or copied somewhere: not cargo's to build.
        _ => return Ok(()),
    };
    let status = std::process::Command::new(cargo)
        .args([
            "build",
            "--lib",
            "-p",
            "oomhook",
            "-p",
            "oomhook-sim",
            "--profile",
            profile,
        ])
        .arg("--manifest-path")
        .arg(Path::new(&manifest).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.parent().unwrap_or(folder))
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("cargo could not build {NAME}: see above")),
        Err(error) => Err(format!(
            "cargo could not be started to build {NAME}: {error}"
        )),
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}
