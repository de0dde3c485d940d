//! The JSON's keys on sites, stacks and leaks.

use crate::roles::Role;
use oomhook_ledger::shapes::Shape;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Blocks of one site, stack, space and device.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// The place a person can change: a function, else `file:line`, else `library+0xoffset`.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// The serving allocator in between.
    pub via: Option<&'static str>,
    /// Space.
    pub space: &'static str,
    /// Device.
    pub device: Option<u32>,
    /// Bytes handed out.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// The bytes are computed, not told by the driver.
    pub estimated: bool,
    /// Blocks.
    pub blocks: u64,
    /// Blocks that ever came from here.
    pub allocs: u64,
    /// The thread that made most of it.
    pub thread: Option<Rc<str>>,
    /// Phase.
    pub phase: Option<String>,
    /// The call that made most of it.
    pub call: Rc<str>,
    /// Which frame of `stack` is the site.
    pub site_frame: Option<usize>,
    /// The innermost Python line of a person's own, else of an installed package: `train.py:88 step`.
    pub python_site: Option<Rc<str>>,
    /// The node of PyTorch's backward pass that asked: `AddmmBackward0`.
    pub autograd_node: Option<Rc<str>>,
    /// What it is for, of a framework's cache: an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How its live bytes went over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Its stack's number in the trace.
    #[serde(skip)]
    pub stack_id: oomhook_trace::StackId,
    /// Its stack passes through the end of the process.
    #[serde(skip)]
    pub at_exit: bool,
    /// Which frame is the site was worked out without names: the runtime inside the program has none.
    pub site_estimated: bool,
    /// Innermost first.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
}

impl Site {
    /// What made the site ask, as far as it is told: a line of Python, or a node of the backward pass.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.python_site
            .as_deref()
            .or(self.autograd_node.as_deref())
    }
}

/// A leak.
#[derive(Clone, Debug, Serialize)]
pub struct Leak {
    /// Where it comes from.
    #[serde(flatten)]
    pub site: Site,
    /// What kind it is.
    pub class: LeakClass,
}

/// What kind of leak it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakClass {
    /// It grows as the process goes on.
    Growing,
    /// It came once.
    OneTime,
    /// A framework's cache holds it.
    Cached,
    /// It was made while the process was ending.
    DuringExit,
    /// The driver keeps it for graphs.
    Retained,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Function.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
    /// File name of the library.
    pub library: String,
    /// Return address, as an ELF address of the library.
    pub offset: u64,
    /// Language.
    pub language: Language,
    /// Build-id of the library, if the frame has no name: what to look for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<Rc<str>>,
}

/// Language of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Machine code.
    Native,
    /// Python.
    Python,
}

impl Frame {
    /// `leak.cpp:14 main`, `main`, or `libfoo.so+0x1234`: as much as is known, without parameters.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.place(), self.bare_function()) {
            (Some(place), Some(function)) => format!("{place} {function}"),
            (Some(place), None) => place,
            (None, Some(function)) => function.to_owned(),
            (None, None) if self.language == Language::Python => self.library.clone(),
            (None, None) => format!("{}+{:#x}", self.library, self.offset),
        }
    }

    /// The label with everything that belongs to the function's name: arguments of templates, parameters.
    #[must_use]
    pub fn full_label(&self) -> String {
        match (self.place(), self.function.as_deref()) {
            (Some(place), Some(function)) => format!("{place} {function}"),
            (None, Some(function)) => function.to_owned(),
            (_, None) => self.label(),
        }
    }

    /// The function, else the place, else library and offset.
    #[must_use]
    pub fn name(&self) -> String {
        match self.bare_function() {
            Some(function) => function.to_owned(),
            None => self.label(),
        }
    }

    /// The function without return type, parameters and arguments of a template, which Python's names have not.
    #[must_use]
    pub fn bare_function(&self) -> Option<&str> {
        let function = self.function.as_deref()?;
        Some(match self.language {
            // Names of code made at run time are in a language of their own; a gap is none.
            Language::Native if self.library != "[jit]" && !function.starts_with("... ") => {
                crate::attribution::bare_name(function)
            }
            Language::Native | Language::Python => function,
        })
    }

    /// `leak.cpp:14`.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let file = crate::attribution::file_name(self.file.as_deref()?);
        Some(match self.line {
            Some(line) => format!("{file}:{line}"),
            None => file.to_owned(),
        })
    }
}

/// A site, as texts need it.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Name.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// The line of Python, or the node of the backward pass, that led there.
    #[serde(skip)]
    pub origin: Option<Rc<str>>,
    /// Its stack.
    #[serde(skip)]
    pub stack: Rc<[Rc<Frame>]>,
    /// Which frame of `stack` is the site.
    #[serde(skip)]
    pub site_frame: Option<usize>,
}

impl Place {
    /// True for the same site, reached by the same line of a program.
    #[must_use]
    pub fn is_same(&self, other: &Place) -> bool {
        (&self.label, &self.library, &self.origin) == (&other.label, &other.library, &other.origin)
    }

    /// The line that a person can change, if it is known: one of Python's before one of a library.
    #[must_use]
    pub fn line(&self) -> &Rc<str> {
        self.origin.as_ref().unwrap_or(&self.label)
    }
}

/// Bytes and blocks of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// What went without being freed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Released {
    /// With the reset of a device.
    pub by_reset: BTreeMap<&'static str, Gone>,
    /// With a destroyed context.
    pub by_context_destroy: BTreeMap<&'static str, Gone>,
}

/// A stack, as a list.
pub(super) fn frames<S: Serializer>(stack: &Rc<[Rc<Frame>]>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(stack.iter().map(|frame| &**frame))
}
