//! The traces that a run has made: those in its folders whose header carries its mark.

use super::launch::Plan;
use oomhook_trace::Reader;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// File times come from a coarser clock than the start of the run.
const SLACK: std::time::Duration = std::time::Duration::from_secs(1);
/// So many entries are looked at: a pattern may lie below a folder with much else in it.
const MOST_ENTRIES: usize = 200_000;

/// Paths of the run's traces, the launched process first (it has the lowest start time).
pub fn of_run(plan: &Plan) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left = MOST_ENTRIES;
    for place in &plan.places {
        collect(
            &place.folder,
            place.depth,
            plan.started,
            &mut left,
            &mut files,
        );
    }
    let mut found = Vec::new();
    for path in files {
        if let Ok(reader) = Reader::open(&path)
            && is_of(&reader.header().run, &plan.run)
        {
            found.push((reader.header().process.start_unix_ns, path));
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Recent files, `depth` folders below this one.
fn collect(
    folder: &Path,
    depth: usize,
    since: SystemTime,
    left: &mut usize,
    files: &mut Vec<PathBuf>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Some(fewer) = left.checked_sub(1) else {
            return;
        };
        *left = fewer;
        let path = entry.path();
        if depth > 0 {
            if path.is_dir() {
                collect(&path, depth - 1, since, left, files);
            }
            continue;
        }
        let recent = entry.metadata().is_ok_and(|metadata| {
            let modified = metadata.modified();
            metadata.is_file() && modified.is_ok_and(|modified| modified + SLACK >= since)
        });
        if recent {
            files.push(path);
        }
    }
}

/// True for this run's own mark, and for that of a run inside it.
fn is_of(mark: &str, run: &str) -> bool {
    mark.strip_prefix(run)
        .is_some_and(|inner| inner.is_empty() || inner.starts_with('/'))
}
