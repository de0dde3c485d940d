//! One table, grouped as asked.

use crate::account;
use crate::attribution;
use crate::clean;
use crate::resolve::{Resolver, Stack};
use crate::schema::{Frame, Language};
use crate::sentences as say;
use crate::text::Style;
use crate::text::label::{self, width};
use crate::units;
use oomhook_ledger::oom::{Class, Group as OomGroup};
use oomhook_ledger::phases::BEYOND;
use oomhook_ledger::{Amount, Ledger, Row};
use oomhook_trace::StackId;
use std::collections::HashMap;

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The place a person can change.
    Site,
    /// Its library.
    Library,
    /// The whole stack.
    Stack,
    /// The call.
    Api,
    /// The thread.
    Thread,
    /// The phase that the thread was in.
    Phase,
    /// The space.
    Space,
    /// The device.
    Device,
}

/// Which memory a table is about: the one lies inside the other, and they are never added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// What the driver was asked for.
    #[default]
    Driver,
    /// What a framework's cache handed out.
    Cache,
}

/// The instant that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The peak of each device.
    Peak,
    /// The end.
    Exit,
    /// The last out of memory.
    Oom,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it is.
    pub name: String,
    /// How much.
    pub amount: Amount,
    /// One of its stacks, where it is grouped by what stacks say.
    place: Option<StackId>,
    /// That stack is shown below the line.
    shows_stack: bool,
}

impl Group {
    /// A line that is no place.
    #[must_use]
    pub fn named(name: &str, amount: Amount) -> Group {
        Group {
            name: name.to_owned(),
            amount,
            place: None,
            shows_stack: false,
        }
    }
}

/// Groups the rows that lived at an instant, largest first. Device bytes only, unless grouped by space.
pub fn group(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    by: By,
    at: At,
    layer: Layer,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let rows = match layer {
        Layer::Driver => rows_at(ledger, at),
        Layer::Cache => tensors_at(ledger, at),
    };
    for (row, amount) in rows {
        let counted = row.key.space.is_device() || by == By::Space || at == At::Oom;
        if amount.blocks == 0 || !counted {
            continue;
        }
        let name = match layer {
            // Its call is the same for all.
            Layer::Cache if by == By::Api => crate::cache::CALL.to_owned(),
            _ => name(ledger, row, resolver, by),
        };
        // Stacks that look the same are one; stacks of the same site are not.
        let key = match by {
            By::Stack => look(&resolver.stack(row.key.stack), Frame::full_label),
            By::Thread => row.key.thread.to_string(),
            _ => name.clone(),
        };
        let number = *known.entry(key).or_insert_with(|| {
            groups.push(Group {
                name,
                amount: Amount::default(),
                place: matches!(by, By::Stack | By::Site).then_some(row.key.stack),
                shows_stack: by == By::Stack,
            });
            groups.len() - 1
        });
        groups[number].amount += amount;
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.amount.bytes));
    groups
}

fn rows_at(ledger: &Ledger, at: At) -> Vec<(&Row, Amount)> {
    match at {
        At::Exit => ledger.rows().map(|(_, row)| (row, row.live)).collect(),
        At::Peak => ledger
            .rows()
            .map(|(_, row)| (row, ledger.at_peak(row)))
            .collect(),
        At::Oom => {
            let last = latest_failure(ledger);
            let rows = last.map(|group| group.rows.as_slice()).unwrap_or_default();
            rows.iter()
                .filter_map(|(id, amount)| Some((ledger.row(*id)?, *amount)))
                .collect()
        }
    }
}

fn tensors_at(ledger: &Ledger, at: At) -> Vec<(&Row, Amount)> {
    let tensors = ledger.tensors();
    let rows = tensors.rows().map(|(_, row)| row);
    match at {
        At::Exit => rows.map(|row| (row, row.live)).collect(),
        At::Peak => rows.map(|row| (row, tensors.at_peak(row))).collect(),
        At::Oom => {
            let cache = latest_failure(ledger).and_then(|group| group.cache.as_ref());
            let rows = cache.map(|cache| cache.rows.as_slice()).unwrap_or_default();
            rows.iter()
                .filter_map(|(id, amount)| Some((tensors.row(*id)?, *amount)))
                .collect()
        }
    }
}

/// A size probe is no failure, unless there is no other.
fn latest_failure(ledger: &Ledger) -> Option<&OomGroup> {
    let groups = ledger.oom().groups().iter().enumerate();
    let last = groups.max_by_key(|(number, group)| {
        let is_probe = ledger.oom().class(*number, false) == Class::Probe;
        (!is_probe, group.last_ns)
    });
    last.map(|(_, group)| group)
}

fn name(ledger: &Ledger, row: &Row, resolver: &mut Resolver<'_>, by: By) -> String {
    match by {
        By::Stack => resolver.stack(row.key.stack).label.to_string(),
        By::Site => {
            let stack = resolver.stack(row.key.stack);
            let origin = stack.origin();
            label::with_origin(
                &stack.frames,
                None,
                &stack.label,
                origin.filter(|line| *line != &*stack.label),
                usize::MAX,
            )
        }
        By::Library => resolver.stack(row.key.stack).library.to_string(),
        By::Api => resolver.call(row.key.call).to_string(),
        By::Thread => match resolver.definitions().thread(row.key.thread) {
            Some(thread) => say::thread(&clean::text(&thread.name), thread.tid),
            None => format!("thread {}", row.key.thread),
        },
        By::Phase => match crate::phases::name(ledger, row.key.phase) {
            Some(name) => say::phase_name(&name),
            None if row.key.phase == BEYOND => say::beyond_phases(),
            None => say::NO_PHASE.to_owned(),
        },
        By::Space => row.key.space.name().to_owned(),
        By::Device => say::gpu(row.key.device.map(u32::from)),
    }
}

/// What a stack looks like.
fn look(stack: &Stack, label: impl Fn(&Frame) -> String) -> String {
    let frames = stack.frames.iter();
    frames
        .map(|frame| format!("{} [{}]\n", label(frame), frame.library))
        .collect()
}

/// What was in use beside that, a line for each device.
#[must_use]
pub fn besides(ledger: &Ledger, at: At, style: &Style) -> String {
    let known_devices = ledger.definitions().devices().iter();
    let devices: Vec<u8> = known_devices
        .filter_map(|device| u8::try_from(device.ordinal).ok())
        .collect();
    let last = latest_failure(ledger);
    let mut text = String::new();
    for device in devices {
        let lines = match at {
            At::Peak => account::at_peak(ledger, device),
            At::Exit => account::at_exit(ledger, device),
            At::Oom => match last.filter(|group| group.device == Some(device)) {
                Some(group) => account::at_failure(group),
                None => continue,
            },
        };
        let look = ledger.costs().latest(device);
        let known = say::Known {
            others: look.map_or(&[], |look| look.other_processes()),
            all_others: look.is_some_and(|look| look.sample.others_known),
            hidden_pools: !ledger.knows_pools(device),
        };
        if say::tells_more(&lines)
            && let Some(used) = say::in_use(&lines, &known)
        {
            let gpu = say::gpu(Some(u32::from(device)));
            let mark = format!("{}{gpu}  ", say::IN_USE);
            text.push_str(&crate::text::paragraph(&mark, &used, style));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("\n{text}")
}

/// The names of rows in so many columns. Where two look alike, what differs is put behind them.
fn names(groups: &[Group], resolver: &mut Resolver<'_>, room: usize) -> Vec<String> {
    let mut short = |columns: usize| -> Vec<String> {
        let names = groups.iter().map(|group| {
            let Some(place) = group.place else {
                return label::shorten(&group.name, columns);
            };
            let stack = resolver.stack(place);
            let origin = stack.origin().filter(|_| !group.shows_stack);
            label::with_origin(
                &stack.frames,
                stack.site_frame,
                &stack.label,
                origin,
                columns,
            )
        });
        names.collect()
    };
    let shown = short(room);
    let shorter = short(room.saturating_sub(DIFFERENCE + 3));
    let alike = |at: usize| -> Vec<&str> {
        let alike = groups.iter().zip(&shown);
        let alike = alike.filter(|(_, text)| **text == shown[at]);
        alike.map(|(group, _)| group.name.as_str()).collect()
    };
    (0..groups.len())
        .map(|at| {
            let differs = label::difference(&groups[at].name, &alike(at));
            // Rows of one name are stacks, which are told in full.
            match alike(at).iter().all(|name| *name == groups[at].name) || differs.is_empty() {
                true => shown[at].clone(),
                false => format!("{} [{}]", shorter[at], label::shorten(&differs, DIFFERENCE)),
            }
        })
        .collect()
}

/// Columns for what tells rows apart.
const DIFFERENCE: usize = 20;

/// The table as text.
pub fn render(
    groups: &[Group],
    resolver: &mut Resolver<'_>,
    empty: &str,
    title: &str,
    style: &Style,
) -> String {
    if groups.is_empty() {
        return format!("{title}: {empty}\n");
    }
    let room = style.width.max(60).saturating_sub(30);
    let whole = groups.iter().map(|group| group.amount.bytes).sum();
    let mut text = format!("{title}\n");
    text.push_str(&format!(
        "{:>10}  {:>6}  {:>8}  {}\n",
        say::column::BYTES,
        say::column::SHARE,
        say::column::BLOCKS,
        say::column::WHERE
    ));
    let mut folded = 0;
    let shown = &groups[..style.top.min(groups.len())];
    let short: Vec<Option<String>> = groups
        .iter()
        .map(|group| {
            let stack = group.place.filter(|_| group.shows_stack)?;
            Some(look(&resolver.stack(stack), Frame::label))
        })
        .collect();
    for (at, (group, name)) in shown.iter().zip(names(shown, resolver, room)).enumerate() {
        text.push_str(&format!(
            "{:>10}  {:>6}  {:>8}  ",
            units::bytes(group.amount.bytes),
            units::percent(group.amount.bytes, whole),
            match group.amount.blocks {
                // A line of the ledger has none.
                0 => String::new(),
                blocks => units::count(blocks),
            },
        ));
        text.push_str(&format!("{name}\n"));
        if let Some(stack) = group.place.filter(|_| group.shows_stack) {
            let stack = resolver.stack(stack);
            let has_python = stack
                .frames
                .iter()
                .any(|frame| frame.language == Language::Python);
            // Instances of a template: only their arguments tell them apart.
            let has_twin = short.iter().filter(|one| **one == short[at]).count() > 1;
            for frame in stack.frames.iter() {
                if has_python && !style.all_frames && attribution::is_interpreter(frame) {
                    folded += 1;
                    continue;
                }
                let outside = frame.library.contains(".so") && frame.function.is_some();
                let library = match outside {
                    true => format!(" [{}]", frame.library),
                    false => String::new(),
                };
                let left = style.width.max(60).saturating_sub(8 + width(&library));
                let label = match has_twin && frame.function.is_some() {
                    true => label::shorten(&frame.full_label(), left),
                    false => label::stack_frame(frame, left),
                };
                text.push_str(&format!("        {label}{library}\n"));
            }
        }
    }
    let rest = groups.get(style.top..).unwrap_or_default();
    if !rest.is_empty() {
        let bytes = rest.iter().map(|group| group.amount.bytes).sum();
        text.push_str(&format!(
            "            {}\n",
            say::more_rows(rest.len(), bytes)
        ));
    }
    if folded > 0 {
        text.push_str(&format!("            {}\n", say::folded(folded)));
    }
    text
}
