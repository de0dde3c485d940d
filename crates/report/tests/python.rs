//! Python frames in reports: who is the site, which line is shown, what is folded.

mod common;

use common::{C10, CUDART, LIBC, MIB, PYTHON, TORCH, World};
use oomhook_report::Depth;
use oomhook_report::resolve::Resolver;
use oomhook_report::schema::Language;
use oomhook_report::table::{self, At, By, Layer};
use oomhook_report::text::{self, Style};
use oomhook_trace::Record;

const PACKAGE: &str = "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py";
const SCRIPT: &str = "/home/me/train.py";

/// A forward pass of a model: PyTorch's allocation below a module of PyTorch below a line of the script.
fn forward(world: &mut World, line: u32) -> u32 {
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let cache = world.frame(C10, &[("c10::cuda::f(bool)", "", 0)]);
    let torch = world.frame(TORCH, &[("at::detail::empty_cuda(int)", "", 0)]);
    let module = world.python("Linear.forward", PACKAGE, 125);
    let evaluation = world.frame(PYTHON, &[("_PyEval_EvalFrameDefault", "", 0)]);
    let own = world.python("Trainer.step.<locals>.<lambda>", SCRIPT, line);
    let start = world.frame(LIBC, &[("__libc_start_main", "", 0)]);
    world.stack(&[runtime, cache, torch, module, evaluation, own, start])
}

#[test]
fn a_native_site_is_shown_with_the_line_of_the_script() {
    for depth in [Depth::Whole, Depth::ToSite] {
        let mut world = World::new();
        world.facts.depth = depth;
        for (line, blocks) in [(88, 3), (90, 1)] {
            let stack = forward(&mut world, line);
            for _ in 0..blocks {
                world.malloc(stack, 2 * MIB);
            }
        }
        world.exits(0);
        let report = world.report();
        let site = &report.leaks[0].site;
        assert_eq!(
            (&*site.site, &*site.library),
            ("at::detail::empty_cuda", "libtorch_cuda.so")
        );
        assert_eq!(site.via, Some("libc10_cuda"));
        let line = "train.py:88 Trainer.step.<locals>.<lambda>";
        assert_eq!(site.python_site.as_deref(), Some(line));
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["leaks"][0]["python_site"], line);
        // Each line of the script is a row.
        let text = text::render(
            &report,
            &Style {
                width: 100,
                ..Style::default()
            },
        );
        for row in [
            "   6.0 MiB   75.0%         3  at::detail::empty_cuda < train.py:88 Trainer.step.<locals>.<lambda>",
            "   2.0 MiB   25.0%         1  at::detail::empty_cuda < train.py:90 Trainer.step.<locals>.<lambda>",
        ] {
            assert!(text.lines().any(|line| line == row), "{text}");
        }
        let narrow = text::render(&report, &Style::default());
        assert!(
            narrow.contains("at::detail::empty_cuda < train.py:88\n"),
            "{narrow}"
        );
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
    }
}

#[test]
fn an_installed_line_is_shown_if_there_is_no_other() {
    let mut world = World::new();
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let frozen = world.python(
        "_call_with_frames_removed",
        "<frozen importlib._bootstrap>",
        241,
    );
    let module = world.python("Linear.forward", PACKAGE, 125);
    let stack = world.stack(&[runtime, frozen, module]);
    world.malloc(stack, MIB);
    world.exits(0);
    let report = world.report();
    // With nothing native in between, the site is the line itself.
    let site = &report.leaks[0].site;
    assert_eq!(&*site.site, "Linear.forward");
    assert_eq!(&*site.label, "linear.py:125 Linear.forward");
    assert_eq!(&*site.library, "python");
    assert_eq!(site.python_site.as_ref(), Some(&site.label));
    let text = text::render(&report, &Style::default());
    assert!(text.contains("1  linear.py:125 Linear.forward\n"), "{text}");
}

#[test]
fn stacks_fold_the_interpreter_and_mark_what_was_left_out() {
    let mut world = World::new();
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let own = world.python("deep", SCRIPT, 7);
    world.record(Record::LeftOut {
        id: 900,
        frames: 1872,
    });
    let outer = world.python("<module>", SCRIPT, 9);
    let evaluation = world.frame(PYTHON, &[("_PyEval_EvalFrameDefault", "", 0)]);
    let start = world.frame(LIBC, &[("__libc_start_main", "", 0)]);
    let stack = world.stack(&[runtime, own, 900, outer, evaluation, start]);
    world.malloc(stack, MIB);
    // Without Python frames there is nothing that says the same.
    let bare = world.stack(&[runtime, evaluation, start]);
    world.malloc(bare, MIB / 2);
    world.exits(0);
    let report = world.report();
    let frames = &report.leaks[0].site.stack;
    assert_eq!(frames.len(), 6, "JSON has all");
    assert_eq!(frames[2].language, Language::Python);
    assert_eq!(frames[2].label(), "... 1,872 Python frames left out ...");
    let mut render = |all_frames| {
        let style = Style {
            all_frames,
            ..Style::default()
        };
        let mut resolver =
            Resolver::new(world.ledger.definitions(), &mut world.names, Depth::Whole);
        let groups = table::group(
            &world.ledger,
            &mut resolver,
            By::Stack,
            At::Exit,
            Layer::Driver,
        );
        table::render(&groups, &mut resolver, "", "Live", &style)
    };
    assert_eq!(
        render(false),
        "Live\n     bytes   share    blocks  where\n\
         \x20  1.0 MiB   66.7%         1  train.py:7 deep\n\
         \x20       cudaMalloc [libcudart.so.13]\n\
         \x20       train.py:7 deep\n\
         \x20       ... 1,872 Python frames left out ...\n\
         \x20       train.py:9 <module>\n\
         \x20       __libc_start_main [libc.so.6]\n\
         \x20512.0 KiB   33.3%         1  _PyEval_EvalFrameDefault\n\
         \x20       cudaMalloc [libcudart.so.13]\n\
         \x20       _PyEval_EvalFrameDefault\n\
         \x20       __libc_start_main [libc.so.6]\n\
         \x20           1 frame of the interpreter folded (--all-frames shows them)\n"
    );
    assert_eq!(render(true).matches("_PyEval_EvalFrameDefault").count(), 3);
}

#[test]
fn frames_whose_code_is_lost_are_just_python() {
    let mut world = World::new();
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    world.record(Record::PythonFrame {
        id: 900,
        code: 77,
        line: 3,
    });
    let stack = world.stack(&[runtime, 900]);
    world.malloc(stack, MIB);
    world.exits(0);
    let report = world.report();
    assert_eq!(&*report.leaks[0].site.label, "python");
    assert_eq!(report.leaks[0].site.stack[1].line, Some(3));
}

#[test]
fn names_with_control_characters_do_not_reach_the_terminal() {
    let mut world = World::new();
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let odd = world.python("\u{1b}[31mred\n", "/home/\u{7}/a\tb.py", 1);
    let stack = world.stack(&[runtime, odd]);
    world.malloc(stack, MIB);
    world.exits(0);
    let text = text::render(&world.report(), &Style::default());
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(text.contains("a\\u{9}b.py:1"), "{text}");
}
