//! Several processes as one report. Devices are matched by UUID, never by ordinal.

use crate::schema::{Device, LeakClass, Report, SCHEMA_VERSION, Totals};
use crate::sharing::{self, Shared};
use serde::Serialize;
use std::rc::Rc;

/// Several processes.
#[derive(Clone, Debug, Serialize)]
pub struct Reports {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// One after the other.
    pub processes: Vec<Report>,
    /// What they have in common.
    pub merged: Merged,
}

/// What processes have in common.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Merged {
    /// Sums of all counts.
    pub totals: Totals,
    /// The devices that any of them used.
    pub devices: Vec<MergedDevice>,
    /// What is left at the end, by site, largest first.
    pub leaks: Vec<MergedLeak>,
    /// Blocks that one of them offered and another one opened: the owner's, and counted there alone.
    pub shared: Vec<Shared>,
    /// Opened memory whose owner is none of these processes, or cannot be told.
    pub imports_unmatched: u64,
}

/// A device that several processes may share.
#[derive(Clone, Debug, Serialize)]
pub struct MergedDevice {
    /// UUID; empty if the driver did not say.
    pub uuid: String,
    /// Host.
    pub host: String,
    /// Marketing name.
    pub name: String,
    /// Memory of the device.
    pub total_bytes: u64,
    /// Processes that had device memory on it.
    pub processes: u64,
    /// Live device bytes of all of them at their ends.
    pub live_bytes: u64,
    /// Bytes that they had open of other processes at their ends; they are none of the above.
    pub imported_bytes: u64,
    /// The highest peak of one process.
    pub highest_peak_bytes: u64,
    /// The process with that peak.
    pub highest_peak_pid: u32,
    /// The sum of all peaks. They need not have come at the same time, so this is an upper bound.
    pub peak_bytes: u64,
    /// True if several peaks were summed.
    pub estimated: bool,
}

/// A leak of several processes.
#[derive(Clone, Debug, Serialize)]
pub struct MergedLeak {
    /// Site.
    pub site: Rc<str>,
    /// Library.
    pub library: Rc<str>,
    /// Serving allocator.
    pub via: Option<&'static str>,
    /// Space.
    pub space: &'static str,
    /// The worst class of any process.
    pub class: LeakClass,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Processes that have it.
    pub processes: u64,
}

impl Reports {
    /// Puts processes together.
    #[must_use]
    pub fn of(processes: Vec<Report>) -> Reports {
        let mut merged = Merged::default();
        for report in &processes {
            add_totals(&mut merged.totals, &report.totals);
            for device in &report.devices {
                add_device(&mut merged.devices, report, device);
            }
            add_leaks(&mut merged.leaks, report);
        }
        merged.shared = sharing::shared(&processes);
        let imports: u64 = processes
            .iter()
            .map(|report| report.ipc.imports.len() as u64)
            .sum();
        merged.imports_unmatched = imports.saturating_sub(merged.shared.len() as u64);
        merged
            .leaks
            .sort_by_key(|leak| std::cmp::Reverse(leak.bytes));
        Reports {
            schema_version: SCHEMA_VERSION,
            processes,
            merged,
        }
    }
}

fn add_totals(sum: &mut Totals, one: &Totals) {
    sum.allocs += one.allocs;
    sum.frees += one.frees;
    sum.failed_allocs += one.failed_allocs;
    sum.failed_frees += one.failed_frees;
    sum.null_frees += one.null_frees;
    sum.zero_size += one.zero_size;
    sum.cumulative_bytes += one.cumulative_bytes;
    sum.untracked_frees += one.untracked_frees;
}

fn add_device(devices: &mut Vec<MergedDevice>, report: &Report, device: &Device) {
    // Without a UUID nothing says that two ordinals mean the same device.
    let known = devices
        .iter_mut()
        .find(|known| !device.uuid.is_empty() && known.uuid == device.uuid);
    let sum = match known {
        Some(known) => known,
        None => {
            devices.push(MergedDevice {
                uuid: device.uuid.clone(),
                host: report.process.host.clone(),
                name: device.name.clone(),
                total_bytes: device.total_bytes,
                processes: 0,
                live_bytes: 0,
                imported_bytes: 0,
                highest_peak_bytes: 0,
                highest_peak_pid: 0,
                peak_bytes: 0,
                estimated: false,
            });
            let last = devices.len() - 1;
            &mut devices[last]
        }
    };
    let imported = device.spaces.get("imported");
    sum.imported_bytes += imported.map_or(0, |usage| usage.live_bytes);
    if device.peak_bytes == 0 {
        return;
    }
    sum.processes += 1;
    sum.live_bytes += device.live_bytes;
    sum.peak_bytes += device.peak_bytes;
    sum.estimated = sum.processes > 1;
    if device.peak_bytes > sum.highest_peak_bytes {
        sum.highest_peak_bytes = device.peak_bytes;
        sum.highest_peak_pid = report.process.pid;
    }
}

fn add_leaks(leaks: &mut Vec<MergedLeak>, report: &Report) {
    let mut of_this_process = Vec::new();
    for leak in &report.leaks {
        let site = &leak.site;
        let same = |known: &MergedLeak| {
            (&known.site, &known.library, known.space, known.via)
                == (&site.site, &site.library, site.space, site.via)
        };
        let at = leaks.iter().position(same).unwrap_or_else(|| {
            leaks.push(MergedLeak {
                site: Rc::clone(&site.site),
                library: Rc::clone(&site.library),
                via: site.via,
                space: site.space,
                class: leak.class,
                bytes: 0,
                blocks: 0,
                processes: 0,
            });
            leaks.len() - 1
        });
        let sum = &mut leaks[at];
        sum.bytes += site.bytes;
        sum.blocks += site.blocks;
        sum.class = sum.class.min(leak.class);
        if !of_this_process.contains(&at) {
            of_this_process.push(at);
            sum.processes += 1;
        }
    }
}
