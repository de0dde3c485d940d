//! Messages of the real world, each with the numbers that are in it and the likely reason.

use super::super::message::{Kind, Numbers, Other};
use oomhook_report::diagnosis::Cause;

/// A size in hundredths of MiB, as PyTorch prints them.
const fn mib(hundredths: u64) -> u64 {
    // Rounded as the reader rounds.
    (hundredths * (1 << 20) + 50) / 100
}

/// A size in hundredths of GiB.
const fn gib(hundredths: u64) -> u64 {
    (hundredths * (1 << 30) + 50) / 100
}

/// What a message is to be read as.
pub struct Expected {
    pub framework: &'static str,
    pub kind: Kind,
    pub class: Cause,
    pub numbers: Numbers,
}

fn expected(framework: &'static str, kind: Kind, class: Cause) -> Expected {
    Expected {
        framework,
        kind,
        class,
        numbers: Numbers::default(),
    }
}

impl Expected {
    fn gpu(mut self, device: u32) -> Expected {
        self.numbers.device = Some(device);
        self
    }
    fn asked(mut self, bytes: u64) -> Expected {
        self.numbers.requested_bytes = Some(bytes);
        self
    }
    fn total(mut self, bytes: u64) -> Expected {
        self.numbers.total_bytes = Some(bytes);
        self
    }
    fn free(mut self, bytes: u64) -> Expected {
        self.numbers.free_bytes = Some(bytes);
        self
    }
    fn process(mut self, bytes: u64) -> Expected {
        self.numbers.process_bytes = Some(bytes);
        self
    }
    /// In use, and idle in the cache.
    fn cache(mut self, used: u64, idle: u64) -> Expected {
        self.numbers.allocated_bytes = Some(used);
        self.numbers.idle_bytes = Some(idle);
        self.numbers.reserved_bytes = Some(used + idle);
        self
    }
    fn used(mut self, bytes: u64) -> Expected {
        self.numbers.allocated_bytes = Some(bytes);
        self
    }
    fn private(mut self, bytes: u64) -> Expected {
        self.numbers.private_pool_bytes = Some(bytes);
        self
    }
    fn limit(mut self, bytes: u64) -> Expected {
        self.numbers.limit_bytes = Some(bytes);
        self
    }
    fn others(mut self, others: &[(u32, u64)]) -> Expected {
        let others = others.iter();
        self.numbers.others = others.map(|&(pid, bytes)| Other { pid, bytes }).collect();
        self
    }
}

/// PyTorch's messages.
fn pytorch() -> Vec<(&'static str, Expected)> {
    use Cause::*;
    let torch = |class| expected("pytorch", Kind::Allocator, class);
    vec![
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 10.34 GiB already allocated; 435.50 MiB free; 10.59 GiB reserved in total by PyTorch)",
            torch(OtherProcess)
                .gpu(0)
                .asked(gib(200))
                .total(gib(1578))
                .free(mib(43550))
                .cache(gib(1034), gib(1059) - gib(1034)),
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 4; 31.75 GiB total capacity; 30.29 GiB already allocated; 3.75 MiB free; 30.40 GiB reserved in total by PyTorch)",
            torch(Capacity)
                .gpu(4)
                .asked(mib(2000))
                .total(gib(3175))
                .free(mib(375))
                .cache(gib(3029), gib(3040) - gib(3029)),
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.55 GiB (GPU 1; 23.69 GiB total capacity; 12.58 GiB already allocated; 10.38 GiB free; 12.58 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            torch(ActivationPeak)
                .gpu(1)
                .asked(gib(1255))
                .total(gib(2369))
                .free(gib(1038))
                .cache(gib(1258), 0),
        ),
        (
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 222.41 GiB (GPU 0; 23.56 GiB total capacity; 583.94 MiB already allocated; 22.66 GiB free; 612.00 MiB reserved in total by PyTorch)",
            torch(Capacity)
                .gpu(0)
                .asked(gib(22241))
                .total(gib(2356))
                .free(gib(2266))
                .cache(mib(58394), mib(61200) - mib(58394)),
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 28.00 MiB (GPU 0; 3.78 GiB total capacity; 319.96 MiB already allocated; 91.00 MiB free; 334.00 MiB reserved in total by PyTorch)",
            torch(NotClear)
                .gpu(0)
                .asked(mib(2800))
                .total(gib(378))
                .free(mib(9100))
                .cache(mib(31996), mib(33400) - mib(31996)),
        ),
        (
            "CUDA out of memory. Tried to allocate 226.00 MiB (GPU 0; 2.00 GiB total capacity; 838.72 MiB already allocated; 122.43 MiB free; 944.00 MiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
            torch(OtherProcess)
                .gpu(0)
                .asked(mib(22600))
                .total(gib(200))
                .free(mib(12243))
                .cache(mib(83872), mib(94400) - mib(83872)),
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 160.00 MiB (GPU 0; 3.81 GiB total capacity; 3.08 GiB already allocated; 55.38 MiB free; 9.78 MiB cached)",
            Expected {
                numbers: Numbers {
                    reserved_bytes: None,
                    ..torch(Capacity)
                        .gpu(0)
                        .asked(mib(16000))
                        .total(gib(381))
                        .free(mib(5538))
                        .cache(gib(308), mib(978))
                        .numbers
                },
                ..torch(Capacity)
            },
        ),
        (
            "CUDA out of memory. Tried to allocate 352.00 MiB (GPU 0; 3.79 GiB total capacity; 1.70 GiB already allocated; 245.12 MiB free; 593.61 MiB cached)",
            Expected {
                numbers: Numbers {
                    reserved_bytes: None,
                    ..torch(Fragmentation)
                        .gpu(0)
                        .asked(mib(35200))
                        .total(gib(379))
                        .free(mib(24512))
                        .cache(gib(170), mib(59361))
                        .numbers
                },
                ..torch(Fragmentation)
            },
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 49.00 MiB (GPU 0; 3.95 GiB total capacity; 2.43 GiB already allocated; 17.81 MiB free; 2.51 GiB cached)",
            torch(OtherProcess)
                .gpu(0)
                .asked(mib(4900))
                .total(gib(395))
                .free(mib(1781))
                .cache(gib(243), gib(251) - gib(243)),
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 570.00 MiB. GPU 0 has a total capacty of 79.25 GiB of which 103.50 MiB is free. Including non-PyTorch memory, this process has 79.14 GiB memory in use. Of the allocated memory 76.38 GiB is allocated by PyTorch, and 2.24 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            torch(Capacity)
                .gpu(0)
                .asked(mib(57000))
                .total(gib(7925))
                .free(mib(10350))
                .process(gib(7914))
                .cache(gib(7638), gib(224)),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.56 GiB of which 158.62 MiB is free. Including non-PyTorch memory, this process has 102.00 MiB memory in use. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
            torch(OtherProcess)
                .gpu(0)
                .asked(gib(200))
                .total(gib(1556))
                .free(mib(15862))
                .process(mib(10200))
                .cache(0, 0),
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.13 GiB. GPU 0 has a total capacty of 23.49 GiB of which 7.47 GiB is free. Including non-PyTorch memory, this process has 0 bytes memory in use. Of the allocated memory 15.59 GiB is allocated by PyTorch, and 98.64 MiB is reserved by PyTorch but unallocated.",
            torch(ActivationPeak)
                .gpu(0)
                .asked(gib(1613))
                .total(gib(2349))
                .free(gib(747))
                .cache(gib(1559), mib(9864)),
        ),
        (
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 14.56 GiB of which 898.81 MiB is free. Including non-PyTorch memory, this process has 13.68 GiB memory in use. Of the allocated memory 13.23 GiB is allocated by PyTorch, and 337.41 MiB is reserved by PyTorch but unallocated.",
            torch(Capacity)
                .gpu(0)
                .asked(gib(102))
                .total(gib(1456))
                .free(mib(89881))
                .process(gib(1368))
                .cache(gib(1323), mib(33741)),
        ),
        (
            "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 11.32 GiB is allocated by PyTorch, and 216.03 MiB is reserved by PyTorch but unallocated.",
            torch(ActivationPeak)
                .gpu(0)
                .asked(gib(400))
                .total(gib(800))
                .free(0)
                .cache(gib(1132), mib(21603)),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 624.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 73.75 MiB is free. Including non-PyTorch memory, this process has 23.44 GiB memory in use. Of the allocated memory 21.44 GiB is allocated by PyTorch, and 1.54 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
            torch(Capacity)
                .gpu(0)
                .asked(mib(62400))
                .total(gib(2352))
                .free(mib(7375))
                .process(gib(2344))
                .cache(gib(2144), gib(154)),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.28 GiB. GPU 0 has a total capacity of 139.81 GiB of which 7.30 GiB is free. Process 2678129 has 132.50 GiB memory in use. Of the allocated memory 115.89 GiB is allocated by PyTorch, with 2.01 GiB allocated in private pools (e.g., CUDA Graphs), and 10.53 GiB is reserved by PyTorch but unallocated.",
            torch(Capacity)
                .gpu(0)
                .asked(gib(928))
                .total(gib(13981))
                .free(gib(730))
                .process(gib(13250))
                .cache(gib(11589), gib(1053))
                .private(gib(201)),
        ),
        (
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 47.53 GiB of which 896.00 KiB is free. Process 3814292 has 47.50 GiB memory in use. Of the allocated memory 47.14 GiB is allocated by PyTorch, with 982.17 MiB allocated in private pools (e.g., CUDA Graphs), and 19.85 MiB is reserved by PyTorch but unallocated.",
            torch(Fragmentation)
                .gpu(0)
                .asked(mib(20000))
                .total(gib(4753))
                .free(917_504)
                .process(gib(4750))
                .cache(gib(4714), mib(1985))
                .private(mib(98217)),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 32.06 MiB is free. Process 323138 has 2.16 GiB memory in use. Process 2514068 has 21.30 GiB memory in use. Of the allocated memory 1.52 GiB is allocated by PyTorch, and 85.39 MiB is reserved by PyTorch but unallocated.",
            torch(OtherProcess)
                .gpu(0)
                .asked(mib(9000))
                .total(gib(2352))
                .free(mib(3206))
                .process(gib(216))
                .cache(gib(152), mib(8539))
                .others(&[(2_514_068, gib(2130))]),
        ),
        (
            "CUDA out of memory. Tried to allocate 19.36 GiB. GPU 0 has a total capacity of 47.40 GiB of which 11.47 GiB is free. Including non-PyTorch memory, this process has 1.49 GiB memory in use. Process 58488 has 11.00 GiB memory in use. Process 58482 has 12.66 GiB memory in use. Process 58486 has 10.76 GiB memory in use. Of the allocated memory 1.02 GiB is allocated by PyTorch, and 164.03 MiB is reserved by PyTorch but unallocated.",
            torch(OtherProcess)
                .gpu(0)
                .asked(gib(1936))
                .total(gib(4740))
                .free(gib(1147))
                .process(gib(149))
                .cache(gib(102), mib(16403))
                .others(&[(58488, gib(1100)), (58482, gib(1266)), (58486, gib(1076))]),
        ),
        (
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 996.00 MiB. GPU 0 has a total capacity of 44.43 GiB of which 9.06 GiB is free. Process 2102129 has 17.54 GiB memory in use. Including non-PyTorch memory, this process has 17.81 GiB memory in use. 17.69 GiB allowed; Of the allocated memory 17.44 GiB is allocated by PyTorch, and 59.88 MiB is reserved by PyTorch but unallocated.",
            torch(Capacity)
                .gpu(0)
                .asked(mib(99600))
                .total(gib(4443))
                .free(gib(906))
                .process(gib(1781))
                .cache(gib(1744), mib(5988))
                .limit(gib(1769))
                .others(&[(2_102_129, gib(1754))]),
        ),
        (
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 76.00 MiB. GPU 0 has a total capacity of 255.69 GiB of which 252.82 GiB is free. 1.20 GiB allowed; Of the allocated memory 1.14 GiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP Graphs), and 18.63 MiB is reserved by PyTorch but unallocated.",
            torch(Capacity)
                .gpu(0)
                .asked(mib(7600))
                .total(gib(25569))
                .free(gib(25282))
                .cache(gib(114), mib(1863))
                .private(mib(1700))
                .limit(gib(120)),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1073741824.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.04 GiB is free. Including non-PyTorch memory, this process has 38.10 GiB memory in use. Of the allocated memory 37.01 GiB is allocated by PyTorch, and 512.34 MiB is reserved by PyTorch but unallocated.",
            torch(Capacity)
                .gpu(0)
                .asked(1 << 60)
                .total(gib(7915))
                .free(gib(104))
                .process(gib(3810))
                .cache(gib(3701), mib(51234)),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.04 GiB ",
            torch(NotClear).gpu(0).asked(gib(195)).total(gib(7915)),
        ),
        ("torch.cuda.OutOfMemoryError", torch(NotClear)),
        (
            "RuntimeError: CUDA out of memory",
            expected("pytorch", Kind::ErrorCode, NotClear),
        ),
        (
            "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
            expected("pytorch", Kind::ErrorCode, NotClear),
        ),
        (
            "RuntimeError: CUDA error: out of memory",
            expected("pytorch", Kind::ErrorCode, NotClear),
        ),
    ]
}

/// Everybody else's.
fn others() -> Vec<(&'static str, Expected)> {
    use Cause::*;
    let library = |framework| expected(framework, Kind::Library, StarvedLibrary);
    let code = |framework| expected(framework, Kind::ErrorCode, NotClear);
    let vllm = |kind, class| expected("vllm", kind, class);
    vec![
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            library("pytorch"),
        ),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            library("pytorch"),
        ),
        (
            "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            library("cuda"),
        ),
        (
            "node1:4242:4300 [0] include/alloc.h:320 (ncclCuMemAlloc) NCCL WARN Cuda failure 2 'out of memory'",
            library("cuda"),
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled cuda error, NCCL version 2.20.5 ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 'out of memory'",
            library("pytorch"),
        ),
        ("CUDA_ERROR_OUT_OF_MEMORY", code("cuda")),
        (
            "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
            code("cuda"),
        ),
        (
            "terminate called: cudaErrorMemoryAllocation: out of memory",
            code("cuda"),
        ),
        (
            "[TRT] [E] 1: [defaultAllocator.cpp::allocate::20] Error Code 1: Cuda Runtime (out of memory)",
            code("cuda"),
        ),
        (
            "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (Requested size was 4294967296 bytes.)",
            code("cuda").asked(4 << 30),
        ),
        (
            "CUDA error at sample.cu:42 code=2(cudaErrorMemoryAllocation) \"cudaMalloc(&p, n)\"",
            code("cuda"),
        ),
        (
            "ValueError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 33762398024 bytes.",
            expected("jax", Kind::Allocator, NotClear).asked(33_762_398_024),
        ),
        (
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12.50GiB. [executable_name='jit_train_step'] [tf-allocator-allocation-error='']",
            expected("jax", Kind::Allocator, NotClear).asked(gib(1250)),
        ),
        (
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 4.00GiB (4294967296B) on device ordinal 1",
            expected("jax", Kind::Allocator, NotClear)
                .gpu(1)
                .asked(4 << 30),
        ),
        (
            "E external/xla/xla/stream_executor/cuda/cuda_executor.cc:1] failed to allocate 17.81GiB (19123456789 bytes) from device: RESOURCE_EXHAUSTED: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            expected("jax", Kind::Allocator, Reservation).asked(gib(1781)),
        ),
        (
            "W1021 12:44:24.533946 77 hlo.cc:9] Can't reduce memory use below 2.58GiB by rematerialization; only reduced to 31.49GiB (33811139404 bytes)",
            expected("jax", Kind::Allocator, Capacity)
                .asked(gib(3149))
                .limit(gib(258)),
        ),
        (
            "W external/xla/xla/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 19.07GiB (rounded to 20480000000)requested by op",
            expected("jax", Kind::Allocator, NotClear)
                .gpu(0)
                .asked(20_480_000_000),
        ),
        (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,33,33,2048] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
            expected("tensorflow", Kind::Allocator, NotClear)
                .gpu(0)
                .asked(64 * 33 * 33 * 2048 * 4),
        ),
        (
            "2023-02-14 14:52:19.641249: W tensorflow/core/framework/op_kernel.cc:1767] OP_REQUIRES failed at cwise_ops_common.h:312 : Resource exhausted: OOM when allocating tensor with shape[3,3,128,128] and type half on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
            expected("tensorflow", Kind::Allocator, NotClear)
                .gpu(1)
                .asked(3 * 3 * 128 * 128 * 2),
        ),
        (
            "ResourceExhaustedError: OOM when allocating tensor with shape[10000,32,28,28] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
            expected("tensorflow", Kind::HostAllocator, HostMemory)
                .asked(10_000 * 32 * 28 * 28 * 4),
        ),
        (
            "W tensorflow/core/framework/op_kernel.cc:993] Resource exhausted: OOM when allocating tensor with shape[10000,32,28,28]",
            expected("tensorflow", Kind::Allocator, NotClear),
        ),
        (
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,600,000,000 bytes (allocated so far: 2,281,307,136 bytes).",
            expected("cupy", Kind::Allocator, NotClear)
                .asked(1_600_000_000)
                .used(2_281_307_136),
        ),
        (
            "OutOfMemoryError: Out of memory allocating 3,000,000,000 bytes (allocated so far: 0 bytes, limit set to: 1,000,000,000 bytes).",
            expected("cupy", Kind::Allocator, Capacity)
                .asked(3_000_000_000)
                .used(0)
                .limit(1_000_000_000),
        ),
        (
            "OutOfMemoryError: Out of memory allocating 285,296,072 bytes (allocated so far: 7,381,975,040 bytes, limit set to: 18,446,744,073,709,551,615 bytes).",
            expected("cupy", Kind::Allocator, NotClear)
                .asked(285_296_072)
                .used(7_381_975_040),
        ),
        (
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes",
            expected("cupy", Kind::Allocator, NotClear).asked(1 << 30),
        ),
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 13285.50 MiB on device 0: cudaMalloc failed: out of memory",
            expected("llama_cpp", Kind::Allocator, NotClear)
                .gpu(0)
                .asked(mib(1_328_550)),
        ),
        (
            "alloc_tensor_range: failed to allocate CUDA1 buffer of size 1879048192",
            expected("llama_cpp", Kind::Allocator, NotClear)
                .gpu(1)
                .asked(1_879_048_192),
        ),
        (
            "alloc_tensor_range: failed to allocate CPU buffer of size 37748736000",
            expected("llama_cpp", Kind::HostAllocator, HostMemory).asked(37_748_736_000),
        ),
        ("CUDA error: out of memory", code("cuda")),
        (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            vllm(Kind::NoCacheBlocks, Reservation),
        ),
        (
            "ValueError: Free memory on device cuda:0 (12.18/23.56 GiB) on startup is less than desired GPU memory utilization (0.92, 21.67 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            vllm(Kind::ShareNotFree, OtherProcess)
                .gpu(0)
                .asked(gib(2167))
                .total(gib(2356))
                .free(gib(1218)),
        ),
        (
            "ValueError: Free memory on device (39.0/39.4 GiB) on startup is less than desired GPU memory utilization (0.99, 39.01 GiB).",
            vllm(Kind::ShareNotFree, Reservation)
                .asked(gib(3901))
                .total(gib(3940))
                .free(gib(3900)),
        ),
        (
            "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (4464). Try increasing `gpu_memory_utilization`",
            vllm(Kind::CacheTooSmall, Reservation),
        ),
        (
            "(EngineCore pid=9) ValueError: To serve at least one request with the models's max seq len (131072), (4.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.65 GiB). Based on the available memory, the estimated maximum model length is 21440.",
            vllm(Kind::CacheTooSmall, Reservation)
                .asked(gib(400))
                .limit(gib(65)),
        ),
        (
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
            vllm(Kind::WarmUp, Reservation),
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 2359296 bytes. Error code 12 (Cannot allocate memory)",
            expected("pytorch", Kind::HostAllocator, HostMemory).asked(2_359_296),
        ),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 14.9 GiB for an array with shape (2000000000,) and data type float64",
            expected("unknown", Kind::HostAllocator, HostMemory).asked(gib(1490)),
        ),
        (
            "RuntimeError: unable to mmap 1234 bytes from file </torch_123>: Cannot allocate memory (12)",
            expected("unknown", Kind::SharedMemory, HostMemory).asked(1234),
        ),
        (
            "RuntimeError: unable to allocate shared memory(shm) for file </torch_2301_4711_0>: Resource temporarily unavailable (11)",
            expected("unknown", Kind::SharedMemory, HostMemory),
        ),
        (
            "RuntimeError: unable to write to file </torch_18692_1954506624>: No space left on device (28)",
            expected("unknown", Kind::SharedMemory, HostMemory),
        ),
        (
            "RuntimeError: unable to resize file </torch_4711_0> to the right size: No space left on device (28)",
            expected("unknown", Kind::SharedMemory, HostMemory),
        ),
        (
            "RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            expected("unknown", Kind::SharedMemory, HostMemory),
        ),
        (
            "RuntimeError: DataLoader worker (pid 12345) is killed by signal: Killed. ",
            expected("unknown", Kind::Killed, HostMemory),
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=17020.18. Some of the step tasks have been OOM Killed.",
            expected("unknown", Kind::HostKill, HostMemory),
        ),
        (
            "srun: error: node003: task 1: Out Of Memory",
            expected("unknown", Kind::HostKill, HostMemory),
        ),
        (
            "Sep 15 12:08:17 node7 kernel: Memory cgroup out of memory: Killed process 4182 (python) total-vm:812044kB, anon-rss:518420kB, file-rss:1240kB, shmem-rss:0kB",
            expected("unknown", Kind::HostKill, HostMemory).process(518_420 * 1024),
        ),
        (
            "srun: error: node7: task 3: Exited with exit code 137",
            expected("unknown", Kind::Killed, HostMemory),
        ),
    ]
}

/// All of them.
pub fn messages() -> Vec<(&'static str, Expected)> {
    let mut all = pytorch();
    all.extend(others());
    all
}
