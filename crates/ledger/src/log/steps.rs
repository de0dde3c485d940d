//! A table of a program's steps: lines with the same keys, the memory at each, and where it jumped.
//!
//! A line is one of a step if it has a key by which training counts, or two numbers at least and comes again and again. Lines
//! with the same keys are one *shape* and are compared with each other: an evaluation's line is no training's.

use super::keys::{self, Pair};
use super::{Figures, Peaks};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Rows kept; when there are more, every other one goes.
const MOST_STEPS: usize = 1024;
/// Shapes kept.
const MOST_SHAPES: usize = 32;
/// The bit of a line that has numbers and no shape.
const NO_SHAPE: u64 = 1 << MOST_SHAPES;
/// Lines of a shape that make it one, without a counter among its keys.
const OFTEN: u64 = 3;
/// Jumps kept, the latest ones.
const MOST_JUMPS: usize = 32;
/// Keys named at a jump.
const MOST_CHANGES: usize = 4;
/// The least jump, in hundredths of the highest peak before it and in bytes.
const JUMP_HUNDREDTHS: u64 = 125;
const JUMP_BYTES: u64 = 64 << 20;
/// Lines for which the highest peak must have stood: a program that loads a model grows with each line.
const STEADY: u64 = 3;
/// What is more than this above the highest peak is a new one, in hundredths.
const HIGHER_HUNDREDTHS: u64 = 105;

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When its line was written.
    pub time_ns: u64,
    /// Which shape it has.
    pub shape: usize,
    /// The numbers as they were written, in the order of the shape's keys.
    pub numbers: Vec<String>,
    /// The memory at its line.
    pub now: Figures,
    /// The highest values since the line before of the same shape.
    pub peaks: Peaks,
}

/// A key whose number changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    /// The key.
    pub key: String,
    /// Its number before.
    pub before: String,
    /// Its number from then on.
    pub after: String,
}

/// A step at which much more memory was needed than at any before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    /// When its line was written, or when memory ran out.
    pub time_ns: u64,
    /// The peak of the step before.
    pub from: u64,
    /// The peak of this one; with what was asked for, if memory ran out.
    pub to: u64,
    /// These are bytes handed out by a framework's cache, not device bytes.
    pub of_cache: bool,
    /// Memory ran out.
    pub failed: bool,
    /// By which counter it is known, and its number.
    pub counter: Option<(String, String)>,
    /// Keys that had been the same for a while and changed there.
    pub keys: Vec<KeyChange>,
}

/// What is known of a key over the lines of a shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    name: String,
    number: String,
    /// Lines for which it has been the same.
    same_for: u64,
    /// The highest whole number, and whether it ever did not rise.
    most: Option<u64>,
    has_fallen: bool,
    /// How often it went up and down.
    #[serde(default)]
    rises: u64,
    #[serde(default)]
    falls: u64,
}

/// Lines with the same keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    keys: Vec<Key>,
    is_counted: bool,
    count: u64,
    /// Since the latest line.
    peaks: Peaks,
    /// At the latest line.
    last: Peaks,
    /// The highest of all lines, and how many lines ago it was reached.
    highest: Peaks,
    stands_for: u64,
    /// What changed at the latest line.
    changes: Vec<KeyChange>,
    /// Which other shapes spoke since the latest line, by bits, and which did between that and the one before.
    #[serde(default)]
    between: u64,
    #[serde(default)]
    usually_between: u64,
}

/// Words in names of what costs no memory: what a program measures (it is high because memory or time was, and not the other way
/// round), and what only its arithmetic goes by.
const NO_CAUSES: [&str; 63] = [
    "time",
    "elapsed",
    "eta",
    "sec",
    "secs",
    "second",
    "seconds",
    "s",
    "ms",
    "dt",
    "date",
    "wall",
    "duration",
    "latency",
    "remaining",
    "progress",
    "speed",
    "throughput",
    "tps",
    "wps",
    "ups",
    "qps",
    "fps",
    "mfu",
    "flops",
    "tflops",
    "util",
    "utilization",
    "usage",
    "ppl",
    "perplexity",
    "nll",
    "norm",
    "gnorm",
    "acc",
    "accuracy",
    "top",
    "f",
    "auc",
    "bleu",
    "wer",
    "score",
    "reward",
    "lr",
    "learningrate",
    "wd",
    "decay",
    "momentum",
    "mom",
    "beta",
    "betas",
    "eps",
    "epoch",
    "epochs",
    "alloc",
    "allocated",
    "reserved",
    "cached",
    "free",
    "peak",
    "vram",
    "gb",
    "mb",
];

fn costs_nothing(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric());
    lower.replace(['_', '-'], " ").contains("learning rate")
        || words
            // `acc1`, `lr_0`.
            .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
            .any(|word| {
                let is_memory = word.starts_with("mem") || word.ends_with("mem");
                is_memory || word.ends_with("loss") || NO_CAUSES.contains(&word)
            })
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Steps {
    shapes: Vec<Shape>,
    steps: Vec<Step>,
    last: Option<Step>,
    /// Rows so far, and each how-many-th is kept.
    count: u64,
    stride: u64,
    jumps: VecDeque<Jump>,
    /// The highest values so far.
    highest: Peaks,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps {
            shapes: Vec::new(),
            steps: Vec::new(),
            last: None,
            count: 0,
            stride: 1,
            jumps: VecDeque::new(),
            highest: Peaks::default(),
        }
    }
}

impl Steps {
    /// The rows, oldest first; the latest is always among them.
    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        let last = self.last.as_ref();
        let is_kept = self.steps.last() == last;
        self.steps.iter().chain(last.filter(|_| !is_kept))
    }

    /// The numbers of a row by their keys.
    pub fn keys<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = (&'a str, &'a str)> {
        let keys = self
            .shapes
            .get(step.shape)
            .map_or(&[][..], |shape| &shape.keys);
        let names = keys.iter().map(|key| key.name.as_str());
        names.zip(step.numbers.iter().map(String::as_str))
    }

    /// Where memory jumped, oldest first.
    pub fn jumps(&self) -> impl Iterator<Item = &Jump> {
        self.jumps.iter()
    }

    /// Takes a line; `since` is what was reached since the line before.
    pub(super) fn line(&mut self, time_ns: u64, text: &str, now: Figures, since: Peaks) {
        self.highest.see(since);
        for shape in &mut self.shapes {
            shape.peaks.see(since);
        }
        let pairs = keys::read(text);
        let Some(at) = self.shape_of(&pairs) else {
            if !pairs.is_empty() {
                self.interrupts(NO_SHAPE, None);
            }
            return;
        };
        self.interrupts(1 << at, Some(at));
        let Some(shape) = self.shapes.get_mut(at) else {
            return;
        };
        let (peaks, jump) = shape.line(time_ns, &pairs, now);
        let is_step = shape.is_counted || shape.count >= OFTEN;
        if !is_step {
            return;
        }
        if let Some(jump) = jump {
            self.jumped(jump);
        }
        self.add(Step {
            time_ns,
            shape: at,
            numbers: pairs.into_iter().map(|(_, number)| number).collect(),
            now,
            peaks,
        });
    }

    /// A line came between those of all other shapes.
    fn interrupts(&mut self, bit: u64, own: Option<usize>) {
        for (at, shape) in self.shapes.iter_mut().enumerate() {
            if Some(at) != own {
                shape.between |= bit;
            }
        }
    }

    fn shape_of(&mut self, pairs: &[Pair]) -> Option<usize> {
        let is_counted = pairs.iter().any(|(key, number)| counts(key, number));
        if pairs.is_empty() || pairs.len() < 2 && !is_counted {
            return None;
        }
        let is_it = |shape: &Shape| {
            let names = shape.keys.iter().map(|key| &key.name);
            names.eq(pairs.iter().map(|(key, _)| key))
        };
        if let Some(at) = self.shapes.iter().position(is_it) {
            return Some(at);
        }
        if self.shapes.len() >= MOST_SHAPES {
            return None;
        }
        self.shapes.push(Shape {
            keys: pairs
                .iter()
                .map(|(key, _)| Key {
                    name: key.clone(),
                    ..Key::default()
                })
                .collect(),
            is_counted,
            peaks: self.highest,
            ..Shape::default()
        });
        Some(self.shapes.len() - 1)
    }

    fn add(&mut self, step: Step) {
        if self.count.is_multiple_of(self.stride) {
            if self.steps.len() == MOST_STEPS {
                let mut number = 0;
                self.steps.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.steps.push(step.clone());
            }
        }
        self.count += 1;
        self.last = Some(step);
    }

    fn jumped(&mut self, jump: Jump) {
        // What failed is tried again, and may be got at last: that is one jump.
        let is_again = |last: &Jump| last.failed && last.keys == jump.keys;
        if self.jumps.back().is_some_and(is_again) {
            self.jumps.pop_back();
        }
        if self.jumps.len() == MOST_JUMPS {
            self.jumps.pop_front();
        }
        self.jumps.push_back(jump);
    }

    /// Memory has run out, after `since` was reached. Where a line tells what comes, and a key in the latest one had just changed, that
    /// is the jump; where it tells what was, nobody knows the keys of the step that failed.
    pub(super) fn failed(&mut self, time_ns: u64, since: Peaks, requested: u64) {
        let Some(last) = &self.last else { return };
        let Some(shape) = self.shapes.get_mut(last.shape) else {
            return;
        };
        let mut peaks = shape.peaks;
        peaks.see(since);
        let of_cache = shape.highest.allocated > 0;
        let reached = if of_cache {
            peaks.allocated
        } else {
            peaks.live
        };
        let to = reached.saturating_add(requested);
        let keys = shape.changes.clone();
        if keys.is_empty()
            || shape.is_interrupted()
            || shape.stands_for < STEADY
            || !shape.is_jump(to)
        {
            return;
        }
        let jump = Jump {
            time_ns,
            from: shape.measure(shape.last),
            to,
            of_cache,
            failed: true,
            counter: shape.counter(),
            keys,
        };
        self.jumped(jump);
    }
}

impl Shape {
    fn measure(&self, peaks: Peaks) -> u64 {
        // A cache keeps what it once had from the driver: what it handed out tells more.
        if self.highest.allocated > 0 {
            peaks.allocated
        } else {
            peaks.live
        }
    }

    fn is_jump(&self, to: u64) -> bool {
        let highest = self.measure(self.highest);
        let least = u128::from(highest) * u128::from(JUMP_HUNDREDTHS) / 100;
        highest > 0 && u128::from(to) >= least && to.saturating_sub(highest) >= JUMP_BYTES
    }

    /// Something else happened since the latest line, unlike before: what memory was needed for, nobody knows.
    fn is_interrupted(&self) -> bool {
        self.between & !self.usually_between != 0
    }

    fn counter(&self) -> Option<(String, String)> {
        let counters = self.keys.iter().filter(|key| key.counts());
        // An epoch is the coarser one.
        let finest = counters.min_by_key(|key| is_epoch(&key.name))?;
        Some((finest.name.clone(), finest.number.clone()))
    }

    /// Takes a line of this shape: what was reached since the one before, and the jump if it is one.
    fn line(&mut self, time_ns: u64, pairs: &[Pair], now: Figures) -> (Peaks, Option<Jump>) {
        let counter_before = self.counter();
        let is_first = self.count == 0;
        let is_interrupted = self.is_interrupted();
        self.usually_between = std::mem::take(&mut self.between);
        self.count += 1;
        let peaks = std::mem::replace(&mut self.peaks, now.as_peaks());
        let mut changes = Vec::new();
        for (key, (_, number)) in self.keys.iter_mut().zip(pairs) {
            changes.extend(key.take(number, is_first));
        }
        changes.truncate(MOST_CHANGES);
        let to = self.measure(peaks);
        let jump = (self.stands_for >= STEADY && self.is_jump(to)).then(|| {
            // A line may tell what comes: then the key changed one line before.
            let (keys, counter) = if is_interrupted {
                (Vec::new(), self.counter())
            } else if changes.is_empty() && !self.changes.is_empty() {
                (self.changes.clone(), counter_before)
            } else {
                (changes.clone(), self.counter())
            };
            Jump {
                time_ns,
                from: self.measure(self.last),
                to,
                of_cache: self.highest.allocated > 0,
                failed: false,
                counter,
                keys,
            }
        });
        self.changes = changes;
        let highest = self.measure(self.highest);
        let is_higher = u128::from(to) * 100 > u128::from(highest) * u128::from(HIGHER_HUNDREDTHS);
        let has_cache_since = self.highest.allocated == 0 && peaks.allocated > 0;
        self.stands_for = if is_higher || has_cache_since {
            0
        } else {
            self.stands_for + 1
        };
        self.highest.see(peaks);
        self.last = peaks;
        (peaks, jump)
    }
}

/// True if a key counts by its name, and its number is one to count with: `train_loss_step=2.44` is none.
fn counts(name: &str, number: &str) -> bool {
    keys::is_counter(name) && (number.parse::<u64>().is_ok() || is_epoch(name))
}

/// An epoch may be counted in parts.
fn is_epoch(name: &str) -> bool {
    name.to_ascii_lowercase().contains("epoch")
}

impl Key {
    /// Takes the number of the next line; the change, if it is one that tells something: it had been the same for a while, or
    /// it is a whole number that goes up and down and was never so high.
    fn take(&mut self, number: &str, is_first: bool) -> Option<KeyChange> {
        let whole = number.parse::<u64>().ok();
        let was_steady = self.same_for >= STEADY;
        let is_record = self.has_fallen
            && matches!((whole, self.most), (Some(now), Some(most)) if now > most + most / 10);
        let is_same = number == self.number;
        let change = (!is_first && !is_same && (was_steady || is_record)).then(|| KeyChange {
            key: self.name.clone(),
            before: self.number.clone(),
            after: number.to_owned(),
        });
        if let (Ok(now), Ok(before)) = (number.parse::<f64>(), self.number.parse::<f64>()) {
            self.rises += u64::from(now > before);
            self.falls += u64::from(now < before);
        }
        if let (Some(now), Ok(before)) = (whole, self.number.parse::<u64>()) {
            self.has_fallen |= now < before;
        }
        self.most = self.most.max(whole);
        self.same_for = if is_same { self.same_for + 1 } else { 1 };
        if !is_same {
            number.clone_into(&mut self.number);
        }
        change.filter(|_| !keys::is_counter(&self.name) && !costs_nothing(&self.name))
    }

    /// True for a counter of steps: it rises, though it may begin anew with each epoch.
    fn counts(&self) -> bool {
        counts(&self.name, &self.number) && self.falls * 2 <= self.rises
    }
}
