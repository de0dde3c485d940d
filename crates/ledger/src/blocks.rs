//! The living blocks: 64 bytes each, in slots that never move, found by class and address.

use crate::amount::Amount;
use crate::hash;
use crate::index::Index;
use crate::rows::RowId;
use oomhook_trace::Space;
use serde::{Deserialize, Serialize};

/// Addresses are unique within a class only: a handle may have the value of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Class {
    /// Pointers that a free call takes.
    Pointer,
    /// Registered host ranges.
    Registered,
    /// Array handles.
    Array,
    /// Physical memory handles.
    Handle,
    /// Reserved ranges.
    Reserved,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 5] = [
        Class::Pointer,
        Class::Registered,
        Class::Array,
        Class::Handle,
        Class::Reserved,
    ];

    /// The class of a space's addresses.
    #[must_use]
    pub fn of(space: Space) -> Class {
        match space {
            Space::Registered => Class::Registered,
            Space::Array => Class::Array,
            Space::Vmm => Class::Handle,
            Space::ReservedVa => Class::Reserved,
            Space::Device
            | Space::Async
            | Space::Graph
            | Space::Managed
            | Space::Pinned
            | Space::Imported => Class::Pointer,
        }
    }

    /// True if an address can lie inside a block of this class.
    #[must_use]
    pub fn has_interior(self) -> bool {
        matches!(self, Class::Pointer | Class::Registered | Class::Reserved)
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Nothing.
    Vacant,
    /// A living block.
    Live,
    /// A block whose end was announced and may still be taken back.
    Limbo,
}

/// One block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Block {
    /// Pointer or handle.
    pub address: u64,
    /// Bytes handed out.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Stream of the allocation, or 0.
    pub stream: u64,
    /// When it came.
    pub time_ns: u64,
    /// Number of the allocation; 0 for blocks that are no allocation.
    pub number: u64,
    /// Its origin.
    pub row: RowId,
    /// Its context, by our number.
    pub context: u32,
    pub(crate) generation: u32,
    /// Where.
    pub space: Space,
    pub(crate) state: State,
}

impl Block {
    /// Its share of a sum.
    #[must_use]
    pub fn amount(&self) -> Amount {
        Amount::block(self.bytes, self.requested)
    }

    /// True if `address` lies inside, but not at the start.
    #[must_use]
    pub fn contains_inside(&self, address: u64) -> bool {
        address > self.address && address - self.address < self.bytes
    }
}

/// A slot as of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slot {
    pub(crate) number: u32,
    pub(crate) generation: u32,
}

const PER_CHUNK: usize = 4096;

/// All blocks.
#[derive(Clone, Default)]
pub struct Blocks {
    // Chunks keep growth from moving (and for a while doubling) everything.
    chunks: Vec<Vec<Block>>,
    vacant: Vec<u32>,
    index: Index,
}

impl Blocks {
    fn slot_count(&self) -> usize {
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * PER_CHUNK + last.len())
    }

    fn at(&self, number: u32) -> &Block {
        &self.chunks[number as usize / PER_CHUNK][number as usize % PER_CHUNK]
    }

    fn at_mut(&mut self, number: u32) -> &mut Block {
        &mut self.chunks[number as usize / PER_CHUNK][number as usize % PER_CHUNK]
    }

    /// The slot's block, if the tenant is still the same.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&Block> {
        let chunk = self.chunks.get(slot.number as usize / PER_CHUNK)?;
        let block = chunk.get(slot.number as usize % PER_CHUNK)?;
        (block.generation == slot.generation && block.state != State::Vacant).then_some(block)
    }

    /// Puts a block into a slot, without making it findable.
    pub fn place(&mut self, mut block: Block) -> Slot {
        if let Some(number) = self.vacant.pop() {
            let place = self.at_mut(number);
            block.generation = place.generation.wrapping_add(1);
            *place = block;
            return Slot {
                number,
                generation: block.generation,
            };
        }
        let number = self.slot_count() as u32;
        block.generation = 0;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < PER_CHUNK => chunk.push(block),
            _ => {
                let mut chunk = Vec::with_capacity(PER_CHUNK);
                chunk.push(block);
                self.chunks.push(chunk);
            }
        }
        Slot {
            number,
            generation: 0,
        }
    }

    /// Marks a slot as living or in limbo.
    pub fn set_state(&mut self, slot: Slot, state: State) {
        if self.get(slot).is_some() {
            self.at_mut(slot.number).state = state;
        }
    }

    /// Empties a slot.
    pub fn release(&mut self, slot: Slot) {
        if self.get(slot).is_some() {
            self.at_mut(slot.number).state = State::Vacant;
            self.vacant.push(slot.number);
        }
    }

    /// The findable block of this class at this address.
    #[must_use]
    pub fn find(&self, class: Class, address: u64) -> Option<Slot> {
        let number = self
            .index
            .find(hash::of_address(class as u8, address), |number| {
                let block = self.at(number);
                block.address == address && Class::of(block.space) == class
            })?;
        Some(Slot {
            number,
            generation: self.at(number).generation,
        })
    }

    /// Makes a block findable by its address.
    pub fn show(&mut self, slot: Slot) {
        let Some(block) = self.get(slot) else { return };
        let hash = hash::of_address(Class::of(block.space) as u8, block.address);
        self.index.insert(hash, slot.number);
    }

    /// Makes a block not findable; false if it was not.
    pub fn hide(&mut self, slot: Slot) -> bool {
        let Some(block) = self.get(slot) else {
            return false;
        };
        let hash = hash::of_address(Class::of(block.space) as u8, block.address);
        self.index.remove(hash, slot.number)
    }

    /// True if the block can be found by its address.
    #[must_use]
    pub fn is_shown(&self, slot: Slot) -> bool {
        self.get(slot)
            .is_some_and(|block| self.find(Class::of(block.space), block.address) == Some(slot))
    }

    /// Every living block, in no order.
    pub fn live(&self) -> impl Iterator<Item = (Slot, &Block)> {
        self.occupied()
            .filter(|(_, block)| block.state == State::Live)
    }

    /// Every slot that holds something.
    pub fn occupied(&self) -> impl Iterator<Item = (Slot, &Block)> {
        let blocks = self.chunks.iter().flatten().enumerate();
        blocks
            .filter(|(_, block)| block.state != State::Vacant)
            .map(|(number, block)| {
                let slot = Slot {
                    number: number as u32,
                    generation: block.generation,
                };
                (slot, block)
            })
    }

    /// Slots in use or once used; what a scan of all blocks costs.
    #[must_use]
    pub fn scan_cost(&self) -> u64 {
        self.slot_count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_costs_one_cache_line() {
        assert_eq!(std::mem::size_of::<Block>(), 64);
    }
}
