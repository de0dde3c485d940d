//! The process that reads other people's files: this program, started once more. A damaged file may make a parser panic,
//! recurse or allocate without end, and a file that is cut while it is mapped is a signal: none of it must reach the report.

use super::locate::Locator;
use super::places::Places;
use super::question::{Question, Shelf};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use std::io::{BufRead, Write};

/// Debug information is nested as deep as functions are inlined into each other: this is far more than compilers do.
const STACK: usize = 64 << 20;
/// Memory of its own that it may take. What is mapped of files is not counted.
const MOST_MEMORY: u64 = 8 << 30;

/// Answers questions until there are no more.
pub fn serve(places: Places) {
    let limit = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // A process that is stuck does not outlive who waits for it.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // Where a limit cannot be set it was lower before.
    let _ = setrlimit(Resource::Data, limit(MOST_MEMORY));
    // Its end by a signal is foreseen and needs no file.
    let _ = setrlimit(Resource::Core, limit(0));
    let thread = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || answer_all(places));
    if let Ok(thread) = thread {
        let _ = thread.join();
    }
}

fn answer_all(places: Places) -> Option<()> {
    let mut shelf = Shelf::new(Locator::new(places));
    let mut questions = std::io::stdin().lock();
    let mut answers = std::io::stdout().lock();
    let mut line = String::new();
    loop {
        line.clear();
        if questions.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let question: Question = serde_json::from_str(&line).ok()?;
        let mut answer = serde_json::to_vec(&shelf.answer(&question)).ok()?;
        answer.push(b'\n');
        answers.write_all(&answer).ok()?;
        answers.flush().ok()?;
    }
}
