//! The header: who was watched, when, and with which settings. JSON, so that `head -c 4096` shows it to a person.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// First bytes of every trace. The high bit and the line end catch transfers that treat the file as text.
pub const MAGIC: [u8; 8] = *b"\x89oomhk\r\n";

/// Version of the layout after the magic.
pub const VERSION: u32 = 1;

/// Most bytes a header may have; more is damage.
pub const MAX_JSON: usize = 4 << 20;

/// The header's JSON. Every key may be missing in a trace of another version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Name and version of the writer.
    pub tool: Tool,
    /// The watched process.
    pub process: Process,
    /// The listed environment variables that were set (values that look like secrets are masked).
    pub environment: BTreeMap<String, String>,
    /// Frameworks that were loaded when the recording began, with their versions where these are known.
    pub frameworks: BTreeMap<String, String>,
    /// Settings of the library that differ from the defaults.
    pub settings: BTreeMap<String, String>,
    /// Labels given on the command line.
    pub labels: BTreeMap<String, String>,
    /// Identifies the `oomhook run` that launched the process; empty without one.
    pub run: String,
}

/// The writing tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tool {
    /// `oomhook`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The watched process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Host name.
    pub host: String,
    /// Process id, in its own pid namespace.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Command line.
    pub command: Vec<String>,
    /// The executable's path.
    pub executable: String,
    /// Its user.
    pub user: Option<u32>,
    /// Functions that the driver's resolver was asked for before the recording began: a CUDA runtime asks for some hundred.
    pub functions_asked_for: u32,
    /// Rank in the job, if the environment tells.
    pub rank: Option<u32>,
    /// Rank on the node, if the environment tells.
    pub local_rank: Option<u32>,
    /// Job id, if the environment tells.
    pub job: Option<String>,
    /// Wall-clock time of the instant 0 of all event times, in nanoseconds since 1970.
    pub start_unix_ns: u64,
}

impl Header {
    /// The bytes that open a file.
    ///
    /// # Errors
    /// When the header cannot be written as JSON or is larger than [`MAX_JSON`].
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let json = serde_json::to_vec(self)?;
        if json.len() > MAX_JSON {
            return Err(serde::ser::Error::custom("the header is too large"));
        }
        let mut bytes = Vec::with_capacity(json.len() + 20);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&json);
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        Ok(bytes)
    }
}
