//! What helps against running out of memory: the exact switch for this framework and version, merged with what is set, and
//! what will not help.

use super::cause::Cause;
use crate::sentences as say;
use serde::Serialize;
use std::collections::BTreeMap;

/// Who manages the memory that ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Framework {
    /// PyTorch, and its version where it is known.
    PyTorch(Option<Version>),
    /// JAX (XLA).
    Jax,
    /// TensorFlow.
    TensorFlow,
    /// CuPy.
    CuPy,
    /// llama.cpp and what is built on ggml.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// The program calls CUDA itself.
    Cuda,
    /// Not known.
    #[default]
    Unknown,
}

/// A version of a framework: 2.9 is (2, 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Version(pub u32, pub u32);

/// What is known about a process that ran out of memory. Sizes are bytes.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// Who manages the memory.
    pub framework: Framework,
    /// Environment variables in force, by name: allocator settings of frameworks.
    pub settings: BTreeMap<String, String>,
    /// PyTorch's segments are expandable, by a setting or otherwise.
    pub expandable_segments: bool,
    /// The program calls `empty_cache` in each step.
    pub empties_cache_each_step: bool,
    /// What was asked for.
    pub requested_bytes: Option<u64>,
    /// Free on the device.
    pub free_bytes: Option<u64>,
    /// Held by the framework's cache and not in use.
    pub idle_bytes: Option<u64>,
    /// Largest piece of what is idle.
    pub largest_hole_bytes: Option<u64>,
    /// The device's size.
    pub total_bytes: Option<u64>,
    /// What the process was allowed to take, if less than the device.
    pub limit_bytes: Option<u64>,
}

/// The allocator's settings from torch 2.9 on.
pub const NEW_NAME: &str = "PYTORCH_ALLOC_CONF";
/// The same before, still read by later versions if the new one is not set.
pub const OLD_NAME: &str = "PYTORCH_CUDA_ALLOC_CONF";
const NEW_NAME_SINCE: Version = Version(2, 9);
const EXPANDABLE_SINCE: Version = Version(2, 1);
const SPLIT_LIMIT_SINCE: Version = Version(1, 10);

impl Situation {
    /// True if PyTorch's segments are expandable, by what is said or by the settings.
    #[must_use]
    pub fn is_expandable(&self) -> bool {
        self.expandable_segments || self.option("expandable_segments").is_some_and(is_true)
    }

    /// PyTorch's settings in force, and under which name.
    fn configuration(&self) -> Option<(&str, &str)> {
        // The new name hides the old one, where it is known at all.
        let names = match self.framework {
            Framework::PyTorch(Some(version)) if version < NEW_NAME_SINCE => [OLD_NAME, OLD_NAME],
            _ => [NEW_NAME, OLD_NAME],
        };
        let set = |name| Some((name, self.settings.get(name)?.as_str()));
        names.into_iter().find_map(set)
    }

    /// One of PyTorch's settings.
    fn option(&self, name: &str) -> Option<&str> {
        let (_, all) = self.configuration()?;
        options(all).rev().find(|(key, _)| *key == name)?.1
    }

    /// The assignment that sets one option and keeps the others.
    fn with_option(&self, name: &str, value: &str) -> String {
        let (set_as, all) = self.configuration().unzip();
        let others = options(all.unwrap_or_default()).filter(|(key, _)| *key != name);
        let mut parts: Vec<String> = others
            .map(|(key, value)| match value {
                Some(value) => format!("{key}:{value}"),
                None => key.to_owned(),
            })
            .collect();
        parts.push(format!("{name}:{value}"));
        let name = match self.framework {
            Framework::PyTorch(Some(version)) if version >= NEW_NAME_SINCE => NEW_NAME,
            Framework::PyTorch(Some(_)) => OLD_NAME,
            _ => set_as.unwrap_or(OLD_NAME),
        };
        format!("{name}={}", parts.join(","))
    }

    /// True if it has to be said that the variable has another name in another version.
    fn name_depends(&self) -> bool {
        let unknown = !matches!(self.framework, Framework::PyTorch(Some(_)));
        unknown && self.configuration().is_none()
    }

    fn is_set_to(&self, name: &str, value: fn(&str) -> bool) -> bool {
        self.settings.get(name).is_some_and(|set| value(set))
    }
}

/// `a:b,c:d` as pairs; lists in brackets stay whole.
fn options(all: &str) -> impl DoubleEndedIterator<Item = (&str, Option<&str>)> {
    let mut depth = 0u32;
    let parts: Vec<&str> = all
        .split(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    parts.into_iter().map(|part| match part.split_once(':') {
        Some((key, value)) => (key.trim(), Some(value.trim())),
        None => (part, None),
    })
}

fn is_true(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "1" | "true" | "yes" | "on"
    )
}

fn is_false(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "0" | "false" | "no" | "off"
    )
}

/// What helps, most useful first, each a sentence or two; then what does not.
#[must_use]
pub fn advice(cause: Cause, situation: &Situation) -> Vec<String> {
    let mut advice = match cause {
        Cause::Capacity => capacity(situation),
        Cause::ActivationPeak => activation_peak(situation),
        Cause::Fragmentation => fragmentation(situation),
        Cause::Retention => retention(situation),
        Cause::Reservation => reservation(situation),
        Cause::OtherProcess => other_process(situation),
        Cause::StarvedLibrary => starved_library(situation),
        Cause::HostMemory => say::against_host_memory(is_pytorch(situation)),
        Cause::HiddenGrowth => say::against_hidden_growth(),
        // What to do next depends on what there is: a report shows what held the memory, a log cannot.
        Cause::NotClear => Vec::new(),
    };
    if situation.empties_cache_each_step {
        advice.push(say::EMPTIES_CACHE.to_owned());
    }
    advice
}

fn is_pytorch(situation: &Situation) -> bool {
    // vLLM's tensors come from PyTorch's cache.
    matches!(situation.framework, Framework::PyTorch(_) | Framework::Vllm)
}

fn capacity(situation: &Situation) -> Vec<String> {
    let mut advice = Vec::new();
    let over = situation
        .requested_bytes
        .zip(situation.total_bytes)
        .filter(|(requested, total)| requested >= total);
    if let Some((requested, total)) = over {
        // Nothing else of the program matters.
        return vec![say::larger_than_device(requested, total)];
    }
    let tight = situation.limit_bytes.filter(|limit| {
        // A limit at the device's size is none.
        situation.total_bytes.is_none_or(|total| *limit < total)
    });
    if let Some(limit) = tight {
        advice.push(match situation.framework {
            Framework::PyTorch(_) | Framework::Vllm => say::pytorch_limit(limit),
            Framework::CuPy => say::cupy_limit(limit),
            Framework::Jax => say::jax_limit(limit, jax_fraction(situation)),
            _ => say::some_limit(limit),
        });
    }
    advice.push(match situation.framework {
        Framework::LlamaCpp => say::LLAMA_SMALLER.to_owned(),
        Framework::Vllm => say::VLLM_SMALLER.to_owned(),
        Framework::CuPy | Framework::Cuda => say::SMALLER_PIECES.to_owned(),
        _ => say::SMALLER_MODEL.to_owned(),
    });
    if is_pytorch(situation) && tight.is_none() {
        advice.push(say::NO_HELP_CAPACITY.to_owned());
    }
    advice
}

fn activation_peak(situation: &Situation) -> Vec<String> {
    let mut advice = vec![say::SMALLER_BATCH.to_owned()];
    advice.push(match situation.framework {
        Framework::Jax => say::JAX_CHECKPOINT.to_owned(),
        Framework::TensorFlow => say::TF_CHECKPOINT.to_owned(),
        _ => say::TORCH_CHECKPOINT.to_owned(),
    });
    advice.push(say::BUCKETS.to_owned());
    advice
}

fn fragmentation(situation: &Situation) -> Vec<String> {
    let mut advice = Vec::new();
    match situation.framework {
        Framework::PyTorch(version) => torch_fragmentation(situation, version, &mut advice),
        Framework::Vllm => torch_fragmentation(situation, None, &mut advice),
        Framework::Jax | Framework::TensorFlow => {
            xla_fragmentation(situation, &mut advice);
        }
        Framework::CuPy => advice.push(say::CUPY_FRAGMENTATION.to_owned()),
        _ => advice.push(say::ONE_SIZE.to_owned()),
    }
    advice.push(say::larger_card(situation.idle_bytes));
    advice
}

fn torch_fragmentation(situation: &Situation, version: Option<Version>, advice: &mut Vec<String>) {
    let is_async = situation.option("backend") == Some("cudaMallocAsync");
    if is_async {
        // The driver's pool has no segments of PyTorch's.
        advice.push(say::BACKEND_ASYNC.to_owned());
    } else if situation.is_expandable() {
        advice.push(say::EXPANDABLE_IS_ON.to_owned());
    } else if version.is_none_or(|version| version >= EXPANDABLE_SINCE) {
        let setting = situation.with_option("expandable_segments", "True");
        advice.push(say::expandable(&setting, situation.name_depends()));
    } else if version.is_some_and(|version| version >= SPLIT_LIMIT_SINCE) {
        match situation.option("max_split_size_mb") {
            Some(set) => advice.push(say::split_limit_is_on(set)),
            None => {
                let setting = situation.with_option("max_split_size_mb", "128");
                advice.push(say::split_limit(&setting));
            }
        }
    } else {
        advice.push(say::NO_SWITCH.to_owned());
    }
    advice.push(say::FEWER_SIZES.to_owned());
    if !situation.empties_cache_each_step {
        advice.push(say::EMPTY_CACHE.to_owned());
    }
}

fn xla_fragmentation(situation: &Situation, advice: &mut Vec<String>) {
    let (name, value) = match situation.framework {
        Framework::Jax => ("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"),
        _ => ("TF_GPU_ALLOCATOR", "cuda_malloc_async"),
    };
    if situation.settings.get(name).is_some_and(|set| set == value) {
        advice.push(say::is_on_already(name, value));
    } else {
        advice.push(say::async_allocator(name, value));
    }
    advice.push(say::FEWER_SIZES.to_owned());
}

fn retention(situation: &Situation) -> Vec<String> {
    match situation.framework {
        Framework::PyTorch(_) | Framework::Vllm | Framework::Unknown => {
            vec![
                say::BREAK_REFERENCES.to_owned(),
                say::NO_GRAD.to_owned(),
                say::NO_HELP_RETENTION.to_owned(),
            ]
        }
        Framework::Jax | Framework::TensorFlow => vec![say::BREAK_ARRAYS.to_owned()],
        _ => vec![say::FREE_BLOCKS.to_owned()],
    }
}

/// The name of XLA's share that is set; JAX reads it as an error if both are.
fn jax_fraction(situation: &Situation) -> &'static str {
    const NAMES: [&str; 2] = ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"];
    let set = |name: &&str| situation.settings.contains_key(*name);
    NAMES.into_iter().find(set).unwrap_or(NAMES[1])
}

fn reservation(situation: &Situation) -> Vec<String> {
    match situation.framework {
        Framework::Vllm => vec![
            say::VLLM_SHARE.to_owned(),
            say::VLLM_LENGTH.to_owned(),
            say::SHARE_AND_REST.to_owned(),
        ],
        Framework::LlamaCpp => vec![say::LLAMA_CONTEXT.to_owned(), say::LLAMA_SMALLER.to_owned()],
        Framework::TensorFlow => {
            let name = "TF_FORCE_GPU_ALLOW_GROWTH";
            let mut advice = Vec::new();
            match situation.is_set_to(name, is_true) {
                true => advice.push(say::is_on_already(name, "true")),
                false => advice.push(say::take_as_needed(&format!("{name}=true"))),
            }
            advice.push(say::SHARE_AND_REST.to_owned());
            advice
        }
        Framework::Jax => {
            let name = "XLA_PYTHON_CLIENT_PREALLOCATE";
            let mut advice = vec![say::smaller_share(jax_fraction(situation))];
            match situation.is_set_to(name, is_false) {
                true => advice.push(say::is_on_already(name, "false")),
                false => advice.push(say::take_as_needed(&format!("{name}=false"))),
            }
            advice.push(say::SHARE_AND_REST.to_owned());
            advice
        }
        _ => vec![say::LESS_UP_FRONT.to_owned()],
    }
}

fn other_process(situation: &Situation) -> Vec<String> {
    let mut advice = vec![say::STOP_OR_MOVE.to_owned()];
    if situation.framework == Framework::Vllm {
        advice.push(say::VLLM_SHARE_LOWER.to_owned());
    }
    advice.push(say::NO_HELP_OTHERS.to_owned());
    advice
}

fn starved_library(situation: &Situation) -> Vec<String> {
    let mut advice = Vec::new();
    match situation.framework {
        Framework::Jax => advice.push(say::smaller_share(jax_fraction(situation))),
        Framework::TensorFlow => {
            let name = "TF_FORCE_GPU_ALLOW_GROWTH";
            if !situation.is_set_to(name, is_true) {
                advice.push(say::take_as_needed(&format!("{name}=true")));
            }
        }
        _ => advice.push(say::LEAVE_ROOM.to_owned()),
    }
    advice.push(say::CREATE_EARLY.to_owned());
    advice
}
