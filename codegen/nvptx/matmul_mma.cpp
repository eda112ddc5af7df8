// MatmulBody of bf16, f16 or (as tf32) f32 → tensor core instructions.
//
//   copy      the block's threads start asynchronous copies of the operands' tiles to shared
//   memory,
//             `stages` − 1 tiles ahead of the one that is computed with. What lies outside the
//             operands is zero on both sides.
//   compute   a warp takes 16 × 16 fragments of both operands from shared memory by ldmatrix,
//             transposed on the way where the operand lies so (f32: by plain loads, 16 × 8), and
//             multiplies them into 16 × 8
//             fragments of f32 sums: lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the
//             next.
//   epilogue  the four lanes of a row exchange their columns, until each has enough side by side
//             for whole 16-byte stores, and finish them in registers.
//   split     with few elements and many terms, blocks compute parts of the sums, which a second
//             grid adds in order.
//
// Start reading at MmaEmitter::emit; matmul_mma.h says what the words mean.
#include "codegen/nvptx/matmul_mma.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "codegen/emit/loops.h"
#include "codegen/emit/scalar_llvm.h"
#include "codegen/nvptx/nvptx_emit.h"

namespace riffle::codegen {
namespace {

using llvm::Intrinsic::ID;

constexpr std::int64_t kChunk = 16;  ///< bytes
/// Rows of tiles whose blocks run together, so that they find each other's operands in the cache.
constexpr std::int64_t kTileRows = 8;

/// How the product's results are written: elements side by side along its columns.
struct ResultWidth {
  bool swapped = false;  ///< those of the matmul are the plan's rows
  std::int64_t width = 1;
};

ResultWidth result_width(const NvptxContext& c, const MatmulBody& body) {
  const auto rank = static_cast<std::int32_t>(body.batch.size());
  const std::vector<Expr>* exprs = &body.epilogue;
  const std::vector<Store>* stores = &body.stores;
  const int along_m = access_width(c, {&exprs, 1}, {&stores, 1}, rank, body.m, true);
  const int along_n = access_width(c, {&exprs, 1}, {&stores, 1}, rank + 1, body.n, true);
  return {.swapped = along_m > along_n, .width = std::max(along_m, along_n)};
}

/// The epilogue of `sums` (f32, scalar or vector), which begin at (row, column) of the plan.
void finish(NvptxContext& c, const MatmulBody& body, const MmaPlan& plan, const Values& batch,
            llvm::Value* row, llvm::Value* column, llvm::Value* sums, int width) {
  const auto rank = static_cast<std::int32_t>(batch.size());
  Lanes lanes{.indices = batch,
              .lane_dim = width == 1 ? -1 : rank + (plan.swapped ? 0 : 1),
              .width = width,
              .mask = nullptr,
              .lane_alignment = width};
  lanes.indices.push_back(plan.swapped ? column : row);
  lanes.indices.push_back(plan.swapped ? row : column);
  LlvmScalarBuilder builder(c.ir, width);
  llvm::Value* product = LlvmScalarBuilder::unwrap(
      builder.cast(LlvmScalarBuilder::wrap(sums, DType::f32), body.dtype));
  const Values values =
      emit_exprs(c, body.epilogue, lanes, std::span<llvm::Value* const>(&product, 1));
  emit_stores(c, body.stores, values, body.epilogue, lanes);
}

class MmaEmitter {
 public:
  MmaEmitter(NvptxContext& context, const MatmulBody& body, const MmaPlan& plan, std::int64_t width)
      : c_(context), ir_(context.ir), body_(body), plan_(plan), t_(plan.tile), width_(width) {}

  GridShape emit() {
    const GridShape shape{
        .blocks = {plan_.batches * plan_.splits * plan_.tiles_m * plan_.tiles_n, 1, 1},
        .threads = t_.threads()};
    locate(shape);
    write(multiply());
    ir_.CreateRetVoid();
    return shape;
  }

 private:
  llvm::Value* add(llvm::Value* a, llvm::Value* b) { return ir_.CreateNSWAdd(a, b); }
  llvm::Value* scaled(llvm::Value* a, std::int64_t factor) {
    return factor == 1 ? a : ir_.CreateNSWMul(a, like(a, factor));
  }
  llvm::Value* over(llvm::Value* a, std::int64_t divisor) {
    return divisor == 1 ? a : ir_.CreateUDiv(a, like(a, divisor));
  }
  llvm::Value* modulo(llvm::Value* a, std::int64_t divisor) {
    return divisor == 1 ? like(a, 0) : ir_.CreateURem(a, like(a, divisor));
  }
  static llvm::ConstantInt* like(llvm::Value* a, std::int64_t value) {
    return llvm::ConstantInt::getSigned(llvm::cast<llvm::IntegerType>(a->getType()), value);
  }
  /// Offsets within shared memory are i32.
  llvm::Value* word(std::int64_t value) { return ir_.getInt32(static_cast<std::uint32_t>(value)); }
  llvm::Value* wide(llvm::Value* a) { return ir_.CreateZExtOrTrunc(a, c_.index_type); }

  /// This block's tile and part of k, this thread's place in its warp.
  void locate(const GridShape& shape) {
    llvm::Value* block = c_.block(shape.blocks[0]);
    const std::int64_t tiles = plan_.tiles_m * plan_.tiles_n;
    llvm::Value* rest = over(block, tiles);
    split_ = modulo(rest, plan_.splits);
    batch_number_ = over(rest, plan_.splits);
    batch_ = unravel(c_, batch_number_, body_.batch);

    llvm::Value* tile = modulo(block, tiles);
    llvm::Value* band = over(tile, kTileRows * plan_.tiles_n);
    llvm::Value* inside = modulo(tile, kTileRows * plan_.tiles_n);
    llvm::Value* rows = c_.index(std::min(kTileRows, plan_.tiles_m));
    if (plan_.tiles_m > kTileRows && plan_.tiles_m % kTileRows != 0) {
      llvm::Value* left = ir_.CreateNSWSub(c_.index(plan_.tiles_m), scaled(band, kTileRows));
      rows = ir_.CreateSelect(ir_.CreateICmpSLT(left, rows), left, rows);
    }
    row_start_ = scaled(add(scaled(band, kTileRows), ir_.CreateURem(inside, rows)), t_.bm);
    column_start_ = scaled(ir_.CreateUDiv(inside, rows), t_.bn);

    thread_ = ir_.CreateTrunc(c_.thread(t_.threads()), ir_.getInt32Ty());
    lane_ = modulo(thread_, 32);
    warp_row_ = scaled(over(over(thread_, 32), t_.warps_n), t_.warp_rows());
    warp_column_ = scaled(modulo(over(thread_, 32), t_.warps_n), t_.warp_columns());
  }

  // ---- global → shared -------------------------------------------------------------------------

  /// One operand: what stays the same for all steps of k.
  struct Side {
    const MmaLoad& load;
    llvm::Value* shared = nullptr;
    llvm::Value* start = nullptr;  ///< the block's first m or n
    llvm::Value* base = nullptr;   ///< offset of the batch's first element
    /// Of this thread's chunks: the tile's row, the first element within it, the byte in a stage.
    Values row, element, place;
    /// Of this lane's rows of a 16 × 16 fragment: bytes of the row, and of the chunk before the
    /// fragment's own is mixed in.
    llvm::Value *fragment_row = nullptr, *fragment_chunk = nullptr;
  };

  /// f32 that lies along m or n: ldmatrix transposes 16-bit elements only.
  bool by_words(const MmaLoad& load) const { return plan_.dtype == DType::f32 && load.along_outer; }

  /// Which chunk of its row is where, so that no two lanes meet in a bank: ldmatrix reads a column
  /// of chunks from 8 rows; plain loads two chunks from each of 4 rows.
  llvm::Value* swizzle(const MmaLoad& load, llvm::Value* row) {
    if (by_words(load)) return scaled(ir_.CreateAnd(row, like(row, 3)), 2);
    return load.chunks >= 8 ? ir_.CreateAnd(row, like(row, 7))
                            : ir_.CreateAnd(ir_.CreateLShr(row, like(row, 1)), like(row, 3));
  }

  Side side(const MmaLoad& load, bool is_a) {
    Side s{.load = load};
    s.start = is_a ? row_start_ : column_start_;
    s.shared = c_.shared_array(ir_.getInt8Ty(), t_.stages * load.bytes(), is_a ? "a" : "b");
    s.base = c_.index(load.offset);
    for (std::size_t d = 0; d < batch_.size(); ++d)
      if (load.batch_strides[d] != 0)
        s.base = add(s.base, scaled(batch_[d], load.batch_strides[d]));
    for (std::int64_t i = 0; i < load.rows * load.chunks / t_.threads(); ++i) {
      llvm::Value* number = add(thread_, word(i * t_.threads()));
      llvm::Value* row = over(number, load.chunks);
      llvm::Value* chunk = modulo(number, load.chunks);
      s.row.push_back(wide(row));
      s.element.push_back(wide(scaled(chunk, plan_.chunk())));
      s.place.push_back(add(scaled(row, load.chunks * kChunk),
                            scaled(ir_.CreateXor(chunk, swizzle(load, row)), kChunk)));
    }
    if (by_words(load)) {
      llvm::Value* row = modulo(lane_, 4);
      llvm::Value* outer = add(is_a ? warp_row_ : warp_column_, over(lane_, 4));
      s.fragment_row = scaled(row, load.chunks * kChunk);
      s.fragment_chunk = add(scaled(ir_.CreateXor(over(outer, 4), swizzle(load, row)), kChunk),
                             scaled(modulo(outer, 4), 4));
      return s;
    }
    // Lanes 8 i … 8 i + 7 give the rows of matrix i. Of A's matrices the second lies 8 rows of the
    // product further, of B's it lies 8 steps of k further.
    llvm::Value* in_matrix = modulo(lane_, 8);
    llvm::Value* matrix = over(lane_, 8);
    llvm::Value *second = modulo(matrix, 2), *third = over(matrix, 2);
    llvm::Value* outer_half = is_a ? second : third;
    llvm::Value* depth_half = is_a ? third : second;
    llvm::Value* outer = is_a ? warp_row_ : warp_column_;
    llvm::Value *row, *chunk;
    if (load.along_outer) {
      row = add(scaled(depth_half, 8), in_matrix);
      chunk = add(over(outer, 8), outer_half);
    } else {
      row = add(outer, add(scaled(outer_half, 8), in_matrix));
      chunk = depth_half;
    }
    s.fragment_row = scaled(row, load.chunks * kChunk);
    s.fragment_chunk = scaled(ir_.CreateXor(chunk, swizzle(load, row)), kChunk);
    return s;
  }

  llvm::Value* at_byte(const Side& s, llvm::Value* offset) {
    return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), s.shared, offset);
  }

  /// Starts the copies of this thread's part of the tile that begins at step `k` into the stage at
  /// byte `stage`.
  void copy(const Side& s, llvm::Value* k, llvm::Value* stage) {
    const MmaLoad& load = s.load;
    const std::int64_t along_extent = load.along_outer ? load.extent : body_.k;
    const std::int64_t along_block = load.chunks * plan_.chunk();
    const std::int64_t across_extent = load.along_outer ? body_.k : load.extent;
    llvm::Value* along_start = load.along_outer ? s.start : k;
    llvm::Value* across_start = load.along_outer ? k : s.start;
    const std::int64_t along_stride = load.along_outer ? load.outer_stride : load.depth_stride;
    const std::int64_t across_stride = load.along_outer ? load.depth_stride : load.outer_stride;
    llvm::Value* operand = c_.operand(load.operand);
    for (std::size_t i = 0; i < s.row.size(); ++i) {
      llvm::Value* across = add(across_start, s.row[i]);
      llvm::Value* row_inside = nullptr;
      if (across_extent % load.rows != 0)
        row_inside = ir_.CreateICmpSLT(across, c_.index(across_extent));
      llvm::Value* row_offset = add(s.base, scaled(across, across_stride));
      llvm::Value* place = add(stage, s.place[i]);
      llvm::Type* memory = memory_type(c_.module.getContext(), load.dtype);
      const std::int64_t size = size_of(load.dtype);
      Values loaded;
      for (std::int64_t e = 0; e < plan_.chunk(); e += std::max<std::int64_t>(load.piece, 1)) {
        llvm::Value* along = add(add(along_start, s.element[i]), c_.index(e));
        llvm::Value* inside = row_inside;
        if (along_extent % along_block != 0) {
          llvm::Value* below = ir_.CreateICmpSLT(along, c_.index(along_extent));
          inside = inside ? ir_.CreateAnd(inside, below) : below;
        }
        llvm::Value* offset = add(row_offset, scaled(along, along_stride));
        // What lies outside is read, if at all, from where something certainly is.
        if (inside) offset = ir_.CreateSelect(inside, offset, s.base);
        llvm::Value* source = ir_.CreateInBoundsGEP(memory, operand, offset);
        if (load.piece == 0) {
          llvm::Value* value =
              ir_.CreateAlignedLoad(memory, source, llvm::Align(static_cast<std::uint64_t>(size)));
          c_.tag(value, load.operand);
          loaded.push_back(
              inside ? ir_.CreateSelect(inside, value, llvm::Constant::getNullValue(memory))
                     : value);
          continue;
        }
        llvm::Value* bytes = nullptr;
        if (inside) {
          bytes = word(size * load.piece);
          if (along_extent % load.piece != 0) {
            llvm::Value* left = ir_.CreateTrunc(
                scaled(ir_.CreateNSWSub(c_.index(along_extent), along), size), ir_.getInt32Ty());
            bytes = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, bytes);
          }
          bytes = ir_.CreateSelect(inside, bytes, ir_.getInt32(0));
        }
        copy_piece(at_byte(s, add(place, word(size * e))), source, size * load.piece, bytes);
      }
      if (load.piece == 0) store_chunk(s, place, loaded);
    }
  }

  void store_chunk(const Side& s, llvm::Value* place, const Values& loaded) {
    const int count = static_cast<int>(loaded.size());
    llvm::Value* chunk = llvm::PoisonValue::get(with_width(loaded[0]->getType(), count));
    for (std::size_t e = 0; e < loaded.size(); ++e)
      chunk = ir_.CreateInsertElement(chunk, loaded[e], e);
    if (s.load.dtype != plan_.dtype) {
      LlvmScalarBuilder builder(ir_, count);
      chunk =
          builder.to_memory(builder.cast(builder.from_memory(chunk, s.load.dtype), plan_.dtype));
    }
    ir_.CreateAlignedStore(
        ir_.CreateBitCast(chunk, llvm::FixedVectorType::get(ir_.getInt32Ty(), 4)),
        at_byte(s, place), llvm::Align(kChunk));
  }

  /// `bytes`: how many come from memory, the rest being zero; null: all.
  void copy_piece(llvm::Value* to, llvm::Value* from, std::int64_t size, llvm::Value* bytes) {
    using namespace llvm;
    const ID whole = size == 16  ? Intrinsic::nvvm_cp_async_cg_shared_global_16
                     : size == 8 ? Intrinsic::nvvm_cp_async_ca_shared_global_8
                                 : Intrinsic::nvvm_cp_async_ca_shared_global_4;
    const ID part = size == 16  ? Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                    : size == 8 ? Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                                : Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
    if (bytes)
      ir_.CreateIntrinsic(part, {}, {to, from, bytes});
    else
      ir_.CreateIntrinsic(whole, {}, {to, from});
  }
  void commit() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {}); }
  void wait(std::int64_t groups) {
    ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {word(groups)});
  }

  // ---- shared → fragments → sums ---------------------------------------------------------------

  /// Fragment number `outer` of the warp, 32 · `depth` bytes of k into the tile: four registers.
  Values fragment(const Side& s, bool is_a, llvm::Value* stage, std::int64_t outer,
                  std::int64_t depth) {
    if (by_words(s.load)) return fragment_by_words(s, is_a, stage, outer, depth);
    const std::int64_t row = s.load.along_outer ? depth : outer;
    const std::int64_t chunk = s.load.along_outer ? outer : depth;
    llvm::Value* place =
        add(add(stage, s.fragment_row), ir_.CreateXor(s.fragment_chunk, word(2 * chunk * kChunk)));
    llvm::Value* address =
        ir_.CreateConstInBoundsGEP1_32(ir_.getInt8Ty(), at_byte(s, place),
                                       static_cast<unsigned>(row * 16 * s.load.chunks * kChunk));
    // A comes with k side by side in a register, B likewise: transposed is what lies otherwise.
    llvm::Value* loaded = ir_.CreateIntrinsic(
        s.load.along_outer ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                           : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
        {address->getType()}, {address});
    Values registers;
    for (unsigned r = 0; r < 4; ++r) {
      llvm::Value* value = ir_.CreateExtractValue(loaded, r);
      if (plan_.dtype == DType::f16)
        value = ir_.CreateBitCast(value, llvm::FixedVectorType::get(ir_.getHalfTy(), 2));
      if (plan_.dtype == DType::f32) value = to_tf32(ir_.CreateBitCast(value, ir_.getFloatTy()));
      registers.push_back(value);
    }
    return registers;
  }

  Values fragment_by_words(const Side& s, bool is_a, llvm::Value* stage, std::int64_t outer,
                           std::int64_t depth) {
    Values registers;
    for (std::int64_t r = 0; r < 4; ++r) {
      const std::int64_t outer_half = is_a ? r % 2 : r / 2, depth_half = is_a ? r / 2 : r % 2;
      llvm::Value* place =
          add(add(stage, s.fragment_row),
              ir_.CreateXor(s.fragment_chunk, word((4 * outer + 2 * outer_half) * kChunk)));
      llvm::Value* address = ir_.CreateConstInBoundsGEP1_32(
          ir_.getInt8Ty(), at_byte(s, place),
          static_cast<unsigned>((8 * depth + 4 * depth_half) * s.load.chunks * kChunk));
      registers.push_back(
          to_tf32(ir_.CreateAlignedLoad(ir_.getFloatTy(), address, llvm::Align(4))));
    }
    return registers;
  }

  /// To nearest; the hardware would cut bits off.
  llvm::Value* to_tf32(llvm::Value* value) {
    return ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {value});
  }

  std::int64_t fragments_m() const { return t_.warp_rows() / 16; }
  std::int64_t fragments_n() const { return t_.warp_columns() / 8; }
  /// The four sums of the fragment (i, j).
  std::size_t sum_index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((i * fragments_n() + j) * 4);
  }

  void compute(const Side& a, const Side& b, llvm::Value* a_stage, llvm::Value* b_stage,
               Values& sums) {
    const ID product =
        plan_.dtype == DType::f16   ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32
        : plan_.dtype == DType::f32 ? llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32
                                    : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
    for (std::int64_t depth = 0; depth < t_.bk / (2 * plan_.chunk()); ++depth) {
      std::vector<Values> x, y;
      for (std::int64_t i = 0; i < fragments_m(); ++i)
        x.push_back(fragment(a, true, a_stage, i, depth));
      for (std::int64_t j = 0; j < fragments_n() / 2; ++j)
        y.push_back(fragment(b, false, b_stage, j, depth));
      for (std::int64_t i = 0; i < fragments_m(); ++i)
        for (std::int64_t j = 0; j < fragments_n(); ++j) {
          Values arguments = x[static_cast<std::size_t>(i)];
          const Values& pair = y[static_cast<std::size_t>(j / 2)];
          for (std::size_t r = 0; r < 2; ++r)
            arguments.push_back(pair[static_cast<std::size_t>(j % 2) * 2 + r]);
          const auto sum = sums.begin() + static_cast<std::ptrdiff_t>(sum_index(i, j));
          arguments.insert(arguments.end(), sum, sum + 4);
          llvm::Value* result = ir_.CreateIntrinsic(product, {}, arguments);
          for (unsigned r = 0; r < 4; ++r) sum[r] = ir_.CreateExtractValue(result, r);
        }
    }
  }

  Values multiply() {
    const Side a = side(plan_.a, true), b = side(plan_.b, false);
    const Values zeros(static_cast<std::size_t>(fragments_m() * fragments_n() * 4),
                       llvm::ConstantFP::get(ir_.getFloatTy(), 0.0));
    llvm::Value* first = scaled(split_, plan_.steps_per_split);
    llvm::Value* steps = c_.index(plan_.steps_per_split);
    if (plan_.steps % plan_.steps_per_split != 0) {
      llvm::Value* left = ir_.CreateNSWSub(c_.index(plan_.steps), first);
      steps = ir_.CreateSelect(ir_.CreateICmpSLT(left, steps), left, steps);
    }
    const auto load_step = [&](llvm::Value* step, llvm::Value* slot) {
      emit_if(c_, ir_.CreateICmpSLT(step, steps), [&] {
        llvm::Value* k = scaled(add(first, step), t_.bk);
        copy(a, k, scaled(slot, a.load.bytes()));
        copy(b, k, scaled(slot, b.load.bytes()));
      });
      commit();
    };
    emit_for(c_, c_.index(0), c_.index(t_.stages - 1), 1,
             [&](llvm::Value* step) { load_step(step, ir_.CreateTrunc(step, ir_.getInt32Ty())); });
    Values carried = zeros;
    carried.push_back(ir_.getInt32(0));  // the slot that is computed with
    carried =
        emit_for(c_, c_.index(0), steps, 1, carried,
                 [&](llvm::Value* step, std::span<llvm::Value* const> old) -> Values {
                   Values sums(old.begin(), old.end() - 1);
                   llvm::Value* slot = old.back();
                   // The tile is there, for all threads; and all are done with the one before it,
                   // whose slot is filled next.
                   wait(t_.stages - 2);
                   c_.barrier();
                   llvm::Value* is_first = ir_.CreateICmpEQ(slot, word(0));
                   llvm::Value* free = ir_.CreateSelect(is_first, word(t_.stages - 1),
                                                        ir_.CreateSub(slot, word(1)));
                   load_step(add(step, c_.index(t_.stages - 1)), free);
                   compute(a, b, scaled(slot, a.load.bytes()), scaled(slot, b.load.bytes()), sums);
                   llvm::Value* is_last = ir_.CreateICmpEQ(slot, word(t_.stages - 1));
                   sums.push_back(ir_.CreateSelect(is_last, word(0), add(slot, word(1))));
                   return sums;
                 });
    carried.pop_back();
    return carried;
  }

  // ---- sums → result ---------------------------------------------------------------------------

  /// Columns that a lane has side by side after exchanging: with `lanes` lanes of the row.
  std::int64_t exchanging_lanes() const {
    const std::int64_t useful = width_ >= 8 ? 4 : width_ >= 4 ? 2 : 1;
    return std::gcd(useful, fragments_n());
  }

  /// `pairs[j]` is this lane's pair of fragment j; afterwards all are of one fragment: of number
  /// lane % count, the pairs of the lanes that differ from this one in lane % count.
  void exchange(std::vector<std::array<llvm::Value*, 2>>& pairs) {
    for (std::size_t bit = 1; bit < pairs.size(); bit *= 2) {
      llvm::Value* upper =
          ir_.CreateICmpNE(ir_.CreateAnd(lane_, word(static_cast<std::int64_t>(bit))), word(0));
      for (std::size_t j = 0; j < pairs.size(); ++j) {
        if (j & bit) continue;
        for (int e = 0; e < 2; ++e) {
          llvm::Value*& low = pairs[j][static_cast<std::size_t>(e)];
          llvm::Value*& high = pairs[j | bit][static_cast<std::size_t>(e)];
          llvm::Value* received = c_.shuffle_xor(ir_.CreateSelect(upper, low, high),
                                                 static_cast<int>(bit), ir_.getInt32(0xffffffff));
          low = ir_.CreateSelect(upper, received, low);
          high = ir_.CreateSelect(upper, high, received);
        }
      }
    }
  }

  void guarded(llvm::Value* index, std::int64_t extent, std::int64_t block,
               const std::function<void()>& body) {
    if (extent % block == 0) return body();
    emit_if(c_, ir_.CreateICmpSLT(index, c_.index(extent)), body);
  }

  void write(const Values& sums) {
    const std::int64_t lanes = exchanging_lanes();
    llvm::Value* in_row = modulo(lane_, 4);
    // Of a lane's columns within its fragment, the first.
    llvm::Value* own = lanes == 4 ? word(0) : scaled(over(in_row, lanes), 2 * lanes);
    llvm::Value* fragment = scaled(modulo(in_row, lanes), 8);
    llvm::Value* lane_column = wide(add(warp_column_, add(fragment, own)));
    llvm::Value* lane_row = wide(add(warp_row_, over(lane_, 4)));
    const std::int64_t width = std::min(width_, 2 * lanes);
    for (std::int64_t i = 0; i < fragments_m(); ++i)
      for (std::int64_t half = 0; half < 2; ++half) {
        std::vector<Values> parts;  // shuffles first: the guards divide the warp
        for (std::int64_t j = 0; j < fragments_n(); j += lanes) {
          std::vector<std::array<llvm::Value*, 2>> pairs;
          for (std::int64_t f = j; f < j + lanes; ++f) {
            const std::size_t at = sum_index(i, f) + static_cast<std::size_t>(2 * half);
            pairs.push_back({sums[at], sums[at + 1]});
          }
          exchange(pairs);
          Values flat;
          for (const auto& pair : pairs) flat.insert(flat.end(), pair.begin(), pair.end());
          parts.push_back(std::move(flat));
        }
        llvm::Value* row = add(row_start_, add(lane_row, c_.index(16 * i + 8 * half)));
        guarded(row, plan_.rows, t_.bm, [&] {
          for (std::size_t group = 0; group < parts.size(); ++group)
            for (std::int64_t e = 0; e < 2 * lanes; e += width) {
              llvm::Value* column =
                  add(column_start_,
                      add(lane_column, c_.index(static_cast<std::int64_t>(group) * lanes * 8 + e)));
              guarded(column, plan_.columns, t_.bn, [&] {
                write_vector(
                    row, column,
                    std::span(parts[group])
                        .subspan(static_cast<std::size_t>(e), static_cast<std::size_t>(width)));
              });
            }
        });
      }
  }

  void write_vector(llvm::Value* row, llvm::Value* column, std::span<llvm::Value* const> sums) {
    const int width = static_cast<int>(sums.size());
    llvm::Value* vector = sums[0];
    if (width > 1) {
      vector = llvm::PoisonValue::get(with_width(ir_.getFloatTy(), width));
      for (std::size_t e = 0; e < sums.size(); ++e)
        vector = ir_.CreateInsertElement(vector, sums[e], e);
    }
    if (plan_.splits == 1) return finish(c_, body_, plan_, batch_, row, column, vector, width);
    llvm::Value* part = add(scaled(split_, plan_.batches), batch_number_);
    llvm::Value* place = add(scaled(add(scaled(part, plan_.rows), row), plan_.columns), column);
    ir_.CreateAlignedStore(
        vector, ir_.CreateInBoundsGEP(ir_.getFloatTy(), c_.scratch, place),
        llvm::Align(static_cast<std::uint64_t>(std::min<std::int64_t>(4 * width, 16))));
  }

  NvptxContext& c_;
  llvm::IRBuilder<>& ir_;
  const MatmulBody& body_;
  const MmaPlan& plan_;
  const MmaTile& t_;
  std::int64_t width_;
  Values batch_;
  llvm::Value *split_ = nullptr, *batch_number_ = nullptr;
  llvm::Value *row_start_ = nullptr, *column_start_ = nullptr;
  llvm::Value *thread_ = nullptr, *lane_ = nullptr;           ///< i32
  llvm::Value *warp_row_ = nullptr, *warp_column_ = nullptr;  ///< i32, within the block
};

/// Adds the parts of a split sum in order; a thread computes `width` elements side by side.
GridShape emit_parts(NvptxContext& c, const MatmulBody& body, const MmaPlan& plan, int width) {
  constexpr std::int64_t kThreads = 128;
  llvm::IRBuilder<>& ir = c.ir;
  const std::int64_t elements = plan.batches * plan.rows * plan.columns;
  const std::int64_t vectors = elements / width;
  const GridShape shape{.blocks = {divide_up(vectors, kThreads), 1, 1}, .threads = kThreads};
  llvm::Value* number = c.thread_of_grid(shape.blocks[0], kThreads);
  if (vectors % kThreads != 0) c.keep_threads(ir.CreateICmpSLT(number, c.index(vectors)));
  llvm::Value* first = ir.CreateNSWMul(number, c.index(width));
  llvm::Value* sum = nullptr;
  for (std::int64_t split = 0; split < plan.splits; ++split) {
    llvm::Value* part = ir.CreateAlignedLoad(
        with_width(ir.getFloatTy(), width),
        ir.CreateInBoundsGEP(ir.getFloatTy(), c.scratch,
                             ir.CreateNSWAdd(first, c.index(split * elements))),
        llvm::Align(static_cast<std::uint64_t>(std::min(4 * width, 16))));
    sum = sum ? ir.CreateFAdd(sum, part) : part;
  }
  llvm::Value* line = ir.CreateUDiv(first, c.index(plan.columns));
  finish(c, body, plan, unravel(c, ir.CreateUDiv(line, c.index(plan.rows)), body.batch),
         ir.CreateURem(line, c.index(plan.rows)), ir.CreateURem(first, c.index(plan.columns)), sum,
         width);
  ir.CreateRetVoid();
  return shape;
}

}  // namespace

void emit_device_mma(DeviceKernelWriter& kernel, const MatmulBody& body) {
  MmaPlan plan;
  ResultWidth result;
  kernel.grid([&](NvptxContext& c) {
    result = result_width(c, body);
    plan = plan_mma(body, c.operand_dtype(body.a.operand), c.operand_dtype(body.b.operand),
                    c.target.sm, result.swapped);
    std::int64_t width = result.width;
    if (plan.splits > 1) width = std::gcd(std::int64_t{4}, plan.columns);  // of the parts
    return MmaEmitter(c, body, plan, width).emit();
  });
  if (plan.splits == 1) return;
  kernel.need_scratch(plan.scratch_bytes());
  // Few elements: narrower vectors, more threads.
  kernel.grid([&](NvptxContext& c) {
    return emit_parts(c, body, plan, static_cast<int>(std::min<std::int64_t>(result.width, 4)));
  });
}

}  // namespace riffle::codegen
