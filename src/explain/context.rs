//! What stands around a message: the traceback before it, the step it happened in, and what was said at the start.

use super::frameworks::{number, pattern};
use super::prefix::{self, Bare};
use oomhook_report::diagnosis::Version;
use regex::Regex;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;

/// Lines that are remembered.
const LINES: usize = 3000;
/// Bytes of each.
const WIDTH: usize = 400;
/// Commands are looked for in so many lines at the start.
const START: u64 = 2000;
/// Longer commands are not shown.
const LONGEST_COMMAND: usize = 400;

/// The user's own line that led to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// File.
    pub file: String,
    /// Line in it.
    pub line: u32,
    /// Function, where it is told.
    pub function: Option<String>,
    /// The source text, where it is told.
    pub source: Option<String>,
}

/// What the program was doing, as its stack tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// Bringing weights to the GPU.
    Loading,
    /// A forward pass.
    Forward,
    /// A backward pass.
    Backward,
    /// An optimizer's step.
    Optimizer,
}

/// The stack before a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The innermost line of the user's own files.
    pub place: Option<Place>,
    /// What it tells.
    pub doing: Option<Doing>,
    /// It goes through vLLM, or its engine wrote it.
    pub is_of_vllm: bool,
}

/// The latest lines, and what was said about the whole run.
#[derive(Default)]
pub struct Context {
    latest: VecDeque<String>,
    /// The command that started it, if it was seen.
    pub command: Option<String>,
    /// Settings of allocators that were seen in force.
    pub settings: BTreeMap<String, String>,
    /// PyTorch's version.
    pub torch: Option<Version>,
    /// llama.cpp's context, tokens.
    pub context_tokens: Option<u64>,
}

/// Whatever a line must have to be looked at by [`Context::learn`].
static WORTH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"ALLOC_CONF|XLA_(?:PYTHON_)?CLIENT_|TF_GPU_ALLOCATOR|TF_FORCE_GPU_ALLOW_GROWTH|CUPY_GPU_MEMORY_LIMIT|(?i:\b(?:py)?torch(?:\.__version__|[ _-]version)?\W{1,6}v?\d\.\d)|\bn_ctx\b",
    )
});
static SETTING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?P<before>\w+ )?\b(?P<name>PYTORCH_ALLOC_CONF|PYTORCH_CUDA_ALLOC_CONF|XLA_(?:PYTHON_)?CLIENT_[A-Z_]+|TF_GPU_ALLOCATOR|TF_FORCE_GPU_ALLOW_GROWTH|CUPY_GPU_MEMORY_LIMIT)["'\]]*\s*[=:]\s*["']?(?P<value>[A-Za-z0-9_.:,%\[\]-]+)"#,
    )
});
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)(?:^|[^\w.-])(?:py)?torch(?:\.__version__|[ _]version)?["']?\s*(?:==|[=:-])?\s*["']?v?(?P<major>[0-3])\.(?P<minor>\d{1,2})\b"#,
    )
});
static TOKENS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bn_ctx\s*=\s*(?P<tokens>\d{1,9})\b"));
static COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:(?P<mark>\++ |[$#] |(?:[Rr]unning|[Cc]ommand|[Cc]md|CMD|[Ll]aunching|[Ee]xecuting)(?: command| line)?: ?))?(?P<command>(?:[\w./-]*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|vllm|llama-server|llama-cli|mpirun|srun) (?P<rest>\S.*))$",
    )
});
static CALLED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Command '?\[(?P<list>'[^\]]{1,2000}')\]'? (?:returned|died)"));
/// What makes a word of a line an argument rather than prose.
static ARGUMENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^| )(?:-{1,2}\w|\S+\.py\b|serve |launch )"));
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)(?P<name>[\w-]*(?:key|token|secret|passw(?:or)?d|credential)[\w-]*[= ])\S+")
});

static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^\W{0,8}File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7})(?:, in (?P<function>[^\s|]+))?|^\W{0,8}File (?P<bare>~?[^\s"]{1,300}):(?P<bare_line>\d{1,7}), in (?P<bare_function>[\w.<>]+)|^\W{0,8}(?P<rich>/\S{1,300}\.py):(?P<rich_line>\d{1,7}) in (?P<rich_function>[\w.<>]+)|^\W{0,8}(?P<cell>Cell In ?\[\d+\]), line (?P<cell_line>\d{1,7})"#,
    )
});
static STEP: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)\b(?:(?:global|train|training)[_ ])?(?:step|iter|iteration)s?\b["']?\s*[:=#\[(]?\s*(?P<step>\d{1,9})\b(?:\s*/\s*\d{1,9})?|\b\d{1,3}%\|[^|]{0,200}\|\s*(?P<bar>\d{1,9})/\d{1,9} \["#,
    )
});
/// Progress that is no step of a training.
static NO_STEP: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)load|shard|download|fetch|map\b|token|filter|generat|extract|warm|captur|compil|packing|sav",
    )
});

impl Context {
    /// Remembers a line; learns from it.
    pub fn see(&mut self, number: u64, text: &str, starts_over: bool) {
        if starts_over {
            self.latest.pop_back();
        }
        let mut kept = match self.latest.len() {
            LINES => self.latest.pop_front().unwrap_or_default(),
            _ => String::new(),
        };
        kept.clear();
        kept.push_str(shortened(text, WIDTH));
        self.latest.push_back(kept);
        if WORTH.is_match(text) {
            self.learn(text);
        }
        if self.command.is_none() && number <= START {
            self.command = command(prefix::strip(text).text);
        }
    }

    fn learn(&mut self, text: &str) {
        // The message itself names the switch as advice.
        if !text.contains("out of memory") && !text.contains("deprecated") {
            for found in SETTING.captures_iter(text) {
                let advised = found.name("before").is_some_and(|word| {
                    matches!(
                        word.as_str().trim(),
                        "setting" | "set" | "try" | "use" | "using" | "and"
                    )
                });
                if !advised {
                    let value = found["value"].trim_end_matches(['.', ',', ':']);
                    self.settings
                        .insert(found["name"].to_owned(), value.to_owned());
                }
            }
        }
        if self.torch.is_none()
            && let Some(found) = VERSION.captures(text)
        {
            let pair = number(&found, "major").zip(number(&found, "minor"));
            self.torch = pair.map(|(major, minor)| Version(major, minor));
        }
        if let Some(found) = TOKENS.captures(text) {
            self.context_tokens = number(&found, "tokens");
        }
    }

    /// A command that a later line tells, as when a launcher reports what failed.
    pub fn see_failure(&mut self, text: &str) {
        if self.command.is_none()
            && let Some(found) = CALLED.captures(text)
        {
            let words: Vec<String> = found["list"]
                .split("', '")
                .map(|word| oomhook_report::text::quoted(word.trim_matches('\'')))
                .collect();
            self.command = Some(fit_to_show(&words.join(" "))).filter(|text| !text.is_empty());
        }
    }

    /// The latest stack of a rank.
    pub fn stack(&self, rank: Option<u32>) -> Stack {
        let mut stack = Stack::default();
        let mut has_frame = false;
        // The line after a frame is its source.
        let mut below: Option<String> = None;
        let mut doing = Vec::new();
        let mut is_of_vllm = self
            .latest
            .back()
            .is_some_and(|line| is_engine_of_vllm(line));
        for line in self.latest.iter().rev() {
            let bare = prefix::strip(line);
            if bare.rank != rank {
                continue;
            }
            if bare.text.contains("Traceback (most recent call last)") {
                break;
            }
            doing.extend(doing_of(bare.text));
            if let Some(mut place) = place(bare) {
                has_frame = true;
                is_of_vllm |= place.file.contains("-packages/vllm/");
                if stack.place.is_none() && !is_library(&place.file) {
                    place.source = below.take().filter(|text| is_source(text));
                    stack.place = Some(place);
                }
            } else if !is_marker(bare.text) {
                below = Some(bare.text.trim().trim_matches('│').trim().to_owned());
            }
        }
        if !has_frame {
            return Stack {
                is_of_vllm,
                ..Stack::default()
            };
        }
        stack.is_of_vllm = is_of_vllm;
        let rank = |doing: &Doing| match doing {
            Doing::Optimizer => 3,
            Doing::Backward => 2,
            Doing::Forward => 1,
            Doing::Loading => 0,
        };
        stack.doing = doing.into_iter().max_by_key(rank);
        stack
    }

    /// The step that was last told.
    pub fn step(&self) -> Option<u64> {
        self.latest.iter().rev().find_map(|line| {
            let found = STEP.captures(line)?;
            if found.name("bar").is_some() && NO_STEP.is_match(line) {
                return None;
            }
            number(&found, "step").or_else(|| number(&found, "bar"))
        })
    }
}

fn shortened(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

fn place(line: Bare<'_>) -> Option<Place> {
    let found = FRAME.captures(line.text)?;
    let pick = |names: [&str; 4]| {
        names
            .into_iter()
            .find_map(|name| found.name(name))
            .map(|part| part.as_str())
    };
    Some(Place {
        file: pick(["file", "bare", "rich", "cell"])?.to_owned(),
        line: pick(["line", "bare_line", "rich_line", "cell_line"])?
            .parse()
            .ok()?,
        function: pick(["function", "bare_function", "rich_function", "cell"])
            .filter(|name| !name.starts_with("Cell"))
            .map(str::to_owned),
        source: None,
    })
}

/// True for code that came with an environment, not from the user.
fn is_library(file: &str) -> bool {
    const PARTS: [&str; 9] = [
        "site-packages/",
        "dist-packages/",
        "site-packages\\",
        "/lib/python",
        "\\lib\\",
        "<frozen",
        "<string>",
        "importlib",
        "/torch/nn/",
    ];
    PARTS.iter().any(|part| file.contains(part)) || file.ends_with(".pyx") || file.ends_with(".pxi")
}

/// True for the carets and tildes under source text.
fn is_marker(text: &str) -> bool {
    text.trim().chars().all(|c| "^~ ".contains(c))
}

fn is_source(text: &str) -> bool {
    !text.is_empty() && !text.contains("Error:") && !text.contains("out of memory")
}

/// True for a line that a process of vLLM's engine wrote, as the prefix says.
fn is_engine_of_vllm(line: &str) -> bool {
    const SIGNS: [&str; 5] = [
        "(EngineCore",
        "(VllmWorker",
        "(Worker_TP",
        "(Worker_PP",
        "(Worker_DP",
    ];
    let start = shortened(line, 200);
    SIGNS.iter().any(|sign| start.contains(sign)) && start.contains("pid=")
}

fn doing_of(text: &str) -> Option<Doing> {
    const SIGNS: [(&str, Doing); 20] = [
        ("torch/optim/", Doing::Optimizer),
        ("optimizer.step(", Doing::Optimizer),
        ("exp_avg", Doing::Optimizer),
        (", in _init_group", Doing::Optimizer),
        (".backward(", Doing::Backward),
        ("in backward", Doing::Backward),
        ("_engine_run_backward", Doing::Backward),
        ("in forward", Doing::Forward),
        ("in _call_impl", Doing::Forward),
        ("in __call__", Doing::Forward),
        ("from_pretrained", Doing::Loading),
        ("load_state_dict", Doing::Loading),
        ("load_model", Doing::Loading),
        ("load_weights", Doing::Loading),
        ("load_checkpoint", Doing::Loading),
        ("in create_weights", Doing::Loading),
        ("/model_loader/", Doing::Loading),
        (".to(", Doing::Loading),
        (".cuda(", Doing::Loading),
        ("in _apply", Doing::Loading),
    ];
    SIGNS
        .iter()
        .find(|(sign, _)| text.contains(sign))
        .map(|(_, doing)| *doing)
}

fn command(text: &str) -> Option<String> {
    let found = COMMAND.captures(text.trim())?;
    let is_marked = found.name("mark").is_some();
    if !is_marked && !ARGUMENT.is_match(&found["rest"]) {
        return None;
    }
    Some(fit_to_show(&found["command"])).filter(|text| !text.is_empty())
}

/// Without secrets; empty if too long to be copied.
fn fit_to_show(command: &str) -> String {
    if command.len() > LONGEST_COMMAND {
        return String::new();
    }
    SECRET.replace_all(command, "$name***").into_owned()
}
