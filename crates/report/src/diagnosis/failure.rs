//! Why memory ran out: one rule for each cause, over the figures of a failure as the report shows them. A rule says nothing, or
//! how much speaks for its cause and which figures do.

use super::advice::{Framework, Situation};
use super::cause::Cause;
use super::judgement::{self, CERTAIN, Diagnosis, Judgement, LIKELY, POSSIBLE, Weight};
use super::{situation, stays};
use crate::cache::VIA;
use crate::cache::keys::CacheThen;
use crate::roles::Role;
use crate::schema::{LedgerLine, Oom, Site};
use crate::sentences as say;
use oomhook_ledger::oom::Class;
use std::collections::BTreeMap;

/// The diagnosis of a failure. Searches for a size that fits, and failures that were recovered from, need none.
#[must_use]
pub fn diagnose(oom: &Oom, of_process: &Situation) -> Option<Diagnosis> {
    if matches!(oom.class, Class::Recovered | Class::Probe) {
        return None;
    }
    let situation = situation::at_failure(of_process, oom);
    let failure = Failure::new(oom, &situation);
    let rules: [fn(&Failure<'_>) -> Option<Judgement>; 9] = [
        host_memory,
        other_process,
        capacity,
        fragmentation,
        starved_library,
        retention,
        reservation,
        activation_peak,
        hidden_growth,
    ];
    let mut found: Vec<Judgement> = rules.iter().filter_map(|rule| rule(&failure)).collect();
    if found.is_empty() {
        found.push(not_clear(&failure));
    }
    judgement::diagnose(found, &situation)
}

/// The figures of a failure. Sizes are bytes.
struct Failure<'a> {
    oom: &'a Oom,
    cache: Option<&'a CacheThen>,
    /// What was asked for; 0 if the call does not say.
    asked: u64,
    free: u64,
    /// What the device has, or what the cache may have of it.
    total: u64,
    /// What the program itself held: of a cache what it had handed out.
    held: u64,
    /// By what: blocks of the cache, else of the driver.
    sites: &'a [Site],
    is_vllm: bool,
}

impl<'a> Failure<'a> {
    fn new(oom: &'a Oom, situation: &'a Situation) -> Failure<'a> {
        let cache = oom.cache.as_ref();
        let sites = cache.map_or(&oom.sites, |cache| &cache.sites);
        let of_sites = sites.iter().map(|site| site.bytes).sum();
        let asked = cache.and_then(|cache| cache.asked_bytes);
        let total = situation.limit_bytes.or(oom.total_bytes);
        Failure {
            oom,
            cache,
            asked: asked.or(oom.requested_bytes).unwrap_or(0),
            free: oom.free_bytes.unwrap_or(0),
            total: total.unwrap_or(0),
            held: cache.map_or(of_sites, |cache| cache.allocated_bytes),
            sites,
            is_vllm: situation.framework == Framework::Vllm,
        }
    }

    /// True if most of what was held are segments of a cache whose blocks are not told: their lines are those that happened to
    /// need another segment.
    fn is_hidden(&self) -> bool {
        let hidden = self.sites.iter().filter(|site| site.via.is_some());
        let bytes: u64 = hidden.map(|site| site.bytes).sum();
        self.cache.is_none() && is_share(bytes, self.held, 50)
    }

    /// Live parameters.
    fn weights(&self) -> u64 {
        let sites = self.sites.iter();
        sites
            .filter(|site| site.role == Some(Role::Weights))
            .map(|site| site.blocks)
            .sum()
    }

    /// Who asked.
    fn asker(&self) -> String {
        let origin = self.oom.python_site.as_deref();
        let origin = origin.or(self.oom.autograd_node.as_deref());
        origin.unwrap_or(&self.oom.label).to_owned()
    }

    fn line(&self, name: &str) -> u64 {
        let lines = self.oom.ledger.iter();
        lines
            .filter(|line| line.name == name)
            .map(|line| line.bytes)
            .sum()
    }

    fn of_roles(&self, roles: &[Role]) -> u64 {
        let sites = self.sites.iter();
        sites
            .filter(|site| site.role.is_some_and(|role| roles.contains(&role)))
            .map(|site| site.bytes)
            .sum()
    }

    /// The line with most bytes among sites of some kind.
    fn largest(&self, is_of_it: impl Fn(Option<Role>) -> bool) -> Option<(String, u64)> {
        self.largest_with(is_of_it, 0)
    }

    /// The same; what is asked for counts for the asker, where it is of that kind.
    fn largest_with(
        &self,
        is_of_it: impl Fn(Option<Role>) -> bool,
        asked: u64,
    ) -> Option<(String, u64)> {
        let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
        for site in self.sites.iter().filter(|site| is_of_it(site.role)) {
            *lines.entry(line(site)).or_default() += site.bytes;
        }
        if is_of_it(self.oom.role)
            && let Some(bytes) = lines.get_mut(self.asker().as_str())
        {
            *bytes += asked;
        }
        let largest = lines.into_iter().max_by_key(|(_, bytes)| *bytes);
        largest.map(|(line, bytes)| (line.to_owned(), bytes))
    }
}

/// The line that a person can change.
fn line(site: &Site) -> &str {
    site.origin().unwrap_or(&site.label)
}

/// True if the part is at least so many hundredths of the whole.
fn is_share(part: u64, whole: u64, hundredths: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(hundredths)
}

fn judge(
    cause: Cause,
    weight: Weight,
    place: Option<String>,
    evidence: Vec<String>,
) -> Option<Judgement> {
    Some(Judgement {
        cause,
        weight,
        place,
        evidence,
    })
}

/// Pinned or registered memory ran out, or the driver lacked host memory for what it was asked.
fn host_memory(failure: &Failure<'_>) -> Option<Judgement> {
    let oom = failure.oom;
    let host = oom.host.as_ref().map(say::host);
    if matches!(oom.space, Some("pinned" | "registered")) {
        let mut evidence = vec![say::asks_the_host(&say::asked(oom))];
        evidence.extend(host);
        return judge(Cause::HostMemory, CERTAIN, Some(failure.asker()), evidence);
    }
    let note = say::free_far_above(oom)?;
    let mut evidence = vec![note];
    evidence.extend(host);
    judge(Cause::HostMemory, POSSIBLE, Some(failure.asker()), evidence)
}

/// Without the others there would have been room.
fn other_process(failure: &Failure<'_>) -> Option<Judgement> {
    let others = failure.line("other_processes");
    let would_fit = failure.asked <= failure.free.saturating_add(others);
    if !would_fit || !is_share(others, failure.total, 10) {
        return None;
    }
    let weight = match () {
        () if is_share(others, failure.total, 50) => CERTAIN,
        () if is_share(others, failure.total, 25) => LIKELY,
        () => POSSIBLE,
    };
    let evidence = vec![say::others_have(
        others,
        failure.total,
        &failure.oom.others,
        failure.free.saturating_add(others),
    )];
    judge(Cause::OtherProcess, weight, None, evidence)
}

/// One request is more than there is, or what stays is nearly all that there is.
fn capacity(failure: &Failure<'_>) -> Option<Judgement> {
    const RESIDENT: [Role; 3] = [Role::Weights, Role::Gradients, Role::OptimizerState];
    // A context takes something in any case.
    if failure.total > 0 && failure.asked >= failure.total {
        let evidence = vec![say::more_than_there_is(failure.asked, failure.total)];
        return judge(Cause::Capacity, CERTAIN, Some(failure.asker()), evidence);
    }
    let wanted = failure.held.saturating_add(failure.asked);
    let resident = failure.of_roles(&RESIDENT)
        + match failure.oom.role {
            Some(role) if RESIDENT.contains(&role) => failure.asked,
            _ => 0,
        };
    if is_share(resident, wanted, 60) && is_share(wanted, failure.total, 50) {
        let sums = RESIDENT.map(|role| (role, failure.of_roles(&[role])));
        let weights = failure.of_roles(&[Role::Weights]);
        // What a person decides is the model; gradients and optimizer state follow from it.
        let place = match is_share(weights, resident, 25) {
            true => failure.largest(|role| role == Some(Role::Weights)),
            false => failure.largest(|role| role.is_some_and(|role| RESIDENT.contains(&role))),
        };
        let evidence = vec![
            say::stays(&sums, failure.held),
            say::wanted(wanted, failure.total),
        ];
        let weight = LIKELY + u32::from(is_share(resident, wanted, 75)) * 5;
        return judge(
            Cause::Capacity,
            weight,
            place.map(|(place, _)| place),
            evidence,
        );
    }
    if failure.cache.is_some_and(|cache| cache.by_own_limit) {
        let evidence = vec![say::own_limit(failure.total)];
        return judge(Cause::Capacity, POSSIBLE, Some(failure.asker()), evidence);
    }
    if failure.is_hidden() {
        return None;
    }
    // Everything came, hardly anything went: it was still being loaded.
    let (allocs, frees) = match failure.cache {
        Some(cache) => (cache.allocs, cache.frees),
        None => failure.oom.calls_before,
    };
    if allocs >= 16 && frees.saturating_mul(20) <= allocs && is_share(wanted, failure.total, 80) {
        let (place, bytes) = failure.largest(|_| true)?;
        let evidence = vec![
            say::nothing_went(allocs, frees, bytes, failure.held, &place),
            say::wanted(wanted, failure.total),
        ];
        return judge(Cause::Capacity, POSSIBLE + 5, Some(place), evidence);
    }
    // No cache tells what is what: a few large blocks that nobody ever freed.
    let (place, bytes) = failure.largest(|_| true)?;
    let few = failure.sites.iter().filter(|site| {
        site.blocks == site.allocs && is_share(site.bytes / site.blocks.max(1), failure.total, 5)
    });
    let (blocks, sum) = few.fold((0, 0), |sum, site| {
        (sum.0 + site.blocks, sum.1 + site.bytes)
    });
    let is_few = failure.cache.is_none() && is_share(sum, wanted - failure.asked, 80);
    if is_few && is_share(wanted, failure.total, 50) {
        let evidence = vec![
            say::few_blocks(blocks, sum, &place, bytes),
            say::wanted(wanted, failure.total),
        ];
        return judge(Cause::Capacity, POSSIBLE + 5, Some(place), evidence);
    }
    None
}

/// There was enough, but not in one piece.
fn fragmentation(failure: &Failure<'_>) -> Option<Judgement> {
    let cache = failure.cache?;
    let (asked, idle) = (cache.asked_bytes?, cache.idle_bytes);
    let hole = cache.segments.largest_hole_bytes;
    let would_fit = asked <= idle.saturating_add(failure.free);
    if !would_fit || hole >= asked || !is_share(idle, cache.reserved_bytes, 10) {
        return None;
    }
    let weight = match () {
        () if asked <= idle && is_share(idle, cache.reserved_bytes, 25) => CERTAIN,
        () if is_share(idle, cache.reserved_bytes, 25) => LIKELY,
        () => POSSIBLE,
    };
    let mut evidence = vec![say::idle_in_pieces(
        asked,
        idle,
        cache.segments.idle_in,
        hole,
    )];
    let pinned = cache.pinned.first();
    let place = pinned.map(|pinned| pinned.of.line().to_string());
    if let (Some(pinned), Some(place)) = (pinned, &place) {
        evidence.push(say::pinned(pinned.segments, pinned.idle_bytes, place));
    }
    let place = place.or_else(|| Some(failure.asker()));
    judge(Cause::Fragmentation, weight, place, evidence)
}

/// A library asks the driver itself, and the cache has what it needs.
fn starved_library(failure: &Failure<'_>) -> Option<Judgement> {
    let cache = failure.cache?;
    let frames = failure.oom.stack.iter();
    let by_cache = cache.asked_bytes.is_some()
        || frames
            .take(failure.oom.site_frame.unwrap_or(0))
            .any(|frame| frame.library.starts_with(VIA));
    let short = match failure.asked {
        // Handles and code are small.
        0 => 16 << 20,
        asked => asked.saturating_sub(failure.free),
    };
    if by_cache || cache.idle_bytes < short || !is_share(cache.reserved_bytes, failure.total, 25) {
        return None;
    }
    let asker = failure.asker();
    let evidence = vec![say::starved(
        cache.reserved_bytes,
        failure.total,
        cache.idle_bytes,
        &say::asked(failure.oom),
    )];
    judge(Cause::StarvedLibrary, LIKELY + 10, Some(asker), evidence)
}

/// Blocks stay, more and more of them.
fn retention(failure: &Failure<'_>) -> Option<Judgement> {
    let rising = match failure.cache {
        Some(cache) => &cache.rising,
        None => &failure.oom.rising,
    };
    let kept = stays::kept(rising, failure.weights(), true);
    let (rise, place, mut evidence) = stays::told(&kept, failure.held)?;
    let weight = match () {
        () if is_share(rise, failure.held, 50) => CERTAIN - 5,
        () if is_share(rise, failure.held, 25) => LIKELY + 6,
        () if is_share(rise, failure.held, 10) => POSSIBLE,
        () => return None,
    };
    if let Some(growth) = failure.oom.growth.first() {
        let place = growth.of.line();
        evidence.push(say::left_behind(
            growth.bytes_per_mark,
            growth.instances,
            place,
        ));
    }
    judge(Cause::Retention, weight, Some(place), evidence)
}

/// A large share was taken in few blocks at the start, and something far smaller found no room beside it.
fn reservation(failure: &Failure<'_>) -> Option<Judgement> {
    const MOST_BLOCKS: u64 = 256;
    let mut lines: BTreeMap<&str, (u64, u64, bool)> = BTreeMap::new();
    for site in failure.sites {
        let is_arena = site.via == Some("xla_bfc");
        let is_kept = site.blocks == site.allocs && site.blocks <= MOST_BLOCKS;
        if is_arena || is_kept && site.role.is_none_or(|role| role == Role::Other) {
            let sum = lines.entry(line(site)).or_default();
            *sum = (sum.0 + site.bytes, sum.1 + site.blocks, sum.2 || is_arena);
        }
    }
    let (place, (bytes, blocks, is_arena)) = lines.into_iter().max_by_key(|(_, sum)| sum.0)?;
    let much = is_share(bytes, failure.total, 40) && is_share(bytes, failure.held, 50);
    // What is taken bit by bit is none; of vLLM it is known that each layer has its own.
    let is_large = blocks <= 2 || is_arena || failure.is_vllm;
    let beside = failure.asked > 0 && failure.asked <= bytes / 2;
    if !much || !is_large || !beside {
        return None;
    }
    let rises = failure
        .cache
        .map_or(&failure.oom.rising, |cache| &cache.rising);
    if rises.iter().any(|one| &**one.of.line() == place) {
        return None;
    }
    let evidence = vec![say::reserved(
        bytes,
        blocks,
        failure.total,
        place,
        failure.asked,
    )];
    let weight = match () {
        () if is_arena => CERTAIN - 5,
        () if blocks <= 2 => LIKELY + 8,
        () => POSSIBLE + 8,
    };
    judge(Cause::Reservation, weight, Some(place.to_owned()), evidence)
}

/// What lives for one step is most of it.
fn activation_peak(failure: &Failure<'_>) -> Option<Judgement> {
    let is_activation = |role| role == Some(Role::Activations);
    let wanted = failure.held.saturating_add(failure.asked);
    let asked = if is_activation(failure.oom.role) {
        failure.asked
    } else {
        0
    };
    let activations = failure.of_roles(&[Role::Activations]).saturating_add(asked);
    if !is_share(activations, wanted, 40) || !is_share(wanted, failure.total, 50) {
        return None;
    }
    let (place, bytes) = failure.largest_with(is_activation, failure.asked)?;
    let mut evidence = vec![say::activations(activations, wanted, bytes, &place)];
    // The program's own words tell most: which length, which batch.
    let jump = failure.oom.jump.as_ref();
    let jump = jump.filter(|jump| !jump.keys.is_empty());
    evidence.extend(jump.map(|jump| jump.text.clone()));
    let jumped = failure.cache.and_then(|cache| cache.jumped.first());
    if let Some(jumped) = jumped {
        let line = jumped.of.line();
        evidence.push(say::jumped(jumped.before_bytes, jumped.bytes, line));
    }
    let weight = match () {
        () if jumped.is_some() || jump.is_some() => LIKELY + 10,
        () if is_share(activations, wanted, 60) => LIKELY,
        () => POSSIBLE + 10,
    };
    judge(Cause::ActivationPeak, weight, Some(place), evidence)
}

/// What no allocation explains.
fn hidden_growth(failure: &Failure<'_>) -> Option<Judgement> {
    const HIDDEN: [&str; 7] = [
        "contexts",
        "code",
        "launches",
        "graph_execs",
        "streams",
        "other_calls",
        "rest",
    ];
    let lines = failure.oom.ledger.iter();
    let mut hidden: Vec<&LedgerLine> = lines
        .filter(|line| HIDDEN.contains(&line.name.as_str()) && line.bytes > 0)
        .collect();
    let sum: u64 = hidden.iter().map(|line| line.bytes).sum();
    let weight = match () {
        () if is_share(sum, failure.total, 50) => LIKELY + 5,
        () if is_share(sum, failure.total, 30) => POSSIBLE + 5,
        () => return None,
    };
    hidden.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    let parts: Vec<(&str, u64)> = hidden
        .iter()
        .take(3)
        .map(|line| (line.name.as_str(), line.bytes))
        .collect();
    let evidence = vec![say::beside_allocations(sum, failure.total, &parts)];
    judge(Cause::HiddenGrowth, weight, None, evidence)
}

fn not_clear(failure: &Failure<'_>) -> Judgement {
    let via = failure.sites.iter().find_map(|site| site.via);
    if let Some(via) = via.filter(|_| failure.is_hidden()) {
        return Judgement {
            cause: Cause::NotClear,
            weight: 0,
            place: None,
            evidence: vec![say::hidden_by_cache(via)],
        };
    }
    let largest = failure.largest(|_| true);
    let mut evidence = largest.as_ref().map_or(Vec::new(), |(place, bytes)| {
        vec![say::largest_of(*bytes, failure.held, place)]
    });
    let rising = failure
        .cache
        .map_or(&failure.oom.rising, |cache| &cache.rising);
    let larger = rising.iter().find(|site| site.larger_blocks);
    evidence.extend(larger.map(|site| say::ever_larger(site.blocks, site.of.line())));
    Judgement {
        cause: Cause::NotClear,
        weight: 0,
        place: largest.map(|(place, _)| place),
        evidence,
    }
}
