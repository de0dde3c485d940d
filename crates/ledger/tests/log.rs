//! The program's own lines beside its memory: what is a step, where memory jumps, what is silence; and that a checkpoint loses none
//! of it.

mod common;

use common::{GIB, MIB, Story};
use oomhook_ledger::Ledger;
use oomhook_ledger::log::Jump;
use oomhook_trace::Record;
use oomhook_trace::told::{LogLine, Tensor, TensorWhat};

/// A program that says what it does.
struct Program {
    story: Story,
    time_ns: u64,
}

impl Program {
    fn new() -> Program {
        Program {
            story: Story::new(),
            time_ns: 0,
        }
    }

    fn record(&mut self, record: Record) {
        self.story.ledger.apply(&record);
        self.story.records.push(record);
    }

    fn line(&mut self, text: &str, late: bool) {
        self.time_ns += 1;
        let line = LogLine {
            time_ns: self.time_ns,
            thread: 0,
            stream: 1,
            late,
            text: text.to_owned(),
        };
        self.record(Record::LogLine(line));
    }

    /// A step that needs so many MiB for a moment, and then says this.
    fn step(&mut self, mib: u64, text: &str) {
        self.story.malloc(1, 0x1000, mib * MIB);
        self.story.free(1, 0x1000);
        self.line(text, false);
    }

    /// The same inside a framework's cache.
    fn step_in_cache(&mut self, mib: u64, text: &str) {
        for (what, allocated) in [
            (
                TensorWhat::Alloc {
                    address: 0x10,
                    bytes: mib * MIB,
                },
                mib * MIB,
            ),
            (
                TensorWhat::Free {
                    address: 0x10,
                    bytes: mib * MIB,
                },
                0,
            ),
        ] {
            self.record(Record::Tensor(Tensor {
                time_ns: self.time_ns,
                thread: 0,
                device: 0,
                stack: 1,
                what,
                allocated,
                reserved: 8 * GIB,
            }));
        }
        self.line(text, false);
    }

    fn jumps(&self) -> Vec<&Jump> {
        self.story.ledger.log().steps().jumps().collect()
    }

    /// Each jump in a few words.
    fn told(&self) -> Vec<String> {
        let jumps = self.jumps().into_iter();
        jumps
            .map(|jump| {
                let keys = jump.keys.iter();
                let keys: Vec<String> = keys
                    .map(|key| format!("{} {}>{}", key.key, key.before, key.after))
                    .collect();
                let step = jump.counter.as_ref().map_or("", |counter| &counter.1);
                format!(
                    "{}>{} at {step}: {}",
                    jump.from / MIB,
                    jump.to / MIB,
                    keys.join(", ")
                )
            })
            .collect()
    }
}

#[test]
fn a_jump_names_what_had_been_the_same() {
    let mut program = Program::new();
    for step in 0..10 {
        let length = if step < 6 { 1024 } else { 2048 };
        program.step(
            length,
            &format!(
                "step={step} loss=0.{step}1 seq_len={length} world=8 time={}ms",
                90 + step % 3
            ),
        );
    }
    assert_eq!(program.told(), ["1024>2048 at 6: seq_len 1024>2048"]);
    assert!(!program.jumps()[0].of_cache);
}

#[test]
fn of_a_cache_what_it_handed_out_counts() {
    let mut program = Program::new();
    program.story.malloc(1, 0x9000, 8 * GIB);
    for step in 0..10 {
        let size = if step == 7 { 64 } else { 16 };
        program.step_in_cache(
            size * 40,
            &format!("{{'step': {step}, 'batch_size': {size}}}"),
        );
    }
    assert_eq!(program.told(), ["640>2560 at 7: batch_size 16>64"]);
    assert!(program.jumps()[0].of_cache);
    let steps: Vec<_> = program.story.ledger.log().steps().iter().collect();
    assert_eq!(steps.len(), 10);
    assert_eq!(steps[7].peaks.allocated, 2560 * MIB);
    assert_eq!(
        (steps[7].now.live, steps[7].now.cache),
        (8 * GIB, Some((0, 8 * GIB)))
    );
}

#[test]
fn sizes_that_change_all_the_time_are_named_when_they_are_the_highest() {
    let mut program = Program::new();
    for (step, tokens) in [500, 510, 480, 505, 490, 500, 900, 500]
        .into_iter()
        .enumerate()
    {
        program.step(
            tokens,
            &format!(
                "step {step} | tokens {tokens} | time {} ms | loss {tokens}",
                tokens / 10
            ),
        );
    }
    assert_eq!(program.told(), ["500>900 at 6: tokens 500>900"]);
}

#[test]
fn what_costs_no_memory_is_no_cause() {
    let names = [
        "lr",
        "lr_0",
        "learning_rate",
        "learning rate",
        "loss",
        "val_loss",
        "acc",
        "acc1",
        "Acc@5",
        "accuracy",
        "grad_norm",
        "epoch",
        "time",
        "ETA",
        "speed",
        "it/s",
        "tok/s",
        "mem",
        "memory",
        "gpu_mem",
        "max_mem",
        "gpumem",
        "reserved",
        "allocated",
        "free",
        "gb_free",
        "mem_reserved",
        "tflops",
        "train_loss_step",
    ];
    for name in names {
        let mut program = Program::new();
        for step in 0..10 {
            let (mib, number) = if step < 6 { (1024, 3) } else { (2048, 4) };
            program.step(mib, &format!("step={step}, n=8, {name}: {number}"));
        }
        assert_eq!(program.told(), ["1024>2048 at 6: "], "{name}");
    }
    for name in [
        "seq_len",
        "batch_size",
        "accumulation",
        "members_n",
        "frames",
        "beam",
        "n_ctx",
    ] {
        let mut program = Program::new();
        for step in 0..10 {
            let mib = if step < 6 { 1024 } else { 2048 };
            program.step(mib, &format!("step={step}, n=8, {name}: {mib}"));
        }
        let named = format!("1024>2048 at 6: {name} 1024>2048");
        let is_named = program.told() == [named];
        assert_eq!(is_named, name != "members_n", "{name}");
    }
}

#[test]
fn what_came_between_two_steps_may_be_the_cause() {
    let run = |between: &str, always: bool| {
        let mut program = Program::new();
        for step in 0..12 {
            let is_late = step >= 8;
            let n = if is_late { 16 } else { 8 };
            program.step(
                100,
                &format!("step={step} loss=1.5 n={n} lr={}", 3 - u64::from(is_late)),
            );
            if step == 7 {
                program.story.malloc(1, 0x2000, 600 * MIB);
                program.story.free(1, 0x2000);
            }
            if step == 7 || always {
                program.line(between, false);
            }
        }
        program.told().pop().unwrap_or_default()
    };
    for validation in ["epoch=0 val_loss=1.2 n=500", "val loss: 1.2"] {
        assert_eq!(run(validation, false), "100>600 at 8: ");
        // What each step says is no interruption.
        assert_eq!(run(validation, true), "100>600 at 8: n 8>16");
    }
    assert_eq!(run("no numbers here", false), "100>600 at 8: n 8>16");
}

#[test]
fn a_counter_is_a_whole_number_that_rises() {
    let mut program = Program::new();
    for step in 0..40 {
        let length = if step < 30 { 512 } else { 2048 };
        program.step(
            length,
            &format!(
                "Epoch {}: {}/10 [00:01<00:10, v_num=0, train_loss_step=2.{:03}, noise_step={}, seq_len={length}]",
                step / 10,
                step % 10,
                500 - step,
                step % 2,
            ),
        );
    }
    assert_eq!(program.told(), ["512>2048 at 3: seq_len 512>2048"]);
}

#[test]
fn what_is_usual_is_no_jump() {
    // Loading, step by step.
    let mut program = Program::new();
    for shard in 1..30 {
        program.step(500 * shard, &format!("loaded shard={shard} batch={shard}"));
    }
    // Warming up: the second step has the optimizer's state as well.
    for step in 1..30 {
        let mib = if step == 1 { 20_000 } else { 30_000 };
        program.step(
            mib + step * 13 % 7,
            &format!("step={step} loss=1.5 seq_len=1024"),
        );
    }
    // A key that changes without any more memory, small memory that doubles, and lines without a step.
    for step in 30..60 {
        let length = if step < 45 { 1024 } else { 2048 };
        program.step(30_000, &format!("step={step} loss=1.5 seq_len={length}"));
        program.step(1, "some words and 12 numbers 13");
    }
    assert_eq!(program.told(), Vec::<String>::new());
    let mut small = Program::new();
    for step in 0..20 {
        let mib = if step < 10 { 30 } else { 60 };
        small.step(mib, &format!("step={step} n={mib}"));
    }
    assert_eq!(small.told(), Vec::<String>::new());
}

#[test]
fn a_late_line_is_no_step() {
    let mut program = Program::new();
    for step in 0..10 {
        program.story.malloc(1, 0x1000, (1 + step / 8) * GIB);
        program.story.free(1, 0x1000);
        program.line(&format!("step={step} seq_len={}", 1 + step / 8), true);
    }
    let log = program.story.ledger.log();
    assert_eq!((log.count(), log.steps().iter().count()), (10, 0));
    assert!(log.lines().all(|line| line.late && line.figures.is_none()));
    assert_eq!(program.told(), Vec::<String>::new());
}

#[test]
fn a_step_that_says_what_comes_and_fails_is_a_jump() {
    let mut program = Program::new();
    for step in 0..8 {
        program.line(
            &format!("step={step} seq_len={}", if step < 7 { 1024 } else { 4096 }),
            false,
        );
        program.story.malloc(1, 0x1000, GIB);
        if step == 7 {
            program.story.fails(1, None, Some(3 * GIB), 2);
            program.story.fails(1, None, Some(3 * GIB), 2);
        }
        program.story.free(1, 0x1000);
    }
    assert_eq!(program.told(), ["1024>4096 at 7: seq_len 1024>4096"]);
    assert!(program.jumps()[0].failed);
    // It is tried again, and got at last.
    let mut program = Program::new();
    for step in 0..8 {
        let mib = if step < 6 { 1024 } else { 4096 };
        program.line(&format!("step={step} seq_len={mib}"), false);
        if step == 6 {
            program.story.fails(1, None, Some(mib * MIB), 2);
            program.story.fails(1, None, Some(mib * MIB), 2);
        }
        program.story.malloc(1, 0x1000, mib * MIB);
        program.story.free(1, 0x1000);
    }
    assert_eq!(program.told(), ["1024>4096 at 6: seq_len 1024>4096"]);
    assert!(!program.jumps()[0].failed);
    // Where the line tells what was, nobody knows.
    let mut program = Program::new();
    for step in 0..8 {
        program.step(1024, &format!("step={step} seq_len=1024"));
    }
    program.story.fails(1, None, Some(30 * GIB), 2);
    assert_eq!(program.told(), Vec::<String>::new());
    let group = &program.story.ledger.oom().groups()[0];
    let before = program.story.ledger.log().before(group.log);
    assert_eq!(
        before.last().map(|line| &*line.text),
        Some("step=7 seq_len=1024")
    );
}

/// A long life, with all that happens.
fn life(steps: u64) -> Program {
    let mut program = Program::new();
    for step in 0..steps {
        let length = if step % 997 < 900 { 512 } else { 2048 };
        program.step(
            length,
            &format!("iteration {step}/ {steps} | loss: 0.{step} | lr: nan | seq: {length}"),
        );
        if step % 100 == 0 {
            program.step(600, &format!("eval loss={step}.5 ppl=1e{}", step % 7));
            program.line(&format!("late {step}"), true);
        }
        if step % 500 == 499 {
            program.story.fails(1, None, Some(20 * GIB + step), 2);
        }
    }
    program
}

#[test]
fn a_checkpoint_loses_nothing() {
    let program = life(3000);
    let whole = &program.story.ledger;
    assert!(whole.log().steps().jumps().count() >= 1);
    for at in [0, 1, 17, 1000, 3333, program.story.records.len() - 1] {
        let (before, after) = program.story.records.split_at(at);
        let mut ledger = Ledger::default();
        for record in before {
            ledger.apply(record);
        }
        let (state, records) = ledger.checkpoint().expect("JSON");
        let records: Vec<_> = records.collect();
        let mut restored = Ledger::restore(&state, &records).expect("a ledger");
        for record in after {
            restored.apply(record);
        }
        assert!(restored.log() == whole.log(), "at {at}");
    }
}

#[test]
fn of_a_long_life_a_bounded_table_is_left() {
    let program = life(20_000);
    let steps: Vec<_> = program.story.ledger.log().steps().iter().collect();
    assert!((512..=1025).contains(&steps.len()), "{}", steps.len());
    assert!(steps.is_sorted_by_key(|step| step.time_ns));
    let keys = |at: usize| {
        let table = program.story.ledger.log().steps();
        let pairs = table
            .keys(steps[at])
            .map(|(key, number)| format!("{key}={number}"));
        pairs.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(0), "iteration=0 loss=0.0 lr=nan seq=512");
    assert_eq!(
        keys(steps.len() - 1),
        "iteration=19999 loss=0.19999 lr=nan seq=512"
    );
    let (state, _) = program.story.ledger.checkpoint().expect("JSON");
    assert!(state.len() < 600_000, "{}", state.len());
}

#[test]
fn any_text_is_taken() {
    let mut program = Program::new();
    let mut state = 1u64;
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..state % 40 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push(char::from_u32((state >> 40) as u32 % 0x300 + 0x20).unwrap_or('='));
        }
        state = state.wrapping_add(1);
        program.step(1 + state % 3000, &text);
    }
    let log = program.story.ledger.log();
    assert_eq!((log.count(), log.lines().count()), (3000, 64));
}
