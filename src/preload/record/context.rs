//! Contexts. They own linear, pitched, managed and pinned memory, which goes with them; stream-ordered memory and VMM
//! handles stay.

use super::{Call, Recipe};
use crate::preload::cancel;
use crate::preload::costs::contexts::Coming;
use crate::preload::costs::traffic::{Alone, Scope};
use crate::preload::devices::Place;
use crate::preload::hooks::abi::{Code, Context, DeviceOrdinal, SUCCESS};
use crate::preload::raw::{Kind, NO_DEVICE, Raw};
use crate::preload::{costs, devices, nvml};
use oomhook_trace::record::{CostKind, DeedKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn ordinal(device: DeviceOrdinal) -> u8 {
    u8::try_from(device).unwrap_or(NO_DEVICE)
}

/// How long the program waits for a look at the device: before a context is made (there may be none so far), and after.
const PATIENCE_BEFORE: Duration = Duration::from_millis(50);
const PATIENCE_AFTER: Duration = Duration::from_millis(300);

/// The process has had a context. Memory can outlive the last one.
static HAD_CONTEXT: AtomicBool = AtomicBool::new(false);

/// What was in use before a context came: by this process as the management library counts, and by all.
#[derive(Clone, Copy)]
struct Before {
    process: Option<u64>,
    used: Option<u64>,
    alone: Alone,
}

impl Before {
    fn look(device: u8) -> Option<Before> {
        let alone = Alone::from_now(device);
        // Before its first context a process is on no device, and the management library need not be waited for.
        if !HAD_CONTEXT.load(Ordering::Acquire) {
            return Some(Before {
                process: Some(0),
                used: None,
                alone,
            });
        }
        nvml::look_only(PATIENCE_BEFORE).then(|| Before {
            process: nvml::process_bytes(device),
            used: nvml::used_bytes(device),
            alone,
        })
    }

    /// Books what the context has taken.
    fn book(self, call: &Call, place: Place) {
        let device = place.device;
        // What other calls took meanwhile is not the context's.
        let is_seen = look_after(device);
        let is_alone = self.alone.until_now();
        if is_alone && !is_seen {
            return;
        }
        let difference =
            |before: Option<u64>, now: Option<u64>| Some(now?.wrapping_sub(before?) as i64);
        let own = difference(self.process, nvml::process_bytes(device));
        let all = difference(self.used, nvml::used_bytes(device));
        if !is_alone {
            let together = own.or(all).filter(|_| is_seen).unwrap_or(0);
            return costs::not_measured(call, CostKind::Context, device, together);
        }
        let (bytes, estimated) = match (own, all) {
            (Some(bytes), _) => (bytes, false),
            (None, Some(bytes)) => (bytes, nvml::has_others(device)),
            (None, None) => return,
        };
        costs::book(call, CostKind::Context, place, bytes, estimated);
    }
}

/// A look after a context came. Another thread may just be asking the driver for the device's UUID, by which the management
/// library knows it.
fn look_after(device: u8) -> bool {
    for _ in 0..10 {
        if !nvml::look_only(PATIENCE_AFTER) {
            return false;
        }
        if nvml::used_bytes(device).is_some() {
            break;
        }
        cancel::sleep(Duration::from_micros(500));
    }
    true
}

/// Sends the birth of a context that was not known.
fn created(
    call: &Call,
    context: *mut Context,
    device: DeviceOrdinal,
    explicit: bool,
    before: Option<Before>,
) {
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
        costs::contexts::made(context, explicit);
        if HAD_CONTEXT.swap(true, Ordering::AcqRel) {
            costs::contexts_are_several();
        }
        if let Some(before) = before {
            before.book(call, Place { context, device });
        }
    }
}

/// `cuCtxCreate`, or `cuDevicePrimaryCtxRetain`, whose first call makes the context.
pub struct CreateContext {
    context: *mut Context,
    device: DeviceOrdinal,
    explicit: bool,
    before: Option<Before>,
    coming: Option<Coming>,
}

impl CreateContext {
    /// A context of the program's own, which is written to `context`.
    pub fn explicit(context: *mut Context, device: DeviceOrdinal) -> CreateContext {
        CreateContext {
            context,
            device,
            explicit: true,
            before: None,
            coming: None,
        }
    }

    /// The device's primary context, which is written to `context`.
    pub fn primary(context: *mut Context, device: DeviceOrdinal) -> CreateContext {
        CreateContext {
            context,
            device,
            explicit: false,
            before: None,
            coming: None,
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

    fn scope(&self) -> Scope {
        Scope::On(ordinal(self.device))
    }

    fn before(&mut self, call: &Call) {
        let device = ordinal(self.device);
        // One that is there and not known may be another thread's, whose call has not returned.
        let is_new = self.explicit || !devices::primary_is_active(self.device) || Coming::is_any();
        if is_new {
            // The management library knows it by its UUID.
            devices::announce(call, device);
            self.before = Before::look(device);
            self.coming = Some(Coming::begin());
        }
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            created(call, self.context, self.device, self.explicit, self.before);
        }
        self.coming = None;
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
            let context = self.context;
            let device = devices::device_of(context);
            devices::forget_context(context);
            say_gone(call, context, device.unwrap_or(NO_DEVICE), true);
            if let Some(device) = device {
                costs::context_is_gone(call, Place { context, device });
            }
        } else {
            call.send(Raw {
                a: self.context,
                b: code as u64,
                ..Raw::new(Kind::Undo)
            });
        }
    }
}

/// What was in the context is gone as well.
fn say_gone(call: &Call, context: u64, device: u8, explicit: bool) {
    call.send(Raw {
        a: context,
        b: u64::from(explicit),
        d: DeedKind::ContextGone as u64,
        device,
        ..Raw::new(Kind::Deed)
    });
}

fn primary_is_gone(call: &Call, device: DeviceOrdinal) {
    let device = ordinal(device);
    let context = devices::forget_primary(device);
    say_gone(call, context, device, false);
    costs::context_is_gone(call, Place { context, device });
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
            primary_is_gone(call, self.device);
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
            primary_is_gone(call, self.device);
        }
    }
}
