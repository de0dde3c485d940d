//! What the log of a dead job says about running out of memory: messages found, grouped and judged. Pure but for the reading.

mod context;
mod frameworks;
mod judge;
mod lines;
mod message;
mod page;
mod prefix;
mod size;
#[cfg(test)]
mod tests;
mod words;

use context::{Context, Stack};
use frameworks::{bfc, jax, llama, pytorch};
use lines::Lines;
use message::{Found, Kind, Numbers};
use oomhook_report::diagnosis::{Cause, Framework};
use regex::Regex;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::sync::LazyLock;

pub use page::render;

/// Groups that are kept; a log has one or two.
const MOST_GROUPS: usize = 64;
/// Ranks and GPUs that are kept of one group.
const MOST_RANKS: usize = 4096;
/// Lines of one message at most, where something broke them.
const MOST_JOINED: usize = 8;
/// Bytes of a message that are shown.
const EXCERPT: usize = 300;
/// Lines in which a message is completed by what follows.
const AFTERMATH: u64 = 20_000;

/// What a log says.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The form of this.
    pub schema_version: u32,
    /// Lines read.
    pub lines: u64,
    /// Messages, the one that is explained first.
    pub messages: Vec<Group>,
    /// Messages of further kinds, only counted.
    pub further: u64,
    /// Why memory ran out, likeliest first.
    pub causes: Vec<Judgement>,
    /// What helps against the likeliest.
    pub advice: Vec<String>,
    /// Settings of allocators that the log shows in force.
    pub settings: std::collections::BTreeMap<String, String>,
    /// The command that ran, where the log shows it.
    pub command: Option<String>,
    /// What to run next.
    pub next: String,
}

/// One reason, and what speaks for it.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// The reason.
    pub class: Cause,
    /// What speaks for it.
    pub evidence: Vec<String>,
}

/// The same message, once or many times.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Whose memory, in a word.
    pub framework: &'static str,
    #[serde(skip)]
    pub of: Framework,
    /// What it is about.
    pub kind: Kind,
    /// How often it was written.
    pub count: u64,
    /// Where first, counted from 1.
    pub first_line: u64,
    /// Ranks that wrote it, as far as the log tells.
    pub ranks: BTreeSet<u32>,
    /// GPUs that it names.
    pub devices: BTreeSet<u32>,
    /// The first one's words.
    pub text: String,
    /// The first one's numbers, bytes.
    pub numbers: Numbers,
    /// What it says beside them.
    pub facts: Vec<String>,
    /// The user's own line that led there.
    pub place: Option<context::Place>,
    /// What the program was doing.
    pub doing: Option<context::Doing>,
    /// The step that was last told before.
    pub step: Option<u64>,
    /// What a ggml buffer was for.
    #[serde(skip)]
    pub purpose: Option<llama::Purpose>,
    /// Told by the pool itself so often; the exception tells it again.
    #[serde(skip)]
    by_pool: u64,
    #[serde(skip)]
    by_exception: u64,
}

/// What a line must have to be looked at.
static WORTH: LazyLock<Regex> = LazyLock::new(|| {
    frameworks::pattern(
        r"(?i:out.of.memory|outofmemory|memory error|memoryerror|\boom)|ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED|MemoryAllocation|RESOURCE_EXHAUSTED|ResourceExhausted|failed to allocate|llocate memory|not enough memory|cache blocks|GPU memory utilization|max seq len|KV [Cc]ache|rematerialization|bad_alloc|[Kk]illed|137|exitcode|DataLoader worker|SIGKILL|torch_",
    )
});

/// Reads a log.
///
/// # Errors
/// When it cannot be read.
pub fn read(log: impl BufRead) -> io::Result<Explanation> {
    let mut lines = Lines::new(log);
    let mut reader = Reader::default();
    while let Some(line) = lines.next()? {
        reader.line(&line);
    }
    reader.flush();
    Ok(judge::explain(reader, lines.count()))
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    context: Context,
    groups: Vec<Group>,
    further: u64,
    /// A message that something broke into several lines.
    open: Option<Open>,
    /// The group that a pool's figures belong to, and the line of its message.
    latest: Option<(usize, u64)>,
}

struct Open {
    line: u64,
    rank: Option<u32>,
    text: String,
    /// Bytes of its first line.
    first: usize,
    joined: usize,
}

impl Reader {
    fn line(&mut self, line: &lines::Line<'_>) {
        self.context.see(line.number, line.text, line.starts_over);
        let is_worth = WORTH.is_match(line.text);
        if self.open.is_some() {
            self.go_on(line);
        }
        if let Some((group, since)) = self.latest {
            self.aftermath(group, since, line);
        }
        if !is_worth {
            return;
        }
        self.context.see_failure(line.text);
        let bare = prefix::strip(line.text);
        let before = line.text.len() - bare.text.len();
        let begins_here = |start: usize| start + before < line.own;
        if let Some(start) = pytorch::goes_on(bare.text) {
            if !begins_here(start) {
                return;
            }
            self.flush();
            self.open = Some(Open {
                line: line.number,
                rank: bare.rank,
                text: bare.text.to_owned(),
                first: bare.text.len(),
                joined: 0,
            });
            return;
        }
        if let Some(found) = frameworks::find(bare.text)
            && begins_here(found.start)
        {
            self.put(found, bare.text, line.number, bare.rank);
        }
    }

    /// Joins a line to the open message.
    fn go_on(&mut self, line: &lines::Line<'_>) {
        let Some(open) = &mut self.open else { return };
        let bare = prefix::strip(line.text);
        if bare.rank != open.rank {
            return;
        }
        let ends = bare.text.trim().is_empty()
            || bare.text.contains("Traceback")
            || bare.text.contains("out of memory");
        if !ends {
            open.text.push(' ');
            open.text.push_str(
                bare.text
                    .trim_matches(|c: char| c.is_whitespace() || "│|#>".contains(c)),
            );
            open.joined += 1;
        }
        if ends || pytorch::is_whole(&open.text) || open.joined == MOST_JOINED {
            self.flush();
        }
    }

    /// Takes the open message as it is.
    fn flush(&mut self) {
        let Some(open) = self.open.take() else { return };
        let first = &open.text[..open.first];
        let (alone, joined) = (frameworks::find(first), frameworks::find(&open.text));
        let Some(joined) = joined else { return };
        // If what followed adds nothing, it was something else.
        match alone.filter(|alone| alone.numbers == joined.numbers) {
            Some(alone) => self.put(alone, first, open.line, open.rank),
            None => self.put(joined, &open.text, open.line, open.rank),
        }
    }

    fn put(&mut self, mut found: Found, text: &str, line: u64, rank: Option<u32>) {
        let by_pool = text.contains("ran out of memory trying to allocate");
        let same = self.groups.iter().position(|group| group.is(&found));
        let at = match same {
            Some(at) => {
                // The pool and the exception tell of one failure; other messages are other moments.
                if is_pool(found.framework) {
                    self.groups[at].numbers.complete(&found.numbers);
                }
                at
            }
            None if self.groups.len() == MOST_GROUPS => {
                self.further += 1;
                return;
            }
            None => {
                // Looking back is slow, and a log may have a message a thousand times.
                let (stack, step) = (self.context.stack(rank), self.context.step());
                if stack.is_of_vllm && matches!(found.framework, Framework::PyTorch(_)) {
                    found.framework = Framework::Vllm;
                }
                self.groups
                    .push(Group::new(&found, text, line, stack, step));
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[at];
        // The exception knows whose pool it is, and where it happened.
        if same.is_some() && !by_pool && group.by_exception == 0 && group.by_pool > 0 {
            group.told_by_exception(&found, text, self.context.stack(rank));
        }
        match by_pool {
            true => group.by_pool += 1,
            false => group.by_exception += 1,
        }
        group.count = group.by_pool.max(group.by_exception);
        if group.ranks.len() < MOST_RANKS {
            group.ranks.extend(rank);
        }
        if group.devices.len() < MOST_RANKS {
            group.devices.extend(found.numbers.device);
        }
        self.latest = Some((at, line));
    }

    /// What follows a message may complete it.
    fn aftermath(&mut self, at: usize, since: u64, line: &lines::Line<'_>) {
        let group = &mut self.groups[at];
        if line.number > since.saturating_add(AFTERMATH) {
            self.latest = None;
            return;
        }
        match group.of {
            // Only the first one's figures belong to its numbers.
            Framework::Jax | Framework::TensorFlow if group.by_pool <= 1 => {
                bfc::figure(line.text, &mut group.numbers);
                jax::planned(prefix::strip(line.text).text, &mut group.numbers);
            }
            // ggml says in the next line that the error is its own.
            Framework::Cuda if group.count == 1 && line.number == since + 1 => {
                if let Some(purpose) = llama::place(line.text, &mut group.numbers) {
                    group.of = Framework::LlamaCpp;
                    group.framework = words::framework(group.of);
                    group.purpose = purpose;
                }
            }
            Framework::LlamaCpp if group.purpose.is_none() => {
                group.purpose = llama::purpose(line.text);
            }
            _ => {}
        }
    }
}

impl Group {
    fn new(found: &Found, text: &str, line: u64, stack: Stack, step: Option<u64>) -> Group {
        Group {
            framework: words::framework(found.framework),
            of: found.framework,
            kind: found.kind,
            count: 0,
            first_line: line,
            ranks: BTreeSet::new(),
            devices: BTreeSet::new(),
            text: excerpt(text, found.start),
            numbers: found.numbers.clone(),
            facts: found.facts.clone(),
            place: stack.place,
            doing: stack.doing,
            step,
            purpose: None,
            by_pool: 0,
            by_exception: 0,
        }
    }

    /// True if a message says the same once more.
    fn is(&self, found: &Found) -> bool {
        let same_framework = match (self.of, found.framework) {
            (Framework::PyTorch(_) | Framework::Vllm, Framework::PyTorch(_)) => true,
            (Framework::LlamaCpp, Framework::Cuda) => true,
            (mine, theirs) => mine == theirs || (is_pool(mine) && is_pool(theirs)),
        };
        same_framework
            && self.kind == found.kind
            && alike(self.numbers.requested_bytes, found.numbers.requested_bytes)
            && (self.kind != Kind::Library || self.facts == found.facts)
    }

    fn told_by_exception(&mut self, found: &Found, text: &str, stack: Stack) {
        self.of = found.framework;
        self.framework = words::framework(found.framework);
        self.text = excerpt(text, found.start);
        self.facts.extend(found.facts.iter().cloned());
        self.place = stack.place.or(self.place.take());
        self.doing = stack.doing.or(self.doing);
    }
}

/// True for those whose pool complains before the exception comes.
fn is_pool(framework: Framework) -> bool {
    matches!(framework, Framework::Jax | Framework::TensorFlow)
}

/// Sizes are written with three digits, so the same one may differ a little.
fn alike(one: Option<u64>, two: Option<u64>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => one.abs_diff(two) <= one.max(two) / 200,
        (None, None) => true,
        _ => false,
    }
}

/// A message's own words, on one line.
fn excerpt(text: &str, start: usize) -> String {
    let own = &text[start..];
    let end = (0..=EXCERPT.min(own.len()))
        .rev()
        .find(|at| own.is_char_boundary(*at));
    let words: Vec<&str> = own[..end.unwrap_or(0)].split_whitespace().collect();
    oomhook_report::clean::text(&words.join(" "))
}
