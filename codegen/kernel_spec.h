// KernelSpec: what one kernel computes, naming no target.
//
//   primitives (ir::Graph) ── build_kernels ──▶ KernelProgram: slots + KernelSpecs
//                          ── host emitter  ──▶ LLVM IR → object bytes
//                          ── NVPTX emitter ──▶ LLVM IR → PTX
//
// A program's slots are tensors in memory (inputs, parameters, outputs, temporaries); kernels read
// and write slots. Fusion decides which values get a slot; it never changes bits, because every
// primitive rounds to its dtype wherever it is computed and reductions have an order of their own
// (codegen/reduction_order.h). Start reading at KernelProgram.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace riffle::codegen {

using ExprId = std::int32_t;

/// offset + Σ strides[d] · index[d] over the loop dimensions of the body it stands in.
struct Affine {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;
  bool operator==(const Affine&) const = default;
};

/// lower ≤ affine < upper
struct Guard {
  Affine value;
  std::int64_t lower = 0, upper = 0;
};

/// Adds stride × (value of `index`) to a load's address. An index outside [0, size) is reported in
/// the kernel's status word and read as 0.
struct Indirect {
  ExprId index = -1;  ///< an earlier expression, i32 or i64
  std::int64_t stride = 0, size = 0;
};

/// One scalar of a kernel's body, in SSA order: arguments are earlier expressions of the same list.
struct Expr {
  enum class Kind : std::uint8_t {
    load,      ///< operand[address (+ indirect)] of the operand's dtype; `fill` where a guard fails
    constant,  ///< `value` in `dtype`
    index,     ///< the value of `address` itself, as i64 cast to dtype
    op,        ///< an elementwise ir::Op on `arguments`
    carried,   ///< row bodies: result of reduction number `carried`; matmul epilogue: the product
  };
  Kind kind = Kind::constant;
  DType dtype = DType::f32;
  std::int32_t operand = -1;
  Affine address;
  std::vector<Guard> guards;
  double value = 0;  ///< constant, or the fill of a guarded load
  std::vector<Indirect> indirect;
  ir::Op op = ir::Op::add;
  ir::Attrs attrs;
  std::vector<ExprId> arguments;
  std::int32_t carried = -1;
};

struct Store {
  std::int32_t operand = -1;
  Affine address;
  ExprId value = -1;
};

/// For every point of `space` (row-major): evaluate, store.
struct LoopBody {
  Shape space;
  std::vector<Expr> exprs;
  std::vector<Store> stores;
};

enum class ReduceKind : std::uint8_t { sum, max, min, prod, argmax };

/// For every point of `outer`: the stages in order; each runs over all of `inner`.
/// Loop dimensions of every Affine: outer dimensions, then inner ones. Results of a stage's
/// reductions are `carried` values of later stages and of the final stores.
struct RowBody {
  struct Reduction {
    ReduceKind kind = ReduceKind::sum;
    ExprId value = -1;  ///< in the stage's exprs
    DType dtype =
        DType::f32;  ///< of the accumulator and the result (argmax: the value's; result i64)
  };
  struct Stage {
    std::vector<Expr> exprs;
    std::vector<Reduction> reductions;  ///< carried numbers continue across stages
    std::vector<Store> stores;          ///< per point of outer × inner
  };
  Shape outer, inner;
  std::vector<Stage> stages;
  std::vector<Expr> final_exprs;  ///< per point of outer (strides of inner dims are 0)
  std::vector<Store> final_stores;
  /// True when the reduced dimensions include the tensor's last one: the lanes of
  /// reduction_order.h; otherwise elements are folded one after the other.
  bool lanes = true;
};

/// C[batch, m, n] = Σ_k A[batch, m, k]·B[batch, k, n], k in increasing order by fused multiply-add
/// into an accumulator that starts at 0 (f32 for f32, bf16, f16; f64; integers wrap), rounded once
/// to `dtype`, then the epilogue over loop dimensions (batch…, m, n), whose `carried` 0 is C.
struct MatmulBody {
  struct Side {
    /// Its slot's dtype may be narrower than MatmulBody::dtype, which holds all its values (bf16 or
    /// f16 for f32): elements are converted as they are read.
    std::int32_t operand = -1;
    std::int64_t offset = 0;
    std::vector<std::int64_t> batch_strides;  ///< 0 where broadcast
    std::int64_t row_stride = 0, column_stride = 0;
  };
  DType dtype = DType::f32;
  Shape batch;
  std::int64_t m = 0, n = 0, k = 0;
  Side a, b;  ///< a: rows m, columns k; b: rows k, columns n
  std::vector<Expr> epilogue;
  std::vector<Store> stores;
};

/// out = base; then for every point of `space` in row-major order: out[address + stride·index] +=
/// src. Deterministic: contributions to one element are added in row-major order of `space`.
struct ScatterBody {
  Shape space;  ///< of index and src
  std::vector<Expr> exprs;
  ExprId index = -1, source = -1;
  Affine address;  ///< into out, without the indexed dimension
  std::int64_t index_stride = 0, index_size = 0;
  std::int32_t out = -1;   ///< operand
  std::int32_t base = -1;  ///< operand, dense like out; -1: base is all zeros
  Shape out_shape;
};

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

struct KernelOperand {
  std::int32_t slot = -1;
  Access access = Access::read;
};

struct KernelSpec {
  std::string name;  ///< "k0_matmul_add_relu": unique in its program
  std::vector<KernelOperand> operands;
  std::variant<LoopBody, RowBody, MatmulBody, ScatterBody> body;
  /// (written operand, read operand) pairs that may share bytes: the read happens at the same
  /// element index as, and before, the write, and nowhere else in the kernel. Each pair stands for
  /// itself: of the pairs with one read operand, at most one may be made use of.
  std::vector<std::pair<std::int32_t, std::int32_t>> may_alias;
  std::vector<std::string> origin;  ///< names of the nodes that it computes
  double flops = 0, bytes = 0;      ///< work, for scheduling and for explain
};

struct Slot {
  TensorType type;
  std::string name;  ///< the value's
};

struct KernelProgram {
  std::vector<Slot> slots;
  /// In the order of graph.inputs(), graph.parameters(), graph.outputs. An output may share its
  /// slot with an input, a parameter or another output (identities, reshapes): no kernel then.
  std::vector<std::int32_t> input_slots, parameter_slots, output_slots;
  std::vector<KernelSpec> kernels;  ///< in an order that may run
};

struct FusionOptions {
  bool fuse = true;  ///< false: one kernel a primitive, for tests and bisecting
};

/// `graph` holds primitives only (ir::lower_to_primitives). Each slot is written by exactly one
/// kernel, or by several that write disjoint parts (cat, pad).
KernelProgram build_kernels(const ir::Graph& graph, const FusionOptions& options = {});

/// As `show kernels` prints it; golden in tests.
std::string print(const KernelProgram& program);
std::string print(const KernelSpec& kernel);

/// Throws CompileError (a bug of ours, worded so) when a program is malformed: operand and
/// expression ranges, affine ranks, addresses within slots for every point, guards considered.
void verify(const KernelProgram& program);

}  // namespace riffle::codegen
