//! What is said of names, and of files that have none to give.

use super::{count, plural};

/// Some files by name, the others by number, with the verb that fits; and how their frames are spoken of.
fn files(paths: &[String], one: &str, several: &str) -> (String, &'static str) {
    const NAMED: usize = 3;
    const LONGEST: usize = 200;
    let clean = |path: &String| crate::text::label::shorten(&crate::clean::text(path), LONGEST);
    let mut list: Vec<String> = paths.iter().take(NAMED).map(clean).collect();
    if paths.len() > NAMED {
        let more = count((paths.len() - NAMED) as u64);
        list.push(format!("{more} more"));
    }
    let last = list.pop().unwrap_or_default();
    let (verb, whose) = match list.len() {
        0 => (one, "its frames"),
        _ => (several, "their frames"),
    };
    let list = match list.len() {
        0 => last,
        _ => format!("{} and {last}", list.join(", ")),
    };
    (format!("{list}{verb}"), whose)
}

/// The files that are there now are not those that ran.
#[must_use]
pub fn other_build(paths: &[String]) -> String {
    let (files, whose) = files(paths, " is", " are");
    format!(
        "{files} not what ran (another build-id: replaced since, or another machine's): {whose} stay without names; --sysroot DIR or --debug-dir DIR with the build that ran names them"
    )
}

/// Files without build-id that are younger than the recording.
#[must_use]
pub fn changed_since(paths: &[String]) -> String {
    let (files, whose) = files(paths, " was", " were");
    format!(
        "{files} written after the recording began, without a build-id to prove that nothing changed: {whose} stay without names; if nothing did, --sysroot / names them (programs linked with --build-id can be told apart)"
    )
}

/// Binaries name debug files, and those of other builds are in their place.
#[must_use]
pub fn other_debug_file(paths: &[String]) -> String {
    let (files, _) = files(paths, " is", " are");
    format!(
        "{files} of another build than what ran: not used; --debug-dir DIR with the right one names functions and lines"
    )
}

/// Files that cannot be understood.
#[must_use]
pub fn damaged_file(paths: &[String]) -> String {
    let (files, whose) = files(paths, " is", " are");
    format!(
        "{files} damaged, or no ELF file of 64 bits: {whose} lack names or lines; --sysroot DIR or --debug-dir DIR with a good copy names them"
    )
}

/// Pipes, folders, devices where libraries were.
#[must_use]
pub fn not_a_file(paths: &[String]) -> String {
    let (files, whose) = files(paths, " is no regular file", " are no regular files");
    format!(
        "{files}: {whose} stay without names; --sysroot DIR with the recorded machine's files names them"
    )
}

/// Files that may not be read.
#[must_use]
pub fn unreadable_file(paths: &[String], reason: &str) -> String {
    let (files, whose) = files(paths, "", "");
    format!(
        "{files} cannot be read ({reason}): {whose} stay without names; make it readable, or give --sysroot DIR with a copy"
    )
}

/// Debug information beyond all measure.
#[must_use]
pub fn debug_too_large(paths: &[String]) -> String {
    let (files, _) = files(paths, " unpacks", " unpack");
    format!(
        "the debug information of {files} to more than 4 GiB: functions are named by symbol tables, without lines; objcopy --decompress-debug-sections makes it usable"
    )
}

/// Files that did not answer.
#[must_use]
pub fn naming_too_slow(paths: &[String]) -> String {
    let (files, whose) = files(paths, "", "");
    format!(
        "{files} or the debug information that belongs to it could not be read within half a minute: {whose} lack names or lines; look at the disk, or give --sysroot DIR with a local copy"
    )
}

/// Files of another machine.
#[must_use]
pub fn missing_files(paths: &[String]) -> String {
    let (files, whose) = files(paths, "", "");
    format!(
        "not on this machine: {files}; {whose} are offsets until --sysroot DIR (a copy of the recorded machine's files) or --debug-dir DIR (debug files) names them"
    )
}

/// A map of code made at run time that was not used.
#[must_use]
pub fn unused_map(path: &str, why: &str) -> String {
    format!("{path} was not used: {why}, so code made at run time has no names")
}

/// Why not.
pub const MAP_OF_OTHER_MACHINE: &str =
    "the recording was made on another machine (put its file below --sysroot DIR)";
/// Why not.
pub const MAP_OF_OTHER_PROCESS: &str =
    "it was not written while the process ran, but by another one of that number";
/// Why not.
pub const MAP_OF_OTHER_OWNER: &str = "it belongs to another user";
/// Why not.
pub const MAP_UNREADABLE: &str = "it cannot be read as a regular file";

/// Said while names are looked up.
#[must_use]
pub fn naming(frames: usize, library: &str) -> String {
    format!(
        "naming {} of {}",
        plural(frames as u64, "frame"),
        crate::clean::text(library)
    )
}

/// Which build a frame without a name is of.
#[must_use]
pub fn build_id(digits: &str) -> String {
    format!("(build-id {digits})")
}

/// A runtime inside a program was told by what all stacks share.
#[must_use]
pub fn runtime_without_names(library: &str) -> String {
    format!(
        "{library} has no names: the innermost frames that its stacks share were taken for the CUDA runtime inside it"
    )
}
