//! Phases of the program: what lived in them, and what they left behind.

pub mod keys;

use crate::clean;
use crate::failures::place;
use crate::resolve::Resolver;
use keys::{Phase, PhaseGrowth, PhaseHeight, PhaseInstance};
use oomhook_ledger::Ledger;
use oomhook_ledger::growth::Growth;
use oomhook_ledger::oom::Group;
use oomhook_ledger::phases::{Height, Instance, PhaseId, PhaseUse};
use std::collections::HashMap;

/// Every phase, in order of appearance.
pub fn all(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Vec<Phase> {
    let growth = ledger.growth();
    let mut lasting: HashMap<PhaseId, Vec<Instance>> = HashMap::new();
    for (id, instance) in ledger.lasting_phases() {
        lasting.entry(id).or_default().push(instance);
    }
    let phases = ledger.phases().iter();
    phases
        .map(|(id, usage)| {
            let growth = growth.iter().find(|growth| growth.phase == id);
            let lasting = lasting.remove(&id).unwrap_or_default();
            phase(ledger, resolver, usage, &lasting, growth)
        })
        .collect()
}

/// The name of a phase, as people know it.
#[must_use]
pub fn name(ledger: &Ledger, id: PhaseId) -> Option<String> {
    Some(clean::text(ledger.phases().get(id)?.name()))
}

/// The name of a phase with the number of its instance, if it had several.
#[must_use]
pub fn name_and_round(ledger: &Ledger, id: PhaseId, round: u64) -> Option<String> {
    let name = name(ledger, id)?;
    let count = ledger.phases().get(id)?.count;
    Some(if count.max(round) > 1 && round > 0 {
        format!("{name} ({round})")
    } else {
        name
    })
}

/// The phases in which memory ran out, the outermost first, as the program named them.
#[must_use]
pub fn within(ledger: &Ledger, group: &Group) -> Vec<String> {
    let phases = group.phases.iter();
    phases
        .filter_map(|(id, name)| match ledger.phases().name(*name) {
            Some(name) => Some(clean::text(&name)),
            None => name_and_round(ledger, *id, group.round),
        })
        .collect()
}

fn phase(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    usage: &PhaseUse,
    lasting: &[Instance],
    growth: Option<&Growth>,
) -> Phase {
    let phases = ledger.phases();
    let name = |instance: &Instance| phases.name(instance.name).map(|name| clean::text(&name));
    let (highest, peak) = highest(&usage.highest, usage.count, lasting, |height| height.peak);
    let of_tensors: fn(&Height) -> u64 = |height| height.tensors_peak;
    let (tensors, tensors_peak) = match ledger.tensors().any() {
        true => self::highest(&usage.highest_tensors, usage.count, lasting, of_tensors),
        false => (None, None),
    };
    let hidden: i64 = lasting.iter().map(|instance| instance.hidden).sum();
    Phase {
        name: clean::text(usage.name()),
        kind: if usage.is_mark { "mark" } else { "range" },
        count: usage.count,
        lasting: lasting.len() as u64,
        peak_bytes: peak.map_or(0, |height| height.peak),
        peak_device: peak.and_then(|height| height.device).map(u32::from),
        peak_round: highest.map_or(0, |(round, _)| round),
        peak_name: highest.and_then(|(_, instance)| name(instance)),
        tensors_peak_bytes: tensors_peak.map(|height| height.tensors_peak),
        tensors_peak_round: tensors.map(|(round, _)| round),
        tensors_peak_name: tensors.and_then(|(_, instance)| name(instance)),
        live_growth_bytes: live_growth(ledger, usage),
        hidden_bytes: usage.hidden + hidden,
        growth: growth.map_or(Vec::new(), |growth| left_behind(ledger, resolver, growth)),
        instances: usage
            .instances
            .iter()
            .chain(lasting)
            .map(|one| instance(one, name(one)))
            .collect(),
    }
}

/// The highest of the instances that ended, or of those that last if one of these is higher, with its number, and its height.
fn highest<'a>(
    ended: &'a Option<(u64, Instance)>,
    count: u64,
    lasting: &'a [Instance],
    of: fn(&Height) -> u64,
) -> (Option<(u64, &'a Instance)>, Option<Height>) {
    let top = |instance: &Instance| {
        let heights = instance.heights.iter().copied();
        heights.max_by_key(of).unwrap_or_default()
    };
    let ended = ended.as_ref().map(|(number, instance)| (*number, instance));
    let mut highest = ended;
    for (number, instance) in (count + 1..).zip(lasting) {
        let known = highest.map_or(0, |(_, known)| of(&top(known)));
        if of(&top(instance)) > known {
            highest = Some((number, instance));
        }
    }
    (highest, highest.map(|(_, instance)| top(instance)))
}

fn live_growth(ledger: &Ledger, usage: &PhaseUse) -> i64 {
    let cached = ledger.tensors().any();
    let sum = |instance: Option<&Instance>, of: [fn(&Height) -> u64; 2]| -> i64 {
        let of = of[usize::from(cached)];
        let heights = instance.map_or(&[][..], |instance| &instance.heights);
        let sum: u64 = heights.iter().map(of).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    let first = sum(
        usage.instances.front(),
        [|height| height.begin, |height| height.tensors_begin],
    );
    let last = sum(
        usage.instances.back(),
        [|height| height.end, |height| height.tensors_end],
    );
    last - first
}

/// What each instance leaves behind; rows of one site (threads, calls) are one.
pub(crate) fn left_behind(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    growth: &Growth,
) -> Vec<PhaseGrowth> {
    let mut found: Vec<PhaseGrowth> = Vec::new();
    for (row, bytes) in &growth.rows {
        let row = if growth.of_tensors {
            ledger.tensors().row(*row)
        } else {
            ledger.row(*row)
        };
        let Some(row) = row else { continue };
        let of = place(&resolver.stack(row.key.stack));
        match found.iter_mut().find(|known| known.of.is_same(&of)) {
            Some(known) => known.bytes_per_mark += bytes,
            None => found.push(PhaseGrowth {
                bytes_per_mark: *bytes,
                instances: growth.instances,
                of,
            }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.bytes_per_mark));
    found
}

fn instance(instance: &Instance, name: Option<String>) -> PhaseInstance {
    PhaseInstance {
        name,
        begun_ns: instance.begun_ns,
        ended_ns: instance.ended_ns,
        devices: instance
            .heights
            .iter()
            .map(|height| PhaseHeight {
                device: height.device.map(u32::from),
                begin_bytes: height.begin,
                peak_bytes: height.peak,
                end_bytes: height.end,
                tensors_begin_bytes: height.tensors_begin,
                tensors_peak_bytes: height.tensors_peak,
                tensors_end_bytes: height.tensors_end,
            })
            .collect(),
        hidden_bytes: instance.hidden,
    }
}
