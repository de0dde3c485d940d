//! Stream capture: what is legal while it goes on, and what breaks it.

use super::{Driver, Stream, Thread};
use crate::abi::Handle;
use crate::codes::{Answer, Code, require};

/// `CUstreamCaptureMode`: of a capture, and of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub fn from_number(number: i32) -> Answer<Mode> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub fn number(self) -> i32 {
        self as i32
    }
}

/// `CUstreamCaptureStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    None,
    Active,
    Invalidated,
}

#[derive(Debug)]
pub(super) struct Capture {
    origin: Handle,
    thread: Thread,
    mode: Mode,
    pub(super) status: Status,
    pub(super) graph: Handle,
    /// Whether the graph is the capture's, and goes with it if it breaks.
    own_graph: bool,
}

/// What `cuStreamGetCaptureInfo` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub status: Status,
    pub id: u64,
    pub graph: Handle,
}

impl Driver {
    /// Refuses a call that a capture does not allow, and breaks the captures that it offends.
    pub(super) fn refuse_in_capture(&mut self, thread: Thread) -> Answer<()> {
        if self.captures.is_empty() {
            return Ok(());
        }
        let mode = self.thread(thread).mode;
        let offends = |capture: &Capture| match mode {
            Mode::Relaxed => false,
            Mode::ThreadLocal => capture.thread == thread && capture.mode != Mode::Relaxed,
            Mode::Global => {
                capture.mode == Mode::Global
                    || capture.thread == thread && capture.mode != Mode::Relaxed
            }
        };
        let offended: Vec<u64> = self
            .captures
            .iter()
            .filter(|(_, c)| offends(c))
            .map(|(&id, _)| id)
            .collect();
        if offended.is_empty() {
            return Ok(());
        }
        self.invalidate(&offended);
        Err(Code::CAPTURE_UNSUPPORTED)
    }

    pub(super) fn invalidate(&mut self, captures: &[u64]) {
        for id in captures {
            if let Some(capture) = self.captures.get_mut(id) {
                capture.status = Status::Invalidated;
            }
        }
    }

    /// Sets the mode of a thread and gives the one before.
    pub fn exchange_mode(&mut self, thread: Thread, mode: Mode) -> Mode {
        std::mem::replace(&mut self.thread(thread).mode, mode)
    }

    /// Begins a capture, into a graph that is given or a new one.
    pub fn begin_capture(
        &mut self,
        thread: Thread,
        stream: Stream,
        mode: Mode,
        into: Option<Handle>,
    ) -> Answer<()> {
        let found = self.find_stream(thread, stream)?;
        let origin = found.handle.ok_or(Code::CAPTURE_UNSUPPORTED)?;
        if found.capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        if let Some(graph) = into {
            require(self.graph(graph)?.capture.is_none())?;
        }
        let graph = into.unwrap_or_else(|| self.create_graph());
        // A handle never comes twice, so it serves as the number of the capture.
        let id = self.new_handle() as u64;
        self.graph(graph)?.capture = Some(id);
        let capture = Capture {
            origin,
            thread,
            mode,
            status: Status::Active,
            graph,
            own_graph: into.is_none(),
        };
        self.captures.insert(id, capture);
        if let Some(state) = self.streams.get_mut(&origin) {
            state.capture = Some(id);
        }
        Ok(())
    }

    /// Ends a capture and gives its graph; a broken one ends too, without a graph.
    pub fn end_capture(&mut self, thread: Thread, stream: Stream) -> Answer<Handle> {
        let found = self.find_stream(thread, stream)?;
        let id = found.capture.ok_or(Code::ILLEGAL_STATE)?;
        let capture = &self.captures[&id];
        if Some(capture.origin) != found.handle {
            self.invalidate(&[id]);
            return Err(Code::CAPTURE_UNMATCHED);
        }
        if capture.thread != thread && capture.mode != Mode::Relaxed {
            return Err(Code::CAPTURE_WRONG_THREAD);
        }
        let (status, graph) = (capture.status, capture.graph);
        if status == Status::Invalidated {
            self.drop_capture(id);
            return Err(Code::CAPTURE_INVALIDATED);
        }
        self.leave_capture(id);
        Ok(graph)
    }

    fn leave_capture(&mut self, id: u64) {
        let Some(capture) = self.captures.remove(&id) else {
            return;
        };
        if let Some(graph) = self.graphs.get_mut(&capture.graph) {
            graph.capture = None;
        }
        for stream in self.streams.values_mut().filter(|s| s.capture == Some(id)) {
            stream.capture = None;
        }
        for event in self.events.values_mut().filter(|e| e.capture == Some(id)) {
            event.capture = None;
        }
    }

    /// Ends a capture without a graph.
    pub(super) fn drop_capture(&mut self, id: u64) {
        if let Some(capture) = self.captures.get(&id) {
            let (graph, own) = (capture.graph, capture.own_graph);
            self.leave_capture(id);
            if own {
                self.drop_graph(graph);
            }
        }
    }

    /// What a stream captures. Asking the legacy stream is refused while a blocking one captures.
    pub fn capture_info(&mut self, thread: Thread, stream: Stream) -> Answer<Info> {
        let found = self.find_stream(thread, stream)?;
        if found.handle.is_none() && !self.blocking_captures(found.context).is_empty() {
            return Err(Code::CAPTURE_IMPLICIT);
        }
        let capture = found.capture.map(|id| (id, &self.captures[&id]));
        Ok(match capture {
            Some((id, capture)) => Info {
                status: capture.status,
                id,
                graph: capture.graph,
            },
            None => Info {
                status: Status::None,
                id: 0,
                graph: 0,
            },
        })
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
