//! What the advice depends on, taken from a trace: the framework and its version, settings in force, sizes.

use super::advice::{Framework, Situation, Version};
use crate::schema::{CacheThen, Oom};
use oomhook_ledger::Ledger;
use oomhook_ledger::definitions::{Definitions, Frame};
use oomhook_trace::Header;
use std::collections::BTreeMap;

/// Calls of `empty_cache` that may be a habit.
const HABIT: u64 = 5;
/// Frees of one such call follow each other at once.
const ONE_CALL_NS: u64 = 1_000_000;

/// The situation of a process, without sizes.
#[must_use]
pub fn of(header: &Header, ledger: &Ledger) -> Situation {
    Situation {
        framework: framework(header, ledger.definitions()),
        settings: header.environment.clone(),
        empties_cache_each_step: empties_cache(ledger),
        ..Situation::default()
    }
}

/// The same at a failure.
#[must_use]
pub fn at_failure(of_process: &Situation, oom: &Oom) -> Situation {
    let cache: Option<&CacheThen> = oom.cache.as_ref();
    Situation {
        expandable_segments: cache.is_some_and(|cache| cache.segments.expandable),
        requested_bytes: cache
            .and_then(|cache| cache.asked_bytes)
            .or(oom.requested_bytes),
        free_bytes: oom.free_bytes,
        idle_bytes: cache.map(|cache| cache.idle_bytes),
        largest_hole_bytes: cache.map(|cache| cache.segments.largest_hole_bytes),
        total_bytes: oom.total_bytes,
        limit_bytes: cache
            .filter(|cache| cache.by_own_limit)
            .map(|cache| cache.reserved_bytes),
        ..of_process.clone()
    }
}

fn framework(header: &Header, definitions: &Definitions) -> Framework {
    let named = |name: &str| header.frameworks.get(name);
    let paths: Vec<&str> = definitions
        .libraries()
        .into_iter()
        .map(|library| library.path.as_str())
        .collect();
    let loaded = |part: &str| paths.iter().any(|path| path.contains(part));
    if named("vllm").is_some() || loaded("/vllm/_C") {
        Framework::Vllm
    } else if named("torch").is_some() || loaded("/libc10_cuda") {
        Framework::PyTorch(named("torch").and_then(|text| version(text)))
    } else if named("jax").is_some() || loaded("xla_cuda_plugin") {
        Framework::Jax
    } else if named("tensorflow").is_some() || loaded("libtensorflow_framework") {
        Framework::TensorFlow
    } else if named("cupy").is_some() || loaded("/cupy_backends/") {
        Framework::CuPy
    } else if named("ggml").is_some() || loaded("/libggml-cuda") {
        Framework::LlamaCpp
    } else {
        Framework::Cuda
    }
}

/// `2.11.0+cu130`: 2.11.
fn version(text: &str) -> Option<Version> {
    let mut parts = text.split(['.', '+']);
    let major = parts.next()?.parse().ok()?;
    Some(Version(major, parts.next()?.parse().ok()?))
}

/// True if PyTorch's cache was emptied about as often as the program went round: segments were freed out of `empty_cache`, at
/// many instants. Once in an epoch is no habit.
fn empties_cache(ledger: &Ledger) -> bool {
    let mut known: BTreeMap<u32, bool> = BTreeMap::new();
    let mut calls = 0;
    let mut last_ns = None;
    let mut oldest_ns = ledger.last_ns();
    for ended in ledger.ended() {
        oldest_ns = ended.by.time_ns;
        let stack = ended.by.stack;
        let is_it = *known
            .entry(stack)
            .or_insert_with(|| passes_through_empty_cache(ledger.definitions(), stack));
        if !is_it {
            continue;
        }
        let new = last_ns.is_none_or(|last: u64| ended.by.time_ns.abs_diff(last) > ONE_CALL_NS);
        calls += u64::from(new);
        last_ns = Some(ended.by.time_ns);
    }
    // Of a long run only the latest frees are known.
    let (known_ns, all_ns) = (ledger.last_ns() - oldest_ns, ledger.last_ns().max(1));
    let steps = u128::from(steps(ledger)) * u128::from(known_ns) / u128::from(all_ns);
    calls >= HABIT && u128::from(calls) * 2 >= steps
}

/// How often the program went round, as far as the blocks tell that come and go: most stacks ask once in each step, those in loops
/// over layers more often, and some once in an epoch.
fn steps(ledger: &Ledger) -> u64 {
    let rows = ledger.tensors().rows().map(|(_, row)| row);
    let mut counts: Vec<u64> = rows
        .filter(|row| row.allocs >= HABIT && row.ended() * 10 >= row.allocs * 9)
        .map(|row| row.allocs)
        .collect();
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied().unwrap_or(0)
}

fn passes_through_empty_cache(definitions: &Definitions, stack: u32) -> bool {
    definitions.stack(stack).iter().any(|frame| {
        let Some(Frame::Python { code, .. }) = definitions.frame(*frame) else {
            return false;
        };
        definitions
            .code(code)
            .is_some_and(|code| code.name == "empty_cache" && code.file.contains("/torch/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_parts_that_count() {
        assert_eq!(version("2.11.0+cu130"), Some(Version(2, 11)));
        assert_eq!(version("1.13"), Some(Version(1, 13)));
        assert_eq!(version("2"), None);
        assert_eq!(version(""), None);
    }
}
