//! Prints reports, to look at them: cargo test -p oomhook-report --test look -- --ignored --nocapture

mod common;

use oomhook_report::text::{self, Style};

#[test]
#[ignore = "for the eye"]
fn look() {
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
