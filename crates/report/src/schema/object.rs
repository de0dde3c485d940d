//! The JSON's keys on what takes memory without an allocation: contexts, modules, other objects, limits.

use super::Frame;
use serde::Serialize;
use std::rc::Rc;

/// A context.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// Device.
    pub device: Option<u32>,
    /// Made by `cuCtxCreate`, not a primary one.
    pub explicit: bool,
    /// `primary`, `explicit`, `green` (a part of the device, without memory of its own).
    pub kind: &'static str,
    /// When it was seen first.
    pub time_ns: u64,
    /// When it was destroyed.
    pub destroyed_ns: Option<u64>,
    /// The site that made it; null if its making was not seen.
    pub site: Option<Rc<str>>,
    /// The same with file and line.
    pub label: Option<Rc<str>>,
    /// Its library.
    pub library: Option<Rc<str>>,
    /// The stack that made it; empty if that was not seen.
    pub stack: Rc<[Rc<Frame>]>,
}

/// Loaded device code.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Modules {
    /// Loaded and not unloaded.
    pub live: u64,
    /// Loaded.
    pub loaded: u64,
    /// Unloaded.
    pub unloaded: u64,
    /// Gone with their context.
    pub released: u64,
    /// Bytes of the images that the living ones were loaded from, where known; on the device they take another size.
    pub image_bytes: u64,
}

/// Objects of one kind that hold memory which no allocation call shows.
#[derive(Clone, Debug, Serialize)]
pub struct Objects {
    /// `module`, `library`, `graph_exec`, `graph`, `stream`, `event`, `texture`, `surface`, `green_context`, `pool`.
    pub kind: oomhook_trace::record::Object,
    /// Made and not destroyed.
    pub live: u64,
    /// Ever made.
    pub created: u64,
    /// Ever destroyed.
    pub destroyed: u64,
    /// Gone with their context.
    pub released: u64,
    /// Who made the living ones, most first.
    pub sites: Vec<ObjectSite>,
}

/// Living objects of one kind from one place.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectSite {
    /// The place.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// The call that made them.
    pub call: Rc<str>,
    /// On which device.
    pub device: Option<u32>,
    /// How many live.
    pub live: u64,
    /// How many were made.
    pub created: u64,
    /// Bytes of the images that the living ones were loaded from, where known.
    pub image_bytes: u64,
    /// The stack that made the first one.
    pub stack: Rc<[Rc<Frame>]>,
}

/// A limit that was set.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// On which device.
    pub device: Option<u32>,
    /// Number of the context in `contexts`; absent for the device's primary one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// `stack_size`, `printf_fifo_size`, `malloc_heap_size`, or the driver's number.
    pub limit: String,
    /// The value asked for.
    pub value: u64,
}
