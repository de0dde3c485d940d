//! Stacks to frames and sites, each once.

use crate::attribution::{self, Role, Seen};
use crate::clean;
use crate::schema::{Frame, Language};
use crate::symbols::{Symbol, Symbols};
use oomhook_ledger::definitions::Definitions;
use oomhook_trace::record::CallId;
use oomhook_trace::{FrameId, StackId, ThreadId};
use std::collections::HashMap;
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
    pub frames: Rc<[Rc<Frame>]>,
    /// Which of them is the site.
    pub site_frame: Option<usize>,
    /// The site by its name.
    pub site: Rc<str>,
    /// The site with file and line.
    pub label: Rc<str>,
    /// The library of the site.
    pub library: Rc<str>,
    /// The serving allocator that was passed over.
    pub via: Option<&'static str>,
    /// It passes through the end of the process.
    pub at_exit: bool,
}

type Named = Rc<[(Rc<Frame>, Role, bool)]>;

/// Names stacks.
pub struct Resolver<'a> {
    definitions: &'a Definitions,
    symbols: &'a mut dyn Symbols,
    depth: Depth,
    frames: HashMap<FrameId, Named>,
    stacks: HashMap<StackId, Rc<Stack>>,
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
            words: HashMap::new(),
        }
    }

    /// Names, libraries, threads of the trace.
    #[must_use]
    pub fn definitions(&self) -> &'a Definitions {
        self.definitions
    }

    /// What the reader should be told about the names.
    pub fn notes(&mut self) -> Vec<String> {
        self.symbols.notes()
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

    fn name(&mut self, id: StackId) -> Stack {
        let mut frames = Vec::new();
        let mut site_frame = None;
        let mut plumbing = None;
        let mut via = None;
        let mut at_exit = false;
        for frame in self.definitions.stack(id) {
            if self.depth == Depth::ToSite && site_frame.is_some() {
                // Beyond the site only the end of the process matters.
                at_exit = at_exit || self.is_libc(*frame) && self.runs_at_exit(*frame);
                continue;
            }
            for (frame, role, exits) in self.frame(*frame).iter() {
                at_exit |= *exits;
                if site_frame.is_none() {
                    match role {
                        Role::Caller => site_frame = Some(frames.len()),
                        Role::Serving(name) => via = via.or(Some(*name)),
                        Role::Plumbing => plumbing = plumbing.or(Some(frames.len())),
                        Role::Own | Role::Driver | Role::Runtime => {}
                    }
                }
                frames.push(Rc::clone(frame));
            }
        }
        let site_frame = site_frame.or(plumbing);
        let site = site_frame.map(|at: usize| &frames[at]);
        Stack {
            site: site.map_or_else(|| "unknown".into(), |frame| frame.name().into()),
            label: site.map_or_else(|| "unknown".into(), |frame| frame.label().into()),
            library: site.map_or_else(|| "unknown".into(), |frame| library_of(frame).into()),
            via,
            at_exit,
            site_frame,
            frames: frames.into(),
        }
    }

    fn is_libc(&self, id: FrameId) -> bool {
        let frame = self.definitions.frame(id);
        let library = frame.and_then(|frame| self.definitions.library(frame.library));
        library.is_some_and(|library| attribution::file_name(&library.path).starts_with("libc.so"))
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
            Some(frame) => {
                let library = self.definitions.library(frame.library);
                let path = library.map_or("", |library| library.path.as_str());
                // A return address points behind its call.
                let inside = frame.offset.saturating_sub(1);
                let mut symbols = self.symbols.resolve(library, inside);
                if symbols.is_empty() {
                    symbols.push(Symbol::default());
                }
                let build_id = library.map_or(&[][..], |library| &library.build_id);
                symbols
                    .into_iter()
                    .map(|symbol| named(path, build_id, frame.offset, symbol))
                    .collect()
            }
            None => [named("", &[], 0, Symbol::default())].into(),
        };
        self.frames.insert(id, Rc::clone(&named));
        named
    }
}

fn named(path: &str, build_id: &[u8], offset: u64, symbol: Symbol) -> (Rc<Frame>, Role, bool) {
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
    let frame = Frame {
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

fn digits(build_id: &[u8]) -> Rc<str> {
    let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.into()
}

fn library_of(frame: &Frame) -> String {
    let seen = Seen {
        path: &frame.library,
        function: frame.function.as_deref(),
    };
    attribution::library_name(seen).to_owned()
}
