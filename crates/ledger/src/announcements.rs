//! Ends that were announced before the real call and may still be taken back.
//!
//! A thread has at most a few open at once (a call inside a call); what is older than that has happened.

use crate::blocks::Slot;
use crate::hash::Map;
use crate::vmm::Mapping;
use oomhook_trace::record::CallId;
use oomhook_trace::{Event, Space, StackId, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Most announcements a thread can have open.
pub const OPEN: usize = 4;

/// Who did something, when, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// When.
    pub time_ns: u64,
    /// Stack.
    pub stack: StackId,
    /// Thread.
    pub thread: ThreadId,
    /// Call.
    pub call: CallId,
}

impl From<&Event> for Origin {
    fn from(event: &Event) -> Origin {
        Origin {
            time_ns: event.time_ns,
            stack: event.stack,
            thread: event.thread,
            call: event.call,
        }
    }
}

/// An announced end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// What was announced: pointer, handle, context, or device number.
    pub address: u64,
    /// Counts the announcements of all threads, so that those of one address can be told apart.
    pub serial: u64,
    /// Who announced it.
    pub origin: Origin,
    /// What it did.
    pub effect: Effect,
}

/// What an announcement did to the books.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// A free of an address where nothing lived.
    FreeUnknown {
        /// Family of the call.
        family: Space,
        /// Whether it was counted as a free.
        counted: bool,
    },
    /// One of several references went.
    Dereferenced {
        /// Whose.
        slot: Slot,
    },
    /// A free, or the last reference.
    Freed {
        /// Whose.
        slot: Slot,
        /// The call was of another family.
        crossed: bool,
        /// It was ordered by another stream than the allocation.
        #[serde(default)]
        elsewhere: bool,
    },
    /// Mappings went.
    Unmapped {
        /// Which.
        mappings: Vec<(u64, Mapping)>,
    },
    /// A context went, or a device was reset.
    Released {
        /// With these blocks.
        slots: Vec<Slot>,
        /// The destroyed context, by our number; none for a reset.
        context: Option<u32>,
    },
}

impl Effect {
    /// The blocks it is about. Those that ended keep their slots until the announcement is final.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Effect::FreeUnknown { .. } => Vec::new(),
            Effect::Dereferenced { slot } | Effect::Freed { slot, .. } => vec![*slot],
            Effect::Unmapped { mappings } => {
                mappings.iter().map(|(_, mapping)| mapping.slot).collect()
            }
            Effect::Released { slots, .. } => slots.clone(),
        }
    }
}

/// The open announcements of all threads.
#[derive(Clone, Default)]
pub struct Announcements {
    threads: Map<ThreadId, VecDeque<Announcement>>,
    serial: u64,
}

impl Announcements {
    /// Adds one; returns one that is final now.
    pub fn announce(
        &mut self,
        origin: Origin,
        address: u64,
        effect: Effect,
    ) -> Option<Announcement> {
        self.serial += 1;
        let open = self.threads.entry(origin.thread).or_default();
        let last = (open.len() >= OPEN).then(|| open.pop_front()).flatten();
        open.push_back(Announcement {
            address,
            serial: self.serial,
            origin,
            effect,
        });
        last
    }

    /// Takes back the thread's newest announcement of this address.
    pub fn take(&mut self, thread: ThreadId, address: u64) -> Option<Announcement> {
        let open = self.threads.get_mut(&thread)?;
        let at = open.iter().rposition(|one| one.address == address)?;
        open.remove(at)
    }

    /// A later announcement by another thread that freed the same address and found nothing there.
    pub fn rival(&mut self, address: u64, serial: u64) -> Option<&mut Announcement> {
        let all = self.threads.values_mut().flatten();
        all.filter(|one| one.address == address && one.serial > serial)
            .find(|one| matches!(one.effect, Effect::FreeUnknown { .. }))
    }

    /// The thread has ended: all of its announcements are final.
    pub fn finish_thread(&mut self, thread: ThreadId) -> Vec<Announcement> {
        self.threads
            .remove(&thread)
            .map(Vec::from)
            .unwrap_or_default()
    }

    /// Every open announcement, thread by thread, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, &Announcement)> {
        self.threads
            .iter()
            .flat_map(|(thread, open)| open.iter().map(|one| (*thread, one)))
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn restore(&mut self, serial: u64, open: Vec<(ThreadId, Announcement)>) {
        self.serial = serial;
        for (thread, one) in open {
            self.threads.entry(thread).or_default().push_back(one);
        }
    }
}
