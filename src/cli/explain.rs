//! `oomhook explain`: what the log of a dead job says about running out of memory.

use crate::cli::output;
use crate::explain;
use clap::Args;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Explain the out-of-memory messages in the log of a job that is already dead
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The job's log; - or nothing for stdin
    #[arg(value_name = "LOG")]
    log: Option<PathBuf>,
    /// Print JSON instead of text; sizes are bytes
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Knows messages of PyTorch, JAX, TensorFlow, CuPy, llama.cpp, vLLM, CUDA and its libraries, the kernel and Slurm.

Examples:
  oomhook explain slurm-4711.out
  kubectl logs --previous POD | oomhook explain
  oomhook explain --json train.log | jq '.causes[0].class'

Exits with 0 if there is such a message, 3 if there is none, 2 if the log cannot be read.";

/// No message of this kind.
const NO_DATA: u8 = 3;
/// Bytes read at a time.
const BUFFER: usize = 256 << 10;

/// Explains; the exit code.
///
/// # Errors
/// In words, when the log cannot be read.
pub fn run(options: &Options) -> Result<u8, String> {
    let path = options
        .log
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    let name = path.map_or_else(
        || "stdin".to_owned(),
        |path| path.to_string_lossy().into_owned(),
    );
    let log: Box<dyn Read> = match path {
        Some(path) => Box::new(open(path, &name)?),
        None if io::stdin().is_terminal() && options.log.is_none() => {
            return Err(
                "no log: name a file, or pipe one in, as in oomhook explain slurm-4711.out"
                    .to_owned(),
            );
        }
        None => Box::new(io::stdin()),
    };
    let explanation = explain::read(BufReader::with_capacity(BUFFER, log))
        .map_err(|error| format!("{name} cannot be read: {}", output::reason(&error)))?;
    let is_found = !explanation.messages.is_empty();
    if options.json {
        let json = serde_json::to_string_pretty(&explanation)
            .map_err(|error| format!("the explanation cannot be written as JSON: {error}"))?;
        output::data(&(json + "\n"))?;
    } else if is_found {
        output::data(&explain::render(
            &explanation,
            &name,
            &output::style_of_stdout(),
        ))?;
    }
    if is_found {
        return Ok(0);
    }
    output::talk(&format!(
        "oomhook explain: no message about running out of memory in {name} ({} read); \
         next: oomhook run -- CMD\n",
        oomhook_report::sentences::plural(explanation.lines, "line")
    ));
    Ok(NO_DATA)
}

fn open(path: &Path, name: &str) -> Result<File, String> {
    let wrong = |error: io::Error| format!("{name} cannot be read: {}", output::reason(&error));
    let file = File::open(path).map_err(wrong)?;
    if file.metadata().map_err(wrong)?.is_dir() {
        return Err(format!("{name} is a directory; name the log in it"));
    }
    Ok(file)
}
