//! Objects that hold memory which no allocation call shows: modules, libraries, graphs, streams, events, textures.

use super::image::Image;
use super::{Call, Recipe, failure};
use crate::preload::costs::contexts;
use crate::preload::costs::traffic::Scope;
use crate::preload::hooks::abi::{Code, OUT_OF_MEMORY, SUCCESS};
use crate::preload::raw::{Kind, Raw};
use crate::preload::{captures, costs, devices};
use oomhook_trace::record::{CostKind, DeedKind, Object};
use std::ffi::c_void;

/// What an object costs that holds device memory.
fn cost_of(object: Object) -> Option<CostKind> {
    match object {
        Object::Module | Object::Library => Some(CostKind::Code),
        Object::Stream => Some(CostKind::Stream),
        Object::GraphExec => Some(CostKind::GraphExec),
        _ => None,
    }
}

/// Something is made.
pub struct Create {
    object: Object,
    handle: *mut u64,
    /// Where it is, if that is not the current device.
    place: Option<u8>,
    /// What it is made of.
    image: Image,
}

impl Create {
    /// The handle (of pointer size) is written to `handle`.
    pub fn new<T>(object: Object, handle: *mut T) -> Create {
        const { assert!(size_of::<T>() == size_of::<u64>()) };
        Create {
            object,
            handle: handle.cast(),
            place: None,
            image: Image::Unknown,
        }
    }

    /// Loaded from this.
    pub fn of(self, image: Image) -> Create {
        Create { image, ..self }
    }

    /// On this device, whichever is the current one.
    pub fn on(self, device: u8) -> Create {
        Create {
            place: Some(device),
            ..self
        }
    }
}

impl Recipe for Create {
    fn starts(&self) -> bool {
        // A module or a stream wants a context: the first one that we see may have been made past us.
        true
    }

    fn cost(&self) -> Option<CostKind> {
        cost_of(self.object)
    }

    fn scope(&self) -> Scope {
        match (self.object, self.place) {
            // A library comes to each context, a graph may have nodes on several devices.
            (Object::Module | Object::Stream, None) => Scope::Current,
            (Object::Stream, Some(device)) => Scope::On(device),
            _ => Scope::Any,
        }
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == OUT_OF_MEMORY {
            return failure::record(call, None, None, code);
        }
        if code != SUCCESS || self.handle.is_null() {
            return;
        }
        // SAFETY: the driver has just written the handle, successfully.
        let handle = unsafe { self.handle.read_unaligned() };
        let device = self.place.unwrap_or_else(|| devices::current(call).device);
        devices::announce(call, device);
        let raw = Raw {
            a: handle,
            device,
            ..Raw::new(Kind::Created)
        };
        call.send_here(Raw {
            b: self.image.bytes(),
            space: self.object as u8,
            ..raw
        });
        if let Some(context) = explicit_context(call) {
            call.send(Raw {
                a: handle,
                b: self.object as u64,
                c: context,
                d: DeedKind::MadeIn as u64,
                device,
                ..Raw::new(Kind::Deed)
            });
        }
    }
}

/// The current context, if the program has made it by itself.
fn explicit_context(call: &Call) -> Option<u64> {
    let is_any = contexts::are_any_explicit();
    let context = is_any.then(|| devices::current(call).context)?;
    contexts::is_explicit(context).then_some(context)
}

/// Something is destroyed. Sent after success: nothing is released by address here, so no order can be mixed up.
pub struct Destroy {
    object: Object,
    handle: u64,
}

impl Destroy {
    /// This object.
    pub fn new(object: Object, handle: u64) -> Destroy {
        Destroy { object, handle }
    }

    /// The driver's value.
    pub fn handle(&self) -> u64 {
        self.handle
    }
}

impl Recipe for Destroy {
    fn cost(&self) -> Option<CostKind> {
        cost_of(self.object)
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            let raw = Raw {
                a: self.handle,
                ..Raw::new(Kind::Destroyed)
            };
            call.send(Raw {
                space: self.object as u8,
                ..raw
            });
            if matches!(self.object, Object::Module | Object::Library) {
                // Handles of its functions may come again.
                costs::forget_launches();
            }
        }
    }
}

/// A call that takes memory only now and then, and is recorded only when it says that there is none: a launch, a change
/// of access rights.
pub struct OnlyOutOfMemory;

impl Recipe for OnlyOutOfMemory {
    fn only_failures(&self) -> bool {
        true
    }

    fn after(&mut self, call: &Call, code: Code) {
        failure::record(call, None, None, code);
    }
}

/// A launch. The first one of a function may bring its code, local memory and the device's heap.
pub struct Launch {
    function: u64,
}

impl Launch {
    /// Of this function or executable graph.
    pub fn new(function: *mut c_void) -> Launch {
        Launch {
            function: function as u64,
        }
    }
}

impl Recipe for Launch {
    fn only_failures(&self) -> bool {
        costs::was_launched(self.function)
    }

    fn cost(&self) -> Option<CostKind> {
        // What is captured takes nothing yet.
        (!captures::any()).then_some(CostKind::Launch)
    }

    fn scope(&self) -> Scope {
        Scope::Current
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == OUT_OF_MEMORY {
            return failure::record(call, None, None, code);
        }
        if code == SUCCESS && !captures::any() {
            costs::launched(self.function);
        }
    }
}

/// A look-up that may load code: of a function, a kernel, a variable.
pub struct LoadCode;

impl Recipe for LoadCode {
    fn cost(&self) -> Option<CostKind> {
        Some(CostKind::Code)
    }

    fn scope(&self) -> Scope {
        Scope::Current
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == OUT_OF_MEMORY {
            failure::record(call, None, None, code);
        }
    }
}

/// `cuCtxSetLimit`.
pub struct SetLimit {
    limit: i32,
    value: u64,
}

impl SetLimit {
    /// The driver's number of the limit, and its value.
    pub fn new(limit: i32, value: usize) -> SetLimit {
        SetLimit {
            limit,
            value: value as u64,
        }
    }
}

impl Recipe for SetLimit {
    fn cost(&self) -> Option<CostKind> {
        Some(CostKind::Limit)
    }

    fn scope(&self) -> Scope {
        Scope::Current
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == OUT_OF_MEMORY {
            return failure::record(call, None, None, code);
        }
        if code == SUCCESS {
            let device = devices::current(call).device;
            // The driver may have made something else of it.
            let value = devices::limit(self.limit).unwrap_or(self.value);
            let limit = self.limit as u64;
            match explicit_context(call) {
                Some(context) => call.send_here(Raw {
                    a: limit,
                    b: value,
                    c: context,
                    d: DeedKind::LimitIn as u64,
                    device,
                    ..Raw::new(Kind::Deed)
                }),
                None => call.send_here(Raw {
                    a: limit,
                    b: value,
                    device,
                    ..Raw::new(Kind::Limit)
                }),
            }
        }
    }
}
