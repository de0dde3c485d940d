//! The header of this process's trace.

use super::super::doors::resolver;
use super::super::frameworks::versions;
use super::super::privacy;
use super::super::state::Recorder;
use oomhook_trace::Header;
use oomhook_trace::header::{Process, Tool};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where launchers put the rank, most specific first.
const RANKS: [&str; 5] = [
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
];
const LOCAL_RANKS: [&str; 4] = [
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
];
const JOBS: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"];

/// Describes this process.
pub fn make(recorder: &Recorder) -> Header {
    let first = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok());
    let number = |names: &[&str]| first(names).and_then(|value| value.parse().ok());
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let start_unix_ns = (since.as_nanos() as u64).saturating_sub(recorder.now());
    // SAFETY: neither takes anything.
    let (ppid, user) = unsafe { (libc::getppid() as u32, libc::geteuid()) };
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    Header {
        tool: Tool {
            name: "oomhook".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        },
        process: Process {
            host: host(),
            pid: std::process::id(),
            ppid,
            command: privacy::command_line(&arguments()),
            executable: executable().to_owned(),
            user: Some(user),
            functions_asked_for: resolver::asked(),
            rank: number(&RANKS),
            local_rank: number(&LOCAL_RANKS),
            job: first(&JOBS),
            start_unix_ns,
        },
        environment: privacy::environment(variables),
        frameworks: versions::loaded(),
        settings: recorder.config.told(),
        labels: recorder.config.labels.iter().cloned().collect(),
        run: recorder.config.run.clone(),
    }
}

/// Path of the program, read once: nothing can be read of it after the main thread has ended by `pthread_exit`, unless
/// through another thread.
pub fn executable() -> &'static str {
    static EXECUTABLE: OnceLock<String> = OnceLock::new();
    EXECUTABLE.get_or_init(|| {
        std::fs::read_link("/proc/thread-self/exe")
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default()
    })
}

/// The command line as the kernel has it: `std::env::args` of a library knows it only on some systems.
fn arguments() -> Vec<String> {
    let bytes = std::fs::read("/proc/thread-self/cmdline").unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    bytes
        .split(|byte| *byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: one byte is kept for the NUL that a truncated name would lack.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    if code == 0 {
        String::from_utf8_lossy(&name[..length]).into_owned()
    } else {
        String::new()
    }
}
