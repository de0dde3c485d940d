//! Passed, failed, or no data. A limit is inclusive; the tolerance belongs to the baseline alone.

use crate::baseline::{Baseline, BaselineDevice, program, shares};
use crate::schema::{Device, ProcessEnd, Report, SCHEMA_VERSION, Site};
use crate::sentences as say;
use crate::text::quoted;
use crate::text::{Colour, Paint};
use crate::units;
use crate::verdict::has_data;
use crate::verdict::{is_device, real_leaks};
use serde::Serialize;
use std::cmp::Reverse;

/// Sites listed when a peak grew.
const MOST_GROWN: usize = 10;

/// What is demanded.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Most live device bytes of a device.
    pub max_peak: Option<u64>,
    /// Most device bytes that live on a device at the end.
    pub max_live_at_exit: Option<u64>,
    /// No leak that grows or came once.
    pub fail_on_leak: bool,
    /// What to compare with, and by how many parts of a million it may be exceeded.
    pub baseline: Option<(Baseline, u64)>,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every gate passed.
    Passed,
    /// A gate failed.
    Failed,
    /// Something could not be judged, which is no pass.
    Unjudged,
    /// Nothing was recorded, which is no pass.
    NoData,
}

impl Verdict {
    /// The exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Verdict::Passed => 0,
            Verdict::Failed => 1,
            Verdict::Unjudged => 2,
            Verdict::NoData => 3,
        }
    }
}

/// What all gates say.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// Version of the schema.
    pub schema_version: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Exit code.
    pub exit_code: u8,
    /// What the bytes are.
    pub metric: &'static str,
    /// Processes judged.
    pub processes: usize,
    /// Gate by gate, each with the worst process.
    pub gates: Vec<Gate>,
    /// What could not be judged, and why.
    pub unjudged: Vec<String>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// A gate and the process that was worst in it.
#[derive(Clone, Debug, Serialize)]
pub struct Gate {
    /// `max_peak`, `max_live_at_exit`, `fail_on_leak` or `baseline`.
    pub gate: &'static str,
    /// It passed.
    pub passed: bool,
    /// The worst process.
    pub process: Named,
    /// Its device.
    pub device: Option<u32>,
    /// What was measured.
    pub value_bytes: u64,
    /// What was allowed.
    pub limit_bytes: u64,
    /// What the baseline says.
    pub baseline_bytes: Option<u64>,
    /// Processes (and their devices) that failed.
    pub failed: usize,
    /// What grew, or leaked.
    pub sites: Vec<Grown>,
}

/// A process by name.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Host.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Rank.
    pub rank: Option<u32>,
}

/// A site that weighs more than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// Site.
    pub site: String,
    /// Library.
    pub library: String,
    /// Bytes before.
    pub before_bytes: u64,
    /// Bytes now.
    pub after_bytes: u64,
}

/// Judges every process. `unreadable` are traces that could not be read, in words.
#[must_use]
pub fn judge(reports: &[Report], unreadable: &[String], limits: &Limits) -> Judgement {
    let judged: Vec<&Report> = reports.iter().filter(|one| has_data(one)).collect();
    let mut notes = Vec::new();
    let mut unjudged = unreadable.to_vec();
    let mut gates = Vec::new();
    if let Some(limit) = limits.max_peak {
        let peaks = by_device(&judged, |device| device.peak_bytes);
        gates.extend(worst(peaks.map(|(report, device, value)| {
            measured("max_peak", report, device, value, limit)
        })));
    }
    if let Some(limit) = limits.max_live_at_exit {
        let (ended, others): (Vec<&Report>, _) =
            judged.iter().copied().partition(|report| has_ended(report));
        unjudged.extend(others.into_iter().map(say::gate_no_exit));
        let live = by_device(&ended, |device| device.live_bytes);
        gates.extend(worst(live.map(|(report, device, value)| {
            measured("max_live_at_exit", report, device, value, limit)
        })));
    }
    if limits.fail_on_leak {
        gates.extend(worst(judged.iter().map(|report| leaks(report))));
    }
    if let Some((baseline, tolerance)) = &limits.baseline {
        let compared = compare(&judged, baseline, *tolerance, &mut notes);
        if compared.is_empty() && !judged.is_empty() {
            unjudged.push(say::GATE_NOTHING_COMPARED.to_owned());
        }
        gates.extend(worst(compared.into_iter()));
    }
    for report in reports.iter().filter(|report| report.damaged) {
        unjudged.push(say::gate_damaged(report));
    }
    let (lost, without_data): (Vec<&Report>, _) = reports
        .iter()
        .filter(|one| !has_data(one))
        .partition(|one| !one.complete && one.process.end != ProcessEnd::Running);
    let verdict = if gates.iter().any(|gate| !gate.passed) {
        Verdict::Failed
    } else if !unjudged.is_empty() {
        Verdict::Unjudged
    } else if judged.is_empty() {
        Verdict::NoData
    } else {
        Verdict::Passed
    };
    if !judged.is_empty() {
        if !without_data.is_empty() {
            notes.push(say::gate_without_data(without_data.len()));
        }
        notes.extend(lost.into_iter().map(say::gate_lost));
    }
    notes.extend(
        judged
            .iter()
            .filter(|report| !has_ended(report))
            .map(|report| say::gate_not_ended(report)),
    );
    Judgement {
        schema_version: SCHEMA_VERSION,
        verdict,
        exit_code: verdict.code(),
        metric: say::METRIC_DEVICE,
        processes: judged.len(),
        gates,
        unjudged,
        notes,
    }
}

/// True if the process came to its end by itself, and was seen to.
fn has_ended(report: &Report) -> bool {
    let end = report.process.end;
    report.complete && matches!(end, ProcessEnd::Exit | ProcessEnd::ImmediateExit)
}

fn by_device<'a>(
    judged: &'a [&'a Report],
    value: impl Fn(&Device) -> u64 + Copy + 'a,
) -> impl Iterator<Item = (&'a Report, Option<u32>, u64)> {
    judged.iter().flat_map(move |report| {
        // A process that has only host memory has a peak of 0, and that is judged, too.
        let none = report.devices.is_empty().then_some((*report, None, 0));
        let devices = report.devices.iter();
        devices
            .map(move |device| (*report, device.device, value(device)))
            .chain(none)
    })
}

fn named(report: &Report) -> Named {
    Named {
        host: report.process.host.clone(),
        pid: report.process.pid,
        rank: report.process.rank,
    }
}

fn measured(
    gate: &'static str,
    report: &Report,
    device: Option<u32>,
    value: u64,
    limit: u64,
) -> Gate {
    let sites = match gate {
        _ if value <= limit => Vec::new(),
        "max_peak" => {
            let of_device = report.devices.iter().find(|one| one.device == device);
            largest(of_device.into_iter().flat_map(|one| &one.peak.sites))
        }
        "max_live_at_exit" => {
            let left = report.leaks.iter().map(|leak| &leak.site);
            largest(left.filter(|site| site.device == device && is_device(site.space)))
        }
        _ => Vec::new(),
    };
    Gate {
        gate,
        passed: value <= limit,
        process: named(report),
        device,
        value_bytes: value,
        limit_bytes: limit,
        baseline_bytes: None,
        failed: usize::from(value > limit),
        sites,
    }
}

/// Sites summed by label and library, the largest ones.
fn largest<'a>(from: impl Iterator<Item = &'a Site>) -> Vec<Grown> {
    let mut sites: Vec<Grown> = Vec::new();
    for site in from {
        let known = sites
            .iter_mut()
            .find(|one| *one.site == *site.label && *one.library == *site.library);
        match known {
            Some(known) => known.after_bytes += site.bytes,
            None => sites.push(Grown {
                site: site.label.to_string(),
                library: site.library.to_string(),
                before_bytes: 0,
                after_bytes: site.bytes,
            }),
        }
    }
    sites.sort_by_key(|site| Reverse(site.after_bytes));
    sites.truncate(MOST_GROWN);
    sites
}

fn leaks(report: &Report) -> Gate {
    let value = real_leaks(report).map(|leak| leak.site.bytes).sum();
    let sites = largest(real_leaks(report).map(|leak| &leak.site));
    // An array of unknown size may leak 0 bytes, and leaks.
    let passed = sites.is_empty();
    Gate {
        gate: "fail_on_leak",
        passed,
        process: named(report),
        device: None,
        value_bytes: value,
        limit_bytes: 0,
        baseline_bytes: None,
        failed: usize::from(!passed),
        sites,
    }
}

fn compare(
    judged: &[&Report],
    baseline: &Baseline,
    tolerance: u64,
    notes: &mut Vec<String>,
) -> Vec<Gate> {
    let mut gates = Vec::new();
    let mut used = vec![false; baseline.processes.len()];
    for report in judged {
        let Some(at) = baseline.counterpart(report, &used) else {
            notes.push(say::gate_no_counterpart(
                report.process.pid,
                report.process.rank,
                &program(report),
            ));
            continue;
        };
        used[at] = true;
        let before = &baseline.processes[at];
        for device in &report.devices {
            let known = before
                .devices
                .iter()
                .find(|one| one.device == device.device);
            if known.is_none() && device.peak_bytes == 0 {
                continue;
            }
            if let Some(known) = known.filter(|one| !is_same_model(one, device)) {
                notes.push(say::gate_other_machine(&known.name, &device.name));
            }
            gates.push(compare_device(report, device, known, tolerance));
        }
    }
    let missing = baseline.processes.iter().zip(used);
    for (before, _) in missing.filter(|(_, used)| !used) {
        notes.push(say::gate_missing(&before.program, before.rank));
    }
    notes.dedup();
    gates
}

fn is_same_model(then: &BaselineDevice, now: &Device) -> bool {
    then.name == now.name && then.total_bytes == now.total_bytes
}

fn compare_device(
    report: &Report,
    device: &Device,
    before: Option<&BaselineDevice>,
    tolerance: u64,
) -> Gate {
    let peak = before.map_or(0, |before| before.peak_bytes);
    let allowed = u128::from(peak) + u128::from(peak) * u128::from(tolerance) / 1_000_000;
    let limit = u64::try_from(allowed).unwrap_or(u64::MAX);
    let mut gate = measured("baseline", report, device.device, device.peak_bytes, limit);
    gate.baseline_bytes = Some(peak);
    if !gate.passed {
        let known = before.map(|before| before.sites.as_slice());
        let share_before = |site: &str, library: &str| {
            let found = known
                .unwrap_or_default()
                .iter()
                .find(|one| one.site == site && one.library == library);
            found.map_or(0, |one| one.bytes)
        };
        gate.sites = shares(&device.peak.sites)
            .into_iter()
            .map(|((site, library), after_bytes)| Grown {
                before_bytes: share_before(&site, &library),
                site,
                library,
                after_bytes,
            })
            .filter(|one| one.after_bytes > one.before_bytes)
            .collect();
        gate.sites
            .sort_by_key(|one| Reverse(one.after_bytes - one.before_bytes));
        gate.sites.truncate(MOST_GROWN);
    }
    gate
}

/// The worst of a gate's results, which knows how many failed.
fn worst(gates: impl Iterator<Item = Gate>) -> Option<Gate> {
    let gates: Vec<Gate> = gates.collect();
    let failed = gates.iter().map(|gate| gate.failed).sum();
    // By how far the limit is passed, as a fraction; without a limit by the value itself.
    let badness = |gate: &Gate| {
        let scaled = u128::from(gate.value_bytes) << 32;
        (
            !gate.passed,
            scaled / u128::from(gate.limit_bytes.max(1)),
            gate.value_bytes,
        )
    };
    let mut found = gates.into_iter().reduce(|worst, gate| {
        if badness(&gate) > badness(&worst) {
            gate
        } else {
            worst
        }
    })?;
    found.failed = failed;
    Some(found)
}

impl Judgement {
    /// The judgement for people.
    #[must_use]
    pub fn text(&self, colour: bool) -> String {
        let paint = Paint(colour);
        let head = match self.verdict {
            Verdict::Passed => paint.with(Colour::Green, say::GATE_PASSED),
            Verdict::Failed => paint.with(Colour::Red, say::GATE_FAILED),
            Verdict::Unjudged => paint.with(Colour::Yellow, say::GATE_UNJUDGED),
            Verdict::NoData => paint.with(Colour::Yellow, say::GATE_NO_DATA),
        };
        let mut text = format!("oomhook check: {head}\n");
        for gate in &self.gates {
            text.push_str(&gate.text(self.processes));
        }
        for reason in &self.unjudged {
            text.push_str(&format!("  ?     {reason}\n"));
        }
        for note in &self.notes {
            text.push_str(&format!("{}{note}\n", say::NOTE));
        }
        text
    }

    /// The gate to look at first.
    #[must_use]
    pub fn worst(&self) -> Option<&Gate> {
        let failed = self.gates.iter().find(|gate| !gate.passed);
        failed.or(self.gates.first())
    }

    /// The next useful command, about this trace.
    #[must_use]
    pub fn next(&self, trace: Option<&str>) -> String {
        let Some(trace) = trace.map(quoted) else {
            return "oomhook env".to_owned();
        };
        match (self.verdict, self.worst()) {
            (Verdict::Failed, Some(gate)) => {
                let at = match gate.gate {
                    "max_peak" | "baseline" => "peak",
                    _ => "exit",
                };
                format!("oomhook report {trace} --by stack --at {at}")
            }
            (Verdict::NoData, _) => "oomhook env".to_owned(),
            _ => format!("oomhook report {trace}"),
        }
    }
}

impl Gate {
    fn text(&self, processes: usize) -> String {
        let mark = if self.passed { "  ok    " } else { "  FAIL  " };
        let what = match self.gate {
            "max_peak" => say::gate::MAX_PEAK,
            "max_live_at_exit" => say::gate::MAX_LIVE,
            "baseline" => say::gate::BASELINE,
            _ => say::gate::LEAK,
        };
        let is_leak = self.gate == "fail_on_leak";
        let result = if is_leak {
            say::gate_leaks(self.value_bytes, self.passed)
        } else {
            say::gate_limit(what, self.value_bytes, self.limit_bytes, self.passed)
        };
        let mut who = Vec::new();
        if !is_leak {
            who.push(say::gpu(self.device));
        }
        who.extend(self.process.rank.map(say::rank));
        if processes > 1 || self.process.rank.is_none() {
            who.push(say::process(self.process.pid, &self.process.host));
        }
        let mut text = format!("{mark}{result}  {}\n", who.join(", "));
        if self.failed > 1 {
            text.push_str(&format!("        {}\n", say::gate_failed_of(self.failed)));
        }
        for site in &self.sites {
            let grown = match self.gate {
                "baseline" => say::gate_grew(site.before_bytes, site.after_bytes),
                _ => units::bytes(site.after_bytes),
            };
            text.push_str(&format!(
                "        {grown}  {} [{}]\n",
                site.site, site.library
            ));
        }
        text
    }
}
