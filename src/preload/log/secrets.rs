//! Secrets in lines of output: values that are named so, or look so. What programs say of tokens they count is none.

use super::super::privacy::{self, MASK};

/// Names whose value is secret, as whole words of a name.
const NAMES: [&str; 15] = [
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
    "cookie",
    "cookies",
];

/// What stands before a private key, and before its end.
const KEY_BEGINS: &str = "PRIVATE KEY-----";
const KEY_ENDS: &str = "-----END";

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

/// A line of a private key in base64, as PEM files have them: nothing else is in it. Hashes are written in hexadecimal.
fn is_of_a_key(line: &str) -> bool {
    let line = line.trim();
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let body = line.trim_end_matches('=');
    let padding = line.len() - body.len();
    let has = |is: fn(&u8) -> bool| body.as_bytes().iter().filter(|byte| is(byte)).count();
    body.bytes().all(is_base64)
        && match padding {
            0 => line.len() >= 24 && has(u8::is_ascii_digit) >= 2,
            _ => line.len() >= 16 && line.len().is_multiple_of(4) && padding <= 2,
        }
        && has(u8::is_ascii_uppercase) > 0
        && has(u8::is_ascii_lowercase) > 0
}

/// True for a line that speaks of a service whose keys are 40 hexadecimal digits, and of no commit, which are the same.
fn may_have_a_hex_key(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    const HINTS: [&str; 5] = ["wandb", "api key", "api_key", "apikey", "api-key"];
    const HASHES: [&str; 8] = [
        "commit", "commits", "git", "sha", "sha1", "revision", "hash", "head",
    ];
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    HINTS.iter().any(|hint| lower.contains(hint)) && !words.any(|word| HASHES.contains(&word))
}

fn is_hex_key(word: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    word.len() == 40 && word.bytes().all(is_hex)
}

/// A text without what follows `passwd` or `--password` with no sign between, if it does not look like a word.
fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut follows = false;
    for part in text.split_inclusive(' ') {
        let word = part.trim_end_matches(' ');
        let is_prose = word.bytes().all(|byte| !byte.is_ascii_digit()) || is_number(word);
        match follows && !word.is_empty() && !is_prose {
            true => shown.push_str(&part.replacen(word, MASK, 1)),
            false => shown.push_str(part),
        }
        if !word.is_empty() {
            let name = word.trim_start_matches('-').to_ascii_lowercase();
            follows = matches!(&*name, "passwd" | "password" | "passphrase");
        }
    }
    shown
}

/// A text with its secrets masked.
pub fn masked(text: &str) -> String {
    if is_of_a_key(text) {
        return MASK.to_owned();
    }
    if let Some((before, rest)) = text.split_once(KEY_BEGINS) {
        let mark = before.rfind("-----").map_or("", |at| &before[at..]);
        if mark.starts_with(KEY_ENDS) {
            return before.to_owned() + KEY_BEGINS + &masked(rest);
        }
        let end = rest.find(KEY_ENDS).unwrap_or(rest.len());
        let key = match rest[..end].trim().is_empty() {
            true => &rest[..end],
            false => MASK,
        };
        return masked(before) + KEY_BEGINS + key + &masked(&rest[end..]);
    }
    let has_hex_key = may_have_a_hex_key(text);
    let named = without_passwords(&without_named(text));
    let mut shown = String::with_capacity(named.len());
    let mut rest = &named[..];
    while !rest.is_empty() {
        let is_border = |c: char| c.is_whitespace() || "\"'`=,;()[]{}<>|".contains(c);
        let end = rest.find(is_border).unwrap_or(rest.len());
        let word = &rest[..end];
        if privacy::looks_secret(word) || has_hex_key && is_hex_key(word.trim_end_matches('.')) {
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

/// Values behind `token=`, `"password":` and their like; behind `Authorization:` and `Cookie:` all that follows.
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
        let lower = name.to_ascii_lowercase();
        let is_cookie = lower.ends_with("cookie") && shown.ends_with(':');
        if lower.contains("authorization") || is_cookie {
            shown.push(' ');
            shown.push_str(MASK);
            return shown;
        }
        let (lead, length) = value_of(after);
        let value = &after[lead..lead + length];
        let is_short_token = lower.ends_with("token") && length < 8;
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
            ("Cookie: session=abc123; theme=dark", "Cookie: ***"),
            ("< Set-Cookie: id=a3fWa; Path=/", "< Set-Cookie: ***"),
            ("authorization=Bearer abc def", "authorization= ***"),
            (
                "wandb: sharing 0123456789abcdef0123456789abcdef01234567",
                "wandb: sharing ***",
            ),
            ("cookie=abc123def, n=3", "cookie=***, n=3"),
            ("login passwd hunter2 done", "login passwd *** done"),
            (
                "mysql --password s3cret -h db",
                "mysql --password *** -h db",
            ),
            (
                "wandb: Using key 0123456789abcdef0123456789abcdef01234567",
                "wandb: Using key ***",
            ),
            (
                "your API key is 0123456789abcdef0123456789abcdef01234567.",
                "your API key is ***",
            ),
            (
                "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
                "***",
            ),
            ("  dGVzdCBrZXk0NTY3ODkwMQ==", "***"),
            (
                "-----BEGIN RSA PRIVATE KEY-----",
                "-----BEGIN RSA PRIVATE KEY-----",
            ),
            ("-----END PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
            (
                "k='-----BEGIN PRIVATE KEY-----\\nMIIEvQ\\n-----END PRIVATE KEY-----'",
                "k='-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----'",
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
            "HEAD is now at 0123456789abcdef0123456789abcdef01234567",
            "0123456789abcdef0123456789abcdef01234567",
            "wandb: git commit 0123456789abcdef0123456789abcdef01234567",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "password required, the password is wrong, password 2 of 3, cookies: 3",
            "LlamaForCausalLMWithValueHead",
            "====================",
            "/usr/lib/python3",
            "http://host:80/a:b@c and https://host/",
            "",
            "=:=:",
        ] {
            assert_eq!(masked(line), line);
        }
    }
}
