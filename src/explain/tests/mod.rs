//! What is read from a whole log: groups, places, steps, commands, settings.

mod hostile;
mod messages;

use super::message::{Kind, Numbers};
use super::{Explanation, read, words};
use messages::messages;
use oomhook_report::diagnosis::Cause;
use std::collections::BTreeSet;

fn explain(log: &str) -> Explanation {
    read(log.as_bytes()).expect("a slice can be read")
}

#[test]
fn each_message_is_read_with_its_numbers_and_judged() {
    let all = messages();
    assert!(all.len() >= 60);
    for (log, expected) in all {
        let found = explain(log);
        assert_eq!(found.messages.len(), 1, "{log}");
        let message = &found.messages[0];
        assert_eq!(message.framework, expected.framework, "{log}");
        assert_eq!(message.kind, expected.kind, "{log}");
        assert_eq!(message.numbers, expected.numbers, "{log}");
        assert_eq!(
            found.causes[0].class, expected.class,
            "{log}\n{:?}",
            found.causes
        );
        assert_eq!((message.count, message.first_line), (1, 1), "{log}");
        assert!(!found.advice.is_empty(), "{log}");
    }
}

#[test]
fn a_launcher_s_prefixes_colours_and_line_ends_change_nothing() {
    for (log, expected) in messages() {
        for (before, after) in [
            ("[rank3]: ", "\n"),
            ("3: 2024-05-01T12:00:00.123Z ", "\r\n"),
            (
                "(RayTrainWorker pid=4321, ip=10.0.0.7) \x1b[31m",
                "\x1b[0m\n",
            ),
            ("10%|#         | 1/10 [00:01<00:09]\r", "\n"),
            ("x\u{fffd}\n\n", "\n\u{fffd}"),
        ] {
            let found = explain(&format!("{before}{log}{after}"));
            assert_eq!(found.messages.len(), 1, "{before}{log}");
            assert_eq!(found.messages[0].numbers, expected.numbers, "{before}{log}");
            assert_eq!(found.causes[0].class, expected.class, "{before}{log}");
        }
    }
}

#[test]
fn ordinary_logs_have_no_message() {
    let log = "\
Starting training in the living room, zoom 2
loss 0.137, 137 steps, memory 12.5 GiB allocated
W tensorflow/core/common_runtime/bfc_allocator.cc:243] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.
cc1plus: out of memory allocating 1052671 bytes
GPU KV cache size: 12,345 tokens, max seq len 8192
process 12 exited with code 0; killed time: none
except torch.cuda.OutOfMemoryError:
torch_compile: done, available memory for the job 12 GB
RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: Too many open files (24)
";
    let found = explain(log);
    assert!(found.messages.is_empty(), "{:?}", found.messages);
    assert_eq!(found.lines, 9);
}

const FULL: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 103.50 MiB is free. Including non-PyTorch memory, this process has 79.14 GiB memory in use. Of the allocated memory 77.38 GiB is allocated by PyTorch, and 239.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

#[test]
fn the_macros_around_calls_of_cuda_are_known() {
    for log in [
        "GPUassert: out of memory main.cu 42",
        "gpuErrchk failed: out of memory (main.cu:42)",
        "CUDA error at main.cu:42 code=2(cudaErrorMemoryAllocation) \"cudaMalloc(&p, n)\"",
        "CUDA Runtime Error: out of memory",
        "CUDA Runtime Error at: main.cu:42\nout of memory cudaMalloc(&p, n)",
        "CUDA error in file 'main.cu' in line 42 : out of memory.",
        "cudaSafeCall() failed at main.cu:42 : out of memory",
        "cudaCheckError() failed at main.cu:42 : out of memory",
        "checkCudaErrors() Driver API error = 0002 \"out of memory\" from file <main.cu>, line 42.",
        "main.cu(42) : getLastCudaError() CUDA error : kernel failed : (2) out of memory.",
        "Error: main.cu:42, code: 2, reason: out of memory",
        "ERROR: CUDA RT call \"cudaMalloc(&p, n)\" in line 42 of file main.cu failed with out of memory (2).",
        "CUDA error 2 [main.cu, 42]: out of memory",
        "CUDA_CHECK failed at main.cu:42: out of memory",
        "[CUDA ERROR] main.cu:42: out of memory",
        "HIP error: out of memory at main.hip:42",
    ] {
        let found = explain(log);
        assert_eq!(found.messages.len(), 1, "{log}");
        assert_eq!(found.messages[0].kind, Kind::ErrorCode, "{log}");
        assert_eq!(found.messages[0].framework, "cuda", "{log}");
        assert_eq!(found.causes[0].class, Cause::NotClear, "{log}");
    }
    for log in [
        "Checking GPU memory. If the job runs out of memory, lower the batch.",
        "gpu check passed! no GPU was out of memory",
        "CUDA error? No: CUDA errors are told when a job runs out of memory",
        "cudagraphs: how to debug running out of memory",
    ] {
        assert!(explain(log).messages.is_empty(), "{log}");
    }
}

#[test]
fn no_sentence_denies_the_sizes_that_are_there() {
    for (log, expected) in messages() {
        let found = explain(log);
        let evidence = found.causes.iter().flat_map(|cause| &cause.evidence);
        let denies = evidence.into_iter().any(|text| text == words::CODE_ONLY);
        assert!(!denies || expected.numbers == Numbers::default(), "{log}");
    }
}

#[test]
fn a_size_that_no_machine_has_is_a_wrong_shape() {
    for size in ["1073741824.00 GiB", "17179869184.00 GiB"] {
        let log = FULL.replace("2.00 GiB", size);
        let found = explain(&log);
        assert_eq!(found.causes[0].class, Cause::Capacity);
        assert_eq!(found.causes[0].evidence, [words::BEYOND_ALL]);
        assert_eq!(found.advice, [oomhook_report::sentences::WRONG_SHAPE]);
    }
}

#[test]
fn against_full_shared_memory_the_first_advice_is_more_of_it() {
    let found = explain(
        "RuntimeError: unable to mmap 1234 bytes from file </torch_123>: Cannot allocate memory (12)",
    );
    assert_eq!(
        found.advice[0],
        oomhook_report::sentences::MORE_SHARED_MEMORY
    );
}

#[test]
fn ranks_and_repetitions_are_one_group() {
    let mut log = String::new();
    for rank in 0..8 {
        log.push_str(&format!(
            "[rank{rank}]: {}\n",
            FULL.replace("GPU 0", &format!("GPU {rank}"))
        ));
    }
    for _ in 0..40 {
        log.push_str("[rank2]: RuntimeError: CUDA error: out of memory\n");
    }
    let found = explain(&log);
    let told: Vec<(u64, u64, usize, usize)> = found
        .messages
        .iter()
        .map(|group| {
            (
                group.count,
                group.first_line,
                group.ranks.len(),
                group.devices.len(),
            )
        })
        .collect();
    assert_eq!(told, [(8, 1, 8, 8), (40, 9, 1, 0)]);
}

#[test]
fn a_message_that_was_broken_into_lines_is_whole() {
    let whole = explain(FULL);
    let broken = FULL.replace(". ", ".\n  ").replace("GiB is", "GiB\n is");
    let found = explain(&broken);
    assert_eq!(found.messages.len(), 1);
    assert_eq!(found.messages[0].numbers, whole.messages[0].numbers);
    assert_eq!(found.messages[0].first_line, 1);
}

#[test]
fn the_driver_s_pool_tells_its_sizes_in_lines_of_their_own() {
    let pool = |limit: &str, rank: &str| {
        let lines = [
            "OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)",
            "Currently allocated     : 9.62 GiB",
            "Requested               : 1.00 GiB",
            "Device limit            : 11.99 GiB",
            "Free (according to CUDA): 0 bytes",
            "PyTorch limit (set by user-supplied memory fraction)",
        ];
        let last = format!("                        : {limit}");
        let lines = lines.into_iter().chain([last.as_str()]);
        lines
            .map(|line| format!("{rank}{line}\n"))
            .collect::<String>()
    };
    let gib = |hundredths: u64| Some((hundredths * (1 << 30) + 50) / 100);
    let told = Numbers {
        device: Some(1),
        requested_bytes: gib(100),
        total_bytes: gib(1199),
        free_bytes: Some(0),
        allocated_bytes: gib(962),
        ..Numbers::default()
    };
    let none = pool("17179869184.00 GiB", "").replacen("Out", "torch.Out", 1);
    let found = explain(&none);
    assert_eq!(found.messages[0].numbers, told);
    assert_eq!(found.causes[0].class, Cause::Capacity);
    assert_eq!(
        found.causes[0].evidence,
        ["9.6 GiB of 12.0 GiB are live tensors"]
    );
    // With a limit, without a module before the name, and from each rank.
    let log: String = (0..4)
        .map(|rank| pool("9.80 GiB", &format!("[rank{rank}]: ")))
        .collect();
    for log in [
        log.clone() + "[rank0]: and more\n",
        log,
        pool("9.80 GiB", "").replace('\n', "\\n"),
    ] {
        let found = explain(&log);
        assert_eq!(found.messages.len(), 1, "{:?}", found.messages);
        let limited = Numbers {
            limit_bytes: gib(980),
            ..told.clone()
        };
        assert_eq!(found.messages[0].numbers, limited);
        assert_eq!(found.causes[0].class, Cause::Capacity);
        assert_eq!(
            found.causes[0].evidence[0],
            "the process may take 9.8 GiB and was there"
        );
    }
    // Cut off, and followed by something else.
    let cut: Vec<&str> = none.lines().take(3).collect();
    let found = explain(&format!("{}\nall is well\n", cut.join("\n")));
    assert_eq!(found.messages[0].numbers.requested_bytes, gib(100));
    assert_eq!(found.messages[0].numbers.total_bytes, None);
}

#[test]
fn what_follows_a_short_message_is_not_part_of_it() {
    for short in [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: CUDA out of memory.",
    ] {
        let found = explain(&format!("{short}\nretrying with batch 16\nall is well\n"));
        assert_eq!(found.messages.len(), 1);
        assert!(
            short.ends_with(&found.messages[0].text),
            "{}",
            found.messages[0].text
        );
    }
}

#[test]
fn the_users_own_line_the_step_and_the_command_are_told() {
    let log = format!(
        "+ torchrun --nproc_per_node=8 train.py --lr 1e-4 --wandb-key abc123
step=1281 loss=2.3
step=1282 loss=2.2
[rank1]: Traceback (most recent call last):
[rank1]:   File \"/home/alice/other.py\", line 3, in <module>
[rank3]: Traceback (most recent call last):
[rank3]:   File \"/home/alice/train.py\", line 210, in <module>
[rank3]:     main()
[rank1]:     noise()
[rank3]:   File \"/home/alice/train.py\", line 88, in step
[rank3]:     loss.backward()
[rank3]:     ^^^^^^^^^^^^^^^
[rank3]:   File \"/opt/conda/lib/python3.11/site-packages/torch/_tensor.py\", line 492, in backward
[rank3]:     torch.autograd.backward(
[rank3]: {FULL}
"
    );
    let found = explain(&log);
    let message = &found.messages[0];
    let place = message.place.as_ref().expect("a place");
    assert_eq!(
        (place.file.as_str(), place.line),
        ("/home/alice/train.py", 88)
    );
    assert_eq!(place.function.as_deref(), Some("step"));
    assert_eq!(place.source.as_deref(), Some("loss.backward()"));
    assert_eq!(message.step, Some(1282));
    assert_eq!(message.ranks, BTreeSet::from([3]));
    let classes: Vec<Cause> = found.causes.iter().map(|cause| cause.class).collect();
    assert_eq!(classes, [Cause::ActivationPeak, Cause::Retention]);
    assert_eq!(
        found.next,
        "oomhook run -- torchrun --nproc_per_node=8 train.py --lr 1e-4 --wandb-key ***"
    );
}

#[test]
fn at_the_first_step_it_is_the_optimizer_s_state() {
    let log = format!(
        "step 1 loss 11.2
Traceback (most recent call last):
  File \"train.py\", line 60, in <module>
    optimizer.step()
  File \"/usr/lib/python3/dist-packages/torch/optim/adamw.py\", line 99, in _init_group
    state[\"exp_avg\"] = torch.zeros_like(p)
{FULL}"
    );
    let found = explain(&log);
    assert_eq!(found.causes[0].class, Cause::Capacity);
    assert_eq!(found.causes.len(), 1, "{:?}", found.causes);
    let place = found.messages[0].place.as_ref().expect("a place");
    assert_eq!((place.file.as_str(), place.line), ("train.py", 60));
}

#[test]
fn what_any_cache_has_idle_is_no_fragmentation() {
    // Asked for 64 MiB, and more is idle each time.
    let causes = |used: &str, idle: &str, stack: &str| {
        let log = format!(
            "{stack}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 12.00 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use. Of the allocated memory {used} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated."
        );
        let causes = explain(&log).causes;
        (causes[0].class, causes[0].evidence.join("; "))
    };
    let backward = "  File \"/home/u/train.py\", line 60, in main\n    loss.backward()\n";
    let optimizer = "  File \"/home/u/train.py\", line 61, in main\n    optimizer.step()\n  File \"/opt/lib/python3.11/site-packages/torch/optim/adamw.py\", line 100, in _init_group\n    state[\"exp_avg\"] = torch.zeros_like(\n";
    let (class, evidence) = causes("22.90 GiB", "260.00 MiB", backward);
    assert_eq!(class, Cause::ActivationPeak);
    assert!(
        evidence.contains("22.9 GiB of 23.6 GiB are live tensors, 260.0 MiB are idle"),
        "{evidence}"
    );
    let (class, evidence) = causes("22.90 GiB", "260.00 MiB", optimizer);
    assert_eq!(class, Cause::Capacity);
    assert!(evidence.contains("optimizer's step"), "{evidence}");
    assert_eq!(causes("22.90 GiB", "260.00 MiB", "").0, Cause::Capacity);
    assert_eq!(causes("20.87 GiB", "2.30 GiB", "").0, Cause::Capacity);
    assert_eq!(causes("20.83 GiB", "2.34 GiB", "").0, Cause::Fragmentation);
    assert_eq!(causes("16.00 GiB", "7.00 GiB", "").0, Cause::Fragmentation);
}

#[test]
fn pools_of_graphs_that_are_not_there_are_no_reason() {
    let found = explain(&FULL.replace("2.00 GiB", "0 bytes"));
    assert_ne!(found.causes[0].class, Cause::Fragmentation);
}

#[test]
fn the_switch_is_the_one_of_this_version_and_merged_with_what_is_set() {
    let fragmented = FULL
        .replace("239.00 MiB", "12.24 GiB")
        .replace("77.38", "66.38");
    let first = |before: &str| explain(&format!("{before}\n{fragmented}")).advice[0].clone();
    let none = first("");
    assert!(none.contains("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (from torch 2.9 on the variable is PYTORCH_ALLOC_CONF)"), "{none}");
    let new = first("torch==2.9.1\nexport PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512");
    assert!(
        new.contains("Set PYTORCH_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True:"),
        "{new}"
    );
    let old = first("PyTorch version: 2.6.0+cu124");
    assert!(
        old.contains("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True:"),
        "{old}"
    );
    let on = first("{\"PYTORCH_CUDA_ALLOC_CONF\": \"expandable_segments:True\"}");
    assert!(on.starts_with("Expandable segments are on already"), "{on}");
}

#[test]
fn a_pool_s_figures_belong_to_its_message_and_the_exception_is_the_same_one() {
    let log = "\
2024-01-01 00:00:00.000000: W external/local_tsl/tsl/framework/bfc_allocator.cc:487] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.00GiB (rounded to 1073741824)requested by op AddV2
2024-01-01 00:00:00.000001: I external/local_tsl/tsl/framework/bfc_allocator.cc:1101] BFCAllocator dump for GPU_0_bfc
2024-01-01 00:00:00.000002: I external/local_tsl/tsl/framework/bfc_allocator.cc:1122] Stats:
Limit:                     11711938560
InUse:                      9711938560
MaxInUse:                  10711938560
NumAllocs:                          56
MaxAllocSize:               3200000000
Reserved:                            0
LargestFreeBlock:            500000000

tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__AddV2}} OOM when allocating tensor with shape[268435456] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:AddV2]
";
    let found = explain(log);
    assert_eq!(found.messages.len(), 1);
    let message = &found.messages[0];
    assert_eq!((message.framework, message.count), ("tensorflow", 1));
    assert!(
        message.text.starts_with("OOM when allocating tensor"),
        "{}",
        message.text
    );
    let numbers = &message.numbers;
    assert_eq!(numbers.limit_bytes, Some(11_711_938_560));
    assert_eq!(numbers.allocated_bytes, Some(9_711_938_560));
    assert_eq!(numbers.idle_bytes, Some(2_000_000_000));
    assert_eq!(numbers.largest_hole_bytes, Some(500_000_000));
    assert_eq!(found.causes[0].class, Cause::Fragmentation);
    assert!(
        found.advice[0].contains("TF_GPU_ALLOCATOR=cuda_malloc_async"),
        "{:?}",
        found.advice
    );
}

#[test]
fn what_xla_planned_tells_activations_from_parameters() {
    let log = |parameters: &str, temporary: &str| {
        format!(
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:   {parameters}
              constant allocation:         0B
        maybe_live_out allocation:    2.00GiB
     preallocated temp allocation:   {temporary}
  preallocated temp fragmentation:       1.2KiB (0.00%)
                 total allocation:   76.00GiB
"
        )
    };
    let found = explain(&log("10.00GiB", "64.00GiB"));
    let numbers = &found.messages[0].numbers;
    assert_eq!(numbers.parameter_bytes, Some(10 << 30));
    assert_eq!(numbers.temporary_bytes, Some(64 << 30));
    assert_eq!(numbers.output_bytes, Some(2 << 30));
    assert_eq!(found.causes[0].class, Cause::ActivationPeak);
    assert_eq!(
        found.causes[0].evidence,
        [
            "the compiled program wants 64.0 GiB of temporaries (activations) beside its 10.0 GiB of parameters"
        ]
    );
    let found = explain(&log("70.00GiB", "4.00GiB"));
    assert_eq!(found.causes[0].class, Cause::Capacity);
}

#[test]
fn a_ggml_buffer_s_purpose_is_told_by_what_follows() {
    let buffer = "llama_context: n_ctx = 131072\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 13285.50 MiB on device 0: cudaMalloc failed: out of memory\n";
    let purposes = [
        (
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
            Cause::Reservation,
        ),
        (
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            Cause::Capacity,
        ),
        (
            "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
            Cause::Reservation,
        ),
        ("main: error: something else", Cause::NotClear),
    ];
    for (after, class) in purposes {
        let found = explain(&format!("{buffer}{after}\n"));
        assert_eq!(found.causes[0].class, class, "{after}");
        assert!(
            found.causes[0]
                .evidence
                .contains(&"n_ctx = 131072".to_owned()),
            "{:?}",
            found.causes
        );
    }
}

#[test]
fn an_error_that_ggml_names_in_the_next_line_is_llama_cpp_s() {
    let log = "CUDA error: out of memory
  current device: 1, in function alloc at /build/ggml/src/ggml-cuda/ggml-cuda.cu:471
  cuMemCreate(&handle, reserve_size, &prop, 0)
";
    let found = explain(&log.repeat(2));
    assert_eq!(found.messages.len(), 1);
    let message = &found.messages[0];
    assert_eq!((message.framework, message.count), ("llama_cpp", 2));
    assert_eq!(message.numbers.device, Some(1));
    assert_eq!(found.causes[0].class, Cause::Capacity);
    assert_eq!(found.causes[0].evidence, [words::BUFFER_POOL]);
    let page = super::render(&found, "a.log", &oomhook_report::text::Style::default());
    assert!(!page.contains("what the numbers mean"), "{page}");
    let other = log.replace(
        "in function alloc",
        "in function ggml_backend_cuda_synchronize",
    );
    let found = explain(&other);
    assert_eq!(found.messages[0].framework, "llama_cpp");
    assert_eq!(found.causes[0].class, Cause::NotClear);
    let found = explain(&log.replace("ggml", "mine"));
    assert_eq!(found.messages[0].framework, "cuda");
}

#[test]
fn what_happens_inside_vllm_is_judged_as_vllm_s() {
    let message = FULL.replace("2.00 GiB", "112.00 MiB");
    let logged = |stack: &str| {
        format!(
            "(EngineCore_DP0 pid=4242) INFO 09-01 12:00:00 [gpu_model_runner.py:1953] Starting to load model meta-llama/Llama-3-8B...
ERROR 09-01 12:00:10 [core.py:700] EngineCore failed to start.
ERROR 09-01 12:00:10 [core.py:700]   File \"/opt/venv/lib/python3.12/site-packages/vllm/{stack}
ERROR 09-01 12:00:10 [core.py:700] {message}
ERROR 09-01 12:00:10 [core.py:700] {message}
"
        )
    };
    let found = explain(&logged(
        "model_executor/layers/linear.py\", line 200, in create_weights",
    ));
    assert_eq!(found.messages.len(), 1);
    assert_eq!(
        (found.messages[0].framework, found.messages[0].count),
        ("vllm", 2)
    );
    assert_eq!(found.causes[0].class, Cause::Capacity);
    assert!(
        found.advice[0].contains("--tensor-parallel-size"),
        "{:?}",
        found.advice
    );
    let running = "v1/worker/gpu_model_runner.py\", line 200, in execute_model";
    let engine = format!("(EngineCore_DP0 pid=4242) {message}");
    for log in [logged(running), engine] {
        let found = explain(&log);
        assert_eq!(found.messages[0].framework, "vllm");
        assert_eq!(found.causes.len(), 1, "{:?}", found.causes);
        assert_eq!(found.causes[0].class, Cause::Reservation);
        assert!(
            found.advice[0].contains("--gpu-memory-utilization"),
            "{:?}",
            found.advice
        );
    }
    assert_eq!(
        explain(&format!("vllm is installed\n{message}")).messages[0].framework,
        "pytorch"
    );
}

#[test]
fn the_message_that_tells_most_comes_first() {
    let log = format!(
        "RuntimeError: CUDA error: out of memory\n{FULL}\nsrun: error: node7: task 3: Exited with exit code 137\n"
    );
    let kinds: Vec<Kind> = explain(&log)
        .messages
        .iter()
        .map(|group| group.kind)
        .collect();
    assert_eq!(kinds, [Kind::Allocator, Kind::ErrorCode, Kind::Killed]);
}

#[test]
fn a_message_deep_in_a_line_without_end_is_found_once() {
    for at in [0, 65_000, 65_536, 70_000, 73_650, 1_000_000] {
        let log = format!("{} {FULL} {}", "x".repeat(at), "y".repeat(200_000));
        let found = explain(&log);
        assert_eq!(found.messages.len(), 1, "at {at}");
        assert_eq!(found.messages[0].count, 1, "at {at}");
        assert_eq!(
            found.messages[0].numbers,
            explain(FULL).messages[0].numbers,
            "at {at}"
        );
    }
}
