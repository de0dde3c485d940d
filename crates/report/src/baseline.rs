//! What a gate compares with: a small JSON file, made to be read in a review.

use crate::attribution::{bare_name, file_name};
use crate::schema::{Device, Report, Site};
use crate::verdict::has_data;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the file.
pub const BASELINE_VERSION: u32 = 1;
/// Most sites kept of a device.
const MOST_SITES: usize = 100;

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`BASELINE_VERSION`].
    pub baseline_version: u32,
    /// What the bytes are (`device`: live device bytes).
    pub metric: String,
    /// The processes of the run.
    pub processes: Vec<BaselineProcess>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineProcess {
    /// Rank in the job.
    pub rank: Option<u32>,
    /// The program's name.
    pub program: String,
    /// Its devices.
    pub devices: Vec<BaselineDevice>,
}

/// A device of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineDevice {
    /// Ordinal in the process.
    pub device: Option<u32>,
    /// Marketing name.
    pub name: String,
    /// Memory of the device.
    pub total_bytes: u64,
    /// Most live device bytes.
    pub peak_bytes: u64,
    /// What the peak was made of, largest first.
    pub sites: Vec<BaselineSite>,
}

/// The share of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineSite {
    /// Function, or what else names the site; without a line, which would change with every edit.
    pub site: String,
    /// Its library.
    pub library: String,
    /// Bytes.
    pub bytes: u64,
}

impl Baseline {
    /// The baseline that this run makes.
    #[must_use]
    pub fn of(reports: &[Report]) -> Baseline {
        Baseline {
            baseline_version: BASELINE_VERSION,
            metric: crate::sentences::METRIC_DEVICE.to_owned(),
            processes: reports
                .iter()
                .filter(|report| has_data(report))
                .map(|report| BaselineProcess {
                    rank: report.process.rank,
                    program: program(report),
                    devices: report
                        .devices
                        .iter()
                        .filter(|device| device.peak_bytes > 0)
                        .map(of_device)
                        .collect(),
                })
                .collect(),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// In words, when it is no baseline that this version understands.
    pub fn parse(json: &[u8]) -> Result<Baseline, String> {
        let baseline: Baseline = serde_json::from_slice(json).map_err(|error| {
            format!("is no baseline ({error}); write one with --write-baseline")
        })?;
        if baseline.baseline_version > BASELINE_VERSION {
            return Err(format!(
                "has version {}, this oomhook reads up to {BASELINE_VERSION}: update it",
                baseline.baseline_version
            ));
        }
        if baseline.metric != crate::sentences::METRIC_DEVICE {
            return Err(format!(
                "is of the metric `{}`, only `device` is known here",
                baseline.metric
            ));
        }
        if baseline.processes.is_empty() {
            return Err(
                "holds no process, so there is nothing to compare with; write it anew with --write-baseline".to_owned(),
            );
        }
        Ok(baseline)
    }

    /// The counterpart of a process: the same program and rank, and not yet another's. Several of one program without
    /// ranks are compared in their order.
    #[must_use]
    pub fn counterpart(&self, report: &Report, used: &[bool]) -> Option<usize> {
        let program = program(report);
        let mut processes = self.processes.iter().zip(used);
        processes.position(|(one, used)| {
            !used && one.rank == report.process.rank && one.program == program
        })
    }
}

/// The program's name, without its folder.
#[must_use]
pub fn program(report: &Report) -> String {
    let path = report.process.command.first().map_or("", String::as_str);
    file_name(path).to_owned()
}

fn of_device(device: &Device) -> BaselineDevice {
    let mut sites: Vec<BaselineSite> = shares(&device.peak.sites)
        .into_iter()
        .map(|((site, library), bytes)| BaselineSite {
            site,
            library,
            bytes,
        })
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.bytes));
    sites.truncate(MOST_SITES);
    BaselineDevice {
        device: device.device,
        name: device.name.clone(),
        total_bytes: device.total_bytes,
        peak_bytes: device.peak_bytes,
        sites,
    }
}

/// Bytes by site (without line) and library.
#[must_use]
pub fn shares(sites: &[Site]) -> BTreeMap<(String, String), u64> {
    let mut shares = BTreeMap::new();
    for site in sites {
        let key = (name(site), site.library.to_string());
        *shares.entry(key).or_default() += site.bytes;
    }
    shares
}

fn name(site: &Site) -> String {
    let frame = site.site_frame.and_then(|at| site.stack.get(at));
    match frame.map(|frame| (frame.function.as_deref(), frame.file.as_deref())) {
        Some((Some(function), _)) => bare_name(function).to_owned(),
        Some((None, Some(file))) => file_name(file).to_owned(),
        _ => site.site.to_string(),
    }
}
