//! The one thing to say first.

use crate::schema::{Anomalies, Leak, LeakClass, Oom, ProcessEnd, Report};
use oomhook_ledger::oom::Class;

/// The one thing to say first.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// The process died for want of memory.
    OutOfMemory(&'a Oom),
    /// Memory was not freed.
    Leak(LeakSum<'a>),
    /// The process did not end by itself, so what lives is no leak.
    CutShort,
    /// Nothing is wrong with the memory.
    Healthy {
        /// Caches hold something, which is no leak.
        caches: bool,
        /// Something was made while the process was ending.
        at_exit: bool,
        /// The driver keeps something for graphs.
        graphs: bool,
    },
    /// Nothing was allocated.
    NoData,
}

/// Leaks in sum.
#[derive(Clone, Copy, Debug)]
pub struct LeakSum<'a> {
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// One of them grows.
    pub growing: bool,
    /// The one to look at first.
    pub first: &'a Leak,
    /// It is the only site.
    pub only: bool,
}

/// Leaks that somebody should do something about.
pub fn real_leaks(report: &Report) -> impl Iterator<Item = &Leak> {
    report
        .leaks
        .iter()
        .filter(|leak| matches!(leak.class, LeakClass::Growing | LeakClass::OneTime))
}

/// The sum of the real leaks; device memory speaks for itself if there is any, host memory otherwise.
#[must_use]
pub fn leak_sum(report: &Report) -> Option<LeakSum<'_>> {
    let growing = real_leaks(report).any(|leak| leak.class == LeakClass::Growing);
    // What grows is worse than what came once, and is not to be mixed with it.
    let told = || real_leaks(report).filter(|leak| !growing || leak.class == LeakClass::Growing);
    let on_device = told().any(|leak| is_device(leak.site.space));
    let counted = || told().filter(|leak| !on_device || is_device(leak.site.space));
    let first = counted().next()?;
    Some(LeakSum {
        bytes: counted().map(|leak| leak.site.bytes).sum(),
        blocks: counted().map(|leak| leak.site.blocks).sum(),
        growing,
        first,
        only: counted().all(|leak| leak.site.label == first.site.label),
    })
}

/// True for the spaces that make up device bytes.
#[must_use]
pub fn is_device(space: &str) -> bool {
    matches!(space, "device" | "array" | "async" | "vmm" | "graph")
}

/// Frees and registrations that were wrong.
#[must_use]
pub fn bad_frees(anomalies: &Anomalies) -> u64 {
    anomalies.unknown_free
        + anomalies.double_free
        + anomalies.interior_free
        + anomalies.failed_free
        + anomalies.free_after_reset
        + anomalies.failed_register
}

/// Memory was allocated, by calls or by the nodes of graphs.
#[must_use]
pub fn has_data(report: &Report) -> bool {
    report.totals.allocs > 0 || report.devices.iter().any(|device| device.peak_bytes > 0)
}

fn has(report: &Report, class: LeakClass) -> bool {
    report.leaks.iter().any(|leak| leak.class == class)
}

impl<'a> Verdict<'a> {
    /// What to say first about a process.
    #[must_use]
    pub fn of(report: &'a Report) -> Verdict<'a> {
        if let Some(fatal) = report.oom.iter().find(|oom| oom.class == Class::Fatal) {
            return Verdict::OutOfMemory(fatal);
        }
        if !has_data(report) {
            return Verdict::NoData;
        }
        let by_itself = matches!(
            report.process.end,
            ProcessEnd::Exit | ProcessEnd::ImmediateExit
        );
        if !by_itself {
            return Verdict::CutShort;
        }
        match leak_sum(report) {
            Some(sum) => Verdict::Leak(sum),
            None => Verdict::Healthy {
                caches: has(report, LeakClass::Cached),
                at_exit: has(report, LeakClass::DuringExit),
                graphs: has(report, LeakClass::Retained),
            },
        }
    }
}
