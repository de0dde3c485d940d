//! What holds memory that no allocation call shows: modules, graphs, streams and their like; and the limits.

use crate::resolve::Resolver;
use crate::schema::{Limit, Modules, ObjectSite, Objects};
use oomhook_ledger::Ledger;
use oomhook_trace::record::Object;
use std::rc::Rc;

/// Modules and libraries of kernels, as one count.
pub fn modules(ledger: &Ledger) -> Modules {
    let mut modules = Modules::default();
    for kind in [Object::Module, Object::Library] {
        let count = ledger.objects().count(kind);
        modules.live += count.live;
        modules.loaded += count.created;
        modules.unloaded += count.destroyed;
    }
    modules
}

/// Every kind that was ever made, with the makers of the living ones.
pub fn all(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Vec<Objects> {
    let kinds = Object::ALL
        .into_iter()
        .map(|kind| (kind, ledger.objects().count(kind)));
    kinds
        .filter(|(_, count)| count.created > 0)
        .map(|(kind, count)| Objects {
            kind,
            live: count.live,
            created: count.created,
            destroyed: count.destroyed,
            sites: sites(ledger, resolver, kind),
        })
        .collect()
}

/// Who made the living ones of a kind, most first.
pub fn sites(ledger: &Ledger, resolver: &mut Resolver<'_>, kind: Object) -> Vec<ObjectSite> {
    let made = ledger.objects().sites().iter();
    let mut sites: Vec<ObjectSite> = Vec::new();
    for from in made.filter(|from| from.object == kind && from.count.live > 0) {
        let stack = resolver.stack(from.stack);
        let one = ObjectSite {
            site: Rc::clone(&stack.site),
            label: Rc::clone(&stack.label),
            library: Rc::clone(&stack.library),
            call: resolver.call(from.call),
            device: from.device.map(u32::from),
            live: from.count.live,
            created: from.count.created,
        };
        let same = |known: &&mut ObjectSite| {
            (&known.label, &known.library, &known.call, known.device)
                == (&one.label, &one.library, &one.call, one.device)
        };
        match sites.iter_mut().find(same) {
            Some(known) => {
                known.live += one.live;
                known.created += one.created;
            }
            None => sites.push(one),
        }
    }
    sites.sort_by(|a, b| b.live.cmp(&a.live).then_with(|| a.label.cmp(&b.label)));
    sites
}

/// The limits that the program set, by name.
pub fn limits(ledger: &Ledger) -> Vec<Limit> {
    let limits = ledger.limits().map(|(device, number, value)| Limit {
        device: device.map(u32::from),
        limit: match number {
            0 => "stack_size".to_owned(),
            1 => "printf_fifo_size".to_owned(),
            2 => "malloc_heap_size".to_owned(),
            other => other.to_string(),
        },
        value,
    });
    limits.collect()
}
