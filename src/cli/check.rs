//! `oomhook check`: gates for CI.

use crate::cli::gate::GateOptions;
use crate::cli::names::NameOptions;
use crate::cli::output;
use crate::cli::traces;
use clap::Args;
use std::path::PathBuf;

/// Judge traces; exit code 0 passed, 1 failed, 2 wrong usage or cannot be judged, 3 no data
#[derive(Args)]
pub struct Options {
    /// Trace files, or directories of one run's traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameOptions,
    #[command(flatten)]
    gate: GateOptions,
}

/// Judges; the exit code.
///
/// # Errors
/// In words, when nothing is demanded or something cannot be read.
pub fn run(options: &Options) -> Result<u8, String> {
    if !options.gate.any() {
        return Err(
            "nothing to check: give --max-peak, --max-live-at-exit, --fail-on-leak or --baseline"
                .to_owned(),
        );
    }
    options.gate.check()?;
    let loaded = traces::load_readable(&options.traces, &traces::suppressions()?);
    if loaded.traces.is_empty()
        && let Some(error) = loaded.unreadable.last()
    {
        return Err(error.clone());
    }
    let (judgement, said) = options
        .gate
        .judge_loaded(&loaded, &mut options.names.files())?;
    if options.json {
        let json = serde_json::to_string_pretty(&judgement)
            .map_err(|error| format!("the verdict cannot be written as JSON: {error}"))?;
        output::data(&format!("{json}\n"))?;
    } else {
        let style = output::style_of_stdout();
        output::data(&format!("{}{said}", judgement.text(style.colour)))?;
    }
    Ok(judgement.exit_code)
}
