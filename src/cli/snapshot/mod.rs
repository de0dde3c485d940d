//! `oomhook snapshot`: the report of a running process, now.

mod ask;
mod process;

use crate::cli::report::{self, View};
use crate::cli::{output, presence, traces};
use ask::{Answer, Found, PATIENCE, Written};
use clap::Args;
use oomhook_report::sentences;
use process::Process;
use std::time::Duration;

/// Report on a process that is running, as it is now; it goes on undisturbed
#[derive(Args)]
pub struct Options {
    /// Process under oomhook (not its parent, not a thread)
    #[arg(value_name = "PID", value_parser = pid, allow_negative_numbers = true)]
    pid: u32,
    #[command(flatten)]
    view: View,
}

/// Nothing is recorded yet.
const NO_DATA: u8 = 3;

fn pid(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok();
    number
        .filter(|number| (1..=i32::MAX as u32).contains(number))
        .ok_or_else(|| "a process has a number from 1 on; pgrep and nvidia-smi show it".into())
}

/// Reports; the exit code.
///
/// # Errors
/// In words, when there is nothing to report on.
pub fn run(options: &Options) -> Result<u8, String> {
    let process = Process::find(options.pid)?;
    let suppressions = traces::suppressions()?;
    let result = match look(&process)? {
        Found::Trace(written) => tell(&process, written, &suppressions, &options.view).map(|()| 0),
        Found::OfParent(Some(parent)) => Err(format!(
            "process {} is a child of process {parent} and not recorded itself; try oomhook snapshot {parent}",
            process.pid
        )),
        Found::OfParent(None) => Err(format!(
            "process {} is a child of a recorded process and not recorded itself; ask that one",
            process.pid
        )),
        Found::Nothing => without_trace(&process),
    };
    let children = process.recorded_children();
    if !children.is_empty() {
        let list: Vec<String> = children.iter().map(u32::to_string).collect();
        output::talk(&format!(
            "oomhook snapshot: recorded below process {}: {}\n",
            process.pid,
            list.join(", ")
        ));
    }
    result
}

/// Looks for the trace; a recording that has just begun is given time to show itself.
fn look(process: &Process) -> Result<Found, String> {
    const LOOKS: u32 = 10;
    for _ in 1..LOOKS {
        let found = ask::find(process)?;
        // Never looked for twice: it may have ended since.
        if !matches!(found, Found::Nothing) {
            return Ok(found);
        }
        if process::is_recorded(process.pid) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ask::find(process)
}

fn tell(
    process: &Process,
    written: Written,
    suppressions: &oomhook_report::Suppressions,
    view: &View,
) -> Result<(), String> {
    let (written, answer) = ask::ask(process, written);
    let Written { file, path } = written;
    let owner = match answer {
        // It may have lost its locks, or its place keeps none; it has been seen with the file open.
        Answer::None => Some(presence::Owner {
            pid: Some(process.pid),
        }),
        Answer::UpToDate | Answer::Ended => presence::owner(&file),
    };
    let mut trace = traces::read(file, &path, suppressions, owner)
        .map_err(|error| format!("{} {error}", path.display()))?;
    // Who has just asked need not be told to.
    trace.owner = None;
    if answer == Answer::None {
        let note = sentences::no_answer(process.pid, PATIENCE.as_nanos() as u64);
        output::talk(&format!("oomhook snapshot: {note}\n"));
        trace.facts.notes.insert(0, note);
    }
    let mut symbols = view.names.files_below(process.root());
    report::print(&[trace], std::slice::from_ref(&path), view, &mut symbols)
}

/// Why a process has no trace.
fn without_trace(process: &Process) -> Result<u8, String> {
    let pid = process.pid;
    // It may have ended since it was found.
    Process::find(pid)?;
    if !process.has_library()? {
        return Err(format!(
            "process {pid} does not run under oomhook: start it by `oomhook run -- CMD`, or with the lines of `oomhook env`"
        ));
    }
    if process::is_recorded(pid) {
        let why = match process.variable("OOMHOOK_KEEP").as_deref() {
            Some("none") => " (OOMHOOK_KEEP=none)",
            _ => "",
        };
        let how = match process.variable("OOMHOOK_SIGNAL") {
            Some(signal) => format!("ask it by its signal: kill -{signal} {pid}"),
            None => {
                format!("start it with OOMHOOK_SIGNAL=USR2, then kill -USR2 {pid} brings a report")
            }
        };
        return Err(format!("process {pid} records without a file{why}: {how}"));
    }
    output::talk(&format!(
        "oomhook snapshot: nothing is recorded of process {pid} so far: it has made no CUDA call, or recording is off \
         (OOMHOOK=0, OOMHOOK_ONLY); ask again later\n"
    ));
    Ok(NO_DATA)
}
