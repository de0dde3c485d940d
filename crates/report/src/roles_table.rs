//! One table of what memory is for: blocks of a framework's cache by their roles, and what lies beside them.

use crate::cache::VIA;
use crate::schema::{Device, LedgerLine, Report, Site};
use crate::sentences as say;
use crate::table::{At, Group};
use oomhook_ledger::Amount;

/// What memory of all devices was for at an instant, largest first.
#[must_use]
pub fn group(report: &Report, at: At) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut add = |name: &str, bytes: u64, blocks: u64| {
        if bytes == 0 {
            return;
        }
        let amount = Amount {
            bytes,
            blocks,
            requested: bytes,
        };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.amount += amount,
            None => groups.push(Group::named(name, amount)),
        }
    };
    for device in &report.devices {
        let Some(then) = Then::of(report, device, at) else {
            continue;
        };
        for site in then.tensors {
            let role = site.role.map_or("other", say::role);
            add(role, site.bytes, site.blocks);
        }
        if let Some((bytes, segments)) = then.idle {
            add(say::IDLE_IN_CACHE, bytes, segments);
        }
        add(say::BEYOND_BLOCKS, then.beyond_blocks, 0);
        for site in then.sites {
            // What is not told block by block is told as it is.
            if !is_segment(device, site) {
                add(say::BESIDE_CACHE, site.bytes, site.blocks);
            }
        }
        for line in then.lines {
            if !matches!(line.name.as_str(), "free" | "other_processes") && !say::is_own(&line.name)
            {
                add(say::ledger_name(&line.name), line.bytes, 0);
            }
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.amount.bytes));
    groups
}

/// True for the driver's blocks of a cache whose own blocks are told one by one.
fn is_segment(device: &Device, site: &Site) -> bool {
    device.tensors.is_some() && site.via == Some(VIA)
}

/// What a device held at an instant.
struct Then<'a> {
    /// Blocks of the cache.
    tensors: &'a [Site],
    /// Blocks of the driver.
    sites: Vec<&'a Site>,
    /// Bytes that the cache held and nobody used, and in how many segments, where that is known.
    idle: Option<(u64, u64)>,
    /// Bytes of its segments beyond its blocks, where these are of another instant: idle then, or not handed out yet.
    beyond_blocks: u64,
    /// All bytes of the device.
    lines: &'a [LedgerLine],
}

impl<'a> Then<'a> {
    fn of(report: &'a Report, device: &'a Device, at: At) -> Option<Then<'a>> {
        let lines = |name| device.ledger.get(name).map_or(&[][..], Vec::as_slice);
        let tensors = device.tensors.as_ref();
        match at {
            At::Peak => Some(Then {
                tensors: tensors.map_or(&[], |tensors| &tensors.peak.sites),
                sites: device.peak.sites.iter().collect(),
                idle: None,
                beyond_blocks: tensors.map_or(0, |tensors| {
                    let sites = device.peak.sites.iter();
                    let segments = sites.filter(|site| is_segment(device, site));
                    let held: u64 = segments.map(|site| site.bytes).sum();
                    held.saturating_sub(tensors.allocated_peak_bytes)
                }),
                lines: lines("peak"),
            }),
            At::Exit => {
                let leaks = report.leaks.iter().map(|leak| &leak.site);
                let here = leaks.filter(|site| site.device == device.device);
                Some(Then {
                    tensors: tensors.map_or(&[], |tensors| &tensors.live_sites),
                    sites: here
                        .filter(|site| crate::verdict::is_device(site.space))
                        .collect(),
                    idle: tensors.map(|tensors| {
                        let segments = tensors.segments.as_ref();
                        (
                            tensors.idle_bytes,
                            segments.map_or(0, |segments| segments.idle_in),
                        )
                    }),
                    beyond_blocks: 0,
                    lines: lines("exit"),
                })
            }
            At::Oom => {
                let here = report.oom.iter().filter(|oom| oom.device == device.device);
                let oom = here.max_by_key(|oom| oom.time_ns)?;
                let cache = oom.cache.as_ref();
                Some(Then {
                    tensors: cache.map_or(&[], |cache| &cache.sites),
                    sites: oom.sites.iter().collect(),
                    idle: cache.map(|cache| (cache.idle_bytes, cache.segments.idle_in)),
                    beyond_blocks: 0,
                    lines: &oom.ledger,
                })
            }
        }
    }
}
