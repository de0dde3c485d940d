//! Where names are looked for: options shared by the verbs that show stacks.

use crate::cli::output;
use crate::symbols::{self, Files, Places};
use clap::Args;
use std::path::{Path, PathBuf};

/// Folders that the user names.
#[derive(Args, Clone, Debug, Default)]
pub struct NameOptions {
    /// Look for debug files here too, by build-id or by name; may be given several times
    #[arg(long, help_heading = "Names", value_name = "DIR", value_parser = folder)]
    debug_dir: Vec<PathBuf>,
    /// Look for programs and libraries below this copy of the recorded machine's files
    #[arg(long, help_heading = "Names", value_name = "DIR", value_parser = folder)]
    sysroot: Option<PathBuf>,
}

/// A name that leads nowhere would leave everything nameless, and nobody would know why.
fn folder(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    match std::fs::metadata(path) {
        Ok(data) if data.is_dir() => Ok(path.into()),
        Ok(_) => Err("that is no folder; name the one it is in".into()),
        Err(error) => Err(format!("{}; name a folder", output::reason(&error))),
    }
}

impl NameOptions {
    fn places(&self) -> Places {
        Places {
            debug_dirs: self.debug_dir.clone(),
            sysroot: self.sysroot.clone(),
        }
    }

    /// What names addresses.
    pub fn files(&self) -> Files {
        Files::new(self.places())
    }

    /// The same; the files of what was recorded are below `root`, unless the user has said where.
    pub fn files_below(&self, root: Option<PathBuf>) -> Files {
        let mut places = self.places();
        places.sysroot = places.sysroot.or(root);
        Files::new(places)
    }

    /// Reads files on behalf of the command that started this one.
    pub fn answer(&self) {
        symbols::serve(self.places());
    }
}
