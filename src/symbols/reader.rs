//! Asks the process that reads other people's files, and does without it where it fails: what it dies of or does not come
//! back from is asked again without debug information, and then not at all.

use super::locate::{Locator, Trouble};
use super::places::Places;
use super::question::{Answer, Question, Shelf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Nobody waits longer for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the one who waits may do something else.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Asks; the process is started with the first question.
#[derive(Default)]
pub struct Reader {
    places: Places,
    other: Option<Other>,
    /// What debug information has failed, and how.
    without_lines: HashMap<usize, Failure>,
}

/// Who answers.
enum Other {
    Process {
        child: Child,
        questions: ChildStdin,
        answers: BufReader<ChildStdout>,
    },
    /// This process, if no other can be had.
    Here(Box<Shelf>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Died,
    TooSlow,
}

impl Failure {
    fn of(self, question: &Question) -> Trouble {
        let path = question.wanted.shown();
        match self {
            Failure::Died => Trouble::Damaged(path),
            Failure::TooSlow => Trouble::TooSlow(path),
        }
    }
}

impl Reader {
    /// Will look in these places.
    pub fn new(places: Places) -> Reader {
        Reader {
            places,
            ..Reader::default()
        }
    }

    /// Asks and waits; `meanwhile` is called now and then.
    pub fn ask(&mut self, mut question: Question, mut meanwhile: impl FnMut()) -> Answer {
        loop {
            let before = self.without_lines.get(&question.number).copied();
            question.without_lines = before.is_some();
            let other = self.other.take();
            let mut other = other.unwrap_or_else(|| Other::start(&self.places));
            let failure = match other.ask(&question, &mut meanwhile) {
                Ok(mut answer) => {
                    self.other = Some(other);
                    let known = answer.trouble.take();
                    answer.trouble = known.or(before.map(|failure| failure.of(&question)));
                    return answer;
                }
                Err(failure) => failure,
            };
            drop(other);
            if before.is_some() {
                return failure.of(&question).into();
            }
            self.without_lines.insert(question.number, failure);
        }
    }
}

impl Other {
    fn start(places: &Places) -> Other {
        Other::process(places)
            .unwrap_or_else(|| Other::Here(Box::new(Shelf::new(Locator::new(places.clone())))))
    }

    fn process(places: &Places) -> Option<Other> {
        let program = std::env::current_exe().ok()?;
        let mut command = Command::new(program);
        command.arg(crate::cli::ANSWER_NAMES);
        for folder in &places.debug_dirs {
            command.arg("--debug-dir").arg(folder);
        }
        if let Some(sysroot) = &places.sysroot {
            command.arg("--sysroot").arg(sysroot);
        }
        // Whatever is preloaded into this process has no business there.
        command.env_remove("LD_PRELOAD");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().ok()?;
        let questions = child.stdin.take()?;
        let answers = BufReader::new(child.stdout.take()?);
        Some(Other::Process {
            child,
            questions,
            answers,
        })
    }

    fn ask(
        &mut self,
        question: &Question,
        meanwhile: &mut impl FnMut(),
    ) -> Result<Answer, Failure> {
        let (questions, answers) = match self {
            Other::Here(shelf) => return Ok(shelf.answer(question)),
            Other::Process {
                questions, answers, ..
            } => (questions, answers),
        };
        let died = |_| Failure::Died;
        let mut line = serde_json::to_vec(question).map_err(|_| Failure::Died)?;
        line.push(b'\n');
        questions.write_all(&line).map_err(died)?;
        let asked = Instant::now();
        loop {
            let mut fds = [PollFd::new(answers.get_ref(), PollFlags::IN)];
            match poll(&mut fds, Some(&TICK)) {
                Ok(0) if asked.elapsed() > PATIENCE => return Err(Failure::TooSlow),
                Ok(0) | Err(rustix::io::Errno::INTR) => meanwhile(),
                Ok(_) => break,
                Err(_) => return Err(Failure::Died),
            }
        }
        let mut line = Vec::new();
        answers.read_until(b'\n', &mut line).map_err(died)?;
        serde_json::from_slice(&line).map_err(|_| Failure::Died)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if let Other::Process { child, .. } = self {
            // It is ours, and may be stuck.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
