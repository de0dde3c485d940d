//! The settings: one table of environment variables. Read when the recording begins, so that a program that sets them
//! for itself before its first CUDA call is heard.

use oomhook_report::Capacity;
use oomhook_report::capacity::settings as names;
use oomhook_report::settings;
pub use oomhook_report::settings::Keep;
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
    /// `OOMHOOK_TENSORS`: record the blocks inside PyTorch's cache.
    pub tensors: bool,
    /// `OOMHOOK_LOG`: remember the program's own output lines.
    pub log: bool,
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
            output: settings::OUTPUT.into(),
            keep: Keep::Bytes(2 << 30),
            report: ReportTo::Stderr,
            meanwhile: ReportTo::Stderr,
            native_stacks: true,
            python_stacks: true,
            depth: settings::DEPTH,
            tensors: true,
            log: true,
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
        if let Some(on) = value("OOMHOOK") {
            take(&mut complaints, settings::on(&on), &mut config.on);
        }
        if let Some(glob) = value("OOMHOOK_ONLY") {
            config.on &= matches(&glob, command);
        }
        if let Some(output) = value("OOMHOOK_OUTPUT") {
            config.output = output;
        }
        if let Some(keep) = value("OOMHOOK_KEEP") {
            take(&mut complaints, settings::keep(&keep), &mut config.keep);
        }
        config.report = report_to(value("OOMHOOK_REPORT").as_deref());
        config.run = value("OOMHOOK_RUN").unwrap_or_default();
        let of_run = value("OOMHOOK_RUN_REPORT").filter(|_| !config.run.is_empty());
        config.meanwhile = match of_run {
            Some(wish) => report_to(Some(&wish)),
            None => config.report.clone(),
        };
        if let Some(stacks) = value("OOMHOOK_STACKS") {
            let mut kinds = settings::Stacks {
                native: config.native_stacks,
                python: config.python_stacks,
            };
            take(&mut complaints, settings::stacks(&stacks), &mut kinds);
            (config.native_stacks, config.python_stacks) = (kinds.native, kinds.python);
        }
        if let Some(depth) = value("OOMHOOK_DEPTH") {
            take(&mut complaints, settings::depth(&depth), &mut config.depth);
        }
        if let Some(tensors) = value("OOMHOOK_TENSORS") {
            take(
                &mut complaints,
                settings::tensors(&tensors),
                &mut config.tensors,
            );
        }
        if let Some(log) = value("OOMHOOK_LOG") {
            take(&mut complaints, settings::log(&log), &mut config.log);
        }
        if let Some(signal) = value("OOMHOOK_SIGNAL") {
            take(
                &mut complaints,
                settings::signal(&signal).map(Some),
                &mut config.signal,
            );
        }
        if let Some(sample) = value("OOMHOOK_SAMPLE") {
            take(
                &mut complaints,
                settings::sample(&sample),
                &mut config.sample,
            );
        }
        config.suppress = value("OOMHOOK_SUPPRESS").map(|path| from_here(&path));
        if let Some(capacity) = value(names::CAPACITY) {
            take(
                &mut complaints,
                settings::capacity(&capacity).map(Some),
                &mut config.capacity,
            );
        }
        if let Some(nth) = value(names::FAIL_NTH) {
            take(
                &mut complaints,
                settings::fail_nth(&nth).map(Some),
                &mut config.fail_nth,
            );
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
        let named = [(names::CAPACITY, capacity), (names::FAIL_NTH, fail_nth)];
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

/// Keeps a value that makes sense, and the complaint about one that does not.
fn take<T>(complaints: &mut Vec<String>, read: Result<T, String>, place: &mut T) {
    match read {
        Ok(value) => *place = value,
        Err(complaint) => complaints.push(complaint),
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
            ("OOMHOOK_TENSORS", "off"),
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
        assert_eq!((config.depth, config.tensors), (8, false));
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
            ("OOMHOOK_TENSORS", "some"),
            ("OOMHOOK_LOG", "some"),
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
