//! Keys and numbers of a line of a training log: `step=12 loss=0.3`, `{'loss': 2.1}`, `Epoch 3 | loss 0.4`,
//! `consumed samples: 1600`.
//!
//! Written by hand, since there are no patterns in the library. Times, dates, versions and addresses are no numbers, and a
//! number without a name is none of ours.

/// Keys kept of a line.
const MOST_KEYS: usize = 24;
/// Longest key and longest number.
const LONGEST_KEY: usize = 48;
const LONGEST_NUMBER: usize = 24;
/// Words that make a key before `:`.
const MOST_WORDS: usize = 6;

/// A key and its number, as it was written.
pub type Pair = (String, String);

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Words that may become a key.
    words: Vec<&'a str>,
    /// What followed them: `=` or `:`, and whether there was a space behind.
    sign: Option<(u8, bool)>,
    found: Vec<Pair>,
}

/// The keys of a line with their numbers, in order; of a key that comes twice the first.
#[must_use]
pub fn read(text: &str) -> Vec<Pair> {
    let mut reader = Reader {
        text,
        at: 0,
        words: Vec::new(),
        sign: None,
        found: Vec::new(),
    };
    while let Some(c) = reader.text[reader.at..].chars().next() {
        if reader.found.len() >= MOST_KEYS {
            break;
        }
        reader.step(c);
    }
    reader.found
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@')
}

impl<'a> Reader<'a> {
    fn forget(&mut self) {
        self.words.clear();
        self.sign = None;
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn step(&mut self, c: char) {
        let next = self.byte(self.at + 1);
        match c {
            '0'..='9' => return self.number(),
            '+' | '-' | '.' if next.is_ascii_digit() || c == '-' && next == b'.' => {
                return self.number();
            }
            '-' if self.text[self.at + 1..].starts_with("inf") => return self.word(),
            ':' | '=' if self.words.is_empty() => {}
            ':' if next == b':' => {
                self.forget();
                self.at += 1;
            }
            ':' | '=' => self.sign = Some((c as u8, next == b' ')),
            '(' if !self.words.is_empty() && self.sign.is_none() => {
                // A unit: `time per iteration (ms): 812`.
                let rest = &self.text[self.at + 1..];
                match rest.find(')') {
                    Some(end) if rest[..end].chars().all(is_in_unit) => self.at += end + 1,
                    _ => self.forget(),
                }
            }
            // `Epoch: [3]`, `"loss": "0.3"`.
            '[' | '(' if self.sign.is_some() => {}
            '"' | '\'' | ' ' | '\t' => {}
            c if c.is_alphabetic() || c == '_' => return self.word(),
            _ => self.forget(),
        }
        self.at += c.len_utf8();
    }

    fn word(&mut self) {
        let rest = &self.text[self.at..];
        let end = rest.char_indices().find(|(at, c)| {
            // In a name `/` and `.` stand between letters.
            !(is_in_word(*c) || *at == 0 && *c == '-')
        });
        let end = end.map_or(rest.len(), |(at, _)| at);
        let word = rest[..end].trim_end_matches(['.', '-', '/']);
        self.at += end;
        match self.sign {
            Some(_) if matches!(word.to_ascii_lowercase().as_str(), "nan" | "inf" | "-inf") => {
                self.give(word.to_ascii_lowercase());
            }
            // `mode=train`: a value that is no number. Behind `INFO: ` there may be keys.
            Some((sign, has_space)) if sign == b'=' || !has_space => self.forget(),
            Some(_) => {
                self.forget();
                self.words.push(word);
            }
            None => self.words.push(word),
        }
    }

    fn number(&mut self) {
        let (number, end) = number(&self.text[self.at..]);
        self.at += end;
        match number {
            Some(number) if !self.words.is_empty() => self.give(number),
            _ => self.forget(),
        }
    }

    /// The words before are the key of this number.
    fn give(&mut self, number: String) {
        let words = &self.words[self.words.len().saturating_sub(MOST_WORDS)..];
        let is_known = |key: &str| self.found.iter().any(|(known, _)| known == key);
        let key = match (self.sign, words) {
            // `train.py:88` is a place.
            (Some((b':', false)), [.., last]) if last.contains('.') => String::new(),
            (Some((b':', _)), words) => words.join(" "),
            // `train loss 0.3, val loss 0.4`.
            (None, [.., before, last]) if is_known(last) => format!("{before} {last}"),
            (_, [.., last]) => (*last).to_owned(),
            (_, []) => String::new(),
        };
        let is_new = !is_known(&key) && !key.is_empty();
        if is_new && key.len() <= LONGEST_KEY && number.len() <= LONGEST_NUMBER {
            self.found.push((key, number));
        }
        self.forget();
    }
}

fn is_in_unit(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '/' | '%' | ' ')
}

fn digits(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or(&[]);
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The number at the beginning of a text, and the length of what belongs to it: unit, and the whole of which it is a part
/// (`100/5000`). `None` for what only begins like a number.
fn number(text: &str) -> (Option<String>, usize) {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut at = usize::from(matches!(byte(0), b'+' | b'-'));
    let mut is_whole = true;
    at += digits(bytes, at);
    // Thousands: 1,234,567.
    while byte(at) == b',' && digits(bytes, at + 1) == 3 {
        at += 4;
    }
    if byte(at) == b'.' && digits(bytes, at + 1) > 0 {
        at += 1 + digits(bytes, at + 1);
        is_whole = false;
    }
    let sign = usize::from(matches!(byte(at + 1), b'+' | b'-'));
    if matches!(byte(at), b'e' | b'E') && digits(bytes, at + 1 + sign) > 0 {
        at += 1 + sign + digits(bytes, at + 1 + sign);
        is_whole = false;
    }
    let plain = text[..at].strip_prefix('+').unwrap_or(&text[..at]);
    let number = plain.replace(',', "");
    let is_hex = byte(at) == b'x' && byte(at + 1).is_ascii_hexdigit();
    let unit = text[at..].find(|c: char| !(c.is_alphabetic() || c == '%'));
    at += unit.unwrap_or(text.len() - at);
    // A date, a time of day, a version, an address: more follows.
    let goes_on =
        matches!(byte(at), b'.' | b':' | b'-' | b'_') && byte(at + 1).is_ascii_alphanumeric();
    if goes_on || is_hex || byte(at).is_ascii_digit() {
        let end = text.find(|c: char| !(is_in_word(c) || c == ':'));
        return (None, end.unwrap_or(text.len()).max(1));
    }
    // Of a whole: `10/ 5005`.
    if is_whole && byte(at) == b'/' {
        let rest = &bytes[at + 1..];
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        let whole = digits(rest, spaces);
        if whole > 0 {
            at += 1 + spaces + whole;
        }
    }
    // A rate: `9.9it/s`.
    if byte(at) == b'/' {
        let unit = text[at + 1..].find(|c: char| !c.is_alphabetic());
        at += 1 + unit.unwrap_or(text.len() - at - 1);
    }
    (Some(number), at.max(1))
}

/// True for the keys by which training counts.
#[must_use]
pub fn is_counter(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let last = lower.rsplit([' ', '/', '.']).next().unwrap_or(&lower);
    let ends = [
        "step",
        "steps",
        "iter",
        "iters",
        "iteration",
        "iterations",
        "epoch",
        "batch",
        "updates",
    ];
    matches!(last, "it" | "itr" | "update" | "batch_idx")
        || ends.iter().any(|end| {
            last == *end || last.ends_with(end) && last[..last.len() - end.len()].ends_with('_')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> String {
        let pairs = read(text).into_iter();
        let pairs: Vec<String> = pairs
            .map(|(key, number)| format!("{key}={number}"))
            .collect();
        pairs.join("; ")
    }

    #[test]
    fn what_training_programs_print() {
        for (line, wanted) in [
            (
                "step=1282 loss=2.31 seq_len=2048",
                "step=1282; loss=2.31; seq_len=2048",
            ),
            (
                "Epoch 3 | step 120 | loss 0.42",
                "Epoch=3; step=120; loss=0.42",
            ),
            (
                "{'loss': 2.1, 'grad_norm': 1.5e-3, 'epoch': 0.01}",
                "loss=2.1; grad_norm=1.5e-3; epoch=0.01",
            ),
            ("iter 10: loss 3.2, time 12ms", "iter=10; loss=3.2; time=12"),
            (
                " iteration      100/    5000 | consumed samples:         1600 | elapsed time per iteration (ms): 812.4 |",
                "iteration=100; consumed samples=1600; elapsed time per iteration=812.4",
            ),
            (
                "[2024-01-02 12:00:01,123] [INFO] [rank 0] step: 10, loss: 3.2",
                "rank=0; step=10; loss=3.2",
            ),
            ("INFO:root:step=1 mode=train lr=-1.5", "step=1; lr=-1.5"),
            ("2024-01-02 12:00:01 - INFO: step 7 loss nan", "step=7"),
            ("step: 7 loss=nan ppl: inf", "step=7; loss=nan; ppl=inf"),
            (
                "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.234",
                "Train Epoch=1; Loss=1.234",
            ),
            (
                "Epoch: [0][ 10/5005]  Time  0.500 ( 0.612)  Data  0.1 (0.3)  Loss 6.9e+00 (7.0e+00)",
                "Epoch=0; Time=0.500; Data=0.1; Loss=6.9e+00",
            ),
            (
                " 10%|█         | 100/1000 [00:10<01:30,  9.96it/s, loss=2.31]",
                "loss=2.31",
            ),
            (
                "10/100 [====>.........] - ETA: 1s - loss: 0.3 - accuracy: 0.9",
                "ETA=1; loss=0.3; accuracy=0.9",
            ),
            (
                "tokens/s: 12.3k, mem 9.1GiB, 1,234,567 rows",
                "tokens/s=12.3; mem=9.1",
            ),
            ("samples = 1,600 n_ctx = 4096", "samples=1600; n_ctx=4096"),
            ("step=5, step=6", "step=5"),
            (
                "step 250: train loss 2.1, val loss 2.2",
                "step=250; loss=2.1; val loss=2.2",
            ),
            (
                "INFO 01-02 12:00:00 metrics.py:345] Avg throughput: 12.3 tokens/s, Running: 5 reqs, GPU cache usage: 2.3%.",
                "Avg throughput=12.3; Running=5; GPU cache usage=2.3",
            ),
            (
                "[2024-01-02 12:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, lr=[0.001], mom=[(0.9, 0.999)]",
                "Rank=0; step=10; lr=0.001; mom=0.9",
            ),
            (
                "train_opt_callback: iter=    10 sample=11/19 loss=10.3 dt=00:00:05 |->",
                "iter=10; sample=11; loss=10.3",
            ),
        ] {
            assert_eq!(keys(line), wanted, "{line}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for line in [
            "",
            "version 1.2.3 at 10.0.0.1:8080 since 2024-01-02",
            "pointer 0x7f12 uuid 12ab-34cd",
            "= : :: 12 (13) [14]",
            "-- . - / +",
            "a::b::c",
            "größe ist groß",
            "12",
        ] {
            assert_eq!(keys(line), "", "{line}");
        }
    }

    #[test]
    fn anything_is_read_to_its_end() {
        let parts = [
            "a", "=", ":", "1", ".", "-", " ", "(", ")", "[", "é", "█", "/", "e", "x", ",", "nan",
        ];
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut line = String::new();
            for _ in 0..12 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                line.push_str(parts[(state >> 33) as usize % parts.len()]);
            }
            for (key, number) in read(&line) {
                assert!(!key.is_empty() && !number.is_empty(), "{line}");
            }
        }
    }

    #[test]
    fn counters_are_known_by_their_names() {
        for key in [
            "step",
            "Train Epoch",
            "global_step",
            "trainer/global_step",
            "iteration",
            "num_updates",
            "it",
        ] {
            assert!(is_counter(key), "{key}");
        }
        for key in [
            "loss",
            "minibatch",
            "seq_len",
            "time per step s",
            "timestep2",
        ] {
            assert!(!is_counter(key), "{key}");
        }
    }
}
