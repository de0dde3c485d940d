//! Locks on far bytes of a trace, by which others see that its process lives, ask it for its latest events, and see that
//! it has answered. They are POSIX locks: no child inherits them, the kernel takes them back however the process ends, and
//! they are seen from every namespace. Nothing is ever written so far out.
//!
//! | bytes | lock | held by | meaning |
//! |---|---|---|---|
//! | [`ALIVE`] | write | the recording process | it records |
//! | [`ASKED`] | read | whoever asks | bring the file up to date |
//! | [`ANSWERS`] + n, n < [`PLACES`] | write | the recording process | n is its count, see [`wanted_after`] |

/// Held as long as the process records.
pub const ALIVE: i64 = 1 << 62;

/// Held by those who ask. (The three do not touch: the kernel joins locks that do.)
pub const ASKED: i64 = ALIVE + (1 << 20);

/// First of the places of the count.
pub const ANSWERS: i64 = ALIVE + (1 << 21);

/// Number of places of the count, which begins again behind the last one.
pub const PLACES: i64 = 1 << 16;

/// The count that answers a request which was made before `seen` was read. It grows by one when the process begins to
/// bring its file up to date (odd) and by one when that is done (even): what was under way already may have begun before
/// the request, so the next one is the answer.
#[must_use]
pub fn wanted_after(seen: i64) -> i64 {
    (seen + 2 + seen % 2) % PLACES
}

/// True if a count, as it is now, has reached `wanted`.
#[must_use]
pub fn has_reached(now: i64, wanted: i64) -> bool {
    (now - wanted).rem_euclid(PLACES) < PLACES / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_began_after_the_request_answers_it() {
        for (seen, wanted) in [(0, 2), (1, 4), (2, 4), (PLACES - 2, 0), (PLACES - 1, 2)] {
            assert_eq!(wanted_after(seen), wanted);
            let counts = (0..4).map(|more| (seen + more) % PLACES);
            let reached: Vec<bool> = counts.map(|now| has_reached(now, wanted)).collect();
            let steps = if seen % 2 == 0 { 2 } else { 3 };
            let expected: Vec<bool> = (0..4).map(|more| more >= steps).collect();
            assert_eq!(reached, expected, "from {seen}");
        }
    }
}
