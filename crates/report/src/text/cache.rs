//! What is inside a framework's cache, for people: the blocks that it handed out instead of the segments that it holds.

use super::Page;
use super::label;
use super::table_of_sites::by_site;
use crate::cache::VIA;
use crate::cache::keys::{CacheThen, Tensors};
use crate::schema::{Device, LeakClass, Report, Site};
use crate::sentences as say;
use crate::units;

/// Sites beside the cache that are named.
const MOST_BESIDE: usize = 2;

/// True for a segment of a cache whose blocks are told one by one.
fn is_segment(report: &Report, site: &Site) -> bool {
    let devices = report.devices.iter();
    site.via == Some(VIA)
        && devices
            .filter(|device| device.device == site.device)
            .any(|device| device.tensors.is_some())
}

/// The cache of a device, if most of what the device had at its peak was held by it.
pub(super) fn explains(device: &Device) -> Option<&Tensors> {
    let tensors = device.tensors.as_ref()?;
    let sites = device.peak.sites.iter();
    let held: u64 = sites
        .filter(|site| site.via == Some(VIA))
        .map(|site| site.bytes)
        .sum();
    (held.saturating_mul(2) >= device.peak_bytes).then_some(tensors)
}

impl Page<'_> {
    /// What the peak was made of, where most of it lay inside the cache.
    pub(super) fn cached_peak(
        &mut self,
        device: &Device,
        tensors: &Tensors,
        is_running: bool,
        top: usize,
    ) {
        self.fact(say::CACHE, &say::held_by_cache(tensors, is_running));
        self.beside(device);
        self.title(&say::allocated_peak(tensors), &say::allocated_when(tensors));
        let lines = by_site(tensors.peak.sites.iter().map(|site| (site, None)));
        self.sites(&lines, Some(tensors.allocated_peak_bytes), top);
        if let Some(roles) = say::roles(&tensors.peak.roles) {
            self.fact(say::ROLES, &roles);
        }
    }

    /// Allocations of the peak that are not the cache's.
    fn beside(&mut self, device: &Device) {
        let others = device.peak.sites.iter();
        let others = others.filter(|site| site.via != Some(VIA));
        let mut parts: Vec<(u64, String)> = Vec::new();
        let room = self.width().saturating_sub(40).max(20);
        for site in others {
            let place = label::with_origin(
                &site.stack,
                site.site_frame,
                &site.label,
                site.origin(),
                room,
            );
            match parts.iter_mut().find(|(_, known)| *known == place) {
                Some((bytes, _)) => *bytes += site.bytes,
                None => parts.push((site.bytes, place)),
            }
        }
        let sum: u64 = parts.iter().map(|(bytes, _)| *bytes).sum();
        // What is less than a hundredth is nobody's reason.
        if sum == 0 || sum.saturating_mul(100) < device.peak_bytes {
            return;
        }
        parts.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let shown: Vec<String> = parts
            .iter()
            .take(MOST_BESIDE)
            .map(|(bytes, place)| format!("{} {place}", units::bytes(*bytes)))
            .collect();
        let text = format!("{}: {}", units::bytes(sum), shown.join(", "));
        self.fact(say::BESIDE, &text);
    }

    /// The cache when memory ran out.
    pub(super) fn cache_then(&mut self, cache: &CacheThen) {
        let text = say::cache_then(
            cache.asked_bytes,
            cache.reserved_bytes,
            cache.allocated_bytes,
            cache.idle_bytes,
            &cache.segments,
        );
        self.fact(say::CACHE, &text);
    }

    /// In a line, the segments that live at the end; true for each leak that is none of them.
    pub(super) fn not_cached(&mut self, report: &Report) -> Vec<bool> {
        let leaks = report.leaks.iter();
        leaks
            .map(|leak| !(leak.class == LeakClass::Cached && is_segment(report, &leak.site)))
            .collect()
    }
}
