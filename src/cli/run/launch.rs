//! Starts the command with the right environment, passes signals on, and waits.

use super::simulator::Simulator;
use super::{Failure, Options};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
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
    /// Marks the traces of this run.
    pub run: String,
    /// Folders in which traces may be.
    pub folders: Vec<PathBuf>,
    /// The user's `OOMHOOK_REPORT`.
    pub report_to: Option<String>,
    /// The user said `OOMHOOK=0`.
    pub switched_off: bool,
    /// Traces older than this are no concern of this run.
    pub started: SystemTime,
}

impl Plan {
    /// Decides on the environment of the command.
    pub fn new(
        options: &Options,
        library: &Path,
        simulator: Option<&Simulator>,
    ) -> Result<Plan, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::usage(format!("the current folder cannot be told: {error}"))
        })?;
        let mut environment = vec![("LD_PRELOAD", first_in("LD_PRELOAD", library))];
        let pattern = output_pattern(options, &here)?;
        let mut folders = vec![pattern.parent().unwrap_or(&here).to_path_buf()];
        folders.extend(
            std::env::var_os("TMPDIR")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
        );
        folders.push("/dev/shm".into());
        environment.push(("OOMHOOK_OUTPUT", pattern.into()));
        // The report is this command's to print: the process stays silent.
        let report_to = std::env::var("OOMHOOK_REPORT")
            .ok()
            .filter(|value| !value.is_empty() && value != "stderr");
        environment.push(("OOMHOOK_REPORT", "off".into()));
        let started = SystemTime::now();
        let since = started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let run = format!("{}-{}", std::process::id(), since.as_nanos());
        environment.push(("OOMHOOK_RUN", run.clone().into()));
        if !options.labels.is_empty() {
            environment.push(("OOMHOOK_LABELS", options.labels.join("\n").into()));
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
            folders,
            report_to,
            switched_off,
            started,
        })
    }
}

/// The value of a list variable with `path` put before what is there.
fn first_in(variable: &str, path: &Path) -> OsString {
    let mut value = path.as_os_str().to_os_string();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        value.push(":");
        value.push(rest);
    }
    value
}

/// Absolute, so that a command that changes its folder still writes where the traces are looked for.
fn output_pattern(options: &Options, here: &Path) -> Result<PathBuf, Failure> {
    const NAME: &str = "oomhook.%h.%p.trace";
    let escaped = |folder: &Path| PathBuf::from(folder.to_string_lossy().replace('%', "%%"));
    if let Some(folder) = &options.output {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::usage(format!(
                "-o {}: cannot make the folder: {error}",
                folder.display()
            ))
        })?;
        return Ok(escaped(&here.join(folder)).join(NAME));
    }
    match std::env::var_os("OOMHOOK_OUTPUT").filter(|value| !value.is_empty()) {
        Some(pattern) => Ok(here.join(pattern)),
        None => Ok(escaped(here).join(NAME)),
    }
}

/// Starts the command and waits for its end.
pub fn launch(command: &[OsString], plan: &Plan) -> Result<Ended, Failure> {
    // Before the start, so that no signal can fall between.
    let signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::usage(format!("signals cannot be watched: {error}")))?;
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
            text: format!("cannot start {}: {error}", command[0].to_string_lossy()),
        })?;
    wait(child, signals)
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
    let status = status
        .map_err(|error| Failure::usage(format!("the command cannot be waited for: {error}")))?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, Some(signal)) => Ended::Signal(signal as u8),
        (None, None) => Ended::Code(1),
    })
}
