//! Live bytes and peaks, by device and space.

use crate::amount::{Amount, SpaceUse};
use crate::phases::PhaseId;
use oomhook_trace::Space;
use serde::{Deserialize, Serialize};

/// One [`SpaceUse`] for each space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spaces([SpaceUse; Space::ALL.len()]);

impl Spaces {
    /// The use of one space.
    #[must_use]
    pub fn get(&self, space: Space) -> &SpaceUse {
        &self.0[space as usize - 1]
    }

    pub(crate) fn get_mut(&mut self, space: Space) -> &mut SpaceUse {
        &mut self.0[space as usize - 1]
    }

    /// Spaces that were ever used.
    pub fn used(&self) -> impl Iterator<Item = (Space, &SpaceUse)> {
        Space::ALL
            .into_iter()
            .map(|space| (space, self.get(space)))
            .filter(|(_, usage)| **usage != SpaceUse::default())
    }
}

/// The first instant of the highest live device bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// The bytes.
    pub bytes: u64,
    /// Number of the allocation that reached them.
    pub event: u64,
    /// When.
    pub time_ns: u64,
    /// Counts the peaks of the device.
    pub number: u64,
    /// The phase in which they were reached; 0 for none.
    #[serde(default)]
    pub phase: PhaseId,
    /// Which instance of the phase it was, from 1.
    #[serde(default)]
    pub round: u64,
}

/// One device's memory as this process uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Live blocks of all device spaces.
    pub live: Amount,
    /// The peak of device bytes.
    pub peak: Peak,
    /// Device bytes that ever ended.
    pub ended_bytes: u64,
    /// Space by space.
    pub spaces: Spaces,
}

impl DeviceUse {
    /// Device bytes grew; a later equal peak does not replace the first.
    pub(crate) fn grow(
        &mut self,
        amount: Amount,
        event: u64,
        time_ns: u64,
        (phase, round): (PhaseId, u64),
    ) {
        self.live += amount;
        if self.live.bytes > self.peak.bytes {
            self.peak = Peak {
                bytes: self.live.bytes,
                event,
                time_ns,
                number: self.peak.number + 1,
                phase,
                round,
            };
        }
    }
}

/// All devices, and what has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    nowhere: Option<Box<DeviceUse>>,
    devices: Vec<Option<Box<DeviceUse>>>,
    everywhere: Spaces,
}

impl Devices {
    pub(crate) fn get_mut(&mut self, device: Option<u8>) -> &mut DeviceUse {
        let place = match device {
            None => &mut self.nowhere,
            Some(number) => {
                let at = usize::from(number);
                if self.devices.len() <= at {
                    self.devices.resize(at + 1, None);
                }
                &mut self.devices[at]
            }
        };
        place.get_or_insert_default()
    }

    /// The use of one device.
    #[must_use]
    pub fn get(&self, device: Option<u8>) -> Option<&DeviceUse> {
        match device {
            None => self.nowhere.as_deref(),
            Some(number) => self.devices.get(usize::from(number))?.as_deref(),
        }
    }

    /// The use of a space, summed over devices (its peak is a peak of the sum).
    #[must_use]
    pub fn everywhere(&self) -> &Spaces {
        &self.everywhere
    }

    pub(crate) fn everywhere_mut(&mut self) -> &mut Spaces {
        &mut self.everywhere
    }

    /// Every device that was used, in order; last what belongs to none.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u8>, &DeviceUse)> {
        let numbered = self.devices.iter().enumerate();
        numbered
            .filter_map(|(at, usage)| Some((Some(at as u8), usage.as_deref()?)))
            .chain(self.nowhere.iter().map(|usage| (None, &**usage)))
    }

    /// Number of the device's latest peak.
    pub(crate) fn peak_number(&self, device: Option<u8>) -> u64 {
        self.get(device).map_or(0, |usage| usage.peak.number)
    }
}
