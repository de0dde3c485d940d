//! Who has whose memory, over several processes: imports are matched to exports by the bytes of their handles, which are
//! the same in both. Files have other numbers in each process and are not matched. What came first is told by the clocks
//! of both recordings.

use crate::held::{Exported, Imported, Spot};
use crate::schema::{Process, ProcessEnd, Report};
use serde::Serialize;

/// Clocks of two recordings of one machine agree so well.
const CLOCKS_NS: u64 = 1_000_000;

/// A block of one process that another one opened. It is the owner's, and counted there.
#[derive(Clone, Debug, Serialize)]
pub struct Shared {
    /// Tells handles apart.
    pub handle: String,
    /// UUID of the device, as the owner knows it.
    pub uuid: String,
    /// Bytes.
    pub bytes: u64,
    /// The process that owns it.
    pub owner_pid: u32,
    /// Where it came from.
    pub from: Option<Spot>,
    /// The process that opened it.
    pub user_pid: u32,
    /// Where it was opened.
    pub opened_by: Spot,
    /// How often.
    pub opens: u64,
    /// How often it was closed.
    pub closes: u64,
    /// The owner freed it while the other one had it open.
    pub freed_while_open: bool,
    /// Where it was freed then.
    pub freed_by: Option<Spot>,
    /// What came first is not sure: the two instants are too near, or the clocks are those of two machines.
    pub estimated: bool,
}

/// Every block that one of these processes offered and another one opened.
#[must_use]
pub fn shared(reports: &[Report]) -> Vec<Shared> {
    let mut found = Vec::new();
    for user in reports {
        for import in &user.ipc.imports {
            let Some(handle) = &import.handle else {
                continue;
            };
            let owners = reports.iter().filter(|owner| !std::ptr::eq(*owner, user));
            let owner = owners.flat_map(|owner| {
                let exports = owner.ipc.exports.iter();
                exports.map(move |export| (owner, export))
            });
            let mut owner = owner.filter(|(owner, export)| {
                let devices = (uuid(owner, export.device), uuid(user, import.device));
                // A handle may be opened from another device; then only its bytes speak.
                export.handle.as_ref() == Some(handle)
                    && (devices.0 == devices.1 || export.bytes == import.bytes)
            });
            if let Some((owner, export)) = owner.next() {
                found.push(pair(handle, owner, export, user, import));
            }
        }
    }
    found
}

fn pair(
    handle: &str,
    owner: &Report,
    export: &Exported,
    user: &Report,
    import: &Imported,
) -> Shared {
    let freed = export.freed.as_ref();
    let freed_ns = freed.map(|by| owner.process.start_unix_ns.saturating_add(by.time_ns));
    let opened_ns = user.process.start_unix_ns.saturating_add(import.by.time_ns);
    let closed_ns = closed(&user.process, import);
    let freed_while_open = freed_ns
        .is_some_and(|freed| opened_ns < freed && closed_ns.is_none_or(|closed| freed < closed));
    let near = |at: Option<u64>| {
        let pair = freed_ns.zip(at);
        pair.is_some_and(|(freed, at)| freed.abs_diff(at) < CLOCKS_NS)
    };
    let elsewhere = owner.process.host != user.process.host;
    Shared {
        handle: handle.to_owned(),
        uuid: uuid(owner, export.device).to_owned(),
        bytes: export.bytes.max(import.bytes),
        owner_pid: owner.process.pid,
        from: export.from.clone(),
        user_pid: user.process.pid,
        opened_by: import.by.spot.clone(),
        opens: import.opens,
        closes: import.closes,
        freed_while_open,
        freed_by: freed.filter(|_| freed_while_open).map(|by| by.spot.clone()),
        estimated: freed.is_some() && (elsewhere || near(Some(opened_ns)) || near(closed_ns)),
    }
}

/// When the memory was closed, at the latest with the process.
fn closed(process: &Process, import: &Imported) -> Option<u64> {
    let end = (process.end != ProcessEnd::Running).then_some(process.duration_ns);
    let closed = import.closed_ns.or(end)?;
    Some(process.start_unix_ns.saturating_add(closed))
}

fn uuid(report: &Report, device: Option<u32>) -> &str {
    let found = report.devices.iter().find(|one| one.device == device);
    found.map_or("", |device| &device.uuid)
}
