//! An explanation for people: what was found, the equation, the likely reason, what helps, what to run next.

use super::message::{Kind, Numbers};
use super::words as say;
use super::{Explanation, Group};
use oomhook_report::diagnosis::{Cause, Framework};
use oomhook_report::sentences;
use oomhook_report::text::label::width;
use oomhook_report::text::{Colour, Paint, Style, wrap};
use oomhook_report::units::{bytes, count};
use std::collections::BTreeSet;

/// Columns of what stands before a line's text.
const MARGIN: usize = 11;
/// Fewer columns than this are not tried.
const NARROWEST: usize = 60;
/// Lines of a message's own words.
const QUOTED: usize = 2;
/// Further messages that are shown.
const MOST_FURTHER: usize = 3;
/// Other processes that are shown.
const MOST_OTHERS: usize = 4;
/// Less than this of the GPU is not worth a word.
const CRUMB: u64 = 100;

struct Page<'a> {
    style: &'a Style,
    paint: Paint,
    text: String,
}

impl Page<'_> {
    fn columns(&self) -> usize {
        self.style.width.max(NARROWEST)
    }

    fn title(&mut self, title: &str) {
        let title = self.paint.bold(title);
        self.text.push_str(&format!("\n{title}\n"));
    }

    /// A word, then text beside it, broken to the width.
    fn row(&mut self, word: &str, text: &str) {
        let lines = wrap(text, self.columns() - MARGIN);
        self.lines(word, &lines);
    }

    fn lines(&mut self, word: &str, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            let word = if at == 0 { word } else { "" };
            let gap = " ".repeat(MARGIN.saturating_sub(width(word)).max(1));
            self.text.push_str(&format!("{word}{gap}{line}\n"));
        }
    }

    fn item(&mut self, text: &str) {
        for (at, line) in wrap(text, self.columns() - 4).iter().enumerate() {
            let lead = if at == 0 { "  - " } else { "    " };
            self.text.push_str(&format!("{lead}{line}\n"));
        }
    }
}

/// The page; `log` is what the log is called.
pub fn render(explanation: &Explanation, log: &str, style: &Style) -> String {
    let mut page = Page {
        style,
        paint: Paint(style.colour),
        text: String::new(),
    };
    let Some((main, further)) = explanation.messages.split_first() else {
        return page.text;
    };
    let class = explanation.causes.first().map(|cause| cause.class);
    let colour = match class {
        Some(Cause::NotClear) | None => Colour::Yellow,
        Some(_) => Colour::Red,
    };
    let headline = say::headline(main, class);
    let headline = page.paint.with(colour, &headline);
    page.text.push_str(&format!("oomhook: {headline}\n"));

    let whole = count(explanation.lines);
    page.row(
        "message",
        &format!("{log}, {}", occurrence(main, Some(&whole))),
    );
    // Room for the mark that it goes on.
    let mut quoted = wrap(&main.text, page.columns() - MARGIN - 3);
    if quoted.len() > QUOTED {
        quoted.truncate(QUOTED);
        if let Some(last) = quoted.last_mut() {
            last.push_str(" ..");
        }
    }
    page.lines("", &quoted);
    if let Some(place) = &main.place {
        page.row("from", &say::place(place));
    }
    if let Some(step) = main.step {
        page.row("after", &format!("step {step}"));
    }

    numbers(&mut page, main);
    page.title("why");
    for (at, cause) in explanation.causes.iter().enumerate() {
        let word = match (at, cause.class) {
            (_, Cause::NotClear) => "  -",
            (0, _) => "  likely",
            _ => "  possible",
        };
        page.row(
            word,
            &format!("{}: {}", cause.class.title(), cause.evidence.join("; ")),
        );
    }
    page.title("what helps");
    for advice in &explanation.advice {
        page.item(advice);
    }
    if !further.is_empty() {
        page.title("also in the log");
        for group in further.iter().take(MOST_FURTHER) {
            let text = format!("{}: {}", occurrence(group, None), group.text);
            let lines = wrap(&text, page.columns() - 5);
            let mut first = lines.first().cloned().unwrap_or_default();
            if lines.len() > 1 {
                first.push_str(" ..");
            }
            page.text.push_str(&format!("  {first}\n"));
        }
        let left = explanation.further + further.len().saturating_sub(MOST_FURTHER) as u64;
        if left > 0 {
            page.text.push_str(&format!("  and {} more\n", count(left)));
        }
    }
    page.text
        .push_str(&format!("\n{}", sentences::next_after(&explanation.next)));
    page.text
}

/// Where, how often, from which ranks.
fn occurrence(group: &Group, of: Option<&str>) -> String {
    let mut text = format!("line {}", count(group.first_line));
    if let Some(of) = of {
        text.push_str(&format!(" of {of}"));
    }
    if group.count > 1 {
        text.push_str(&format!(", {} times", count(group.count)));
    }
    match group.ranks.len() {
        0 => {}
        1 => text.push_str(&format!(", rank {}", ranges(&group.ranks))),
        _ => text.push_str(&format!(", ranks {}", ranges(&group.ranks))),
    }
    if group.devices.len() > 1 {
        text.push_str(&format!(", GPUs {}", ranges(&group.devices)));
    }
    text
}

/// `0-7, 12`.
fn ranges(numbers: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let word = |(first, last): (u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    ranges.into_iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Part of an equation.
type Part = (u64, String);

fn sum(parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|(size, what)| format!("{} {what}", bytes(*size)))
        .collect();
    parts.join(" + ")
}

fn numbers(page: &mut Page<'_>, group: &Group) {
    let numbers = &group.numbers;
    // Which GPU it was stands in the headline.
    let nothing = Numbers {
        device: numbers.device,
        ..Numbers::default()
    };
    if *numbers == nothing && group.facts.is_empty() {
        return;
    }
    page.title("what the numbers mean");
    if let Some(asked) = numbers.requested_bytes {
        let what = match group.kind {
            Kind::ShareNotFree => " for vLLM's share",
            Kind::CacheTooSmall => " of KV cache for one request",
            Kind::HostAllocator => " of host memory",
            Kind::SharedMemory => " of shared memory",
            _ => "",
        };
        page.row("  asked", &format!("{}{what}", bytes(asked)));
    }
    if let Some(total) = numbers.total_bytes {
        let name = numbers
            .device
            .map_or("  GPU".to_owned(), |device| format!("  GPU {device}"));
        let parts = of_device(numbers, total);
        page.row(&name, &equation(total, &parts));
    }
    let cache = of_process(group);
    match numbers.process_bytes {
        Some(process) if group.kind == Kind::HostKill => {
            page.row("  had", &format!("{} of host memory", bytes(process)));
        }
        Some(process) => page.row("  process", &equation(process, &cache)),
        None if !cache.is_empty()
            && (numbers.limit_bytes.is_none() || numbers.total_bytes.is_some()) =>
        {
            page.row("  cache", &sum(&cache));
        }
        None => {}
    }
    if let Some(limit) = numbers.limit_bytes {
        let of_pool = numbers.process_bytes.is_none() && numbers.total_bytes.is_none();
        let what = match group.kind {
            Kind::CacheTooSmall => " is there for the KV cache".to_owned(),
            _ if of_pool && !cache.is_empty() => format!(" = {}", sum(&cache)),
            _ => " is the most that it may take".to_owned(),
        };
        page.row("  limit", &format!("{}{what}", bytes(limit)));
    }
    let program = of_program(numbers);
    if !program.is_empty() {
        page.row("  program", &sum(&program));
    }
    if let Some(hole) = numbers.largest_hole_bytes {
        page.row(
            "  hole",
            &format!("{} is the largest idle piece", bytes(hole)),
        );
    }
    for fact in &group.facts {
        page.row("  note", fact);
    }
}

fn equation(whole: u64, parts: &[Part]) -> String {
    match parts {
        [] => bytes(whole),
        parts => format!("{} = {}", bytes(whole), sum(parts)),
    }
}

/// What a device is made of; what the message leaves open is called so.
fn of_device(numbers: &Numbers, total: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    parts.extend(numbers.free_bytes.map(|free| (free, "free".to_owned())));
    let own = match (numbers.process_bytes, numbers.reserved_bytes) {
        (Some(process), _) => Some((process, "this process".to_owned())),
        (None, Some(held)) => Some((held, "PyTorch's cache".to_owned())),
        (None, None) => numbers
            .allocated_bytes
            .map(|used| (used, "live tensors".to_owned())),
    };
    parts.extend(own);
    let mut others = numbers.others.clone();
    others.sort_by_key(|other| std::cmp::Reverse(other.bytes));
    for other in others.iter().take(MOST_OTHERS) {
        parts.push((other.bytes, format!("process {}", other.pid)));
    }
    let left = others.get(MOST_OTHERS..).unwrap_or_default();
    if !left.is_empty() {
        let size = left.iter().map(|other| other.bytes).sum();
        parts.push((
            size,
            format!(
                "{} more",
                sentences::plural(left.len() as u64, "process").replace("processs", "processes")
            ),
        ));
    }
    let told: u64 = parts
        .iter()
        .fold(0, |sum, (size, _)| sum.saturating_add(*size));
    let rest = total.saturating_sub(told);
    if !parts.is_empty() && rest > total / CRUMB {
        let what = match numbers.process_bytes {
            Some(_) => "not told whose",
            None => "not told whose (contexts, libraries, other processes)",
        };
        parts.push((rest, what.to_owned()));
    }
    parts
}

/// What a compiled program needs.
fn of_program(numbers: &Numbers) -> Vec<Part> {
    [
        (numbers.temporary_bytes, "temporaries"),
        (numbers.parameter_bytes, "parameters"),
        (numbers.output_bytes, "outputs"),
    ]
    .into_iter()
    .filter_map(|(size, what)| Some((size?, what.to_owned())))
    .collect()
}

/// What a process, or its cache, is made of.
fn of_process(group: &Group) -> Vec<Part> {
    let numbers = &group.numbers;
    let is_torch = matches!(group.of, Framework::PyTorch(_) | Framework::Vllm);
    let private = numbers.private_pool_bytes.unwrap_or(0);
    let mut parts = Vec::new();
    if let Some(used) = numbers.allocated_bytes {
        let what = if is_torch { "live tensors" } else { "in use" };
        parts.push((used.saturating_sub(private), what.to_owned()));
    }
    if private > 0 {
        parts.push((private, "in pools of CUDA graphs".to_owned()));
    }
    if let Some(idle) = numbers.idle_bytes {
        let what = if is_torch {
            "idle in PyTorch's cache"
        } else {
            "idle in the pool"
        };
        parts.push((idle, what.to_owned()));
    }
    if let Some(process) = numbers.process_bytes {
        let told: u64 = parts
            .iter()
            .fold(0, |sum, (size, _)| sum.saturating_add(*size));
        let rest = process.saturating_sub(told);
        if !parts.is_empty() && rest > 0 {
            parts.push((
                rest,
                "beside the cache (context, code, libraries)".to_owned(),
            ));
        }
    }
    parts
}
