//! What the demo does: a small server loads its model, answers requests, forgets something with each of them, needs a
//! large workspace once, and finally asks for more than there is.
//!
//! | what | bytes | the report must say |
//! |---|---|---|
//! | model | 3 × 64 MiB, kept | live at exit, one-time |
//! | requests | 24 × 4 MiB, kept by mistake | live at exit, growing |
//! | workspace | 256 MiB, at the 12th request | part of the peak only |
//! | last wish | the whole device, once more | out of memory, caught |

use crate::driver::{Block, Driver, Error};
use std::rc::Rc;

/// One mebibyte.
const MIB: usize = 1 << 20;

/// Live at the peak: the model, twelve requests and the workspace.
pub const PEAK: usize = (3 * 64 + 12 * 4 + 256) * MIB;
/// Live at the end: the model and all requests.
pub const LIVE_AT_EXIT: usize = (3 * 64 + 24 * 4) * MIB;

/// A server with a leak.
struct Server {
    driver: Rc<Driver>,
    model: Vec<Block>,
    /// Grows by one with every request: this is the bug.
    history: Vec<Block>,
}

#[inline(never)]
fn load_model(driver: &Rc<Driver>) -> Result<Vec<Block>, Error> {
    let mut model = Vec::new();
    for _ in 0..3 {
        model.push(driver.alloc(64 * MIB)?);
    }
    Ok(model)
}

impl Server {
    #[inline(never)]
    fn answer(&mut self, request: usize) -> Result<(), Error> {
        self.remember()?;
        if request == 12 {
            self.rebuild_index()?;
        }
        Ok(())
    }

    #[inline(never)]
    fn remember(&mut self) -> Result<(), Error> {
        self.history.push(self.driver.alloc(4 * MIB)?);
        Ok(())
    }

    #[inline(never)]
    fn rebuild_index(&self) -> Result<(), Error> {
        let workspace = self.driver.alloc(256 * MIB)?;
        drop(workspace);
        Ok(())
    }

    #[inline(never)]
    fn load_second_model(&self) -> Result<Block, Error> {
        let (_, total) = self.driver.memory_info()?;
        // Taken apart and put together again, so that this function is still on the stack during the call.
        let block = self.driver.alloc(total)?;
        Ok(block)
    }
}

/// Runs the story; its lines go to stdout.
///
/// # Errors
/// When the driver refuses anything but the last wish.
pub fn tell() -> Result<(), Error> {
    let driver = Rc::new(Driver::open()?);
    let model = load_model(&driver)?;
    let mut server = Server {
        driver,
        model,
        history: Vec::new(),
    };
    println!("demo: a model of {} blocks is loaded", server.model.len());
    for request in 1..=24 {
        server.answer(request)?;
    }
    println!(
        "demo: 24 requests are answered; each left 4 MiB behind, the 12th needed 256 MiB more"
    );
    match server.load_second_model() {
        Err(error) if error.is_out_of_memory() => {
            println!("demo: a second model as large as the device does not fit: {error}");
        }
        Err(error) => return Err(error),
        Ok(_) => println!("demo: the device gave more memory than it has"),
    }
    // A real program would end here with its memory still held; so does this one.
    std::mem::forget(server);
    Ok(())
}
