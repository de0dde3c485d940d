//! The verdict on failures whose figures are made for one cause each: its kind, its line, and the numbers that it names.

use oomhook_ledger::oom::Class;
use oomhook_report::cache::keys::{CacheThen, JumpedSite, PinnedSite, RisingSite, Segments};
use oomhook_report::diagnosis::failure::diagnose;
use oomhook_report::diagnosis::{Cause, Diagnosis, Framework, Situation, Version};
use oomhook_report::roles::Role;
use oomhook_report::schema::{Frame, Language, LedgerLine, Oom, Place, Site};
use oomhook_trace::record::Other;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn rc(text: &str) -> Rc<str> {
    Rc::from(text)
}

fn place(origin: &str) -> Place {
    Place {
        site: rc("at::empty"),
        label: rc("at::empty"),
        library: rc("libtorch_cpu.so"),
        origin: Some(rc(origin)),
        stack: Rc::from([]),
        site_frame: None,
    }
}

fn site(origin: &str, role: Option<Role>, bytes: u64, blocks: u64, allocs: u64) -> Site {
    Site {
        site: rc("at::empty"),
        label: rc("at::empty"),
        library: rc("libtorch_cpu.so"),
        via: Some("libc10_cuda"),
        space: "device",
        device: Some(0),
        bytes,
        requested_bytes: bytes,
        estimated: false,
        blocks,
        allocs,
        thread: None,
        phase: None,
        call: rc("PyTorch's cache"),
        site_frame: Some(0),
        python_site: Some(rc(origin)),
        autograd_node: None,
        role,
        shape: None,
        stack_id: 1,
        at_exit: false,
        site_estimated: false,
        stack: Rc::from([]),
    }
}

/// PyTorch asked for so much of a device of 8 GiB.
fn failure(asked: u64, free: u64, sites: Vec<Site>, idle: u64) -> Oom {
    let allocated = sites.iter().map(|site| site.bytes).sum();
    let cache = CacheThen {
        asked_bytes: Some(asked),
        allocs: 1000,
        frees: 900,
        allocated_bytes: allocated,
        reserved_bytes: allocated + idle,
        idle_bytes: idle,
        segments: Segments {
            count: 41,
            idle_in: if idle > 0 { 41 } else { 0 },
            largest_hole_bytes: idle / 8,
            ..Segments::default()
        },
        sites,
        changed: Vec::new(),
        rising: Vec::new(),
        jumped: Vec::new(),
        pinned: Vec::new(),
        by_own_limit: false,
    };
    Oom {
        call: rc("cudaMalloc"),
        requested_bytes: Some(asked),
        space: Some("device"),
        device: Some(0),
        time_ns: 1,
        freed_between_bytes: None,
        short_by_bytes: None,
        class: Class::Fatal,
        attempts: 2,
        calls_before: (1000, 900),
        free_bytes: Some(free),
        total_bytes: Some(8 * GIB),
        site: rc("at::empty"),
        label: rc("at::empty"),
        library: rc("libtorch_cpu.so"),
        site_frame: Some(1),
        python_site: Some(rc("train.py:7 main")),
        autograd_node: None,
        stack: Rc::from([]),
        phase: None,
        phases: Vec::new(),
        growth: Vec::new(),
        rising: Vec::new(),
        role: None,
        log: Vec::new(),
        jump: None,
        sites: Vec::new(),
        verdict: None,
        thread: None,
        requested_least_bytes: None,
        ledger: Vec::new(),
        changed: Vec::new(),
        changed_since_ns: 0,
        last_frees: Vec::new(),
        host: None,
        others_known: true,
        hidden_pools: false,
        others: Vec::new(),
        cache: Some(cache),
    }
}

fn torch() -> Situation {
    Situation {
        framework: Framework::PyTorch(Some(Version(2, 11))),
        ..Situation::default()
    }
}

fn verdict(oom: &Oom) -> Diagnosis {
    diagnose(oom, &torch()).expect("a verdict")
}

fn line(name: &str, bytes: u64) -> LedgerLine {
    LedgerLine {
        name: name.to_owned(),
        bytes,
        estimated: false,
    }
}

fn with_cache(oom: &mut Oom) -> &mut CacheThen {
    oom.cache.as_mut().expect("a cache")
}

#[test]
fn a_model_that_does_not_fit() {
    let mut oom = failure(
        256 * MIB,
        100 * MIB,
        vec![
            site("train.py:3 build", Some(Role::Weights), 3 * GIB, 12, 12),
            site("train.py:9 main", Some(Role::Gradients), 3 * GIB, 12, 12),
            site("train.py:9 main", Some(Role::Activations), GIB / 2, 9, 90),
        ],
        0,
    );
    oom.role = Some(Role::OptimizerState);
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::Capacity);
    assert_eq!(found.place.as_deref(), Some("train.py:3 build"));
    assert_eq!(
        found.evidence,
        [
            "weights 3.0 GiB, gradients 3.0 GiB: 92.3% of 6.5 GiB handed out stay from step to step (estimated from stacks)",
            "with what was asked for 6.8 GiB of 8.0 GiB",
        ]
    );
    assert!(found.also.is_empty(), "{:?}", found.also);
}

#[test]
fn a_request_larger_than_the_gpu() {
    let found = verdict(&failure(64 * GIB, 7 * GIB, Vec::new(), 0));
    assert_eq!(found.class, Cause::Capacity);
    assert_eq!(found.place.as_deref(), Some("train.py:7 main"));
    assert_eq!(
        found.evidence,
        ["64.0 GiB were asked for, 8.0 GiB is all there is"]
    );
}

#[test]
fn a_long_sequence() {
    let mut oom = failure(
        2 * GIB,
        GIB,
        vec![
            site("train.py:3 build", Some(Role::Weights), GIB / 2, 40, 40),
            site("train.py:7 main", Some(Role::Activations), 2 * GIB, 1, 300),
            site("train.py:8 main", Some(Role::Activations), 2 * GIB, 1, 300),
        ],
        0,
    );
    oom.role = Some(Role::Activations);
    with_cache(&mut oom).jumped = vec![JumpedSite {
        before_bytes: 32 * MIB,
        bytes: 2 * GIB,
        of: place("train.py:7 main"),
    }];
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::ActivationPeak);
    // What was asked for counts for the line that asked.
    assert_eq!(found.place.as_deref(), Some("train.py:7 main"));
    assert_eq!(
        found.evidence,
        [
            "activations are 6.0 GiB of 6.5 GiB with what was asked for (estimated from stacks), 4.0 GiB of them from train.py:7 main",
            "train.py:7 main held at most 32.0 MiB before, 2.0 GiB this time",
        ]
    );
}

#[test]
fn enough_is_idle_in_pieces() {
    let mut oom = failure(
        2 * GIB,
        100 * MIB,
        vec![site("train.py:5 block", Some(Role::Other), GIB, 41, 205)],
        6 * GIB,
    );
    with_cache(&mut oom).pinned = vec![PinnedSite {
        segments: 41,
        idle_bytes: 6 * GIB,
        used_bytes: GIB,
        of: place("train.py:5 block"),
    }];
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::Fragmentation);
    assert_eq!(found.place.as_deref(), Some("train.py:5 block"));
    assert_eq!(
        found.evidence,
        [
            "asked 2.0 GiB; 6.0 GiB idle in 41 segments, largest hole 768.0 MiB",
            "blocks of train.py:5 block keep 41 segments with 6.0 GiB idle from being given back",
        ]
    );
    assert!(
        found.advice[0].contains("PYTORCH_ALLOC_CONF=expandable_segments:True"),
        "{:?}",
        found.advice
    );
    // What is on already is not advised.
    let on = Situation {
        settings: [(
            "PYTORCH_ALLOC_CONF".to_owned(),
            "expandable_segments:True".to_owned(),
        )]
        .into(),
        ..torch()
    };
    let found = diagnose(&oom, &on).expect("a verdict");
    assert!(found.advice[0].contains("on already"), "{:?}", found.advice);
}

#[test]
fn one_hole_that_is_large_enough_is_no_fragmentation() {
    let mut oom = failure(2 * GIB, 100 * MIB, Vec::new(), 6 * GIB);
    with_cache(&mut oom).segments.largest_hole_bytes = 3 * GIB;
    assert_eq!(verdict(&oom).class, Cause::NotClear);
}

fn rising(origin: &str, rise: u64, role: Role) -> RisingSite {
    RisingSite {
        rise_bytes: rise,
        steps: 11,
        of_slots: 12,
        larger_blocks: false,
        late: false,
        blocks: 128,
        allocs: 128,
        rounds: 11,
        turnover: 11,
        via: None,
        role: Some(role),
        of: place(origin),
    }
}

#[test]
fn tensors_in_a_list() {
    let mut oom = failure(
        32 * MIB,
        16 * MIB,
        vec![
            site("train.py:20 main", Some(Role::Other), 4 * GIB, 128, 128),
            site("train.py:9 main", Some(Role::Activations), 3 * GIB, 30, 900),
        ],
        0,
    );
    with_cache(&mut oom).rising = vec![
        rising("train.py:20 main", 3 * GIB, Role::Other),
        rising("train.py:9 main", GIB, Role::Activations),
    ];
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::Retention);
    assert_eq!(found.place.as_deref(), Some("train.py:20 main"));
    assert_eq!(
        found.evidence,
        [
            "train.py:20 main rose by 3.0 GiB after the first quarter of the run, in 11 of its 12 parts",
            "with others that rise along with it 4.0 GiB: 57.1% of what lives",
        ]
    );
    // Activations are much of it, too: that is said, but it is not the cause.
    assert_eq!(found.also.len(), 1);
    assert_eq!(found.also[0].class, Cause::ActivationPeak);
}

#[test]
fn a_model_that_is_being_built_is_no_retention() {
    let mut oom = failure(
        256 * MIB,
        16 * MIB,
        vec![site(
            "train.py:3 build",
            Some(Role::Weights),
            7 * GIB,
            28,
            28,
        )],
        0,
    );
    oom.role = Some(Role::Weights);
    with_cache(&mut oom).rising = vec![rising("train.py:3 build", 5 * GIB, Role::Weights)];
    let found = verdict(&oom);
    assert_eq!((found.class, found.also.len()), (Cause::Capacity, 0));
}

#[test]
fn a_share_taken_up_front() {
    let oom = failure(
        GIB,
        480 * MIB,
        vec![
            site("serve.py:4 Server", Some(Role::Other), 6 * GIB, 1, 1),
            site("serve.py:3 Server", Some(Role::Weights), 64 * MIB, 4, 4),
            site("serve.py:9 answer", Some(Role::Other), 256 * MIB, 1, 150),
        ],
        0,
    );
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::Reservation);
    assert_eq!(found.place.as_deref(), Some("serve.py:4 Server"));
    assert_eq!(
        found.evidence,
        [
            "serve.py:4 Server took 6.0 GiB in 1 block and keeps it, 75.0% of all there is; 1.0 GiB found no room beside it"
        ]
    );
}

#[test]
fn others_have_it() {
    let mut oom = failure(
        GIB,
        GIB / 2,
        vec![site("train.py:3 build", None, GIB, 4, 4)],
        0,
    );
    oom.ledger = vec![
        line("device", GIB),
        line("other_processes", 6 * GIB),
        line("free", GIB / 2),
    ];
    oom.others = vec![Other {
        pid: 4711,
        bytes: Some(6 * GIB),
        name: "/usr/bin/python3".to_owned(),
    }];
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::OtherProcess);
    assert_eq!(
        found.evidence,
        [
            "other processes hold 6.0 GiB of 8.0 GiB (pid 4711 python3); without them 6.5 GiB would have been free"
        ]
    );
    // If it had not fitted without them either, they are not the reason.
    oom.cache = None;
    oom.requested_bytes = Some(7 * GIB);
    assert_ne!(verdict(&oom).class, Cause::OtherProcess);
}

#[test]
fn a_library_beside_the_cache() {
    let mut oom = failure(
        64 * MIB,
        10 * MIB,
        vec![site("train.py:9 main", Some(Role::Other), 3 * GIB, 30, 900)],
        4 * GIB,
    );
    with_cache(&mut oom).asked_bytes = None;
    oom.stack = Rc::from([Rc::new(Frame {
        function: Some("cublasCreate_v2".to_owned()),
        file: None,
        line: None,
        library: "libcublas.so.13".to_owned(),
        offset: 1,
        language: Language::Native,
        build_id: None,
    })]);
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::StarvedLibrary);
    assert_eq!(found.place.as_deref(), Some("train.py:7 main"));
    assert_eq!(
        found.evidence,
        [
            "PyTorch's cache holds 7.0 GiB of 8.0 GiB, 4.0 GiB of it idle; cudaMalloc asked 64.0 MiB on GPU 0 beside it"
        ]
    );
}

#[test]
fn memory_of_the_host() {
    let mut oom = failure(64 * GIB, 0, Vec::new(), 0);
    oom.cache = None;
    (oom.space, oom.device) = (Some("pinned"), None);
    (oom.free_bytes, oom.total_bytes) = (None, None);
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::HostMemory);
}

#[test]
fn what_no_allocation_explains() {
    let mut oom = failure(GIB, GIB / 2, Vec::new(), 0);
    oom.cache = None;
    oom.ledger = vec![
        line("device", GIB),
        line("contexts", GIB / 2),
        line("graph_execs", 5 * GIB),
        line("rest", GIB),
        line("free", GIB / 2),
    ];
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::HiddenGrowth);
    assert_eq!(
        found.evidence,
        [
            "6.5 GiB of 8.0 GiB are no allocations: executable graphs 5.0 GiB, not explained 1.0 GiB, contexts 512.0 MiB"
        ]
    );
}

#[test]
fn what_cannot_be_told_is_not_told() {
    let oom = failure(
        512 * MIB,
        16 * MIB,
        vec![
            site("a.py:1 f", Some(Role::Other), 2 * GIB, 9, 90),
            site("a.py:2 g", Some(Role::Other), 2 * GIB, 9, 90),
            site("a.py:3 h", Some(Role::Other), 2 * GIB + 1, 9, 90),
        ],
        0,
    );
    let found = verdict(&oom);
    assert_eq!(found.class, Cause::NotClear);
    assert_eq!(found.place.as_deref(), Some("a.py:3 h"));
    assert_eq!(
        found.evidence,
        ["most is held by a.py:3 h: 2.0 GiB of 6.0 GiB"]
    );
}

#[test]
fn what_was_recovered_from_needs_no_verdict() {
    for class in [Class::Recovered, Class::Probe] {
        let oom = Oom {
            class,
            ..failure(GIB, 0, Vec::new(), 0)
        };
        assert_eq!(diagnose(&oom, &torch()), None);
    }
}
