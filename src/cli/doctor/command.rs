//! Whether a command can be watched, and how it reaches CUDA. It is looked at, never started.

use super::python::{self, Python};
use super::reach::Reach;
use super::words;
use crate::cli::run::program::{self, Program};
use oomhook_report::clean;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A command that was looked at.
#[derive(Debug, Serialize)]
pub struct Target {
    pub command: Vec<String>,
    pub path: Option<String>,
    /// The file that is loaded in the end: the interpreter of a script.
    pub image: Option<String>,
    pub watchable: bool,
    /// It only starts the work elsewhere.
    pub elsewhere: bool,
    /// Why not.
    pub problems: Vec<String>,
    pub cuda: Option<Reach>,
    pub python: Option<Python>,
}

impl Target {
    /// Looks at it.
    pub fn look(command: &[OsString]) -> Target {
        let shown = |text: &OsStr| clean::text(&text.to_string_lossy());
        let mut target = Target {
            command: command.iter().map(|word| shown(word)).collect(),
            path: None,
            image: None,
            watchable: false,
            elsewhere: false,
            problems: Vec::new(),
            cuda: None,
            python: None,
        };
        let words = through_env(command);
        let found = match program::find(&words[0]) {
            Ok(found) => found,
            Err(failure) => {
                target.problems.push(clean::text(&failure.text));
                return target;
            }
        };
        let (chain, broken) = chain_of(&found);
        let image = chain.last().unwrap_or(&found).path();
        let mut problems = found.warnings(words);
        if let (Some(inner), true) = (chain.last(), problems.is_empty()) {
            problems = inner.warnings(&[inner.path().as_os_str().to_owned()]);
        }
        if problems.is_empty() {
            problems.extend(broken);
        }
        target.problems = problems.iter().map(|text| clean::text(text)).collect();
        target.elsewhere = found.elsewhere().is_some();
        target.watchable = target.problems.is_empty();
        target.path = Some(shown(found.path().as_os_str()));
        target.image = Some(shown(image.as_os_str()));
        let is_python = |path: &Path| {
            let name = path.file_name().unwrap_or_default().as_bytes();
            name.starts_with(b"python") || name.starts_with(b"pypy")
        };
        let mut paths = chain.iter().rev().chain([&found]).map(Program::path);
        if let Some(path) = paths.find(|path| is_python(path)) {
            target.python = Some(python::ask(path));
        }
        target.cuda = Some(Reach::of(image));
        target
    }

    /// What is said of it besides its problems.
    pub fn said(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let (Some(path), Some(image)) = (&self.path, &self.image) {
            said.push(words::program(path, image, self.watchable));
        }
        if let Some(cuda) = &self.cuda {
            said.push(words::cuda(&cuda.said(self.watchable)));
        }
        if let Some(python) = &self.python {
            said.push(words::python(python));
        }
        said
    }
}

/// The command behind `env NAME=VALUE …`.
fn through_env(command: &[OsString]) -> &[OsString] {
    let name = Path::new(&command[0]).file_name().unwrap_or_default();
    if name != "env" {
        return command;
    }
    let rest = command[1..].iter().position(|word| {
        let word = word.as_bytes();
        !word.contains(&b'=') && !word.starts_with(b"-")
    });
    rest.map_or(command, |at| &command[at + 1..])
}

/// The interpreters of a script, through `env` and other scripts; the last is what the kernel loads in the end. And why that
/// will not work out.
fn chain_of(found: &Program) -> (Vec<Program>, Option<String>) {
    // The kernel follows no more than a few, either.
    const MOST: usize = 5;
    let mut chain: Vec<Program> = Vec::new();
    while chain.len() < MOST {
        let path = chain.last().unwrap_or(found).path();
        let Some(interpreter) = program::interpreter_of(path) else {
            return (chain, None);
        };
        let mut words = vec![interpreter.into_os_string()];
        if let Some(argument) = program::argument_of_interpreter(path) {
            let parts = argument.as_bytes().split(|byte| byte.is_ascii_whitespace());
            words.extend(parts.map(|part| OsString::from_vec(part.to_vec())));
        }
        let behind = through_env(&words);
        // Of an option that takes a word of its own, the word is no program.
        let mut of_env = words[..words.len() - behind.len()].iter();
        let is_plain = of_env.all(|word| !word.as_bytes().starts_with(b"-") || word == "-S");
        match program::find(&behind[0]) {
            Ok(next) => chain.push(next),
            Err(failure) if is_plain => {
                let said = words::for_script(&path.to_string_lossy(), &failure.text);
                return (chain, Some(said));
            }
            Err(_) => return (chain, None),
        }
    }
    let path = found.path().to_string_lossy();
    (chain, Some(words::script_of_scripts(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_is_seen_through() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        for (text, wanted) in [
            ("env A=1 -i python x.py", "python"),
            ("/usr/bin/env -S python3", "python3"),
            ("env", "env"),
            ("app env", "app"),
        ] {
            assert_eq!(through_env(&words(text))[0], OsStr::new(wanted), "{text}");
        }
    }
}
