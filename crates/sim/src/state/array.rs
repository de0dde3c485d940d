//! Arrays and mipmapped arrays.

use super::shape::Shape;
use super::{Driver, Stream, Thread};
use crate::abi::Handle;
use crate::abi::array::{DEFERRED, MapInfo, Part, Requirements, SPARSE};
use crate::codes::{Answer, Code, require};
use std::collections::BTreeMap;

/// Memory that is mapped into an array later comes in pages of this.
const PAGE: usize = 64 << 10;

/// What a handle of an array means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Mipmap {
        levels: u32,
    },
    /// An array that is one level of a mipmapped one, and goes with it.
    Level,
}

#[derive(Debug)]
pub(super) struct Array {
    kind: Kind,
    shape: Shape,
    device: usize,
    context: Handle,
    /// Device memory of its own.
    taken: u64,
    /// Handles of the levels that were asked for.
    levels: BTreeMap<u32, Handle>,
    /// Physical handles that are mapped into parts of it.
    parts: BTreeMap<(i32, Part), u64>,
}

impl Driver {
    /// `cuArrayCreate`, `cuArray3DCreate`.
    pub fn create_array(&mut self, thread: Thread, shape: Shape) -> Answer<Handle> {
        self.add_array(thread, Kind::Array, shape, shape.bytes())
    }

    /// `cuMipmappedArrayCreate`; more levels than there can be are as many as there can be.
    pub fn create_mipmap(&mut self, thread: Thread, shape: Shape, levels: u32) -> Answer<Handle> {
        let levels = shape.levels(levels);
        let bytes = shape.mipmap_bytes(levels);
        self.add_array(thread, Kind::Mipmap { levels }, shape, bytes)
    }

    fn add_array(
        &mut self,
        thread: Thread,
        kind: Kind,
        shape: Shape,
        bytes: u64,
    ) -> Answer<Handle> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        shape.check()?;
        let device = self.device_of(context);
        let later = shape.flags & (SPARSE | DEFERRED) != 0;
        let taken = if later { 0 } else { bytes };
        self.take(device, taken)?;
        Ok(self.insert_array(kind, shape, context, taken))
    }

    fn insert_array(&mut self, kind: Kind, shape: Shape, context: Handle, taken: u64) -> Handle {
        let handle = self.new_handle();
        let array = Array {
            kind,
            shape,
            device: self.device_of(context),
            context,
            taken,
            levels: BTreeMap::new(),
            parts: BTreeMap::new(),
        };
        self.arrays.insert(handle, array);
        handle
    }

    /// A mipmapped array that lies in memory of somebody else, with levels that were counted.
    pub(super) fn foreign_mipmap(&mut self, context: Handle, shape: Shape, levels: u32) -> Handle {
        self.insert_array(Kind::Mipmap { levels }, shape, context, 0)
    }

    fn array(&self, handle: Handle) -> Answer<&Array> {
        self.arrays.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    fn is_mipmap(&self, handle: Handle) -> Answer<bool> {
        Ok(matches!(self.array(handle)?.kind, Kind::Mipmap { .. }))
    }

    /// Whether a handle is an array (`mipmap`: a mipmapped one) that lives.
    pub fn known_array(&self, handle: Handle, mipmap: bool) -> Answer<()> {
        let same = self.is_mipmap(handle)? == mipmap;
        same.then_some(()).ok_or(Code::INVALID_HANDLE)
    }

    /// `cuArrayDestroy`, `cuMipmappedArrayDestroy`. A level goes with its mipmap only.
    pub fn destroy_array(&mut self, thread: Thread, handle: Handle, mipmap: bool) -> Answer<()> {
        self.known_array(handle, mipmap)?;
        if self.array(handle)?.kind == Kind::Level {
            return Err(Code::INVALID_HANDLE);
        }
        self.refuse_in_capture(thread)?;
        self.drop_array(handle);
        Ok(())
    }

    fn drop_array(&mut self, handle: Handle) {
        let Some(array) = self.arrays.remove(&handle) else {
            return;
        };
        self.give(array.device, array.taken);
        for level in array.levels.values() {
            self.arrays.remove(level);
        }
        for memory in array.parts.values() {
            self.unmap_physical(*memory);
        }
    }

    /// `cuMipmappedArrayGetLevel`: the same handle for the same level.
    pub fn mipmap_level(&mut self, handle: Handle, level: u32) -> Answer<Handle> {
        self.known_array(handle, true)?;
        let array = self.array(handle)?;
        require(matches!(array.kind, Kind::Mipmap { levels } if level < levels))?;
        if let Some(&known) = array.levels.get(&level) {
            return Ok(known);
        }
        let (shape, context) = (array.shape.level(level), array.context);
        let made = self.insert_array(Kind::Level, shape, context, 0);
        if let Some(array) = self.arrays.get_mut(&handle) {
            array.levels.insert(level, made);
        }
        Ok(made)
    }

    /// What an array looks like.
    pub fn array_shape(&self, handle: Handle) -> Answer<Shape> {
        self.known_array(handle, false)?;
        Ok(self.array(handle)?.shape)
    }

    /// What memory an array wants: only those answer that get it later and as a whole.
    pub fn array_requirements(
        &self,
        handle: Handle,
        device: i32,
        mipmap: bool,
    ) -> Answer<Requirements> {
        self.device(device)?;
        self.known_array(handle, mipmap)?;
        let Array { shape, kind, .. } = self.array(handle)?;
        require(shape.flags & DEFERRED != 0)?;
        let bytes = match kind {
            Kind::Mipmap { levels } => shape.mipmap_bytes(*levels),
            _ => shape.bytes(),
        };
        Ok(Requirements {
            size: (bytes as usize).next_multiple_of(PAGE),
            alignment: PAGE,
            reserved: [0; 4],
        })
    }

    /// One element of `cuMemMapArrayAsync`: maps a physical handle into a part of an array, or
    /// takes what is there away.
    pub fn map_array(&mut self, thread: Thread, stream: Stream, info: MapInfo) -> Answer<()> {
        self.work(thread, stream)?;
        self.known_array(info.resource, info.resource_kind == 1)?;
        let array = self.array(info.resource)?;
        require(array.kind != Kind::Level && array.shape.flags & (SPARSE | DEFERRED) != 0)?;
        require(matches!(info.part_kind, 0 | 1) && matches!(info.resource_kind, 0 | 1))?;
        require(info.memory_kind == 0 && info.flags == 0)?;
        match info.operation {
            1 => self.map_physical(info.memory, info.offset, 0)?,
            2 => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        let key = (info.part_kind, info.part);
        let before = self.arrays.get_mut(&info.resource).and_then(|array| {
            if info.operation == 1 {
                array.parts.insert(key, info.memory)
            } else {
                array.parts.remove(&key)
            }
        });
        if let Some(memory) = before {
            self.unmap_physical(memory);
        }
        Ok(())
    }

    pub(super) fn drop_arrays_of(&mut self, context: Handle) {
        let of = |array: &Array| array.context == context;
        let gone: Vec<Handle> = self
            .arrays
            .iter()
            .filter(|(_, array)| of(array))
            .map(|(&handle, _)| handle)
            .collect();
        for handle in gone {
            self.drop_array(handle);
        }
    }
}

#[cfg(test)]
#[path = "array_tests.rs"]
mod tests;
