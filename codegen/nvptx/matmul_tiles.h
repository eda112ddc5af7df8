// How a matmul is cut for a GPU: decided from its shape, dtypes and the GPU. The tiles never change
// bits: every element is one chain of fused multiply-adds in increasing k.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel_spec.h"

namespace riffle::codegen {

/// A block of threads computes bm × bn elements, bk steps of k at a time; a thread tm × tn of them.
struct MatmulTile {
  std::int64_t bm = 0, bn = 0, bk = 0, tm = 0, tn = 0;
  std::int64_t threads() const { return (bm / tm) * (bn / tn); }
};

/// How a block copies one operand's bo × bk elements to shared memory: `o` stands for m or n.
struct TileLoad {
  enum class Along : std::uint8_t { outer, depth };
  std::int32_t operand = -1;
  DType dtype = DType::f32;
  std::int64_t offset = 0, extent = 0;  ///< extent: m or n
  std::int64_t outer_stride = 0, depth_stride = 0;
  std::vector<std::int64_t> batch_strides;
  std::int64_t bo = 0, bk = 0;
  Along along = Along::outer;  ///< neighbouring threads, and the elements of a vector
  std::int64_t width = 1;      ///< elements of one access
  std::int64_t per_thread = 1;
};

struct DeviceMatmulPlan {
  DType accumulator = DType::f32;
  MatmulTile tile;
  TileLoad a, b;
  std::int64_t tiles_m = 0, tiles_n = 0, batches = 0;
  /// Elements that a thread reads at once from shared memory: its tile consists of groups of so
  /// many rows (columns), the groups lying bm / (tm / group) apart.
  std::int64_t group_m = 1, group_n = 1;
  std::int64_t padding = 0;  ///< elements behind each row in shared memory
};

/// Throws CompileError for dtypes that have no matmul.
DeviceMatmulPlan plan_device_matmul(const MatmulBody& body, DType a, DType b, int sm);

}  // namespace riffle::codegen
