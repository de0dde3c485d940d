//! `oomhook report`: what a trace says.

use crate::cli::names::NameOptions;
use crate::cli::output;
use crate::cli::pattern;
use crate::cli::traces::{self, Loaded, Trace};
use crate::symbols::Files;
use clap::{Args, ValueEnum};
use oomhook_report::table::{self, At, By, Layer};
use oomhook_report::text::{self, Style};
use oomhook_report::{Report, Reports, Suppressions, roles_table, sentences, sharing};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Report where the memory went
#[derive(Args)]
pub struct Options {
    /// Trace files, or directories of one run's traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    view: View,
}

/// What is to be seen of traces.
#[derive(Args)]
pub struct View {
    /// Print JSON (schema 1) instead of text
    #[arg(long, conflicts_with_all = ["top", "by", "at"])]
    json: bool,
    /// Show so many rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Print one table, grouped so
    #[arg(long, value_enum)]
    by: Option<GroupBy>,
    /// Print one table, of this instant
    #[arg(long, value_enum)]
    at: Option<Instant>,
    /// In the table: blocks inside PyTorch's cache, instead of what the driver was asked for
    #[arg(long, conflicts_with = "json")]
    tensors: bool,
    /// In stacks (--by stack), also show frames of the Python interpreter
    #[arg(long, requires = "by")]
    all_frames: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub names: NameOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum GroupBy {
    Site,
    Library,
    Stack,
    Api,
    Thread,
    Phase,
    Space,
    Device,
    Role,
}

#[derive(Clone, Copy, ValueEnum)]
enum Instant {
    Peak,
    Exit,
    Oom,
}

/// Rows of a table when nobody says.
const ROWS: usize = 20;

/// Reports.
///
/// # Errors
/// In words, when there is nothing to read.
pub fn run(options: &Options) -> Result<(), String> {
    let traces = traces::load(&options.traces)?;
    let mut symbols = options.view.names.files();
    print(&traces, &options.traces, &options.view, &mut symbols)
}

/// Prints what is to be seen; `named` is what the traces are called in the next command.
///
/// # Errors
/// In words, when it cannot be printed.
pub fn print(
    traces: &[Trace],
    named: &[PathBuf],
    view: &View,
    symbols: &mut Files,
) -> Result<(), String> {
    if view.json {
        return output::data(&json(traces, symbols)?);
    }
    let mut style = output::style_of_stdout();
    style.all_frames = view.all_frames;
    if view.by.is_some() || view.at.is_some() || view.tensors {
        style.top = view.top.map_or(ROWS, |top| top as usize);
        return output::data(&tables(traces, named, symbols, view, &style));
    }
    if let Some(top) = view.top {
        style.top = top as usize;
    }
    output::data(&texts(traces, symbols, &style))
}

fn json(traces: &[Trace], symbols: &mut Files) -> Result<String, String> {
    let mut reports: Vec<Report> = traces.iter().map(|trace| trace.report(symbols)).collect();
    let json = match reports.len() {
        1 => serde_json::to_string_pretty(&reports.remove(0)),
        _ => serde_json::to_string_pretty(&Reports::of(reports)),
    };
    json.map(|text| text + "\n")
        .map_err(|error| format!("the report cannot be written as JSON: {error}"))
}

fn tables(
    traces: &[Trace],
    named: &[PathBuf],
    symbols: &mut Files,
    view: &View,
    style: &Style,
) -> String {
    let by = match view.by {
        None | Some(GroupBy::Site) => Some(By::Site),
        Some(GroupBy::Library) => Some(By::Library),
        Some(GroupBy::Stack) => Some(By::Stack),
        Some(GroupBy::Api) => Some(By::Api),
        Some(GroupBy::Thread) => Some(By::Thread),
        Some(GroupBy::Phase) => Some(By::Phase),
        Some(GroupBy::Space) => Some(By::Space),
        Some(GroupBy::Device) => Some(By::Device),
        Some(GroupBy::Role) => None,
    };
    let layer = match view.tensors {
        true => Layer::Cache,
        false => Layer::Driver,
    };
    let at = match view.at {
        None | Some(Instant::Peak) => At::Peak,
        Some(Instant::Exit) => At::Exit,
        Some(Instant::Oom) => At::Oom,
    };
    let mut text = String::new();
    let mut notes: Vec<String> = Vec::new();
    let mut is_empty = true;
    for trace in traces {
        let mut title = sentences::table_title(at, layer).to_owned();
        if traces.len() > 1 {
            let process = &trace.header.process;
            title = format!(
                "{title}, {}",
                sentences::process(process.pid, &process.host)
            );
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let empty = sentences::table_empty(at, layer);
        // What memory is for is told of all layers, each byte once.
        let groups = by.is_none().then(|| {
            notes.push(sentences::ROLES_ARE_ESTIMATES.to_owned());
            roles_table::group(&trace.report(symbols), at)
        });
        let mut resolver = trace.resolver(symbols);
        let groups = groups.unwrap_or_else(|| {
            let by = by.unwrap_or(By::Site);
            table::group(&trace.ledger, &mut resolver, by, at, layer)
        });
        is_empty &= groups.is_empty();
        text.push_str(&table::render(&groups, &mut resolver, empty, &title, style));
        if layer == Layer::Driver && by.is_some() {
            text.push_str(&table::besides(&trace.ledger, at, style));
        }
        notes.extend(resolver.notes());
    }
    let mut seen = HashSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    text.push_str(&text::notes(&notes, style));
    let named: Vec<String> = named
        .iter()
        .map(|path| text::quoted(&path.to_string_lossy()))
        .collect();
    let named = named.join(" ");
    let next = match by {
        Some(By::Stack) => format!("oomhook report {named}"),
        _ if is_empty => format!("oomhook report {named}"),
        _ => {
            let tensors = if view.tensors { " --tensors" } else { "" };
            format!(
                "oomhook report {named} --by stack --at {}{tensors}",
                word(at)
            )
        }
    };
    text.push_str(&format!("\n{}", sentences::next_after(&next)));
    text
}

fn word(at: At) -> &'static str {
    match at {
        At::Peak => "peak",
        At::Exit => "exit",
        At::Oom => "oom",
    }
}

/// Texts of all traces; processes of which there is nothing to tell get one line, except the first.
fn texts(traces: &[Trace], symbols: &mut Files, style: &Style) -> String {
    let mut text = String::new();
    let reports: Vec<Report> = traces.iter().map(|trace| trace.report(symbols)).collect();
    for ((place, trace), report) in traces.iter().enumerate().zip(&reports) {
        text.push_str(&text_of(trace, report, place, style));
    }
    let freed = sentences::freed_while_open(&sharing::shared(&reports));
    text.push_str(&text::notes(freed.as_slice(), style));
    text
}

fn text_of(trace: &Trace, report: &Report, place: usize, style: &Style) -> String {
    if place > 0 && text::is_unremarkable(report) {
        return text::one_line(report, style);
    }
    let style = Style {
        trace: Some(trace.path.to_string_lossy().into_owned()),
        pid: trace.owner.and_then(|owner| owner.pid),
        ..style.clone()
    };
    let text = text::render(report, &style);
    if place > 0 { format!("\n{text}") } else { text }
}

/// Prints the reports of a run: to stderr, or where `OOMHOOK_REPORT` says. stdout is the program's.
pub fn print_run(
    paths: &[PathBuf],
    suppressions: &Suppressions,
    to: &Option<String>,
    symbols: &mut Files,
) {
    if paths.is_empty() || to.as_deref() == Some("off") {
        return;
    }
    let Loaded { traces, unreadable } = traces::load_readable(paths, suppressions);
    for error in unreadable {
        output::talk(&format!("oomhook run: {error}\n"));
    }
    let Some(pattern) = to else {
        let style = output::style_of_stderr();
        output::talk(&texts(&traces, symbols, &style));
        return;
    };
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for trace in &traces {
        let file = files
            .entry(pattern::expand(pattern, &trace.header))
            .or_default();
        let place = usize::from(!file.is_empty());
        let report = trace.report(symbols);
        file.push_str(&text_of(trace, &report, place, &Style::default()));
    }
    let began = traces
        .iter()
        .map(|trace| trace.header.process.start_unix_ns)
        .min();
    for (path, text) in files {
        // What the processes said while they ran is in the file already.
        if output::append_to_own(Path::new(&path), &text, began) {
            continue;
        }
        match output::new_file(Path::new(&path), &text) {
            Ok(made) if made == Path::new(&path) => {}
            Ok(made) => output::talk(&format!(
                "oomhook run: {path} is taken, the report is in {}\n",
                made.display()
            )),
            Err(error) => output::talk(&format!(
                "oomhook run: the report cannot be written to {path}: {}; here it is\n{text}",
                output::reason(&error)
            )),
        }
    }
}
