//! Where traces would go, and whether that place can be written. Nothing is made to find out.

use super::words;
use crate::cli::{output, run};
use oomhook_report::clean;
use oomhook_report::settings::{self, Keep};
use rustix::fs::{Access, StatFs};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Where they would go.
#[derive(Debug, Serialize)]
pub struct Traces {
    /// The pattern of their names.
    pub pattern: String,
    /// The folder, as far as it is the same for all.
    pub folder: String,
    /// Folders below it are named by the pattern.
    pub varies: bool,
    /// No file is wanted (`OOMHOOK_KEEP=none`).
    pub none: bool,
    pub writable: bool,
    /// Why it cannot be written, or what will be odd.
    pub problem: Option<String>,
    pub free_bytes: Option<u64>,
    pub on_network: bool,
    /// The folder that is taken where this one cannot be written.
    pub instead: Option<String>,
}

impl Traces {
    /// Looks at the place that the environment names.
    pub fn look() -> Traces {
        let pattern = std::env::var_os("OOMHOOK_OUTPUT").filter(|pattern| !pattern.is_empty());
        let pattern = pattern.unwrap_or_else(|| settings::OUTPUT.into());
        let whole = std::path::absolute(&pattern).unwrap_or_else(|_| PathBuf::from(&pattern));
        // What is before a relative pattern is no pattern.
        let here = std::env::current_dir().unwrap_or_default();
        let place = match Path::new(&pattern).is_absolute() {
            true => run::place_of(&whole),
            false => {
                let below = run::place_of(&Path::new("/").join(&pattern));
                let inner = below.folder.strip_prefix("/").unwrap_or(&below.folder);
                run::Place {
                    // Without the slash that joining nothing leaves.
                    folder: here.join(inner).components().collect(),
                    depth: below.depth,
                }
            }
        };
        let keep = std::env::var("OOMHOOK_KEEP").unwrap_or_default();
        let refused = why_not(&place.folder);
        let mut temporary = std::env::var_os("TMPDIR").map(PathBuf::from).into_iter();
        let instead = temporary
            .find(|folder| !folder.as_os_str().is_empty())
            .into_iter()
            .chain([PathBuf::from("/dev/shm")])
            .find(|folder| refused.is_some() && why_not(folder).is_none());
        let system = rustix::fs::statfs(&place.folder).ok();
        let is_folder = whole.is_dir();
        Traces {
            pattern: shown(Path::new(&pattern)),
            folder: shown(&place.folder),
            varies: place.depth > 0,
            none: settings::keep(&keep) == Ok(Keep::None),
            writable: refused.is_none(),
            problem: refused.or_else(|| is_folder.then(|| words::names_a_folder(&shown(&whole)))),
            free_bytes: system.as_ref().map(free),
            on_network: system.as_ref().is_some_and(is_on_network),
            instead: instead.map(|folder| shown(&folder)),
        }
    }
}

fn shown(path: &Path) -> String {
    clean::text(&path.to_string_lossy())
}

fn free(system: &StatFs) -> u64 {
    let block = u64::try_from(system.f_bsize).unwrap_or(0);
    system.f_bavail.saturating_mul(block)
}

fn is_on_network(system: &StatFs) -> bool {
    // NFS, SMB, CIFS, SMB2, Lustre, GPFS, Ceph, BeeGFS, AFS, 9P.
    const KINDS: [u64; 10] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x0bd0_0bd0,
        0x4750_4653,
        0x00c3_6400,
        0x1983_0326,
        0x5346_414f,
        0x0102_1997,
    ];
    KINDS.contains(&(system.f_type as u64 & 0xffff_ffff))
}

/// Why no file can be made in a folder.
fn why_not(folder: &Path) -> Option<String> {
    // proc and sysfs let root write, and make no files.
    const PSEUDO: [u64; 2] = [0x9fa0, 0x6265_6572];
    if !folder.exists() {
        return Some(words::NO_SUCH_FOLDER.to_owned());
    }
    if !folder.is_dir() {
        return Some(words::NO_FOLDER.to_owned());
    }
    let kind = rustix::fs::statfs(folder).map_or(0, |system| system.f_type as u64);
    if PSEUDO.contains(&kind) {
        return Some(words::PSEUDO.to_owned());
    }
    let allowed = rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK);
    allowed.err().map(|error| output::reason(&error.into()))
}
