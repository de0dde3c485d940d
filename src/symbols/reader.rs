//! The thread that reads other people's files. What is wrong with them cannot take the command down: a panic of a parser
//! is caught there, it has stack enough for absurdly nested debug information, and if it does not come back it is left alone.

use super::file::File;
use super::locate::{Locator, Trouble, Wanted};
use super::places::Places;
use oomhook_report::Symbol;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Its thread's name.
const NAME: &str = "symbols";
/// Its stack. It takes no memory before it is used.
const STACK: usize = 1 << 30;
/// Nobody waits longer for one answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the one who waits may do something else.
const TICK: Duration = Duration::from_millis(50);

/// What is asked: the functions at an address of a library.
pub struct Question {
    /// The library, by a number of the caller's.
    pub number: usize,
    /// What was recorded of it.
    pub wanted: Wanted,
    /// The address.
    pub address: u64,
}

/// What is answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The functions, innermost inlined first.
    pub symbols: Vec<Symbol>,
    /// What the user should know.
    pub trouble: Option<Trouble>,
    /// Nothing of this library will ever have a name.
    pub is_final: bool,
}

impl From<Trouble> for Answer {
    fn from(trouble: Trouble) -> Answer {
        Answer {
            symbols: Vec::new(),
            trouble: Some(trouble),
            is_final: true,
        }
    }
}

/// Asks the thread, which is started with the first question.
#[derive(Default)]
pub struct Reader {
    places: Places,
    line: Option<(Sender<Question>, Receiver<Answer>)>,
}

impl Reader {
    /// Will look in these places.
    pub fn new(places: Places) -> Reader {
        Reader { places, line: None }
    }

    /// Asks and waits; `meanwhile` is called now and then.
    pub fn ask(&mut self, question: Question, meanwhile: impl FnMut()) -> Answer {
        let path = question.wanted.path.clone();
        let line = match self.line.take() {
            Some(line) => Some(line),
            None => start(self.places.clone()),
        };
        let answer = line.and_then(|line| {
            let answer = wait(&line, question, meanwhile)?;
            self.line = Some(line);
            Some(answer)
        });
        answer.unwrap_or_else(|| Trouble::TooSlow(path).into())
    }
}

fn wait(
    (questions, answers): &(Sender<Question>, Receiver<Answer>),
    question: Question,
    mut meanwhile: impl FnMut(),
) -> Option<Answer> {
    questions.send(question).ok()?;
    let asked = Instant::now();
    loop {
        match answers.recv_timeout(TICK) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Timeout) if asked.elapsed() < PATIENCE => meanwhile(),
            Err(_) => return None,
        }
    }
}

fn start(places: Places) -> Option<(Sender<Question>, Receiver<Answer>)> {
    be_silent();
    let (questions, asked) = channel();
    let (answers, answered) = channel();
    // Under a limit of address space a smaller stack must do.
    let asked = std::sync::Arc::new(std::sync::Mutex::new(asked));
    let started = [STACK, STACK >> 4, STACK >> 8].iter().any(|stack| {
        let (asked, answers, places) = (asked.clone(), answers.clone(), places.clone());
        let builder = thread::Builder::new().name(NAME.into()).stack_size(*stack);
        let serve = move || {
            if let Ok(asked) = asked.lock() {
                serve(&Locator::new(places), &asked, &answers);
            }
        };
        builder.spawn(serve).is_ok()
    });
    started.then_some((questions, answered))
}

/// A panic over a damaged file is answered, not printed.
fn be_silent() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(NAME) {
                before(info);
            }
        }));
    });
}

fn serve(locator: &Locator, asked: &Receiver<Question>, answers: &Sender<Answer>) {
    let mut files: HashMap<usize, Result<File, Trouble>> = HashMap::new();
    while let Ok(question) = asked.recv() {
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let Question {
                number,
                wanted,
                address,
            } = &question;
            let file = files
                .entry(*number)
                .or_insert_with(|| File::open(locator, wanted));
            match file {
                Ok(file) => Answer {
                    symbols: file.name(*address),
                    trouble: file.trouble.clone(),
                    is_final: false,
                },
                Err(trouble) => trouble.clone().into(),
            }
        }));
        let answer = answered.unwrap_or_else(|_| {
            let trouble = Trouble::Damaged(question.wanted.path.clone());
            files.insert(question.number, Err(trouble.clone()));
            trouble.into()
        });
        if answers.send(answer).is_err() {
            return;
        }
    }
}
