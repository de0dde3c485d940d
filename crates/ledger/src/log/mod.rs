//! The program's own output lines beside its memory: the last ones, those before failures, and a table of its steps.
//!
//! A line that came late out of a buffer is kept as what was said, without figures: nobody knows when it was.

pub mod keys;
pub mod steps;

use oomhook_trace::told::LogLine;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
pub use steps::{Jump, KeyChange, Step, Steps};

/// Lines kept.
const MOST_LINES: usize = 64;
/// Lines kept of those before a failure.
const MOST_BEFORE: usize = 8;
/// Of these, lines whose time is known, where there are others.
const MOST_IN_TIME: usize = 5;
/// Failures whose lines are kept, the latest ones.
const MOST_FAILURES: usize = 64;

/// What lives at a moment on the device where it is most: device bytes, and what a framework's cache handed out and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Device bytes.
    pub live: u64,
    /// Bytes handed out and bytes held by the cache, if there is one.
    pub cache: Option<(u64, u64)>,
}

/// Highest values over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// Device bytes.
    pub live: u64,
    /// Bytes handed out by a cache; 0 without one.
    pub allocated: u64,
}

impl Peaks {
    fn see(&mut self, other: Peaks) {
        self.live = self.live.max(other.live);
        self.allocated = self.allocated.max(other.allocated);
    }
}

impl Figures {
    fn as_peaks(self) -> Peaks {
        Peaks {
            live: self.live,
            allocated: self.cache.map_or(0, |(allocated, _)| allocated),
        }
    }
}

/// A line of the program's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written.
    pub time_ns: u64,
    /// 1 for stdout, 2 for stderr.
    pub stream: u8,
    /// It was written before that time.
    pub late: bool,
    /// The line.
    pub text: String,
    /// The memory at that time; `None` if it came late.
    pub figures: Option<Figures>,
}

/// All that is kept of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    lines: VecDeque<Line>,
    count: u64,
    /// Since the line before.
    peaks: Peaks,
    steps: Steps,
    /// The lines before a failure, by how many there had been then.
    before: VecDeque<(u64, Vec<Line>)>,
}

impl Log {
    /// The last lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// How many lines there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The steps, and where memory jumped.
    #[must_use]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// The last lines before a failure, oldest first, by the number that [`Log::failed`] gave.
    #[must_use]
    pub fn before(&self, number: u64) -> &[Line] {
        let found = self.before.iter().rev().find(|(of, _)| *of == number);
        found.map_or(&[], |(_, lines)| lines)
    }

    /// Device bytes of a device grew to this.
    pub(crate) fn grew(&mut self, live: u64) {
        self.peaks.live = self.peaks.live.max(live);
    }

    /// What a cache has handed out grew to this.
    pub(crate) fn tensors_grew(&mut self, allocated: u64) {
        self.peaks.allocated = self.peaks.allocated.max(allocated);
    }

    /// Takes a line; `now` is what lives.
    pub(crate) fn line(&mut self, line: &LogLine, now: Figures) {
        self.count += 1;
        if !line.late {
            self.peaks.see(now.as_peaks());
            let since = std::mem::replace(&mut self.peaks, now.as_peaks());
            self.steps.line(line.time_ns, &line.text, now, since);
        }
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(Line {
            time_ns: line.time_ns,
            stream: line.stream,
            late: line.late,
            text: line.text.clone(),
            figures: (!line.late).then_some(now),
        });
    }

    /// Memory has run out: keeps the lines before that; the number by which they are found.
    pub(crate) fn failed(&mut self, time_ns: u64, requested: u64) -> u64 {
        self.steps.failed(time_ns, self.peaks, requested);
        let is_kept = self.before.back().is_some_and(|(of, _)| *of == self.count);
        if !is_kept && self.count > 0 {
            if self.before.len() == MOST_FAILURES {
                self.before.pop_front();
            }
            let lines = self.last_lines();
            self.before.push_back((self.count, lines));
        }
        self.count
    }

    /// The last lines; what came late out of a file must not push out what is known to be new.
    fn last_lines(&self) -> Vec<Line> {
        let in_time = self.lines.iter().filter(|line| !line.late).count();
        let late = self.lines.len() - in_time;
        let of_late = late.min(MOST_BEFORE - in_time.min(MOST_IN_TIME));
        let of_others = in_time.min(MOST_BEFORE - of_late);
        let mut skip = (late - of_late, in_time - of_others);
        let mut kept = Vec::with_capacity(MOST_BEFORE);
        for line in &self.lines {
            let skip = if line.late { &mut skip.0 } else { &mut skip.1 };
            match skip.checked_sub(1) {
                Some(less) => *skip = less,
                None => kept.push(line.clone()),
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(log: &mut Log, text: &str, late: bool, live: u64) {
        let line = LogLine {
            time_ns: log.count,
            thread: 0,
            stream: 1,
            late,
            text: text.to_owned(),
        };
        log.line(&line, Figures { live, cache: None });
    }

    #[test]
    fn the_lines_before_a_failure_stay() {
        let mut log = Log::default();
        assert!(log.failed(0, 1) == 0 && log.before(0).is_empty());
        for number in 0..100 {
            said(&mut log, &format!("line {number}"), false, number);
        }
        let first = log.failed(0, 1);
        assert_eq!(log.failed(0, 1), first);
        said(&mut log, "after", false, 0);
        let texts = |number| {
            let lines = log.before(number).iter();
            lines.map(|line| line.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(first).len(), MOST_BEFORE);
        assert_eq!(texts(first)[7], "line 99");
        assert_eq!(log.before(first)[7].figures.map(|now| now.live), Some(99));
        assert_eq!((log.lines().count(), log.count()), (MOST_LINES, 101));
        assert_eq!(log.before.len(), 1);
    }

    #[test]
    fn late_lines_do_not_push_out_the_others() {
        let mut log = Log::default();
        for number in 0..4 {
            said(&mut log, &format!("new {number}"), false, 0);
        }
        for number in 0..30 {
            said(&mut log, &format!("late {number}"), true, 0);
        }
        let number = log.failed(0, 1);
        let texts: Vec<&str> = log.before(number).iter().map(|line| &*line.text).collect();
        assert_eq!(
            texts,
            [
                "new 0", "new 1", "new 2", "new 3", "late 26", "late 27", "late 28", "late 29"
            ]
        );
        assert!(log.before(number)[7].figures.is_none());
    }
}
