/* Functions whose names begin as those of CUDA do, and one that has such a name. */
int cudnnCreate(void) { return 1; }
int cublasCreate_v2(void) { return 2; }
int curl_easy_init(void) { return 3; }
int cuMemAlloc_v3(void) { return 4; }
int cu(void) { return 5; }
int cudaMallocator(void) { return 6; }
int cudaMemset(void) { return 7; }
int cuda_number = 42;
