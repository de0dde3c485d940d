//! Whatever a log holds: nothing panics, no number is invented.

use super::super::message::Numbers;
use super::super::{read, render};
use super::explain;
use super::messages::messages;
use std::collections::BTreeSet;

/// Sizes in a text, read by other means than the parsers': each number with each unit that follows it.
fn sizes_in(text: &str) -> BTreeSet<u64> {
    let mut sizes = BTreeSet::new();
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b',';
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = (at..bytes.len())
            .find(|&end| !is_part(bytes[end]))
            .unwrap_or(bytes.len());
        let number = text[at..end].trim_end_matches(['.', ',']).replace(',', "");
        let unit: String = text[end..].trim_start().chars().take(5).collect();
        let shift = [
            ("KiB", 10),
            ("kB", 10),
            ("MiB", 20),
            ("MB", 20),
            ("GiB", 30),
            ("GB", 30),
            ("TiB", 40),
        ]
        .iter()
        .find(|(name, _)| unit.starts_with(name))
        .map_or(0, |(_, shift)| *shift);
        if let Ok(value) = number.parse::<f64>() {
            sizes.insert((value * (1u64 << shift) as f64).round() as u64);
            // vLLM writes one unit for two numbers.
            sizes.insert((value * (1u64 << 30) as f64).round() as u64);
        }
        at = end;
    }
    sizes
}

/// Each number is in the text, or the sum or the difference of two, or a tensor's size.
fn is_not_invented(numbers: &Numbers, text: &str) -> bool {
    let sizes = sizes_in(text);
    let is_told = |bytes: u64| {
        sizes.contains(&bytes)
            || bytes == 0
            || sizes.iter().any(|one| {
                sizes.contains(&bytes.wrapping_sub(*one))
                    || sizes.contains(&bytes.wrapping_add(*one))
            })
    };
    let is_product = text.contains("shape");
    let all = [
        numbers.total_bytes,
        numbers.free_bytes,
        numbers.process_bytes,
        numbers.allocated_bytes,
        numbers.private_pool_bytes,
        numbers.reserved_bytes,
        numbers.idle_bytes,
        numbers.limit_bytes,
        numbers.parameter_bytes,
        numbers.temporary_bytes,
        numbers.output_bytes,
        numbers.requested_bytes.filter(|_| !is_product),
    ];
    let others = numbers.others.iter().map(|other| other.bytes);
    all.into_iter().flatten().chain(others).all(is_told)
}

#[test]
fn a_message_cut_anywhere_invents_no_number() {
    let mut cuts = 0;
    for (log, expected) in messages() {
        for cut in (0..=log.len()).filter(|cut| log.is_char_boundary(*cut)) {
            cuts += 1;
            for text in [&log[..cut], &log[cut..]] {
                for group in explain(text).messages {
                    assert!(
                        is_not_invented(&group.numbers, text),
                        "{text}\n{:?}",
                        group.numbers
                    );
                }
            }
        }
        assert!(is_not_invented(&expected.numbers, log), "{log}");
    }
    assert!(cuts > 10_000);
}

/// Numbers without end, always the same ones.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }
}

#[test]
fn no_log_makes_it_panic() {
    let mut dice = Dice(0x5eed);
    let messages = messages();
    let mut found = 0;
    for _ in 0..400 {
        let mut log: Vec<u8> = Vec::new();
        for _ in 0..dice.roll(8) {
            let (message, _) = &messages[dice.roll(messages.len())];
            let mut bytes = message.as_bytes().to_vec();
            for _ in 0..dice.roll(6) {
                let at = dice.roll(bytes.len());
                match dice.roll(5) {
                    0 => bytes[at] = dice.roll(256) as u8,
                    1 => bytes.truncate(at + 1),
                    2 => bytes.insert(at, b"\n\r\x1b\0[(\xff"[dice.roll(7)]),
                    3 => bytes.insert(at, b'9'),
                    _ => {
                        bytes.remove(at);
                        bytes.push(b' ');
                    }
                }
            }
            log.extend(bytes);
            log.push(b'\n');
            for _ in 0..dice.roll(64) {
                log.push(dice.roll(256) as u8);
            }
        }
        let explanation = read(&log[..]).expect("a slice can be read");
        let style = oomhook_report::text::Style::default();
        let page = render(&explanation, "fuzz", &style);
        assert!(
            !page.chars().any(|c| c.is_control() && c != '\n'),
            "{page:?}"
        );
        serde_json::to_string(&explanation).expect("JSON");
        found += explanation.messages.len();
    }
    // The damage is small enough for most to be read still.
    assert!(found > 400, "{found}");
}
