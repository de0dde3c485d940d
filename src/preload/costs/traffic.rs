//! Which calls that may move memory are under way: what is read around a measured call is its own only if no other call
//! of the process that may move memory of this device ran meanwhile, not even one that began before and ended after.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of some threads; each on a cache line of its own, or the threads would wait for each other.
#[repr(align(128))]
struct Lane {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Lane {
    const fn new() -> Lane {
        Lane {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }
}

/// Calls that may move memory of any device (a free does not say of which).
static LANES: [Lane; 64] = [const { Lane::new() }; 64];

/// Calls that can only move memory of one, by device: rare ones, which are measured themselves.
static DEVICES: [Lane; 64] = [const { Lane::new() }; 64];

/// Of which devices a call may move memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any.
    Any,
    /// The one of the current context.
    Current,
    /// This one.
    On(u8),
}

fn of_device(device: u8) -> Option<&'static Lane> {
    DEVICES.get(usize::from(device))
}

/// A call under way.
pub struct Passage(&'static Lane);

impl Passage {
    /// A call begins that may move memory of any device, in the thread that is told by an address of its own.
    #[inline]
    pub fn begin(thread: usize) -> Passage {
        let mixed = (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Passage::on(&LANES[(mixed >> 58) as usize])
    }

    /// A call begins that can only move memory of this device; `None` for one that is not told apart.
    pub fn begin_on(device: u8) -> Option<Passage> {
        of_device(device).map(Passage::on)
    }

    #[inline]
    fn on(lane: &'static Lane) -> Passage {
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

fn begun<'a>(lanes: impl Iterator<Item = &'a Lane>) -> u64 {
    lanes.fold(0, |sum, lane| {
        sum.wrapping_add(lane.begun.load(Ordering::SeqCst))
    })
}

fn ended<'a>(lanes: impl Iterator<Item = &'a Lane>) -> u64 {
    lanes.fold(0, |sum, lane| {
        sum.wrapping_add(lane.ended.load(Ordering::SeqCst))
    })
}

fn all() -> impl Iterator<Item = &'static Lane> {
    LANES.iter().chain(&DEVICES)
}

/// Calls that may move memory of a device.
fn moving(device: u8) -> impl Iterator<Item = &'static Lane> {
    LANES.iter().chain(of_device(device))
}

/// A stretch of time in which no call is to be under way.
#[derive(Clone, Copy)]
pub struct Quiet(u64);

impl Quiet {
    /// From now on; `None` if one is under way.
    pub fn from_now() -> Option<Quiet> {
        // In this order: a call that ends in between still counts as under way.
        let ended = ended(all());
        let begun = begun(all());
        (begun == ended).then_some(Quiet(begun))
    }

    /// True if no call was under way since.
    pub fn until_now(self) -> bool {
        self.0 == begun(all())
    }
}

/// A stretch of time in which one call alone is to move memory of a device.
#[derive(Clone, Copy)]
pub struct Alone {
    device: u8,
    /// Calls begun until then; `None` if it was not alone at the beginning.
    begun: Option<u64>,
}

impl Alone {
    /// From now on; the calling thread's own call is under way.
    pub fn from_now(device: u8) -> Alone {
        // In the order of `Quiet`.
        let ended = ended(moving(device));
        let begun = begun(moving(device));
        Alone {
            device,
            begun: (begun.wrapping_sub(ended) == 1).then_some(begun),
        }
    }

    /// True if no other call was under way since.
    pub fn until_now(self) -> bool {
        self.begun == Some(begun(moving(self.device)))
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
        let alone = Alone::from_now(0);
        assert!(alone.until_now());
        // One that begins and ends meanwhile.
        drop(Passage::begin(2));
        assert!(!alone.until_now());
        // One that begins meanwhile, and one that has begun before and ends after.
        let alone = Alone::from_now(0);
        let other = Passage::begin(2);
        assert!(!alone.until_now());
        let alone = Alone::from_now(0);
        assert!(!alone.until_now());
        drop(other);
        assert!(!alone.until_now());
        assert!(Alone::from_now(0).until_now());
        drop(own);
        assert!(Quiet::from_now().is_some() && !quiet.until_now());
        // Calls on two devices do not disturb each other; one that may be on any disturbs both.
        let (first, second) = (Passage::begin_on(0), Passage::begin_on(1));
        assert!(first.is_some() && second.is_some());
        let (one, other) = (Alone::from_now(0), Alone::from_now(1));
        drop(Passage::begin_on(1));
        assert!(one.until_now() && !other.until_now());
        drop(Passage::begin(3));
        assert!(!one.until_now() && Quiet::from_now().is_none());
        drop((first, second));
        assert!(Quiet::from_now().is_some());
        assert!(Passage::begin_on(200).is_none());
    }
}
