//! The report for people: about thirty lines, the verdict first, the next command last.

mod at_end;
mod cache;
mod failures;
pub mod label;
mod paint;
mod phases;
mod sections;
mod table_of_sites;
mod why;

use crate::schema::{LeakClass, Process, ProcessEnd, Report};
use crate::sentences as say;
use crate::verdict::{self, LeakSum, Verdict};
pub use failures::{at_once, moment};
use label::{clip, width};
pub use paint::{Colour, Paint};

/// How the text is to look.
#[derive(Clone, Debug)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// With colours.
    pub colour: bool,
    /// Most sites in a table.
    pub top: usize,
    /// The trace's name for the next command.
    pub trace: Option<String>,
    /// The number by which a running process can be asked for a report of now, if it is the next thing to do.
    pub pid: Option<u32>,
    /// Frames of an interpreter are shown beside those of the program that it runs.
    pub all_frames: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            width: 80,
            colour: false,
            top: 5,
            trace: None,
            pid: None,
            all_frames: false,
        }
    }
}

/// Fewer columns than this are not tried.
const NARROWEST: usize = 60;
/// From so many columns on, tables show more.
const WIDE: usize = 120;
/// Sites in a table when there is much else to say.
const MUCH: usize = 3;
/// Notes shown.
const MOST_NOTES: usize = 4;

/// Lines in the making.
pub(crate) struct Page<'a> {
    style: &'a Style,
    paint: Paint,
    lines: Vec<String>,
}

impl Page<'_> {
    fn width(&self) -> usize {
        self.style.width.max(NARROWEST)
    }

    fn is_wide(&self) -> bool {
        self.width() >= WIDE
    }

    fn line(&mut self, text: String) {
        self.lines.push(text.trim_end().to_owned());
    }

    /// A section's title, after an empty line.
    fn title(&mut self, title: &str, rest: &str) {
        self.lines.push(String::new());
        let left = self.width().saturating_sub(width(title) + 2);
        let title = self.paint.bold(title);
        let line = if rest.is_empty() {
            title
        } else {
            format!("{title}  {}", clip(rest, left))
        };
        self.line(line);
    }

    /// Text that may take several lines; those after the first are indented.
    fn paragraph(&mut self, mark: &str, text: &str) {
        let room = self.width().saturating_sub(width(mark)).max(20);
        for (at, line) in wrap(text, room).into_iter().enumerate() {
            let lead = if at == 0 {
                mark.to_owned()
            } else {
                " ".repeat(width(mark))
            };
            self.line(format!("{lead}{line}"));
        }
    }
}

/// The words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 10] = [
        "B", "KiB", "MiB", "GiB", "TiB", "PiB", "us", "ms", "s", "min",
    ];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', ';', '.', ')', ':']);
        match words.last_mut() {
            Some(last) if UNITS.contains(&bare) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Breaks a text at its spaces.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        let word = word.as_str();
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The whole report.
#[must_use]
pub fn render(report: &Report, style: &Style) -> String {
    let mut page = Page {
        style,
        paint: Paint(style.colour),
        lines: Vec::new(),
    };
    let verdict = Verdict::of(report);
    let (headline, colour) = headline(report, &verdict, page.width().saturating_sub(LEAD.len()));
    let headline = page.paint.with(colour, &headline);
    page.line(format!("{LEAD}{headline}"));
    page.process(report);
    let died = matches!(verdict, Verdict::OutOfMemory(_));
    page.out_of_memory(report);
    // What is wrong needs its room; the tables are shorter then.
    let much = !report.oom.is_empty() || verdict::bad_frees(&report.anomalies) > 0;
    let top = if much { style.top.min(MUCH) } else { style.top };
    page.peaks(report, top);
    page.findings(report);
    page.phases(report);
    let grows = report
        .leaks
        .iter()
        .any(|leak| leak.class == LeakClass::Growing);
    // What a dying process leaves behind matters only if it had been growing.
    if !died || grows {
        page.live(report, top);
    }
    if !died {
        page.at_end(report);
    }
    page.other_memory(report);
    page.bad_frees(report);
    page.notes(report);
    page.next(report, &verdict);
    let mut text = page.lines.join("\n");
    text.push('\n');
    text
}

/// A paragraph alone.
pub(crate) fn paragraph(mark: &str, text: &str, style: &Style) -> String {
    let mut page = Page {
        style,
        paint: Paint(style.colour),
        lines: Vec::new(),
    };
    page.paragraph(mark, text);
    let lines = page.lines.iter();
    lines.map(|line| format!("{line}\n")).collect()
}

/// Notes alone, as a report has them at its end.
#[must_use]
pub fn notes(notes: &[String], style: &Style) -> String {
    let mut page = Page {
        style,
        paint: Paint(style.colour),
        lines: Vec::new(),
    };
    page.list_notes(notes);
    let lines = page.lines.iter();
    lines.map(|line| format!("{line}\n")).collect()
}

/// Says whose report it is.
const LEAD: &str = "oomhook: ";

/// One line, for a process of which there is nothing to tell.
#[must_use]
pub fn one_line(report: &Report, style: &Style) -> String {
    let paint = Paint(style.colour);
    let room = style.width.max(NARROWEST).saturating_sub(LEAD.len());
    let verdict = Verdict::of(report);
    let (headline, colour) = headline(report, &verdict, room);
    let process = &report.process;
    let mut who = Vec::new();
    who.extend(process.rank.map(say::rank));
    who.push(format!("pid {}", process.pid));
    let short = format!(" ({})", who.join(", "));
    who.push(program(process));
    let whole = format!(" ({})", who.join(", "));
    // Of several processes one wants to know which one it was, even if the line gets too long for that.
    let fits = width(&headline) + width(&whole) <= room;
    let who = paint.dim(if fits { &whole } else { &short });
    let headline = paint.with(colour, &headline);
    format!("{LEAD}{headline}{who}\n")
}

/// True if one line says it all.
#[must_use]
pub fn is_unremarkable(report: &Report) -> bool {
    let clean = matches!(
        Verdict::of(report),
        Verdict::Healthy { .. } | Verdict::NoData
    );
    clean && report.oom.is_empty() && verdict::bad_frees(&report.anomalies) == 0
}

/// The program's name and arguments.
fn program(process: &Process) -> String {
    let mut words = process.command.iter();
    let name = words
        .next()
        .map_or("", |path| crate::attribution::file_name(path));
    let mut text = name.to_owned();
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    crate::clean::text(&text)
}

/// The verdict in plain words.
fn headline(report: &Report, verdict: &Verdict<'_>, columns: usize) -> (String, Colour) {
    let (text, colour) = match verdict {
        Verdict::OutOfMemory(oom) => {
            let [long, short] = say::headline_oom(oom);
            let fits = width(&long) <= columns;
            return (if fits { long } else { short }, Colour::Red);
        }
        Verdict::NoData => {
            let besides = at_end::taken_besides(report);
            let text = besides.unwrap_or_else(|| say::no_data(report).to_owned());
            return (text, Colour::Yellow);
        }
        Verdict::Leak(sum) => return (headline_leak(sum, columns), Colour::Red),
        Verdict::CutShort => {
            let process = &report.process;
            let live: u64 = report.devices.iter().map(|device| device.live_bytes).sum();
            let blocks = report.devices.iter().map(|device| device.live_blocks).sum();
            let text = say::headline_cut_short(process.end, process.signal, live, blocks);
            (text, Colour::Yellow)
        }
        Verdict::Healthy {
            caches,
            at_exit,
            graphs,
        } => (say::no_leak(*caches, *at_exit, *graphs), Colour::Green),
    };
    let mut parts = vec![text];
    let mut colour = colour;
    let bad = verdict::bad_frees(&report.anomalies);
    if bad > 0 {
        parts.push(say::bad_frees(bad));
        colour = Colour::Yellow;
    }
    let attempts: u64 = report.oom.iter().map(|oom| oom.attempts).sum();
    if attempts > 0 && report.process.end != ProcessEnd::Unfinished {
        parts.push(say::survived(attempts));
        colour = Colour::Yellow;
    }
    let highest = report.devices.iter().max_by_key(|device| device.peak_bytes);
    if let Some(device) = highest.filter(|device| device.peak_bytes > 0) {
        parts.push(say::peak_of(device.peak_bytes, device.device));
    }
    // Two statements are joined as one sentence, more are listed.
    let joint = if parts.len() == 2 { "; " } else { ", " };
    (parts.join(joint), colour)
}

fn headline_leak(sum: &LeakSum<'_>, columns: usize) -> String {
    let mut text = say::headline_leak(sum.growing, sum.bytes, sum.blocks);
    text.push_str(if sum.only { say::FROM } else { say::MOST_FROM });
    let left = columns.saturating_sub(width(&text));
    let site = &sum.first.site;
    let origin = site.origin();
    let label = label::with_origin(&site.stack, site.site_frame, &site.label, origin, left);
    text.push_str(&label);
    text
}

/// For a shell.
#[must_use]
pub fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
