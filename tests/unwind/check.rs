//! A library that unwinds its caller's stack twice, by our own walk and by libgcc's, and ends the process where they
//! differ. The test programs beside it call it from stacks of every kind.

#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    reason = "a part of the library's modules is used"
)]

#[path = "../../src/preload"]
mod preload {
    pub mod cancel;
    pub mod libraries;
    pub mod loader;
    pub mod doors {
        pub mod elf;
    }
    pub mod stack {
        pub mod kept;
        pub mod native;
        mod readable;
        mod reads;
        mod room;
    }
}

use preload::libraries;
use preload::stack::kept::{Kept, Zeroed};
use preload::stack::native::{self, Frame, Frames, MOST_FRAMES, walk};
use std::ffi::c_long;

/// What a thread keeps from check to check, as it does from capture to capture.
struct State {
    latest: walk::Unchanged,
    frames: Frames,
}

// SAFETY: a list without items, and what says of itself that it may be zeroes.
unsafe impl Zeroed for State {}

thread_local! {
    static STATE: Kept<State> = const { Kept::new() };
}

/// Compares the two walks of the calling thread's stack. The number of frames; negative if our own walk left the stack to
/// libgcc's.
#[unsafe(no_mangle)]
pub extern "C" fn unwind_check() -> c_long {
    static READY: std::sync::Once = std::sync::Once::new();
    READY.call_once(|| {
        libraries::now();
        // Without it the holder of an address is found in the list of loaded objects, as with a glibc before 2.35.
        if std::env::var_os("UNWIND_CHECK_BY_LIST").is_none() {
            native::warm_up();
        }
    });
    let counts = libraries::now();
    let mut theirs = Frames::new(MOST_FRAMES);
    native::libgcc::capture(&mut theirs);
    let length = theirs.len();
    STATE.with(|state| {
        state.with(|state| {
            let state = state.expect("memory");
            // As the rules are found, as the cache has them, as what the walk reads is noted, and as it is not done at all.
            for look in 0..4 {
                let mut frames = Frames::new(MOST_FRAMES);
                match walk::capture(counts.unloads, &mut frames, &mut state.latest, look == 2) {
                    Ok(walk::Found::Frames) => state.frames = frames,
                    Ok(walk::Found::Same) => {}
                    Err(_) => return -(length as c_long),
                }
                let ours = &state.frames;
                if ours[..] != theirs[..] {
                    tell(look, ours, &theirs);
                }
            }
            length as c_long
        })
    })
}

/// Compares, and expects our own walk to do it all.
#[unsafe(no_mangle)]
pub extern "C" fn unwind_check_ours() {
    let length = unwind_check();
    if length <= 0 {
        eprintln!("a stack of {} frames was left to libgcc", -length);
        std::process::abort();
    }
}

fn tell(look: u32, ours: &[Frame], theirs: &[Frame]) -> ! {
    let objects = libraries::loaded_now();
    let place = |frame: Option<&Frame>| match frame {
        None => "nothing".to_owned(),
        Some(frame) => {
            let holder = objects
                .iter()
                .find(|object| (object.start..object.end).contains(&frame.address));
            let place = match holder {
                Some(object) => format!("{}+{:#x}", object.path, frame.address - object.bias),
                None => format!("{:#x}", frame.address),
            };
            format!("{place} (stack {:#x})", frame.stack)
        }
    };
    eprintln!(
        "look {look}: {} frames of ours, {} of libgcc's",
        ours.len(),
        theirs.len()
    );
    for at in 0..ours.len().max(theirs.len()) {
        let (a, b) = (ours.get(at), theirs.get(at));
        let mark = if a == b { ' ' } else { '!' };
        eprintln!("{mark} {at:3} {:<60} {}", place(a), place(b));
    }
    std::process::abort();
}
