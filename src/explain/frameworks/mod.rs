//! The messages of each framework, one file each.

pub mod bfc;
pub mod cuda;
pub mod cupy;
pub mod host;
pub mod jax;
pub mod llama;
pub mod pytorch;
pub mod tensorflow;
pub mod vllm;

use super::message::Found;
use super::size;
use regex::{Captures, Regex};

/// The message in a text, if there is one.
pub fn find(text: &str) -> Option<Found> {
    // The more a pattern asks for, the earlier it is tried: many messages end in the words of a simpler one.
    [
        pytorch::find,
        vllm::find,
        tensorflow::find,
        jax::find,
        bfc::find,
        cupy::find,
        llama::find,
        cuda::find,
        host::find,
    ]
    .into_iter()
    .find_map(|find| find(text))
}

/// A pattern of ours; `{size}` stands for a size. Messages are ASCII, and classes of all of Unicode make patterns large and slow.
pub fn pattern(text: &str) -> Regex {
    const ASCII: [(&str, &str); 7] = [
        ("{size}", size::PATTERN),
        (r"\d", "[0-9]"),
        (r"\w", "[0-9A-Za-z_]"),
        (r"\W", "[^0-9A-Za-z_]"),
        (r"\s", r"[\t-\r ]"),
        (r"\S", r"[^\t-\r ]"),
        (r"\b", r"(?-u:\b)"),
    ];
    let text = ASCII
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    Regex::new(&text).expect("a pattern of ours")
}

/// A group's size.
pub fn bytes(found: &Captures<'_>, group: &str) -> Option<u64> {
    size::parse(found.name(group)?.as_str())
}

/// A group's number.
pub fn number<N: std::str::FromStr>(found: &Captures<'_>, group: &str) -> Option<N> {
    let digits = found.name(group)?.as_str().replace(',', "");
    digits.parse().ok()
}

/// Where the whole match begins.
pub fn start(found: &Captures<'_>) -> usize {
    found.get(0).map_or(0, |whole| whole.start())
}
