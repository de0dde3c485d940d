//! The sections of the report, in order.

use super::label;
use super::table_of_sites::by_site;
use super::{MOST_NOTES, Page, program, quoted};
use crate::schema::{AnomalyEvent, Device, LeakClass, LogJump, ProcessEnd, Report};
use crate::sentences::{self as say, anomaly};
use crate::units;
use crate::verdict::{self, Verdict};
use std::collections::BTreeMap;

/// Bad frees shown.
const MOST_BAD_FREES: usize = 3;

impl Page<'_> {
    /// Who it was.
    pub(super) fn process(&mut self, report: &Report) {
        let process = &report.process;
        let mut parts = vec![say::process(process.pid, &process.host)];
        parts.extend(process.rank.map(say::rank));
        parts.push(units::duration(process.duration_ns));
        parts.push(say::end(report));
        parts.push(say::calls(report));
        let facts = parts.join(", ");
        let left = self.width().saturating_sub(9 + facts.len() + 2);
        let program = program(process);
        if label::width(&program) <= left {
            let line = self.paint.dim(&format!("         {program}  {facts}"));
            self.line(line);
        } else {
            let room = self.width() - 9;
            let program = label::clip(&program, room);
            let line = self.paint.dim(&format!("         {program}"));
            self.line(line);
            for facts in in_lines(&parts, room) {
                let line = self.paint.dim(&format!("         {facts}"));
                self.line(line);
            }
        }
    }

    /// The peak of each device, the highest with its sites.
    pub(super) fn peaks(&mut self, report: &Report, top: usize) {
        let mut devices: Vec<&Device> = report
            .devices
            .iter()
            .filter(|device| device.peak_bytes > 0)
            .collect();
        devices.sort_by_key(|device| std::cmp::Reverse(device.peak_bytes));
        let Some((highest, others)) = devices.split_first() else {
            return;
        };
        let cache = super::cache::explains(highest);
        let is_told = cache.is_some() && super::failures::told_of_cache(report, highest.device);
        let when = say::peak_when(highest.peak_time_ns, highest.peak_event);
        let title = peak_title(highest, self.width().saturating_sub(when.len() + 2));
        self.title(&title, &when);
        if is_told {
            // The same again, a moment earlier.
        } else if super::failures::lists_the_same(report, highest, top) {
            self.line(format!("  {}", say::MOSTLY_THE_SAME));
        } else if cache.is_some() {
            // The cache's segments tell less than what is in them, which follows.
        } else {
            let lines = by_site(highest.peak.sites.iter().map(|site| (site, None)));
            self.sites(&lines, Some(highest.peak_bytes), top);
        }
        // Two accounts of nearly the same would be one too many.
        if !super::failures::tells_of(report, highest.device) {
            self.account(report, highest);
        }
        if let Some(tensors) = cache.filter(|_| !is_told) {
            let is_running = report.process.end == ProcessEnd::Running;
            self.cached_peak(highest, tensors, is_running, top);
        }
        self.jump(report);
        let most = top.saturating_sub(2);
        // A last line that only says "1 more" may as well be that one.
        let most = if others.len() == most + 1 {
            others.len()
        } else {
            most
        };
        for device in others.iter().take(most) {
            let when = say::peak_when(device.peak_time_ns, device.peak_event);
            let left = self.width().saturating_sub(when.len() + 2);
            let title = peak_title(device, left);
            self.line(format!("{title}  {when}"));
        }
        if let Some(next) = others.get(most) {
            self.line(say::more_devices(others.len() - most, next.peak_bytes));
        }
    }

    /// The latest step at which memory jumped for a reason that the program's own lines tell, if a failure has not told it.
    fn jump(&mut self, report: &Report) {
        let named = |jump: &&LogJump| !jump.keys.is_empty();
        let latest = report.log.jumps.iter().rev().find(named);
        let is_told = report.oom.iter().any(|oom| oom.jump.is_some());
        if let Some(jump) = latest.filter(|_| !is_told) {
            self.paragraph(&format!("  {}", say::JUMP), &jump.text);
        }
    }

    /// What else was in use at the peak.
    fn account(&mut self, report: &Report, device: &Device) {
        let Some(lines) = device.ledger.get("peak") else {
            return;
        };
        if lines.iter().any(|line| line.name == "free")
            && say::tells_more(lines)
            && let Some(used) = super::at_end::account(report, device, "peak")
        {
            self.paragraph(&format!("  {}", say::IN_USE), &used);
        }
    }

    /// What is left at the end.
    pub(super) fn live(&mut self, report: &Report, top: usize) {
        if report.leaks.is_empty() {
            return;
        }
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for leak in &report.leaks {
            let space = if verdict::is_device(leak.site.space) {
                ""
            } else {
                leak.site.space
            };
            let sum = sums.entry(space).or_default();
            sum.0 += leak.site.bytes;
            sum.1 += leak.site.blocks;
        }
        let sums: Vec<String> = sums
            .into_iter()
            .map(|(space, (bytes, blocks))| {
                if space.is_empty() {
                    say::amount(bytes, blocks)
                } else {
                    format!("{} {space}", units::bytes(bytes))
                }
            })
            .collect();
        self.title(say::live_title(report.process.end), &sums.join(", "));
        let shown = self.not_cached(report);
        let leaks = report.leaks.iter().zip(&shown);
        let (kept, cached): (Vec<_>, Vec<_>) = leaks.partition(|(_, shown)| **shown);
        if !cached.is_empty() {
            let sites = || cached.iter().map(|(leak, _)| &leak.site);
            let bytes = sites().map(|site| site.bytes).sum();
            let blocks = sites().map(|site| site.blocks).sum();
            self.fact(say::CACHE, &say::cached_at_end(bytes, blocks));
        }
        if kept.is_empty() {
            return;
        }
        let kept = kept.into_iter();
        let mut lines = by_site(kept.map(|(leak, _)| (&leak.site, Some(leak.class))));
        // What somebody should do something about comes first.
        lines.sort_by_key(|line| {
            let real = matches!(line.class(), Some(LeakClass::Growing | LeakClass::OneTime));
            (!real, !verdict::is_device(line.space()))
        });
        self.sites(&lines, None, top);
    }

    /// Memory that is no device memory, and memory that went without a free.
    pub(super) fn other_memory(&mut self, report: &Report) {
        let mut lines = Vec::new();
        for space in ["managed", "imported"] {
            let used = report.devices.iter().filter_map(|device| {
                let usage = device.spaces.get(space)?;
                (usage.peak_bytes > 0).then_some((device.device, usage))
            });
            let used: Vec<_> = used.collect();
            let live = used.iter().map(|(_, usage)| usage.live_bytes).sum();
            let peak = used.iter().map(|(_, usage)| usage.peak_bytes).sum();
            let place = match used.as_slice() {
                [] => continue,
                [(device, _)] => format!("on {}", say::gpu(*device)),
                several => say::on_gpus(several.len()),
            };
            lines.push((
                say::memory_line(space),
                format!("{} {place}", say::live_and_peak(live, peak)),
            ));
        }
        for (space, usage) in &report.host.spaces {
            if usage.peak_bytes > 0 {
                lines.push((
                    say::memory_line(space),
                    say::live_and_peak(usage.live_bytes, usage.peak_bytes),
                ));
            }
        }
        if report.va.peak_bytes > 0 {
            lines.push((
                say::memory_line("reserved_va"),
                say::live_and_peak(report.va.live_bytes, report.va.peak_bytes),
            ));
        }
        for (by_reset, spaces) in [
            (true, &report.released.by_reset),
            (false, &report.released.by_context_destroy),
        ] {
            let gone: Vec<String> = spaces
                .iter()
                .filter(|(_, gone)| gone.blocks > 0)
                .map(|(space, gone)| format!("{} {space}", say::amount(gone.bytes, gone.blocks)))
                .collect();
            if !gone.is_empty() {
                lines.push((say::released_title(by_reset), gone.join(", ")));
            }
        }
        if lines.is_empty() {
            return;
        }
        self.lines.push(String::new());
        let wide = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in lines {
            let room = self.width().saturating_sub(wide + 2);
            let text = label::clip(&text, room);
            self.line(format!("{name:<wide$}  {text}"));
        }
    }

    /// Frees that failed.
    pub(super) fn bad_frees(&mut self, report: &Report) {
        let anomalies = &report.anomalies;
        let kinds = [
            (anomalies.double_free, anomaly::DOUBLE),
            (anomalies.interior_free, anomaly::INTERIOR),
            (anomalies.unknown_free, anomaly::UNKNOWN),
            (anomalies.failed_free, anomaly::FAILED),
            (anomalies.free_after_reset, anomaly::AFTER_RESET),
            (anomalies.failed_register, anomaly::REGISTER),
        ];
        let counts: Vec<String> = kinds
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, words)| format!("{} {words}", units::count(*number)))
            .collect();
        if counts.is_empty() {
            return;
        }
        self.title(say::BAD_FREES, &counts.join(", "));
        let told = anomalies
            .events
            .iter()
            .filter(|one| one.kind != oomhook_ledger::anomalies::Kind::CrossApiFree);
        for one in told.take(MOST_BAD_FREES) {
            self.bad_free(one);
        }
    }

    fn bad_free(&mut self, one: &AnomalyEvent) {
        let mut text = say::bad_free(one.kind, &one.call, &one.address, &one.label);
        if let Some(block) = &one.block {
            text.push_str(&format!(
                "; {}",
                say::allocated_by(block.bytes, &block.label)
            ));
        }
        if let Some(ended) = &one.ended {
            text.push_str(&format!("; {}", say::freed_by(&ended.label)));
        }
        self.paragraph("  ", &text);
    }

    /// What the reader should know.
    pub(super) fn notes(&mut self, report: &Report) {
        self.list_notes(&report.notes);
    }

    /// After an empty line, as many as are read.
    pub(super) fn list_notes(&mut self, notes: &[String]) {
        if notes.is_empty() {
            return;
        }
        self.lines.push(String::new());
        let shown = if notes.len() == MOST_NOTES + 1 {
            MOST_NOTES + 1
        } else {
            MOST_NOTES
        };
        for note in notes.iter().take(shown) {
            self.paragraph(say::NOTE, note);
        }
        if notes.len() > shown {
            let more = say::more_notes(notes.len() - shown);
            self.line(format!("{}{more}", say::NOTE));
        }
    }

    /// The next useful command.
    pub(super) fn next(&mut self, report: &Report, verdict: &Verdict<'_>) {
        let Some(trace) = &self.style.trace else {
            return;
        };
        let trace = quoted(trace);
        let running = report.process.end == ProcessEnd::Running;
        if let Some(pid) = self.style.pid.filter(|_| running) {
            return self.command(&format!("oomhook snapshot {pid}"));
        }
        let cached = report.oom.iter().any(|oom| oom.cache.is_some());
        let command = match verdict {
            Verdict::OutOfMemory(_) if cached => {
                format!("oomhook report {trace} --by stack --at oom --tensors")
            }
            Verdict::OutOfMemory(_) => format!("oomhook report {trace} --by stack --at oom"),
            Verdict::Leak(_) => format!("oomhook report {trace} --by stack --at exit"),
            // It was watched, and has nothing but contexts.
            Verdict::NoData if !report.contexts.is_empty() => {
                format!("oomhook report {trace} --at exit")
            }
            Verdict::NoData => "oomhook env".to_owned(),
            Verdict::CutShort => format!("oomhook report {trace} --by stack --at peak"),
            Verdict::Healthy { .. } => {
                let peak = report.devices.iter().map(|device| device.peak_bytes).max();
                let limit = units::round_up(peak.unwrap_or(0));
                format!("oomhook check {trace} --max-peak {limit}")
            }
        };
        self.command(&command);
    }

    fn command(&mut self, command: &str) {
        self.lines.push(String::new());
        let mark = self.paint.dim(say::NEXT);
        // A command is never cut or wrapped: it is there to be pasted.
        self.lines.push(format!("{mark}{command}"));
    }
}

/// With as much of the device's description as there is room for.
fn peak_title(device: &Device, columns: usize) -> String {
    let title =
        |name: &str, total: u64| say::peak_title(device.peak_bytes, device.device, name, total);
    let whole = title(&device.name, device.total_bytes);
    if label::width(&whole) <= columns {
        return whole;
    }
    let nameless = title("", device.total_bytes);
    if label::width(&nameless) <= columns {
        return nameless;
    }
    title("", 0)
}

/// Facts in lines of so many columns; none is torn, for half a number is a wrong number.
fn in_lines(facts: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        match lines.last_mut() {
            Some(line) if label::width(line) + 2 + label::width(fact) < columns => {
                line.push_str(", ");
                line.push_str(fact);
            }
            Some(line) => {
                line.push(',');
                lines.push(fact.clone());
            }
            None => lines.push(fact.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fact_is_torn_between_lines() {
        let facts = ["pid 7 on node", "50,001,256 allocs", "50,001,255 frees"].map(String::from);
        assert_eq!(
            in_lines(&facts, 40),
            ["pid 7 on node, 50,001,256 allocs,", "50,001,255 frees"]
        );
        assert_eq!(in_lines(&facts, 80), [facts.join(", ")]);
        assert_eq!(in_lines(&facts, 5).len(), 3);
    }
}
