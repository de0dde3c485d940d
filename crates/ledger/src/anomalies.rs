//! What was wrong with frees and registrations: counters, and details of the first ones.

use crate::announcements::Origin;
use crate::history::Ended;
use crate::rows::RowId;
use serde::{Deserialize, Serialize};

/// Details are kept of so many anomalies; the counters go on.
pub const DETAILED: usize = 256;

/// What was wrong. Each anomaly is of one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A failing free of an address that was never seen.
    UnknownFree,
    /// A failing free of an address that was freed before.
    DoubleFree,
    /// A failing free of an address inside a living block.
    InteriorFree,
    /// A successful free by a call of another family.
    CrossApiFree,
    /// A failing free of a living block's own address.
    FailedFree,
    /// A failing free of a block that went with a reset or a destroyed context.
    FreeAfterReset,
    /// A registration of host memory that was registered already.
    FailedRegister,
}

/// A block that an anomaly is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Number of its allocation.
    pub number: u64,
    /// Its origin.
    pub row: RowId,
}

/// One anomaly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anomaly {
    /// What was wrong.
    pub kind: Kind,
    /// The call that was wrong.
    pub by: Origin,
    /// The address that the program gave; 0 if not known.
    pub address: u64,
    /// The driver's code.
    pub code: u32,
    /// The block it is about.
    pub block: Option<Subject>,
    /// How that block had ended.
    pub ended: Option<Ended>,
}

/// All anomalies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Anomalies {
    /// See [`Kind::UnknownFree`].
    pub unknown_free: u64,
    /// See [`Kind::DoubleFree`].
    pub double_free: u64,
    /// See [`Kind::InteriorFree`].
    pub interior_free: u64,
    /// See [`Kind::CrossApiFree`].
    pub cross_api_free: u64,
    /// See [`Kind::FailedFree`].
    pub failed_free: u64,
    /// See [`Kind::FreeAfterReset`].
    pub free_after_reset: u64,
    /// See [`Kind::FailedRegister`].
    pub failed_register: u64,
    /// Details of the first ones.
    pub events: Vec<Anomaly>,
}

impl Anomalies {
    fn counter(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::UnknownFree => &mut self.unknown_free,
            Kind::DoubleFree => &mut self.double_free,
            Kind::InteriorFree => &mut self.interior_free,
            Kind::CrossApiFree => &mut self.cross_api_free,
            Kind::FailedFree => &mut self.failed_free,
            Kind::FreeAfterReset => &mut self.free_after_reset,
            Kind::FailedRegister => &mut self.failed_register,
        }
    }

    pub(crate) fn add(&mut self, anomaly: Anomaly) {
        *self.counter(anomaly.kind) += 1;
        if self.events.len() < DETAILED {
            self.events.push(anomaly);
        }
    }

    /// Takes back the latest anomaly of this kind at this address (its call failed after all).
    pub(crate) fn take_back(&mut self, kind: Kind, address: u64) {
        let counter = self.counter(kind);
        *counter = counter.saturating_sub(1);
        let same = |one: &Anomaly| one.kind == kind && one.address == address;
        if let Some(at) = self.events.iter().rposition(same) {
            self.events.remove(at);
        }
    }

    /// True if nothing was wrong (a free across families is no error).
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unknown_free
            + self.double_free
            + self.interior_free
            + self.failed_free
            + self.free_after_reset
            + self.failed_register
            == 0
    }
}
