//! Gates: options shared by `check` and `run`.

use crate::cli::output;
use crate::cli::traces;
use crate::symbols::Files;
use clap::Args;
use oomhook_report::baseline::Baseline;
use oomhook_report::gate::{Judgement, Limits, judge};
use oomhook_report::{Report, sentences, units};
use std::io::Write;
use std::path::{Path, PathBuf};

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
        self.limits().map(drop)
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
    pub fn judge_reports(&self, reports: &[Report]) -> Result<(Judgement, String), String> {
        let judgement = judge(reports, &self.limits()?);
        let mut said = String::new();
        if let Some(path) = self.baseline.as_ref().filter(|_| self.write_baseline) {
            let baseline = Baseline::of(reports);
            if !baseline.processes.is_empty() {
                write_baseline(path, &baseline)?;
                said = format!("{}\n", sentences::baseline_written(&path.to_string_lossy()));
            }
        }
        Ok((judgement, said))
    }

    /// Judges the traces of a run, on stderr; the verdict as an exit code.
    pub fn judge(&self, paths: &[PathBuf]) -> u8 {
        let judged = traces::load(paths).and_then(|traces| {
            let mut symbols = Files::default();
            let reports: Vec<Report> = traces.iter().map(|one| one.report(&mut symbols)).collect();
            self.judge_reports(&reports)
        });
        match judged {
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
            format!("--baseline {shown}: cannot be read: {error}")
        }
    })?;
    Baseline::parse(&json).map_err(|error| format!("--baseline {shown}: {error}"))
}

/// Whole or not at all.
fn write_baseline(path: &Path, baseline: &Baseline) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("--baseline {}: cannot be written: {error}", path.display())
    };
    let mut json = serde_json::to_string_pretty(baseline).map_err(|error| failed(&error))?;
    json.push('\n');
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".oomhook-baseline-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(|error| failed(&error))?;
    file.write_all(json.as_bytes())
        .map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error.error))?;
    Ok(())
}
