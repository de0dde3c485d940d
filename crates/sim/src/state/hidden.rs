//! Device memory that calls take without saying so: first launches, streams, executable graphs.

use super::{Driver, Stream, Thread};
use crate::abi::Handle;
use crate::abi::graph::NODE_KERNEL;
use crate::codes::Answer;
use crate::settings::Settings;

/// Of so many streams one takes memory.
const STREAMS: u64 = 4;

/// What each takes.
#[derive(Debug)]
pub(super) struct Costs {
    launch: u64,
    pub(super) function: u64,
    stream: u64,
    graph_exec: u64,
}

impl Costs {
    pub(super) fn new(settings: &Settings) -> Costs {
        Costs {
            launch: settings.launch,
            function: settings.function,
            stream: settings.stream,
            graph_exec: settings.graph_exec,
        }
    }
}

impl Driver {
    /// A launch of a known function. In a capture it is a node, and takes nothing yet.
    pub fn launch(&mut self, thread: Thread, function: Handle, stream: Stream) -> Answer<()> {
        self.known_function(function)?;
        let found = self.work(thread, stream)?;
        if found.capture.is_none() {
            self.pay_for_launch(found.context)?;
            self.pay_for_function(function, found.context)?;
        }
        self.enqueue(thread, stream, NODE_KERNEL)
    }

    fn pay_for_launch(&mut self, handle: Handle) -> Answer<()> {
        let context = &self.contexts[&handle];
        if context.launched {
            return Ok(());
        }
        let (device, cost) = (context.device, self.hidden.launch);
        self.take(device, cost)?;
        if let Some(context) = self.contexts.get_mut(&handle) {
            context.launched = true;
            context.hidden += cost;
        }
        Ok(())
    }

    /// Each fourth stream takes memory, which stays until the context ends.
    pub(super) fn pay_for_stream(&mut self, handle: Handle) -> Answer<()> {
        let context = &self.contexts[&handle];
        let (device, number) = (context.device, context.streams + 1);
        let cost = if number.is_multiple_of(STREAMS) {
            self.hidden.stream
        } else {
            0
        };
        self.take(device, cost)?;
        if let Some(context) = self.contexts.get_mut(&handle) {
            context.streams = number;
            context.hidden += cost;
        }
        Ok(())
    }

    /// For an executable graph, in the current context if there is one.
    pub(super) fn pay_for_exec(&mut self, thread: Thread) -> Answer<Option<(Handle, u64)>> {
        let Ok(context) = self.current(thread) else {
            return Ok(None);
        };
        let cost = self.hidden.graph_exec;
        self.take(self.device_of(context), cost)?;
        Ok(Some((context, cost)))
    }

    /// An executable graph gives back what it took by itself, unless its context has.
    pub(super) fn refund_exec(&mut self, exec: Handle) {
        let own = self.execs.get_mut(&exec).and_then(|exec| exec.own.take());
        if let Some((context, cost)) = own {
            self.give(self.device_of(context), cost);
        }
    }

    /// What executable graphs took in a context that is ending, whose device the caller knows.
    pub(super) fn end_execs_of(&mut self, context: Handle, device: usize) {
        let mut back = 0;
        for exec in self.execs.values_mut() {
            if let Some((_, cost)) = exec.own.take_if(|(own, _)| *own == context) {
                back += cost;
            }
        }
        self.give(device, back);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Driver, Stream, Thread};
    use crate::settings::Settings;

    const MIB: u64 = 1 << 20;

    fn scene(memory: u64) -> (Driver, Thread) {
        let mut driver = Driver::new(&Settings {
            memory,
            launch: 90 * MIB,
            function: 2 * MIB,
            stream: 3 * MIB,
            graph_exec: 8 * MIB,
            ..Settings::default()
        });
        let context = driver.retain_primary(0).unwrap();
        driver.set_current(Thread(1), context).unwrap();
        (driver, Thread(1))
    }

    fn used(driver: &Driver) -> u64 {
        driver.total(0) - driver.free_memory(0)
    }

    #[test]
    fn first_launches_take_memory_once() {
        let (mut driver, thread) = scene(16 << 30);
        let module = driver.load_module(thread, b"\x7fELF").unwrap();
        let [one, two] = ["one", "two"].map(|name| driver.module_function(module, name).unwrap());
        for (function, taken) in [(one, 92), (one, 92), (two, 94), (one, 94)] {
            driver.launch(thread, function, Stream::LEGACY).unwrap();
            assert_eq!(used(&driver), taken * MIB);
        }
        assert_eq!(driver.launch(thread, 7, Stream::LEGACY).unwrap_err().0, 400);
        // Those of functions go with their module, and all of it with the context.
        driver.unload_module(module, false).unwrap();
        assert_eq!(used(&driver), 90 * MIB);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(used(&driver), 0);
    }

    #[test]
    fn a_kernel_takes_memory_in_each_context() {
        let (mut driver, thread) = scene(16 << 30);
        let library = driver.load_library(thread, b"\x7fELF").unwrap();
        let kernel = driver.library_kernel(library, "kernel").unwrap();
        driver.launch(thread, kernel, Stream::LEGACY).unwrap();
        let second = driver.create_context(thread, 0, 0).unwrap();
        driver.launch(thread, kernel, Stream::LEGACY).unwrap();
        assert_eq!(used(&driver), 184 * MIB);
        driver.destroy_context(thread, second).unwrap();
        assert_eq!(used(&driver), 92 * MIB);
    }

    #[test]
    fn a_launch_that_does_not_fit_is_tried_again() {
        let (mut driver, thread) = scene(100 * MIB);
        let module = driver.load_module(thread, b"\x7fELF").unwrap();
        let function = driver.module_function(module, "one").unwrap();
        let block = driver.alloc(thread, 9 * MIB).unwrap();
        let refused = driver.launch(thread, function, Stream::LEGACY);
        assert_eq!((refused.unwrap_err().0, used(&driver)), (2, 99 * MIB));
        driver.free(thread, block).unwrap();
        driver.launch(thread, function, Stream::LEGACY).unwrap();
        assert_eq!(used(&driver), 92 * MIB);
    }

    #[test]
    fn each_fourth_stream_takes_memory_that_stays() {
        let (mut driver, thread) = scene(16 << 30);
        let streams: Vec<_> = (1..=9)
            .map(|number| {
                let stream = driver.create_stream(thread, 0, 0).unwrap();
                assert_eq!(used(&driver), number / 4 * 3 * MIB);
                stream
            })
            .collect();
        for stream in streams {
            driver.destroy_stream(stream).unwrap();
        }
        assert_eq!(used(&driver), 6 * MIB);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(used(&driver), 0);
    }

    #[test]
    fn executable_graphs_take_memory_while_they_are_there() {
        let (mut driver, thread) = scene(20 * MIB);
        let graph = driver.create_graph();
        let make = |driver: &mut Driver| driver.instantiate(thread, graph, 0, None);
        let first = make(&mut driver).unwrap();
        let second = make(&mut driver).unwrap();
        assert_eq!(used(&driver), 16 * MIB);
        assert_eq!(make(&mut driver).unwrap_err().0, 2);
        driver.destroy_exec(first).unwrap();
        assert_eq!(used(&driver), 8 * MIB);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(used(&driver), 0);
        driver.destroy_exec(second).unwrap();
        assert_eq!(used(&driver), 0);
    }
}
