//! What may be added to a graph, and whose an address is.

use super::super::{Mode, ready};
use super::*;
use crate::abi::Location;

const MIB: u64 = 1 << 20;

fn on_device(id: i32) -> PoolProps {
    let location = Location {
        kind: LOCATION_DEVICE,
        id,
    };
    PoolProps::new(location)
}

#[test]
fn an_address_is_freed_once_by_its_graph_or_by_others() {
    let (mut driver, _) = ready("2x16GiB");
    let (own, other) = (driver.create_graph(), driver.create_graph());
    let (node, p) = driver.add_alloc_node(own, &[], on_device(0), MIB).unwrap();
    driver.add_free_node(own, &[node], p).unwrap();
    assert_eq!(driver.add_free_node(own, &[], p).unwrap_err().0, 1);
    assert_eq!(driver.add_free_node(other, &[], p).unwrap_err().0, 1);
    let (_, q) = driver.add_alloc_node(own, &[], on_device(0), MIB).unwrap();
    driver.add_free_node(other, &[], q).unwrap();
    assert_eq!(driver.add_free_node(other, &[], q).unwrap_err().0, 1);
    assert_eq!(driver.add_free_node(own, &[], q).unwrap_err().0, 1);
    assert_eq!(driver.add_free_node(other, &[], q + 512).unwrap_err().0, 1);
}

#[test]
fn nodes_come_after_nodes_of_the_same_graph() {
    let (mut driver, _) = ready("2x16GiB");
    let (one, two) = (driver.create_graph(), driver.create_graph());
    let node = driver.add_other_node(one, &[], NODE_EMPTY).unwrap();
    assert_eq!(
        driver
            .add_other_node(two, &[node], NODE_EMPTY)
            .unwrap_err()
            .0,
        1
    );
    assert_eq!(driver.add_other_node(one, &[], 99).unwrap_err().0, 1);
    assert_eq!(driver.graph_nodes(one), Ok(vec![node]));
    assert_eq!(driver.node(node), Ok(Node::Other(NODE_EMPTY)));
    assert!(driver.node(one).is_err());
}

#[test]
fn a_clone_has_nodes_of_its_own_and_none_for_memory() {
    let (mut driver, _) = ready("2x16GiB");
    let graph = driver.create_graph();
    let node = driver.add_other_node(graph, &[], 2).unwrap();
    let clone = driver.clone_graph(graph).unwrap();
    let nodes = driver.graph_nodes(clone).unwrap();
    assert_eq!(nodes.len(), 1);
    assert_ne!(nodes[0], node);
    driver
        .add_alloc_node(graph, &[], on_device(0), MIB)
        .unwrap();
    assert_eq!(driver.clone_graph(graph).unwrap_err().0, 801);
}

#[test]
fn alloc_nodes_are_of_a_device_and_not_shared() {
    let (mut driver, _) = ready("2x16GiB");
    let graph = driver.create_graph();
    let mut add = |props, bytes| {
        let answer = driver.add_alloc_node(graph, &[], props, bytes);
        crate::codes::number(&answer)
    };
    assert_eq!(add(on_device(1), MIB), 0);
    assert_eq!(add(on_device(1), 0), 1);
    assert_eq!(add(on_device(7), MIB), 101);
    let shared = PoolProps {
        handle_types: 1,
        ..on_device(0)
    };
    assert_eq!(add(shared, MIB), 1);
}

#[test]
fn the_address_of_a_destroyed_graph_comes_again() {
    let (mut driver, _) = ready("2x16GiB");
    let graph = driver.create_graph();
    let (_, p) = driver
        .add_alloc_node(graph, &[], on_device(0), MIB)
        .unwrap();
    driver.destroy_graph(graph).unwrap();
    assert_eq!(driver.destroy_graph(graph).unwrap_err().0, 1);
    let graph = driver.create_graph();
    let (_, q) = driver
        .add_alloc_node(graph, &[], on_device(0), MIB)
        .unwrap();
    assert_eq!(p, q);
}

#[test]
fn a_capture_adds_nodes_to_a_graph_that_exists() {
    let (mut driver, thread) = ready("2x16GiB");
    let handle = driver.create_stream(thread, 1, 0).unwrap();
    let stream = Stream {
        handle,
        per_thread: false,
    };
    let graph = driver.create_graph();
    let mode = Mode::ThreadLocal;
    driver
        .begin_capture(thread, stream, mode, Some(graph))
        .unwrap();
    assert_eq!(driver.destroy_graph(graph).unwrap_err().0, 1);
    assert_eq!(driver.instantiate(thread, graph, 0, None).unwrap_err().0, 1);
    let p = driver.alloc_async(thread, MIB, None, stream).unwrap();
    driver.enqueue(thread, stream, 2).unwrap();
    driver.free_async(thread, p, stream).unwrap();
    assert_eq!(driver.end_capture(thread, stream), Ok(graph));
    let kinds = driver.graph_nodes(graph).unwrap().into_iter();
    let kinds: Vec<i32> = kinds
        .map(|node| driver.node(node).unwrap().kind())
        .collect();
    assert_eq!(kinds, [10, 2, 11]);
}

#[test]
fn a_broken_capture_leaves_the_graph_that_was_there_before() {
    let (mut driver, thread) = ready("2x16GiB");
    let handle = driver.create_stream(thread, 1, 0).unwrap();
    let stream = Stream {
        handle,
        per_thread: false,
    };
    let graph = driver.create_graph();
    let mode = Mode::ThreadLocal;
    driver
        .begin_capture(thread, stream, mode, Some(graph))
        .unwrap();
    assert_eq!(driver.alloc(thread, MIB).unwrap_err().0, 900);
    assert_eq!(driver.end_capture(thread, stream).unwrap_err().0, 901);
    driver.destroy_graph(graph).unwrap();
}
