//! `oomhook explain` from end to end: what it prints, its exit codes, files of any size and kind.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const FRAGMENTED: &str = "\
+ torchrun --nproc_per_node=8 train.py --batch-size 32
PyTorch version: 2.6.0+cu124
step=1281 loss=2.31
step=1282 loss=2.30
[rank3]: Traceback (most recent call last):
[rank3]:   File \"/home/alice/train.py\", line 88, in step
[rank3]:     h = self.mlp(x)
[rank3]:         ^^^^^^^^^^^
[rank3]:   File \"/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py\", line 1527, in _call_impl
[rank3]:     return forward_call(*args, **kwargs)
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.25 GiB of which 103.50 MiB is free. Including non-PyTorch memory, this process has 79.14 GiB memory in use. Of the allocated memory 66.38 GiB is allocated by PyTorch, and 12.24 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
slurmstepd: error: Detected 1 oom_kill event in StepId=45791123.batch. Some of the step tasks have been OOM Killed.
";

const PAGE: &str = "\
oomhook: out of memory in PyTorch on GPU 3; likely fragmentation or idle cache
message    job.log, line 11 of 12, rank 3
           CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total
           capacity of 79.25 GiB of which 103.50 MiB is free. Including ..
from       /home/alice/train.py:88 in step: h = self.mlp(x)
after      step 1282

what the numbers mean
  asked    2.0 GiB
  GPU 3    79.3 GiB = 103.5 MiB free + 79.1 GiB this process
  process  79.1 GiB = 66.4 GiB live tensors + 12.2 GiB idle in PyTorch's cache +
           532.5 MiB beside the cache (context, code, libraries)

why
  likely   fragmentation or idle cache: 12.2 GiB lay idle in the cache, more
           than the 2.0 GiB asked for, yet in no single piece

what helps
  - Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: segments grow in
    place, so idle pieces join; they do not lift the card's limit.
  - Let sizes vary less: pad or bucket inputs, and warm up with the largest.
  - torch.cuda.empty_cache() only gives back segments that are idle as a whole;
    PyTorch has done that before it gave up, and each call costs speed.
  - A larger card does not cure it, it puts it off: 12.2 GiB were idle.

also in the log
  line 12: Detected 1 oom_kill event in StepId=45791123.batch. Some of the ..

next: oomhook run -- torchrun --nproc_per_node=8 train.py --batch-size 32
";

fn oomhook(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomhook"));
    command.arg("explain").args(arguments).env_remove("COLUMNS");
    command
}

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("an exit code");
    (code, text(&output.stdout), text(&output.stderr))
}

fn run(command: &mut Command) -> (i32, String, String) {
    ended(
        &command
            .stdin(Stdio::null())
            .output()
            .expect("the command starts"),
    )
}

fn with_stdin(arguments: &[&str], log: &[u8]) -> (i32, String, String) {
    let mut child = oomhook(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(log).expect("it reads");
    drop(stdin);
    ended(&child.wait_with_output().expect("it ends"))
}

fn write(folder: &TempDir, log: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join("job.log");
    std::fs::write(&path, log).expect("a file");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn the_page_says_what_why_and_what_next() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, FRAGMENTED);
    let (code, out, err) = run(oomhook(&["job.log"]).current_dir(folder.path()));
    assert_eq!((code, out.as_str(), err.as_str()), (0, PAGE, ""));
    assert!(PAGE.lines().count() <= 30);
    assert!(PAGE.lines().all(|line| line.len() <= 80));
}

#[test]
fn stdin_says_the_same() {
    let page = PAGE.replace("job.log", "stdin");
    for arguments in [&[][..], &["-"]] {
        let (code, out, err) = with_stdin(arguments, FRAGMENTED.as_bytes());
        assert_eq!((code, out.as_str(), err.as_str()), (0, page.as_str(), ""));
    }
}

#[test]
fn the_json_has_the_numbers_in_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(&folder, FRAGMENTED);
    let (code, out, err) = run(&mut oomhook(&["--json", text(&path)]));
    assert_eq!((code, err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["lines"], 12);
    let message = &json["messages"][0];
    assert_eq!(message["framework"], "pytorch");
    assert_eq!(message["kind"], "allocator");
    assert_eq!(message["first_line"], 11);
    assert_eq!(message["count"], 1);
    assert_eq!(message["ranks"], serde_json::json!([3]));
    assert_eq!(message["step"], 1282);
    assert_eq!(message["doing"], "forward");
    assert_eq!(message["place"]["file"], "/home/alice/train.py");
    assert_eq!(message["place"]["line"], 88);
    let numbers = &message["numbers"];
    assert_eq!(numbers["requested_bytes"], 2u64 << 30);
    assert_eq!(numbers["total_bytes"], 85_094_039_552u64);
    assert_eq!(numbers["free_bytes"], 108_527_616);
    assert_eq!(numbers["limit_bytes"], Value::Null);
    assert_eq!(json["messages"][1]["kind"], "host_kill");
    assert_eq!(json["causes"][0]["class"], "fragmentation");
    assert_eq!(
        json["command"],
        "torchrun --nproc_per_node=8 train.py --batch-size 32"
    );
}

#[test]
fn a_log_without_such_a_message_is_no_data() {
    let folder = tempfile::tempdir().expect("a folder");
    for log in ["", "all is well\n", "\0\0\0"] {
        let path = write(&folder, log);
        let (code, out, err) = run(&mut oomhook(&[text(&path)]));
        assert_eq!((code, out.as_str()), (3, ""), "{log:?}");
        assert!(
            err.starts_with("oomhook explain: no message about running out of memory in "),
            "{err}"
        );
        assert!(err.contains("next: oomhook run -- CMD"), "{err}");
        let (code, out, _) = run(&mut oomhook(&["--json", text(&path)]));
        let json: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!((code, &json["messages"]), (3, &serde_json::json!([])));
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.log");
    let (code, out, err) = run(&mut oomhook(&[text(&missing)]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(
        err,
        format!(
            "oomhook explain: {} cannot be read: No such file or directory\n",
            missing.display()
        )
    );
    let (code, _, err) = run(&mut oomhook(&[text(folder.path())]));
    assert_eq!(code, 2);
    assert!(
        err.ends_with("is a directory; name the log in it\n"),
        "{err}"
    );
    let (code, _, err) = run(&mut oomhook(&["--frobnicate"]));
    assert_eq!(code, 2);
    assert!(err.contains("--frobnicate"), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(&folder, FRAGMENTED);
    let mut child = oomhook(&[text(&path)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let (code, _, err) = ended(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn a_large_log_with_long_lines_needs_little_memory() {
    const LONG: usize = 1 << 20;
    const LINES: usize = 80;
    let mut child = Command::new("sh")
        // Less address space than the log is long, its own code included.
        .args(["-c", "ulimit -v 65536; exec \"$0\" explain --json -"])
        .arg(env!("CARGO_BIN_EXE_oomhook"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        let mut line = vec![b'm'; LONG];
        line[LONG - 1] = b'\n';
        for number in 0..LINES {
            if number == LINES / 2 {
                stdin.write_all(FRAGMENTED.as_bytes())?;
            }
            stdin.write_all(&line)?;
        }
        Ok::<(), std::io::Error>(())
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all was read");
    let (code, out, err) = ended(&output);
    assert_eq!((code, err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["lines"], LINES + 12);
    assert_eq!(json["messages"][0]["first_line"], LINES / 2 + 11);
}

#[test]
fn a_log_with_broken_text_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = vec![
        0xff, 0xfe, 0x00, 0x1b, b'[', b'3', b'1', b'm', 0xc3, b'\r', b'\n',
    ];
    log.extend_from_slice(b"\x1b[31mRuntimeError: CUDA error: out of memory\x1b[0m\xff\r\n");
    let path = write(&folder, &log);
    let (code, out, err) = run(&mut oomhook(&[text(&path)]));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.starts_with("oomhook: out of memory in PyTorch; the log does not tell why\n"),
        "{out}"
    );
    assert!(!out.contains('\x1b'), "{out:?}");
}

#[test]
fn help_shows_examples() {
    let (code, out, _) = run(&mut oomhook(&["--help"]));
    assert_eq!(code, 0);
    assert!(out.contains("oomhook explain slurm-4711.out"), "{out}");
    assert!(out.lines().all(|line| line.len() <= 120), "{out}");
}
