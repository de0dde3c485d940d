//! What belongs to a context beside memory, and goes with it: objects, limits.
//!
//! Most programs have one context for each device, the primary one. What belongs to it is known by the device, so only what
//! belongs to others is told of.

use crate::ledger::Ledger;
use oomhook_trace::record::{Deed, Object};
use serde::{Deserialize, Serialize};

/// A limit of a context that is not its device's primary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitIn {
    /// The driver's value for the context.
    pub context: u64,
    /// Its device.
    pub device: Option<u8>,
    /// The driver's number of the limit.
    pub limit: u32,
    /// The limit.
    pub value: u64,
}

/// All of them, in the order of their first setting.
pub type LimitsIn = Vec<LimitIn>;

/// True for what no longer exists once its context is gone. A library is the process's, a graph and a pool are nobody's.
pub(crate) fn goes_with_its_context(object: Object) -> bool {
    matches!(
        object,
        Object::Module
            | Object::GraphExec
            | Object::Stream
            | Object::Event
            | Object::Texture
            | Object::Surface
    )
}

impl Ledger {
    pub(crate) fn made_in(&mut self, deed: &Deed) {
        if let Some(object) = Object::from_wire(deed.value) {
            self.objects.owned(object, deed.subject, deed.other);
        }
    }

    pub(crate) fn limit_in(&mut self, deed: &Deed) {
        let limit = u32::try_from(deed.subject).unwrap_or(u32::MAX);
        let mut known = self.limits_in.iter_mut();
        match known.find(|one| (one.context, one.limit) == (deed.other, limit)) {
            Some(known) => known.value = deed.value,
            None => self.limits_in.push(LimitIn {
                context: deed.other,
                device: deed.device,
                limit,
                value: deed.value,
            }),
        }
    }

    pub(crate) fn context_gone(&mut self, deed: &Deed) {
        let is_primary = deed.value == 0;
        if is_primary {
            if deed.device.is_some() {
                self.objects.gone_with(0, deed.device);
                self.limits.retain(|(device, _), _| *device != deed.device);
                self.contexts.primary_gone(deed.device, deed.time_ns);
            }
        } else {
            self.objects.gone_with(deed.subject, deed.device);
            self.limits_in.retain(|one| one.context != deed.subject);
        }
    }
}
