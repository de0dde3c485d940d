//! Phases of the program: ranges that threads are in, ranges that any thread may end, marks between rounds.
//!
//! A range of each thread is nested in the ones that the thread entered before; a mark ends a round that began at the mark of
//! the same name before it (or at the beginning). Names that differ in numbers only ("step 17") are one phase, of which each
//! range is an instance. Of each instance it is known what lived when it began, when it ended, and at most meanwhile.

use crate::hash::Map;
pub use crate::phase::{Height, Instance, PhaseUse};
use crate::phase::{end, fold, stand_at, whole};
use oomhook_trace::ThreadId;
use oomhook_trace::told::{Phase, PhaseName, PhaseNameId, PhaseWhat};
use serde::{Deserialize, Serialize};

/// Number of a phase, from 1; 0 means none.
pub type PhaseId = u32;

/// Phases kept; what comes beyond is in [`BEYOND`].
pub const MOST_PHASES: usize = 1024;
/// Stands for all phases beyond those kept; nothing is known of it.
pub const BEYOND: PhaseId = PhaseId::MAX;
/// Names kept.
const MOST_NAMES: usize = 65_536;
/// Instances kept of each of the first phases, and of each later one: the latest ones.
const MOST_INSTANCES: usize = 512;
const FEW_INSTANCES: usize = 16;
/// Phases of which many instances are kept.
const MAIN_PHASES: usize = 32;
/// Ranges that a thread may be in at once, and that may be open for any thread.
const MOST_OPEN: usize = 256;

/// Domains of libraries: their ranges are phases, but what is allocated in them belongs to the program's own phase.
const OF_LIBRARIES: [&str; 8] = [
    "NCCL", "CCCL", "cuBLAS", "cuDNN", "cuFFT", "cuSPARSE", "cuSOLVER", "TensorRT",
];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Open {
    phase: PhaseId,
    domain: u32,
    of_library: bool,
    instance: Instance,
}

/// All phases.
#[derive(Clone, Default)]
pub struct Phases {
    names: Map<PhaseNameId, PhaseName>,
    phases: Vec<PhaseUse>,
    by_folded: Map<String, PhaseId>,
    threads: Vec<(ThreadId, Vec<Open>)>,
    started: Vec<(u64, Open)>,
    /// Rounds that last, by phase; the latest mark's is the last one.
    rounds: Vec<Open>,
    beyond: u64,
}

/// What goes into a checkpoint besides the names.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedPhases {
    phases: Vec<PhaseUse>,
    threads: Vec<(ThreadId, Vec<Open>)>,
    started: Vec<(u64, Open)>,
    rounds: Vec<Open>,
    beyond: u64,
}

impl Phases {
    /// True if the program told of any.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.phases.is_empty()
    }

    /// Ranges and marks of phases beyond those kept.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Every phase with its number, in order of appearance.
    pub fn iter(&self) -> impl Iterator<Item = (PhaseId, &PhaseUse)> {
        let numbered = self.phases.iter().enumerate();
        numbered.map(|(at, phase)| (at as PhaseId + 1, phase))
    }

    /// One phase.
    #[must_use]
    pub fn get(&self, id: PhaseId) -> Option<&PhaseUse> {
        self.phases.get((id as usize).checked_sub(1)?)
    }

    /// The number of the instance of a phase that lasts now, from 1; 0 for no phase.
    #[must_use]
    pub fn round(&self, id: PhaseId) -> u64 {
        self.get(id).map_or(0, |phase| phase.count + 1)
    }

    /// A name as the program gave it, with its domain.
    #[must_use]
    pub fn name(&self, id: PhaseNameId) -> Option<String> {
        self.names.get(&id).map(whole)
    }

    /// The instances that last, with their phases, as of now, in order of beginning. `heights` is what lives now. A round has
    /// no name yet: the mark that ends it gives it one.
    pub(crate) fn lasting(&self, heights: &[Height]) -> Vec<(PhaseId, Instance)> {
        let mut all: Vec<(PhaseId, Instance)> = Vec::new();
        for (_, open) in &self.threads {
            // What is in an inner range is in the outer ones, which learn of it when it ends.
            let mut inner: Option<Instance> = None;
            for open in open.iter().rev() {
                let mut instance = open.instance.clone();
                if let Some(inner) = &inner {
                    instance.contain(inner);
                }
                inner = Some(instance.clone());
                all.push((open.phase, instance));
            }
        }
        let started = self.started.iter().map(|(_, open)| open);
        all.extend(started.map(|open| (open.phase, open.instance.clone())));
        let rounds = self.rounds.iter().map(|open| {
            let name = PhaseNameId::default();
            let instance = open.instance.clone();
            (open.phase, Instance { name, ..instance })
        });
        all.extend(rounds);
        for (_, instance) in &mut all {
            stand_at(instance, heights);
        }
        all.sort_by_key(|(phase, instance)| (instance.begun_ns, *phase));
        all
    }

    /// The phase that a thread is in: of its own ranges the innermost that is no library's; else of the only thread that has
    /// such ranges (a helper of that thread, as PyTorch's threads of the backward pass are); else of the ranges that any thread
    /// may end the latest; else the round of the latest mark.
    #[must_use]
    pub fn of_thread(&self, thread: ThreadId) -> PhaseId {
        innermost(self.around(thread)).map_or(0, |open| open.phase)
    }

    /// That phase and those around it, the outermost first, each with the name of its instance; a round has none yet.
    pub(crate) fn within(&self, thread: ThreadId) -> Vec<(PhaseId, PhaseNameId)> {
        let around = self.around(thread);
        let is_round = |open| self.rounds.iter().any(|round| std::ptr::eq(round, open));
        let name = |open: &Open| match is_round(open) {
            true => PhaseNameId::default(),
            false => open.instance.name,
        };
        let own = around.iter().filter(|open| !open.of_library);
        let own: Vec<_> = own.map(|open| (open.phase, name(open))).collect();
        if own.is_empty() {
            let last = around.last().map(|open| (open.phase, name(open)));
            return last.into_iter().collect();
        }
        own
    }

    /// The ranges that a thread is in, or what stands for them.
    fn around(&self, thread: ThreadId) -> &[Open] {
        let own = self.threads.iter().find(|(of, _)| *of == thread);
        if let Some((_, open)) = own.filter(|(_, open)| !open.is_empty()) {
            return open;
        }
        let has_own = |open: &[Open]| innermost(open).is_some_and(|open| !open.of_library);
        let mut others = self.threads.iter().filter(|(_, open)| has_own(open));
        if let (Some((_, open)), None) = (others.next(), others.next()) {
            return open;
        }
        let started = self.started.last().map(|(_, open)| open);
        started
            .or(self.rounds.last())
            .map_or(&[], std::slice::from_ref)
    }

    pub(crate) fn define(&mut self, name: &PhaseName) {
        if self.names.len() < MOST_NAMES || self.names.contains_key(&name.id) {
            self.names.insert(name.id, name.clone());
        }
    }

    /// The names as records of a checkpoint.
    pub(crate) fn names(&self) -> impl Iterator<Item = &PhaseName> {
        self.names.values()
    }

    /// The phase of a name; 0 for a name that is not known.
    fn phase_of(&mut self, name: PhaseNameId, is_mark: bool) -> PhaseId {
        let is_full = self.phases.len() >= MOST_PHASES;
        let Some(name) = self.names.get(&name) else {
            // Whoever sends names has no room for so many, either.
            self.beyond += u64::from(is_full);
            return if is_full { BEYOND } else { 0 };
        };
        let (folded, whole) = (fold(name), whole(name));
        if let Some(id) = self.by_folded.get(&folded) {
            let phase = &mut self.phases[*id as usize - 1];
            if phase.only.as_ref().is_some_and(|only| *only != whole) {
                phase.only = None;
            }
            return *id;
        }
        if is_full {
            self.beyond += 1;
            return BEYOND;
        }
        self.phases.push(PhaseUse {
            folded: folded.clone(),
            only: Some(whole),
            is_mark,
            ..PhaseUse::default()
        });
        let id = self.phases.len() as PhaseId;
        self.by_folded.insert(folded, id);
        id
    }

    fn begin(&mut self, phase: &Phase, name: PhaseNameId, heights: Vec<Height>) -> Open {
        let of_library = self.names.get(&name).is_some_and(|name| {
            OF_LIBRARIES
                .iter()
                .any(|library| name.domain.starts_with(library))
        });
        Open {
            phase: self.phase_of(name, false),
            domain: 0,
            of_library,
            instance: Instance {
                name,
                thread: phase.thread,
                begun_ns: phase.time_ns,
                ended_ns: None,
                heights,
                hidden: 0,
            },
        }
    }

    /// Takes in a border; `heights` is what lives now, `highest_so_far` what lived at most since the beginning.
    pub(crate) fn apply(
        &mut self,
        phase: &Phase,
        heights: Vec<Height>,
        highest_so_far: impl FnOnce() -> Vec<Height>,
    ) {
        match phase.what {
            PhaseWhat::Push { name, domain } => {
                let open = Open {
                    domain,
                    ..self.begin(phase, name, heights)
                };
                let place = self.thread_mut(phase.thread);
                if place.len() < MOST_OPEN {
                    place.push(open);
                }
            }
            PhaseWhat::Pop { domain } => {
                let place = self.thread_mut(phase.thread);
                let Some(at) = place.iter().rposition(|open| open.domain == domain) else {
                    return;
                };
                // Ranges of other domains may be crossed with it: what they saw, it saw.
                let (lower, upper) = place.split_at_mut(at + 1);
                for open in upper.iter() {
                    lower[at].instance.contain(&open.instance);
                }
                let mut open = place.remove(at);
                if let Some(outer) = at.checked_sub(1).and_then(|at| place.get_mut(at)) {
                    outer.instance.contain(&open.instance);
                }
                if place.is_empty() {
                    self.threads.retain(|(thread, _)| *thread != phase.thread);
                }
                end(&mut open.instance, phase.time_ns, &heights);
                self.finish(open.phase, open.instance);
            }
            PhaseWhat::Start { name, range } => {
                if self.started.len() < MOST_OPEN {
                    let open = self.begin(phase, name, heights);
                    self.started.push((range, open));
                }
            }
            PhaseWhat::End { range } => {
                let Some(at) = self.started.iter().position(|(of, _)| *of == range) else {
                    return;
                };
                let (_, mut open) = self.started.remove(at);
                end(&mut open.instance, phase.time_ns, &heights);
                self.finish(open.phase, open.instance);
            }
            PhaseWhat::Mark { name } => self.mark(phase, name, heights, highest_so_far),
        }
    }

    fn mark(
        &mut self,
        phase: &Phase,
        name: PhaseNameId,
        heights: Vec<Height>,
        highest_so_far: impl FnOnce() -> Vec<Height>,
    ) {
        let id = self.phase_of(name, true);
        if self.get(id).is_none() {
            return;
        }
        let known = self.rounds.iter().position(|open| open.phase == id);
        let mut round = match known {
            Some(at) => self.rounds.remove(at).instance,
            // The first round began with the recording, when nothing lived.
            None => Instance {
                heights: highest_so_far(),
                ..Instance::default()
            },
        };
        round.name = name;
        round.thread = phase.thread;
        end(&mut round, phase.time_ns, &heights);
        self.finish(id, round);
        let mut open = self.begin(phase, name, heights);
        open.phase = id;
        self.rounds.push(open);
    }

    fn thread_mut(&mut self, thread: ThreadId) -> &mut Vec<Open> {
        let at = match self.threads.iter().position(|(of, _)| *of == thread) {
            Some(at) => at,
            None => {
                self.threads.push((thread, Vec::new()));
                self.threads.len() - 1
            }
        };
        &mut self.threads[at].1
    }

    fn finish(&mut self, id: PhaseId, instance: Instance) {
        let Some(at) = (id as usize).checked_sub(1) else {
            return;
        };
        let most = if at < MAIN_PHASES {
            MOST_INSTANCES
        } else {
            FEW_INSTANCES
        };
        let Some(phase) = self.phases.get_mut(at) else {
            return;
        };
        phase.count += 1;
        phase.hidden += instance.hidden;
        let number = phase.count;
        let highest = |of: fn(&Height) -> u64, known: &Option<(u64, Instance)>| {
            let top = |instance: &Instance| instance.heights.iter().map(of).max().unwrap_or(0);
            let now = top(&instance);
            let is_higher = known.as_ref().is_none_or(|(_, known)| now > top(known));
            (now > 0 && is_higher).then(|| (number, instance.clone()))
        };
        if let Some(new) = highest(|height| height.peak, &phase.highest) {
            phase.highest = Some(new);
        }
        if let Some(new) = highest(|height| height.tensors_peak, &phase.highest_tensors) {
            phase.highest_tensors = Some(new);
        }
        if phase.instances.len() >= most {
            phase.instances.pop_front();
        }
        phase.instances.push_back(instance);
    }

    /// The instances that see what happens now: of each thread the innermost (its outer ones learn of it when it ends).
    fn witnesses(&mut self) -> impl Iterator<Item = &mut Instance> {
        let of_threads = self
            .threads
            .iter_mut()
            .filter_map(|(_, open)| open.last_mut());
        let all = of_threads
            .chain(self.started.iter_mut().map(|(_, open)| open))
            .chain(&mut self.rounds);
        all.map(|open| &mut open.instance)
    }

    /// Device bytes grew to this.
    pub(crate) fn grew(&mut self, device: Option<u8>, live: u64) {
        for instance in self.witnesses() {
            let height = instance.height(device);
            height.peak = height.peak.max(live);
        }
    }

    /// What a cache has handed out grew to this.
    pub(crate) fn tensors_grew(&mut self, device: u8, allocated: u64) {
        for instance in self.witnesses() {
            let height = instance.height(Some(device));
            height.tensors_peak = height.tensors_peak.max(allocated);
        }
    }

    /// A call took device memory without saying so.
    pub(crate) fn took(&mut self, thread: ThreadId, bytes: i64) {
        let own = self.threads.iter_mut().find(|(of, _)| *of == thread);
        if let Some(open) = own.and_then(|(_, open)| open.last_mut()) {
            open.instance.hidden += bytes;
        }
        let others = self.started.iter_mut().map(|(_, open)| open);
        for open in others.chain(&mut self.rounds) {
            open.instance.hidden += bytes;
        }
    }

    /// A thread is gone, and what it was in has ended with it.
    pub(crate) fn thread_ended(&mut self, thread: ThreadId, time_ns: u64, heights: &[Height]) {
        let Some(at) = self.threads.iter().position(|(of, _)| *of == thread) else {
            return;
        };
        let (_, mut open) = self.threads.swap_remove(at);
        while let Some(mut inner) = open.pop() {
            if let Some(outer) = open.last_mut() {
                outer.instance.contain(&inner.instance);
            }
            end(&mut inner.instance, time_ns, heights);
            self.finish(inner.phase, inner.instance);
        }
    }

    pub(crate) fn save(&self) -> SavedPhases {
        SavedPhases {
            phases: self.phases.clone(),
            threads: self.threads.clone(),
            started: self.started.clone(),
            rounds: self.rounds.clone(),
            beyond: self.beyond,
        }
    }

    pub(crate) fn restore(saved: SavedPhases) -> Phases {
        let numbered = saved.phases.iter().enumerate();
        Phases {
            by_folded: numbered
                .map(|(at, phase)| (phase.folded.clone(), at as PhaseId + 1))
                .collect(),
            names: Map::default(),
            phases: saved.phases,
            threads: saved.threads,
            started: saved.started,
            rounds: saved.rounds,
            beyond: saved.beyond,
        }
    }
}

fn innermost(open: &[Open]) -> Option<&Open> {
    let own = open.iter().rev().find(|open| !open.of_library);
    own.or(open.last())
}
