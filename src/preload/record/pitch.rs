//! Pitched memory: rows that the driver pads by a rule of its own, so that the size is known only after the call.

use super::memory::{Out, allocated};
use super::{Call, Recipe, failure};
use crate::preload::devices;
use crate::preload::hooks::abi::{Code, Extent, PitchedPointer, SUCCESS};
use crate::preload::pretend::{Ask, Memory};
use crate::preload::raw::{Kind, Raw};
use oomhook_trace::Space;

/// Where a call puts the pitch.
enum Pitch {
    Wide(*mut usize),
    Narrow(*mut u32),
}

impl Pitch {
    fn is_null(&self) -> bool {
        match self {
            Pitch::Wide(to) => to.is_null(),
            Pitch::Narrow(to) => to.is_null(),
        }
    }

    fn read(&self) -> u64 {
        // SAFETY: the driver has just written through these pointers, successfully.
        unsafe {
            match self {
                Pitch::Wide(to) if !to.is_null() => to.read_unaligned() as u64,
                Pitch::Narrow(to) if !to.is_null() => u64::from(to.read_unaligned()),
                _ => 0,
            }
        }
    }
}

/// A pitched block: what is handed out is the pitch times the height, known only after the call.
pub struct AllocatePitch {
    out: Out,
    pitch: Pitch,
    width: u64,
    height: u64,
}

impl AllocatePitch {
    /// The 64-bit form.
    pub fn new(out: Out, pitch: *mut usize, width: usize, height: usize) -> AllocatePitch {
        AllocatePitch {
            out,
            pitch: Pitch::Wide(pitch),
            width: width as u64,
            height: height as u64,
        }
    }

    /// The 32-bit form.
    pub fn new32(out: *mut u32, pitch: *mut u32, width: u32, height: u32) -> AllocatePitch {
        let (width, height) = (u64::from(width), u64::from(height));
        AllocatePitch {
            out: Out::Address32(out),
            pitch: Pitch::Narrow(pitch),
            width,
            height,
        }
    }

    fn requested(&self) -> u64 {
        self.width.saturating_mul(self.height)
    }
}

/// Sends a block of linear memory whose size is more than was asked for.
fn linear(call: &Call, address: u64, bytes: u64, requested: u64) {
    let place = devices::current(call);
    let raw = Raw {
        a: address,
        b: bytes,
        c: requested,
        d: place.context,
        ..Raw::new(Kind::Alloc)
    };
    allocated(
        call,
        Space::Device,
        Raw {
            device: place.device,
            ..raw
        },
    );
}

impl Recipe for AllocatePitch {
    fn starts(&self) -> bool {
        true
    }

    /// Rows are padded by a rule of the driver's own, so that this is the least it can be; what it came to counts from the
    /// next request on.
    fn asks(&self) -> Option<Ask> {
        if self.out.is_null() || self.pitch.is_null() {
            return None;
        }
        Ask::new(self.requested(), Memory::Current)
    }

    fn after(&mut self, call: &Call, code: Code) {
        let requested = self.requested();
        if code != SUCCESS {
            failure::record(call, Some(Space::Device), Some(requested), code);
        } else if requested == 0 {
            call.send(Raw::new(Kind::ZeroSize));
        } else {
            let bytes = self.pitch.read().saturating_mul(self.height).max(requested);
            linear(call, self.out.read(), bytes, requested);
        }
    }

    fn unseen(&mut self, call: &Call, code: Code) -> bool {
        self.after(call, code);
        code == SUCCESS && self.requested() != 0 && self.out.read() != 0
    }
}

/// `cudaMalloc3D`: recorded by the driver call below it; here only for a runtime that goes past us.
pub struct AllocatePitch3D {
    out: *mut PitchedPointer,
    extent: Extent,
}

impl AllocatePitch3D {
    /// The block's pointer and pitch are written to `out`.
    pub fn new(out: *mut PitchedPointer, extent: Extent) -> AllocatePitch3D {
        AllocatePitch3D { out, extent }
    }

    fn slices(&self) -> u64 {
        (self.extent.height as u64).saturating_mul(self.extent.depth as u64)
    }

    fn requested(&self) -> u64 {
        (self.extent.width as u64).saturating_mul(self.slices())
    }
}

impl Recipe for AllocatePitch3D {
    fn starts(&self) -> bool {
        true
    }

    fn asks(&self) -> Option<Ask> {
        if self.out.is_null() {
            return None;
        }
        Ask::new(self.requested(), Memory::Current)
    }

    fn after(&mut self, call: &Call, code: Code) {
        let requested = self.requested();
        if code != SUCCESS {
            return failure::record(call, Some(Space::Device), Some(requested), code);
        }
        if requested == 0 || self.out.is_null() {
            return call.send(Raw::new(Kind::ZeroSize));
        }
        // SAFETY: the runtime has just written through this pointer, successfully.
        let (address, pitch) = unsafe { ((*self.out).pointer as u64, (*self.out).pitch as u64) };
        linear(
            call,
            address,
            pitch.saturating_mul(self.slices()).max(requested),
            requested,
        );
    }

    fn unseen(&mut self, call: &Call, code: Code) -> bool {
        self.after(call, code);
        code == SUCCESS && self.slices() != 0 && self.extent.width != 0
    }
}
