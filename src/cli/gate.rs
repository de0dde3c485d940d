//! Gates: options shared by `check` and `run`.

use crate::cli::output;
use crate::cli::traces::{self, Loaded, Trace};
use crate::symbols::Files;
use clap::Args;
use oomhook_report::baseline::Baseline;
use oomhook_report::gate::{Judgement, Limits, judge};
use oomhook_report::{Report, Suppressions, sentences, units};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What is demanded of every process.
#[derive(Args, Debug, Default)]
pub struct GateOptions {
    /// Fail if a device's peak is above this (device bytes of the process)
    #[arg(long, help_heading = "Gates", value_name = "SIZE", value_parser = units::parse_bytes)]
    max_peak: Option<u64>,
    /// Fail if more than this is live on a device at exit
    #[arg(long, help_heading = "Gates", value_name = "SIZE", value_parser = units::parse_bytes)]
    max_live_at_exit: Option<u64>,
    /// Fail on leaks that grow or came once (not: caches, exit, OOMHOOK_SUPPRESS)
    #[arg(long, help_heading = "Gates")]
    fail_on_leak: bool,
    /// Fail if a peak is above that of this file, plus the tolerance
    #[arg(long, help_heading = "Gates", value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the baseline instead of comparing with it
    #[arg(long, help_heading = "Gates", requires = "baseline")]
    write_baseline: bool,
    /// By how much the baseline may be exceeded
    #[arg(long, help_heading = "Gates", value_name = "PERCENT", requires = "baseline", default_value = "2%", value_parser = units::parse_tolerance)]
    tolerance: u64,
}

impl GateOptions {
    /// True if anything is demanded.
    pub fn any(&self) -> bool {
        self.max_peak.is_some()
            || self.max_live_at_exit.is_some()
            || self.fail_on_leak
            || self.baseline.is_some()
    }

    /// Finds out early what would be found out late.
    ///
    /// # Errors
    /// In words, when the baseline cannot be read.
    pub fn check(&self) -> Result<(), String> {
        self.limits()?;
        if let Some(path) = self.baseline.as_ref().filter(|_| self.write_baseline) {
            // Made and removed: a folder that is missing is found before the program has run for hours.
            temporary_beside(path)?;
        }
        Ok(())
    }

    fn limits(&self) -> Result<Limits, String> {
        let baseline = match &self.baseline {
            Some(path) if !self.write_baseline => Some((read_baseline(path)?, self.tolerance)),
            _ => None,
        };
        Ok(Limits {
            max_peak: self.max_peak,
            max_live_at_exit: self.max_live_at_exit,
            fail_on_leak: self.fail_on_leak,
            baseline,
        })
    }

    /// Judges reports, and writes the baseline if that was asked for.
    ///
    /// # Errors
    /// In words, when the baseline cannot be read or written.
    pub fn judge_loaded(
        &self,
        loaded: &Loaded,
        symbols: &mut Files,
    ) -> Result<(Judgement, String), String> {
        let traces = loaded.traces.iter();
        let reports: Vec<Report> = traces.map(|one| one.report(symbols)).collect();
        let reports = reports.as_slice();
        let judgement = judge(reports, &loaded.unreadable, &self.limits()?);
        let mut said = String::new();
        if let Some(path) = self.baseline.as_ref().filter(|_| self.write_baseline) {
            let baseline = Baseline::of(reports);
            // A baseline of what could not be judged would let anything pass.
            if !baseline.processes.is_empty() && judgement.unjudged.is_empty() {
                write_baseline(path, &baseline)?;
                let path = path.to_string_lossy();
                said = format!("{}\n", sentences::baseline_written(&path));
            }
        }
        if said.is_empty() {
            said = next(&judgement, &loaded.traces);
        }
        Ok((judgement, said))
    }

    /// Judges the traces of a run, on stderr; the verdict as an exit code.
    pub fn judge(&self, paths: &[PathBuf], suppressions: &Suppressions, symbols: &mut Files) -> u8 {
        let loaded = traces::load_readable(paths, suppressions);
        match self.judge_loaded(&loaded, symbols) {
            Ok((judgement, said)) => {
                let colour = output::style_of_stderr().colour;
                output::talk(&format!("{}{said}", judgement.text(colour)));
                judgement.exit_code
            }
            Err(error) => {
                output::talk(&format!("oomhook check: {error}\n"));
                super::USAGE
            }
        }
    }
}

fn read_baseline(path: &Path) -> Result<Baseline, String> {
    let shown = path.display();
    let json = std::fs::read(path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            format!("--baseline {shown}: there is no such file; --write-baseline makes it")
        } else {
            format!(
                "--baseline {shown}: cannot be read: {}; name another file",
                output::reason(&error)
            )
        }
    })?;
    Baseline::parse(&json).map_err(|error| format!("--baseline {shown}: {error}"))
}

/// A new file in the folder where the baseline will be.
fn temporary_beside(path: &Path) -> Result<NamedTempFile, String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".oomhook-baseline-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "--baseline {}: there is no folder {}; make it first",
                path.display(),
                folder.display()
            ),
            _ => cannot_write(path, &error),
        })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!(
        "--baseline {}: cannot be written: {}; name a file in a folder that can",
        path.display(),
        output::reason(error)
    )
}

/// Whole or not at all.
fn write_baseline(path: &Path, baseline: &Baseline) -> Result<(), String> {
    let mut json = serde_json::to_string_pretty(baseline)
        .map_err(|error| format!("--baseline {}: {error}", path.display()))?;
    json.push('\n');
    let mut file = temporary_beside(path)?;
    file.write_all(json.as_bytes())
        .map_err(|error| cannot_write(path, &error))?;
    file.persist(path)
        .map_err(|error| cannot_write(path, &error.error))?;
    Ok(())
}

/// The next useful command after a verdict, about the process that was worst.
fn next(judgement: &Judgement, traces: &[Trace]) -> String {
    let gate = judgement.worst();
    let of_gate = |trace: &&Trace| {
        gate.is_some_and(|gate| {
            let process = &trace.header.process;
            // A process that was replaced by another program has two traces; what was judged has allocations.
            (gate.process.pid, &gate.process.host) == (process.pid, &process.host)
                && trace.ledger.totals().allocs + trace.ledger.graphs().alloc_nodes > 0
        })
    };
    let trace = traces.iter().find(of_gate).or(traces.first());
    let path = trace.map(|trace| trace.path.to_string_lossy());
    sentences::next_after(&judgement.next(path.as_deref()))
}
