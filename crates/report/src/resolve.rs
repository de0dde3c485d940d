//! Stacks to frames and sites, each once.

use crate::attribution::{self, Owner, Role, Seen};
use crate::clean;
use crate::leaves::Leaves;
use crate::schema::{self as shown, Language};
use crate::sentences as say;
use crate::symbols::{Symbol, Symbols};
use oomhook_ledger::definitions::{Definitions, Frame};
use oomhook_trace::Header;
use oomhook_trace::record::{CallId, Code};
use oomhook_trace::{FrameId, StackId, ThreadId};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// How much of a stack is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// All of it.
    #[default]
    Whole,
    /// From the innermost frame to the site: enough for the text report, and quick.
    ToSite,
}

/// A stack with names.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The frames that were named, innermost first, inlined ones included.
    pub frames: Rc<[Rc<shown::Frame>]>,
    /// Which of them is the site.
    pub site_frame: Option<usize>,
    /// The site by its name.
    pub site: Rc<str>,
    /// The site with file and line.
    pub label: Rc<str>,
    /// The library of the site.
    pub library: Rc<str>,
    /// The innermost Python line of a person's own, else of an installed package.
    pub python_site: Option<Rc<str>>,
    /// The node of PyTorch's backward pass that asked.
    pub autograd_node: Option<Rc<str>>,
    /// The site was worked out without names.
    pub is_estimated: bool,
    /// The serving allocator that was passed over.
    pub via: Option<&'static str>,
    /// It passes through the end of the process.
    pub at_exit: bool,
}

impl Stack {
    /// What made the site ask, as far as it is told: a line of Python, or a node of the backward pass.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.python_site
            .as_deref()
            .or(self.autograd_node.as_deref())
    }
}

type Named = Rc<[(Rc<shown::Frame>, Role, bool)]>;

/// Switches PyTorch's cache off, whatever its value.
const NO_CACHE: &str = "PYTORCH_NO_CUDA_MEMORY_CACHING";

/// The search for the site, from the innermost frame outwards.
#[derive(Default)]
struct Search {
    site: Option<usize>,
    /// The first frames that are places only should there be no other: of a framework's making, and nobody's.
    making: Option<usize>,
    plumbing: Option<usize>,
    via: Option<&'static str>,
    is_over: bool,
}

impl Search {
    /// Looks at a frame; `inner` are those before it.
    fn look(&mut self, inner: &[Rc<shown::Frame>], frame: &shown::Frame, role: Role) {
        if self.is_over {
            return;
        }
        let here = Some(inner.len());
        if let Some(site) = self.site {
            // A library's frames without names lead to one of its functions that has one: that is what a person knows.
            let is_same = role == Role::Caller && inner[site].library == frame.library;
            self.is_over = !is_same || frame.function.is_some();
            if is_same && self.is_over {
                self.site = here;
            }
            return;
        }
        match role {
            // An operator that Python calls directly is its own making.
            Role::Caller if frame.language == Language::Python && self.making.is_some() => {
                self.site = self.making;
                self.is_over = true;
            }
            Role::Caller => {
                self.site = here;
                self.is_over = frame.function.is_some() || !is_library(&frame.library);
            }
            Role::Serving(name) => self.via = self.via.or(Some(name)),
            Role::Making => self.making = self.making.or(here),
            Role::Plumbing => self.plumbing = self.plumbing.or(here),
            Role::Own | Role::Driver | Role::Runtime => {}
        }
    }
}

/// Names stacks.
pub struct Resolver<'a> {
    definitions: &'a Definitions,
    symbols: &'a mut dyn Symbols,
    depth: Depth,
    frames: HashMap<FrameId, Named>,
    stacks: HashMap<StackId, Rc<Stack>>,
    /// There is a CUDA runtime in the process.
    has_runtime: bool,
    /// PyTorch's cache was switched off: it passes everything on.
    is_uncached: bool,
    /// What is passed over where there are no names; found out when the first stack is asked for.
    leaves: Option<Leaves>,
    /// Libraries where something was.
    without_names: BTreeSet<String>,
    words: HashMap<&'a str, Rc<str>>,
}

impl<'a> Resolver<'a> {
    /// A resolver for the stacks of one trace.
    pub fn new(
        definitions: &'a Definitions,
        symbols: &'a mut dyn Symbols,
        depth: Depth,
    ) -> Resolver<'a> {
        Resolver {
            definitions,
            symbols,
            depth,
            frames: HashMap::new(),
            stacks: HashMap::new(),
            has_runtime: false,
            is_uncached: false,
            leaves: None,
            without_names: BTreeSet::new(),
            words: HashMap::new(),
        }
    }

    /// With what the trace says of its process: a runtime inside a program without names can only be passed over if there
    /// is one.
    #[must_use]
    pub fn of_process(mut self, header: &Header) -> Resolver<'a> {
        const FEW: u32 = 16;
        self.has_runtime = header.process.functions_asked_for >= FEW;
        self.is_uncached = header.environment.contains_key(NO_CACHE);
        self
    }

    /// Names, libraries, threads of the trace.
    #[must_use]
    pub fn definitions(&self) -> &'a Definitions {
        self.definitions
    }

    /// What the reader should be told about the names.
    pub fn notes(&mut self) -> Vec<String> {
        let mut notes = self.symbols.notes();
        let without_names = std::mem::take(&mut self.without_names);
        notes.extend(
            without_names
                .iter()
                .map(|library| say::runtime_without_names(library)),
        );
        notes
    }

    /// A call's name.
    pub fn call(&mut self, id: CallId) -> Rc<str> {
        let name = self.definitions.call(id).unwrap_or("unknown");
        self.word(name)
    }

    /// A thread's name, if the thread is known.
    pub fn thread(&mut self, id: ThreadId) -> Option<Rc<str>> {
        let name = self.definitions.thread(id)?.name.as_str();
        Some(self.word(name))
    }

    fn word(&mut self, text: &'a str) -> Rc<str> {
        let word = self.words.entry(text);
        Rc::clone(word.or_insert_with(|| clean::text(text).into()))
    }

    /// A stack with names.
    pub fn stack(&mut self, id: StackId) -> Rc<Stack> {
        if let Some(known) = self.stacks.get(&id) {
            return Rc::clone(known);
        }
        let stack = Rc::new(self.name(id));
        self.stacks.insert(id, Rc::clone(&stack));
        stack
    }

    /// How many innermost frames lie in one library, have no names and would be somebody's.
    fn nameless(&mut self, stack: &[FrameId]) -> usize {
        let mut file = None;
        let mut count = 0;
        for id in stack {
            let library = match self.definitions.frame(*id) {
                Some(Frame::Native { library, .. }) if library != 0 => library,
                _ => break,
            };
            let named = self.frame(*id);
            let [(frame, Role::Caller, _)] = &*named else {
                break;
            };
            if *file.get_or_insert(library) != library {
                break;
            }
            if frame.function.is_some() {
                // The library's own function is known.
                return if is_library(&frame.library) { 0 } else { count };
            }
            count += 1;
        }
        count
    }

    /// The stack without what the driver itself has on it.
    fn outside_of_driver<'s>(&mut self, stack: &'s [FrameId]) -> &'s [FrameId] {
        let is_drivers = |id: &FrameId| {
            let named = self.frame(*id);
            named
                .iter()
                .all(|(_, role, _)| matches!(role, Role::Own | Role::Driver))
        };
        let length = stack.iter().copied().take_while(is_drivers).count();
        &stack[length..]
    }

    /// How many innermost frames of a stack are a runtime's without names.
    fn passed(&mut self, stack: &[FrameId]) -> usize {
        if !self.has_runtime {
            return 0;
        }
        if self.leaves.is_none() {
            let definitions = self.definitions;
            let all: Vec<&[FrameId]> = definitions
                .stacks()
                .map(|stack| self.outside_of_driver(stack))
                .collect();
            let leaves = Leaves::find(all.into_iter(), |stack| self.nameless(stack));
            self.leaves = Some(leaves);
        }
        let outside = self.outside_of_driver(stack);
        let passed = self
            .leaves
            .as_ref()
            .map_or(0, |leaves| leaves.passed(outside));
        if passed == 0 {
            return 0;
        }
        let library = self.frame(outside[0])[0].0.library.clone();
        self.without_names.insert(library);
        stack.len() - outside.len() + passed
    }

    fn name(&mut self, id: StackId) -> Stack {
        let all = self.definitions.stack(id);
        let passed = self.passed(all);
        let mut frames: Vec<Rc<shown::Frame>> = Vec::new();
        let mut search = Search::default();
        let mut at_exit = false;
        let mut autograd_node: Option<Rc<str>> = None;
        for (number, frame) in all.iter().enumerate() {
            if self.depth == Depth::ToSite && search.is_over {
                // Beyond the site only the end of the process matters, and what runs PyTorch's backward pass.
                at_exit = at_exit || self.is_libc(*frame) && self.runs_at_exit(*frame);
                if autograd_node.is_none() && self.is_torch(*frame) {
                    autograd_node = self.autograd_node(*frame);
                }
                continue;
            }
            autograd_node = autograd_node.or_else(|| self.autograd_node(*frame));
            for (frame, role, exits) in self.frame(*frame).iter() {
                at_exit |= *exits;
                let role = match role {
                    Role::Serving("libc10_cuda") if self.is_uncached => Role::Runtime,
                    role => *role,
                };
                if number >= passed {
                    search.look(&frames, frame, role);
                }
                frames.push(Rc::clone(frame));
            }
        }
        let site_frame = search.site.or(search.making).or(search.plumbing);
        let site = site_frame.map(|at| &frames[at]);
        Stack {
            site: site.map_or_else(|| "unknown".into(), |frame| frame.name().into()),
            label: site.map_or_else(|| "unknown".into(), |frame| frame.label().into()),
            library: site.map_or_else(|| "unknown".into(), |frame| self.owner(frame).into()),
            python_site: self.python_site(all).map(Into::into),
            autograd_node,
            is_estimated: passed > 0,
            via: search.via,
            at_exit,
            site_frame,
            frames: frames.into(),
        }
    }

    /// The innermost line of Python: of a file that a person wrote, else of an installed one.
    fn python_site(&mut self, stack: &[FrameId]) -> Option<String> {
        let (mut own, mut installed) = (None, None);
        for id in stack {
            let Some(Frame::Python { code, .. }) = self.definitions.frame(*id) else {
                continue;
            };
            let file = self.definitions.code(code).map_or("", |code| &code.file);
            if attribution::python_role(file) != Role::Caller {
                continue;
            }
            if !attribution::is_installed(file) {
                own = Some(*id);
                break;
            }
            installed = installed.or(Some(*id));
        }
        let named = self.frame(own.or(installed)?);
        Some(named.first()?.0.label())
    }

    /// The library that owns what a frame asks for.
    fn owner(&self, frame: &shown::Frame) -> String {
        let seen = Seen {
            path: &frame.library,
            function: frame.function.as_deref(),
        };
        match attribution::owner(seen) {
            Owner::File(file) => file.to_owned(),
            Owner::Inside(family) => format!("{family} (static)"),
            Owner::Workspace(family) => {
                let libraries = self.definitions.libraries().into_iter();
                let mut files = libraries.map(|library| attribution::file_name(&library.path));
                let file = files.find(|file| {
                    let rest = file.strip_prefix(family);
                    rest.is_some_and(|rest| rest.starts_with('.'))
                });
                file.unwrap_or(family).to_owned()
            }
        }
    }

    fn is_in(&self, id: FrameId, file: &str) -> bool {
        let library = match self.definitions.frame(id) {
            Some(Frame::Native { library, .. }) => self.definitions.library(library),
            _ => None,
        };
        library.is_some_and(|library| attribution::file_name(&library.path).starts_with(file))
    }

    fn is_libc(&self, id: FrameId) -> bool {
        self.is_in(id, "libc.so")
    }

    fn is_torch(&self, id: FrameId) -> bool {
        self.is_in(id, "libtorch")
    }

    fn autograd_node(&mut self, id: FrameId) -> Option<Rc<str>> {
        let named = self.frame(id);
        let mut functions = named.iter().filter_map(|(frame, ..)| {
            let is_native = frame.language == Language::Native;
            frame.function.as_deref().filter(|_| is_native)
        });
        functions
            .find_map(attribution::autograd_node)
            .map(Into::into)
    }

    fn runs_at_exit(&mut self, id: FrameId) -> bool {
        self.frame(id).iter().any(|(_, _, exits)| *exits)
    }

    /// A frame with names: several if functions were inlined there.
    fn frame(&mut self, id: FrameId) -> Named {
        if let Some(known) = self.frames.get(&id) {
            return Rc::clone(known);
        }
        let named: Named = match self.definitions.frame(id) {
            Some(Frame::Native { library, offset }) => {
                let library = self.definitions.library(library);
                let path = library.map_or("", |library| library.path.as_str());
                // A return address points behind its call.
                let inside = offset.saturating_sub(1);
                let mut symbols = self.symbols.resolve(library, inside);
                if symbols.is_empty() {
                    symbols.push(Symbol::default());
                }
                let build_id = library.map_or(&[][..], |library| &library.build_id);
                symbols
                    .into_iter()
                    .map(|symbol| named(path, build_id, offset, symbol))
                    .collect()
            }
            Some(Frame::Python { code, line }) => {
                [python(self.definitions.code(code), line)].into()
            }
            Some(Frame::LeftOut(frames)) => [gap(frames)].into(),
            None => [named("", &[], 0, Symbol::default())].into(),
        };
        self.frames.insert(id, Rc::clone(&named));
        named
    }
}

fn named(
    path: &str,
    build_id: &[u8],
    offset: u64,
    symbol: Symbol,
) -> (Rc<shown::Frame>, Role, bool) {
    let seen = Seen {
        path,
        function: symbol.function.as_deref(),
    };
    let role = attribution::role(seen);
    let exits = attribution::runs_at_exit(seen);
    let library = match attribution::file_name(path) {
        // Code that lies in no file has a name if whoever made it left a map.
        "" if symbol.function.is_some() => MADE_AT_RUN_TIME.to_owned(),
        "" => "unknown".to_owned(),
        file => clean::text(file),
    };
    let is_nameless = symbol.function.is_none() && symbol.file.is_none();
    let build_id = (is_nameless && !build_id.is_empty()).then(|| digits(build_id));
    // What a file says of itself is shown from here on.
    let frame = shown::Frame {
        library,
        function: symbol.function.as_deref().map(clean::text),
        file: symbol.file.as_deref().map(clean::text),
        line: symbol.line.filter(|line| *line > 0),
        offset,
        language: Language::Native,
        build_id,
    };
    (Rc::new(frame), role, exits)
}

/// Library of code that a compiler made while the process ran.
const MADE_AT_RUN_TIME: &str = "[jit]";

/// True for shared libraries; a program's exported functions may be far outside of what asked.
fn is_library(file: &str) -> bool {
    file.contains(".so")
}

/// What Python frames have for a library.
const PYTHON: &str = "python";

fn python(code: Option<&Code>, line: u32) -> (Rc<shown::Frame>, Role, bool) {
    let frame = Rc::new(shown::Frame {
        library: PYTHON.into(),
        function: code.map(|code| clean::text(&code.name)),
        file: code.map(|code| clean::text(&code.file)),
        line: Some(line).filter(|line| *line > 0),
        offset: 0,
        build_id: None,
        language: Language::Python,
    });
    let role = attribution::python_role(code.map_or("", |code| &code.file));
    (frame, role, false)
}

/// Stands for frames that were left out; nobody's place.
fn gap(frames: u64) -> (Rc<shown::Frame>, Role, bool) {
    // Native ones at the outer end, not counted.
    let is_native = frames == 0;
    let frame = shown::Frame {
        library: if is_native { "unknown" } else { PYTHON }.into(),
        function: Some(say::left_out(frames)),
        file: None,
        line: None,
        offset: 0,
        build_id: None,
        language: if is_native {
            Language::Native
        } else {
            Language::Python
        },
    };
    (Rc::new(frame), Role::Own, false)
}

fn digits(build_id: &[u8]) -> Rc<str> {
    let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.into()
}
