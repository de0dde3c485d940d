//! Stream captures are counted, so that stream-ordered calls need to ask the driver only while there are any.

use super::Recipe;
use crate::preload::captures;
use crate::preload::hooks::abi::{Code, SUCCESS};

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

/// `cuStreamEndCapture`: ends a capture also when it says that the capture was invalid (901).
pub struct EndCapture;

impl Recipe for EndCapture {
    fn records(&self) -> bool {
        false
    }

    fn always(&mut self, code: Code) {
        const CAPTURE_INVALIDATED: Code = 901;
        if code == SUCCESS || code == CAPTURE_INVALIDATED {
            captures::ended();
        }
    }
}
