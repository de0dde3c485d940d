//! What is in use of the devices at the end beside what was allocated: contexts, code, what pools keep.

use super::Page;
use crate::schema::{Device, Report};
use crate::sentences as say;

/// Devices told of.
const MOST: usize = 2;

/// What this process has on a device that no allocation shows, line by line.
fn hidden<'a>(device: &'a Device, when: &str) -> Vec<(&'a str, u64)> {
    let lines = device.ledger.get(when).into_iter().flatten();
    let hidden = lines.filter(|line| say::is_hidden(&line.name));
    hidden
        .map(|line| (line.name.as_str(), line.bytes))
        .collect()
}

/// The sum at the end.
fn beside(device: &Device) -> u64 {
    hidden(device, "exit").iter().map(|line| line.1).sum()
}

impl Page<'_> {
    /// For each device where that differs from the peak.
    pub(super) fn at_end(&mut self, report: &Report) {
        let is_used = report.devices.iter().any(|device| device.peak_bytes > 0);
        let mut devices: Vec<(&Device, u64)> = report
            .devices
            .iter()
            .map(|device| (device, beside(device)))
            .filter(|(_, bytes)| *bytes > 0)
            // A device that was only touched has a note of its own.
            .filter(|(device, _)| device.peak_bytes > 0 || !is_used)
            .collect();
        devices.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let told: Vec<(String, String)> = devices
            .iter()
            .filter_map(|(device, _)| {
                let at_end = account(report, device, "exit")?;
                // What is allocated has a table of its own.
                let is_news = hidden(device, "exit") != hidden(device, "peak");
                is_news.then(|| (say::gpu(device.device), at_end))
            })
            .collect();
        if told.is_empty() {
            return;
        }
        self.lines.push(String::new());
        let title = say::at_end_title(report.process.end);
        let blank = " ".repeat(title.len());
        for (at, (gpu, text)) in told.iter().take(MOST).enumerate() {
            let lead = if at == 0 { title } else { &blank };
            self.paragraph(&format!("{lead}  {gpu}  "), text);
        }
        if let Some(more) = told.len().checked_sub(MOST).filter(|more| *more > 0) {
            self.line(format!("{blank}  {}", say::on_more_gpus(more)));
        }
    }
}

/// One of the device's accounts, in words; `None` if nothing is in use.
pub(super) fn account(report: &Report, device: &Device, when: &str) -> Option<String> {
    let lines = device.ledger.get(when)?;
    let others = device
        .latest
        .as_ref()
        .and_then(|look| look.others.as_deref());
    let known = say::Known {
        others: others.unwrap_or(&[]),
        all_others: others.is_some(),
        hidden_pools: report.hides_pools(device.device),
    };
    say::in_use(lines, &known)
}

/// What a process that allocated nothing has taken all the same: for what (the most first), how much, and of which devices.
pub(super) fn taken_besides(report: &Report) -> Option<String> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    let mut devices: Vec<Option<u32>> = Vec::new();
    let mut estimated = false;
    for device in report.devices.iter().filter(|device| beside(device) > 0) {
        devices.push(device.device);
        let lines = device.ledger.get("exit").into_iter().flatten();
        for line in lines.filter(|line| say::is_hidden(&line.name)) {
            estimated |= line.estimated;
            match sums.iter_mut().find(|sum| sum.0 == line.name) {
                Some(sum) => sum.1 += line.bytes,
                None => sums.push((&line.name, line.bytes)),
            }
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.1));
    let names: Vec<&str> = sums.iter().map(|sum| sum.0).collect();
    let bytes = sums.iter().map(|sum| sum.1).sum();
    (!names.is_empty()).then(|| say::taken_besides(&names, bytes, estimated, &devices))
}
