//! Finds liboomhook.so.

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
            format!(
                "cannot tell where this command lies ({}): set OOMHOOK_LIB to the path of {NAME}",
                crate::cli::output::reason(&error)
            )
        })?;
    let folder = command.parent().unwrap_or(Path::new("/"));
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

fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}
