//! From the channel's event to the trace's record.

use super::super::raw::{
    FROM_POOL, KNOWN_FREE, KNOWN_REQUESTED, Kind, NO_DEVICE, Raw, unpack_name,
};
use oomhook_trace::record::{Cost, CostKind, Deed, DeedKind, Object};
use oomhook_trace::told::{Phase, PhaseWhat, Tensor, TensorWhat};
use oomhook_trace::{Event, Record, StackId, What};

/// The record of an event (`None` for kinds that carry none).
pub fn record(raw: &Raw, stack: StackId, call: u16) -> Option<Record> {
    let what = match raw.kind {
        Kind::Boxed | Kind::Output => return None,
        Kind::Thread => {
            return Some(Record::Thread {
                id: raw.thread,
                tid: raw.c as u32,
                name: unpack_name(raw.a, raw.b),
            });
        }
        Kind::TensorAlloc | Kind::TensorFree | Kind::TensorFailed => {
            let (address, bytes) = (raw.a, raw.b);
            return Some(Record::Tensor(Tensor {
                time_ns: raw.time_ns,
                thread: raw.thread,
                device: raw.device,
                stack,
                what: match raw.kind {
                    Kind::TensorAlloc => TensorWhat::Alloc { address, bytes },
                    Kind::TensorFree => TensorWhat::Free { address, bytes },
                    _ => TensorWhat::Failed { requested: bytes },
                },
                allocated: raw.c,
                reserved: raw.d,
            }));
        }
        Kind::PhasePush | Kind::PhasePop | Kind::PhaseStart | Kind::PhaseEnd | Kind::PhaseMark => {
            let (name, domain) = (raw.a as u32, raw.b as u32);
            return Some(Record::Phase(Phase {
                time_ns: raw.time_ns,
                thread: raw.thread,
                what: match raw.kind {
                    Kind::PhasePush => PhaseWhat::Push { name, domain },
                    Kind::PhasePop => PhaseWhat::Pop { domain },
                    Kind::PhaseStart => PhaseWhat::Start { name, range: raw.b },
                    Kind::PhaseEnd => PhaseWhat::End { range: raw.b },
                    _ => PhaseWhat::Mark { name },
                },
            }));
        }
        Kind::Cost => {
            return Some(Record::Cost(Cost {
                time_ns: raw.time_ns,
                thread: raw.thread,
                device: raw.device,
                call,
                stack,
                kind: CostKind::from_wire(raw.b)?,
                bytes: raw.a as i64,
                estimated: raw.c != 0,
            }));
        }
        Kind::Deed => {
            return Some(Record::Deed(Deed {
                time_ns: raw.time_ns,
                thread: raw.thread,
                device: (raw.device != NO_DEVICE).then_some(raw.device),
                call,
                stack,
                kind: DeedKind::from_wire(raw.d),
                subject: raw.a,
                value: raw.b,
                other: raw.c,
            }));
        }
        Kind::Alloc => {
            let space = raw.space()?;
            // Stream-ordered memory belongs to a pool, all other memory to a context; a pool may be the host's.
            let (context, pool) = if raw.flags & FROM_POOL != 0 {
                (0, raw.d)
            } else {
                (raw.d, 0)
            };
            What::Alloc {
                space,
                address: raw.a,
                bytes: raw.b,
                requested: raw.c,
                context,
                stream: raw.e,
                pool,
            }
        }
        Kind::AllocFailed => What::AllocFailed {
            space: raw.space(),
            requested: (raw.flags & KNOWN_REQUESTED != 0).then_some(raw.a),
            code: raw.d as u32,
            free: (raw.flags & KNOWN_FREE != 0).then_some(raw.b),
            total: (raw.flags & KNOWN_FREE != 0).then_some(raw.c),
            address: (raw.e != 0).then_some(raw.e),
        },
        Kind::Free => What::Free {
            space: raw.space()?,
            address: raw.a,
            stream: raw.e,
        },
        Kind::Undo => What::Undo {
            address: raw.a,
            code: raw.b as u32,
        },
        Kind::NullFree => What::NullFree,
        Kind::ZeroSize => What::ZeroSize,
        Kind::Retain => What::Retain { handle: raw.a },
        Kind::Map => What::Map {
            address: raw.a,
            bytes: raw.b,
            handle: raw.c,
            offset: raw.d,
        },
        Kind::Unmap => What::Unmap {
            address: raw.a,
            bytes: raw.b,
        },
        Kind::ContextCreate => What::ContextCreate {
            context: raw.a,
            explicit: raw.b != 0,
        },
        Kind::ContextDestroy => What::ContextDestroy { context: raw.a },
        Kind::Reset => What::Reset,
        Kind::Created => What::Created {
            object: Object::from_wire(u64::from(raw.space))?,
            handle: raw.a,
            bytes: raw.b,
        },
        Kind::Destroyed => What::Destroyed {
            object: Object::from_wire(u64::from(raw.space))?,
            handle: raw.a,
        },
        Kind::GraphAlloc => What::GraphAlloc {
            address: raw.a,
            bytes: raw.b,
            captured: raw.c != 0,
        },
        Kind::GraphFree => What::GraphFree {
            address: raw.a,
            captured: raw.c != 0,
        },
        Kind::GraphMemory => What::GraphMemory {
            used: raw.a,
            used_high: raw.b,
            reserved: raw.c,
            reserved_high: raw.d,
        },
        Kind::CaptureEnd => What::CaptureEnd { ok: raw.a != 0 },
        Kind::Limit => What::Limit {
            limit: raw.a as u32,
            value: raw.b,
        },
        Kind::ThreadExit => What::ThreadExit {
            name: unpack_name(raw.a, raw.b),
        },
    };
    let device = (raw.device != NO_DEVICE).then_some(raw.device);
    Some(Record::Event(Event {
        time_ns: raw.time_ns,
        thread: raw.thread,
        device,
        call,
        stack,
        what,
    }))
}
