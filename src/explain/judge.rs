//! From the numbers of a message to the likely reason: each rule names what speaks for it, and "not clear" is an answer.

use super::context::{Context, Doing};
use super::message::{Kind, Numbers};
use super::size::BEYOND_ALL;
use super::words as say;
use super::{Explanation, Group, Judgement, Reader};
use crate::explain::frameworks::llama::Purpose;
use oomhook_report::diagnosis::{Cause, Framework, Situation, advice};
use oomhook_report::sentences::{MORE_SHARED_MEMORY, RUN_AGAIN, WRONG_SHAPE};

/// A step that has had others before it.
const MID_RUN: u64 = 10;
/// Less idle than this part of what the cache holds is what any healthy run has, hundredths.
const IDLE_HUNDREDTHS: u64 = 10;
/// Advice that is shown.
const MOST_ADVICE: usize = 5;

/// Judges what was read.
pub fn explain(reader: Reader, lines: u64) -> Explanation {
    let Reader {
        context,
        mut groups,
        further,
        ..
    } = reader;
    // The one that tells most; of these the first.
    let main = groups
        .iter()
        .enumerate()
        .max_by_key(|(at, group)| (group.kind.weight(&group.numbers), std::cmp::Reverse(*at)))
        .map(|(at, _)| at);
    if let Some(main) = main {
        groups[..=main].rotate_right(1);
    }
    let causes = groups
        .first()
        .map_or_else(Vec::new, |group| judge(group, &context));
    let advice = match groups.first() {
        Some(group) if is_beyond_all(&group.numbers) => vec![WRONG_SHAPE.to_owned()],
        Some(group) => {
            let mut advice = advise(&causes, &situation(group, &context));
            if group.kind == Kind::SharedMemory {
                advice.insert(0, MORE_SHARED_MEMORY.to_owned());
            }
            advice
        }
        None => Vec::new(),
    };
    let command = context.command.as_deref().map_or("CMD", without_us);
    Explanation {
        schema_version: 1,
        lines,
        messages: groups,
        further,
        causes,
        advice,
        settings: context.settings,
        next: format!("oomhook run -- {command}"),
        command: context.command,
    }
}

/// A command that ran under us already.
fn without_us(command: &str) -> &str {
    command
        .split_once("oomhook run -- ")
        .map_or(command, |(_, rest)| rest)
}

fn situation(group: &Group, context: &Context) -> Situation {
    let framework = match group.of {
        Framework::PyTorch(told) => Framework::PyTorch(context.torch.or(told)),
        other => other,
    };
    let numbers = &group.numbers;
    Situation {
        framework,
        settings: context.settings.clone(),
        expandable_segments: false,
        empties_cache_each_step: false,
        requested_bytes: numbers.requested_bytes,
        free_bytes: numbers.free_bytes,
        idle_bytes: numbers.idle_bytes,
        largest_hole_bytes: numbers.largest_hole_bytes,
        total_bytes: numbers.total_bytes,
        limit_bytes: numbers.limit_bytes,
    }
}

/// All that helps against the likeliest reason, and the first of what helps against the others.
fn advise(causes: &[Judgement], situation: &Situation) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (at, cause) in causes.iter().enumerate() {
        let mut helps = match cause.class {
            // A log says no more; a run that is watched does.
            Cause::NotClear => vec![RUN_AGAIN.to_owned()],
            class => advice(class, situation),
        };
        if at > 0 {
            helps.truncate(1);
        }
        for help in helps {
            if all.len() < MOST_ADVICE && !all.contains(&help) {
                all.push(help);
            }
        }
    }
    all
}

/// Reasons in the making.
#[derive(Default)]
struct Causes(Vec<Judgement>);

impl Causes {
    /// Evidence for a reason; the one that is named first is the likeliest.
    fn add(&mut self, class: Cause, evidence: String) {
        match self.0.iter_mut().find(|cause| cause.class == class) {
            Some(cause) => cause.evidence.push(evidence),
            None => self.0.push(Judgement {
                class,
                evidence: vec![evidence],
            }),
        }
    }

    fn has(&self, class: Cause) -> bool {
        self.0.iter().any(|cause| cause.class == class)
    }
}

/// Why, likeliest first.
fn judge(group: &Group, context: &Context) -> Vec<Judgement> {
    let mut causes = Causes::default();
    match group.kind {
        Kind::Allocator => match group.of {
            Framework::PyTorch(_) => pytorch(group, &mut causes),
            Framework::Jax | Framework::TensorFlow => pool(group, &mut causes),
            Framework::Vllm => vllm(group, &mut causes),
            Framework::LlamaCpp => llama(group, context, &mut causes),
            _ => cupy(group, &mut causes),
        },
        Kind::ErrorCode if group.purpose.is_some() => llama(group, context, &mut causes),
        Kind::ErrorCode => {
            let reason = match group.numbers.requested_bytes {
                Some(_) => say::NO_TOTAL,
                None => say::CODE_ONLY,
            };
            causes.add(Cause::NotClear, reason.to_owned());
            causes.add(Cause::NotClear, say::CODE_LATE.to_owned());
        }
        Kind::Library => {
            causes.add(Cause::StarvedLibrary, say::LIBRARY_ASKED.to_owned());
            if group.text.starts_with("CUBLAS") {
                causes.add(Cause::StarvedLibrary, say::LIBRARY_OTHER.to_owned());
            }
        }
        Kind::NoCacheBlocks => causes.add(Cause::Reservation, say::NO_BLOCKS.to_owned()),
        Kind::ShareNotFree => share(&group.numbers, &mut causes),
        Kind::CacheTooSmall => causes.add(Cause::Reservation, say::CACHE_SMALL.to_owned()),
        Kind::WarmUp => causes.add(Cause::Reservation, say::WARM_UP.to_owned()),
        Kind::HostAllocator => causes.add(Cause::HostMemory, say::HOST_REFUSED.to_owned()),
        Kind::SharedMemory => causes.add(Cause::HostMemory, say::SHARED_FULL.to_owned()),
        Kind::HostKill => causes.add(Cause::HostMemory, say::HOST_KILLED.to_owned()),
        Kind::Killed => causes.add(Cause::HostMemory, say::KILLED.to_owned()),
    }
    causes.0
}

fn pytorch(group: &Group, causes: &mut Causes) {
    let numbers = &group.numbers;
    if is_beyond_all(numbers) {
        causes.add(Cause::Capacity, say::BEYOND_ALL.to_owned());
        return;
    }
    let (Some(asked), Some(total)) = (numbers.requested_bytes, numbers.total_bytes) else {
        let reason = match numbers.requested_bytes {
            Some(_) => say::NO_TOTAL,
            None if numbers.total_bytes.is_some() => say::CUT_SHORT,
            None => say::CODE_ONLY,
        };
        causes.add(Cause::NotClear, reason.to_owned());
        return;
    };
    if asked > total {
        causes.add(Cause::Capacity, say::more_than_device(asked, total));
        return;
    }
    let free = numbers.free_bytes.unwrap_or(0);
    let idle = numbers.idle_bytes.unwrap_or(0);
    let live = numbers
        .allocated_bytes
        .map(|used| used.saturating_sub(numbers.private_pool_bytes.unwrap_or(0)));
    let reserved = numbers.reserved_bytes.unwrap_or(0);
    let held = match reserved {
        0 => numbers.allocated_bytes.unwrap_or(0).saturating_add(idle),
        reserved => reserved,
    };
    let is_much_idle = u128::from(idle) * 100 >= u128::from(held) * u128::from(IDLE_HUNDREDTHS);
    let is_idle_enough = idle >= asked && is_much_idle;
    if is_idle_enough {
        causes.add(Cause::Fragmentation, say::idle_would_do(idle, asked));
    }
    let limit = numbers.limit_bytes.filter(|limit| *limit < total);
    // The driver's pool takes its limit by what is allocated, and says so only there.
    let of_driver_pool = says(group, say::FACT_DRIVER_POOL);
    let is_at_limit = limit
        .filter(|limit| held.saturating_add(asked) > *limit && (free >= asked || of_driver_pool));
    if let Some(limit) = is_at_limit
        && !is_idle_enough
    {
        let free = numbers.free_bytes.filter(|free| *free >= asked);
        causes.add(Cause::Capacity, say::at_limit(limit, free));
    }
    if is_at_limit.is_none() {
        others(numbers, asked, total, causes);
    }
    if !is_idle_enough && is_much_idle && idle >= total / 20 && idle.saturating_add(free) >= asked {
        causes.add(
            Cause::Fragmentation,
            say::idle_and_free_would_do(idle, free),
        );
    }
    let private = numbers.private_pool_bytes.unwrap_or(0);
    if private > 0 && private >= asked {
        causes.add(Cause::Fragmentation, say::graph_pools(private));
    }
    let is_full = live.is_some_and(|live| live >= total / 2);
    if is_full && !is_idle_enough && free < asked {
        live_tensors(group, asked, total, live.unwrap_or(0), causes);
    }
    if causes.0.is_empty() {
        let reason = match free >= asked {
            true => say::free_would_do(free, asked),
            false if numbers.allocated_bytes.is_none() => say::CUT_SHORT.to_owned(),
            false => say::SIZES_ONLY.to_owned(),
        };
        causes.add(Cause::NotClear, reason);
    }
}

fn says(group: &Group, fact: &str) -> bool {
    group.facts.iter().any(|told| told == fact)
}

/// True if a size was asked for that is a mistake.
fn is_beyond_all(numbers: &Numbers) -> bool {
    numbers
        .requested_bytes
        .is_some_and(|asked| asked >= BEYOND_ALL)
}

/// What is neither free nor this process's.
fn others(numbers: &Numbers, asked: u64, total: u64, causes: &mut Causes) {
    let Some(free) = numbers.free_bytes else {
        return;
    };
    let would_do = |bytes: u64| free.saturating_add(bytes) >= asked && free < asked;
    let told = numbers.others_bytes();
    if told > 0 {
        if told >= total / 10 && would_do(told) {
            causes.add(
                Cause::OtherProcess,
                say::others_have(told, numbers.others.len()),
            );
        }
        return;
    }
    let reserved = numbers.reserved_bytes.or(numbers.allocated_bytes);
    let (ours, share) = match (numbers.process_bytes, reserved) {
        (Some(process), _) => (process, 10),
        // A context and code lie beside the cache as well.
        (None, Some(reserved)) => (reserved, 4),
        (None, None) => return,
    };
    let rest = total.saturating_sub(free).saturating_sub(ours);
    if rest >= total / share && would_do(rest) {
        let evidence = match numbers.process_bytes {
            Some(_) => say::pids_hidden(rest),
            None => say::rest_is_not_ours(rest),
        };
        causes.add(Cause::OtherProcess, evidence);
    }
    if let Some((process, reserved)) = numbers.process_bytes.zip(reserved) {
        let beside = process.saturating_sub(reserved);
        if beside >= total / 4 && would_do(beside) {
            causes.add(Cause::HiddenGrowth, say::beside_cache(beside));
        }
    }
}

/// The GPU is full of live tensors: of which kind, the stack and the step may tell.
fn live_tensors(group: &Group, asked: u64, total: u64, live: u64, causes: &mut Causes) {
    let fills = say::live_fills(live, total, group.numbers.idle_bytes);
    let step = group.step.map(say::at_step);
    let class = match group.doing {
        Some(Doing::Loading) => Cause::Capacity,
        Some(Doing::Optimizer) if group.step.is_none_or(|step| step < MID_RUN) => Cause::Capacity,
        Some(Doing::Forward | Doing::Backward) => Cause::ActivationPeak,
        _ if asked >= total / 10 => Cause::ActivationPeak,
        _ => Cause::Capacity,
    };
    causes.add(class, fills);
    let doing = match group.doing {
        Some(Doing::Loading) => Some(say::AT_LOADING),
        Some(Doing::Optimizer) => Some(say::AT_OPTIMIZER),
        Some(Doing::Backward) => Some(say::AT_BACKWARD),
        Some(Doing::Forward) => Some(say::AT_FORWARD),
        None => None,
    };
    if let Some(doing) = doing {
        causes.add(class, doing.to_owned());
    }
    if class == Cause::ActivationPeak && asked >= total / 10 {
        causes.add(class, say::one_request(asked, total));
    }
    let is_mid_run = group.step.is_some_and(|step| step >= MID_RUN);
    if let Some(step) = step {
        causes.add(class, step);
    }
    if is_mid_run {
        causes.add(Cause::Retention, say::STEPS_PASSED.to_owned());
    }
    if group.doing.is_none() && class == Cause::Capacity && !causes.has(Cause::Retention) {
        causes.add(Cause::ActivationPeak, say::NO_KINDS.to_owned());
    }
}

/// TensorFlow's and XLA's pool.
fn pool(group: &Group, causes: &mut Causes) {
    let numbers = &group.numbers;
    if says(group, say::FACT_DRIVER) {
        causes.add(Cause::Reservation, say::DRIVER_REFUSED.to_owned());
        return;
    }
    if says(group, say::FACT_COMPILER) {
        causes.add(Cause::Capacity, say::COMPILER_SAYS.to_owned());
        return;
    }
    let (Some(asked), Some(limit)) = (numbers.requested_bytes, numbers.limit_bytes) else {
        if !planned(numbers, causes) {
            causes.add(Cause::NotClear, say::POOL_UNKNOWN.to_owned());
        }
        return;
    };
    match numbers.idle_bytes {
        _ if asked > limit => causes.add(Cause::Capacity, say::more_than_pool(asked, limit)),
        Some(idle) if idle >= asked => {
            causes.add(Cause::Fragmentation, say::idle_would_do(idle, asked));
        }
        Some(_) => {
            planned(numbers, causes);
            causes.add(Cause::Capacity, say::POOL_FULL.to_owned());
            if asked >= limit / 10 {
                causes.add(Cause::ActivationPeak, say::one_request(asked, limit));
            }
        }
        None => causes.add(Cause::NotClear, say::POOL_UNKNOWN.to_owned()),
    }
}

/// What a compiled program needs, where XLA tells: the larger part is the reason. False if it does not tell.
fn planned(numbers: &Numbers, causes: &mut Causes) -> bool {
    let parts = numbers.temporary_bytes.zip(numbers.parameter_bytes);
    let Some((temporary, parameters)) = parts else {
        return false;
    };
    // Most outputs are parameters anew, and lie where these lay.
    let class = match temporary > parameters {
        true => Cause::ActivationPeak,
        false => Cause::Capacity,
    };
    causes.add(class, say::planned(temporary, parameters));
    true
}

fn cupy(group: &Group, causes: &mut Causes) {
    let numbers = &group.numbers;
    let wanted = numbers
        .allocated_bytes
        .zip(numbers.requested_bytes)
        .map(|(used, asked)| used.saturating_add(asked));
    let over = wanted
        .zip(numbers.limit_bytes)
        .is_some_and(|(wanted, limit)| wanted > limit);
    match over {
        true => causes.add(Cause::Capacity, say::POOL_LIVE.to_owned()),
        false => causes.add(Cause::NotClear, say::NO_TOTAL.to_owned()),
    }
}

/// PyTorch's message out of vLLM: nothing is trained there, and what is not weights is its share of the GPU.
fn vllm(group: &Group, causes: &mut Causes) {
    let mut of_torch = Causes::default();
    pytorch(group, &mut of_torch);
    for cause in of_torch.0 {
        let is_share = match cause.class {
            Cause::ActivationPeak | Cause::Retention => true,
            Cause::Capacity => {
                let is_full = !is_beyond_all(&group.numbers) && !is_larger_than_device(group);
                is_full && group.doing != Some(Doing::Loading)
            }
            _ => false,
        };
        let class = match is_share {
            true => Cause::Reservation,
            false => cause.class,
        };
        let told = cause.evidence.into_iter();
        // These speak of training.
        for evidence in told.filter(|text| text != say::NO_KINDS && text != say::STEPS_PASSED) {
            causes.add(class, evidence);
        }
    }
    if causes.has(Cause::Reservation) {
        causes.add(Cause::Reservation, say::SHARE_HOLDS.to_owned());
    }
}

fn is_larger_than_device(group: &Group) -> bool {
    let numbers = &group.numbers;
    let pair = numbers.requested_bytes.zip(numbers.total_bytes);
    pair.is_some_and(|(asked, total)| asked > total)
}

fn llama(group: &Group, context: &Context, causes: &mut Causes) {
    let (class, evidence) = match group.purpose {
        Some(Purpose::Cache) => (Cause::Reservation, say::BUFFER_CACHE),
        Some(Purpose::Compute) => (Cause::Reservation, say::BUFFER_COMPUTE),
        Some(Purpose::Weights) => (Cause::Capacity, say::BUFFER_WEIGHTS),
        Some(Purpose::Pool) => (Cause::Capacity, say::BUFFER_POOL),
        None => (Cause::NotClear, say::BUFFER_UNKNOWN),
    };
    causes.add(class, evidence.to_owned());
    if let Some(tokens) = context.context_tokens {
        causes.add(class, say::context(tokens));
    }
}

/// vLLM found less free than its share.
fn share(numbers: &Numbers, causes: &mut Causes) {
    let taken = numbers
        .total_bytes
        .zip(numbers.free_bytes)
        .map(|(total, free)| (total.saturating_sub(free), total));
    // A context and the driver take their part of any GPU.
    match taken {
        Some((taken, total)) if taken >= total / 20 => {
            causes.add(Cause::OtherProcess, say::SHARE_OTHERS.to_owned());
            causes.add(Cause::Reservation, say::CACHE_SHARE.to_owned());
        }
        _ => causes.add(Cause::Reservation, say::SHARE_FEW.to_owned()),
    }
}
