//! The native frames of the calling thread: by our own walk where the unwind rules are understood, by libgcc's where
//! they are not.

#[cfg(target_arch = "x86_64")]
mod bounds;
#[cfg(target_arch = "x86_64")]
mod cache;
mod captures;
#[cfg(target_arch = "x86_64")]
mod expression;
pub mod libgcc;
#[cfg(target_arch = "x86_64")]
mod remembered;
#[cfg(target_arch = "x86_64")]
mod rule;
#[cfg(target_arch = "x86_64")]
pub mod unwind_info;
#[cfg(target_arch = "x86_64")]
pub mod walk;

use super::room::Room;
pub use captures::Captures;

/// A native frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Where it goes on when its callee returns.
    pub address: u64,
    /// Its stack pointer then: its own memory on the stack begins here, and ends at the next outer frame's.
    pub stack: u64,
}

/// Most native frames that any setting can ask for.
pub const MOST_FRAMES: usize = oomhook_report::settings::MOST_FRAMES;

/// The frames of a stack, innermost first.
pub type Frames = Room<Frame, MOST_FRAMES>;

/// True if the thread's stack has room for a capture. (Of a coroutine's stack nobody knows the size: the kernel is asked.)
#[inline]
pub fn has_room() -> bool {
    #[cfg(target_arch = "x86_64")]
    return bounds::has_room(NEEDED);
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Bytes of the stack that a capture may take: a rule that is read for the first time, or libgcc's walk.
#[cfg(target_arch = "x86_64")]
const NEEDED: u64 = 24 << 10;

/// Makes what a capture needs ready.
pub fn warm_up() {
    #[cfg(target_arch = "x86_64")]
    unwind_info::prepare();
    // libgcc's first walk is slow and may allocate.
    libgcc::capture(&mut Frames::new(8));
}

/// The calling thread ends.
pub fn forget() {
    #[cfg(target_arch = "x86_64")]
    remembered::forget();
}
