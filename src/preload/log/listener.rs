//! The writer's part: pieces and files to the lines of the trace, in bounded number.

use super::super::raw::Raw;
use super::clean;
use super::lines::{Line, Lines};
use super::pieces::{self, Piece};
use super::tail::{self, Seen, Tails};
use oomhook_trace::told::LogLine;
use std::collections::VecDeque;

/// So many lines and bytes go into a trace as they come; after that, so many a second, and the last ones of all.
const MANY_LINES: u64 = 65_536;
const MANY_BYTES: u64 = 16 << 20;
const INTERVAL_NS: u64 = 100_000_000;
/// Lines kept back that are the last ones, should memory run out now.
const KEPT_BACK: usize = 16;
/// A progress line that ends again and again (bars of several lines do) is told no more often.
const PROGRESS_NS: u64 = 1_000_000_000;
/// Files are looked at no more often, when memory runs out again and again.
const FILES_NS: u64 = 100_000_000;

/// The thread of a line that nobody is known to have written.
const UNKNOWN: u32 = u32::MAX;

/// Makes lines of what is heard.
pub struct Listener {
    is_wanted: bool,
    streams: [Lines; 2],
    seen: [Seen; 2],
    tails: Tails,
    /// Lines to be told.
    new: Vec<LogLine>,
    /// Lines kept back, since there were too many.
    back: VecDeque<LogLine>,
    lines: u64,
    bytes: u64,
    let_through_ns: u64,
    /// The progress line of each stream that is kept back, and when the last one was told.
    progress: [(Option<LogLine>, u64); 2],
    files_ns: Option<u64>,
    /// When the latest piece of each stream was written.
    heard_ns: [u64; 2],
}

impl Listener {
    /// Nothing heard yet.
    pub fn begin(is_wanted: bool) -> Listener {
        Listener {
            is_wanted,
            streams: Default::default(),
            seen: Default::default(),
            tails: if is_wanted {
                Tails::begin()
            } else {
                Tails::default()
            },
            new: Vec::new(),
            back: VecDeque::new(),
            lines: 0,
            bytes: 0,
            let_through_ns: 0,
            progress: Default::default(),
            files_ns: None,
            heard_ns: [0; 2],
        }
    }

    /// Takes a piece; each event once.
    pub fn hear(&mut self, raw: &Raw) {
        pieces::take(raw, |piece| self.piece(&piece));
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        let at = usize::from(piece.stream != 1);
        self.heard_ns[at] = piece.time_ns;
        let mut lines = std::mem::take(&mut self.streams[at]);
        let is_at_once = || tail::is_at_once(piece.stream);
        lines.take(piece, is_at_once, |line| self.line(at, line));
        self.streams[at] = lines;
    }

    fn line(&mut self, at: usize, line: Line) {
        let Some(text) = clean::text(&line.bytes) else {
            return;
        };
        self.seen[at].add(&text);
        let is_progress = line.is_progress || clean::moves_up(&line.bytes);
        let line = LogLine {
            time_ns: line.time_ns,
            thread: line.thread,
            stream: at as u8 + 1,
            late: line.late,
            text,
        };
        let (kept, told_ns) = &mut self.progress[at];
        if is_progress && line.time_ns.saturating_sub(*told_ns) < PROGRESS_NS && *told_ns != 0 {
            *kept = Some(line);
            return;
        }
        let kept = kept.take();
        if is_progress {
            *told_ns = line.time_ns;
        } else if let Some(kept) = kept {
            self.tell(kept);
        }
        self.tell(line);
    }

    fn tell(&mut self, line: LogLine) {
        let is_many = self.lines >= MANY_LINES || self.bytes >= MANY_BYTES;
        if is_many && line.time_ns.saturating_sub(self.let_through_ns) < INTERVAL_NS {
            if self.back.len() == KEPT_BACK {
                self.back.pop_front();
            }
            self.back.push_back(line);
            return;
        }
        self.let_through_ns = line.time_ns;
        self.back.clear();
        self.lines += 1;
        self.bytes += line.text.len() as u64;
        self.new.push(line);
    }

    /// Memory has run out, or the process ends: all that there is to be told now. The files are looked at by the way.
    pub fn tell_all(&mut self, now_ns: u64, at_the_end: bool) {
        if !self.is_wanted {
            return;
        }
        for stream in [1, 2] {
            let heard_ns = self.heard_ns[usize::from(stream) - 1];
            pieces::take_latest(stream, |piece| {
                if piece.time_ns > heard_ns {
                    self.piece(&piece);
                }
            });
        }
        // Only the last of those that were kept back stands beside the memory of its moment.
        let last = self.back.pop_back();
        let others = self
            .back
            .drain(..)
            .map(|line| LogLine { late: true, ..line });
        self.new.extend(others.chain(last));
        for at in 0..2 {
            let kept = self.progress[at].0.take();
            self.new.extend(kept);
            let Some(line) = self.streams[at].unfinished() else {
                continue;
            };
            if let Some(text) = clean::text(&line.bytes) {
                self.seen[at].add(&text);
                self.new.push(LogLine {
                    time_ns: line.time_ns,
                    thread: line.thread,
                    stream: at as u8 + 1,
                    late: false,
                    text,
                });
            }
        }
        let is_early = |then: &u64| now_ns.saturating_sub(*then) < FILES_NS;
        if !at_the_end && self.files_ns.as_ref().is_some_and(is_early) {
            return;
        }
        self.files_ns = Some(now_ns);
        let (tails, seen, new) = (&mut self.tails, &mut self.seen, &mut self.new);
        tails.look(seen, |stream, text| {
            new.push(LogLine {
                time_ns: now_ns,
                thread: UNKNOWN,
                stream,
                late: true,
                text,
            });
        });
    }

    /// What the reader should know of lines that are missing.
    pub fn note(&self) -> Option<String> {
        let number = pieces::given_up();
        (number > 0).then(|| {
            format!(
                "{number} writes of the program's output came too fast to be kept beside its memory"
            )
        })
    }

    /// The lines to be told.
    pub fn take(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(listener: &mut Listener, time_ns: u64, text: &str) -> Vec<String> {
        listener.piece(&Piece {
            stream: 2,
            time_ns,
            thread: 0,
            skipped: 0,
            is_after_gap: false,
            begins_line: true,
            bytes: text.as_bytes(),
        });
        told(listener)
    }

    fn told(listener: &mut Listener) -> Vec<String> {
        listener.take().into_iter().map(|line| line.text).collect()
    }

    /// Hears pieces, and looks at no files.
    fn listener() -> Listener {
        Listener {
            is_wanted: true,
            files_ns: Some(u64::MAX),
            ..Listener::begin(false)
        }
    }

    #[test]
    fn after_very_many_lines_some_are_told_and_the_last_ones() {
        let mut listener = listener();
        for number in 0..MANY_LINES {
            let line = number.to_string();
            assert_eq!(say(&mut listener, 7, &format!("{line}\n")), [line]);
        }
        let from = 7 + INTERVAL_NS;
        assert_eq!(say(&mut listener, from, "a\n"), ["a"]);
        for number in 0..100 {
            let none: Vec<String> = Vec::new();
            assert_eq!(
                say(&mut listener, from + number, &format!("b{number}\n")),
                none
            );
        }
        listener.tell_all(from + 100, false);
        let last = told(&mut listener);
        assert_eq!((last.len(), &*last[0], &*last[15]), (16, "b84", "b99"));
        assert_eq!(say(&mut listener, from + INTERVAL_NS, "c\n"), ["c"]);
    }

    #[test]
    fn bars_that_end_again_and_again_are_told_now_and_then() {
        let mut listener = listener();
        let second = PROGRESS_NS;
        let mut all = Vec::new();
        // Two bars, ten times a second for three seconds.
        for tick in 0..30 {
            let time_ns = second + tick * second / 10;
            all.extend(say(
                &mut listener,
                time_ns,
                &format!("\router {tick}\n\rinner {tick}\x1b[A"),
            ));
        }
        assert_eq!(all, ["outer 0", "outer 10", "outer 20"]);
        listener.tell_all(0, false);
        assert_eq!(told(&mut listener), ["outer 29", "inner 29"]);
        listener.tell_all(0, false);
        assert_eq!(told(&mut listener), Vec::<String>::new());
        assert_eq!(say(&mut listener, 0, "\n\ndone\n"), ["done"]);
    }
}
