// MatmulBody → one grid of register tiles: fused multiply-adds in increasing k, the CPU's bits.
//
//   block    bm × bn elements of the product. Its threads copy bm × bk and bk × bn elements of the
//            operands to shared memory, converted to the accumulator's type, both with k outermost,
//            in two buffers: while one is computed with, the next tile's loads are under way.
//   thread   tm × tn sums in registers; each step of k takes tm + tn elements from shared memory.
//   tails    what lies outside the operands is −0 on A's side and 0 on B's: their product is −0,
//            which changes no sum.
//   epilogue straight from the registers, vectors along the dimension in which the result lies side
//            by side.
//
// Start reading at Emitter::emit; matmul_tiles.h says what the words mean. Where tensor cores do
// the work instead: matmul_mma.h.
#include <algorithm>

#include "codegen/emit/loops.h"
#include "codegen/emit/scalar_llvm.h"
#include "codegen/nvptx/matmul_mma.h"
#include "codegen/nvptx/matmul_tiles.h"
#include "codegen/nvptx/nvptx_emit.h"

namespace riffle::codegen {
namespace {

class Emitter {
 public:
  Emitter(NvptxContext& context, const MatmulBody& body, const DeviceMatmulPlan& plan)
      : c_(context),
        ir_(context.ir),
        body_(body),
        plan_(plan),
        t_(plan.tile),
        element_(register_type(context.module.getContext(), plan.accumulator)) {}

  GridShape emit() {
    const GridShape shape{.blocks = {plan_.batches * plan_.tiles_m * plan_.tiles_n, 1, 1},
                          .threads = t_.threads()};
    locate(shape);
    Values sums(static_cast<std::size_t>(t_.tm * t_.tn), zero());
    if (body_.k > 0) sums = multiply(sums);
    epilogue(sums);
    ir_.CreateRetVoid();
    return shape;
  }

 private:
  llvm::Value* zero() const { return llvm::Constant::getNullValue(element_); }
  llvm::Value* add(llvm::Value* a, llvm::Value* b) { return ir_.CreateNSWAdd(a, b); }
  llvm::Value* scaled(llvm::Value* a, std::int64_t factor) {
    return factor == 1 ? a : ir_.CreateNSWMul(a, c_.index(factor));
  }
  llvm::Value* at(llvm::Type* type, llvm::Value* base, llvm::Value* index) {
    return ir_.CreateInBoundsGEP(type, base, index);
  }

  /// This block's tile and this thread's place in it.
  void locate(const GridShape& shape) {
    llvm::Value* block = c_.block(shape.blocks[0]);
    llvm::Value* tile_n = ir_.CreateURem(block, c_.index(plan_.tiles_n));
    llvm::Value* rest = ir_.CreateUDiv(block, c_.index(plan_.tiles_n));
    m_start_ = scaled(ir_.CreateURem(rest, c_.index(plan_.tiles_m)), t_.bm);
    n_start_ = scaled(tile_n, t_.bn);
    batch_ = unravel(c_, ir_.CreateUDiv(rest, c_.index(plan_.tiles_m)), body_.batch);
    thread_ = c_.thread(t_.threads());
    thread_n_ = ir_.CreateURem(thread_, c_.index(t_.bn / t_.tn));
    thread_m_ = ir_.CreateUDiv(thread_, c_.index(t_.bn / t_.tn));
  }

  // ---- global → registers → shared -------------------------------------------------------------

  /// One operand on its way: addresses that stay the same for all steps of k.
  struct Side {
    const TileLoad& load;
    llvm::Value* shared = nullptr;
    llvm::Value* start = nullptr;  ///< the block's first m or n
    llvm::Value* base = nullptr;   ///< offset of the batch's first element
    double outside = 0;
    std::vector<llvm::Value*> outer, depth;  ///< of this thread's accesses, within the tile
  };

  std::int64_t pitch(const TileLoad& load) const { return load.bo + plan_.padding; }

  Side side(const TileLoad& load, llvm::Value* start, double outside, const char* name) {
    Side s{.load = load, .start = start, .outside = outside};
    s.shared = c_.shared_array(element_, 2 * load.bk * pitch(load), name);
    s.base = c_.index(load.offset);
    for (std::size_t d = 0; d < batch_.size(); ++d)
      if (load.batch_strides[d] != 0)
        s.base = add(s.base, scaled(batch_[d], load.batch_strides[d]));
    const bool along_outer = load.along == TileLoad::Along::outer;
    const std::int64_t fast = (along_outer ? load.bo : load.bk) / load.width;
    for (std::int64_t i = 0; i < load.per_thread; ++i) {
      llvm::Value* number = add(thread_, c_.index(i * t_.threads()));
      llvm::Value* quick = scaled(ir_.CreateURem(number, c_.index(fast)), load.width);
      llvm::Value* slow = ir_.CreateUDiv(number, c_.index(fast));
      s.outer.push_back(along_outer ? quick : slow);
      s.depth.push_back(along_outer ? slow : quick);
    }
    return s;
  }

  llvm::Type* raw_type(const TileLoad& load) const {
    return with_width(c_.load_type(load.dtype), static_cast<int>(load.width));
  }

  /// This thread's part of the tile that starts at step `k`, in memory form.
  Values fetch(const Side& s, llvm::Value* k) {
    const TileLoad& load = s.load;
    llvm::Type* type = raw_type(load);
    const llvm::Align align(
        static_cast<std::uint64_t>(std::min<std::int64_t>(load.width * size_of(load.dtype), 16)));
    LlvmScalarBuilder builder(ir_, static_cast<int>(load.width));
    Values values;
    for (std::size_t i = 0; i < s.outer.size(); ++i) {
      llvm::Value* outer = add(s.start, s.outer[i]);
      llvm::Value* depth = add(k, s.depth[i]);
      llvm::Value* inside = nullptr;
      if (load.extent % load.bo != 0) inside = ir_.CreateICmpSLT(outer, c_.index(load.extent));
      if (body_.k % load.bk != 0) {
        llvm::Value* below = ir_.CreateICmpSLT(depth, c_.index(body_.k));
        inside = inside ? ir_.CreateAnd(inside, below) : below;
      }
      llvm::Value* offset =
          add(s.base, add(scaled(outer, load.outer_stride), scaled(depth, load.depth_stride)));
      // What lies outside is read from where something certainly is.
      if (inside) offset = ir_.CreateSelect(inside, offset, s.base);
      llvm::Value* value = ir_.CreateAlignedLoad(
          type,
          at(memory_type(c_.module.getContext(), load.dtype), c_.operand(load.operand), offset),
          align);
      c_.tag(value, load.operand);
      if (inside)
        value = ir_.CreateSelect(
            inside, value,
            ir_.CreateBitCast(builder.to_memory(builder.constant(load.dtype, s.outside)), type));
      values.push_back(value);
    }
    return values;
  }

  void put(const Side& s, const Values& values, llvm::Value* buffer) {
    const TileLoad& load = s.load;
    const int width = static_cast<int>(load.width);
    LlvmScalarBuilder builder(ir_, width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      llvm::Value* converted = LlvmScalarBuilder::unwrap(
          builder.cast(builder.from_memory(values[i], load.dtype), plan_.accumulator));
      llvm::Value* place =
          add(buffer_start(s, buffer), add(scaled(s.depth[i], pitch(load)), s.outer[i]));
      const std::int64_t size = size_of(plan_.accumulator);
      if (load.along == TileLoad::Along::outer || width == 1) {
        ir_.CreateAlignedStore(
            converted, at(element_, s.shared, place),
            llvm::Align(static_cast<std::uint64_t>(std::min<std::int64_t>(width * size, 16))));
        continue;
      }
      for (int e = 0; e < width; ++e)
        ir_.CreateAlignedStore(ir_.CreateExtractElement(converted, static_cast<std::uint64_t>(e)),
                               at(element_, s.shared, add(place, c_.index(e * pitch(load)))),
                               llvm::Align(static_cast<std::uint64_t>(size)));
    }
  }

  llvm::Value* buffer_start(const Side& s, llvm::Value* buffer) {
    return scaled(buffer, s.load.bk * pitch(s.load));
  }

  // ---- multiply-adds ---------------------------------------------------------------------------

  /// A thread's elements of one step: `count` in groups, which lie `apart`.
  Values fragment(const Side& s, llvm::Value* start, std::int64_t step, llvm::Value* own,
                  std::int64_t count, std::int64_t group) {
    const std::int64_t groups = count / group, apart = s.load.bo / groups;
    llvm::Type* type = with_width(element_, static_cast<int>(group));
    Values values;
    for (std::int64_t g = 0; g < groups; ++g) {
      llvm::Value* place =
          add(start, add(scaled(own, group), c_.index(step * pitch(s.load) + g * apart)));
      llvm::Value* loaded = ir_.CreateAlignedLoad(
          type, at(element_, s.shared, place),
          llvm::Align(static_cast<std::uint64_t>(group * size_of(plan_.accumulator))));
      for (std::int64_t e = 0; e < group; ++e)
        values.push_back(
            group == 1 ? loaded : ir_.CreateExtractElement(loaded, static_cast<std::uint64_t>(e)));
    }
    return values;
  }

  void compute(const Side& a, const Side& b, llvm::Value* buffer, Values& sums) {
    LlvmScalarBuilder builder(ir_, 1);
    llvm::Value* a_start = buffer_start(a, buffer);
    llvm::Value* b_start = buffer_start(b, buffer);
    auto wrap = [&](llvm::Value* v) { return LlvmScalarBuilder::wrap(v, plan_.accumulator); };
    for (std::int64_t step = 0; step < t_.bk; ++step) {
      const Values x = fragment(a, a_start, step, thread_m_, t_.tm, plan_.group_m);
      const Values y = fragment(b, b_start, step, thread_n_, t_.tn, plan_.group_n);
      for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t j = 0; j < y.size(); ++j) {
          llvm::Value*& sum = sums[i * y.size() + j];
          sum = LlvmScalarBuilder::unwrap(
              is_floating(plan_.accumulator)
                  ? builder.fma(wrap(x[i]), wrap(y[j]), wrap(sum))
                  : builder.add(builder.mul(wrap(x[i]), wrap(y[j])), wrap(sum)));
        }
    }
  }

  Values multiply(Values sums) {
    const Side a = side(plan_.a, m_start_, -0.0, "a"), b = side(plan_.b, n_start_, 0.0, "b");
    const std::int64_t steps = divide_up(body_.k, t_.bk);
    put(a, fetch(a, c_.index(0)), c_.index(0));
    put(b, fetch(b, c_.index(0)), c_.index(0));
    c_.barrier();
    sums = emit_for(c_, c_.index(0), c_.index(steps - 1), 1, sums,
                    [&](llvm::Value* step, std::span<llvm::Value* const> old) -> Values {
                      Values next(old.begin(), old.end());
                      llvm::Value* k = scaled(add(step, c_.index(1)), t_.bk);
                      const Values next_a = fetch(a, k), next_b = fetch(b, k);
                      llvm::Value* buffer = ir_.CreateAnd(step, c_.index(1));
                      compute(a, b, buffer, next);
                      llvm::Value* other = ir_.CreateXor(buffer, c_.index(1));
                      put(a, next_a, other);
                      put(b, next_b, other);
                      c_.barrier();
                      return next;
                    });
    compute(a, b, c_.index((steps - 1) % 2), sums);
    return sums;
  }

  // ---- epilogue --------------------------------------------------------------------------------

  /// The first element of group `g`, within the whole product.
  llvm::Value* first_of(llvm::Value* start, llvm::Value* own, std::int64_t g, std::int64_t group,
                        std::int64_t apart) {
    return add(start, add(scaled(own, group), c_.index(g * apart)));
  }

  void epilogue(const Values& sums) {
    const auto rank = static_cast<std::int32_t>(body_.batch.size());
    const std::vector<Expr>* exprs = &body_.epilogue;
    const std::vector<Store>* stores = &body_.stores;
    const int along_m = access_width(c_, {&exprs, 1}, {&stores, 1}, rank, body_.m, true);
    const int along_n = access_width(c_, {&exprs, 1}, {&stores, 1}, rank + 1, body_.n, true);
    const bool lanes_are_m = std::min<std::int64_t>(along_m, plan_.group_m) >
                             std::min<std::int64_t>(along_n, plan_.group_n);
    const std::int64_t width = lanes_are_m ? std::min<std::int64_t>(along_m, plan_.group_m)
                                           : std::min<std::int64_t>(along_n, plan_.group_n);
    // Rows of vectors: the other dimension outside, so that its bound is asked once.
    const std::int64_t rows = lanes_are_m ? t_.tn : t_.tm;
    const std::int64_t row_group = lanes_are_m ? plan_.group_n : plan_.group_m;
    const std::int64_t lane_count = lanes_are_m ? t_.tm : t_.tn;
    const std::int64_t lane_group = lanes_are_m ? plan_.group_m : plan_.group_n;
    const std::int64_t row_extent = lanes_are_m ? body_.n : body_.m;
    const std::int64_t lane_extent = lanes_are_m ? body_.m : body_.n;
    const std::int64_t row_block = lanes_are_m ? t_.bn : t_.bm;
    const std::int64_t lane_block = lanes_are_m ? t_.bm : t_.bn;
    llvm::Value* row_start = lanes_are_m ? n_start_ : m_start_;
    llvm::Value* row_own = lanes_are_m ? thread_n_ : thread_m_;
    llvm::Value* lane_start = lanes_are_m ? m_start_ : n_start_;
    llvm::Value* lane_own = lanes_are_m ? thread_m_ : thread_n_;

    auto guarded = [&](llvm::Value* index, std::int64_t extent, std::int64_t block,
                       const std::function<void()>& body) {
      if (extent % block == 0) return body();
      emit_if(c_, ir_.CreateICmpSLT(index, c_.index(extent)), body);
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      llvm::Value* row = add(
          first_of(row_start, row_own, r / row_group, row_group, row_block / (rows / row_group)),
          c_.index(r % row_group));
      guarded(row, row_extent, row_block, [&] {
        for (std::int64_t l = 0; l < lane_count; l += width) {
          llvm::Value* lane = add(first_of(lane_start, lane_own, l / lane_group, lane_group,
                                           lane_block / (lane_count / lane_group)),
                                  c_.index(l % lane_group));
          guarded(lane, lane_extent, lane_block, [&] {
            Values parts;
            for (std::int64_t e = 0; e < width; ++e) {
              const std::int64_t m = lanes_are_m ? l + e : r, n = lanes_are_m ? r : l + e;
              parts.push_back(sums[static_cast<std::size_t>(m * t_.tn + n)]);
            }
            finish(lanes_are_m, row, lane, parts);
          });
        }
      });
    }
  }

  void finish(bool lanes_are_m, llvm::Value* row, llvm::Value* lane, const Values& parts) {
    const int width = static_cast<int>(parts.size());
    const auto rank = static_cast<std::int32_t>(batch_.size());
    Lanes lanes{.indices = batch_,
                .lane_dim = width == 1 ? -1 : rank + (lanes_are_m ? 0 : 1),
                .width = width,
                .mask = nullptr,
                .lane_alignment = width};
    lanes.indices.push_back(lanes_are_m ? lane : row);
    lanes.indices.push_back(lanes_are_m ? row : lane);
    llvm::Value* sum = parts[0];
    if (width > 1) {
      sum = llvm::PoisonValue::get(with_width(element_, width));
      for (std::size_t e = 0; e < parts.size(); ++e)
        sum = ir_.CreateInsertElement(sum, parts[e], e);
    }
    LlvmScalarBuilder builder(ir_, width);
    llvm::Value* product = LlvmScalarBuilder::unwrap(
        builder.cast(LlvmScalarBuilder::wrap(sum, plan_.accumulator), body_.dtype));
    const Values values =
        emit_exprs(c_, body_.epilogue, lanes, std::span<llvm::Value* const>(&product, 1));
    emit_stores(c_, body_.stores, values, body_.epilogue, lanes);
  }

  NvptxContext& c_;
  llvm::IRBuilder<>& ir_;
  const MatmulBody& body_;
  const DeviceMatmulPlan& plan_;
  const MatmulTile& t_;
  llvm::Type* element_;
  llvm::Value *m_start_ = nullptr, *n_start_ = nullptr;
  Values batch_;
  llvm::Value *thread_ = nullptr, *thread_m_ = nullptr, *thread_n_ = nullptr;
};

}  // namespace

void emit_device_matmul(DeviceKernelWriter& kernel, const MatmulBody& body) {
  if (element_count(body.batch) == 0 || body.m == 0 || body.n == 0) return;
  const DType a = kernel.operand_dtype(body.a.operand), b = kernel.operand_dtype(body.b.operand);
  if (suits_mma(body, a, b, kernel.target())) return emit_device_mma(kernel, body);
  kernel.grid([&](NvptxContext& c) {
    const DeviceMatmulPlan plan = plan_device_matmul(body, a, b, c.target.sm);
    return Emitter(c, body, plan).emit();
  });
}

}  // namespace riffle::codegen
