//! How high memory stands on each device, as phases and the program's own lines see it.

use crate::devices::Devices;
use crate::ledger::Ledger;
use crate::log::Figures;
use crate::phases::{Height, Instance, PhaseId};
use crate::tensors::Tensors;
use std::collections::BTreeSet;

/// Every device that has something, of either layer.
fn devices(devices: &Devices, tensors: &Tensors) -> BTreeSet<Option<u8>> {
    let of_driver = devices.iter().map(|(device, _)| device);
    of_driver
        .chain(tensors.caches().map(|(device, _)| Some(device)))
        .collect()
}

impl Ledger {
    /// What lives on each device, as a phase that begins now sees it.
    pub(crate) fn heights(&self) -> Vec<Height> {
        let all = devices(&self.devices, &self.tensors).into_iter();
        all.map(|device| {
            let live = self.devices.get(device).map_or(0, |usage| usage.live.bytes);
            let cache = device.and_then(|device| self.tensors.cache(device));
            let allocated = cache.map_or(0, |cache| cache.allocated);
            Height {
                device,
                begin: live,
                peak: live,
                end: live,
                tensors_begin: allocated,
                tensors_peak: allocated,
                tensors_end: allocated,
            }
        })
        .collect()
    }

    /// The instances of phases that last, with their phases, as of now.
    #[must_use]
    pub fn lasting_phases(&self) -> Vec<(PhaseId, Instance)> {
        self.phases.lasting(&self.heights())
    }

    /// What lives now on the device where it is most.
    pub(crate) fn figures(&self) -> Figures {
        let live = self.devices.iter().map(|(_, usage)| usage.live.bytes);
        let caches = self.tensors.caches().map(|(_, cache)| cache);
        let busiest = caches.max_by_key(|cache| cache.allocated);
        Figures {
            live: live.max().unwrap_or(0),
            cache: busiest.map(|cache| (cache.allocated, cache.reserved)),
        }
    }
}

/// What lived at most on each device since the beginning, when nothing did.
pub(crate) fn highest_so_far(of_driver: &Devices, tensors: &Tensors) -> Vec<Height> {
    let all = devices(of_driver, tensors).into_iter();
    all.map(|device| {
        let cache = device.and_then(|device| tensors.cache(device));
        Height {
            device,
            peak: of_driver.get(device).map_or(0, |usage| usage.peak.bytes),
            tensors_peak: cache.map_or(0, |cache| cache.allocated_peak.bytes),
            ..Height::default()
        }
    })
    .collect()
}
