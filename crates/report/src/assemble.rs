//! A ledger to the JSON.

use crate::clean;
use crate::held;
use crate::leaks;
use crate::log;
use crate::objects;
use crate::pretended;
use crate::resolve::{Depth, Resolver, Stack};
use crate::roles::Roles;
use crate::schema::{
    Anomalies, AnomalyBlock, AnomalyEnd, AnomalyEvent, Context, CostSite, Device, DeviceLook, Gone,
    Host, Oom, Peak, Process, ProcessEnd, Released, Report, SCHEMA_VERSION, SpaceUse, Thread, Tool,
    Totals, Va,
};
use crate::sentences;
use crate::sites;
use crate::suppress::Suppressions;
use crate::symbols::Symbols;
use crate::units;
use crate::{account, cache, diagnosis, failures, over_time, phases};
use oomhook_ledger::anomalies::{Anomaly, Kind};
use oomhook_ledger::contexts::ReleasedSpaces;
use oomhook_ledger::devices::DeviceUse;
use oomhook_ledger::{Amount, Ledger};
use oomhook_trace::record::{Device as DeviceRecord, EndKind};
use oomhook_trace::{Header, Space};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a report depends on besides the trace.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The closing record was written.
    pub complete: bool,
    /// The process has not ended.
    pub running: bool,
    /// How long it has been recorded so far, if it has not ended: its latest event may be old.
    pub so_far_ns: Option<u64>,
    /// Parts of the trace are lost.
    pub damaged: bool,
    /// What could not be read of the trace, and whatever else the reader should know.
    pub notes: Vec<String>,
    /// How much of the stacks is named.
    pub depth: Depth,
    /// Leaks to leave out.
    pub suppressions: Suppressions,
}

const ON_DEVICES: [Space; 7] = [
    Space::Device,
    Space::Array,
    Space::Async,
    Space::Vmm,
    Space::Graph,
    Space::Managed,
    Space::Imported,
];

impl Report {
    /// The report of one process.
    pub fn build(
        header: &Header,
        ledger: &Ledger,
        symbols: &mut dyn Symbols,
        facts: &Facts,
    ) -> Report {
        // A suppression may mean any frame.
        let depth = match facts.suppressions.is_empty() {
            true => facts.depth,
            false => Depth::Whole,
        };
        let mut resolver = Resolver::new(ledger.definitions(), symbols, depth).of_process(header);
        Report::build_with(header, ledger, &mut resolver, facts)
    }

    /// As [`Report::build`], with a resolver that is used for more than that.
    pub fn build_with(
        header: &Header,
        ledger: &Ledger,
        resolver: &mut Resolver<'_>,
        facts: &Facts,
    ) -> Report {
        let found = leaks::find(ledger, resolver, &facts.suppressions);
        let process = process(header, ledger, facts);
        let roles = Roles::of(ledger, resolver);
        let mut oom = failures::all(ledger, resolver, ended_badly(&process));
        let situation = diagnosis::situation::of(header, ledger);
        for oom in &mut oom {
            oom.verdict = diagnosis::failure::diagnose(oom, &situation);
        }
        // What it died of has been told.
        let findings = if oom.iter().any(|oom| oom.verdict.is_some()) {
            Vec::new()
        } else {
            diagnosis::end::find(ledger, resolver, &roles, &situation)
        };
        let mut report = Report {
            findings,
            schema_version: SCHEMA_VERSION,
            tool: Tool {
                name: "oomhook".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            complete: facts.complete,
            damaged: facts.damaged,
            totals: totals(ledger),
            devices: devices(ledger, resolver, &roles),
            host: host(ledger),
            va: va(ledger),
            leaks: found.leaks,
            released: Released {
                by_reset: gone(&ledger.released().by_reset),
                by_context_destroy: gone(&ledger.released().by_context_destroy),
            },
            oom,
            anomalies: anomalies(ledger, resolver),
            pools: held::pools(ledger, resolver),
            other_stream_frees: held::other_stream_frees(ledger, resolver),
            vmm: held::vmm(ledger, resolver),
            ipc: held::ipc(ledger, resolver),
            contexts: contexts(ledger, resolver),
            cuda_modules: objects::modules(ledger),
            graphs: held::graphs(ledger, resolver),
            objects: objects::all(ledger, resolver),
            limits: objects::limits(ledger),
            phases: phases::all(ledger, resolver),
            log: log::all(ledger),
            threads: threads(ledger),
            notes: Vec::new(),
            process,
        };
        let capacity = pretended::capacity(header);
        pretended::apply(capacity.as_ref(), &mut report.devices);
        for device in &mut report.devices {
            let of_device = |oom: &&Oom| oom.device == device.device && !oom.ledger.is_empty();
            let latest = report.oom.iter().filter(of_device);
            if let Some(oom) = latest.max_by_key(|oom| oom.time_ns) {
                device.ledger.insert("oom", oom.ledger.clone());
            }
        }
        let mut notes = pretended::notes(header, capacity.as_ref(), &report, ledger, facts);
        notes.extend(facts.notes.iter().cloned());
        notes.extend(ledger.notes().iter().cloned());
        notes.extend(sentences::notes(&report, ledger));
        if situation.empties_cache_each_step {
            notes.push(sentences::EMPTIES_CACHE.to_owned());
        }
        if has_unknown_site(&report) {
            let setting = |name| header.environment.get(name).map(String::as_str);
            notes.extend(sentences::why_unknown(
                setting("OOMHOOK_STACKS"),
                setting("OOMHOOK_DEPTH"),
            ));
        }
        if found.suppressed_blocks > 0 {
            notes.push(sentences::suppressed(
                found.suppressed_bytes,
                found.suppressed_blocks,
            ));
        }
        notes.extend(resolver.notes());
        report.notes = notes.iter().map(|note| clean::text(note)).collect();
        report
    }
}

fn has_unknown_site(report: &Report) -> bool {
    let at_peak = report.devices.iter().flat_map(|device| &device.peak.sites);
    let left = report.leaks.iter().map(|leak| &leak.site);
    let asked = report.oom.iter().map(|oom| oom.site_frame);
    at_peak
        .chain(left)
        .map(|site| site.site_frame)
        .chain(asked)
        .any(|frame| frame.is_none())
}

/// Who was watched.
#[must_use]
pub fn process(header: &Header, ledger: &Ledger, facts: &Facts) -> Process {
    let end = ledger.end_of_process();
    let process = &header.process;
    Process {
        host: process.host.clone(),
        pid: process.pid,
        ppid: process.ppid,
        command: process.command.clone(),
        rank: process.rank,
        local_rank: process.local_rank,
        job: process.job.clone(),
        start_time: units::timestamp(process.start_unix_ns),
        start_unix_ns: process.start_unix_ns,
        duration_ns: facts.so_far_ns.unwrap_or(0).max(ledger.last_ns()),
        end: match end.map(|end| end.kind) {
            Some(EndKind::Exit) => ProcessEnd::Exit,
            Some(EndKind::ImmediateExit) => ProcessEnd::ImmediateExit,
            Some(EndKind::Signal) => ProcessEnd::Signal,
            Some(EndKind::Exec) => ProcessEnd::Exec,
            None if facts.running => ProcessEnd::Running,
            None => ProcessEnd::Unfinished,
        },
        exit_code: end.and_then(|end| end.code),
        signal: end.and_then(|end| end.signal),
    }
}

/// True if the process died of something.
#[must_use]
pub fn ended_badly(process: &Process) -> bool {
    match process.end {
        ProcessEnd::Exit | ProcessEnd::ImmediateExit => {
            process.exit_code.is_some_and(|code| code != 0)
        }
        ProcessEnd::Signal | ProcessEnd::Unfinished => true,
        ProcessEnd::Exec | ProcessEnd::Running => false,
    }
}

fn totals(ledger: &Ledger) -> Totals {
    let totals = ledger.totals();
    Totals {
        allocs: totals.allocs,
        frees: totals.frees,
        failed_allocs: totals.failed_allocs,
        failed_frees: totals.failed_frees,
        null_frees: totals.null_frees,
        zero_size: totals.zero_size,
        cumulative_bytes: totals.cumulative_bytes,
        untracked_frees: totals.untracked_frees,
    }
}

fn space_use(usage: &oomhook_ledger::SpaceUse) -> SpaceUse {
    SpaceUse {
        allocs: usage.allocs,
        frees: usage.frees,
        live_bytes: usage.live.bytes,
        live_blocks: usage.live.blocks,
        peak_bytes: usage.peak_bytes,
        cumulative_bytes: usage.cumulative_bytes,
    }
}

/// Every device that the driver described or the process used.
fn devices(ledger: &Ledger, resolver: &mut Resolver<'_>, roles: &Roles) -> Vec<Device> {
    let definitions = ledger.definitions();
    let mut numbers: Vec<Option<u8>> = ledger
        .devices()
        .iter()
        .filter(|(number, usage)| number.is_some() || usage.peak.bytes > 0)
        .map(|(number, _)| number)
        .collect();
    let defined = definitions.devices().iter();
    numbers.extend(defined.filter_map(|device| u8::try_from(device.ordinal).ok().map(Some)));
    numbers.sort_unstable_by_key(|number| number.map_or(u32::MAX, u32::from));
    numbers.dedup();
    let none = DeviceUse::default();
    numbers
        .into_iter()
        .map(|number| {
            let usage = ledger.device(number).unwrap_or(&none);
            let described = number.and_then(|number| definitions.device(number));
            device(ledger, resolver, roles, number, usage, described)
        })
        .collect()
}

fn device(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    number: Option<u8>,
    usage: &DeviceUse,
    described: Option<&DeviceRecord>,
) -> Device {
    let at_peak = ledger
        .rows()
        .filter(|(_, row)| row.key.device == number && row.key.space.is_device())
        .map(|(_, row)| (row, ledger.at_peak(row)));
    let sites = sites::collect(ledger, resolver, ledger.totals().allocs, at_peak);
    Device {
        device: number.map(u32::from),
        uuid: described.map_or_else(String::new, |device| uuid(&device.uuid)),
        pci_bus_id: described.map_or_else(String::new, |device| device.pci_bus_id.clone()),
        mig: None,
        name: described.map_or_else(String::new, |device| clean::text(&device.name)),
        total_bytes: described.map_or(0, |device| device.total_bytes),
        real_total_bytes: None,
        live_bytes: usage.live.bytes,
        live_blocks: usage.live.blocks,
        peak_bytes: usage.peak.bytes,
        peak_event: usage.peak.event,
        peak_time_ns: usage.peak.time_ns,
        spaces: ON_DEVICES
            .into_iter()
            .map(|space| (space.name(), space_use(usage.spaces.get(space))))
            .collect(),
        tensors: cache::of_device(ledger, resolver, roles, number),
        peak: Peak {
            bytes: usage.peak.bytes,
            time_ns: usage.peak.time_ns,
            event: usage.peak.event,
            phase: phases::name(ledger, usage.peak.phase),
            round: usage.peak.round,
            sites,
        },
        ledger: number.map_or_else(BTreeMap::new, |number| {
            let mut accounts = BTreeMap::new();
            accounts.insert("peak", account::at_peak(ledger, number));
            accounts.insert("exit", account::at_exit(ledger, number));
            accounts
        }),
        costs: number.map_or_else(Vec::new, |number| costs(ledger, resolver, number)),
        unmeasured_calls: number.map_or(0, |number| ledger.costs().not_apart(number)),
        latest: number.and_then(|number| latest(ledger, number)),
        over_time: number.map_or_else(Vec::new, |number| over_time::points(ledger, number)),
        untracked_growth: number.and_then(|number| over_time::growth(ledger, number)),
    }
}

fn costs(ledger: &Ledger, resolver: &mut Resolver<'_>, device: u8) -> Vec<CostSite> {
    let rows = ledger.costs().rows().into_iter();
    rows.filter(|(key, _)| key.device == device)
        .map(|(key, row)| {
            let stack = resolver.stack(key.stack);
            CostSite {
                name: key.kind.name(),
                call: resolver.call(key.call),
                bytes: row.bytes,
                calls: row.calls,
                estimated: row.estimated,
                site: Rc::clone(&stack.site),
                label: Rc::clone(&stack.label),
                library: Rc::clone(&stack.library),
                stack: Rc::clone(&stack.frames),
            }
        })
        .collect()
}

fn latest(ledger: &Ledger, device: u8) -> Option<DeviceLook> {
    let sample = &ledger.costs().latest(device)?.sample;
    Some(DeviceLook {
        time_ns: sample.time_ns,
        used_bytes: sample.used,
        total_bytes: sample.total,
        process_bytes: sample.process,
        others: sample.others_known.then(|| sample.others.clone()),
    })
}

/// As the driver's tools print it.
fn uuid(bytes: &[u8]) -> String {
    if bytes.len() != 16 {
        return String::new();
    }
    let mut text = "GPU-".to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn host(ledger: &Ledger) -> Host {
    let spaces = ledger.devices().everywhere();
    Host {
        spaces: [Space::Pinned, Space::Registered]
            .into_iter()
            .map(|space| (space.name(), space_use(spaces.get(space))))
            .collect(),
    }
}

fn va(ledger: &Ledger) -> Va {
    let usage = ledger.devices().everywhere().get(Space::ReservedVa);
    Va {
        live_bytes: usage.live.bytes,
        peak_bytes: usage.peak_bytes,
    }
}

fn gone(released: &ReleasedSpaces) -> BTreeMap<&'static str, Gone> {
    Space::ALL
        .into_iter()
        .filter(|space| *space != Space::ReservedVa)
        .map(|space| {
            let Amount { bytes, blocks, .. } = released.get(space);
            (space.name(), Gone { bytes, blocks })
        })
        .collect()
}

/// The driver's code for calls that come when it has shut down, which it does when the process exits.
const DEINITIALIZED: u32 = 4;

fn anomalies(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Anomalies {
    let anomalies = ledger.anomalies();
    let came_too_late = |one: &Anomaly| one.code == DEINITIALIZED && is_refused_free(one.kind);
    // Details are kept of the first ones only; a driver that has shut down does not come back.
    let ends_too_late = anomalies.events.last().is_some_and(came_too_late);
    let mut after_shutdown = 0;
    let mut count = |kind: Kind, number: u64| {
        let of_kind = |one: &&Anomaly| one.kind == kind;
        let kept = anomalies.events.iter().filter(of_kind);
        let late = kept.clone().filter(|one| came_too_late(one)).count() as u64;
        let left = match ends_too_late && is_refused_free(kind) {
            true => (kept.count() as u64).saturating_sub(late),
            false => number.saturating_sub(late),
        };
        after_shutdown += number.saturating_sub(left);
        left
    };
    Anomalies {
        unknown_free: count(Kind::UnknownFree, anomalies.unknown_free),
        double_free: count(Kind::DoubleFree, anomalies.double_free),
        interior_free: count(Kind::InteriorFree, anomalies.interior_free),
        cross_api_free: anomalies.cross_api_free,
        failed_free: count(Kind::FailedFree, anomalies.failed_free),
        free_after_reset: count(Kind::FreeAfterReset, anomalies.free_after_reset),
        failed_register: anomalies.failed_register,
        after_shutdown,
        events: anomalies
            .events
            .iter()
            .filter(|one| !came_too_late(one))
            .map(|one| anomaly(one, ledger, resolver))
            .collect(),
    }
}

fn is_refused_free(kind: Kind) -> bool {
    !matches!(kind, Kind::CrossApiFree | Kind::FailedRegister)
}

fn anomaly(one: &Anomaly, ledger: &Ledger, resolver: &mut Resolver<'_>) -> AnomalyEvent {
    let stack = resolver.stack(one.by.stack);
    let block = one.block.and_then(|block| {
        let row = ledger.row(block.row)?;
        let stack = resolver.stack(row.key.stack);
        Some(AnomalyBlock {
            address: format!("{:#x}", block.address),
            bytes: block.bytes,
            event: block.number,
            space: row.key.space.name(),
            site: Rc::clone(&stack.site),
            label: Rc::clone(&stack.label),
            stack: Rc::clone(&stack.frames),
        })
    });
    let ended = one.ended.map(|ended| {
        let stack = resolver.stack(ended.by.stack);
        AnomalyEnd {
            time_ns: ended.by.time_ns,
            call: resolver.call(ended.by.call),
            thread: resolver.thread(ended.by.thread),
            site: Rc::clone(&stack.site),
            label: Rc::clone(&stack.label),
            stack: Rc::clone(&stack.frames),
        }
    });
    AnomalyEvent {
        kind: one.kind,
        time_ns: one.by.time_ns,
        call: resolver.call(one.by.call),
        thread: resolver.thread(one.by.thread),
        address: format!("{:#x}", one.address),
        code: one.code,
        site: Rc::clone(&stack.site),
        label: Rc::clone(&stack.label),
        stack: Rc::clone(&stack.frames),
        block,
        ended,
    }
}

fn contexts(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Vec<Context> {
    ledger
        .contexts()
        .iter()
        .map(|context| {
            let stack = (context.stack != 0).then(|| resolver.stack(context.stack));
            let of_stack = |part: fn(&Stack) -> &Rc<str>| stack.as_deref().map(part).cloned();
            Context {
                device: context.device.map(u32::from),
                explicit: context.explicit && !context.green,
                kind: match (context.green, context.explicit) {
                    (true, _) => "green",
                    (_, true) => "explicit",
                    _ => "primary",
                },
                time_ns: context.time_ns,
                destroyed_ns: context.destroyed_ns,
                site: of_stack(|stack| &stack.site),
                label: of_stack(|stack| &stack.label),
                library: of_stack(|stack| &stack.library),
                stack: stack.map_or_else(|| Rc::from([]), |stack| Rc::clone(&stack.frames)),
            }
        })
        .collect()
}

fn threads(ledger: &Ledger) -> Vec<Thread> {
    let definitions = ledger.definitions();
    ledger
        .threads()
        .into_iter()
        .map(|(id, usage)| {
            let thread = definitions.thread(id);
            Thread {
                name: thread.map_or_else(
                    || format!("thread {id}"),
                    |thread| clean::text(&thread.name),
                ),
                exited: thread.is_some_and(|thread| thread.exited),
                allocs: usage.allocs,
                frees: usage.frees,
                tid: thread.map_or(0, |thread| thread.tid),
            }
        })
        .collect()
}
