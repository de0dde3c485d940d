//! The kinds of reasons for which memory runs out.

use serde::{Deserialize, Serialize};

/// Why memory ran out. Several may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// What must be resident does not fit: weights, gradients, optimizer state, or one single request.
    Capacity,
    /// What lives for one step does not fit: activations, at a large batch or a long sequence.
    ActivationPeak,
    /// Enough is idle, but not in one piece.
    Fragmentation,
    /// Blocks stay alive that nobody needs any more.
    Retention,
    /// A share that was taken, or is to be taken, up front.
    Reservation,
    /// Another process has the memory.
    OtherProcess,
    /// A library asks beside the framework's cache, which has taken everything.
    StarvedLibrary,
    /// The host's memory, not the GPU's.
    HostMemory,
    /// Memory that grows beside all allocations: contexts, code, graphs.
    HiddenGrowth,
    /// What is known does not tell.
    NotClear,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 10] = [
        Cause::Capacity,
        Cause::ActivationPeak,
        Cause::Fragmentation,
        Cause::Retention,
        Cause::Reservation,
        Cause::OtherProcess,
        Cause::StarvedLibrary,
        Cause::HostMemory,
        Cause::HiddenGrowth,
        Cause::NotClear,
    ];

    /// The word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Capacity => "capacity",
            Cause::ActivationPeak => "activation_peak",
            Cause::Fragmentation => "fragmentation",
            Cause::Retention => "retention",
            Cause::Reservation => "reservation",
            Cause::OtherProcess => "other_process",
            Cause::StarvedLibrary => "starved_library",
            Cause::HostMemory => "host_memory",
            Cause::HiddenGrowth => "hidden_growth",
            Cause::NotClear => "not_clear",
        }
    }

    /// The words for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        crate::sentences::cause_title(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_json_is_the_name() {
        for cause in Cause::ALL {
            let json = serde_json::to_value(cause).expect("JSON");
            assert_eq!(json, serde_json::Value::from(cause.name()));
            assert_eq!(
                serde_json::from_value::<Cause>(json).expect("a cause"),
                cause
            );
            assert!(!cause.title().is_empty());
        }
    }
}
