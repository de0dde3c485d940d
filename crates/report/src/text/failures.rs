//! What ran out of memory: the section of the report, and the text for the moment itself.

use super::label::{self, width};
use super::table_of_sites::by_site;
use super::{LEAD, MUCH, Page, Paint, Style, program};
use crate::diagnosis::Cause;
use crate::schema::{Change, Device, Oom, Place, Process, Report, Site};
use crate::sentences as say;
use oomhook_ledger::oom::Class;

/// Groups of failures shown.
const MOST_FAILURES: usize = 3;
/// Sites shown that changed lately.
const MOST_CHANGES: usize = 3;
/// Lines of the program's own shown.
const MOST_LINES: usize = 3;
/// Sites shown in the text for the moment.
const MOST_SITES: usize = 8;
/// Frames shown in the text for the moment.
const MOST_FRAMES: usize = 12;

impl Page<'_> {
    /// What ran out of memory.
    pub(super) fn out_of_memory(&mut self, report: &Report) {
        if report.oom.is_empty() {
            return;
        }
        let attempts = report.oom.iter().map(|oom| oom.attempts).sum();
        let is_probe = |oom: &&Oom| oom.class == Class::Probe;
        // The fatal one first, then the latest; searches for a size that fits are no disasters.
        let mut singles: Vec<&Oom> = report.oom.iter().filter(|oom| !is_probe(oom)).collect();
        singles.sort_by_key(|oom| (oom.class != Class::Fatal, std::cmp::Reverse(oom.time_ns)));
        let (searches, singles): (Vec<&Oom>, Vec<&Oom>) = singles
            .iter()
            .copied()
            .partition(|oom| is_of_search(oom, &singles));
        let told = by_device(&singles);
        match told.split_first() {
            Some(((fatal, _), others)) if fatal.class == Class::Fatal => {
                // The headline has said it; here is the rest.
                let times = format!("{}, {}", say::times(fatal.attempts), say::class(fatal));
                self.title(say::OUT_OF_MEMORY, &times);
                self.asker(fatal, "  ");
                // In a process that was young then, all that it held had changed lately: the table says that.
                self.circumstances(fatal, !changes_are_all(fatal));
                for (oom, devices) in others.iter().take(MOST_FAILURES - 1) {
                    self.failure(oom, *devices);
                }
            }
            _ => {
                self.title(say::OUT_OF_MEMORY, &say::times(attempts));
                for (oom, devices) in told.iter().take(MOST_FAILURES) {
                    self.failure(oom, *devices);
                }
                // Who else has memory there is what a reader cannot know of himself.
                if let Some((oom, _)) = told.first().filter(|(oom, _)| has_others(oom)) {
                    self.in_use(oom);
                }
            }
        }
        for of_site in by_site_of_search(&searches) {
            self.search(&of_site);
        }
        let probes: Vec<&Oom> = report.oom.iter().filter(is_probe).collect();
        let largest = probes.iter().filter_map(|oom| oom.requested_bytes).max();
        let least = |oom: &&Oom| oom.requested_least_bytes.or(oom.requested_bytes);
        let smallest = probes.iter().filter_map(least).min();
        if let (Some(largest), Some(smallest)) = (largest, smallest) {
            let number = probes.iter().map(|oom| oom.attempts).sum();
            self.line(format!("  {}", say::probes(number, largest, smallest)));
        }
        if told.len() > MOST_FAILURES {
            let more = say::more_failures(told.len() - MOST_FAILURES);
            self.line(format!("  {more}"));
        }
        let with_sites = singles.first().or(searches.first()).or(probes.first());
        if let Some(oom) = with_sites.filter(|oom| !oom.sites.is_empty()) {
            let (sites, held) = held_then(oom);
            if let Some(cache) = oom.cache.as_ref().filter(|_| sites.is_empty()) {
                // All of it was idle; what it died of has said so.
                if oom.class != Class::Fatal {
                    self.cache_then(cache);
                }
                return;
            }
            self.line(format!("  {}", say::held_then(held)));
            let lines = by_site(sites.iter().map(|site| (site, None)));
            // What is less than a hundredth is nobody's reason; a few rows are shown in any case.
            let large = sites
                .iter()
                .filter(|site| site.bytes.saturating_mul(100) >= held);
            let top = large
                .count()
                .clamp(MUCH.min(self.style.top), self.style.top);
            self.sites(&lines, Some(held), top);
        }
    }

    fn search(&mut self, failures: &[&Oom]) {
        let sizes = || failures.iter().filter_map(|oom| oom.requested_bytes);
        let (Some(oom), Some(least), Some(most)) = (failures.first(), sizes().min(), sizes().max())
        else {
            return;
        };
        let attempts = failures.iter().map(|oom| oom.attempts).sum();
        self.paragraph("  ", &say::search(&oom.call, attempts, least, most));
        self.asker(oom, "    ");
    }

    fn failure(&mut self, oom: &Oom, devices: usize) {
        let often = if oom.attempts > 1 {
            format!(" {}", say::times(oom.attempts))
        } else {
            String::new()
        };
        let others = match devices {
            0 | 1 => String::new(),
            several => say::and_on_gpus(several - 1),
        };
        let text = format!(
            "{}{others}{often}{}: {}",
            say::asked(oom),
            say::free_then(oom),
            say::class(oom)
        );
        self.paragraph("  ", &text);
        self.asker(oom, "    ");
    }

    fn asker(&mut self, oom: &Oom, indent: &str) {
        let mark = format!("{indent}{}", say::ASKED_BY);
        let room = self.width().saturating_sub(mark.len());
        let origin = oom.python_site.as_deref();
        let origin = origin.or(oom.autograd_node.as_deref());
        let site = label::with_origin(&oom.stack, oom.site_frame, &oom.label, origin, room);
        self.line(format!("{mark}{site}"));
        if !oom.phases.is_empty() {
            let mark = format!("{indent}{}", say::PHASE);
            let room = self.width().saturating_sub(mark.len());
            // Of many it is the innermost that tells most, and the outermost that tells one from another.
            let phases = label::shorten(&say::in_phases(&oom.phases), room);
            self.line(format!("{mark}{phases}"));
        }
    }

    /// Where the device's bytes were, what had changed lately, what was freed last, what the host had.
    fn circumstances(&mut self, oom: &Oom, with_changes: bool) {
        if let Some(diagnosis) = &oom.verdict {
            self.why(diagnosis);
        }
        if let Some(free) = say::free_of_total(oom) {
            self.fact(say::FREE, &free);
        }
        self.in_use(oom);
        if let Some(cache) = &oom.cache {
            self.cache_then(cache);
        }
        if with_changes {
            self.changed_lately(oom);
        }
        // A cache frees its own segments before it gives up; and a reason says more.
        let has_reason = oom
            .verdict
            .as_ref()
            .is_some_and(|verdict| verdict.class != Cause::NotClear);
        if oom.cache.is_none() && !has_reason {
            self.freed_last(oom);
        }
        self.said_last(oom);
        if let Some(host) = oom.host.as_ref().filter(|_| say::is_about_the_host(oom)) {
            self.fact(say::HOST, &say::host(host));
        }
    }

    /// Nothing where it would only say again what this process held.
    fn in_use(&mut self, oom: &Oom) {
        let known = say::Known {
            others: &oom.others,
            all_others: oom.others_known,
            hidden_pools: oom.hidden_pools,
        };
        if say::tells_more(&oom.ledger)
            && let Some(used) = say::in_use(&oom.ledger, &known)
        {
            self.fact(say::IN_USE, &used);
        }
    }

    pub(super) fn fact(&mut self, mark: &str, text: &str) {
        self.paragraph(&format!("  {mark}"), text);
    }

    fn changed_lately(&mut self, oom: &Oom) {
        let lasted = oom.time_ns.saturating_sub(oom.changed_since_ns);
        let all = changed(oom);
        if !all.is_empty() {
            let room = self.width().saturating_sub(40).max(20);
            let changes = all.iter().take(MOST_CHANGES);
            let changes: Vec<String> = changes
                .map(|change| say::changed(change.bytes, &short(&change.of, room)))
                .collect();
            let text = format!("{}{}", say::within(lasted), changes.join(", "));
            self.fact(say::LATELY, &text);
        }
    }

    /// The program's own last words, and where its memory had jumped.
    fn said_last(&mut self, oom: &Oom) {
        let verdict = oom.verdict.as_ref();
        let is_evidence = |text| verdict.is_some_and(|verdict| verdict.evidence.contains(text));
        let jump = oom.jump.as_ref().filter(|jump| !is_evidence(&jump.text));
        if let Some(jump) = jump {
            self.fact(say::JUMP, &jump.text);
        }
        let most = MOST_LINES - usize::from(jump.is_some());
        let skip = oom.log.len().saturating_sub(most);
        let mut mark = say::SAID.to_owned();
        for line in &oom.log[skip..] {
            let room = self.width().saturating_sub(2 + mark.len());
            let text = label::clip(&say::said(line), room);
            self.line(format!("  {mark}{text}"));
            mark = " ".repeat(say::SAID.len());
        }
    }

    fn freed_last(&mut self, oom: &Oom) {
        if let Some(free) = oom.last_frees.first() {
            let room = self.width().saturating_sub(40).max(20);
            let ago = oom.time_ns.saturating_sub(free.time_ns);
            let text = say::freed(free.bytes, &short(&free.of, room), &free.freed_by, ago);
            self.fact(say::FREED, &text);
        }
    }
}

/// What held memory, and how much that was: blocks of the framework's cache, if it had most of it.
fn held_then(oom: &Oom) -> (&[Site], u64) {
    let of_driver: u64 = oom.sites.iter().map(|site| site.bytes).sum();
    match &oom.cache {
        Some(cache) if cache.reserved_bytes.saturating_mul(2) >= of_driver => {
            (&cache.sites, cache.allocated_bytes)
        }
        _ => (&oom.sites, of_driver),
    }
}

fn changed(oom: &Oom) -> &[Change] {
    match &oom.cache {
        Some(cache) if !cache.changed.is_empty() => &cache.changed,
        _ => &oom.changed,
    }
}

fn short(place: &Place, columns: usize) -> String {
    let origin = place.origin.as_deref();
    label::with_origin(
        &place.stack,
        place.site_frame,
        &place.label,
        origin,
        columns,
    )
}

/// True if the section of failures says what was in use on the device.
pub(super) fn tells_of(report: &Report, device: Option<u32>) -> bool {
    let told = |oom: &&Oom| oom.class == Class::Fatal || has_others(oom);
    let mut all = report.oom.iter().filter(told);
    all.any(|oom| oom.device == device && say::tells_more(&oom.ledger))
}

/// True if the process died of lack of memory on a device, and what its framework's cache had handed out then was told.
pub(super) fn told_of_cache(report: &Report, device: Option<u32>) -> bool {
    let mut all = report.oom.iter();
    all.any(|oom| oom.class == Class::Fatal && oom.device == device && oom.cache.is_some())
}

/// True if the changes are counted from the beginning on, and all is still there.
fn changes_are_all(oom: &Oom) -> bool {
    oom.changed_since_ns == 0 && changed(oom).iter().all(|change| change.bytes > 0)
}

/// True if the table of the fatal failure begins with the rows with which that of the device's peak would.
pub(super) fn lists_the_same(report: &Report, device: &Device, top: usize) -> bool {
    let fatal = |oom: &&Oom| oom.class == Class::Fatal && oom.device == device.device;
    let same = |(one, other): (&Site, &Site)| {
        (&one.label, one.bytes, one.blocks) == (&other.label, other.bytes, other.blocks)
    };
    let rows = &device.peak.sites;
    report.oom.iter().find(fatal).is_some_and(|oom| {
        let shown = top.min(rows.len());
        // One row is not worth another look.
        shown > 1 && oom.sites.len() >= shown && rows.iter().zip(&oom.sites).take(shown).all(same)
    })
}

fn has_others(oom: &Oom) -> bool {
    let mut lines = oom.ledger.iter();
    oom.class != Class::Probe && lines.any(|line| line.name == "other_processes")
}

/// One line, said at once: most failures are recovered from, and this is all that is said of them.
#[must_use]
pub fn at_once(oom: &Oom, style: &Style) -> String {
    let columns = style.width.max(super::NARROWEST).saturating_sub(LEAD.len());
    let [long, short] = say::at_once(oom);
    let by = |text: String| {
        let room = columns.saturating_sub(width(&text) + say::BY.len());
        let origin = oom.python_site.as_deref();
        let site = label::with_origin(&oom.stack, oom.site_frame, &oom.label, origin, room.max(20));
        format!("{text}{}{site}", say::BY)
    };
    let text = [by(long), by(short.clone()), short];
    let fits = text.iter().find(|text| width(text) <= columns);
    let text = fits.unwrap_or(&text[2]);
    format!("{LEAD}{text}\n")
}

/// The whole story of a failure, as of the moment when it happened.
#[must_use]
pub fn moment(process: &Process, oom: &Oom, style: &Style) -> String {
    let mut page = Page {
        style,
        paint: Paint(style.colour),
        lines: Vec::new(),
    };
    let room = page.width().saturating_sub(LEAD.len());
    let [long, short] = say::headline_oom(oom);
    let headline = if width(&long) <= room { long } else { short };
    let headline = page.paint.with(super::Colour::Red, &headline);
    page.line(format!("{LEAD}{headline}"));
    let facts = say::moment(process, oom);
    let program = label::clip(&program(process), room);
    let line = page.paint.dim(&format!("         {program}"));
    page.line(line);
    let line = page.paint.dim(&format!("         {facts}"));
    page.line(line);
    page.asker(oom, "  ");
    page.circumstances(oom, true);
    if let Some(note) = say::free_far_above(oom) {
        page.paragraph(&format!("  {}", say::NOTE), &note);
    }
    let (sites, held) = held_then(oom);
    if !sites.is_empty() {
        page.title(&say::held_then(held), "");
        let lines = by_site(sites.iter().map(|site| (site, None)));
        page.sites(&lines, Some(held), MOST_SITES);
    }
    if !oom.stack.is_empty() {
        page.title(say::STACK, "");
        for frame in oom.stack.iter().take(MOST_FRAMES) {
            let room = page.width().saturating_sub(2);
            let line = label::frame(frame, room);
            page.line(format!("  {line}"));
        }
        if oom.stack.len() > MOST_FRAMES {
            let more = oom.stack.len() - MOST_FRAMES;
            page.line(format!("  {}", say::more_frames(more)));
        }
    }
    let mut text = page.lines.join("\n");
    text.push('\n');
    text
}

/// A site that failed for so many sizes, and the program went on each time, was looking for one that fits.
const SEARCH: usize = 4;

fn is_of_search(oom: &Oom, all: &[&Oom]) -> bool {
    let mut sizes: Vec<u64> = all
        .iter()
        .filter(|one| is_same_search(one, oom))
        .filter_map(|one| one.requested_bytes)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    oom.class == Class::Caught && sizes.len() >= SEARCH
}

fn is_same_search(one: &Oom, other: &Oom) -> bool {
    (&one.call, &one.label, one.class) == (&other.call, &other.label, other.class)
}

fn by_site_of_search<'a>(failures: &[&'a Oom]) -> Vec<Vec<&'a Oom>> {
    let mut sites: Vec<Vec<&'a Oom>> = Vec::new();
    for oom in failures {
        match sites.iter_mut().find(|site| is_same_search(site[0], oom)) {
            Some(site) => site.push(oom),
            None => sites.push(vec![oom]),
        }
    }
    sites
}

/// The failures of one request of one site, told once, and on how many devices it failed. A fatal one stands alone.
fn by_device<'a>(failures: &[&'a Oom]) -> Vec<(&'a Oom, usize)> {
    let mut told: Vec<(&'a Oom, usize)> = Vec::new();
    for oom in failures {
        let same = |(known, _): &&mut (&Oom, usize)| {
            (
                &known.call,
                &known.label,
                known.requested_bytes,
                known.attempts,
            ) == (&oom.call, &oom.label, oom.requested_bytes, oom.attempts)
                && known.class == oom.class
                && known.class != Class::Fatal
                && known.device != oom.device
        };
        match told.iter_mut().find(same) {
            Some((_, devices)) => *devices += 1,
            None => told.push((oom, 1)),
        }
    }
    told
}
