//! Stream captures are counted, so that stream-ordered calls need to ask the driver only while there are any.

use super::object::Create;
use super::{Call, Recipe};
use crate::preload::captures;
use crate::preload::hooks::abi::{Code, Graph, SUCCESS};
use crate::preload::raw::{Kind, Raw};
use oomhook_trace::record::Object;

/// `cuStreamBeginCapture` and its relatives.
pub struct BeginCapture;

impl Recipe for BeginCapture {
    fn records(&self) -> bool {
        false
    }

    fn always(&mut self, code: Code) {
        if code == SUCCESS {
            captures::begun();
        }
    }
}

/// `cuStreamEndCapture`: ends a capture also when it says that the capture was no good (901 invalidated, 904 unjoined
/// work, and their neighbours; not 908, a wrong thread).
///
/// The graph it gives is an object like one made by hand.
pub struct EndCapture {
    graph: Create,
}

impl EndCapture {
    /// The graph is written to `graph`.
    pub fn new(graph: *mut Graph) -> EndCapture {
        EndCapture {
            graph: Create::new(Object::Graph, graph),
        }
    }
}

fn ends(code: Code) -> bool {
    code == SUCCESS || (901..=906).contains(&code)
}

impl Recipe for EndCapture {
    fn after(&mut self, call: &Call, code: Code) {
        if ends(code) {
            call.send_here(Raw {
                a: u64::from(code == SUCCESS),
                ..Raw::new(Kind::CaptureEnd)
            });
            self.graph.after(call, code);
        }
    }

    fn always(&mut self, code: Code) {
        if ends(code) {
            captures::ended();
        }
    }
}
