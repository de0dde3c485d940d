//! Starts the command with the right environment, passes signals on, and waits.

use super::simulator::Simulator;
use super::{Failure, Options};
use crate::cli::output;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::SystemTime;

/// How the command ended.
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// By this signal.
    Signal(u8),
}

/// What is set for the command, and where its traces will be.
pub struct Plan {
    environment: Vec<(&'static str, OsString)>,
    /// Marks the traces of this run. A run inside another one has the outer's mark before its own.
    pub run: String,
    /// Where traces may be.
    pub places: Vec<Place>,
    /// The user's `OOMHOOK_REPORT`.
    pub report_to: Option<String>,
    /// The user said `OOMHOOK=0`.
    pub switched_off: bool,
    /// Traces older than this are no concern of this run.
    pub started: SystemTime,
}

/// A folder in which traces may be.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub folder: PathBuf,
    /// How many folders below it: those whose names are patterns.
    pub depth: usize,
}

/// The mark of the run, set for the command.
const RUN: &str = "OOMHOOK_RUN";
/// What the user wants of the report: `run` itself keeps its command silent, and a run inside it has to know better.
const WISH: &str = "OOMHOOK_RUN_REPORT";

/// What switches the caches of frameworks off: of PyTorch, JAX (twice) and TensorFlow.
const WITHOUT_CACHES: [(&str, &str); 4] = [
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
    ("XLA_PYTHON_CLIENT_ALLOCATOR", "platform"),
    ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    ("TF_GPU_ALLOCATOR", "cuda_malloc"),
];

/// What is set to switch the caches of frameworks off.
pub fn without_caches() -> String {
    let set = WITHOUT_CACHES.map(|(name, value)| format!("{name}={value}"));
    format!(
        "the frameworks' caches are off, so it runs slower and its peak is another: {}",
        set.join(" ")
    )
}

impl Plan {
    /// Decides on the environment of the command.
    pub fn new(
        options: &Options,
        library: &Path,
        sanitizers: &[String],
        simulator: Option<&Simulator>,
    ) -> Result<Plan, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::usage(format!(
                "the current folder cannot be told: {}; change to one that exists",
                output::reason(&error)
            ))
        })?;
        let mut preload = OsString::new();
        for sanitizer in sanitizers {
            // Its runtime refuses to start behind another library.
            preload.push(sanitizer);
            preload.push(":");
        }
        preload.push(first_in("LD_PRELOAD", library));
        let mut environment = vec![("LD_PRELOAD", preload)];
        let pattern = output_pattern(options, &here)?;
        let mut places = vec![place_of(&pattern)];
        let temporary = variable("TMPDIR").map(|path| here.join(path));
        for folder in temporary.into_iter().chain(["/dev/shm".into()]) {
            places.push(Place { folder, depth: 0 });
        }
        environment.push(("OOMHOOK_OUTPUT", pattern.into()));
        // The report is this command's to print: the process stays silent.
        let outer = variable(RUN).map(|mark| mark.to_string_lossy().into_owned());
        let wish = match variable(WISH) {
            Some(wish) if outer.is_some() && is_off() => Some(wish),
            _ => variable("OOMHOOK_REPORT"),
        };
        let wish = wish.unwrap_or_else(|| "stderr".into());
        environment.push(("OOMHOOK_REPORT", "off".into()));
        environment.push((WISH, wish.clone()));
        let report_to = Some(wish.to_string_lossy().into_owned()).filter(|wish| wish != "stderr");
        let started = SystemTime::now();
        let since = started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let mut run = format!("{}-{}", std::process::id(), since.as_nanos());
        if let Some(outer) = outer {
            run = format!("{outer}/{run}");
        }
        environment.push((RUN, run.clone().into()));
        if !options.labels.is_empty() {
            environment.push(("OOMHOOK_LABELS", options.labels.join("\n").into()));
        }
        if let Some(capacity) = &options.capacity {
            environment.push((
                oomhook_report::capacity::settings::CAPACITY,
                capacity.to_string().into(),
            ));
        }
        if options.no_framework_cache {
            environment.extend(WITHOUT_CACHES.map(|(name, value)| (name, value.into())));
        }
        if let Some(simulator) = simulator {
            environment.push((
                "LD_LIBRARY_PATH",
                first_in("LD_LIBRARY_PATH", simulator.folder()),
            ));
            if !simulator.devices.is_empty() {
                environment.push(("OOMHOOK_SIM", simulator.devices.clone().into()));
            }
        }
        let switched_off = matches!(std::env::var("OOMHOOK").as_deref(), Ok("0" | "off"));
        Ok(Plan {
            environment,
            run,
            places,
            report_to,
            switched_off,
            started,
        })
    }
}

/// A variable that says something.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// True if the process's own report is switched off: by the user, or by the run around this one.
fn is_off() -> bool {
    variable("OOMHOOK_REPORT").is_some_and(|value| value == "off")
}

/// The value of a list variable with `path` put before what is there.
fn first_in(name: &str, path: &Path) -> OsString {
    let mut value = path.as_os_str().to_os_string();
    if let Some(rest) = variable(name) {
        value.push(":");
        value.push(rest);
    }
    value
}

/// Where the files of a pattern are: below the last folder whose name is no pattern.
#[must_use]
pub fn place_of(pattern: &Path) -> Place {
    let mut folder = PathBuf::new();
    let mut depth = 0;
    for part in pattern.parent().unwrap_or(Path::new("/")).components() {
        match literal(&part.as_os_str().to_string_lossy()) {
            Some(_) if depth > 0 => depth += 1,
            // Bytes that are no UTF-8 stay as they are.
            Some(name) if name.contains('\u{fffd}') => folder.push(part),
            Some(name) => folder.push(name),
            None => depth += 1,
        }
    }
    Place { folder, depth }
}

/// The name that a pattern always makes; `None` if it differs from process to process.
fn literal(pattern: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match (c, c == '%') {
            (_, false) => name.push(c),
            (_, true) => match rest.next() {
                Some('p' | 'h' | 'r' | 'j' | 'c') => return None,
                Some('%') | None => name.push('%'),
                Some(other) => name.extend(['%', other]),
            },
        }
    }
    Some(name)
}

/// Absolute, so that a command that changes its folder still writes where the traces are looked for.
fn output_pattern(options: &Options, here: &Path) -> Result<PathBuf, Failure> {
    const NAME: &str = "oomhook.%h.%p.trace";
    let escaped = |folder: &Path| PathBuf::from(folder.to_string_lossy().replace('%', "%%"));
    if let Some(folder) = &options.output {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::usage(format!(
                "-o {}: cannot make the folder: {}; name one in a place that can be written",
                folder.display(),
                output::reason(&error)
            ))
        })?;
        return Ok(escaped(&here.join(folder)).join(NAME));
    }
    match variable("OOMHOOK_OUTPUT").map(PathBuf::from) {
        Some(pattern) if pattern.is_absolute() => Ok(pattern),
        Some(pattern) => Ok(escaped(here).join(pattern)),
        None => Ok(escaped(here).join(NAME)),
    }
}

/// Starts the command and waits for its end.
pub fn launch(command: &[OsString], plan: &Plan) -> Result<Ended, Failure> {
    // Before the start, so that no signal can fall between. What is ignored (nohup) stays so, here and there.
    let ignored = ignored_signals();
    let passed_on = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]
        .into_iter()
        .filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let signals = SignalsInfo::<WithOrigin>::new(passed_on).map_err(|error| {
        Failure::usage(format!(
            "signals cannot be watched: {}",
            output::reason(&error)
        ))
    })?;
    let child = Command::new(&command[0])
        .args(&command[1..])
        .envs(plan.environment.iter().map(|(name, value)| (name, value)))
        .spawn()
        .map_err(|error| Failure {
            code: if error.kind() == std::io::ErrorKind::NotFound {
                127
            } else {
                126
            },
            text: format!(
                "cannot start {}: {}",
                command[0].to_string_lossy(),
                output::reason(&error)
            ),
        })?;
    wait(child, signals)
}

/// The signals that this process ignores, one bit each: whoever started it wants them ignored.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn wait(mut child: Child, mut signals: SignalsInfo<WithOrigin>) -> Result<Ended, Failure> {
    let handle = signals.handle();
    let pid = rustix::process::Pid::from_child(&child);
    let forwarder = std::thread::spawn(move || {
        for origin in signals.forever() {
            // A signal from the terminal (no sender) has reached the command as well: twice would be once too often.
            let Some(signal) = origin
                .process
                .and(rustix::process::Signal::from_named_raw(origin.signal))
            else {
                continue;
            };
            // The command may have ended this moment: then there is nobody to tell.
            let _ = rustix::process::kill_process(pid, signal);
        }
    });
    let status = child.wait();
    handle.close();
    let _ = forwarder.join();
    let status = status.map_err(|error| {
        let reason = output::reason(&error);
        Failure::usage(format!("the command cannot be waited for: {reason}"))
    })?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, Some(signal)) => Ended::Signal(signal as u8),
        (None, None) => Ended::Code(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_pattern_are_below_its_last_plain_folder() {
        for (pattern, folder, depth) in [
            ("/a/50%% done/x.%p.trace", "/a/50% done", 0),
            ("/a/%x/x.trace", "/a/%x", 0),
            ("/a/%h/x.trace", "/a", 1),
            ("/a/b%%/%h/%j/c/x.trace", "/a/b%", 3),
            ("/%p.trace", "/", 0),
        ] {
            let folder = folder.into();
            assert_eq!(place_of(Path::new(pattern)), Place { folder, depth });
        }
    }
}
