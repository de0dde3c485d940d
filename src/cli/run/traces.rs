//! The traces that a run has made: those in its folders whose header carries its mark.

use super::launch::Plan;
use oomhook_trace::Reader;
use std::path::PathBuf;

/// File times come from a coarser clock than the start of the run.
const SLACK: std::time::Duration = std::time::Duration::from_secs(1);

/// Paths of the run's traces, the launched process first (it has the lowest start time).
pub fn of_run(plan: &Plan) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in &plan.folders {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let recent = entry.metadata().is_ok_and(|metadata| {
                metadata.is_file()
                    && metadata
                        .modified()
                        .is_ok_and(|modified| modified + SLACK >= plan.started)
            });
            if !recent {
                continue;
            }
            if let Ok(reader) = Reader::open(&entry.path())
                && reader.header().run == plan.run
            {
                found.push((reader.header().process.start_unix_ns, entry.path()));
            }
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, path)| path).collect()
}
