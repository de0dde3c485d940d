//! Sites in columns: numbers to the right, the place at the end, where it may take what is left.

use super::Page;
use super::label::{self, clip, width};
use crate::schema::{LeakClass, Site};
use crate::sentences::{self as say, column};
use crate::units;
use crate::verdict::is_device;
use std::collections::HashMap;
use std::rc::Rc;

/// A line of the table: the stacks of one site in one space, summed.
pub struct Line<'a> {
    site: &'a Site,
    bytes: u64,
    blocks: u64,
    class: Option<LeakClass>,
}

impl Line<'_> {
    /// What kind of leak it is, in a table of leaks.
    pub fn class(&self) -> Option<LeakClass> {
        self.class
    }

    /// Its space.
    pub fn space(&self) -> &'static str {
        self.site.space
    }
}

/// Sums stacks of the same site; the order of the largest stays, then by bytes.
pub fn by_site<'a>(sites: impl Iterator<Item = (&'a Site, Option<LeakClass>)>) -> Vec<Line<'a>> {
    type Key<'a> = (
        &'a Rc<str>,
        Option<&'a str>,
        &'a Rc<str>,
        &'static str,
        Option<&'static str>,
        Option<u32>,
        Option<LeakClass>,
    );
    let mut lines: Vec<Line<'a>> = Vec::new();
    let mut known: HashMap<Key<'a>, usize> = HashMap::new();
    for (site, class) in sites {
        let key = (
            &site.label,
            site.origin(),
            &site.library,
            site.space,
            site.via,
            site.device,
            class,
        );
        let at = *known.entry(key).or_insert_with(|| {
            lines.push(Line {
                site,
                bytes: 0,
                blocks: 0,
                class,
            });
            lines.len() - 1
        });
        lines[at].bytes += site.bytes;
        lines[at].blocks += site.blocks;
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    lines
}

/// The word for a class.
pub fn class_word(class: LeakClass) -> &'static str {
    match class {
        LeakClass::Growing => "growing",
        LeakClass::OneTime => "one-time",
        LeakClass::Cached => "cached",
        LeakClass::DuringExit => "at exit",
        LeakClass::Retained => "retained",
    }
}

/// The places of lines in so many columns. No two of them look alike: the GPU tells them apart where several were used,
/// else what differs in their names, else their addresses.
fn labels(lines: &[Line<'_>], room: usize) -> Vec<String> {
    let on_device = || lines.iter().filter(|line| is_device(line.space()));
    let first = on_device().next().map(|line| line.site.device);
    let several = on_device().any(|line| Some(line.site.device) != first);
    let tells: Vec<Option<String>> = lines
        .iter()
        .map(|line| (several && is_device(line.space())).then(|| say::gpu(line.site.device)))
        .collect();
    let shown = |tells: &[Option<String>]| -> Vec<String> {
        let lines = lines.iter().zip(tells);
        lines
            .map(|(line, tell)| label::site(line.site, room, tell.as_deref()))
            .collect()
    };
    let texts = shown(&tells);
    let tells: Vec<Option<String>> = tells
        .into_iter()
        .enumerate()
        .map(|(at, tell)| {
            let alike = lines.iter().zip(&texts);
            let alike: Vec<&Site> = alike
                .filter(|(_, text)| **text == texts[at])
                .map(|(line, _)| line.site)
                .collect();
            if alike.len() < 2 {
                return tell;
            }
            let differs = tell_apart(lines[at].site, &alike)?;
            Some(match tell {
                Some(tell) => format!("{tell}, {differs}"),
                None => differs,
            })
        })
        .collect();
    shown(&tells)
}

/// What a site has that those which look like it have not.
fn tell_apart(site: &Site, alike: &[&Site]) -> Option<String> {
    const MOST: usize = 24;
    let names: Vec<&str> = alike.iter().map(|one| &*one.label).collect();
    let name = label::difference(&site.label, &names);
    if !name.is_empty() {
        return Some(label::shorten(&name, MOST));
    }
    if alike.iter().any(|one| one.library != site.library) {
        return Some(site.library.to_string());
    }
    if let Some(via) = site.via {
        return Some(format!("via {via}"));
    }
    let frame = site.stack.get(site.site_frame?)?;
    Some(format!("+{:#x}", frame.offset))
}

const BYTES: usize = 10;
const SHARE: usize = 6;
const BLOCKS: usize = 8;
const CLASS: usize = 8;
const CALL: usize = 20;

impl Page<'_> {
    /// The largest lines, with shares of `whole` if there is one.
    pub fn sites(&mut self, lines: &[Line<'_>], whole: Option<u64>, top: usize) {
        let has_class = lines.iter().any(|line| line.class.is_some());
        let wide = self.is_wide();
        let mut head = format!("{:>BYTES$}", column::BYTES);
        if whole.is_some() {
            head.push_str(&format!("  {:>SHARE$}", column::SHARE));
        }
        head.push_str(&format!("  {:>BLOCKS$}", column::BLOCKS));
        if has_class {
            head.push_str(&format!("  {:<CLASS$}", column::CLASS));
        }
        if wide {
            head.push_str(&format!("  {:<CALL$}", column::CALL));
        }
        let room = self.width().saturating_sub(width(&head) + 2);
        head.push_str(&format!("  {}", column::WHERE));
        let head = self.paint.dim(&head);
        self.line(head);
        // A last line that only says "1 more" may as well be that one.
        let shown = if lines.len() == top + 1 { top + 1 } else { top };
        let labels = labels(&lines[..shown.min(lines.len())], room);
        for (line, label) in lines.iter().zip(labels) {
            let mut text = format!("{:>BYTES$}", units::bytes(line.bytes));
            if let Some(whole) = whole {
                text.push_str(&format!("  {:>SHARE$}", units::percent(line.bytes, whole)));
            }
            text.push_str(&format!("  {:>BLOCKS$}", units::count(line.blocks)));
            if has_class {
                let class = line.class.map_or("", class_word);
                text.push_str(&format!("  {class:<CLASS$}"));
            }
            if wide {
                text.push_str(&format!("  {:<CALL$}", clip(&line.site.call, CALL)));
            }
            text.push_str(&format!("  {label}"));
            self.line(text);
        }
        let rest = lines.get(shown..).unwrap_or_default();
        if !rest.is_empty() {
            // Device and host bytes are not summed.
            let of_device = |line: &Line<'_>| is_device(line.space());
            let alike = rest
                .iter()
                .all(|line| of_device(line) == of_device(&rest[0]));
            let bytes = alike.then(|| rest.iter().map(|line| line.bytes).sum());
            let more = format!("            {}", say::more_sites(rest.len(), bytes));
            let more = self.paint.dim(&more);
            self.line(more);
        }
    }
}
