//! The command `oomhook`: reads traces, launches programs under the library, reports, judges.
#![forbid(unsafe_code)]

mod cli;
mod explain;
mod symbols;

fn main() -> std::process::ExitCode {
    cli::main()
}
