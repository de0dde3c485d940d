//! Objects that hold memory which no allocation call shows: modules, graphs, streams, events, textures. Counted by kind,
//! and by the place that made them.

use crate::belongings::goes_with_its_context;
use crate::hash::Map;
use oomhook_trace::record::{CallId, Object};
use oomhook_trace::{Event, StackId};
use serde::{Deserialize, Serialize};

/// Objects of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Count {
    /// Made and not destroyed.
    pub live: u64,
    /// Ever made.
    pub created: u64,
    /// Ever destroyed.
    pub destroyed: u64,
    /// Gone with their context.
    pub released: u64,
    /// Bytes of the images of the living ones, where known.
    pub bytes: u64,
}

/// Objects of one kind from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectSite {
    /// What they are.
    pub object: Object,
    /// Who made them.
    pub stack: StackId,
    /// By which call.
    pub call: CallId,
    /// On which device.
    pub device: Option<u8>,
    /// How many.
    pub count: Count,
}

/// All objects of a process.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    counts: [Count; Object::ALL.len()],
    sites: Vec<ObjectSite>,
    numbers: Map<(Object, StackId, CallId, Option<u8>), u32>,
    live: Map<(Object, u64), (u32, u64)>,
    /// The context of those that are not in their device's primary one.
    owners: Map<(Object, u64), u64>,
}

/// What a checkpoint keeps of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedObjects {
    counts: Vec<Count>,
    sites: Vec<ObjectSite>,
    live: Vec<(Object, u64, u32, u64)>,
    owners: Vec<(Object, u64, u64)>,
}

impl Objects {
    pub(crate) fn create(&mut self, event: &Event, object: Object, handle: u64, bytes: u64) {
        // Its end was not seen: the handle is given out again.
        self.forget(object, handle, |_| ());
        let key = (object, event.stack, event.call, event.device);
        let next = self.sites.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.sites.push(ObjectSite {
                object,
                stack: event.stack,
                call: event.call,
                device: event.device,
                count: Count::default(),
            });
        }
        self.live.insert((object, handle), (number, bytes));
        let site = &mut self.sites[number as usize].count;
        for count in [site, &mut self.counts[object as usize - 1]] {
            count.created += 1;
            count.live += 1;
            count.bytes += bytes;
        }
    }

    /// An end of an object whose making was not seen counts for nothing.
    pub(crate) fn destroy(&mut self, object: Object, handle: u64) {
        self.forget(object, handle, |count| count.destroyed += 1);
    }

    /// A living one is in this context.
    pub(crate) fn owned(&mut self, object: Object, handle: u64, context: u64) {
        if self.live.contains_key(&(object, handle)) {
            self.owners.insert((object, handle), context);
        }
    }

    /// A context is gone, and what was in it; 0 for the primary one of the device.
    pub(crate) fn gone_with(&mut self, context: u64, device: Option<u8>) {
        let goes = |key: &(Object, u64), number: u32| {
            let owner = self.owners.get(key).copied().unwrap_or(0);
            let site = self.sites.get(number as usize);
            let is_here = context != 0 || site.is_some_and(|site| site.device == device);
            goes_with_its_context(key.0) && owner == context && is_here
        };
        let live = self.live.iter();
        let gone: Vec<(Object, u64)> = live
            .filter(|(key, (number, _))| goes(key, *number))
            .map(|(key, _)| *key)
            .collect();
        for (object, handle) in gone {
            self.forget(object, handle, |count| count.released += 1);
        }
    }

    fn forget(&mut self, object: Object, handle: u64, also: impl Fn(&mut Count)) {
        self.owners.remove(&(object, handle));
        let Some((number, bytes)) = self.live.remove(&(object, handle)) else {
            return;
        };
        let site = self
            .sites
            .get_mut(number as usize)
            .map(|site| &mut site.count);
        let all = Some(&mut self.counts[object as usize - 1]);
        for count in [site, all].into_iter().flatten() {
            count.live = count.live.saturating_sub(1);
            count.bytes = count.bytes.saturating_sub(bytes);
            also(count);
        }
    }

    /// The objects of a kind.
    #[must_use]
    pub fn count(&self, object: Object) -> Count {
        self.counts[object as usize - 1]
    }

    /// The places that made objects, in order of their first one.
    #[must_use]
    pub fn sites(&self) -> &[ObjectSite] {
        &self.sites
    }

    pub(crate) fn save(&self) -> SavedObjects {
        let live = self.live.iter();
        SavedObjects {
            counts: self.counts.to_vec(),
            sites: self.sites.clone(),
            live: live
                .map(|((object, handle), (number, bytes))| (*object, *handle, *number, *bytes))
                .collect(),
            owners: self
                .owners
                .iter()
                .map(|((object, handle), context)| (*object, *handle, *context))
                .collect(),
        }
    }

    pub(crate) fn restore(saved: SavedObjects) -> Objects {
        let mut objects = Objects::default();
        for (count, saved) in objects.counts.iter_mut().zip(saved.counts) {
            *count = saved;
        }
        for (site, number) in saved.sites.iter().zip(0..) {
            objects
                .numbers
                .insert((site.object, site.stack, site.call, site.device), number);
        }
        objects.sites = saved.sites;
        let live = saved.live.into_iter();
        objects.live = live
            .map(|(object, handle, number, bytes)| ((object, handle), (number, bytes)))
            .collect();
        let owners = saved.owners.into_iter();
        objects.owners = owners
            .map(|(object, handle, context)| ((object, handle), context))
            .collect();
        objects
    }
}
