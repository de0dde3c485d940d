//! Which of the sites that rise keep what nobody needs any more, and which only look like it: a model that is loaded, one long
//! forward pass, sequences that get longer. What cannot be told apart is not accused.

use crate::cache::keys::RisingSite;
use crate::roles::Role;
use crate::sentences as say;

/// Other work that came and went so many times while a site rose shows that the program goes round and round: in a program that
/// loads, or is in its first step, everything rises.
const ROUNDS: u64 = 4;
/// A site that holds fewer blocks has not kept many of anything.
const LEAST_BLOCKS: u64 = 8;
/// A forward pass leaves about one result of a line for each layer; more of them are those of several passes.
const PER_LAYER: u64 = 2;
/// So many more of them show several passes by themselves, where memory ran out: a program that keeps everything has nothing else
/// that comes and goes.
const MANY_PER_LAYER: u64 = 4;
const MANY: u64 = 96;
/// The same where nothing is known of layers.
const LAYERS: u64 = 64;

/// The sites that keep what stays, the steepest first; `weights` is the number of the model's parameters that live. Of a program
/// that ended well more is demanded than of one that ran out of memory.
#[must_use]
pub fn kept(rising: &[RisingSite], weights: u64, ran_out: bool) -> Vec<&RisingSite> {
    let sites = rising.iter();
    sites
        .filter(|site| {
            let many = site.role == Some(Role::Activations)
                && weights > 0
                && site.blocks > MANY.max(MANY_PER_LAYER * weights);
            // Where nothing ever falls, as blocks are replaced before they go, there have to be about as many rounds as blocks.
            let goes_round = site.rounds >= ROUNDS || site.turnover >= ROUNDS.max(site.blocks / 4);
            (goes_round || ran_out && many)
                && site.blocks >= LEAST_BLOCKS
                // A block that is replaced by a larger one each time leaves nothing behind.
                && (!site.larger_blocks || site.blocks * 2 >= site.allocs)
                // Whose blocks are not told one by one: these are segments of a cache.
                && site.via.is_none_or(|_| site.role.is_some())
                && may_stay(site, weights, ran_out)
        })
        .collect()
}

/// How much the sites rose in all, the line of the steepest, and what is said of them beside `held` bytes; `None` if there is none.
#[must_use]
pub fn told(kept: &[&RisingSite], held: u64) -> Option<(u64, String, Vec<String>)> {
    let first = kept.first()?;
    let rise = kept.iter().map(|site| site.rise_bytes).sum();
    let place = first.of.line().to_string();
    let mut evidence = vec![say::rose(first)];
    if rise > first.rise_bytes {
        evidence.push(say::rose_in_all(rise, held));
    }
    Some((rise, place, evidence))
}

fn may_stay(site: &RisingSite, weights: u64, ran_out: bool) -> bool {
    match site.role {
        // A model that is being built rises as well.
        Some(Role::Weights | Role::Gradients | Role::Workspace) => false,
        // It comes once; more and more of it is that of optimizers that are kept.
        Some(Role::OptimizerState) => ran_out,
        Some(Role::Activations) => {
            let of_one_pass = if weights == 0 {
                LAYERS
            } else {
                PER_LAYER * weights
            };
            site.blocks > of_one_pass
        }
        Some(Role::Other) | None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Place;
    use std::rc::Rc;

    fn site(role: Option<Role>, blocks: u64, rounds: u64) -> RisingSite {
        RisingSite {
            rise_bytes: 1 << 30,
            steps: 9,
            of_slots: 9,
            larger_blocks: false,
            late: false,
            blocks,
            allocs: blocks,
            rounds,
            turnover: 0,
            via: None,
            role,
            of: Place {
                site: Rc::from("f"),
                label: Rc::from("f"),
                library: Rc::from("app"),
                origin: None,
                stack: Rc::from([]),
                site_frame: None,
            },
        }
    }

    fn is_kept(site: RisingSite, weights: u64) -> bool {
        !kept(&[site], weights, false).is_empty()
    }

    #[test]
    fn what_rises_while_the_rest_comes_and_goes_is_kept() {
        assert!(is_kept(site(Some(Role::Other), 40, 9), 4));
        assert!(is_kept(site(None, 40, 9), 0));
        // An evaluation that keeps the graph of each batch, with nothing else in it.
        let batches = [site(Some(Role::Activations), 165, 0)];
        assert_eq!(kept(&batches, 8, true).len(), 1);
        assert_eq!(kept(&batches, 8, false).len(), 0);
    }

    #[test]
    fn what_rises_with_everything_else_is_not_accused() {
        // Loading: nothing goes round.
        assert!(!is_kept(site(Some(Role::Other), 80, 0), 0));
        assert!(!is_kept(site(Some(Role::Weights), 80, 9), 80));
        // One growing block, replaced each time.
        assert!(!is_kept(site(Some(Role::Other), 1, 99), 4));
        let replaced = RisingSite {
            larger_blocks: true,
            allocs: 5000,
            ..site(Some(Role::Other), 8, 9)
        };
        assert!(!is_kept(replaced, 4));
        // The first forward pass of 32 layers, in which something comes and goes in each.
        assert!(!is_kept(site(Some(Role::Activations), 32, 32), 64));
        // The same pass again and again.
        assert!(is_kept(site(Some(Role::Activations), 200, 32), 64));
        // Segments of a cache that nobody tells of.
        let hidden = RisingSite {
            via: Some("rmm"),
            ..site(None, 40, 9)
        };
        assert!(!is_kept(hidden, 0));
    }
}
