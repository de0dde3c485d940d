//! Which calls that may move memory are under way: what is read around a measured call is its own only if no other call
//! of the process ran meanwhile, not even one that began before and ended after.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of some threads; each on a cache line of its own, or the threads would wait for each other.
#[repr(align(128))]
struct Lane {
    begun: AtomicU64,
    ended: AtomicU64,
}

static LANES: [Lane; 64] = [const {
    Lane {
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    }
}; 64];

/// A call under way.
pub struct Passage(&'static Lane);

impl Passage {
    /// A call begins, in the thread that is told by an address of its own.
    #[inline]
    pub fn begin(thread: usize) -> Passage {
        let mixed = (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lane = &LANES[(mixed >> 58) as usize];
        // Before anything the call does, for whoever measures.
        lane.begun.fetch_add(1, Ordering::SeqCst);
        Passage(lane)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

fn begun() -> u64 {
    let lanes = LANES.iter();
    lanes.fold(0, |sum, lane| {
        sum.wrapping_add(lane.begun.load(Ordering::SeqCst))
    })
}

fn ended() -> u64 {
    let lanes = LANES.iter();
    lanes.fold(0, |sum, lane| {
        sum.wrapping_add(lane.ended.load(Ordering::SeqCst))
    })
}

/// A stretch of time in which no call is to be under way.
#[derive(Clone, Copy)]
pub struct Quiet(u64);

impl Quiet {
    /// From now on; `None` if one is under way.
    pub fn from_now() -> Option<Quiet> {
        // In this order: a call that ends in between still counts as under way.
        let ended = ended();
        let begun = begun();
        (begun == ended).then_some(Quiet(begun))
    }

    /// True if no call was under way since.
    pub fn until_now(self) -> bool {
        self.0 == begun()
    }
}

/// A stretch of time in which one call alone is to be under way.
#[derive(Clone, Copy)]
pub struct Alone {
    /// Calls begun until then; `None` if it was not alone at the beginning.
    begun: Option<u64>,
}

impl Alone {
    /// From now on; the calling thread's own call is under way.
    pub fn from_now() -> Alone {
        // In the order of `Quiet`.
        let ended = ended();
        let begun = begun();
        Alone {
            begun: (begun.wrapping_sub(ended) == 1).then_some(begun),
        }
    }

    /// True if no other call was under way since.
    pub fn until_now(self) -> bool {
        self.begun == Some(begun())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test, since calls of another one would be under way.
    #[test]
    fn a_call_is_alone_if_no_other_is_under_way_at_any_moment() {
        let quiet = Quiet::from_now().expect("no call is under way");
        assert!(quiet.until_now());
        let own = Passage::begin(1);
        assert!(!quiet.until_now() && Quiet::from_now().is_none());
        let alone = Alone::from_now();
        assert!(alone.until_now());
        // One that begins and ends meanwhile.
        drop(Passage::begin(2));
        assert!(!alone.until_now());
        // One that begins meanwhile, and one that has begun before and ends after.
        let alone = Alone::from_now();
        let other = Passage::begin(2);
        assert!(!alone.until_now());
        let alone = Alone::from_now();
        assert!(!alone.until_now());
        drop(other);
        assert!(!alone.until_now());
        assert!(Alone::from_now().until_now());
        drop(own);
        assert!(Quiet::from_now().is_some() && !quiet.until_now());
    }
}
