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
        modules.released += count.released;
        modules.image_bytes += count.bytes;
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
            released: count.released,
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
            image_bytes: from.count.bytes,
            stack: Rc::clone(&stack.frames),
        };
        let same = |known: &&mut ObjectSite| {
            (&known.label, &known.library, &known.call, known.device)
                == (&one.label, &one.library, &one.call, one.device)
        };
        match sites.iter_mut().find(same) {
            Some(known) => {
                known.live += one.live;
                known.created += one.created;
                known.image_bytes += one.image_bytes;
            }
            None => sites.push(one),
        }
    }
    sites.sort_by(|a, b| b.live.cmp(&a.live).then_with(|| a.label.cmp(&b.label)));
    sites
}

/// The limits that the program set, by name: those of primary contexts first.
pub fn limits(ledger: &Ledger) -> Vec<Limit> {
    let primary = ledger.limits().map(|(device, number, value)| Limit {
        device: device.map(u32::from),
        context: None,
        limit: limit_name(number),
        value,
    });
    let number = |handle: u64| {
        let all = ledger.contexts().iter().enumerate();
        let found = all.filter(|(_, one)| one.handle == handle && !one.green);
        found.last().map(|(number, _)| number)
    };
    let others = ledger.limits_in().iter().map(|one| Limit {
        device: one.device.map(u32::from),
        context: number(one.context),
        limit: limit_name(one.limit),
        value: one.value,
    });
    primary.chain(others).collect()
}

fn limit_name(number: u32) -> String {
    match number {
        0 => "stack_size".to_owned(),
        1 => "printf_fifo_size".to_owned(),
        2 => "malloc_heap_size".to_owned(),
        other => other.to_string(),
    }
}
