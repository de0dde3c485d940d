//! A hasher for small keys of integers: the keys are the driver's and ours, nobody attacks them, and every event pays.

use std::hash::{BuildHasherDefault, Hasher};

/// A map with small integer keys.
pub type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Multiplies and rotates.
#[derive(Clone, Copy, Default)]
pub struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(FACTOR);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits and its tag from the high ones; the product is best in the middle.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}

/// 32 well-mixed bits of an address within its class.
pub fn of_address(class: u8, address: u64) -> u32 {
    let mixed = (address ^ (u64::from(class) << 58)).wrapping_mul(FACTOR);
    ((mixed ^ (mixed >> 29)).wrapping_mul(FACTOR) >> 32) as u32
}
