//! How much of a device's pretended memory is free for a request.

use super::super::captures;
use super::super::devices::{self, pools};
use super::super::record::Call;
use super::{Memory, tracked};
use oomhook_trace::Space;

/// Where the figures come from.
#[derive(Clone, Copy)]
pub enum Source {
    /// The driver, which answers for the current device.
    Driver,
    /// The same, and what lies idle in this pool.
    DriverAndPool(u64),
    /// The ledger: the device is not the current one.
    Ledger,
    /// Nobody can be asked how much lies idle in the pool, since a capture is in progress.
    Unknown,
}

/// Free and total bytes of a device with this capacity.
pub fn shown(capacity: u64, free: u64, total: u64) -> (u64, u64) {
    let used = total.saturating_sub(free);
    let total = capacity.min(total);
    (total.saturating_sub(used), total)
}

/// The device that a request is about and who knows its figures; `None` if nothing limits the request.
pub fn source(call: &Call, memory: Memory) -> Option<(u8, Source)> {
    let current = devices::current(call).device;
    let of = |device| match device == current {
        true => (device, Source::Driver),
        false => (device, Source::Ledger),
    };
    match memory {
        Memory::Unlimited => None,
        Memory::Current => Some((current, Source::Driver)),
        Memory::Device(device) => Some(of(device)),
        Memory::Pool {
            stream, per_thread, ..
        } if captures::is_capturing(stream, per_thread) => None,
        Memory::Pool { pool, .. } => {
            let pool = pool as u64;
            let device = match pools::place(pool) {
                Some((Space::Async, device)) => device,
                // A pool on the host, or of managed memory.
                Some(_) => return None,
                None if pool == 0 || pools::belongs_to(pool, current) => current,
                // Not the program's own and not the current device's: nothing is known of it.
                None => return None,
            };
            if captures::any() {
                return Some((device, Source::Unknown));
            }
            match of(device) {
                (_, Source::Driver) => {
                    let pool = match pool {
                        0 => pools::current(device)?,
                        pool => pool,
                    };
                    Some((device, Source::DriverAndPool(pool)))
                }
                // The ledger counts what is in use, so that idle memory is free there.
                other => Some(other),
            }
        }
    }
}

/// The largest request that fits, if nothing else is under way; `None` if the figures cannot be had (there is no context, or
/// the driver has shut down): then the call itself finds out.
pub fn of(device: u8, source: Source, capacity: u64) -> Option<u64> {
    let free = || {
        let (free, total) = devices::look(device)?;
        Some(shown(capacity, free, total).0)
    };
    match source {
        Source::Driver => free(),
        Source::DriverAndPool(pool) => Some(free()?.saturating_add(pools::idle(pool).unwrap_or(0))),
        Source::Ledger => Some(capacity.saturating_sub(tracked::live(device)?)),
        // All that is in use might lie idle in the pool. Only what can never fit is refused: a failure must be certain.
        Source::Unknown => Some(capacity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_counts_against_the_pretended_size() {
        assert_eq!(shown(4, 16, 16), (4, 4));
        assert_eq!(shown(4, 13, 16), (1, 4));
        assert_eq!(shown(4, 12, 16), (0, 4));
        assert_eq!(shown(4, 3, 16), (0, 4));
        assert_eq!(shown(24, 3, 16), (3, 16));
        assert_eq!(shown(16, 3, 16), (3, 16));
        assert_eq!(shown(4, 17, 16), (4, 4));
    }
}
