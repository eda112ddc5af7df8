#include "codegen/kernel_canonical.h"

#include <algorithm>
#include <set>

namespace riffle::codegen {
namespace {

using Affines = std::vector<Affine*>;

void collect(std::vector<Expr>& exprs, Affines& affines) {
  for (Expr& expr : exprs) {
    if (expr.kind != Expr::Kind::load && expr.kind != Expr::Kind::index) continue;
    affines.push_back(&expr.address);
    for (Guard& guard : expr.guards) affines.push_back(&guard.value);
  }
}
void collect(std::vector<Store>& stores, Affines& affines) {
  for (Store& store : stores) affines.push_back(&store.address);
}

void erase_dimension(const Affines& affines, std::size_t d) {
  for (Affine* affine : affines)
    affine->strides.erase(affine->strides.begin() + static_cast<std::ptrdiff_t>(d));
}

/// Whether dimensions d and d + 1 are walked as one: a step of d is `inner` steps of d + 1.
bool mergeable(const Affines& affines, std::size_t d, std::int64_t inner) {
  return std::all_of(affines.begin(), affines.end(), [&](const Affine* affine) {
    return affine->strides[d] == affine->strides[d + 1] * inner;
  });
}

/// Collapses shape, whose dimensions are number first … of the affines; keeps at least one.
void collapse(Shape& shape, std::size_t first, const Affines& affines) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 || shape.size() == 1) continue;
    erase_dimension(affines, first + d);
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
  }
  for (std::size_t d = shape.size(); d-- > 1;) {
    if (!mergeable(affines, first + d - 1, shape[d])) continue;
    erase_dimension(affines, first + d - 1);
    shape[d - 1] *= shape[d];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
  }
  if (shape.empty()) {
    shape = {1};
    for (Affine* affine : affines)
      affine->strides.insert(affine->strides.begin() + static_cast<std::ptrdiff_t>(first), 0);
  }
}

bool same_place(const Expr& load, const Affine& address) {
  return load.guards.empty() && load.indirect.empty() && load.address == address;
}

/// What a kernel does with its operands, in the order in which a point's work happens.
struct MemoryAccess {
  std::size_t stage;
  std::int32_t operand;
  const Expr* load;  ///< null for a store
  const Store* store;
};

void gather_accesses(const std::vector<Expr>& exprs, const std::vector<Store>& stores,
                     std::size_t stage, std::vector<MemoryAccess>& accesses) {
  for (const Expr& expr : exprs)
    if (expr.kind == Expr::Kind::load) accesses.push_back({stage, expr.operand, &expr, nullptr});
  for (const Store& store : stores) accesses.push_back({stage, store.operand, nullptr, &store});
}

}  // namespace

void canonicalise(LoopBody& body) {
  Affines affines;
  collect(body.exprs, affines);
  collect(body.stores, affines);
  collapse(body.space, 0, affines);
}

void canonicalise(RowBody& body) {
  Affines affines;
  for (RowBody::Stage& stage : body.stages) {
    collect(stage.exprs, affines);
    collect(stage.stores, affines);
  }
  collect(body.final_exprs, affines);
  collect(body.final_stores, affines);
  collapse(body.inner, body.outer.size(), affines);
  collapse(body.outer, 0, affines);
}

void canonicalise(MatmulBody& body) {
  Affines affines;
  collect(body.epilogue, affines);
  collect(body.stores, affines);
  // The sides' batch strides take part as affines over the batch dimensions.
  Affine a{0, body.a.batch_strides}, b{0, body.b.batch_strides};
  a.strides.resize(body.batch.size() + 2);
  b.strides.resize(body.batch.size() + 2);
  affines.push_back(&a);
  affines.push_back(&b);
  for (std::size_t d = body.batch.size(); d-- > 0;) {
    if (body.batch[d] != 1) continue;
    erase_dimension(affines, d);
    body.batch.erase(body.batch.begin() + static_cast<std::ptrdiff_t>(d));
  }
  for (std::size_t d = body.batch.size(); d-- > 1;) {
    if (!mergeable(affines, d - 1, body.batch[d])) continue;
    erase_dimension(affines, d - 1);
    body.batch[d - 1] *= body.batch[d];
    body.batch.erase(body.batch.begin() + static_cast<std::ptrdiff_t>(d));
  }
  // A batch of rows against one B is one taller matrix.
  while (!body.batch.empty()) {
    const std::size_t last = body.batch.size() - 1;
    a.strides[last + 1] = body.a.row_stride;
    b.strides[last + 1] = 0;
    if (body.m == 1) {  // a row dimension of one has whatever stride suits
      for (Affine* affine : affines) affine->strides[last + 1] = affine->strides[last];
      b.strides[last + 1] = 0;
    }
    if (b.strides[last] != 0 || !mergeable(affines, last, body.m)) break;
    body.a.row_stride = a.strides[last + 1];
    body.m *= body.batch[last];
    body.batch.pop_back();
    erase_dimension(affines, last);
  }
  a.strides.resize(body.batch.size());
  b.strides.resize(body.batch.size());
  body.a.batch_strides = a.strides;
  body.b.batch_strides = b.strides;
}

void canonicalise(ScatterBody& body) {
  Affines affines;
  collect(body.exprs, affines);
  affines.push_back(&body.address);
  collapse(body.space, 0, affines);
}

std::vector<std::pair<std::int32_t, std::int32_t>> aliasable_operands(
    const KernelSpec& kernel, const KernelProgram& program) {
  std::vector<MemoryAccess> accesses;
  std::set<std::int32_t> unordered;  // read outside of the order of points: never shared
  if (const auto* loop = std::get_if<LoopBody>(&kernel.body)) {
    gather_accesses(loop->exprs, loop->stores, 0, accesses);
  } else if (const auto* row = std::get_if<RowBody>(&kernel.body)) {
    std::size_t stage = 0;
    for (const RowBody::Stage& s : row->stages)
      gather_accesses(s.exprs, s.stores, stage++, accesses);
    gather_accesses(row->final_exprs, row->final_stores, stage, accesses);
  } else if (const auto* matmul = std::get_if<MatmulBody>(&kernel.body)) {
    unordered = {matmul->a.operand, matmul->b.operand};
    gather_accesses(matmul->epilogue, matmul->stores, 0, accesses);
  } else if (const auto* scatter = std::get_if<ScatterBody>(&kernel.body)) {
    if (scatter->base < 0) return {};
    for (const Expr& expr : scatter->exprs)
      if (expr.kind == Expr::Kind::load && expr.operand == scatter->base) return {};
    return {{scatter->out, scatter->base}};
  }
  const auto type = [&](std::int32_t operand) -> const TensorType& {
    const KernelOperand& o = kernel.operands[static_cast<std::size_t>(operand)];
    return program.slots[static_cast<std::size_t>(o.slot)].type;
  };
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const MemoryAccess& write : accesses) {
    if (!write.store) continue;
    for (std::size_t r = 0; r < kernel.operands.size(); ++r) {
      const auto read = static_cast<std::int32_t>(r);
      if (kernel.operands[r].access != Access::read || unordered.contains(read) ||
          size_of(type(read).dtype) != size_of(type(write.operand).dtype) ||
          type(read).bytes() != type(write.operand).bytes())
        continue;
      const bool fits =
          std::all_of(accesses.begin(), accesses.end(), [&](const MemoryAccess& access) {
            return !access.load || access.operand != read ||
                   (access.stage <= write.stage && same_place(*access.load, write.store->address));
          });
      if (fits) pairs.emplace_back(write.operand, read);
    }
  }
  return pairs;
}

}  // namespace riffle::codegen
