//! Streams and events: everything is done at once, so waiting only has its side effects.

use super::capture::Status;
use super::{Driver, Thread};
use crate::abi::{Handle, STREAM_LEGACY, STREAM_NON_BLOCKING, STREAM_PER_THREAD};
use crate::codes::{Answer, Code, require};

/// A stream as a program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub handle: Handle,
    /// Whether the NULL stream is the thread's own: the functions that end in `_ptsz`.
    pub per_thread: bool,
}

impl Stream {
    #[cfg(test)]
    pub const LEGACY: Stream = Stream {
        handle: 0,
        per_thread: false,
    };
}

#[derive(Debug)]
pub(super) struct StreamState {
    context: Handle,
    flags: u32,
    priority: i32,
    pub(super) capture: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Event {
    context: Handle,
    recorded: bool,
    /// The capture that it was recorded in last.
    pub(super) capture: Option<u64>,
}

/// A stream that was looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// `None`: the legacy stream.
    pub(super) handle: Option<Handle>,
    pub(super) context: Handle,
    pub(super) capture: Option<u64>,
}

impl Driver {
    pub fn create_stream(&mut self, thread: Thread, flags: u32, priority: i32) -> Answer<Handle> {
        let context = self.current(thread)?;
        self.create_stream_in(context, flags, priority)
    }

    pub(super) fn create_stream_in(
        &mut self,
        context: Handle,
        flags: u32,
        priority: i32,
    ) -> Answer<Handle> {
        require(flags <= 1)?;
        self.pay_for_stream(context)?;
        let handle = self.new_handle();
        let stream = StreamState {
            context,
            flags,
            priority,
            capture: None,
        };
        self.streams.insert(handle, stream);
        Ok(handle)
    }

    /// Finds a stream, and creates the thread's own at its first use.
    pub(super) fn find_stream(&mut self, thread: Thread, stream: Stream) -> Answer<Found> {
        let handle = match stream.handle {
            STREAM_LEGACY => None,
            0 if !stream.per_thread => None,
            0 | STREAM_PER_THREAD => Some(self.own_stream(thread)?),
            handle => Some(handle),
        };
        let Some(handle) = handle else {
            let context = self.current(thread)?;
            return Ok(Found {
                handle: None,
                context,
                capture: None,
            });
        };
        let state = self.streams.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        Ok(Found {
            handle: Some(handle),
            context: state.context,
            capture: state.capture,
        })
    }

    fn own_stream(&mut self, thread: Thread) -> Answer<Handle> {
        let context = self.current(thread)?;
        let own = self.thread(thread).streams.get(&context).copied();
        if let Some(own) = own.filter(|own| self.streams.contains_key(own)) {
            return Ok(own);
        }
        let own = self.create_stream(thread, 0, 0)?;
        self.thread(thread).streams.insert(context, own);
        Ok(own)
    }

    /// Finds the stream that work is put into. The legacy stream would wait for blocking streams, so
    /// it is refused while one of them captures; a capture that is broken refuses all work.
    pub(super) fn work(&mut self, thread: Thread, stream: Stream) -> Answer<Found> {
        let found = self.find_stream(thread, stream)?;
        if found.handle.is_none() {
            let caught = self.blocking_captures(found.context);
            if !caught.is_empty() {
                self.invalidate(&caught);
                return Err(Code::CAPTURE_IMPLICIT);
            }
        }
        match found.capture.map(|capture| self.captures[&capture].status) {
            Some(Status::Invalidated) => Err(Code::CAPTURE_INVALIDATED),
            _ => Ok(found),
        }
    }

    /// Captures of streams in a context that wait for the legacy stream.
    pub(super) fn blocking_captures(&self, context: Handle) -> Vec<u64> {
        let streams = self.streams.values();
        let blocking =
            streams.filter(|s| s.context == context && s.flags & STREAM_NON_BLOCKING == 0);
        blocking.filter_map(|stream| stream.capture).collect()
    }

    pub fn destroy_stream(&mut self, handle: Handle) -> Answer<()> {
        let stream = self.streams.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        if let Some(capture) = stream.capture {
            self.invalidate(&[capture]);
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        self.streams.remove(&handle);
        Ok(())
    }

    pub fn synchronise_stream(&mut self, thread: Thread, stream: Stream) -> Answer<()> {
        let device = self.idle_stream(thread, stream)?;
        self.trim_after_wait(device);
        Ok(())
    }

    pub fn query_stream(&mut self, thread: Thread, stream: Stream) -> Answer<()> {
        self.idle_stream(thread, stream).map(|_| ())
    }

    /// Work that a capture of its stream does not allow.
    pub(super) fn idle_work(&mut self, thread: Thread, stream: Stream) -> Answer<Found> {
        let found = self.work(thread, stream)?;
        if let Some(capture) = found.capture {
            self.invalidate(&[capture]);
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        Ok(found)
    }

    /// A stream that may be waited for or asked about now, as its device.
    fn idle_stream(&mut self, thread: Thread, stream: Stream) -> Answer<usize> {
        let found = self.idle_work(thread, stream)?;
        self.refuse_in_capture(thread)?;
        Ok(self.device_of(found.context))
    }

    /// Flags and priority.
    pub fn stream_facts(&mut self, thread: Thread, stream: Stream) -> Answer<(u32, i32, Handle)> {
        let found = self.find_stream(thread, stream)?;
        let state = found.handle.and_then(|handle| self.streams.get(&handle));
        Ok(state.map_or((0, 0, found.context), |s| (s.flags, s.priority, s.context)))
    }

    pub fn create_event(&mut self, thread: Thread) -> Answer<Handle> {
        let context = self.current(thread)?;
        let handle = self.new_handle();
        let event = Event {
            context,
            recorded: false,
            capture: None,
        };
        self.events.insert(handle, event);
        Ok(handle)
    }

    pub fn destroy_event(&mut self, handle: Handle) -> Answer<()> {
        self.events
            .remove(&handle)
            .map(|_| ())
            .ok_or(Code::INVALID_HANDLE)
    }

    pub fn record_event(&mut self, thread: Thread, handle: Handle, stream: Stream) -> Answer<()> {
        self.event(handle)?;
        let found = self.work(thread, stream)?;
        if let Some(event) = self.events.get_mut(&handle) {
            event.recorded = true;
            event.capture = found.capture;
        }
        Ok(())
    }

    fn event(&self, handle: Handle) -> Answer<&Event> {
        self.events.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// An event that may be waited for or asked about now, as its device.
    fn idle_event(&mut self, thread: Thread, handle: Handle) -> Answer<usize> {
        let event = self.event(handle)?;
        let device = self.device_of(event.context);
        if let Some(capture) = event.capture.filter(|id| self.captures.contains_key(id)) {
            self.invalidate(&[capture]);
            return Err(Code::CAPTURED_EVENT);
        }
        self.refuse_in_capture(thread)?;
        Ok(device)
    }

    pub fn query_event(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        self.idle_event(thread, handle).map(|_| ())
    }

    pub fn synchronise_event(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        let device = self.idle_event(thread, handle)?;
        self.trim_after_wait(device);
        Ok(())
    }

    /// Milliseconds between two events; nothing takes time here.
    pub fn elapsed(&self, start: Handle, end: Handle) -> Answer<f32> {
        let recorded = self.event(start)?.recorded && self.event(end)?.recorded;
        recorded.then_some(0.0).ok_or(Code::INVALID_HANDLE)
    }

    /// Has a stream wait for an event: a captured event draws the stream into its capture.
    pub fn wait_event(&mut self, thread: Thread, stream: Stream, handle: Handle) -> Answer<()> {
        let captured = self.event(handle)?.capture;
        let captured = captured.filter(|id| self.captures.contains_key(id));
        let found = self.work(thread, stream)?;
        match (captured, found.capture) {
            (None, None) => Ok(()),
            (Some(one), Some(other)) if one == other => Ok(()),
            (Some(one), Some(other)) => {
                self.invalidate(&[one, other]);
                Err(Code::CAPTURE_MERGE)
            }
            (None, Some(capture)) => {
                self.invalidate(&[capture]);
                Err(Code::CAPTURE_ISOLATION)
            }
            (Some(capture), None) => {
                let state = found
                    .handle
                    .and_then(|handle| self.streams.get_mut(&handle));
                state.ok_or(Code::CAPTURE_IMPLICIT)?.capture = Some(capture);
                Ok(())
            }
        }
    }

    pub(super) fn end_streams_of(&mut self, context: Handle) {
        let mut broken = Vec::new();
        self.streams.retain(|_, stream| {
            let stays = stream.context != context;
            if !stays {
                broken.extend(stream.capture);
            }
            stays
        });
        self.events.retain(|_, event| event.context != context);
        for capture in broken {
            self.drop_capture(capture);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;

    #[test]
    fn streams_and_events_are_known_by_handle_only() {
        let (mut driver, thread) = ready("2x16GiB");
        let stream = driver.create_stream(thread, 1, 0).unwrap();
        let event = driver.create_event(thread).unwrap();
        let named = Stream {
            handle: stream,
            per_thread: false,
        };
        driver.record_event(thread, event, named).unwrap();
        driver.synchronise_event(thread, event).unwrap();
        driver.destroy_stream(stream).unwrap();
        assert_eq!(driver.destroy_stream(stream).unwrap_err().0, 400);
        assert_eq!(driver.synchronise_stream(thread, named).unwrap_err().0, 400);
        assert_eq!(
            driver.record_event(thread, stream, named).unwrap_err().0,
            400
        );
        assert_eq!(driver.create_stream(Thread(9), 0, 0).unwrap_err().0, 201);
    }
}
