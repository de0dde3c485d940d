//! What is said of failures for lack of memory while the process runs on: one line at once, the whole story when it turns
//! out that the program does not recover. (What is said at its end is the report's.)

use super::super::config::ReportTo;
use super::super::names::Quick;
use super::super::report::{self, Books};
use super::super::state::{self, Recorder};
use super::super::talk;
use oomhook_ledger::Ledger;
use oomhook_ledger::oom::{Class, Group};
use oomhook_report::schema::{Oom, Process};
use oomhook_report::text::{self, Style};
use oomhook_report::{Depth, Facts, Resolver, assemble, diagnosis, failures};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The program waits for its error meanwhile.
const TIME_FOR_NAMES: Duration = Duration::from_millis(50);

/// A program that has not got the same size so long after the failure lives without it.
const CAUGHT_AFTER_NS: u64 = 2_000_000_000;

/// Lines said at once, and whole stories told, in the life of a process. A server that fails for ever must not fill its log.
const MOST_LINES: u32 = 20;
const MOST_STORIES: u32 = 5;
/// Stories in a file of their own, where nobody is disturbed.
const MOST_IN_FILE: u32 = 50;

/// A framework has said that it is out of memory, after all that it could do.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// A framework gives up: its latest failure is none that it recovers from.
#[cfg_attr(test, allow(dead_code))]
pub fn framework_gave_up() {
    GAVE_UP.store(true, Ordering::Release);
}

/// True if a framework has given up since the last look.
pub fn is_urgent() -> bool {
    GAVE_UP.load(Ordering::Relaxed)
}

/// What has been said so far.
#[derive(Default)]
pub struct Failures {
    /// A failure that nothing was said of yet.
    is_fresh: bool,
    /// Groups that were told of.
    told: HashSet<usize>,
    /// Groups of which it is not known yet what comes of them, and when they failed last.
    open: Vec<(usize, u64)>,
    lines: u32,
    stories: u32,
    in_file: u32,
}

impl Failures {
    /// Memory has run out.
    pub fn failed(&mut self) {
        self.is_fresh = true;
    }

    /// True if there is something to be said, now or later.
    pub fn is_waiting(&self) -> bool {
        self.is_fresh || !self.open.is_empty()
    }

    /// Says what is to be said at once.
    pub fn tell_at_once(&mut self, recorder: &Recorder, books: &Books<'_>) {
        if !std::mem::take(&mut self.is_fresh) {
            return;
        }
        let failures = books.ledger.oom();
        let Some(number) = failures.latest() else {
            return;
        };
        let Some(group) = failures.groups().get(number) else {
            return;
        };
        match self.open.iter_mut().find(|open| open.0 == number) {
            Some(open) => open.1 = group.last_ns,
            None => self.open.push((number, group.last_ns)),
        }
        // The first of the series has been told of: nobody knew then that it was one.
        let in_series = failures.series(number).is_some();
        if !self.told.insert(number) || in_series || self.is_retry(books.ledger, number) {
            return;
        }
        match &recorder.config.meanwhile {
            ReportTo::Off => {}
            ReportTo::Stderr if self.lines < MOST_LINES => {
                self.lines += 1;
                let (_, oom) = story(books, number);
                let (width, colour) = report::terminal();
                if let Some(oom) = oom {
                    talk::write(&text::at_once(&oom, &style(width, colour)));
                }
            }
            ReportTo::Path(_) if self.in_file < MOST_IN_FILE => {
                self.in_file += 1;
                if let (process, Some(oom)) = story(books, number) {
                    let text = text::moment(&process, &oom, &style(80, false));
                    let written = report::write_to_file(recorder, books, &format!("{text}\n"));
                    if let Err(error) = written {
                        // Said once; the report at the end is tried again, and comes to stderr if need be.
                        self.in_file = MOST_IN_FILE;
                        state::say(&error);
                    }
                }
            }
            ReportTo::Stderr | ReportTo::Path(_) => {}
        }
    }

    /// True if the failure is a retry of one that is still open: the same request from another place of the same allocator.
    fn is_retry(&self, ledger: &Ledger, number: usize) -> bool {
        let groups = ledger.oom().groups();
        let request = |group: &Group| (group.call, group.requested, group.device, group.thread);
        let Some(this) = groups.get(number).map(request) else {
            return false;
        };
        let earlier = self.open.iter().filter(|open| open.0 != number);
        this.1.is_some()
            && earlier
                .filter_map(|open| groups.get(open.0))
                .any(|group| request(group) == this)
    }

    /// Tells the whole story of failures that the program has not recovered from in time.
    pub fn settle(&mut self, recorder: &Recorder, books: &Books<'_>) {
        let now = recorder.now();
        let failures = books.ledger.oom();
        let gave_up = GAVE_UP.swap(false, Ordering::AcqRel);
        let mut caught = None;
        self.open
            .retain(|(number, last_ns)| match failures.class(*number, false) {
                Class::Recovered | Class::Probe => false,
                _ if gave_up && failures.latest() == Some(*number) => {
                    caught = Some(*number);
                    false
                }
                _ if now.saturating_sub(*last_ns) < CAUGHT_AFTER_NS => true,
                _ => {
                    caught = Some(*number);
                    false
                }
            });
        let to_stderr = recorder.config.meanwhile == ReportTo::Stderr;
        if let Some(number) = caught
            && to_stderr
            && self.stories < MOST_STORIES
        {
            self.stories += 1;
            if let (process, Some(oom)) = story(books, number) {
                let (width, colour) = report::terminal();
                talk::write(&text::moment(&process, &oom, &style(width, colour)));
            }
        }
    }
}

fn style(width: usize, colour: bool) -> Style {
    Style {
        width,
        colour,
        ..Style::default()
    }
}

/// Who it was, and a failure.
fn story(books: &Books<'_>, number: usize) -> (Process, Option<Oom>) {
    let facts = Facts {
        running: true,
        ..Facts::default()
    };
    let process = assemble::process(books.header, books.ledger, &facts);
    let mut names = Quick::until(Instant::now() + TIME_FOR_NAMES);
    let definitions = books.ledger.definitions();
    let mut resolver =
        Resolver::new(definitions, &mut names, Depth::Whole).of_process(books.header);
    let mut oom = failures::one(books.ledger, &mut resolver, number);
    if let Some(oom) = &mut oom {
        let situation = diagnosis::situation::of(books.header, books.ledger);
        oom.verdict = diagnosis::failure::diagnose(oom, &situation);
    }
    (process, oom)
}
