//! The program's own output lines beside its memory.

pub mod keys;

use crate::clean;
use crate::sentences;
use keys::{Log, LogCounter, LogJump, LogKey, LogLine, LogStep, Number};
use oomhook_ledger::Ledger;
use oomhook_ledger::log::{Jump, Line, Step};
use oomhook_ledger::oom::Group;

/// All that is kept of them.
#[must_use]
pub fn all(ledger: &Ledger) -> Log {
    let log = ledger.log();
    let steps = log.steps();
    Log {
        count: log.count(),
        lines: log.lines().map(line).collect(),
        steps: steps.iter().map(|one| step(one, steps.keys(one))).collect(),
        jumps: steps.jumps().map(jump).collect(),
    }
}

/// The last lines before a failure.
#[must_use]
pub fn before(ledger: &Ledger, group: &Group) -> Vec<LogLine> {
    ledger.log().before(group.log).iter().map(line).collect()
}

/// The latest jump that had to do with keys, before a failure or by it.
#[must_use]
pub fn jump_before(ledger: &Ledger, group: &Group) -> Option<LogJump> {
    let jumps = ledger.log().steps().jumps();
    let named = jumps.filter(|one| !one.keys.is_empty() && one.time_ns <= group.last_ns);
    named.last().map(jump)
}

fn line(line: &Line) -> LogLine {
    let cache = line.figures.and_then(|now| now.cache);
    LogLine {
        time_ns: line.time_ns,
        stream: if line.stream == 2 { "stderr" } else { "stdout" },
        late: line.late,
        text: clean::text(&line.text),
        live_bytes: line.figures.map(|now| now.live),
        allocated_bytes: cache.map(|(allocated, _)| allocated),
        reserved_bytes: cache.map(|(_, reserved)| reserved),
    }
}

fn step<'a>(step: &Step, keys: impl Iterator<Item = (&'a str, &'a str)>) -> LogStep {
    let cache = step.now.cache;
    LogStep {
        time_ns: step.time_ns,
        keys: keys
            .map(|(key, text)| (clean::text(key), number(text)))
            .collect(),
        live_bytes: step.now.live,
        allocated_bytes: cache.map(|(allocated, _)| allocated),
        reserved_bytes: cache.map(|(_, reserved)| reserved),
        peak_bytes: step.peaks.live,
        allocated_peak_bytes: cache.map(|_| step.peaks.allocated),
    }
}

fn number(text: &str) -> Number {
    let whole = text.parse().map(Number::Whole);
    whole.unwrap_or_else(|_| Number::Real(text.parse().unwrap_or(f64::NAN)))
}

fn jump(jump: &Jump) -> LogJump {
    let mut shown = LogJump {
        time_ns: jump.time_ns,
        from_bytes: jump.from,
        to_bytes: jump.to,
        of: if jump.of_cache { "tensors" } else { "device" },
        out_of_memory: jump.failed,
        step: jump.counter.as_ref().map(|(key, number)| LogCounter {
            key: clean::text(key),
            number: number.clone(),
        }),
        keys: jump
            .keys
            .iter()
            .map(|change| LogKey {
                key: clean::text(&change.key),
                before: change.before.clone(),
                after: change.after.clone(),
            })
            .collect(),
        text: String::new(),
    };
    shown.text = sentences::jump(&shown);
    shown
}
