//! Notes: what the reader should know beside the figures.

use super::*;

/// What the numbers themselves want the reader to know.
#[must_use]
pub fn notes(report: &Report, ledger: &Ledger) -> Vec<String> {
    let mut notes = Vec::new();
    if report.totals.untracked_frees > 0 {
        notes.push(format!(
            "{} of memory whose allocation was not seen",
            plural(report.totals.untracked_frees, "successful free")
        ));
    }
    let replaced = ledger.totals().replaced;
    if replaced > 0 {
        notes.push(format!(
            "{} ended unseen: the address was given out again",
            blocks(replaced)
        ));
    }
    if report.anomalies.cross_api_free > 0 {
        notes.push(format!(
            "{} across APIs (cuMemFree of async memory or the reverse): allowed",
            plural(report.anomalies.cross_api_free, "free")
        ));
    }
    notes.extend(managed_beyond(report));
    // A failure by order needs no other explanation.
    let attempts: u64 = report.oom.iter().map(|oom| oom.attempts).sum();
    let explained = failed_by_order(ledger) && attempts == 1;
    for note in report.oom.iter().filter_map(free_far_above) {
        if !explained && !notes.contains(&note) {
            notes.push(note);
        }
    }
    if report.anomalies.after_shutdown > 0 {
        notes.push(format!(
            "{} came when the driver had shut down with the process: harmless",
            plural(report.anomalies.after_shutdown, "free")
        ));
    }
    let beyond = ledger.oom().beyond();
    if beyond > 0 {
        notes.push(format!(
            "{} more failed allocations of other sizes or places",
            count(beyond)
        ));
    }
    let beyond = ledger.phases().beyond();
    if beyond > 0 {
        notes.push(too_many_phases(beyond));
    }
    notes.extend(held::held(report));
    notes.extend(unused_contexts(report));
    notes.extend(not_apart(report));
    notes.extend(hidden_pools(report));
    notes.extend(growth_beside(report));
    let hidden = report.devices.iter().find_map(|device| {
        // Whose blocks are told one by one hides nothing.
        let mut sites = device.peak.sites.iter();
        sites.find_map(|site| {
            site.via
                .filter(|via| device.tensors.is_none() || *via != crate::cache::VIA)
        })
    });
    notes.extend(hidden.map(hidden_by_cache));
    notes.dedup();
    notes
}

/// Contexts on devices where the process allocated nothing, while it did elsewhere: a device was touched by mistake.
fn unused_contexts(report: &Report) -> Vec<String> {
    let is_used = |device: Option<u32>| {
        let mut all = report.devices.iter();
        all.any(|one| one.device == device && one.peak_bytes > 0)
    };
    if !report.devices.iter().any(|device| device.peak_bytes > 0) {
        return Vec::new();
    }
    let mut told: Vec<Option<u32>> = Vec::new();
    let mut notes = Vec::new();
    for context in report.contexts.iter().filter(|one| one.kind != "green") {
        let has_tried = report.oom.iter().any(|oom| oom.device == context.device);
        if is_used(context.device) || has_tried || told.contains(&context.device) {
            continue;
        }
        told.push(context.device);
        let of_device = report
            .devices
            .iter()
            .find(|one| one.device == context.device);
        let lines = of_device.and_then(|one| one.ledger.get("exit"));
        let cost = lines.and_then(|lines| lines.iter().find(|line| line.name == "contexts"));
        let cost = cost.map_or_else(String::new, |line| {
            format!(" of {}", or_about(line.bytes, line.estimated))
        });
        let place = context.label.as_ref();
        let place = place.map_or_else(String::new, |label| format!(", by {label}"));
        notes.push(format!(
            "this process also opened a context{cost} on {}{place}, and allocated nothing there",
            gpu(context.device)
        ));
    }
    notes
}

/// Calls of which nobody knows what they took.
fn not_apart(report: &Report) -> Vec<String> {
    let told = report.devices.iter().filter_map(|device| {
        let lines = device.ledger.get("exit")?;
        let rest = lines.iter().find(|line| line.name == "rest")?.bytes;
        (device.unmeasured_calls > 0 && rest > 0).then(|| {
            format!(
                "{} on {} overlapped with others and could not be measured apart: up to {} of what is not explained is theirs",
                plural(device.unmeasured_calls, "call"),
                gpu(device.device),
                bytes(rest)
            )
        })
    });
    told.collect()
}

/// Pools of which the driver has not said what they reserve.
fn hidden_pools(report: &Report) -> Option<String> {
    let devices = report.devices.iter();
    let mut hidden: Vec<Option<u32>> = devices
        .filter(|device| report.hides_pools(device.device))
        .map(|device| device.device)
        .collect();
    hidden.sort_unstable();
    (!hidden.is_empty()).then(|| {
        format!(
            "what the memory pools on {} keep beside the blocks in use is not known, since the driver did not say: it is part of \
             what is not explained",
            gpus(&hidden)
        )
    })
}

/// `GPU 0`, `GPU 0 and 1`, `GPU 0, 1 and 2`, `8 GPUs`.
#[must_use]
pub fn gpus(devices: &[Option<u32>]) -> String {
    let numbers: Vec<String> = devices
        .iter()
        .map(|device| device.map_or_else(|| "?".to_owned(), |device| device.to_string()))
        .collect();
    match numbers.split_last() {
        None => gpu(None),
        Some((one, [])) => gpu(one.parse().ok()),
        Some((last, others)) if others.len() < 5 => {
            format!("GPU {} and {last}", others.join(", "))
        }
        Some((_, others)) => format!("{} GPUs", others.len() + 1),
    }
}

/// What grows beside the allocations.
fn growth_beside(report: &Report) -> Vec<String> {
    let growing = report.devices.iter().filter_map(|device| {
        let growth = device.untracked_growth.as_ref()?;
        let with = match growth.with {
            Some(kind) => format!(
                ", along with {} ({} each)",
                plural(growth.objects, &format!("more {}", object(kind))),
                bytes(growth.bytes_each)
            ),
            None if growth.is_own => String::new(),
            None => ", in this process or another one: NVML does not say which".to_owned(),
        };
        Some(format!(
            "beside allocations, memory on {} grew by {} since {}{with}",
            gpu(device.device),
            bytes(growth.bytes.unsigned_abs()),
            duration(growth.since_ns)
        ))
    });
    growing.collect()
}

/// One object of this kind.
fn object(kind: Object) -> &'static str {
    match kind {
        Object::Module => "module",
        Object::Library => "library of kernels",
        Object::GraphExec => "executable graph",
        Object::Graph => "graph",
        Object::Stream => "stream",
        Object::Event => "event",
        Object::Texture => "texture object",
        Object::Surface => "surface object",
        Object::GreenContext => "green context",
        Object::Pool => "memory pool",
        Object::Multicast => "multicast object",
    }
}

/// Managed memory that is more than the device has; of several devices the worst.
fn managed_beyond(report: &Report) -> Option<String> {
    let beyond = report.devices.iter().filter_map(|device| {
        let managed = device.spaces.get("managed")?.peak_bytes;
        let beyond = managed.checked_sub(device.total_bytes)?;
        (device.total_bytes > 0 && beyond > 0).then_some((managed, beyond))
    });
    let beyond: Vec<(u64, u64)> = beyond.collect();
    let (managed, most) = beyond.iter().max_by_key(|(_, beyond)| *beyond)?;
    let others = match beyond.len() {
        1 => String::new(),
        number => format!(", and so on {}", plural(number as u64 - 1, "more GPU")),
    };
    Some(format!(
        "managed memory of {} exceeds device by {} bytes{others}: it pages to the host",
        bytes(*managed),
        count(*most)
    ))
}

/// A cache stands between the program and the driver.
#[must_use]
pub fn hidden_by_cache(via: &str) -> String {
    let switch = match via {
        crate::cache::VIA => {
            "; PYTORCH_NO_CUDA_MEMORY_CACHING=1 (run --no-framework-cache) shows them"
        }
        "xla_bfc" => "; XLA_PYTHON_CLIENT_ALLOCATOR=platform (run --no-framework-cache) shows them",
        "cupy" => "; cupy.cuda.set_allocator(None) shows them",
        _ => "",
    };
    format!("blocks inside the cache of {via} are not listed one by one{switch}")
}
