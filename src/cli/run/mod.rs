//! `oomhook run`: launches a command under the library and reports when it has ended.

mod launch;
pub mod program;
mod simulator;
mod traces;

use crate::cli::gate::GateOptions;
use crate::cli::names::NameOptions;
use crate::cli::traces::suppressions;
use crate::cli::{library, report};
use launch::Ended;
pub use launch::{Place, place_of};
use oomhook_report::Capacity;
pub use simulator::beside as simulator;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Launch a command under the library; report at its end.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Run on the simulated driver instead of a GPU
    #[arg(long, value_name = "DEVICES", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = simulator::devices)]
    pub sim: Option<String>,
    /// Folder for the traces (made if missing; default: the current folder)
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Pretend that each GPU has only so much memory: 24GiB, or 0=24GiB,1=40GiB
    #[arg(long = "capacity", value_name = "SIZE", value_parser = capacity)]
    pub capacity: Option<Capacity>,
    /// Switch the caches of PyTorch, JAX and TensorFlow off, so that each block is the driver's own (slower)
    #[arg(long = "no-framework-cache")]
    pub no_framework_cache: bool,
    /// A label kept in the trace; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<String>,
    #[command(flatten)]
    pub names: NameOptions,
    #[command(flatten)]
    pub gate: GateOptions,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

fn capacity(text: &str) -> Result<Capacity, String> {
    Capacity::parse(text).map_err(|reason| format!("it {reason}"))
}

fn label(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() && !text.contains('\n') => Ok(text.into()),
        _ => Err("a label is KEY=VALUE".into()),
    }
}

/// Runs the command; the exit code is its own, or that of the gates if it succeeded.
pub fn run(options: &Options) -> ExitCode {
    match try_run(options) {
        Ok(code) => code,
        Err(Failure { code, text }) => {
            eprintln!("oomhook run: {text}");
            ExitCode::from(code)
        }
    }
}

/// Why the command was not launched.
pub struct Failure {
    /// 127 not found, 126 cannot be executed, 2 wrong usage: what shells and launchers say.
    pub code: u8,
    /// One line: what is wrong and what to do.
    pub text: String,
}

impl Failure {
    fn usage(text: impl Into<String>) -> Failure {
        Failure {
            code: 2,
            text: text.into(),
        }
    }
}

fn try_run(options: &Options) -> Result<ExitCode, Failure> {
    options.gate.check().map_err(Failure::usage)?;
    let library = library::find().map_err(Failure::usage)?;
    let program = program::find(&options.command[0])?;
    for warning in program.warnings(&options.command) {
        eprintln!("oomhook run: {warning}");
    }
    let simulator = match &options.sim {
        Some(devices) => Some(simulator::prepare(&library, devices)?),
        None => None,
    };
    let suppressions = suppressions().map_err(Failure::usage)?;
    let plan = launch::Plan::new(options, &library, &program.sanitizers(), simulator.as_ref())?;
    if options.no_framework_cache {
        eprintln!("oomhook run: {}", launch::without_caches());
    }
    let ended = launch::launch(&options.command, &plan)?;
    let found = traces::of_run(&plan);
    let mut symbols = options.names.files();
    report::print_run(&found, &suppressions, &plan.report_to, &mut symbols);
    if found.is_empty() {
        let said = nothing_recorded(&plan, simulator.is_some(), &ended);
        eprintln!("oomhook run: {said}");
    }
    let verdict = if options.gate.any() {
        Some(options.gate.judge(&found, &suppressions, &mut symbols))
    } else {
        None
    };
    Ok(match ended {
        // The program's failure wins over the gate's.
        Ended::Code(0) => ExitCode::from(verdict.unwrap_or(0)),
        Ended::Code(code) => ExitCode::from(code),
        Ended::Signal(signal) => ExitCode::from(128u8.wrapping_add(signal)),
    })
}

/// What is known is that there is no trace; why is a guess.
fn nothing_recorded(plan: &launch::Plan, simulated: bool, ended: &Ended) -> String {
    if plan.switched_off {
        return "OOMHOOK=0: nothing was recorded".to_owned();
    }
    let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if says("OOMHOOK_KEEP").is_some_and(|value| value == "none") {
        return "OOMHOOK_KEEP=none leaves no trace to report from: `summary` keeps a small one"
            .to_owned();
    }
    if let Ended::Signal(signal) = ended {
        return format!("nothing was recorded before signal {signal} ended the command");
    }
    let mut reasons = vec!["the command made no CUDA call"];
    if simulated {
        reasons.push("its CUDA runtime is NVIDIA's own, which refuses a simulated driver (run it on a GPU, without --sim)");
    }
    if says("OOMHOOK_ONLY").is_some() {
        reasons.push("OOMHOOK_ONLY names other commands");
    }
    reasons.push("it works elsewhere (another machine, a container, a service)");
    format!("nothing was recorded. Perhaps {}", reasons.join(", or "))
}
