//! Blocks that ended lately, so that a failing free of an old address can be explained. Bounded.

use crate::announcements::Origin;
use crate::blocks::Class;
use crate::hash;
use crate::index::Index;
use crate::rows::RowId;
use serde::{Deserialize, Serialize};

/// How many ended blocks are remembered.
pub const REMEMBERED: usize = 65_536;

/// Why a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The program freed it.
    Freed,
    /// Its device was reset.
    Reset,
    /// Its context was destroyed.
    ContextDestroyed,
}

/// A block that ended. In a checkpoint it is a plain array, as there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Columns", from = "Columns")]
pub struct Ended {
    /// Pointer or handle.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Number of its allocation.
    pub number: u64,
    /// The call that ended it.
    pub by: Origin,
    /// Where it came from.
    pub row: RowId,
    /// Kind of address.
    pub class: Class,
    /// Why.
    pub cause: Cause,
}

/// Address, bytes, number, row, class, cause; time, stack, thread and call of the end.
type Columns = (u64, u64, u64, RowId, u8, u8, u64, u32, u32, u16);

impl From<Ended> for Columns {
    fn from(ended: Ended) -> Columns {
        (
            ended.address,
            ended.bytes,
            ended.number,
            ended.row,
            ended.class as u8,
            ended.cause as u8,
            ended.by.time_ns,
            ended.by.stack,
            ended.by.thread,
            ended.by.call,
        )
    }
}

impl From<Columns> for Ended {
    fn from(columns: Columns) -> Ended {
        let (address, bytes, number, row, class, cause, time_ns, stack, thread, call) = columns;
        Ended {
            address,
            bytes,
            number,
            by: Origin {
                time_ns,
                stack,
                thread,
                call,
            },
            row,
            class: Class::ALL
                .into_iter()
                .find(|known| *known as u8 == class)
                .unwrap_or(Class::Pointer),
            cause: match cause {
                0 => Cause::Freed,
                1 => Cause::Reset,
                _ => Cause::ContextDestroyed,
            },
        }
    }
}

/// The blocks that ended lately.
#[derive(Clone, Default)]
pub struct History {
    ring: Vec<Ended>,
    next: usize,
    index: Index,
}

impl History {
    fn hash(ended: &Ended) -> u32 {
        hash::of_address(ended.class as u8, ended.address)
    }

    fn position(&self, class: Class, address: u64) -> Option<u32> {
        self.index
            .find(hash::of_address(class as u8, address), |at| {
                let ended = &self.ring[at as usize];
                ended.address == address && ended.class == class
            })
    }

    /// Remembers a block; a newer end at the same address hides the older one.
    pub fn remember(&mut self, ended: Ended) {
        self.hide(ended.class, ended.address);
        let at = self.next;
        self.next = (at + 1) % REMEMBERED;
        if at == self.ring.len() {
            self.ring.push(ended);
        } else {
            // Does nothing if a newer end hides this one.
            self.index.remove(Self::hash(&self.ring[at]), at as u32);
            self.ring[at] = ended;
        }
        self.index.insert(Self::hash(&ended), at as u32);
    }

    /// The latest end at this address.
    #[must_use]
    pub fn find(&self, class: Class, address: u64) -> Option<&Ended> {
        self.position(class, address)
            .map(|at| &self.ring[at as usize])
    }

    /// The block did not end.
    pub fn forget(&mut self, class: Class, address: u64) {
        if let Some(at) = self.hide(class, address) {
            self.ring[at].bytes = 0;
        }
    }

    /// Takes the address's end out of the index; its place in the ring.
    fn hide(&mut self, class: Class, address: u64) -> Option<usize> {
        let at = self.position(class, address)?;
        self.index
            .remove(hash::of_address(class as u8, address), at);
        Some(at as usize)
    }

    /// The ends of blocks that were not empty, newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Ended> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        let all = newer.iter().rev().chain(older.iter().rev());
        all.filter(|ended| ended.bytes > 0)
    }

    /// Every remembered end that can be found, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Ended> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        let numbered = (newer.len()..)
            .zip(older)
            .chain((0..).zip(newer))
            .map(|(at, ended)| (at as u32, ended));
        numbered
            .filter(|(at, ended)| self.position(ended.class, ended.address) == Some(*at))
            .map(|(_, ended)| ended)
    }
}
