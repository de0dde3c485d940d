//! Where every byte of a device was: what this process holds by space, what its pools keep idle, what calls took without
//! saying so, what other processes have, the rest, and what was free.

use crate::schema::LedgerLine;
use oomhook_ledger::Ledger;
use oomhook_ledger::costs::Look;
use oomhook_ledger::oom::Group;
use oomhook_trace::Space;
use oomhook_trace::record::{CostKind, Other};
use std::collections::BTreeMap;

/// A look at a device that is this near to an instant tells of it.
const NEAR_NS: u64 = 20_000_000;

/// The parts that are known by themselves.
struct Parts<'a> {
    spaces: Vec<(Space, u64)>,
    /// Bytes, estimated.
    pool_idle: (u64, bool),
    /// For what, bytes, estimated.
    taken: Vec<(CostKind, i64, bool)>,
    others: &'a [Other],
    driver: u64,
    /// Those parts are of another instant.
    borrowed: bool,
}

impl Parts<'_> {
    fn lines(&self) -> Vec<LedgerLine> {
        let mut lines: Vec<LedgerLine> = self
            .spaces
            .iter()
            .map(|(space, bytes)| line(space.name(), *bytes, *space == Space::Array))
            .collect();
        let (idle, estimated) = self.pool_idle;
        if idle > 0 {
            lines.push(line("pool_idle", idle, estimated));
        }
        for kind in CostKind::ALL {
            let of_kind = self.taken.iter().filter(|taken| taken.0 == kind);
            let bytes: i64 = of_kind.clone().map(|taken| taken.1).sum();
            let estimated = of_kind.clone().any(|taken| taken.2);
            if let Some(bytes) = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0) {
                lines.push(line(kind.name(), bytes, estimated));
            }
        }
        let others: u64 = self.others.iter().filter_map(|other| other.bytes).sum();
        if others > 0 {
            lines.push(line("other_processes", others, self.borrowed));
        }
        if self.driver > 0 {
            lines.push(line("driver", self.driver, self.borrowed));
        }
        lines
    }
}

fn line(name: &str, bytes: u64, estimated: bool) -> LedgerLine {
    LedgerLine {
        name: name.to_owned(),
        bytes,
        estimated,
    }
}

/// Figures of another instant or of another source, the most doubtful first: they give way where they do not fit.
const DOUBTFUL: [&str; 9] = [
    "driver",
    "other_processes",
    "pool_idle",
    "other_calls",
    "graph_execs",
    "launches",
    "streams",
    "code",
    "contexts",
];

/// Adds the rest and what is free, so that all lines make the device's total.
fn close(mut lines: Vec<LedgerLine>, free: u64, total: u64) -> Vec<LedgerLine> {
    let used = total.saturating_sub(free);
    let known: u64 = lines.iter().map(|line| line.bytes).sum();
    let mut excess = known.saturating_sub(used);
    for name in DOUBTFUL {
        if let Some(line) = lines.iter_mut().find(|line| line.name == name)
            && excess > 0
        {
            let less = excess.min(line.bytes);
            line.bytes -= less;
            line.estimated = true;
            excess -= less;
        }
    }
    lines.retain(|line| line.bytes > 0);
    let known: u64 = lines.iter().map(|line| line.bytes).sum();
    let rest = used.saturating_sub(known);
    lines.push(line("rest", rest, true));
    lines.push(line("free", free, false));
    lines
}

/// At a failure, by what the driver said was free then. Empty where it could not be asked.
pub fn at_failure(group: &Group) -> Vec<LedgerLine> {
    let (Some(free), Some(total)) = (group.free, group.total) else {
        return Vec::new();
    };
    let parts = Parts {
        spaces: group.tracked.clone(),
        pool_idle: (group.pool_idle, false),
        taken: group.taken.clone(),
        others: &group.others,
        driver: group.driver,
        borrowed: false,
    };
    close(parts.lines(), free, total)
}

/// At the peak of this process on the device; without the rest and what was free where the device was never looked at.
pub fn at_peak(ledger: &Ledger, device: u8) -> Vec<LedgerLine> {
    let mut spaces: BTreeMap<Space, u64> = BTreeMap::new();
    let of_device = ledger
        .rows()
        .filter(|(_, row)| row.key.device == Some(device) && row.key.space.is_device());
    for (_, row) in of_device {
        *spaces.entry(row.key.space).or_default() += ledger.at_peak(row).bytes;
    }
    let peak = ledger.device(Some(device)).map(|usage| usage.peak);
    let Some(peak) = peak.filter(|peak| peak.bytes > 0) else {
        return Vec::new();
    };
    let spaces = spaces.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    let idle = ledger.pool_idle_at_peak(device).unwrap_or_default();
    at(ledger, device, peak.time_ns, spaces, idle)
}

/// At the end.
pub fn at_exit(ledger: &Ledger, device: u8) -> Vec<LedgerLine> {
    let usage = ledger.device(Some(device));
    let live = usage.into_iter().flat_map(|usage| usage.spaces.used());
    let live = live.map(|(space, usage)| (space, usage.live.bytes));
    let spaces = live
        .filter(|(space, bytes)| space.is_device() && *bytes > 0)
        .collect();
    let idle = (ledger.pool_idle(device), false);
    at(ledger, device, ledger.last_ns(), spaces, idle)
}

/// With what the look nearest to the instant found besides, which may be better known.
fn at(
    ledger: &Ledger,
    device: u8,
    time_ns: u64,
    spaces: Vec<(Space, u64)>,
    pool_idle: (u64, bool),
) -> Vec<LedgerLine> {
    let costs = ledger.costs();
    let taken = costs.taken_at(device, time_ns);
    let taken = taken
        .into_iter()
        .map(|(kind, (bytes, estimated))| (kind, bytes, estimated))
        .collect();
    let look = costs.nearest(device, time_ns);
    let is_near = look.is_some_and(|look| look.sample.time_ns.abs_diff(time_ns) <= NEAR_NS);
    let parts = Parts {
        spaces,
        pool_idle,
        taken,
        others: look.map_or(&[], Look::other_processes),
        driver: look.map_or(0, Look::driver),
        borrowed: !is_near,
    };
    let lines = parts.lines();
    let Some(look) = look else {
        return lines;
    };
    // What was not explained then is not explained now.
    let known: u64 = lines.iter().map(|line| line.bytes).sum();
    let mut rest = look.rest();
    if !ledger.knows_pools(device) {
        // What pools kept then and nobody could see may be what lived of them at this instant, or the reverse.
        let tracked: u64 = parts.spaces.iter().map(|(_, bytes)| *bytes).sum();
        let more = i64::try_from(tracked.saturating_sub(look.tracked)).unwrap_or(i64::MAX);
        rest = rest.saturating_sub(more).max(rest.min(0));
    }
    let used = known.saturating_add_signed(rest);
    let total = look.sample.total;
    let free = total.saturating_sub(used);
    close(lines, free, total)
}
