// Sources of kernels_sm80.ptx: nvcc -ptx -arch=sm_80 -o kernels_sm80.ptx kernels.cu
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

extern "C" __global__ void sum(int n, const float* x, float* result) {
  __shared__ float partial[32];
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
    v = warp_sum(v);
    if (threadIdx.x == 0) atomicAdd(result, v);
  }
}

// One row of up to 1024 columns a block.
extern "C" __global__ void softmax(int columns, const float* x, float* y) {
  extern __shared__ float row[];
  __shared__ float partial[32];
  float most = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    row[i] = x[blockIdx.x * columns + i];
    most = fmaxf(most, row[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; ++i) most = fmaxf(most, partial[i]);
  __syncthreads();
  float total = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    row[i] = __expf(row[i] - most);
    total += row[i];
  }
  total = warp_sum(total);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = total;
  __syncthreads();
  total = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) total += partial[i];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) y[blockIdx.x * columns + i] = row[i] / total;
}

// n a multiple of 16; blocks of 16 x 16.
extern "C" __global__ void matmul_tiled(int n, const float* a, const float* b, float* c) {
  __shared__ float ta[16][16], tb[16][16];
  const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    ta[y][x] = a[row * n + k + x];
    tb[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += ta[y][i] * tb[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// c (16 x 8, f32) = a (16 x k, f16, rows) x b (k x 8, f16, rows), k a multiple of 16, by one warp:
// cp.async into shared memory, ldmatrix, mma.
extern "C" __global__ void matmul_tensor(int k, const __half* a, const __half* b, float* c) {
  __shared__ __align__(16) __half ta[2][16 * 16], tb[2][16 * 8];
  const int lane = threadIdx.x;
  float d[4] = {0, 0, 0, 0};
  const auto fetch = [&](int step, int buffer) {
    // 32 pieces of 16 bytes of a, 16 of b
    __pipeline_memcpy_async(&ta[buffer][lane * 8], a + (lane / 2) * k + step * 16 + lane % 2 * 8, 16);
    if (lane < 16) __pipeline_memcpy_async(&tb[buffer][lane * 8], b + (step * 16 + lane) * 8, 16);
    __pipeline_commit();
  };
  fetch(0, 0);
  for (int step = 0; step < k / 16; ++step) {
    const int buffer = step % 2;
    if (step + 1 < k / 16) {
      fetch(step + 1, 1 - buffer);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncwarp();
    unsigned ra[4], rb[2];
    const unsigned pa = __cvta_generic_to_shared(&ta[buffer][lane % 16 * 16 + lane / 16 * 8]);
    const unsigned pb = __cvta_generic_to_shared(&tb[buffer][lane % 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    __syncwarp();
  }
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

__device__ __noinline__ int collatz(int n, int* steps) {
  int most = n;
  *steps = 0;
  while (n != 1) {
    n = n % 2 ? 3 * n + 1 : n / 2;
    most = max(most, n);
    ++*steps;
  }
  return most;
}

// A real function call, divergence, a local array.
extern "C" __global__ void collatz_all(int n, int* most, int* steps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int taken;
  most[i] = collatz(i + 1, &taken);
  steps[i] = taken;
}

// tanh, rsqrt, half and integer odds and ends.
extern "C" __global__ void mixed(int n, const float* x, float* y, unsigned* bits) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const __half2 h = __floats2half2_rn(x[i], x[i] * 0.5f);
  const __half2 r = __hfma2(h, h, __float2half2_rn(1.0f));
  y[i] = tanhf(x[i]) + rsqrtf(fabsf(x[i]) + 1.0f) + __low2float(r) + __high2float(r) + sinf(x[i]) + logf(fabsf(x[i]) + 2.0f) + floorf(x[i]);
  bits[i] = __popc(i) + __clz(i) * 3 + __brev(i) + __byte_perm(i, 0x01020304, 0x4567) + __funnelshift_l(i, 5, 3) + __ffs(i) + (unsigned)(i / 7) + (unsigned)(i % 11);
}
