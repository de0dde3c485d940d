//! The settings: one table of environment variables. Read when the recording begins, so that a program that sets them
//! for itself before its first CUDA call is heard.

use super::signals;
use oomhook_report::Capacity;
use oomhook_report::capacity::settings;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString, c_int};
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// Where the text report goes at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportTo {
    /// To stderr.
    Stderr,
    /// Nowhere.
    Off,
    /// To this path (a pattern, see `place`).
    Path(String),
}

/// How much of the trace is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    All,
    /// So many bytes: old segments go, totals stay.
    Bytes(u64),
    /// The state at the end, no events.
    Summary,
    /// No file.
    None,
}

/// The least that a bound can be: a few segments, each with its checkpoint.
const LEAST_KEPT: u64 = 256 << 10;

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `OOMHOOK` and `OOMHOOK_ONLY`: record at all.
    pub on: bool,
    /// `OOMHOOK_OUTPUT`: pattern of the trace's path.
    pub output: String,
    /// `OOMHOOK_KEEP`.
    pub keep: Keep,
    /// `OOMHOOK_REPORT`.
    pub report: ReportTo,
    /// Where words go that are said while the process runs on. The same, except under `oomhook run`, which prints the report
    /// at the end itself.
    pub meanwhile: ReportTo,
    /// `OOMHOOK_STACKS` names `native`.
    pub native_stacks: bool,
    /// `OOMHOOK_STACKS` names `python`.
    pub python_stacks: bool,
    /// `OOMHOOK_DEPTH`.
    pub depth: usize,
    /// `OOMHOOK_SIGNAL`: asks for a report now.
    pub signal: Option<c_int>,
    /// `OOMHOOK_SAMPLE`: time between two looks at whole devices; `None` for no looks at all.
    pub sample: Option<Duration>,
    /// `OOMHOOK_SUPPRESS`: path of the list of known leaks.
    pub suppress: Option<String>,
    /// `OOMHOOK_CAPACITY`: what devices are pretended to have.
    pub capacity: Option<Capacity>,
    /// `OOMHOOK_FAIL_NTH`: number of the allocation that is made to fail.
    pub fail_nth: Option<NonZeroU64>,
    /// Set by `oomhook run`: marks the traces of one run.
    pub run: String,
    /// Set by `oomhook run --label`: `key=value` lines.
    pub labels: Vec<(String, String)>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            on: true,
            output: "oomhook.%h.%p.trace".into(),
            keep: Keep::Bytes(2 << 30),
            report: ReportTo::Stderr,
            meanwhile: ReportTo::Stderr,
            native_stacks: true,
            python_stacks: true,
            depth: 64,
            signal: None,
            sample: Some(Duration::from_secs(1)),
            suppress: None,
            capacity: None,
            fail_nth: None,
            run: String::new(),
            labels: Vec::new(),
        }
    }
}

impl Config {
    /// From this process's environment; the second value holds a line for each value that makes no sense.
    pub fn from_environment() -> (Config, Vec<String>) {
        Config::read(|name| std::env::var_os(name).map(lossy), &command_name())
    }

    fn read(get: impl Fn(&str) -> Option<String>, command: &str) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let mut complaints = Vec::new();
        let value = |name: &str| get(name).filter(|value| !value.is_empty());
        match value("OOMHOOK").as_deref() {
            None | Some("1" | "on") => {}
            Some("0" | "off") => config.on = false,
            Some(other) => complaints.push(format!(
                "OOMHOOK={other} is neither 0 nor 1; recording is on"
            )),
        }
        if let Some(glob) = value("OOMHOOK_ONLY") {
            config.on &= matches(&glob, command);
        }
        if let Some(output) = value("OOMHOOK_OUTPUT") {
            config.output = output;
        }
        if let Some(keep) = value("OOMHOOK_KEEP") {
            match keep_of(&keep) {
                Ok(keep) => config.keep = keep,
                Err(reason) => complaints.push(format!("OOMHOOK_KEEP={keep} {reason}; using 2GiB")),
            }
        }
        config.report = report_to(value("OOMHOOK_REPORT").as_deref());
        config.run = value("OOMHOOK_RUN").unwrap_or_default();
        let of_run = value("OOMHOOK_RUN_REPORT").filter(|_| !config.run.is_empty());
        config.meanwhile = match of_run {
            Some(wish) => report_to(Some(&wish)),
            None => config.report.clone(),
        };
        if let Some(stacks) = value("OOMHOOK_STACKS") {
            let known = |word: &str| matches!(word, "native" | "python" | "off");
            let words = || stacks.split(',').map(str::trim);
            let is_contradictory = words().any(|word| word == "off") && words().count() > 1;
            match words().find(|word| !known(word)) {
                _ if is_contradictory => complaints.push(format!(
                    "OOMHOOK_STACKS={stacks}: off stands alone; using native,python"
                )),
                Some(word) => complaints.push(format!(
                    "OOMHOOK_STACKS={stacks}: {word:?} is none of native, python, off; using native,python"
                )),
                None => {
                    let names = |kind| stacks.split(',').any(|word| word.trim() == kind);
                    config.native_stacks = names("native");
                    config.python_stacks = names("python");
                }
            }
        }
        if let Some(depth) = value("OOMHOOK_DEPTH") {
            match depth.parse() {
                Ok(depth @ 1..=super::stack::MOST_FRAMES) => config.depth = depth,
                _ => complaints.push(format!(
                    "OOMHOOK_DEPTH={depth} is no number from 1 to {}; using {}",
                    super::stack::MOST_FRAMES,
                    config.depth
                )),
            }
        }
        if let Some(signal) = value("OOMHOOK_SIGNAL") {
            config.signal = signals::parse(&signal);
            if config.signal.is_none() {
                complaints.push(format!(
                    "OOMHOOK_SIGNAL={signal} is no signal that can ask for a report (such as USR2); none is used"
                ));
            }
        }
        if let Some(sample) = value("OOMHOOK_SAMPLE") {
            match sample_of(&sample) {
                Some(period) => config.sample = period,
                None => complaints.push(format!(
                    "OOMHOOK_SAMPLE={sample} is neither off nor a time from 10ms to 1h, such as 500ms or 5s; using 1s"
                )),
            }
        }
        config.suppress = value("OOMHOOK_SUPPRESS").map(|path| from_here(&path));
        if let Some(capacity) = value(settings::CAPACITY) {
            match Capacity::parse(&capacity) {
                Ok(capacity) => config.capacity = Some(capacity),
                Err(reason) => complaints.push(format!(
                    "OOMHOOK_CAPACITY={capacity} {reason}; nothing is pretended"
                )),
            }
        }
        if let Some(nth) = value(settings::FAIL_NTH) {
            match nth.parse() {
                Ok(nth) => config.fail_nth = Some(nth),
                Err(_) => complaints.push(format!(
                    "OOMHOOK_FAIL_NTH={nth} is no number from 1 on; no allocation is made to fail"
                )),
            }
        }
        if let Some(labels) = value("OOMHOOK_LABELS") {
            let pairs = labels.lines().filter_map(|line| line.split_once('='));
            config.labels = pairs
                .map(|(key, value)| (key.into(), value.into()))
                .collect();
        }
        (config, complaints)
    }

    /// What the trace says of them: those that change what the program is told, for whoever reads its figures.
    pub fn told(&self) -> BTreeMap<String, String> {
        let capacity = self.capacity.as_ref().map(Capacity::to_string);
        let fail_nth = self.fail_nth.map(|nth| nth.to_string());
        let named = [
            (settings::CAPACITY, capacity),
            (settings::FAIL_NTH, fail_nth),
        ];
        let set = named.into_iter();
        set.filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

fn report_to(text: Option<&str>) -> ReportTo {
    match text {
        None | Some("stderr") => ReportTo::Stderr,
        // Reports are new files: beside the device a file of its name would be made.
        Some("off" | "OFF" | "Off" | "/dev/null") => ReportTo::Off,
        Some("/dev/stderr") => ReportTo::Stderr,
        Some(path) => ReportTo::Path(from_here(path)),
    }
}

/// The path as it is meant now: programs change their folder before they end.
fn from_here(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.into(), |path| lossy(path.into()))
}

/// `off`, or a number with `ms`, `s`, `m` or `h`.
fn sample_of(text: &str) -> Option<Option<Duration>> {
    if text == "off" {
        return Some(None);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..end].parse().ok()?;
    let seconds = match text[end..].trim() {
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    ((0.01..=3600.0).contains(&seconds)).then(|| Some(Duration::from_secs_f64(seconds)))
}

fn keep_of(text: &str) -> Result<Keep, String> {
    match text {
        "all" => return Ok(Keep::All),
        "summary" => return Ok(Keep::Summary),
        "none" => return Ok(Keep::None),
        _ => {}
    }
    match oomhook_report::units::parse_bytes(text) {
        Ok(bytes) if bytes >= LEAST_KEPT => Ok(Keep::Bytes(bytes)),
        Ok(_) => Err("is less than 256KiB, too little for a trace".into()),
        Err(_) => Err("is none of all, summary, none, or a size such as 512MiB".into()),
    }
}

fn lossy(value: OsString) -> String {
    String::from_utf8(value.into_vec())
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The command's name without its folder: what `OOMHOOK_ONLY` and `%c` mean.
pub fn command_name() -> String {
    let first = std::fs::read("/proc/thread-self/cmdline").unwrap_or_default();
    let first = first.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = first
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn matches(glob: &str, name: &str) -> bool {
    let (Ok(glob), Ok(name)) = (CString::new(glob), CString::new(name)) else {
        return false;
    };
    let (glob, name): (&CStr, &CStr) = (&glob, &name);
    // SAFETY: both are NUL-terminated.
    unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Config, Vec<String>) {
        let get = |name: &str| {
            pairs
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.to_owned())
        };
        Config::read(get, "python3.11")
    }

    #[test]
    fn nothing_set_means_the_defaults() {
        assert_eq!(read(&[]), (Config::default(), vec![]));
        assert_eq!(
            read(&[("OOMHOOK", ""), ("OOMHOOK_DEPTH", "")]),
            (Config::default(), vec![])
        );
    }

    #[test]
    fn each_setting_is_read() {
        let (config, complaints) = read(&[
            ("OOMHOOK_OUTPUT", "/tmp/%p.trace"),
            ("OOMHOOK_REPORT", "off"),
            ("OOMHOOK_STACKS", "python"),
            ("OOMHOOK_KEEP", "1.5MiB"),
            ("OOMHOOK_DEPTH", "8"),
            ("OOMHOOK_SIGNAL", "SIGUSR2"),
            ("OOMHOOK_LABELS", "sha=abc\njunk\nbranch=main=x"),
        ]);
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(config.output, "/tmp/%p.trace");
        assert_eq!(config.report, ReportTo::Off);
        assert!(!config.native_stacks && config.python_stacks);
        for (text, native, python) in [
            ("native", true, false),
            ("python, native", true, true),
            ("off", false, false),
        ] {
            let (config, _) = read(&[("OOMHOOK_STACKS", text)]);
            assert_eq!(
                (config.native_stacks, config.python_stacks),
                (native, python)
            );
        }
        assert_eq!(config.depth, 8);
        assert_eq!(config.signal, Some(libc::SIGUSR2));
        assert_eq!(config.keep, Keep::Bytes(1_572_864));
        for (text, keep) in [
            ("all", Keep::All),
            ("summary", Keep::Summary),
            ("none", Keep::None),
        ] {
            assert_eq!(read(&[("OOMHOOK_KEEP", text)]).0.keep, keep);
        }
        assert_eq!(
            config.labels,
            [
                ("sha".into(), "abc".into()),
                ("branch".into(), "main=x".into())
            ]
        );
        let (config, _) = read(&[("OOMHOOK_CAPACITY", "1=2KiB"), ("OOMHOOK_FAIL_NTH", "7")]);
        assert_eq!(config.capacity, Some(Capacity::Some(vec![(1, 2048)])));
        assert_eq!(config.fail_nth, NonZeroU64::new(7));
        let told: Vec<_> = config.told().into_iter().collect();
        let told: Vec<_> = told.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            told,
            [("OOMHOOK_CAPACITY", "1=2048B"), ("OOMHOOK_FAIL_NTH", "7")]
        );
        assert!(!read(&[("OOMHOOK", "0")]).0.on);
    }

    #[test]
    fn a_malformed_value_gives_one_line_and_the_default() {
        for (name, value) in [
            ("OOMHOOK", "yes"),
            ("OOMHOOK_DEPTH", "0"),
            ("OOMHOOK_DEPTH", "many"),
            ("OOMHOOK_STACKS", "perl"),
            ("OOMHOOK_SIGNAL", "KILL"),
            ("OOMHOOK_SAMPLE", "soon"),
            ("OOMHOOK_SAMPLE", "0s"),
            ("OOMHOOK_SAMPLE", "1"),
            ("OOMHOOK_KEEP", "12XB"),
            ("OOMHOOK_KEEP", "1KiB"),
            ("OOMHOOK_CAPACITY", "12XB"),
            ("OOMHOOK_CAPACITY", "0="),
            ("OOMHOOK_CAPACITY", "x=1GiB"),
            ("OOMHOOK_CAPACITY", "0"),
            ("OOMHOOK_FAIL_NTH", "0"),
            ("OOMHOOK_FAIL_NTH", "abc"),
            ("OOMHOOK_FAIL_NTH", "-1"),
        ] {
            let (config, complaints) = read(&[(name, value)]);
            assert_eq!(config, Config::default(), "{name}={value}");
            assert_eq!(complaints.len(), 1, "{name}={value}");
            assert!(
                complaints[0].starts_with(&format!("{name}={value}")),
                "{complaints:?}"
            );
        }
    }

    #[test]
    fn only_some_commands_may_be_watched() {
        assert!(read(&[("OOMHOOK_ONLY", "python*")]).0.on);
        assert!(!read(&[("OOMHOOK_ONLY", "train")]).0.on);
    }
}
