//! The verbs of the command, one file each.

mod check;
mod demo;
mod doctor;
mod env;
mod explain;
mod gate;
mod library;
mod names;
pub mod output;
mod pattern;
mod presence;
mod report;
mod run;
mod snapshot;
mod traces;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Says where the GPU memory of any CUDA process went: leak, peak, out of memory.
#[derive(Parser)]
#[command(
    name = "oomhook",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Run(run::Options),
    Report(report::Options),
    Snapshot(snapshot::Options),
    Check(check::Options),
    Explain(explain::Options),
    Doctor(doctor::Options),
    Env(env::Options),
    Demo(demo::Options),
    #[command(name = ANSWER_NAMES, hide = true)]
    AnswerNames(names::NameOptions),
}

/// What this program calls itself for: not for people.
pub const ANSWER_NAMES: &str = "answer-names";
/// Usage errors and unreadable input.
const USAGE: u8 = 2;

/// Runs the verb that was asked for.
pub fn main() -> ExitCode {
    match Command::parse().verb {
        Verb::Run(options) => run::run(&options),
        Verb::Report(options) => finish("report", report::run(&options).map(|()| 0)),
        Verb::Snapshot(options) => finish("snapshot", snapshot::run(&options)),
        Verb::Check(options) => finish("check", check::run(&options)),
        Verb::Explain(options) => finish("explain", explain::run(&options)),
        Verb::Doctor(options) => finish("doctor", doctor::run(&options)),
        Verb::Env(options) => finish("env", env::run(&options).map(|()| 0)),
        Verb::Demo(options) => demo::run(&options),
        Verb::AnswerNames(options) => {
            options.answer();
            ExitCode::SUCCESS
        }
    }
}

fn finish(verb: &str, result: Result<u8, String>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(text) => {
            output::talk(&format!("oomhook {verb}: {text}\n"));
            ExitCode::from(USAGE)
        }
    }
}
