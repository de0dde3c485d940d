//! Leaks to leave out, written as LeakSanitizer has them: `leak:pattern` lines.
//!
//! A pattern matches anywhere in a function's name, a source file or a library of the stack; `*` stands for anything,
//! `^` and `$` hold it to the beginning and the end. `#` opens a comment.

use crate::schema::Frame;
use std::rc::Rc;

/// The patterns of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressions {
    patterns: Vec<String>,
}

impl Suppressions {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// In words, with the line's number, when a line is no `leak:pattern`.
    pub fn parse(text: &str) -> Result<Suppressions, String> {
        let mut patterns = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pattern = line.strip_prefix("leak:").map(str::trim);
            let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
                return Err(format!(
                    "line {number}: `{line}` is no suppression: write leak:pattern"
                ));
            };
            patterns.push(pattern.to_owned());
        }
        Ok(Suppressions { patterns })
    }

    /// True if there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// True if a frame of this stack is meant.
    #[must_use]
    pub fn cover(&self, stack: &[Rc<Frame>]) -> bool {
        self.patterns.iter().any(|pattern| {
            stack.iter().any(|frame| {
                let function = frame.function.as_deref();
                let file = frame.file.as_deref();
                let texts = [function, file, Some(frame.library.as_str())];
                texts
                    .into_iter()
                    .flatten()
                    .any(|text| matches(pattern, text))
            })
        })
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, at_start) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, at_end) = match pattern.strip_suffix('$') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let pieces: Vec<&str> = pattern.split('*').collect();
    let Some((last, before)) = pieces.split_last() else {
        return true;
    };
    let mut rest = text;
    for (at, piece) in before.iter().enumerate() {
        let found = if at == 0 && at_start {
            rest.starts_with(piece).then_some(0)
        } else {
            rest.find(piece)
        };
        let Some(found) = found else { return false };
        rest = &rest[found + piece.len()..];
    }
    match (at_start && before.is_empty(), at_end) {
        (true, true) => rest == *last,
        (true, false) => rest.starts_with(last),
        (false, true) => rest.ends_with(last),
        (false, false) => rest.contains(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_leak_sanitizer_has_it() {
        let yes = [
            ("cublas", "cublasCreate_v2"),
            ("Create", "cublasCreate_v2"),
            ("^cublas*v2$", "cublasCreate_v2"),
            ("cu*Cre*2", "cublasCreate_v2"),
            ("^cublasCreate_v2$", "cublasCreate_v2"),
            ("*", "anything"),
            ("v2$", "cublasCreate_v2"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        let no = [
            ("^Create", "cublasCreate_v2"),
            ("Create$", "cublasCreate_v2"),
            ("^cublasCreate$", "cublasCreate_v2"),
            ("cu*xx*2", "cublasCreate_v2"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn comments_are_skipped_and_nonsense_is_named() {
        let read = Suppressions::parse("# ours\n\nleak:libfoo.so\n  leak: ^main$ \n");
        assert_eq!(
            read.map(|read| read.patterns),
            Ok(vec!["libfoo.so".into(), "^main$".into()])
        );
        let wrong = Suppressions::parse("leak:a\nrace:b\n");
        assert_eq!(
            wrong,
            Err("line 2: `race:b` is no suppression: write leak:pattern".to_owned())
        );
    }
}
