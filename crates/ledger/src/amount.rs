//! Sums of bytes and blocks. They saturate: a damaged trace may be wrong, but never makes a number jump to the sky.

use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, SubAssign};

/// A sum over blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes handed out.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes asked for.
    pub requested: u64,
}

impl Amount {
    /// One block.
    #[must_use]
    pub fn block(bytes: u64, requested: u64) -> Amount {
        Amount {
            bytes,
            blocks: 1,
            requested,
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.requested = self.requested.saturating_add(other.requested);
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Amount) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.blocks = self.blocks.saturating_sub(other.blocks);
        self.requested = self.requested.saturating_sub(other.requested);
    }
}

/// How a space was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceUse {
    /// Blocks that came.
    pub allocs: u64,
    /// Blocks that the program gave back.
    pub frees: u64,
    /// What lives.
    pub live: Amount,
    /// Most bytes that lived at once.
    pub peak_bytes: u64,
    /// Bytes of all blocks that ever came.
    pub cumulative_bytes: u64,
}

impl SpaceUse {
    /// More lives.
    pub fn add(&mut self, amount: Amount) {
        self.live += amount;
        self.peak_bytes = self.peak_bytes.max(self.live.bytes);
    }
}
