//! What calls have taken in each context: a context takes it along when it goes, while others of its device live on.

use oomhook_trace::record::CostKind;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Contexts whose costs are told apart; those of more show as what the rest lacks.
const MOST: usize = 64;

/// Contexts being made: they take hundreds of milliseconds, and memory from the beginning on.
static COMING: AtomicU32 = AtomicU32::new(0);

/// A context is being made.
pub struct Coming;

impl Coming {
    /// From now on.
    pub fn begin() -> Coming {
        COMING.fetch_add(1, Ordering::AcqRel);
        Coming
    }

    /// True if any is.
    pub fn is_any() -> bool {
        COMING.load(Ordering::Acquire) != 0
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        COMING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A context, and what was taken in it by purpose.
struct Context {
    handle: AtomicU64,
    is_explicit: AtomicBool,
    taken: [AtomicI64; CostKind::ALL.len()],
}

static CONTEXTS: [Context; MOST] = [const {
    Context {
        handle: AtomicU64::new(0),
        is_explicit: AtomicBool::new(false),
        taken: [const { AtomicI64::new(0) }; CostKind::ALL.len()],
    }
}; MOST];

/// The context's place; a free one becomes its own.
fn place(handle: u64) -> Option<&'static Context> {
    let of = |wanted: u64| {
        let mut all = CONTEXTS.iter();
        all.find(|one| one.handle.load(Ordering::Acquire) == wanted)
    };
    if handle == 0 {
        return None;
    }
    of(handle).or_else(|| {
        CONTEXTS.iter().find(|one| {
            let handles = &one.handle;
            handles
                .compare_exchange(0, handle, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        })
    })
}

/// The program has made one by itself.
static ANY_EXPLICIT: AtomicBool = AtomicBool::new(false);

/// True if the program has ever made a context by itself.
#[inline]
pub fn are_any_explicit() -> bool {
    ANY_EXPLICIT.load(Ordering::Acquire)
}

/// The program has made this context by itself.
pub fn is_explicit(handle: u64) -> bool {
    if !are_any_explicit() {
        return false;
    }
    let mut all = CONTEXTS.iter();
    let known = all.find(|one| one.handle.load(Ordering::Acquire) == handle);
    handle != 0 && known.is_some_and(|one| one.is_explicit.load(Ordering::Acquire))
}

/// A context was made.
pub fn made(handle: u64, is_explicit: bool) {
    if is_explicit {
        ANY_EXPLICIT.store(true, Ordering::Release);
    }
    if let Some(context) = place(handle) {
        context.is_explicit.store(is_explicit, Ordering::Release);
    }
}

/// A call has taken so much in it.
pub fn add(handle: u64, kind: CostKind, bytes: i64) {
    if let Some(context) = place(handle) {
        context.taken[kind as usize - 1].fetch_add(bytes, Ordering::AcqRel);
    }
}

/// The context is gone; what went with it.
pub fn remove(handle: u64) -> Vec<(CostKind, i64)> {
    let mut all = CONTEXTS.iter();
    let Some(context) = all.find(|one| one.handle.load(Ordering::Acquire) == handle) else {
        return Vec::new();
    };
    let taken = CostKind::ALL.map(|kind| {
        let bytes = &context.taken[kind as usize - 1];
        (kind, bytes.swap(0, Ordering::AcqRel))
    });
    context.is_explicit.store(false, Ordering::Release);
    context.handle.store(0, Ordering::Release);
    taken.into_iter().filter(|(_, bytes)| *bytes != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_takes_along_what_was_taken_in_it() {
        let (one, other) = (0x7f00_0000_1000, 0x7f00_0000_2000);
        made(one, true);
        add(one, CostKind::Context, 512);
        add(one, CostKind::Code, 30);
        add(one, CostKind::Code, -10);
        add(other, CostKind::Code, 7);
        assert!(is_explicit(one) && !is_explicit(other));
        let taken = [(CostKind::Context, 512), (CostKind::Code, 20)];
        assert_eq!(remove(one), taken);
        assert_eq!(remove(one), []);
        assert!(!is_explicit(one));
        assert_eq!(remove(other), [(CostKind::Code, 7)]);
    }
}
