//! What launchers and loggers put before a line: ranks, times, names of processes.

use super::frameworks::pattern;
use regex::Regex;
use std::sync::LazyLock;

/// A line without what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare<'a> {
    /// The rank that wrote it, if the prefix tells.
    pub rank: Option<u32>,
    /// What was written.
    pub text: &'a str,
}

/// Prefixes, each anchored. A group `rank` tells the rank.
static PREFIXES: LazyLock<[Regex; 9]> = LazyLock::new(|| {
    [
        // [rank3]: of PyTorch, [default3]: of torchrun, [1,3]<stderr>: of mpirun
        r"^\[(?:rank|default)(?P<rank>\d{1,6})\]:? ?",
        r"^\[\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err)>: ?",
        // srun --label
        r"^ {0,6}(?P<rank>\d{1,6}): ",
        // Times: 2024-05-01T12:00:00.123456789Z, [2024-05-01 12:00:00,123], May  1 12:00:00 host
        r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? ?",
        r"^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d \S+ ",
        // glog: W1021 12:44:24.533946    4242 file.cc:12]
        r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] ?",
        // Ray and vLLM: (RayTrainWorker pid=12, ip=10.0.0.1), (EngineCore_0 pid=78)
        r"^\([\w.:() -]{0,80}\bpid=\d+[^)]{0,80}\) ?",
        // vLLM's logger: ERROR 05-19 00:53:24 [core.py:1138]
        r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./-]+:\d+\]|[\w./-]+:\d+\]) ?",
        // docker compose and kubectl: name-1  | text, [pod/name/container] text
        r"^(?:[\w.-]{1,80} +\| |\[pod/[\w./-]{1,200}\] |\[[\w.-]{1,40}\] {1,40}\| )",
    ]
    .map(pattern)
});

/// No line has more prefixes than this.
const MOST: usize = 6;

/// Takes the prefixes off.
pub fn strip(line: &str) -> Bare<'_> {
    let mut bare = Bare {
        rank: None,
        text: line,
    };
    for _ in 0..MOST {
        let found = PREFIXES
            .iter()
            .find_map(|prefix| prefix.captures(bare.text));
        let Some(found) = found else { break };
        let rank = found
            .name("rank")
            .and_then(|rank| rank.as_str().parse().ok());
        bare.rank = bare.rank.or(rank);
        bare.text = &bare.text[found.get(0).map_or(0, |whole| whole.end())..];
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_off_and_tell_the_rank() {
        let lines = [
            ("[rank3]: Traceback", Some(3), "Traceback"),
            ("[rank12]:   File \"a.py\"", Some(12), "  File \"a.py\""),
            ("[default0]:x", Some(0), "x"),
            ("[1,7]<stderr>: x", Some(7), "x"),
            ("  5: x", Some(5), "x"),
            (
                "2021-12-08T01:25:15.387855564Z RuntimeError",
                None,
                "RuntimeError",
            ),
            ("[2024-05-01 12:00:00,123] x", None, "x"),
            ("3: [rank3]: 2024-05-01 12:00:00 x", Some(3), "x"),
            ("(RayTrainWorker pid=4321, ip=10.0.0.7) x", None, "x"),
            (
                "(EngineCore pid=78) ERROR 05-19 00:53:24 [core.py:1138] ValueError: y",
                None,
                "ValueError: y",
            ),
            ("vllm-1  | ERROR 06-02 05:17:18 [core.py:387] z", None, "z"),
            (
                "W1021 12:44:24.533946    4242 bfc_allocator.cc:501] Allocator",
                None,
                "Allocator",
            ),
            ("plain: text", None, "plain: text"),
        ];
        for (line, rank, text) in lines {
            assert_eq!(strip(line), Bare { rank, text }, "{line}");
        }
    }
}
