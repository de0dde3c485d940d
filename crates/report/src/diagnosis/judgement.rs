//! What speaks for one cause, and the diagnosis that is made of several.

use super::advice::{Situation, advice};
use super::cause::Cause;
use serde::Serialize;

/// How much speaks for a cause. What is certain comes before what is likely, that before what is possible.
pub type Weight = u32;
/// Nothing else could explain it.
pub const CERTAIN: Weight = 90;
/// It explains most of it.
pub const LIKELY: Weight = 70;
/// It has a part in it, or is one of several explanations.
pub const POSSIBLE: Weight = 50;

/// What speaks for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The cause.
    pub cause: Cause,
    /// How much.
    pub weight: Weight,
    /// The line that a person can change.
    pub place: Option<String>,
    /// Why it is thought so: sentences whose numbers all stand in the report.
    pub evidence: Vec<String>,
}

/// Why memory ran out, or will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The cause for which most speaks.
    pub class: Cause,
    /// The device that a process that went well was looked at for; a failure has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// The line that a person can change, as `train.py:88 step`.
    pub place: Option<String>,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// What helps, most useful first, and what does not.
    pub advice: Vec<String>,
    /// Other causes that hold, the likeliest first.
    pub also: Vec<Also>,
}

/// Another cause that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Also {
    /// The cause.
    pub class: Cause,
    /// The line that a person can change.
    pub place: Option<String>,
    /// What speaks for it.
    pub evidence: Vec<String>,
}

impl Diagnosis {
    /// The same, of a device.
    #[must_use]
    pub fn on(self, device: u8) -> Diagnosis {
        Diagnosis {
            device: Some(u32::from(device)),
            ..self
        }
    }
}

/// The diagnosis of what was found; `None` if nothing was.
#[must_use]
pub fn diagnose(mut found: Vec<Judgement>, situation: &Situation) -> Option<Diagnosis> {
    found.sort_by_key(|one| (std::cmp::Reverse(one.weight), one.cause));
    let mut found = found.into_iter();
    let first = found.next()?;
    Some(Diagnosis {
        advice: advice(first.cause, situation),
        class: first.cause,
        device: None,
        place: first.place,
        evidence: first.evidence,
        also: found
            .map(|one| Also {
                class: one.cause,
                place: one.place,
                evidence: one.evidence,
            })
            .collect(),
    })
}
