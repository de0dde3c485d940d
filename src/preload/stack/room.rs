//! Room on our own stack for a list of bounded length. It is not cleared first: that would cost more than a short stack does.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// A list of at most `N` items.
pub struct Room<T, const N: usize> {
    items: [MaybeUninit<T>; N],
    length: usize,
    limit: usize,
    /// Something found no room.
    is_cut: bool,
}

impl<T: Copy, const N: usize> Room<T, N> {
    /// Nothing yet, and never more than `limit` items.
    #[inline]
    pub fn new(limit: usize) -> Room<T, N> {
        Room {
            items: [const { MaybeUninit::uninit() }; N],
            length: 0,
            limit: limit.min(N),
            is_cut: false,
        }
    }

    /// Empty again, and never more than `limit` items.
    #[inline]
    pub fn reset(&mut self, limit: usize) {
        self.clear();
        self.limit = limit.min(N);
    }

    /// Most items that it takes.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// True if an item was refused.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Something is left out.
    #[cfg(target_arch = "x86_64")]
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Adds an item; false if there is no more room.
    #[inline]
    pub fn push(&mut self, item: T) -> bool {
        if self.length >= self.limit {
            self.is_cut = true;
            return false;
        }
        self.items[self.length].write(item);
        self.length += 1;
        true
    }

    /// Takes all items out.
    pub fn clear(&mut self) {
        self.length = 0;
        self.is_cut = false;
    }
}

impl<T, const N: usize> Deref for Room<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` items have been written, by `push` alone.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.length) }
    }
}

impl<T, const N: usize> DerefMut for Room<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn it_takes_what_it_has_room_for() {
        let mut room: Room<u64, 4> = Room::new(9);
        assert!((0..4).all(|number| room.push(number)));
        assert!(!room.is_cut() && !room.push(4) && room.is_cut());
        assert_eq!(&room[..], [0, 1, 2, 3]);
        room[1] = 9;
        assert_eq!(&room[..], [0, 9, 2, 3]);
        room.clear();
        assert!(room.is_empty() && room.push(7));
        assert_eq!(&room[..], [7]);
        assert!(!Room::<u64, 4>::new(0).push(1));
    }
}
