//! Streams, events and stream capture.

use super::entries;
use crate::abi::Handle;
use crate::codes::{Answer, number, require};
use crate::gate::Call;
use crate::pointer::Out;
use crate::state::{CaptureInfo, Mode};
use std::ffi::{c_int, c_void};

/// Status, id and, if asked for, the graph of a capture. Dependencies are not kept: their count is 0.
fn capture_info(
    call: Call,
    stream: Handle,
    status: Out<c_int>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: [Out<*const c_void>; 2],
    count: Out<usize>,
) -> c_int {
    let answer: Answer<CaptureInfo> = call.run(|driver, thread| {
        require(status.is_set())?;
        driver.capture_info(thread, call.stream(stream))
    });
    status.store(answer.map(|info| info.status as c_int));
    id.store(answer.map(|info| info.id));
    graph.store(answer.map(|info| info.graph));
    for place in dependencies {
        place.store(answer.map(|_| std::ptr::null()));
    }
    count.store(answer.map(|_| 0));
    number(&answer)
}

entries! {
    "cuStreamCreate" 2000 => fn cuStreamCreate(call, out: Out<Handle>, flags: u32) {
        call.give(out, |driver, thread| driver.create_stream(thread, flags, 0))
    }
    "cuStreamCreateWithPriority" 5050 => fn cuStreamCreateWithPriority(call, out: Out<Handle>, flags: u32, priority: c_int) {
        call.give(out, |driver, thread| driver.create_stream(thread, flags, priority))
    }
    "cuStreamDestroy" 2000 => fn cuStreamDestroy(call, stream: Handle) {
        call.act(|driver, _| driver.destroy_stream(stream))
    }
    "cuStreamDestroy" 4000 => fn cuStreamDestroy_v2(call, stream: Handle) {
        call.act(|driver, _| driver.destroy_stream(stream))
    }
    "cuStreamSynchronize" 2000 / cuStreamSynchronize_ptsz 7000 => fn cuStreamSynchronize(call, stream: Handle) {
        call.act(|driver, thread| driver.synchronise_stream(thread, call.stream(stream)))
    }
    "cuStreamQuery" 2000 / cuStreamQuery_ptsz 7000 => fn cuStreamQuery(call, stream: Handle) {
        call.act(|driver, thread| driver.query_stream(thread, call.stream(stream)))
    }
    "cuStreamWaitEvent" 3020 / cuStreamWaitEvent_ptsz 7000 => fn cuStreamWaitEvent(call, stream: Handle, event: Handle, _flags: u32) {
        call.act(|driver, thread| driver.wait_event(thread, call.stream(stream), event))
    }
    "cuStreamGetFlags" 5050 / cuStreamGetFlags_ptsz 7000 => fn cuStreamGetFlags(call, stream: Handle, out: Out<u32>) {
        call.give(out, |driver, thread| Ok(driver.stream_facts(thread, call.stream(stream))?.0))
    }
    "cuStreamGetPriority" 5050 / cuStreamGetPriority_ptsz 7000 => fn cuStreamGetPriority(call, stream: Handle, out: Out<c_int>) {
        call.give(out, |driver, thread| Ok(driver.stream_facts(thread, call.stream(stream))?.1))
    }
    "cuStreamGetCtx" 9020 / cuStreamGetCtx_ptsz 9020 => fn cuStreamGetCtx(call, stream: Handle, out: Out<Handle>) {
        call.give(out, |driver, thread| Ok(driver.stream_facts(thread, call.stream(stream))?.2))
    }
    "cuStreamGetCtx" 12050 / cuStreamGetCtx_v2_ptsz 12050 => fn cuStreamGetCtx_v2(call, stream: Handle, out: Out<Handle>, green: Out<Handle>) {
        // No stream belongs to a green context here.
        green.put(0);
        call.give(out, |driver, thread| Ok(driver.stream_facts(thread, call.stream(stream))?.2))
    }
    "cuEventCreate" 2000 => fn cuEventCreate(call, out: Out<Handle>, _flags: u32) {
        call.give(out, |driver, thread| driver.create_event(thread))
    }
    "cuEventRecord" 2000 / cuEventRecord_ptsz 7000 => fn cuEventRecord(call, event: Handle, stream: Handle) {
        call.act(|driver, thread| driver.record_event(thread, event, call.stream(stream)))
    }
    "cuEventRecordWithFlags" 11010 / cuEventRecordWithFlags_ptsz 11010 => fn cuEventRecordWithFlags(call, event: Handle, stream: Handle, _flags: u32) {
        call.act(|driver, thread| driver.record_event(thread, event, call.stream(stream)))
    }
    "cuEventSynchronize" 2000 => fn cuEventSynchronize(call, event: Handle) {
        call.act(|driver, thread| driver.synchronise_event(thread, event))
    }
    "cuEventQuery" 2000 => fn cuEventQuery(call, event: Handle) {
        call.act(|driver, thread| driver.query_event(thread, event))
    }
    "cuEventElapsedTime" 2000 => fn cuEventElapsedTime(call, out: Out<f32>, start: Handle, end: Handle) {
        call.give(out, |driver, _| driver.elapsed(start, end))
    }
    "cuEventElapsedTime" 12080 => fn cuEventElapsedTime_v2(call, out: Out<f32>, start: Handle, end: Handle) {
        call.give(out, |driver, _| driver.elapsed(start, end))
    }
    "cuEventDestroy" 2000 => fn cuEventDestroy(call, event: Handle) {
        call.act(|driver, _| driver.destroy_event(event))
    }
    "cuEventDestroy" 4000 => fn cuEventDestroy_v2(call, event: Handle) {
        call.act(|driver, _| driver.destroy_event(event))
    }
    "cuStreamBeginCapture" 10000 / cuStreamBeginCapture_ptsz 10000 => fn cuStreamBeginCapture(call, stream: Handle) {
        call.act(|driver, thread| driver.begin_capture(thread, call.stream(stream), Mode::Global, None))
    }
    "cuStreamBeginCapture" 10010 / cuStreamBeginCapture_v2_ptsz 10010 => fn cuStreamBeginCapture_v2(call, stream: Handle, mode: c_int) {
        call.act(|driver, thread| driver.begin_capture(thread, call.stream(stream), Mode::from_number(mode)?, None))
    }
    "cuStreamBeginCaptureToGraph" 12030 / cuStreamBeginCaptureToGraph_ptsz 12030 => fn cuStreamBeginCaptureToGraph(call, stream: Handle, graph: Handle, _after: *const c_void, _edges: *const c_void, _count: usize, mode: c_int) {
        call.act(|driver, thread| driver.begin_capture(thread, call.stream(stream), Mode::from_number(mode)?, Some(graph)))
    }
    "cuStreamEndCapture" 10000 / cuStreamEndCapture_ptsz 10000 => fn cuStreamEndCapture(call, stream: Handle, graph: Out<Handle>) {
        let answer = call.run(|driver, thread| {
            require(graph.is_set())?;
            driver.end_capture(thread, call.stream(stream))
        });
        // A capture that ends without a graph says so: NULL, not garbage.
        graph.put(answer.unwrap_or(0));
        number(&answer)
    }
    "cuStreamIsCapturing" 10000 / cuStreamIsCapturing_ptsz 10000 => fn cuStreamIsCapturing(call, stream: Handle, status: Out<c_int>) {
        call.give(status, |driver, thread| {
            Ok(driver.capture_info(thread, call.stream(stream))?.status as c_int)
        })
    }
    "cuStreamGetCaptureInfo" 10010 / cuStreamGetCaptureInfo_ptsz 10010 => fn cuStreamGetCaptureInfo(call, stream: Handle, status: Out<c_int>, id: Out<u64>) {
        capture_info(call, stream, status, id, Out::none(), [Out::none(); 2], Out::none())
    }
    "cuStreamGetCaptureInfo" 11030 / cuStreamGetCaptureInfo_v2_ptsz 11030 => fn cuStreamGetCaptureInfo_v2(call, stream: Handle, status: Out<c_int>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const c_void>, count: Out<usize>) {
        capture_info(call, stream, status, id, graph, [nodes, Out::none()], count)
    }
    "cuStreamGetCaptureInfo" 12030 / cuStreamGetCaptureInfo_v3_ptsz 12030 => fn cuStreamGetCaptureInfo_v3(call, stream: Handle, status: Out<c_int>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const c_void>, edges: Out<*const c_void>, count: Out<usize>) {
        capture_info(call, stream, status, id, graph, [nodes, edges], count)
    }
    "cuThreadExchangeStreamCaptureMode" 10010 => fn cuThreadExchangeStreamCaptureMode(call, mode: Out<c_int>) {
        call.act(|driver, thread| {
            let wanted = Mode::from_number(mode.get().unwrap_or(-1))?;
            mode.put(driver.exchange_mode(thread, wanted).number());
            Ok(())
        })
    }
}
