//! `oomhook env`: the lines to paste.

use crate::cli::{library, output};
use clap::Args;

/// Print the lines that put the library into a shell, Slurm, Docker or Kubernetes
#[derive(Args)]
pub struct Options {}

/// Prints them.
///
/// # Errors
/// In words, when the library cannot be found.
pub fn run(_options: &Options) -> Result<(), String> {
    let library = library::find()?;
    output::data(&lines(&library.to_string_lossy()))
}

fn lines(library: &str) -> String {
    let shell = quoted(library);
    format!(
        "\
# Shell, one command (first in an existing LD_PRELOAD):
LD_PRELOAD={shell}${{LD_PRELOAD:+:$LD_PRELOAD}} COMMAND

# Shell, everything from here on:
export LD_PRELOAD={shell}${{LD_PRELOAD:+:$LD_PRELOAD}}

# Slurm (the path must exist on every node):
srun --export=ALL,LD_PRELOAD={shell} COMMAND

# Docker:
docker run --gpus all -v {shell}:/opt/oomhook/liboomhook.so:ro -e LD_PRELOAD=/opt/oomhook/liboomhook.so -e OOMHOOK_OUTPUT=/traces/oomhook.%h.%p.trace -v \"$PWD\":/traces IMAGE COMMAND

# Kubernetes (container spec; the library lies on the node):
env:
- name: LD_PRELOAD
  value: /opt/oomhook/liboomhook.so
- name: OOMHOOK_OUTPUT
  value: /traces/oomhook.%h.%p.trace
volumeMounts:
- name: oomhook
  mountPath: /opt/oomhook/liboomhook.so
  readOnly: true
- name: traces
  mountPath: /traces
# pod spec:
volumes:
- name: oomhook
  hostPath: {{path: {yaml}, type: File}}
- name: traces
  emptyDir: {{}}

# Then: oomhook report TRACE
",
        yaml = serde_json::Value::from(library),
    )
}

/// For a shell.
#[must_use]
pub fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@%,".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
