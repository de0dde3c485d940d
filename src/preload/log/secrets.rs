//! Secrets in lines of output: values that are named so, or look so. What programs say of tokens they count is none.

use super::super::privacy::{self, MASK};

/// Names whose value is secret, as whole words of a name.
const NAMES: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "secret",
    "token",
    "bearer",
    "apikey",
    "credential",
    "credentials",
    "auth",
    "authorization",
];

/// Words before `key` that make it one.
const KEYS: [&str; 6] = ["api", "access", "secret", "private", "auth", "account"];

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// True if a name (`HF_TOKEN`, `api-key`) says that its value is secret.
fn names_a_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(['_', '-']).collect();
    let is_key = |two: &[&str]| KEYS.contains(&two[0]) && two[1] == "key";
    words.iter().any(|word| NAMES.contains(word)) || words.windows(2).any(is_key)
}

/// A count, a time, a rate: nobody's secret.
fn is_number(value: &str) -> bool {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || "%/".contains(c));
    let unit = value.len() - digits.len();
    unit <= 4
        && !digits.is_empty()
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || ".,+-".contains(c))
}

/// The length of the value at the beginning of a text, and of what stands before it: quotes are not part of it.
fn value_of(text: &str) -> (usize, usize) {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let inner = &rest[1..];
        return (start + 1, inner.find(quote).unwrap_or(inner.len()));
    }
    let ends = |c: char| {
        c.is_whitespace() || matches!(c, ',' | ';' | '&' | '}' | ')' | ']' | '"' | '\'' | '|')
    };
    (start, rest.find(ends).unwrap_or(rest.len()))
}

/// A text with its secrets masked.
pub fn masked(text: &str) -> String {
    let named = without_named(text);
    let mut shown = String::with_capacity(named.len());
    let mut rest = &named[..];
    while !rest.is_empty() {
        let is_border = |c: char| c.is_whitespace() || "\"'`=,;()[]{}<>|".contains(c);
        let end = rest.find(is_border).unwrap_or(rest.len());
        let word = &rest[..end];
        if privacy::looks_secret(word) {
            shown.push_str(MASK);
        } else {
            shown.push_str(&privacy::without_password(word));
        }
        let after = rest[end..].chars().next().map_or(0, char::len_utf8);
        shown.push_str(&rest[end..end + after]);
        rest = &rest[end + after..];
    }
    shown
}

/// Values behind `token=`, `"password":` and their like; behind `Authorization:` all that follows.
fn without_named(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let name = before.trim_end_matches(['"', '\'', ' ']);
        let start = name.rfind(|c| !is_part_of_name(c));
        let name = start.map_or(name, |at| {
            &name[at + name[at..].chars().next().map_or(1, char::len_utf8)..]
        });
        shown.push_str(&rest[..=at]);
        rest = after;
        if !names_a_secret(name) || after.starts_with("//") {
            continue;
        }
        if name.to_ascii_lowercase().contains("authorization") {
            shown.push(' ');
            shown.push_str(MASK);
            return shown;
        }
        let (lead, length) = value_of(after);
        let value = &after[lead..lead + length];
        let is_short_token = name.to_ascii_lowercase().ends_with("token") && length < 8;
        if value.is_empty() || is_number(value) || is_short_token {
            continue;
        }
        shown.push_str(&after[..lead]);
        shown.push_str(MASK);
        rest = &after[lead + length..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn secrets_are_masked() {
        for (line, wanted) in [
            (
                "login with token=abcdef0123456789 ok",
                "login with token=*** ok",
            ),
            ("HF_TOKEN: hf_abcdefghijklmnopqrst", "HF_TOKEN: ***"),
            ("using hf_abcdefghijklmnopqrst now", "using *** now"),
            ("key (AKIAABCDEFGHIJKLMNOP)", "key (***)"),
            (
                "{\"password\": \"a b c\", \"user\": \"me\"}",
                "{\"password\": \"***\", \"user\": \"me\"}",
            ),
            ("Authorization: Bearer abc def", "Authorization: ***"),
            (
                "db at postgres://me:pw@host/x?y",
                "db at postgres://me:***@host/x?y",
            ),
            ("api_key=k1,lr=0.1", "api_key=***,lr=0.1"),
            (
                "export AWS_SECRET_ACCESS_KEY=wJalrXUt",
                "export AWS_SECRET_ACCESS_KEY=***",
            ),
            ("Passwort: x, pwd = 'geheim'", "Passwort: x, pwd = '***'"),
        ] {
            assert_eq!(masked(line), wanted);
        }
    }

    #[test]
    fn what_programs_say_of_their_work_stays() {
        for line in [
            "step=1282 loss=2.31 seq_len=2048 tokens=4096 tokens/s: 12.3k",
            "num_token: 2048 | max_tokens=512, token: the",
            "tokenizer: LlamaTokenizerFast, author: somebody, bypass=on",
            "Epoch: [0][ 10/5005] Time 0.5 (1.2)",
            "primary_key=abc keys: 3, ==, ::, a:=b, \u{20ac}=\u{20ac}",
            "http://host:80/a:b@c and https://host/",
            "",
            "=:=:",
        ] {
            assert_eq!(masked(line), line);
        }
    }
}
