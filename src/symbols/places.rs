//! Where files may be: on this machine, below a copy of another one's, in folders of debug files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Folders that the user names.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Folders of debug files, in any order below them.
    pub debug_dirs: Vec<PathBuf>,
    /// A folder with the files of the machine on which was recorded.
    pub sysroot: Option<PathBuf>,
}

/// Where distributions put debug files.
const SYSTEM: &str = "/usr/lib/debug";
/// Folders of debug files are searched so deep.
const DEEPEST: usize = 12;
/// Of the files below them so many are known.
const MOST_FILES: usize = 200_000;

impl Places {
    /// A path of the other machine below the copy of its files.
    pub fn in_sysroot(&self, path: &Path) -> Option<PathBuf> {
        let path = path.strip_prefix("/").ok()?;
        // `..` would lead out of it.
        let stays = !path
            .components()
            .any(|part| part == std::path::Component::ParentDir);
        let sysroot = self.sysroot.as_ref().filter(|_| stays)?;
        Some(sysroot.join(path))
    }

    /// Folders in which files are named by build-id.
    fn roots(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let system = self.in_sysroot(Path::new(SYSTEM));
        let system = system.into_iter().chain([PathBuf::from(SYSTEM)]);
        self.debug_dirs.iter().cloned().chain(system)
    }

    /// Where a file may be by its build-id: as distributions have it, without `.build-id`, and as debuginfod keeps it.
    pub fn by_build_id(&self, build_id: &[u8], kind: Kind) -> Vec<PathBuf> {
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        if build_id.len() < 2 {
            return Vec::new();
        }
        let (first, rest) = digits.split_at(2);
        let (ending, word) = match kind {
            Kind::Debug => (".debug", "debuginfo"),
            Kind::Binary => ("", "executable"),
        };
        let ways = [
            format!(".build-id/{first}/{rest}{ending}"),
            format!("{first}/{rest}{ending}"),
            format!("{digits}/{word}"),
        ];
        self.roots()
            .flat_map(|root| ways.clone().map(|way| root.join(way)))
            .collect()
    }

    /// Where a debug file of a name may be, given the folder of its binary here and there.
    pub fn beside(&self, name: &Path, here: Option<&Path>, there: Option<&Path>) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        if let Some(folder) = here {
            paths.extend([folder.join(name), folder.join(".debug").join(name)]);
        }
        for folder in here.into_iter().chain(there) {
            let Ok(folder) = folder.strip_prefix("/") else {
                continue;
            };
            paths.extend(self.roots().map(|root| root.join(folder).join(name)));
        }
        paths
    }
}

/// What a file that is named by its build-id holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Debug information.
    Debug,
    /// The program or library itself.
    Binary,
}

/// The files below the folders of debug files, by name.
#[derive(Debug, Default)]
pub struct Index {
    files: HashMap<OsString, Vec<PathBuf>>,
    number: usize,
}

impl Index {
    /// Looks through the folders. Links to folders are not followed: they may lead in circles.
    pub fn of(folders: &[PathBuf]) -> Index {
        let mut index = Index::default();
        let mut waiting: Vec<(PathBuf, usize)> = Vec::new();
        for folder in folders.iter().rev() {
            waiting.push((folder.clone(), 0));
        }
        while let Some((folder, depth)) = waiting.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_dir() && depth < DEEPEST {
                    waiting.push((entry.path(), depth + 1));
                } else if kind.is_file() || kind.is_symlink() {
                    if index.number == MOST_FILES {
                        return index;
                    }
                    index.number += 1;
                    let known = index.files.entry(entry.file_name()).or_default();
                    known.push(entry.path());
                }
            }
        }
        index
    }

    /// Files of a name.
    pub fn named(&self, name: &OsStr) -> &[PathBuf] {
        self.files.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            debug_dirs: vec!["/debug".into()],
            sysroot: Some("/copy".into()),
        }
    }

    #[test]
    fn a_path_of_the_other_machine_stays_in_its_copy() {
        let places = places();
        let below = places.in_sysroot(Path::new("/usr/lib/libc.so.6"));
        assert_eq!(below, Some("/copy/usr/lib/libc.so.6".into()));
        for path in ["linux-vdso.so.1", "/usr/../../etc/passwd"] {
            assert_eq!(places.in_sysroot(Path::new(path)), None);
        }
    }

    #[test]
    fn folders_that_are_named_come_before_those_of_the_system() {
        let paths = places().by_build_id(&[0xab, 0xcd, 0xef], Kind::Debug);
        let wanted = [
            "/debug/.build-id/ab/cdef.debug",
            "/debug/ab/cdef.debug",
            "/debug/abcdef/debuginfo",
            "/copy/usr/lib/debug/.build-id/ab/cdef.debug",
        ];
        assert_eq!(paths[..4], wanted.map(PathBuf::from));
        assert!(paths.contains(&"/usr/lib/debug/.build-id/ab/cdef.debug".into()));
        let none = places().by_build_id(&[], Kind::Binary);
        assert_eq!(none, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_debug_file_is_looked_for_beside_its_binary_and_where_systems_have_it() {
        let folder = Some(Path::new("/opt/app"));
        let paths = Places::default().beside(Path::new("app.debug"), folder, folder);
        let wanted = [
            "/opt/app/app.debug",
            "/opt/app/.debug/app.debug",
            "/usr/lib/debug/opt/app/app.debug",
            "/usr/lib/debug/opt/app/app.debug",
        ];
        assert_eq!(paths, wanted.map(PathBuf::from));
    }

    #[test]
    fn folders_are_searched_to_their_depth_and_links_to_folders_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        std::fs::write(deep.join("app.debug"), "").expect("a file");
        std::os::unix::fs::symlink(folder.path(), deep.join("circle")).expect("a link");
        let index = Index::of(&[folder.path().into(), "/no/such/folder".into()]);
        let found = index.named(OsStr::new("app.debug"));
        assert_eq!(found, [deep.join("app.debug")]);
        assert_eq!(index.named(OsStr::new("other")), Vec::<PathBuf>::new());
    }
}
