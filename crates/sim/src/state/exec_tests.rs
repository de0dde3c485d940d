//! When the memory of graphs comes and goes, and what stays allocated after a launch.

use super::super::{Mode, ready};
use super::*;

const MIB: u64 = 1 << 20;

struct Scene {
    driver: Driver,
    thread: Thread,
    stream: Stream,
}

impl Scene {
    fn new() -> Scene {
        let (mut driver, thread) = ready("2x16GiB");
        let handle = driver.create_stream(thread, 1, 0).unwrap();
        let per_thread = false;
        let stream = Stream { handle, per_thread };
        Scene {
            driver,
            thread,
            stream,
        }
    }

    /// Captures allocations of these sizes, and the frees of as many of them as `free` says.
    fn capture(&mut self, sizes: &[u64], free: usize) -> (Handle, Vec<DevicePtr>) {
        let (driver, thread, stream) = (&mut self.driver, self.thread, self.stream);
        driver
            .begin_capture(thread, stream, Mode::ThreadLocal, None)
            .unwrap();
        let blocks: Vec<DevicePtr> = sizes
            .iter()
            .map(|&size| driver.alloc_async(thread, size, None, stream).unwrap())
            .collect();
        for &block in &blocks[..free] {
            driver.free_async(thread, block, stream).unwrap();
        }
        (driver.end_capture(thread, stream).unwrap(), blocks)
    }

    fn instantiate(&mut self, graph: Handle, flags: u64) -> Answer<Handle> {
        self.driver
            .instantiate(self.thread, graph, flags, Some(self.stream))
    }

    fn launch(&mut self, exec: Handle) -> Answer<()> {
        self.driver.launch_graph(self.thread, exec, self.stream)
    }

    /// Used and reserved memory of graphs, and what the device lacks.
    fn memory(&self) -> [u64; 3] {
        let read = |attribute| self.driver.graph_attribute(0, attribute).unwrap();
        let lacks = self.driver.total(0) - self.driver.free_memory(0);
        [
            read(GraphAttribute::Used),
            read(GraphAttribute::Reserved),
            lacks,
        ]
    }

    fn trim(&mut self) {
        self.driver.trim_graph_memory(self.thread, 0).unwrap();
    }
}

#[test]
fn memory_comes_with_the_first_launch_and_goes_with_the_trim() {
    let mut scene = Scene::new();
    let (graph, _) = scene.capture(&[16 * MIB], 1);
    let exec = scene.instantiate(graph, 0).unwrap();
    assert_eq!(scene.memory(), [0; 3]);
    for _ in 0..100 {
        scene.launch(exec).unwrap();
        assert_eq!(scene.memory(), [33_554_432; 3]);
    }
    scene.trim();
    assert_eq!(scene.memory(), [33_554_432; 3]);
    scene.driver.destroy_exec(exec).unwrap();
    assert_eq!(scene.memory(), [0, 33_554_432, 33_554_432]);
    scene.trim();
    assert_eq!(scene.memory(), [0; 3]);
    scene.driver.destroy_graph(graph).unwrap();
    assert_eq!(scene.driver.destroy_exec(exec).unwrap_err().0, 1);
    let high = scene.driver.graph_attribute(0, GraphAttribute::UsedHigh);
    assert_eq!(high, Ok(33_554_432));
}

#[test]
fn idle_memory_serves_the_next_graph_first() {
    let mut scene = Scene::new();
    let (first, _) = scene.capture(&[16 * MIB], 1);
    let exec = scene.instantiate(first, 0).unwrap();
    scene.launch(exec).unwrap();
    scene.driver.destroy_exec(exec).unwrap();
    let (second, _) = scene.capture(&[40 * MIB], 1);
    let exec = scene.instantiate(second, 0).unwrap();
    scene.launch(exec).unwrap();
    assert_eq!(scene.memory(), [64 * MIB; 3]);
}

#[test]
fn only_what_is_allocated_at_a_time_needs_memory() {
    let mut scene = Scene::new();
    let (driver, thread, stream) = (&mut scene.driver, scene.thread, scene.stream);
    driver
        .begin_capture(thread, stream, Mode::Relaxed, None)
        .unwrap();
    for _ in 0..4 {
        let block = driver.alloc_async(thread, 20 * MIB, None, stream).unwrap();
        driver.free_async(thread, block, stream).unwrap();
    }
    let graph = driver.end_capture(thread, stream).unwrap();
    let exec = scene.instantiate(graph, 0).unwrap();
    scene.launch(exec).unwrap();
    assert_eq!(scene.memory(), [32 * MIB; 3]);
}

#[test]
fn what_a_graph_does_not_free_the_program_frees_before_the_next_launch() {
    let mut scene = Scene::new();
    let (graph, blocks) = scene.capture(&[MIB], 0);
    let exec = scene.instantiate(graph, 0).unwrap();
    let thread = scene.thread;
    assert_eq!(scene.driver.free(thread, blocks[0]).unwrap_err().0, 1);
    scene.launch(exec).unwrap();
    assert_eq!(scene.launch(exec).unwrap_err().0, 1);
    scene.driver.free(thread, blocks[0]).unwrap();
    assert_eq!(scene.driver.free(thread, blocks[0]).unwrap_err().0, 1);
    scene.launch(exec).unwrap();
    let stream = scene.stream;
    scene.driver.free_async(thread, blocks[0], stream).unwrap();
    scene.launch(exec).unwrap();
}

#[test]
fn auto_free_frees_it_at_the_next_launch() {
    let mut scene = Scene::new();
    let (graph, blocks) = scene.capture(&[MIB], 0);
    let exec = scene.instantiate(graph, AUTO_FREE_ON_LAUNCH).unwrap();
    for _ in 0..3 {
        scene.launch(exec).unwrap();
    }
    assert_eq!(scene.memory(), [32 * MIB; 3]);
    scene.driver.free(scene.thread, blocks[0]).unwrap();
}

#[test]
fn what_is_allocated_outlives_its_graphs() {
    let mut scene = Scene::new();
    let (graph, blocks) = scene.capture(&[MIB], 0);
    let exec = scene.instantiate(graph, 0).unwrap();
    scene.launch(exec).unwrap();
    scene.driver.destroy_exec(exec).unwrap();
    scene.driver.destroy_graph(graph).unwrap();
    scene.trim();
    assert_eq!(scene.memory(), [32 * MIB; 3]);
    scene.driver.free(scene.thread, blocks[0]).unwrap();
    scene.trim();
    assert_eq!(scene.memory(), [0; 3]);
    assert!(scene.driver.place(blocks[0]).is_none());
}

#[test]
fn another_graph_may_free_it() {
    let mut scene = Scene::new();
    let (graph, blocks) = scene.capture(&[MIB], 0);
    let exec = scene.instantiate(graph, 0).unwrap();
    let (driver, thread, stream) = (&mut scene.driver, scene.thread, scene.stream);
    driver
        .begin_capture(thread, stream, Mode::Relaxed, None)
        .unwrap();
    driver.free_async(thread, blocks[0], stream).unwrap();
    let other = driver.end_capture(thread, stream).unwrap();
    let freeing = scene.instantiate(other, 0).unwrap();
    assert_eq!(scene.launch(freeing).unwrap_err().0, 1);
    for _ in 0..2 {
        scene.launch(exec).unwrap();
        scene.launch(freeing).unwrap();
    }
}

#[test]
fn a_graph_with_memory_has_one_executable_at_a_time() {
    let mut scene = Scene::new();
    let (graph, _) = scene.capture(&[MIB], 1);
    let exec = scene.instantiate(graph, 0).unwrap();
    assert_eq!(scene.instantiate(graph, 0).unwrap_err().0, 801);
    scene.driver.destroy_exec(exec).unwrap();
    assert_eq!(scene.instantiate(graph, DEVICE_LAUNCH).unwrap_err().0, 801);
    assert_eq!(scene.instantiate(graph, 16).unwrap_err().0, 1);
    let exec = scene.instantiate(graph, UPLOAD).unwrap();
    assert_eq!(scene.memory(), [32 * MIB; 3]);
    scene.driver.destroy_exec(exec).unwrap();
    let (empty, _) = scene.capture(&[], 0);
    scene.instantiate(empty, 0).unwrap();
    scene.instantiate(empty, 0).unwrap();
}

#[test]
fn a_full_device_refuses_the_launch_and_not_the_graph() {
    let mut scene = Scene::new();
    let (graph, _) = scene.capture(&[16 * MIB], 1);
    let exec = scene.instantiate(graph, 0).unwrap();
    let rest = (16 << 30) - 16 * MIB;
    let held = scene.driver.alloc(scene.thread, rest).unwrap();
    assert_eq!(scene.launch(exec).unwrap_err().0, 2);
    scene.driver.free(scene.thread, held).unwrap();
    scene.launch(exec).unwrap();
}

#[test]
fn high_marks_can_only_be_reset() {
    let mut scene = Scene::new();
    let (graph, _) = scene.capture(&[16 * MIB], 1);
    let exec = scene.instantiate(graph, 0).unwrap();
    scene.launch(exec).unwrap();
    scene.driver.destroy_exec(exec).unwrap();
    scene.trim();
    let driver = &mut scene.driver;
    let high = GraphAttribute::ReservedHigh;
    assert_eq!(driver.graph_attribute(0, high), Ok(32 * MIB));
    assert_eq!(driver.reset_graph_attribute(0, high, 5).unwrap_err().0, 1);
    driver.reset_graph_attribute(0, high, 0).unwrap();
    assert_eq!(driver.graph_attribute(0, high), Ok(0));
    let used = driver.reset_graph_attribute(0, GraphAttribute::Used, 0);
    assert_eq!(used.unwrap_err().0, 1);
    assert_eq!(driver.graph_attribute(9, high).unwrap_err().0, 101);
}
