//! `oomhook doctor`: what is here, and whether a program could be watched. It looks and changes nothing: no context is made,
//! no driver loaded, no command started (but an interpreter, for its version).

mod command;
mod gpus;
mod machine;
mod page;
mod place;
mod python;
mod reach;
mod settings;
mod who;
mod words;

use crate::cli::{env, output};
use command::Target;
use gpus::{Gpu, Outcome};
use machine::{Installed, Limits, Machine};
use place::Traces;
use serde::Serialize;
use settings::{Library, Preloaded, Setting};
use std::ffi::OsString;
use std::path::Path;

/// See GPUs and who uses them, and whether a program could be watched
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A command to look at; it is not started
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Something stands in the way.
const IN_THE_WAY: u8 = 1;

/// All that was found.
#[derive(Serialize)]
pub struct Findings {
    schema_version: u32,
    tool: Tool,
    /// Nothing stands in the way.
    ready: bool,
    obstacles: Vec<String>,
    driver: Driver,
    /// Null where they are not known.
    gpus: Option<Vec<Gpu>>,
    machine: Machine,
    limits: Limits,
    traces: Traces,
    settings: Vec<Setting>,
    library: Library,
    ld_preload: Vec<Preloaded>,
    cuda_visible_devices: Option<String>,
    command: Option<Target>,
    /// What is worth knowing and in nobody's way.
    notes: Vec<String>,
    /// What to do next.
    next: String,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// NVIDIA's driver.
#[derive(Serialize)]
struct Driver {
    version: Option<String>,
    /// The newest CUDA that it supports.
    cuda: Option<String>,
    libcuda: Option<String>,
    simulated: bool,
    /// `ok`, `missing` or `failed`.
    nvml: &'static str,
    nvml_version: Option<String>,
    nvml_problem: Option<String>,
}

/// Looks and tells; the exit code.
///
/// # Errors
/// In words, when stdout cannot be written.
pub fn run(options: &Options) -> Result<u8, String> {
    let findings = Findings::look(&options.command);
    let text = match options.json {
        true => serde_json::to_string_pretty(&findings).map_err(|error| error.to_string())? + "\n",
        false => page::render(&findings, &output::style_of_stdout()),
    };
    output::data(&text)?;
    Ok(if findings.ready { 0 } else { IN_THE_WAY })
}

impl Findings {
    fn look(command: &[OsString]) -> Findings {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let installed = Installed::look();
        let outcome = gpus::ask();
        let mut findings = Findings {
            schema_version: 1,
            tool: Tool {
                name: "oomhook",
                version: env!("CARGO_PKG_VERSION"),
            },
            ready: true,
            obstacles: Vec::new(),
            driver: Driver {
                version: installed.version.clone(),
                cuda: None,
                libcuda: installed
                    .libcuda
                    .as_ref()
                    .map(|path| oomhook_report::clean::text(&path.to_string_lossy())),
                simulated: installed.simulated,
                nvml: "missing",
                nvml_version: None,
                nvml_problem: None,
            },
            gpus: None,
            machine: Machine::look(Path::new("/"), is_set),
            limits: Limits::look(),
            traces: Traces::look(),
            settings: settings::in_force(),
            library: Library::look(),
            ld_preload: settings::preloaded(),
            cuda_visible_devices: settings::variable("CUDA_VISIBLE_DEVICES"),
            command: (!command.is_empty()).then(|| Target::look(command)),
            notes: Vec::new(),
            next: String::new(),
        };
        findings.take(outcome, &installed);
        findings.judge_gpus();
        findings.judge_place();
        findings.judge_settings();
        findings.judge_command();
        findings.ready = findings.obstacles.is_empty();
        findings.next = findings.next_command(command);
        findings
    }

    /// What NVML said; where it says nothing, what is installed has to do.
    fn take(&mut self, outcome: Outcome, installed: &Installed) {
        let in_container = self.machine.container.is_some();
        match outcome {
            Outcome::Asked(answers) => {
                self.driver.nvml = "ok";
                self.driver.version = answers.driver.or(self.driver.version.take());
                let cuda = answers.cuda.filter(|version| *version > 0);
                self.driver.cuda =
                    cuda.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
                self.driver.nvml_version = answers.nvml;
                match answers.gpus {
                    Ok(gpus) => self.gpus = Some(gpus),
                    Err(reason) => {
                        self.driver.nvml_problem = Some(reason.clone());
                        self.notes.push(words::not_counted(&reason));
                    }
                }
                return;
            }
            Outcome::Failed {
                fatal: true,
                reason,
            } => {
                self.driver.nvml = "failed";
                self.obstacles.push(words::driver_fails(&reason));
                self.driver.nvml_problem = Some(reason);
                return;
            }
            Outcome::Failed { reason, .. } => {
                self.driver.nvml = "failed";
                self.notes.push(words::nvml_failed(&reason));
                self.driver.nvml_problem = Some(reason);
            }
            Outcome::Missing if installed.libcuda.is_some() => {
                self.notes.push(words::NO_NVML.to_owned());
            }
            Outcome::Missing => {}
        }
        if installed.libcuda.is_none() {
            self.obstacles.push(words::no_driver(in_container));
        } else if !installed.simulated && !installed.has_device {
            self.obstacles.push(words::NO_DEVICE.to_owned());
        }
    }

    fn judge_gpus(&mut self) {
        if settings::hides_every_gpu() {
            self.obstacles.push(words::HIDDEN.to_owned());
        }
        let Some(gpus) = &self.gpus else {
            return;
        };
        if gpus.is_empty() {
            self.obstacles.push(words::NO_GPU.to_owned());
        }
        let unusable: Vec<String> = gpus.iter().filter_map(Gpu::unusable).collect();
        match unusable.len() == gpus.len() {
            true => self.obstacles.extend(unusable),
            false => self.notes.extend(unusable),
        }
        for gpu in gpus {
            let first = gpu.processes.iter().flatten().next();
            if let (Some("exclusive"), Some(first)) = (gpu.compute_mode, first) {
                self.notes.push(words::taken(gpu.index, first.pid));
            }
        }
        let mut names = gpus.iter().filter_map(|gpu| gpu.name.as_deref());
        let first = names.next();
        let by_bus =
            settings::variable("CUDA_DEVICE_ORDER").is_some_and(|order| order == "PCI_BUS_ID");
        if !by_bus && names.any(|name| Some(name) != first) {
            self.notes.push(words::OTHER_ORDER.to_owned());
        }
        let sliced = gpus.iter().filter(|gpu| gpu.mig == Some("on"));
        let sliced: Vec<u32> = sliced.map(|gpu| gpu.index).collect();
        if !sliced.is_empty() {
            self.notes.push(words::sliced(&sliced));
        }
    }

    fn judge_place(&mut self) {
        const LITTLE: u64 = 1 << 30;
        self.notes.extend(self.machine.hints());
        if self.limits.address_space_bytes.is_some() {
            self.notes.push(words::FEW_ADDRESSES.to_owned());
        }
        let traces = &self.traces;
        if traces.none {
            return;
        }
        match &traces.problem {
            Some(problem) if !traces.writable => {
                let instead = traces.instead.as_deref();
                let text = words::no_place(&traces.folder, problem, instead);
                self.obstacles.push(text);
                return;
            }
            problem => self.notes.extend(problem.clone()),
        }
        if traces.on_network {
            self.notes.push(words::NETWORK.to_owned());
        }
        if let Some(free) = traces.free_bytes.filter(|free| *free < LITTLE) {
            self.notes.push(words::little_room(free));
        }
    }

    fn judge_settings(&mut self) {
        self.obstacles.extend(self.library.problem.clone());
        for setting in &self.settings {
            match (setting.name.as_str(), setting.value.as_str()) {
                ("OOMHOOK", "0" | "off") => self.obstacles.push(words::SWITCHED_OFF.to_owned()),
                ("OOMHOOK_ONLY", glob) => self.notes.push(words::only(glob)),
                _ => {}
            }
        }
        let missing = self.ld_preload.iter().filter(|one| one.missing);
        let missing = missing.map(|one| words::preload_missing(&one.path));
        self.notes.extend(missing);
        if let Some(value) = &self.cuda_visible_devices
            && !settings::hides_every_gpu()
        {
            self.notes.push(words::visible(value));
        }
    }

    fn judge_command(&mut self) {
        let Some(command) = &self.command else {
            return;
        };
        self.obstacles.extend(command.problems.iter().cloned());
        let stacks = settings::variable("OOMHOOK_STACKS").unwrap_or_default();
        let kinds = oomhook_report::settings::stacks(&stacks);
        if command.python.is_some() && !stacks.is_empty() && kinds.is_ok_and(|kinds| !kinds.python)
        {
            self.notes.push(words::WITHOUT_PYTHON.to_owned());
        }
    }

    fn next_command(&self, command: &[OsString]) -> String {
        let words: Vec<String> = command
            .iter()
            .map(|word| env::quoted(&oomhook_report::clean::text(&word.to_string_lossy())))
            .collect();
        let line = match words.is_empty() {
            true => "CMD".to_owned(),
            false => words.join(" "),
        };
        let is_elsewhere = self
            .command
            .as_ref()
            .is_some_and(|command| command.elsewhere);
        let has_gpu = self.gpus.as_ref().is_none_or(|gpus| !gpus.is_empty());
        match () {
            () if self.ready => format!("oomhook run -- {line}"),
            () if self.library.path.is_none() => {
                "export OOMHOOK_LIB=/path/to/liboomhook.so".to_owned()
            }
            () if self.driver.nvml == "missing" && self.driver.libcuda.is_none() || !has_gpu => {
                "oomhook demo".to_owned()
            }
            () if is_elsewhere => "oomhook env".to_owned(),
            () if !self.traces.writable && self.obstacles.len() == 1 => {
                format!("oomhook run -o /tmp/traces -- {line}")
            }
            () if words.is_empty() => "oomhook doctor".to_owned(),
            () => format!("oomhook doctor -- {line}"),
        }
    }
}
