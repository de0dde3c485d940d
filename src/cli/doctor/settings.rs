//! The settings in force: `OOMHOOK_*`, `LD_PRELOAD`, `CUDA_VISIBLE_DEVICES`, and the library itself.

use super::words;
use crate::cli::{library, traces};
use oomhook_report::clean;
use oomhook_report::settings;
use serde::Serialize;
use std::path::Path;

/// A setting that was made.
#[derive(Debug, Serialize)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// What is wrong with it, and what is used instead.
    pub problem: Option<String>,
}

/// A library that LD_PRELOAD names.
#[derive(Debug, Serialize)]
pub struct Preloaded {
    pub path: String,
    /// A path that leads to no file; a bare name is looked for by the loader.
    pub missing: bool,
}

/// liboomhook.so.
#[derive(Debug, Serialize)]
pub struct Library {
    pub path: Option<String>,
    pub problem: Option<String>,
}

/// A variable that says something, fit to be shown.
pub fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(clean::text(&value.to_string_lossy()))
}

/// All of oomhook's, by name.
pub fn in_force() -> Vec<Setting> {
    // Of the command, of `run` inside `run`, of the simulator and of the tests: nobody sets them by mistake.
    let is_inner = |name: &str| {
        let rest = name.strip_prefix("OOMHOOK_").unwrap_or_default();
        ["LIB", "RUN", "LABELS", "SIM", "TEST", "ARTEFACTS"]
            .iter()
            .any(|inner| {
                rest.strip_prefix(inner)
                    .is_some_and(|more| more.is_empty() || more.starts_with('_'))
            })
    };
    let mut found = Vec::new();
    for (name, value) in std::env::vars_os() {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        if !name.starts_with("OOMHOOK") || value.is_empty() || is_inner(&name) {
            continue;
        }
        let problem = match () {
            () if !settings::KNOWN.contains(&&*name) => Some(words::no_such_setting(&name)),
            () if name == "OOMHOOK_SUPPRESS" => traces::suppressions().err(),
            () => settings::complaint(&name, &value),
        };
        found.push(Setting {
            name: clean::text(&name),
            value: clean::text(&value),
            problem: problem.map(|problem| clean::text(&problem)),
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// What LD_PRELOAD names.
pub fn preloaded() -> Vec<Preloaded> {
    let value = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let value = value.to_string_lossy().into_owned();
    let names = value.split([':', ' ']).filter(|name| !name.is_empty());
    names
        .map(|name| Preloaded {
            path: clean::text(name),
            missing: name.contains('/') && !Path::new(name).exists(),
        })
        .collect()
}

impl Library {
    /// Looks for it.
    pub fn look() -> Library {
        match library::find() {
            Ok(path) => Library {
                path: Some(clean::text(&path.to_string_lossy())),
                problem: None,
            },
            Err(problem) => Library {
                path: None,
                problem: Some(clean::text(&problem)),
            },
        }
    }
}

/// True if `CUDA_VISIBLE_DEVICES` hides every GPU.
pub fn hides_every_gpu() -> bool {
    match std::env::var_os("CUDA_VISIBLE_DEVICES") {
        None => false,
        Some(value) => {
            let value = value.to_string_lossy();
            let first = value.split(',').next().unwrap_or_default().trim();
            // The first that makes no sense hides itself and all that follow.
            first.is_empty() || first.starts_with('-') || first == "NoDevFiles"
        }
    }
}
