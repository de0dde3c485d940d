//! What is kept of a line: text, without the escapes that colour a terminal, without secrets, of bounded length.

use super::secrets;

/// Bytes kept at most.
const LONGEST: usize = 400;
/// Stands for what was cut.
const GAP: &str = "..";

/// The text of a line; nothing for what is blank, or no text at all.
pub fn text(bytes: &[u8]) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    let whole = String::from_utf8_lossy(bytes);
    // A character that was cut in two at the end is none.
    let whole = match bytes.len() >= super::lines::LONGEST {
        true => whole.trim_end_matches('\u{fffd}'),
        false => &whole,
    };
    let plain = without_escapes(whole);
    let plain = plain.trim_end();
    if plain.trim_start().is_empty() {
        return None;
    }
    Some(shortened(&secrets::masked(plain)))
}

/// True if a line moves up to write over lines before it, as bars of several lines do.
pub fn moves_up(bytes: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    bytes.windows(2).enumerate().any(|(at, two)| {
        let rest = &bytes[at + 2..];
        let end = rest.iter().find(|byte| !is_digit(byte));
        two == b"\x1b[" && matches!(end, Some(b'A' | b'F'))
    })
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => match rest.next() {
                // Control sequences end with a letter or one of a few signs.
                Some('[') => {
                    let _ = rest.find(|c| ('\x40'..='\x7e').contains(c));
                }
                // Commands (titles, links) end with a bell or another escape.
                Some(']') => {
                    let _ = rest.find(|c| matches!(c, '\x07' | '\x1b'));
                    rest.next_if_eq(&'\\');
                }
                Some('(' | ')' | '#' | '%') => {
                    rest.next();
                }
                _ => {}
            },
            '\t' => plain.push(' '),
            // As a terminal shows it.
            '\x08' => {
                plain.pop();
            }
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - GAP.len())
        .rev()
        .find(|at| text.is_char_boundary(*at));
    format!("{}{GAP}", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_and_the_rest_is_not() {
        let kept = |bytes: &[u8]| text(bytes).unwrap_or_default();
        assert_eq!(kept(b"step 1"), "step 1");
        assert_eq!(
            kept(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07and\x1b(B so on"),
            "red and so on"
        );
        assert_eq!(kept(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
        assert_eq!(kept(b"a\tb  "), "a b");
        assert_eq!(kept(b"10\x08\x0820"), "20");
        assert_eq!(kept("größe \u{fffd}".as_bytes()), "größe \u{fffd}");
        assert_eq!(kept(b"bad \xff byte"), "bad \u{fffd} byte");
        assert_eq!(text(b"  \x1b[0m "), None);
        assert_eq!(text(b"\x00\x01\x02"), None);
        assert_eq!(text(b"\x1b"), None);
        assert_eq!(text(b"\x1b["), None);
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let long = "ä".repeat(256);
        let kept = text(long.as_bytes()).expect("text");
        assert!(kept.len() <= LONGEST && kept.ends_with("ä.."), "{kept}");
        // Cut in the middle of a character on the way.
        let kept = text(&"€".repeat(300).as_bytes()[..512]).expect("text");
        assert!(kept.ends_with("€.."), "{kept}");
    }

    #[test]
    fn bars_of_several_lines_move_up() {
        assert!(moves_up(b"\x1b[2A\x1b[2Kbar") && moves_up(b"\x1b[A"));
        assert!(!moves_up(b"\x1b[31mred A") && !moves_up(b"[2A") && !moves_up(b"\x1b["));
    }
}
