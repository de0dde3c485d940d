//! What reports make of the program's own lines.

mod common;

use common::{GIB, MIB, World};
use oomhook_report::text::{self, Style};
use oomhook_trace::Record;
use oomhook_trace::told::LogLine;

fn say(world: &mut World, text: &str, late: bool) {
    world.record(Record::LogLine(LogLine {
        time_ns: 0,
        thread: 0,
        stream: 2,
        late,
        text: text.to_owned(),
    }));
}

/// Steps of which the seventh needs twice as much.
fn training(world: &mut World) {
    let step = world.from("step()", "/src/train.cpp", 12);
    for number in 0..9 {
        let length = if number < 6 { 1024 } else { 2048 };
        let block = world.malloc(step, length * MIB);
        world.free(step, block);
        say(
            world,
            &format!("step={number} seq_len={length} loss=nan"),
            false,
        );
    }
}

fn rendered(world: &mut World, width: usize) -> String {
    let style = Style {
        width,
        ..Style::default()
    };
    text::render(&world.report(), &style)
}

#[test]
fn a_jump_is_told_once_wherever_it_belongs() {
    let words = "peak rose from 1.0 GiB to 2.0 GiB where seq_len went 1024 \u{2192} 2048 (step 6)";
    let mut world = World::new();
    training(&mut world);
    let mut failed = World::new();
    training(&mut failed);
    let step = failed.from("step()", "/src/train.cpp", 12);
    failed.fails(step, 20 * GIB, 15 * GIB);
    failed.exits(1);
    world.exits(0);
    for world in [&mut world, &mut failed] {
        let text = rendered(world, 160);
        assert_eq!(text.matches(words).count(), 1, "{text}");
    }
    let text = rendered(&mut failed, 160);
    let said = "said     step=7 seq_len=2048 loss=nan\n           step=8 seq_len=2048 loss=nan\n";
    assert!(text.contains(said), "{text}");
    assert!(!rendered(&mut world, 160).contains("said"));
}

#[test]
fn the_json_has_lines_steps_and_jumps() {
    let mut world = World::new();
    training(&mut world);
    say(&mut world, "from a buffer", true);
    let step = world.from("step()", "/src/train.cpp", 12);
    world.fails(step, 20 * GIB, 15 * GIB);
    world.exits(1);
    let json = serde_json::to_value(world.report()).expect("JSON");
    assert_eq!(json["log"]["count"], 10);
    let line = &json["log"]["lines"][9];
    assert_eq!(
        (&line["late"], &line["stream"]),
        (&true.into(), &"stderr".into())
    );
    assert!(line["live_bytes"].is_null() && json["log"]["lines"][8]["live_bytes"] == 0);
    let row = &json["log"]["steps"][8];
    // What is no number is null.
    let keys = serde_json::to_string(&row["keys"]).expect("JSON");
    assert_eq!(keys, "{\"loss\":null,\"seq_len\":2048,\"step\":8}");
    assert_eq!(
        (&row["peak_bytes"], &row["allocated_bytes"]),
        (&(2 * GIB).into(), &serde_json::Value::Null)
    );
    let jump = &json["log"]["jumps"][0];
    assert_eq!(
        (&jump["from_bytes"], &jump["to_bytes"]),
        (&GIB.into(), &(2 * GIB).into())
    );
    assert_eq!(jump["step"]["number"], "6");
    assert_eq!(json["oom"][0]["jump"], *jump);
    assert_eq!(json["oom"][0]["log"][7]["text"], "from a buffer");
}

#[test]
fn no_line_of_the_programs_breaks_the_page() {
    let mut world = common::bad_day(false);
    training(&mut world);
    for line in [
        "\u{1b}[31mred\u{202e}",
        &"wide \u{4e16}\u{754c} ".repeat(60),
        "a\tb\u{7}",
    ] {
        say(&mut world, line, false);
    }
    say(&mut world, "from a buffer", true);
    let step = world.from("step()", "/src/train.cpp", 12);
    world.fails(step, 20 * GIB, 11 * GIB);
    world.exits(1);
    for width in [60, 80, 160] {
        let text = rendered(&mut world, width);
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text}");
        assert!(text.contains("(some time before) from a buffer"), "{text}");
        let most = if width < 80 { 52 } else { 44 };
        assert!(
            text.lines().count() <= most,
            "{}: {text}",
            text.lines().count()
        );
        for line in text
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("next: "))
        {
            assert!(text::label::width(line) <= width, "{width}: {line}");
        }
    }
}
