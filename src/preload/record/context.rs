//! Contexts. They own linear, pitched, managed and pinned memory, which goes with them; stream-ordered memory and VMM
//! handles stay.

use super::{Call, Recipe};
use crate::preload::devices;
use crate::preload::hooks::abi::{Code, Context, DeviceOrdinal, SUCCESS};
use crate::preload::raw::{Kind, NO_DEVICE, Raw};

fn ordinal(device: DeviceOrdinal) -> u8 {
    u8::try_from(device).unwrap_or(NO_DEVICE)
}

/// Sends the birth of a context that was not known.
fn created(call: &Call, context: *mut Context, device: DeviceOrdinal, explicit: bool) {
    if context.is_null() {
        return;
    }
    // SAFETY: the driver has just written the context, successfully.
    let context = unsafe { context.read() } as u64;
    let device = ordinal(device);
    if devices::remember_context(context, device) {
        devices::announce(call, device);
        let raw = Raw {
            a: context,
            b: u64::from(explicit),
            ..Raw::new(Kind::ContextCreate)
        };
        call.send_here(Raw { device, ..raw });
    }
}

/// `cuCtxCreate`, or `cuDevicePrimaryCtxRetain`, whose first call makes the context.
pub struct CreateContext {
    context: *mut Context,
    device: DeviceOrdinal,
    explicit: bool,
}

impl CreateContext {
    /// A context of the program's own, which is written to `context`.
    pub fn explicit(context: *mut Context, device: DeviceOrdinal) -> CreateContext {
        CreateContext {
            context,
            device,
            explicit: true,
        }
    }

    /// The device's primary context, which is written to `context`.
    pub fn primary(context: *mut Context, device: DeviceOrdinal) -> CreateContext {
        CreateContext {
            context,
            device,
            explicit: false,
        }
    }
}

impl Recipe for CreateContext {
    fn starts(&self) -> bool {
        true
    }

    fn stands_for_runtime(&self) -> bool {
        false
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            created(call, self.context, self.device, self.explicit);
        }
    }
}

/// `cuCtxDestroy`: announced, since its memory's addresses may be another thread's the moment it returns.
pub struct DestroyContext {
    context: u64,
}

impl DestroyContext {
    /// This context.
    pub fn new(context: Context) -> DestroyContext {
        DestroyContext {
            context: context as u64,
        }
    }
}

impl Recipe for DestroyContext {
    fn before(&mut self, call: &Call) {
        call.send_here(Raw {
            a: self.context,
            ..Raw::new(Kind::ContextDestroy)
        });
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            devices::forget_context(self.context);
        } else {
            call.send(Raw {
                a: self.context,
                b: code as u64,
                ..Raw::new(Kind::Undo)
            });
        }
    }
}

fn announce_reset(call: &Call, device: DeviceOrdinal) {
    call.send_here(Raw {
        device: ordinal(device),
        ..Raw::new(Kind::Reset)
    });
}

fn take_reset_back(call: &Call, device: DeviceOrdinal, code: Code) {
    let raw = Raw {
        a: u64::from(ordinal(device)),
        b: code as u64,
        ..Raw::new(Kind::Undo)
    };
    call.send(Raw {
        device: ordinal(device),
        ..raw
    });
}

/// `cuDevicePrimaryCtxReset`.
pub struct ResetPrimary {
    device: DeviceOrdinal,
}

impl ResetPrimary {
    /// The primary context of this device.
    pub fn new(device: DeviceOrdinal) -> ResetPrimary {
        ResetPrimary { device }
    }
}

impl Recipe for ResetPrimary {
    fn before(&mut self, call: &Call) {
        announce_reset(call, self.device);
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            devices::forget_primary(ordinal(self.device));
        } else {
            take_reset_back(call, self.device, code);
        }
    }
}

/// `cuDevicePrimaryCtxRelease`: the last one is a reset. Which one is the last only the driver knows (the runtime may
/// have retained the context past our doors), so the reset is announced and taken back if the context is still there.
pub struct ReleasePrimary {
    device: DeviceOrdinal,
}

impl ReleasePrimary {
    /// The primary context of this device.
    pub fn new(device: DeviceOrdinal) -> ReleasePrimary {
        ReleasePrimary { device }
    }
}

impl Recipe for ReleasePrimary {
    fn before(&mut self, call: &Call) {
        announce_reset(call, self.device);
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS || devices::primary_is_active(self.device) {
            take_reset_back(call, self.device, code);
        } else {
            devices::forget_primary(ordinal(self.device));
        }
    }
}
