//! What a device had in use, in one sentence.

use super::{bytes, gpus, or_about, plural};
use crate::schema::{LedgerLine, ProcessEnd};
use oomhook_trace::record::Other;

/// What is known of the device beside the lines of its account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// Other processes on it.
    pub others: &'a [Other],
    /// These are all.
    pub all_others: bool,
    /// Memory came from pools of which the driver has not said what they reserve.
    pub hidden_pools: bool,
}

/// What a line of the ledger is called, if it is no memory that this process allocated.
#[must_use]
pub fn ledger_name(name: &str) -> &str {
    match name {
        "pool_idle" => "pool reserve",
        "launches" => "first launches",
        "graph_execs" => "executable graphs",
        "other_calls" => "other calls",
        "other_processes" => "other processes",
        "driver" => "the driver's own",
        "rest" => "not explained",
        other => other,
    }
}

/// Lines of a ledger that are memory of this process's own making.
#[must_use]
pub fn is_own(name: &str) -> bool {
    matches!(name, "device" | "array" | "async" | "vmm" | "graph")
}

/// Lines of a ledger that this process has, and no allocation shows.
#[must_use]
pub fn is_hidden(name: &str) -> bool {
    let is_anybodys = matches!(name, "other_processes" | "driver" | "rest" | "free");
    !is_own(name) && !is_anybodys
}

/// Title of what is in use at the end.
#[must_use]
pub fn at_end_title(end: ProcessEnd) -> &'static str {
    match end {
        ProcessEnd::Running => "In use now",
        ProcessEnd::Exit | ProcessEnd::ImmediateExit => "In use at exit",
        ProcessEnd::Signal | ProcessEnd::Exec | ProcessEnd::Unfinished => "In use at the end",
    }
}

/// Devices without an account.
#[must_use]
pub fn on_more_gpus(number: usize) -> String {
    format!("and on {}", plural(number as u64, "more GPU"))
}

/// `nothing was allocated, but contexts and code take 712.0 MiB of GPU 0`.
#[must_use]
pub fn taken_besides(
    names: &[&str],
    size: u64,
    estimated: bool,
    devices: &[Option<u32>],
) -> String {
    let names: Vec<&str> = names.iter().map(|name| ledger_name(name)).collect();
    let names = match names.as_slice() {
        [one] => (*one).to_owned(),
        [one, other] => format!("{one} and {other}"),
        several => format!(
            "{} and others",
            several.first().copied().unwrap_or_default()
        ),
    };
    format!(
        "nothing was allocated, but {names} take {} of {}",
        or_about(size, estimated),
        gpus(devices)
    )
}

/// True if a ledger tells of more than what this process allocated.
#[must_use]
pub fn tells_more(lines: &[LedgerLine]) -> bool {
    let mut lines = lines.iter();
    lines.any(|line| line.name != "free" && !is_own(&line.name) && line.bytes > 0)
}

/// `10.0 GiB allocated by this process + about 512.0 MiB contexts + 2.0 GiB other processes (pid 4711 train.py) + 6.0 MiB in
/// small parts (code, streams)`. What is less than a hundredth comes last and in one.
#[must_use]
pub fn in_use(lines: &[LedgerLine], known: &Known<'_>) -> Option<String> {
    const SMALL: u64 = 100;
    let sum_of = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        let found = lines.iter().filter(|line| wanted(&line.name));
        found.map(|line| line.bytes).sum()
    };
    let used = sum_of(&|name| name != "free");
    let own = sum_of(&is_own);
    let mut parts = Vec::new();
    if own > 0 {
        // How large arrays are the driver does not say.
        let estimated = lines
            .iter()
            .any(|line| is_own(&line.name) && line.estimated);
        parts.push(format!(
            "{} allocated by this process",
            or_about(own, estimated)
        ));
    }
    let mut small: Vec<(String, u64, bool)> = Vec::new();
    let further = lines.iter().filter(|line| line.bytes > 0);
    for line in further.filter(|line| line.name != "free" && !is_own(&line.name)) {
        // Of what nobody explains everybody knows how well it is known.
        let (name, estimated) = match line.name.as_str() {
            "rest" => (rest_name(lines, known), false),
            name => (ledger_name(name).to_owned(), line.estimated),
        };
        // Who else is there is never a small matter.
        if line.name == "other_processes" {
            parts.push(format!(
                "{} {name}{}",
                or_about(line.bytes, estimated),
                names(known.others, line.bytes)
            ));
        } else if line.bytes.saturating_mul(SMALL) < used {
            small.push((name, line.bytes, estimated));
        } else {
            parts.push(format!("{} {name}", or_about(line.bytes, estimated)));
        }
    }
    match small.as_slice() {
        [] => {}
        [(name, size, estimated)] => parts.push(format!("{} {name}", or_about(*size, *estimated))),
        several => {
            let sum = several.iter().map(|small| small.1).sum();
            let estimated = several.iter().any(|small| small.2);
            let names: Vec<&str> = several.iter().map(|small| small.0.as_str()).collect();
            parts.push(format!(
                "{} in small parts ({})",
                or_about(sum, estimated),
                names.join(", ")
            ));
        }
    }
    (!parts.is_empty()).then(|| parts.join(" + "))
}

/// Where something was not measured, the rest has it too.
fn rest_name(lines: &[LedgerLine], known: &Known<'_>) -> String {
    let has = |name: &str| lines.iter().any(|line| line.name == name);
    let mut parts = Vec::new();
    if !has("contexts") {
        parts.push("contexts");
    }
    if known.hidden_pools {
        parts.push("what pools keep");
    }
    let knows_others = known.all_others || has("other_processes") || has("driver");
    if !knows_others && parts == ["contexts"] {
        parts.push("other processes");
    } else {
        if !knows_others && !parts.is_empty() {
            parts.push("other processes");
        }
        parts.push(if parts.is_empty() {
            "not explained"
        } else {
            "what is not explained"
        });
    }
    match parts.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} and {last}", others.join(", "))
        }
        _ => parts.concat(),
    }
}

/// ` (pid 4711 train.py 2.0 GiB, pid 4712 1.0 GiB)`, the largest first; of a single one that has it all the name alone.
/// Those of another moment have no figures: they would not make the sum.
pub(super) fn names(others: &[Other], sum: u64) -> String {
    const MOST: usize = 3;
    let mut known: Vec<&Other> = others
        .iter()
        .filter(|other| other.bytes.is_some())
        .collect();
    known.sort_by_key(|other| (std::cmp::Reverse(other.bytes), other.pid));
    let all: u64 = known.iter().filter_map(|other| other.bytes).sum();
    let mut parts: Vec<String> = known
        .iter()
        .take(MOST)
        .map(|other| {
            let name = crate::clean::text(crate::attribution::file_name(&other.name));
            let name = if name.is_empty() {
                name
            } else {
                format!(" {name}")
            };
            let size = other.bytes.unwrap_or(0);
            if size == sum || all != sum {
                format!("pid {}{name}", other.pid)
            } else {
                format!("pid {}{name} {}", other.pid, bytes(size))
            }
        })
        .collect();
    if known.len() > MOST {
        parts.push(format!("{} more", known.len() - MOST));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!(" ({})", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn line(name: &str, mib: u64, estimated: bool) -> LedgerLine {
        LedgerLine {
            name: name.to_owned(),
            bytes: mib * MIB,
            estimated,
        }
    }

    #[test]
    fn an_estimate_is_called_one() {
        let lines = [
            line("device", 1000, false),
            line("contexts", 564, true),
            line("code", 2, true),
            line("streams", 4, false),
            line("rest", 100, true),
        ];
        assert_eq!(
            in_use(&lines, &Known::default()).as_deref(),
            Some(
                "1000.0 MiB allocated by this process + about 564.0 MiB contexts + 100.0 MiB not explained + about 6.0 MiB in \
                 small parts (code, streams)"
            )
        );
    }

    #[test]
    fn the_rest_is_called_what_may_be_in_it() {
        let lines = [line("device", 1, false), line("rest", 1, true)];
        let name = |all_others, hidden_pools, lines: &[LedgerLine]| {
            let known = Known {
                all_others,
                hidden_pools,
                ..Known::default()
            };
            rest_name(lines, &known)
        };
        assert_eq!(name(false, false, &lines), "contexts and other processes");
        assert_eq!(
            name(true, false, &lines),
            "contexts and what is not explained"
        );
        assert_eq!(
            name(false, true, &lines),
            "contexts, what pools keep, other processes and what is not explained"
        );
        let lines = [line("contexts", 1, false), line("rest", 1, true)];
        assert_eq!(name(true, false, &lines), "not explained");
        assert_eq!(
            name(true, true, &lines),
            "what pools keep and what is not explained"
        );
    }

    #[test]
    fn figures_of_another_moment_are_not_set_beside_the_sum() {
        let other = |pid, mib: u64| Other {
            pid,
            name: "/usr/bin/train.py".to_owned(),
            bytes: Some(mib * MIB),
        };
        let both = [other(1, 100), other(2, 50)];
        assert_eq!(
            names(&both, 150 * MIB),
            " (pid 1 train.py 100.0 MiB, pid 2 train.py 50.0 MiB)"
        );
        assert_eq!(names(&both, 120 * MIB), " (pid 1 train.py, pid 2 train.py)");
        assert_eq!(names(&both[..1], 100 * MIB), " (pid 1 train.py)");
    }
}
