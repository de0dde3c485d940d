//! vLLM: what it says when weights, activations and KV cache do not fit its share.

use super::{number, pattern, start};
use crate::explain::message::{Found, Kind};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static NO_BLOCKS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"No available memory for the cache blocks"));
static SHARE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"Free memory on device (?:cuda:(?P<gpu>\d+) )?\((?P<free>\d+(?:\.\d+)?)/(?P<total>\d+(?:\.\d+)?) GiB\) on startup is less than desired GPU memory utilization \((?P<share>\d(?:\.\d+)?), (?P<asked>\d+(?:\.\d+)?) GiB\)",
    )
});
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"max seq len \((?P<asked>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<room>\d+)\)",
    )
});
static LENGTH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"max seq len \((?P<tokens>\d+)\),? \(?(?P<needed>\d+(?:\.\d+)?) (?:GiB|GB) KV cache is ?needed, which is larger than the available KV [Cc]ache memory \((?P<room>\d+(?:\.\d+)?) (?:GiB|GB)\)(?:.{0,80}estimated maximum model length is (?P<fits>\d+))?",
    )
});
static WARM_UP: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"CUDA out of memory occurred when warming up (?P<what>\w+)[^.]{0,40} with (?P<requests>\d+) dummy requests",
    )
});

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    let new = |at, kind| Found::new(at, Framework::Vllm, kind);
    if let Some(found) = NO_BLOCKS.find(text) {
        return Some(new(found.start(), Kind::NoCacheBlocks));
    }
    if let Some(found) = SHARE.captures(text) {
        let mut message = new(start(&found), Kind::ShareNotFree);
        let gib = |group: &str| crate::explain::size::parse(&format!("{} GiB", &found[group]));
        message.numbers.device = number(&found, "gpu");
        message.numbers.free_bytes = gib("free");
        message.numbers.total_bytes = gib("total");
        message.numbers.requested_bytes = gib("asked");
        message
            .facts
            .push(format!("share wanted: {} of the GPU", &found["share"]));
        return Some(message);
    }
    if let Some(found) = TOKENS.captures(text) {
        let mut message = new(start(&found), Kind::CacheTooSmall);
        message.facts.push(format!(
            "one request may have {} tokens, the KV cache has room for {}",
            &found["asked"], &found["room"]
        ));
        return Some(message);
    }
    if let Some(found) = LENGTH.captures(text) {
        let mut message = new(start(&found), Kind::CacheTooSmall);
        let gib = |group: &str| crate::explain::size::parse(&format!("{} GiB", &found[group]));
        message.numbers.requested_bytes = gib("needed");
        message.numbers.limit_bytes = gib("room");
        message.facts.push(format!(
            "one request of {} tokens needs that much KV cache",
            &found["tokens"]
        ));
        if let Some(fits) = found.name("fits") {
            message.facts.push(format!(
                "vLLM reckons that {} tokens would fit",
                fits.as_str()
            ));
        }
        return Some(message);
    }
    let found = WARM_UP.captures(text)?;
    let mut message = new(start(&found), Kind::WarmUp);
    message.facts.push(format!(
        "warm-up of the {} with {} requests",
        &found["what"], &found["requests"]
    ));
    Some(message)
}
