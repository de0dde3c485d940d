//! Bytes of one device whose real calls are under way: granted, and perhaps not yet in the driver's figure.
//!
//! Adding before looking at the driver would keep two threads from taking the same bytes, but each might see the other and
//! both fail where one fits. So the bytes are added after the look, and only if nobody has begun or ended since.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the bytes; above them is a count of beginnings, without which one that ended and another of the same size that
/// began would look as if nothing had happened.
const BITS: u32 = 47;
const BYTES: u64 = (1 << BITS) - 1;

/// The largest capacity: what is under way is never more, so that the sum cannot run into the count.
pub const MOST: u64 = BYTES;

/// The sum of what is under way.
pub struct UnderWay(AtomicU64);

/// The sum at an instant.
#[derive(Clone, Copy)]
pub struct Look(u64);

impl Look {
    /// Bytes under way.
    pub fn bytes(self) -> u64 {
        self.0 & BYTES
    }
}

impl UnderWay {
    /// Nothing is.
    pub const fn new() -> UnderWay {
        UnderWay(AtomicU64::new(0))
    }

    /// The sum now. What is looked at afterwards is not older.
    pub fn look(&self) -> Look {
        Look(self.0.load(Ordering::SeqCst))
    }

    /// Adds bytes if nothing has changed since `look`. They and those of the look together are at most `MOST`.
    pub fn begin(&self, look: Look, bytes: u64) -> bool {
        let beginnings = (look.0 & !BYTES).wrapping_add(1 << BITS);
        let next = beginnings | (look.bytes() + bytes);
        self.0
            .compare_exchange(look.0, next, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Takes bytes back that `begin` has added.
    pub fn end(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_begins_on_an_old_look() {
        let place = UnderWay::new();
        let old = place.look();
        assert!(place.begin(old, 60));
        assert!(!place.begin(old, 60));
        assert_eq!(place.look().bytes(), 60);
        let look = place.look();
        place.end(60);
        assert!(!place.begin(look, 1), "one has ended");
        let look = place.look();
        assert!(place.begin(look, MOST));
        assert_eq!(place.look().bytes(), MOST);
    }

    #[test]
    fn one_that_ends_and_another_of_its_size_are_told_apart() {
        let place = UnderWay::new();
        assert!(place.begin(place.look(), 8));
        let look = place.look();
        place.end(8);
        assert!(place.begin(place.look(), 8));
        assert_eq!(place.look().bytes(), look.bytes());
        assert!(!place.begin(look, 8));
    }

    #[test]
    fn the_count_of_beginnings_may_overflow() {
        let place = UnderWay::new();
        for _ in 0..(1 << 17) + 3 {
            assert!(place.begin(place.look(), 5));
            place.end(5);
        }
        assert_eq!(place.look().bytes(), 0);
    }
}
