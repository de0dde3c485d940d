//! What is advised against each reason: the exact switch, merged, never what is on, and what will not help.

use oomhook_report::diagnosis::{Cause, Framework, Situation, Version, advice};

fn situation(framework: Framework, settings: &[(&str, &str)]) -> Situation {
    Situation {
        framework,
        settings: settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Situation::default()
    }
}

fn torch(version: (u32, u32), settings: &[(&str, &str)]) -> Situation {
    let version = Version(version.0, version.1);
    situation(Framework::PyTorch(Some(version)), settings)
}

/// The assignment that is advised.
fn assignment(situation: &Situation) -> Option<String> {
    let all = advice(Cause::Fragmentation, situation);
    let first = all.first()?.strip_prefix("Set ")?;
    let end = first
        .find(|c: char| ": (".contains(c) && c != ':')
        .unwrap_or(first.len());
    Some(first[..end].trim_end_matches(':').to_owned())
}

#[test]
fn the_variable_is_the_one_of_the_version() {
    let new = assignment(&torch((2, 9), &[]));
    assert_eq!(
        new.as_deref(),
        Some("PYTORCH_ALLOC_CONF=expandable_segments:True")
    );
    let old = assignment(&torch((2, 8), &[]));
    assert_eq!(
        old.as_deref(),
        Some("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    );
    let older = assignment(&torch((2, 0), &[]));
    assert_eq!(
        older.as_deref(),
        Some("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128")
    );
    assert_eq!(assignment(&torch((1, 4), &[])), None);
    // Not known: the old name is read by all, and the new one is said.
    let unknown = advice(
        Cause::Fragmentation,
        &situation(Framework::PyTorch(None), &[]),
    );
    assert!(
        unknown[0].contains("PYTORCH_CUDA_ALLOC_CONF=") && unknown[0].contains("from torch 2.9 on")
    );
}

#[test]
fn what_is_set_stays() {
    let cases = [
        (
            (2, 6),
            (
                "PYTORCH_CUDA_ALLOC_CONF",
                "max_split_size_mb:512,garbage_collection_threshold:0.8",
            ),
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,garbage_collection_threshold:0.8,expandable_segments:True",
        ),
        (
            (2, 6),
            ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False"),
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        // The new variable hides the old one, so that all of it moves.
        (
            (2, 10),
            ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"),
            "PYTORCH_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True",
        ),
        // Before 2.9 nobody reads the new one.
        (
            (2, 6),
            ("PYTORCH_ALLOC_CONF", "max_split_size_mb:64"),
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        (
            (2, 9),
            (
                "PYTORCH_ALLOC_CONF",
                "roundup_power2_divisions:[256:1,512:2,>:4]",
            ),
            "PYTORCH_ALLOC_CONF=roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True",
        ),
    ];
    for (version, setting, expected) in cases {
        let advised = advice(Cause::Fragmentation, &torch(version, &[setting]));
        assert!(
            advised[0].starts_with(&format!("Set {expected}:")),
            "{advised:?}"
        );
    }
}

#[test]
fn what_is_on_is_not_advised() {
    let on = [
        torch(
            (2, 9),
            &[("PYTORCH_ALLOC_CONF", "expandable_segments:True")],
        ),
        torch(
            (2, 9),
            &[("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")],
        ),
        Situation {
            expandable_segments: true,
            ..torch((2, 9), &[])
        },
    ];
    for situation in on {
        let advised = advice(Cause::Fragmentation, &situation).join("\n");
        assert!(!advised.contains("Set PYTORCH"), "{advised}");
        assert!(advised.contains("on already"), "{advised}");
    }
    let asynchronous = torch((2, 9), &[("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")]);
    let advised = advice(Cause::Fragmentation, &asynchronous).join("\n");
    assert!(
        !advised.contains("Set PYTORCH") && advised.contains("have no effect"),
        "{advised}"
    );

    let split = torch(
        (2, 0),
        &[("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")],
    );
    let advised = advice(Cause::Fragmentation, &split);
    assert!(
        advised[0].starts_with("max_split_size_mb:64 is on already"),
        "{advised:?}"
    );

    let jax = situation(
        Framework::Jax,
        &[
            ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
            ("XLA_CLIENT_MEM_FRACTION", "0.9"),
        ],
    );
    let advised = advice(Cause::Reservation, &jax);
    assert!(
        advised[0].contains("Lower XLA_CLIENT_MEM_FRACTION "),
        "{advised:?}"
    );
    assert_eq!(
        advised[1],
        "XLA_PYTHON_CLIENT_PREALLOCATE=false is on already."
    );
    let plain = advice(Cause::Reservation, &situation(Framework::Jax, &[]));
    assert!(
        plain[0].contains("Lower XLA_PYTHON_CLIENT_MEM_FRACTION "),
        "{plain:?}"
    );
    assert!(
        plain[1].contains("set XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        "{plain:?}"
    );

    let grows = [("TF_FORCE_GPU_ALLOW_GROWTH", "true")];
    let advised = advice(
        Cause::Reservation,
        &situation(Framework::TensorFlow, &grows),
    );
    assert_eq!(advised[0], "TF_FORCE_GPU_ALLOW_GROWTH=true is on already.");
    let tf = [("TF_GPU_ALLOCATOR", "cuda_malloc_async")];
    let advised = advice(Cause::Fragmentation, &situation(Framework::TensorFlow, &tf));
    assert_eq!(
        advised[0],
        "TF_GPU_ALLOCATOR=cuda_malloc_async is on already."
    );
}

#[test]
fn it_is_said_what_does_not_help() {
    let torch = torch((2, 6), &[]);
    let has = |cause, words: &str| {
        let advised = advice(cause, &torch).join("\n");
        assert!(advised.contains(words), "{advised}");
    };
    has(
        Cause::Capacity,
        "expandable segments do not lift the card's limit",
    );
    has(Cause::Fragmentation, "do not lift the card's limit");
    has(Cause::Fragmentation, "A larger card does not cure it");
    has(
        Cause::Fragmentation,
        "only gives back segments that are idle",
    );
    has(Cause::Retention, "Will not help");
    has(
        Cause::OtherProcess,
        "Will not help: settings of the allocator",
    );
    has(Cause::HostMemory, "Will not help: anything on the GPU");
}

#[test]
fn emptying_the_cache_in_each_step_is_called_out_once() {
    for cause in Cause::ALL {
        let empties = Situation {
            empties_cache_each_step: true,
            ..torch((2, 6), &[])
        };
        let count = |situation| {
            let advised = advice(cause, situation);
            advised
                .iter()
                .filter(|text| text.contains("empty_cache() out of the step"))
                .count()
        };
        assert_eq!(count(&empties), 1, "{cause:?}");
        assert_eq!(count(&torch((2, 6), &[])), 0, "{cause:?}");
    }
}

#[test]
fn sizes_are_told_where_they_are_known() {
    let large = Situation {
        requested_bytes: Some(30 << 30),
        total_bytes: Some(24 << 30),
        ..torch((2, 6), &[])
    };
    assert!(
        advice(Cause::Capacity, &large)[0].contains("can serve 30.0 GiB at once (it has 24.0 GiB)")
    );
    let limited = Situation {
        limit_bytes: Some(10 << 30),
        total_bytes: Some(24 << 30),
        ..torch((2, 6), &[])
    };
    assert!(advice(Cause::Capacity, &limited)[0].contains("was allowed 10.0 GiB"));
    let unlimited = Situation {
        limit_bytes: Some(24 << 30),
        total_bytes: Some(24 << 30),
        ..torch((2, 6), &[])
    };
    assert!(
        !advice(Cause::Capacity, &unlimited)
            .join("\n")
            .contains("allowed")
    );
    let idle = Situation {
        idle_bytes: Some(5 << 30),
        ..torch((2, 6), &[])
    };
    assert!(
        advice(Cause::Fragmentation, &idle)
            .join("\n")
            .contains("5.0 GiB were idle")
    );
}

#[test]
fn every_framework_gets_an_answer_to_every_reason() {
    let frameworks = [
        Framework::PyTorch(None),
        Framework::PyTorch(Some(Version(2, 9))),
        Framework::Jax,
        Framework::TensorFlow,
        Framework::CuPy,
        Framework::LlamaCpp,
        Framework::Vllm,
        Framework::Cuda,
        Framework::Unknown,
    ];
    for framework in frameworks {
        for cause in Cause::ALL {
            let advised = advice(cause, &situation(framework, &[]));
            // What is not clear has no remedy.
            let least = usize::from(cause != Cause::NotClear);
            assert!(
                (least..=5 * least).contains(&advised.len()),
                "{framework:?} {cause:?} {advised:?}"
            );
            for text in advised {
                assert!(text.ends_with('.') && !text.contains("  "), "{text:?}");
            }
        }
    }
}
