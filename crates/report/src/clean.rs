//! What other people's files say, made fit to be shown: no control characters, no length without end.

/// Longer texts are shortened. (Names of C++ templates have thousands of characters, and people want them.)
const LONGEST: usize = 4000;
/// Stands for what was cut.
const GAP: &str = "..";

/// A text without control characters and of bounded length.
#[must_use]
pub fn text(text: &str) -> String {
    let is_fine = text.len() <= LONGEST && !text.chars().any(is_unfit);
    if is_fine {
        return text.to_owned();
    }
    let mut clean = String::new();
    for c in shortened(text).chars() {
        match is_unfit(c) {
            true => clean.extend(c.escape_unicode()),
            false => clean.push(c),
        }
    }
    // What was escaped has grown.
    shortened(&clean)
}

/// What moves a terminal's cursor, changes its colours or the order of what is written.
fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A text in at most so many bytes; arguments of templates go first, then the middle.
fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let plain = crate::text::label::without_arguments(text);
    if plain.len() <= LONGEST {
        return plain;
    }
    let half = (LONGEST - GAP.len()) / 2;
    let boundary = |at: &usize| plain.is_char_boundary(*at);
    let head = (0..=half).rev().find(boundary).unwrap_or(0);
    let tail = (plain.len() - half..=plain.len()).find(boundary);
    let tail = tail.unwrap_or(plain.len());
    format!("{}{GAP}{}", &plain[..head], &plain[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fine_stays() {
        for fine in ["", "main", "größe::f(int)", "Кэш<float>::grow"] {
            assert_eq!(text(fine), fine);
        }
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(text("a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\\u{a}");
        assert_eq!(text("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn long_texts_are_shortened() {
        let long = format!("f<{}>::g", "x".repeat(10_000));
        assert_eq!(text(&long), "f<..>::g");
        let long = format!("{}é{}", "a".repeat(5000), "\x07".repeat(5000));
        let shown = text(&long);
        assert!(shown.len() <= LONGEST, "{}", shown.len());
        assert!(
            shown.starts_with("aaa") && shown.ends_with("\\u{7}"),
            "{shown}"
        );
        assert!(!shown.chars().any(char::is_control));
    }
}
