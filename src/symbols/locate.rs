//! Finds the files that can name a library's addresses, and makes sure that they belong to what ran.

use super::elf::{Bad, Elf, open};
use super::places::{Index, Kind, Places};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What was recorded of a library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// Its path there.
    pub path: PathBuf,
    /// Its build-id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Bytes from its lowest to its highest mapped address; 0 if not known.
    pub span: u64,
    /// When the process began; a file without a build-id that was written later is another one.
    pub since: SystemTime,
}

/// Why something has no names. Paths are as they are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Trouble {
    /// There is no file.
    Missing,
    /// Another build is in its place: here.
    OtherBuild(String),
    /// It has no build-id, and was written after the process began.
    Changed(String),
    /// A directory, a pipe, a device.
    NotAFile(String),
    /// The system refuses, in its words.
    Unreadable(String, String),
    /// No ELF file, or a damaged one.
    Damaged(String),
    /// Its debug information takes too much memory.
    TooLarge(String),
    /// Its debug information was moved to a file, and there is one of that name: of another build.
    OtherDebug(String),
    /// It takes too long.
    TooSlow(String),
}

/// The files that name addresses.
pub struct Found {
    /// The library itself.
    pub binary: Option<Elf>,
    /// What its debug information was moved to.
    pub debug: Option<Elf>,
    /// What its debug information has in common with others'.
    pub common: Option<PathBuf>,
    /// What the user should know all the same.
    pub trouble: Option<Trouble>,
}

/// Looks for files.
#[derive(Default)]
pub struct Locator {
    places: Places,
    index: OnceCell<Index>,
}

/// A path as it is shown.
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn trouble(path: &Path, bad: Bad) -> Trouble {
    let path = shown(path);
    match bad {
        Bad::Missing => Trouble::Missing,
        Bad::NotAFile => Trouble::NotAFile(path),
        Bad::Damaged => Trouble::Damaged(path),
        Bad::Unreadable(error) => Trouble::Unreadable(path, crate::cli::output::reason(&error)),
    }
}

impl Locator {
    /// Looks in these places.
    pub fn new(places: Places) -> Locator {
        Locator {
            places,
            index: OnceCell::new(),
        }
    }

    fn named(&self, name: Option<&std::ffi::OsStr>) -> Vec<PathBuf> {
        let Some(name) = name.filter(|_| !self.places.debug_dirs.is_empty()) else {
            return Vec::new();
        };
        let index = self
            .index
            .get_or_init(|| Index::of(&self.places.debug_dirs));
        index.named(name).to_vec()
    }

    /// Finds the files of a library.
    ///
    /// # Errors
    /// When there is none that can be relied on.
    pub fn find(&self, wanted: &Wanted) -> Result<Found, Trouble> {
        let mut found = Found {
            binary: None,
            debug: None,
            common: None,
            trouble: None,
        };
        match self.binary(wanted) {
            Ok(binary) => found.binary = Some(binary),
            Err(trouble) => found.trouble = Some(trouble),
        }
        let has_debug = found.binary.as_ref().is_some_and(|elf| elf.has_debug);
        if !has_debug {
            match self.debug(wanted, found.binary.as_ref()) {
                Ok(Some(debug)) => {
                    found.debug = Some(debug);
                    found.trouble = None;
                }
                Ok(None) => {}
                Err(trouble) if found.binary.is_some() => found.trouble = Some(trouble),
                Err(_) => {}
            }
        }
        let source = found.debug.as_ref().or(found.binary.as_ref());
        match (source, found.trouble.take()) {
            (None, trouble) => Err(trouble.unwrap_or(Trouble::Missing)),
            (Some(source), trouble) => {
                found.common = self.common(source);
                found.trouble = trouble;
                Ok(found)
            }
        }
    }

    /// The program or library itself.
    fn binary(&self, wanted: &Wanted) -> Result<Elf, Trouble> {
        let mut first = Trouble::Missing;
        let copy = self.places.in_sysroot(&wanted.path);
        // With a copy of the other machine's files, what cannot be told from another build is not taken from here.
        let is_known = !wanted.build_id.is_empty();
        let here = (is_known || copy.is_none()).then(|| wanted.path.clone());
        // The user says that these are the right ones.
        let vouched = copy
            .into_iter()
            .chain(self.places.by_build_id(&wanted.build_id, Kind::Binary))
            .chain(self.named(wanted.path.file_name()));
        let candidates = vouched
            .map(|path| (path, true))
            .chain(here.map(|path| (path, false)));
        for (path, vouched) in candidates {
            let looked = Elf::look(&path).map_err(|bad| trouble(&path, bad));
            match looked.and_then(|elf| wanted.accept(elf, vouched)) {
                // What keeps debug information alone is no binary.
                Ok(elf) if elf.symtab.is_none() && elf.dynsym.is_none() && vouched => {}
                Ok(elf) => return Ok(elf),
                Err(trouble) if first == Trouble::Missing => first = trouble,
                Err(_) => {}
            }
        }
        Err(first)
    }

    /// What the debug information was moved to, if anything.
    fn debug(&self, wanted: &Wanted, binary: Option<&Elf>) -> Result<Option<Elf>, Trouble> {
        let build_id = match binary {
            Some(binary) => &binary.build_id,
            None => &wanted.build_id,
        };
        let link = binary.and_then(|binary| binary.debug_link.as_ref());
        let folder = binary.and_then(|binary| std::fs::canonicalize(&binary.path).ok());
        let mut paths = self.places.by_build_id(build_id, Kind::Debug);
        let file_name = wanted.path.file_name();
        let usual = file_name.map(|name| {
            let mut name = name.to_owned();
            name.push(".debug");
            PathBuf::from(name)
        });
        for name in link.map(|(name, _)| name).into_iter().chain(&usual) {
            paths.extend(self.places.beside(
                name,
                folder.as_deref().and_then(Path::parent),
                wanted.path.parent(),
            ));
            paths.extend(self.named(name.file_name()));
        }
        paths.extend(self.named(file_name));
        let mut other = None;
        for path in paths {
            if binary.is_some_and(|binary| binary.path == path) {
                continue;
            }
            let Ok(debug) = Elf::look(&path) else {
                continue;
            };
            let checksum = link.map(|(_, checksum)| *checksum);
            if !debug.has_debug && debug.symtab.is_none() {
                continue;
            }
            if wanted.is_debug(&debug, build_id, checksum) {
                return Ok(Some(debug));
            }
            // A file of the usual name may be anybody's; one that the binary names should be its own.
            let is_named = link.is_some_and(|(name, _)| path.ends_with(name));
            if is_named && other.is_none() {
                other = Some(Trouble::OtherDebug(shown(&path)));
            }
        }
        other.map_or(Ok(None), Err)
    }

    /// What the debug information shares with others'.
    fn common(&self, source: &Elf) -> Option<PathBuf> {
        let (path, build_id) = source.alt_link.as_ref()?;
        let folder = std::fs::canonicalize(&source.path).ok()?;
        let direct = folder.parent()?.join(path);
        let below = self.places.in_sysroot(path);
        let mut paths: Vec<PathBuf> = below.into_iter().chain([direct]).collect();
        paths.extend(self.places.by_build_id(build_id, Kind::Debug));
        paths.extend(self.named(path.file_name()));
        let is_it = |path: &PathBuf| Elf::look(path).is_ok_and(|elf| elf.build_id == *build_id);
        paths.into_iter().find(is_it)
    }
}

impl Wanted {
    /// Its path as it is shown.
    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    /// Takes a file if it is what ran.
    fn accept(&self, elf: Elf, vouched: bool) -> Result<Elf, Trouble> {
        if !self.build_id.is_empty() {
            return match elf.build_id == self.build_id {
                true => Ok(elf),
                false => Err(Trouble::OtherBuild(shown(&elf.path))),
            };
        }
        if self.span > 0 && elf.span != self.span {
            return Err(Trouble::OtherBuild(shown(&elf.path)));
        }
        match elf.written.is_some_and(|written| written > self.since) && !vouched {
            true => Err(Trouble::Changed(shown(&elf.path))),
            false => Ok(elf),
        }
    }

    /// True if a file has the debug information of what ran.
    fn is_debug(&self, debug: &Elf, build_id: &[u8], checksum: Option<u32>) -> bool {
        if !build_id.is_empty() && !debug.build_id.is_empty() {
            return debug.build_id == build_id;
        }
        match checksum {
            Some(checksum) => checksum_of(&debug.path) == Some(checksum),
            // Neither says which build it is: at least they lie in memory alike.
            None => build_id.is_empty() && self.span > 0 && debug.span == self.span,
        }
    }
}

/// Checksum of a whole file, as `.gnu_debuglink` has it.
fn checksum_of(path: &Path) -> Option<u32> {
    let mut file = open(path).ok()?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finalize()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
