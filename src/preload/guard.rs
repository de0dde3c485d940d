//! What a thread is in the middle of: keeps our own work from being recorded, one call from being counted twice, and a
//! runtime's name on the driver calls below it.

use super::hooks::RowId;
use std::cell::Cell;

/// No row.
pub const NO_ROW: RowId = RowId::MAX;

/// Addresses remembered of the calls that happen inside a call.
const NESTED: usize = 4;

/// A thread's own state. Const-initialised and without a destructor, so that touching it can neither allocate nor
/// register anything; it stays usable while the thread's other locals are being destroyed.
pub struct Thread {
    /// We are at work: a hook entered now forwards and does nothing else.
    pub busy: Cell<bool>,
    /// Driver calls entered and not left.
    pub depth: Cell<u32>,
    /// The outermost runtime call in progress.
    pub label: Cell<RowId>,
    /// A driver hook has recorded since the runtime call began.
    pub recorded: Cell<bool>,
    /// Addresses that inner calls recorded while an outer call is in progress: the outer call may return the same
    /// block (a v1 entry that calls v2, a wrapper below us), which is then no second allocation.
    nested: [Cell<u64>; NESTED],
    next_nested: Cell<usize>,
    /// Address of the free in progress: a nested free of the same address is the same free.
    pub freeing: Cell<u64>,
    /// The thread's number in the trace.
    pub id: Cell<u32>,
}

/// Not yet numbered.
pub const NO_ID: u32 = u32::MAX;

thread_local! {
    static THREAD: Thread = const {
        Thread {
            busy: Cell::new(false),
            depth: Cell::new(0),
            label: Cell::new(NO_ROW),
            recorded: Cell::new(false),
            nested: [const { Cell::new(0) }; NESTED],
            next_nested: Cell::new(0),
            freeing: Cell::new(0),
            id: Cell::new(NO_ID),
        }
    };
}

/// Runs `work` with the calling thread's state.
#[inline]
pub fn with<T>(work: impl FnOnce(&Thread) -> T) -> T {
    THREAD.with(work)
}

impl Thread {
    /// Notes an address that was recorded inside a call in progress.
    pub fn note_nested(&self, address: u64) {
        if self.depth.get() > 1 {
            let at = self.next_nested.get();
            self.nested[at % NESTED].set(address);
            self.next_nested.set(at.wrapping_add(1));
        }
    }

    /// True if an inner call of the call in progress has recorded this address already.
    pub fn was_nested(&self, address: u64) -> bool {
        self.next_nested.get() != 0 && self.nested.iter().any(|seen| seen.get() == address)
    }

    /// Forgets the inner calls (the outermost call is over).
    pub fn forget_nested(&self) {
        if self.next_nested.get() != 0 {
            self.nested.iter().for_each(|seen| seen.set(0));
            self.next_nested.set(0);
        }
    }
}

/// Marks the thread as busy with our own work until dropped.
pub struct Busy;

impl Busy {
    /// `None` if it is busy already.
    pub fn enter() -> Option<Busy> {
        with(|thread| {
            if thread.busy.replace(true) {
                None
            } else {
                Some(Busy)
            }
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        with(|thread| thread.busy.set(false));
    }
}
