//! A site in so many columns: file and line are never cut, long names are shortened in the middle.

use crate::schema::{Frame, Site};
use crate::sentences as say;
use std::rc::Rc;

/// Stands for what was cut.
const GAP: &str = "..";
/// A name shorter than this says nothing.
const SHORTEST: usize = 10;
/// Digits of a build-id that tell one from another.
const SHORT_BUILD_ID: usize = 12;

/// Columns that a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Shortens a text in the middle; its end says more than its beginning.
#[must_use]
pub fn shorten(text: &str, columns: usize) -> String {
    let length = width(text);
    if length <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(GAP.len());
    let head = kept * 2 / 5;
    let tail = kept - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}{GAP}{end}")
}

/// A function's name in at most so many columns: template arguments go first, then the outer scopes, then the middle.
#[must_use]
pub fn name(function: &str, columns: usize) -> String {
    if width(function) <= columns {
        return function.to_owned();
    }
    let plain = without_arguments(function);
    if width(&plain) <= columns {
        return plain;
    }
    let scopes = plain.match_indices("::").map(|(at, _)| &plain[at + 2..]);
    for inner in scopes {
        if width(inner) + GAP.len() <= columns {
            return format!("{GAP}{inner}");
        }
    }
    shorten(plain.rsplit("::").next().unwrap_or(&plain), columns)
}

/// `Cache<float, 16>::grow` is `Cache<..>::grow`.
#[must_use]
pub fn without_arguments(function: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for (at, c) in function.char_indices() {
        match c {
            // Neither an operator nor the `<T as Trait>` of Rust.
            '<' if at > 0 && !function[..at].ends_with("operator") => {
                depth += 1;
                if depth == 1 {
                    text.push_str("<..");
                }
            }
            '>' if depth > 0 => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            text.push(c);
        }
    }
    text
}

/// Shortens a text at its end.
#[must_use]
pub fn clip(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let start: String = text
        .chars()
        .take(columns.saturating_sub(GAP.len()))
        .collect();
    format!("{start}{GAP}")
}

/// What a text has that the others have not, between what all of them begin and end with; whole words of it.
#[must_use]
pub fn difference(text: &str, others: &[&str]) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut start, mut end) = (chars.len(), chars.len());
    for other in others.iter().filter(|other| **other != text) {
        let other: Vec<char> = other.chars().collect();
        let same = |(a, b): &(&char, &char)| a == b;
        start = start.min(chars.iter().zip(&other).take_while(same).count());
        let backwards = chars.iter().rev().zip(other.iter().rev());
        end = end.min(backwards.take_while(same).count());
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while start > 0 && start < chars.len() && is_word(chars[start - 1]) {
        start -= 1;
    }
    let mut stop = chars.len().saturating_sub(end).max(start);
    while stop < chars.len() && is_word(chars[stop]) {
        stop += 1;
    }
    chars[start..stop].iter().collect()
}

/// A frame in at most so many columns, as long as its place fits.
#[must_use]
pub fn frame(frame: &Frame, columns: usize) -> String {
    let whole = frame.label();
    if width(&whole) <= columns {
        return whole;
    }
    let place = frame.place();
    let Some(bare) = frame.bare_function() else {
        return place.unwrap_or(whole);
    };
    let Some(place) = place else {
        return name(bare, columns);
    };
    let left = columns.saturating_sub(width(&place) + 1);
    if width(bare) <= left {
        format!("{place} {bare}")
    } else if left >= SHORTEST {
        format!("{place} {}", name(bare, left))
    } else {
        place
    }
}

/// Stands between a site and the Python line that led to it.
const FROM: &str = " < ";

/// A site with the Python line that led to it, if that is another frame, in at most so many columns. The line is what a
/// person knows best: it is the last to be shortened, and its place is never cut.
#[must_use]
pub fn with_origin(
    stack: &Rc<[Rc<Frame>]>,
    site_frame: Option<usize>,
    site: &str,
    python: Option<&str>,
    columns: usize,
) -> String {
    let Some(python) = python.filter(|python| *python != site) else {
        return of_stack(stack, site_frame, site, columns);
    };
    let found = site_frame.and_then(|at| stack.get(at));
    let nameless = found.filter(|frame| frame.function.is_none());
    // An offset into a library tells nobody anything beside a line of the script.
    let whole = match nameless.map(|frame| &frame.library) {
        Some(library) => library.to_owned(),
        None => of_stack(stack, site_frame, site, usize::MAX),
    };
    let function = found.and_then(|frame| frame.bare_function());
    let function = function.unwrap_or(&whole);
    let place = python.split(' ').next().unwrap_or(python);
    let room = |line: &str| columns.saturating_sub(width(line) + FROM.len());
    for line in [python, place] {
        for text in [&whole, function] {
            if width(text) <= room(line) {
                return format!("{text}{FROM}{line}");
            }
        }
        if room(line) >= SHORTEST {
            return format!("{}{FROM}{line}", name(function, room(line)));
        }
    }
    of_stack(stack, site_frame, site, columns)
}

/// A frame of a stack that is shown whole: without a name it says of which build it is.
#[must_use]
pub fn stack_frame(one: &Frame, columns: usize) -> String {
    let label = frame(one, columns);
    let Some(build_id) = one.build_id.as_deref() else {
        return label;
    };
    let with = |digits: &str| format!("{label} {}", say::build_id(digits));
    let whole = with(build_id);
    if width(&whole) <= columns {
        return whole;
    }
    let short = with(&format!(
        "{}{GAP}",
        &build_id[..build_id.len().min(SHORT_BUILD_ID)]
    ));
    if width(&short) <= columns {
        short
    } else {
        label
    }
}

/// The site of a stack in at most so many columns.
#[must_use]
pub fn of_stack(
    stack: &Rc<[Rc<Frame>]>,
    site_frame: Option<usize>,
    site: &str,
    columns: usize,
) -> String {
    match site_frame.and_then(|at| stack.get(at)) {
        Some(found) => frame(found, columns),
        None => shorten(site, columns),
    }
}

/// A site with what else helps to find it: what tells it from others (if anything must), space, library, serving
/// allocator.
#[must_use]
pub fn site(site: &Site, columns: usize, tell: Option<&str>) -> String {
    let in_columns = |columns| {
        let origin = site.origin();
        with_origin(&site.stack, site.site_frame, &site.label, origin, columns)
    };
    let whole = in_columns(usize::MAX);
    let alone = in_columns(columns);
    let has_line = site.origin().is_some_and(|origin| *origin != *site.label);
    for additions in additions(site, &whole, tell) {
        let left = columns.saturating_sub(width(&additions));
        let label = in_columns(left);
        // Library and allocator are told only where they cost nothing of the Python line.
        let is_extra = additions.contains(&*site.library) || additions.contains("via ");
        if has_line && is_extra && label != alone {
            continue;
        }
        // An addition may shorten a name, but not to nothing.
        if width(&label) <= left && (left >= 24 || label == whole) {
            return format!("{label}{additions}");
        }
    }
    in_columns(columns)
}

/// What may stand behind a label, the most telling choice first.
fn additions(site: &Site, label: &str, tell: Option<&str>) -> Vec<String> {
    let tell = tell.map(str::to_owned);
    let space = (site.space != "device").then(|| site.space.to_owned());
    let outside = site.library.contains(".so") || site.library.contains(' ');
    let library = (outside && !label.starts_with(&*site.library)).then(|| site.library.to_string());
    // Of a cache's own blocks that is said by the table.
    let via = site.via.filter(|_| &*site.call != crate::cache::CALL);
    let via = via.map(|via| format!("via {via}"));
    let choices = [
        vec![tell.clone(), space.clone(), library.clone(), via.clone()],
        vec![tell.clone(), space.clone(), via.clone()],
        vec![tell.clone(), space.clone(), library],
        vec![tell.clone(), space],
        vec![tell],
    ];
    let mut texts: Vec<String> = choices
        .into_iter()
        .map(|parts| {
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            if parts.is_empty() {
                String::new()
            } else {
                format!(" [{}]", parts.join(", "))
            }
        })
        .collect();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Language;

    fn named(function: &str, file: Option<&str>) -> Frame {
        Frame {
            function: Some(function.into()),
            file: file.map(str::to_owned),
            line: file.map(|_| 1024),
            library: "app".into(),
            offset: 16,
            language: Language::Native,
            build_id: None,
        }
    }

    #[test]
    fn long_names_are_cut_in_the_middle_and_places_never() {
        let long =
            "void very::deep::space::Container<float, 16>::allocate_everything(unsigned long)";
        let found = named(long, Some("/src/app/container.cpp"));
        let whole =
            "container.cpp:1024 very::deep::space::Container<float, 16>::allocate_everything";
        assert_eq!(frame(&found, 200), whole);
        assert_eq!(
            frame(&found, 75),
            "container.cpp:1024 very::deep::space::Container<..>::allocate_everything"
        );
        assert_eq!(
            frame(&found, 60),
            "container.cpp:1024 ..Container<..>::allocate_everything"
        );
        assert_eq!(frame(&found, 36), "container.cpp:1024 alloca..verything");
        assert_eq!(frame(&found, 20), "container.cpp:1024");
        assert_eq!(frame(&found, 4), "container.cpp:1024");
        let nameless = named("abcdefghijklmnopqrstuvwxyz", None);
        assert_eq!(frame(&nameless, 12), "abcd..uvwxyz");
        assert_eq!(width(&frame(&nameless, 12)), 12);
    }

    #[test]
    fn the_python_line_is_shortened_last() {
        let python = "train.py:88 Trainer.step";
        let shown = |function: &str, file: Option<&str>, columns: usize| {
            let frame = Rc::new(named(function, file));
            let label = frame.label();
            with_origin(&[frame].into(), Some(0), &label, Some(python), columns)
        };
        let alloc = |columns| {
            shown(
                "at::native::empty_cuda(long)",
                Some("/b/Empty.cpp"),
                columns,
            )
        };
        assert_eq!(
            alloc(80),
            "Empty.cpp:1024 at::native::empty_cuda < train.py:88 Trainer.step"
        );
        assert_eq!(
            alloc(60),
            "at::native::empty_cuda < train.py:88 Trainer.step"
        );
        assert_eq!(alloc(40), "..empty_cuda < train.py:88 Trainer.step");
        assert_eq!(alloc(37), "empty_cuda < train.py:88 Trainer.step");
        assert_eq!(alloc(36), "at::native::empty_cuda < train.py:88");
        assert_eq!(alloc(28), "..empty_cuda < train.py:88");
        // Where there is no room for both, the site it is, as ever.
        assert_eq!(alloc(20), "Empty.cpp:1024");
        // The site may be that line itself.
        let line = Rc::new(Frame {
            language: Language::Python,
            ..named("step.<locals>.<lambda>", Some("/w/train.py"))
        });
        let label = line.label();
        assert_eq!(label, "train.py:1024 step.<locals>.<lambda>");
        assert_eq!(
            with_origin(&[line].into(), Some(0), &label, Some(&label), 80),
            label
        );
    }

    #[test]
    fn a_frame_without_a_name_says_of_which_build_it_is() {
        let mut nameless = named("f", None);
        nameless.function = None;
        assert_eq!(stack_frame(&nameless, 80), "app+0x10");
        nameless.build_id = Some("0123456789abcdef0123456789abcdef01234567".into());
        let whole = "app+0x10 (build-id 0123456789abcdef0123456789abcdef01234567)";
        assert_eq!(stack_frame(&nameless, 60), whole);
        let short = "app+0x10 (build-id 0123456789ab..)";
        assert_eq!(stack_frame(&nameless, 59), short);
        assert_eq!(stack_frame(&nameless, 34), short);
        assert_eq!(stack_frame(&nameless, 33), "app+0x10");
        // In a table there is no room for it.
        assert_eq!(frame(&nameless, 80), "app+0x10");
    }

    #[test]
    fn what_differs_is_found_in_whole_words() {
        let names = ["f<float, 16>::g", "f<double, 16>::g", "f<float, 32>::g"];
        assert_eq!(difference(names[0], &names[..2]), "float");
        assert_eq!(difference(names[0], &names), "float, 16");
        assert_eq!(difference("pool1.c", &["pool1.c", "pool2.c"]), "pool1");
    }
}
