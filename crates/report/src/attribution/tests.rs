//! Frames of real stacks, and whose they are.

use super::*;

fn seen<'a>(path: &'a str, function: &'a str) -> Seen<'a> {
    Seen {
        path,
        function: (!function.is_empty()).then_some(function),
    }
}

#[test]
fn names_lose_their_arguments_and_keep_their_scope() {
    let pairs = [
        ("main", "main"),
        ("leak(int, char**)", "leak"),
        (
            "cudaError cudaMalloc<float>(float**, unsigned long)",
            "cudaMalloc",
        ),
        (
            "void net::Layer<float>::grow(unsigned long)",
            "net::Layer<float>::grow",
        ),
        (
            "app::(anonymous namespace)::fill(int)",
            "app::(anonymous namespace)::fill",
        ),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
        (
            "at::_ops::tanh::redispatch(c10::DispatchKeySet, at::Tensor const&)",
            "at::_ops::tanh",
        ),
        (
            "Trainer::step()::Cache::fill(unsigned long)",
            "Trainer::step()::Cache::fill",
        ),
        (
            "void app::run(int) const::Local<float>::grow(int)",
            "app::run(int) const::Local<float>::grow",
        ),
        (
            "Trainer::step()::{lambda(unsigned long)#1}::operator()(unsigned long) const",
            "Trainer::step()::{lambda(unsigned long)#1}",
        ),
        (
            "rmm::mr::pool<a, b>::allocate(unsigned long)",
            "rmm::mr::pool<a, b>::allocate",
        ),
        (
            "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
            "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
        ),
    ];
    for (name, bare) in pairs {
        assert_eq!(bare_name(name), bare);
    }
}

#[test]
fn frames_are_told_apart() {
    let pairs = [
        (seen("/lib/liboomhook.so", ""), Role::Own),
        (
            seen("/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06", ""),
            Role::Driver,
        ),
        (seen("/t/liboomhook_sim.so", ""), Role::Driver),
        (seen("/x/libcudart-d0da41ae.so.11.0", ""), Role::Runtime),
        (seen("/app/tool", "cudaMalloc"), Role::Runtime),
        (
            seen(
                "/app/tool",
                "cudaError cudaMalloc<float>(float**, unsigned long)",
            ),
            Role::Runtime,
        ),
        (seen("/app/tool", "libcudart_static_a7b8c9"), Role::Runtime),
        (
            seen("/app/tool", "cudart::contextState::allocate(int)"),
            Role::Runtime,
        ),
        (
            seen("/usr/bin/python3.12", "_PyEval_EvalFrameDefault"),
            Role::Plumbing,
        ),
        (
            seen("/s/cuda/bindings/_bindings/cydriver.cpython-312.so", ""),
            Role::Driver,
        ),
        (
            seen("/s/cupy_backends/cuda/api/runtime.cpython-312.so", ""),
            Role::Runtime,
        ),
        (
            seen("/x/torch/lib/libc10_cuda.so", "c10::cuda::f()"),
            Role::Serving("libc10_cuda"),
        ),
        (
            seen(
                "/x/cudf.so",
                "rmm::mr::cuda_memory_resource::do_allocate(unsigned long)",
            ),
            Role::Serving("rmm"),
        ),
        (
            seen(
                "/x/site-packages/cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so",
                "",
            ),
            Role::Serving("cupy"),
        ),
        (
            seen(
                "/x/xla_cuda_plugin.so",
                "tsl::BFCAllocator::Extend(unsigned long)",
            ),
            Role::Serving("xla_bfc"),
        ),
        (
            seen("/x/torch/lib/libtorch_cuda.so", "at::native::zeros(int)"),
            Role::Caller,
        ),
        (
            seen(
                "/x/libtorch_cpu.so",
                "at::detail::empty_generic(c10::ArrayRef<long>)",
            ),
            Role::Making,
        ),
        (
            seen(
                "/x/libtorch_cuda.so",
                "at::(anonymous namespace)::create_out(c10::ArrayRef<long>)",
            ),
            Role::Making,
        ),
        (
            seen(
                "/x/libtorch_cuda.so",
                "at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_add_Tensor(at::Tensor const&)",
            ),
            Role::Making,
        ),
        (
            seen(
                "/x/libtorch_cuda.so",
                "at::native::cudnn_convolution(at::Tensor const&)",
            ),
            Role::Caller,
        ),
        (seen("/x/libcublas.so.13", "cublasCreate_v2"), Role::Caller),
        (seen("/app/tool", "cudamalloc_wrapper"), Role::Caller),
        (seen("/app/tool", "main"), Role::Caller),
        (seen("", ""), Role::Caller),
    ];
    for (frame, expected) in pairs {
        assert_eq!(role(frame), expected, "{frame:?}");
    }
}

#[test]
fn a_library_is_its_file_or_a_family_inside_of_it() {
    let pairs = [
        (
            seen("/app/tool", "cublasCreate_v2"),
            Owner::Inside("libcublas"),
        ),
        (
            seen("/app/tool", "cublasLtCreate"),
            Owner::Inside("libcublasLt"),
        ),
        (
            seen("/app/tool", "libcublas_static_2a6c1b77"),
            Owner::Inside("libcublas"),
        ),
        (
            seen("/x/libtorch_cuda.so", "ncclCommInitRank"),
            Owner::Inside("libnccl"),
        ),
        (
            seen(
                "/x/libtorch_cuda.so",
                "ncclResult_t ncclCudaCallocDebug<char>(char**, unsigned long)",
            ),
            Owner::Inside("libnccl"),
        ),
        (
            seen("/x/libnccl.so.2", "ncclCommInitRank"),
            Owner::File("libnccl.so.2"),
        ),
        (
            seen("/x/libcublas.so.13", "cublasCreate_v2"),
            Owner::File("libcublas.so.13"),
        ),
        (seen("/app/tool", "main"), Owner::File("tool")),
        (seen("/app/tool", "cublas_wrapper"), Owner::File("tool")),
        (
            seen("/x/libleak.so (deleted)", "f"),
            Owner::File("libleak.so"),
        ),
        (seen("", ""), Owner::File("unknown")),
    ];
    for (frame, expected) in pairs {
        assert_eq!(owner(frame), expected, "{frame:?}");
    }
}

#[test]
fn who_is_handed_a_librarys_handle_makes_its_workspace() {
    let torch = |function| owner(seen("/x/libtorch_cuda.so", function));
    assert_eq!(
        torch("at::cuda::setWorkspaceForHandle(cublasContext*, c10::cuda::CUDAStream)"),
        Owner::Workspace("libcublas")
    );
    assert_eq!(
        torch("at::native::run_conv_plan(cudnnContext*, at::Tensor const&, at::Tensor const&)"),
        Owner::Workspace("libcudnn")
    );
    assert_eq!(torch("f(cudnnContext*)"), Owner::Workspace("libcudnn"));
    for other in [
        "at::native::cudnn_convolution(at::Tensor const&)",
        "f(int, cudnnContext*)",
        "std::function<void (cudnnContext*)>::operator()(int) const",
        "f()",
        "f",
    ] {
        assert_eq!(torch(other), Owner::File("libtorch_cuda.so"), "{other}");
    }
}

#[test]
fn nodes_of_the_backward_pass_are_known_by_their_functions() {
    let apply = "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)";
    assert_eq!(autograd_node(apply), Some("AddmmBackward0"));
    let sums = "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)";
    assert_eq!(autograd_node(sums), Some("AccumulateGrad"));
    for other in [
        "torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)",
        "torch::autograd::generated::AddmmBackward0_apply_functional(std::vector<at::Tensor>&&)",
        "app::generated::AddmmBackward0::apply()",
        "torch::autograd::apply()",
    ] {
        assert_eq!(autograd_node(other), None, "{other}");
    }
}

#[test]
fn the_end_of_the_process_is_recognised_in_libc_only() {
    assert!(runs_at_exit(seen(
        "/lib/x86_64-linux-gnu/libc.so.6",
        "exit"
    )));
    assert!(!runs_at_exit(seen("/app/tool", "exit")));
}
