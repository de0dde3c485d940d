//! Blocks summed by site, stack, space and device.

use crate::phases;
use crate::resolve::Resolver;
use crate::schema::Site;
use oomhook_ledger::phases::PhaseId;
use oomhook_ledger::shapes::{self, Shape};
use oomhook_ledger::{Amount, Ledger, Row};
use oomhook_trace::record::CallId;
use oomhook_trace::{Space, StackId, ThreadId};
use std::collections::HashMap;
use std::rc::Rc;

/// What a site's numbers are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The row's key, without call and thread.
    pub stack: StackId,
    /// Space.
    pub space: Space,
    /// Device.
    pub device: Option<u8>,
}

impl Part {
    /// The part that a row belongs to.
    #[must_use]
    pub fn of(row: &Row) -> Part {
        Part {
            stack: row.key.stack,
            space: row.key.space,
            device: row.key.device,
        }
    }
}

struct Sum {
    part: Part,
    amount: Amount,
    allocs: u64,
    // The row with the most bytes names the thread, the call and the phase.
    largest: u64,
    thread: ThreadId,
    call: CallId,
    phase: PhaseId,
    shape: Option<Shape>,
}

/// The rows with something in them, as sites, largest first; `tick` is the clock of their layer.
pub fn collect<'a>(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    tick: u64,
    rows: impl Iterator<Item = (&'a Row, Amount)>,
) -> Vec<Site> {
    let mut sums: Vec<Sum> = Vec::new();
    let mut numbers: HashMap<(StackId, Space, Option<u8>), usize> = HashMap::new();
    for (row, amount) in rows {
        if amount.blocks == 0 {
            continue;
        }
        let part = Part::of(row);
        let number = *numbers
            .entry((part.stack, part.space, part.device))
            .or_insert_with(|| {
                sums.push(Sum {
                    part,
                    amount: Amount::default(),
                    allocs: 0,
                    largest: 0,
                    thread: row.key.thread,
                    call: row.key.call,
                    phase: row.key.phase,
                    shape: None,
                });
                sums.len() - 1
            });
        let sum = &mut sums[number];
        sum.amount += amount;
        sum.allocs += row.allocs;
        if amount.bytes > sum.largest {
            sum.largest = amount.bytes;
            sum.thread = row.key.thread;
            sum.call = row.key.call;
            sum.phase = row.key.phase;
            sum.shape = shapes::of_row(row, tick);
        }
    }
    sums.sort_by_key(|sum| (std::cmp::Reverse(sum.amount.bytes), sum.part.stack));
    sums.iter().map(|sum| site(sum, ledger, resolver)).collect()
}

fn site(sum: &Sum, ledger: &Ledger, resolver: &mut Resolver<'_>) -> Site {
    let stack = resolver.stack(sum.part.stack);
    Site {
        site: Rc::clone(&stack.site),
        label: Rc::clone(&stack.label),
        library: Rc::clone(&stack.library),
        via: stack.via,
        space: sum.part.space.name(),
        device: sum.part.device.map(u32::from),
        bytes: sum.amount.bytes,
        requested_bytes: sum.amount.requested,
        estimated: sum.part.space == Space::Array,
        blocks: sum.amount.blocks,
        allocs: sum.allocs,
        thread: resolver.thread(sum.thread),
        phase: phases::name(ledger, sum.phase),
        call: resolver.call(sum.call),
        site_frame: stack.site_frame,
        python_site: stack.python_site.clone(),
        autograd_node: stack.autograd_node.clone(),
        site_estimated: stack.is_estimated,
        at_exit: stack.at_exit,
        stack_id: sum.part.stack,
        role: None,
        shape: sum.shape,
        stack: Rc::clone(&stack.frames),
    }
}
