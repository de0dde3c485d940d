//! What went wrong, as notes: one for each kind of trouble, however many files have it.

use super::locate::Trouble;
use super::perf::Unused;
use oomhook_report::sentences as say;
use std::collections::BTreeMap;

/// Makes notes of libraries and their troubles.
pub fn notes<'a>(troubles: impl Iterator<Item = (&'a str, &'a Trouble)>) -> Vec<String> {
    // By rank; files once, in their order.
    let mut kinds: BTreeMap<(u8, String), Vec<String>> = BTreeMap::new();
    for (library, trouble) in troubles {
        let (rank, path, detail) = match trouble {
            Trouble::OtherBuild(path) => (0, Some(path), String::new()),
            Trouble::Changed(path) => (1, Some(path), String::new()),
            Trouble::OtherDebug(path) => (2, Some(path), String::new()),
            Trouble::Damaged(path) => (3, Some(path), String::new()),
            Trouble::NotAFile(path) => (4, Some(path), String::new()),
            Trouble::Unreadable(path, reason) => (5, Some(path), reason.clone()),
            Trouble::TooLarge(path) => (6, Some(path), String::new()),
            Trouble::TooSlow(path) => (7, Some(path), String::new()),
            Trouble::Missing => (8, None, String::new()),
        };
        let path = path.map_or(library, String::as_str).to_owned();
        let files = kinds.entry((rank, detail)).or_default();
        if !files.contains(&path) {
            files.push(path);
        }
    }
    let notes = kinds.into_iter().map(|((rank, detail), files)| {
        let files = files.as_slice();
        match rank {
            0 => say::other_build(files),
            1 => say::changed_since(files),
            2 => say::other_debug_file(files),
            3 => say::damaged_file(files),
            4 => say::not_a_file(files),
            5 => say::unreadable_file(files, &detail),
            6 => say::debug_too_large(files),
            7 => say::naming_too_slow(files),
            _ => say::missing_files(files),
        }
    });
    notes.collect()
}

/// Why a perf map was not used; nothing if there is none.
pub fn unused_map(unused: &Unused) -> Option<String> {
    let (path, why) = match unused {
        Unused::Missing => return None,
        Unused::OtherMachine(path) => (path, say::MAP_OF_OTHER_MACHINE),
        Unused::OtherProcess(path) => (path, say::MAP_OF_OTHER_PROCESS),
        Unused::OtherOwner(path) => (path, say::MAP_OF_OTHER_OWNER),
        Unused::Unreadable(path) => (path, say::MAP_UNREADABLE),
    };
    Some(say::unused_map(&path.to_string_lossy(), why))
}
