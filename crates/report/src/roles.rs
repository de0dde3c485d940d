//! What blocks of a framework's cache are for: worked out from where they were asked for and how long they lived. An estimate,
//! and shown as one.

use crate::attribution;
use crate::resolve::Resolver;
use oomhook_ledger::Ledger;
use oomhook_ledger::definitions::{Definitions, Frame};
use oomhook_ledger::oom::Group;
use oomhook_trace::StackId;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Parameters and buffers of modules.
    Weights,
    /// What the backward pass leaves for the optimizer.
    Gradients,
    /// What the optimizer keeps.
    OptimizerState,
    /// Results of the forward pass, and what the backward pass needs on its way.
    Activations,
    /// Room that libraries and optimizers work in.
    Workspace,
    /// Anything else: inputs, caches, results that are kept.
    Other,
}

impl Role {
    /// Every role, in the order in which reports list them.
    pub const ALL: [Role; 6] = [
        Role::Weights,
        Role::Gradients,
        Role::OptimizerState,
        Role::Activations,
        Role::Workspace,
        Role::Other,
    ];

    /// The word used in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Weights => "weights",
            Role::Gradients => "gradients",
            Role::OptimizerState => "optimizer_state",
            Role::Activations => "activations",
            Role::Workspace => "workspace",
            Role::Other => "other",
        }
    }
}

/// Where a stack leads through, as far as its Python frames and its node of the backward pass say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    backward: bool,
    optimizer: bool,
    forward: bool,
    making: bool,
    library: bool,
}

/// A stack's blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    allocs: u64,
    ended: u64,
    lived_ns: u64,
}

/// What lives are measured by. Nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// How long results of the forward pass live, about half a step; 0 if there were none.
    activation: u64,
    /// How long the process has been recorded.
    process: u64,
}

impl Life {
    fn add(&mut self, allocs: u64, ended: u64, lived_ns: u64) {
        self.allocs += allocs;
        self.ended += ended;
        self.lived_ns = self.lived_ns.saturating_add(lived_ns);
    }

    /// Hardly any of them ended, or they lived for many steps: an interpreter that ends well frees everything at last.
    fn is_kept(self, times: Times) -> bool {
        let mean = self.mean_ns();
        self.ended * 10 <= self.allocs
            || times.activation > 0 && mean >= 8 * times.activation
            || times.process > 0 && mean >= times.process / 4
    }

    fn mean_ns(self) -> u64 {
        self.lived_ns.checked_div(self.ended).unwrap_or(0)
    }
}

/// The role of each stack that asked a cache for something.
#[derive(Clone, Debug, Default)]
pub struct Roles(HashMap<StackId, Role>);

impl Roles {
    /// Works them out for all stacks of blocks, and for those that failed.
    pub fn of(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Roles {
        let mut stacks: HashSet<StackId> = ledger
            .tensors()
            .rows()
            .map(|(_, row)| row.key.stack)
            .collect();
        let groups = ledger.oom().groups();
        stacks.extend(groups.iter().map(|group| group.stack));
        let mut lives: HashMap<StackId, Life> = stacks
            .iter()
            .map(|stack| (*stack, Life::default()))
            .collect();
        for (_, row) in ledger.tensors().rows() {
            let life = lives.entry(row.key.stack).or_default();
            life.add(row.allocs, row.ended(), row.lived_ns);
        }
        let mut roles = Roles::of_lives(ledger, resolver, lives, ledger.last_ns());
        // What a process that dies of a failure does afterwards says nothing.
        if let Some(latest) = groups.iter().rev().find(|group| group.cache.is_some()) {
            roles
                .0
                .extend(Roles::of_failure(ledger, resolver, latest).0);
        }
        roles
    }

    /// Works them out for what a failure tells of, as of that moment.
    pub fn of_failure(ledger: &Ledger, resolver: &mut Resolver<'_>, group: &Group) -> Roles {
        let Some(cache) = &group.cache else {
            return Roles::default();
        };
        let mut lives = HashMap::from([(group.stack, Life::default())]);
        for ((row, _), (allocs, ended, lived_ns)) in cache.rows.iter().zip(&cache.lives) {
            if let Some(row) = ledger.tensors().row(*row) {
                let life = lives.entry(row.key.stack).or_default();
                life.add(*allocs, *ended, *lived_ns);
            }
        }
        Roles::of_lives(ledger, resolver, lives, group.last_ns)
    }

    fn of_lives(
        ledger: &Ledger,
        resolver: &mut Resolver<'_>,
        lives: HashMap<StackId, Life>,
        process_ns: u64,
    ) -> Roles {
        let placed: Vec<(StackId, Life, Place)> = lives
            .into_iter()
            .map(|(stack, life)| (stack, life, place(ledger.definitions(), resolver, stack)))
            .collect();
        let mut means: Vec<u64> = placed
            .iter()
            .filter(|(_, life, place)| place.forward && !place.backward && life.ended > 0)
            .map(|(_, life, _)| life.mean_ns())
            .collect();
        means.sort_unstable();
        let times = Times {
            activation: means.get(means.len() / 2).copied().unwrap_or(0),
            process: process_ns,
        };
        let roles = placed.into_iter();
        Roles(
            roles
                .map(|(stack, life, place)| (stack, role(place, life, times)))
                .collect(),
        )
    }

    /// The role of a stack; `None` if it was not worked out.
    #[must_use]
    pub fn get(&self, stack: StackId) -> Option<Role> {
        self.0.get(&stack).copied()
    }
}

fn role(place: Place, life: Life, times: Times) -> Role {
    if place.library {
        return Role::Workspace;
    }
    if place.optimizer {
        return if life.is_kept(times) {
            Role::OptimizerState
        } else {
            Role::Workspace
        };
    }
    if place.backward {
        // A gradient stays until the optimizer has used it; what one node hands to the next is gone at once.
        let stays =
            life.is_kept(times) || times.activation > 0 && life.mean_ns() >= times.activation / 4;
        return if stays {
            Role::Gradients
        } else {
            Role::Activations
        };
    }
    if place.forward {
        return Role::Activations;
    }
    if place.making && life.is_kept(times) {
        return Role::Weights;
    }
    Role::Other
}

fn place(definitions: &Definitions, resolver: &mut Resolver<'_>, stack: StackId) -> Place {
    let mut place = Place::default();
    for frame in definitions.stack(stack) {
        let Some(Frame::Python { code, .. }) = definitions.frame(*frame) else {
            continue;
        };
        if let Some(code) = definitions.code(code) {
            look(&mut place, &code.file, &code.name);
        }
    }
    let named = resolver.stack(stack);
    place.backward = named.autograd_node.is_some();
    place.library = attribution::is_working_library(&named.library)
        || named
            .frames
            .iter()
            .take(named.site_frame.map_or(0, |site| site + 1))
            .filter_map(|frame| frame.function.as_deref())
            .any(|function| function.contains("Workspace") || function.contains("workspace"));
    place
}

/// Functions that make modules, move them or read them from files.
const MAKING: [&str; 8] = [
    "Module._apply",
    "Module.to",
    "Module.cuda",
    "Module.to_empty",
    "load_state_dict",
    "from_pretrained",
    "load_file",
    "reset_parameters",
];

/// Parts of the names of optimizers that people write themselves.
const OPTIMIZERS: [&str; 8] = [
    "Optimizer",
    "Adam",
    "SGD",
    "Adafactor",
    "Lion",
    "Muon",
    "Lamb",
    "Shampoo",
];

fn look(place: &mut Place, file: &str, name: &str) {
    let in_optimizers = file.contains("/optim/") || file.contains("/optimizers/");
    let is_step = name.ends_with(".step") && OPTIMIZERS.iter().any(|one| name.contains(one));
    place.optimizer |= in_optimizers || is_step;
    let in_modules = file.contains("/torch/nn/modules/");
    place.forward |= in_modules && name.contains("_call_impl") || name.ends_with(".forward");
    let makes = MAKING.iter().any(|one| name.contains(one));
    place.making |= makes || in_modules && name.ends_with("__init__");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(frames: &[(&str, &str)]) -> Place {
        let mut place = Place::default();
        for (file, name) in frames {
            look(&mut place, file, name);
        }
        place
    }

    const KEPT: Life = Life {
        allocs: 10,
        ended: 0,
        lived_ns: 0,
    };

    fn ended(mean_ns: u64) -> Life {
        Life {
            allocs: 10,
            ended: 10,
            lived_ns: 10 * mean_ns,
        }
    }

    #[test]
    fn each_place_and_life_has_its_role() {
        let adam = of(&[
            ("/venv/torch/optim/adam.py", "Adam._init_group"),
            ("/venv/torch/optim/adam.py", "Adam.step"),
            ("/home/me/train.py", "<module>"),
        ]);
        let times = Times {
            activation: 100,
            process: 5000,
        };
        assert_eq!(role(adam, KEPT, times), Role::OptimizerState);
        assert_eq!(role(adam, ended(5), times), Role::Workspace);
        // Freed when the interpreter ended.
        assert_eq!(role(adam, ended(4000), times), Role::OptimizerState);
        let own = of(&[("/home/me/opt.py", "MyAdam.step")]);
        assert_eq!(role(own, KEPT, times), Role::OptimizerState);
        let weights = of(&[
            (
                "/venv/torch/nn/modules/module.py",
                "Module.to.<locals>.convert",
            ),
            ("/venv/torch/nn/modules/module.py", "Module._apply"),
        ]);
        assert_eq!(role(weights, KEPT, times), Role::Weights);
        let forward = of(&[
            ("/venv/torch/nn/modules/linear.py", "Linear.forward"),
            ("/venv/torch/nn/modules/module.py", "Module._call_impl"),
        ]);
        assert_eq!(role(forward, ended(100), times), Role::Activations);
        let backward = Place {
            backward: true,
            ..Place::default()
        };
        assert_eq!(role(backward, KEPT, times), Role::Gradients);
        assert_eq!(role(backward, ended(90), times), Role::Gradients);
        assert_eq!(role(backward, ended(10), times), Role::Activations);
        assert_eq!(
            role(of(&[("/home/me/train.py", "load")]), KEPT, times),
            Role::Other
        );
    }
}
