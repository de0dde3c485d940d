//! Prints reports, to look at them: `cargo run -p oomhook-report --example look`.

#[path = "../tests/common/mod.rs"]
mod common;

use oomhook_report::text::{self, Style};

fn main() {
    for fatal in [false, true] {
        for width in [80, 160] {
            let report = common::bad_day(fatal).report();
            let style = Style {
                width,
                trace: Some("oomhook.node7.4242.trace".into()),
                ..Style::default()
            };
            println!("{}", "-".repeat(width));
            print!("{}", text::render(&report, &style));
        }
    }
}
