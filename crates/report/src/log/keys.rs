//! The JSON's keys on the program's own output.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The program's own output lines, from the first call of CUDA on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Log {
    /// How many lines there were.
    pub count: u64,
    /// The last ones, oldest first.
    pub lines: Vec<LogLine>,
    /// Lines that tell of a step, oldest first; of very many every second, fourth, … one.
    pub steps: Vec<LogStep>,
    /// Where a step needed much more memory than any before.
    pub jumps: Vec<LogJump>,
}

/// A line. The memory is that of the device where most was in use.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogLine {
    /// When it was written.
    pub time_ns: u64,
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// It was written before that time and came out of a buffer, or was read from a file.
    pub late: bool,
    /// The line.
    pub text: String,
    /// Live device bytes then; null if it came late.
    pub live_bytes: Option<u64>,
    /// Bytes handed out by a framework's cache then; null without one.
    pub allocated_bytes: Option<u64>,
    /// Bytes that the cache held.
    pub reserved_bytes: Option<u64>,
}

/// A step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogStep {
    /// When its line was written.
    pub time_ns: u64,
    /// Its keys, in order.
    #[serde(serialize_with = "numbers")]
    pub keys: Vec<(String, Number)>,
    /// Live device bytes at its line.
    pub live_bytes: u64,
    /// Bytes handed out by a framework's cache; null without one.
    pub allocated_bytes: Option<u64>,
    /// Bytes that the cache held.
    pub reserved_bytes: Option<u64>,
    /// Most live device bytes since the line before with the same keys.
    pub peak_bytes: u64,
    /// Most bytes handed out since then; null without a cache.
    pub allocated_peak_bytes: Option<u64>,
}

/// A number of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A whole one.
    Whole(i64),
    /// Another one; null if it was none (`nan`).
    Real(f64),
}

fn numbers<S: Serializer>(keys: &[(String, Number)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(keys.len()))?;
    for (key, number) in keys {
        map.serialize_entry(key, number)?;
    }
    map.end()
}

/// A step that needed much more memory than any before.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogJump {
    /// When its line was written, or when memory ran out in it.
    pub time_ns: u64,
    /// The peak of the step before.
    pub from_bytes: u64,
    /// The peak of this one; with what was asked for, if memory ran out in it.
    pub to_bytes: u64,
    /// `tensors` if these are bytes handed out by a framework's cache, else `device`.
    pub of: &'static str,
    /// Memory ran out in it.
    pub out_of_memory: bool,
    /// The counter that tells which step it was.
    pub step: Option<LogCounter>,
    /// Keys that had been the same for a while and changed there.
    pub keys: Vec<LogKey>,
    /// The same in words.
    pub text: String,
}

/// A counter of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogCounter {
    /// Its key.
    pub key: String,
    /// Its number, as it was written.
    pub number: String,
}

/// A key whose number changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogKey {
    /// The key.
    pub key: String,
    /// Its number before, as it was written.
    pub before: String,
    /// Its number from then on.
    pub after: String,
}
