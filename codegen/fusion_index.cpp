#include "codegen/fusion_index.h"

#include <algorithm>

#include "ir/array.h"

namespace riffle::codegen {
namespace {
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
}  // namespace

Affine zero_affine(std::size_t rank) { return {0, std::vector<std::int64_t>(rank, 0)}; }

Affine add(Affine a, const Affine& b, std::int64_t factor) {
  a.offset += b.offset * factor;
  for (std::size_t d = 0; d < a.strides.size(); ++d) a.strides[d] += b.strides[d] * factor;
  return a;
}

void normalise(Affine& affine, const Shape& extents) {
  for (std::size_t d = 0; d < extents.size(); ++d)
    if (extents[d] <= 1) affine.strides[d] = 0;
}

std::pair<std::int64_t, std::int64_t> range_of(const Affine& affine, const Shape& extents) {
  std::int64_t low = affine.offset, high = affine.offset;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::int64_t last = affine.strides[d] * std::max<std::int64_t>(extents[d] - 1, 0);
    (last < 0 ? low : high) += last;
  }
  return {low, high};
}

Affine dense_affine(const Shape& extents, const std::vector<bool>& mask) {
  Affine affine = zero_affine(extents.size());
  std::int64_t stride = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (!mask.empty() && !mask[d]) continue;
    if (extents[d] > 1) affine.strides[d] = stride;
    stride *= extents[d];
  }
  return affine;
}

bool split(const IndexTerm& term, std::int64_t size, const Shape& extents, IndexTerm& quotient,
           IndexTerm& remainder, std::optional<Refine>& refine) {
  const std::size_t rank = extents.size();
  quotient = {zero_affine(rank), {}};
  remainder = {zero_affine(rank), {}};
  if (size <= 0) return false;
  quotient.affine.offset = floor_div(term.affine.offset, size);
  remainder.affine.offset = term.affine.offset - quotient.affine.offset * size;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t stride = term.affine.strides[d];
    if (stride == 0 || extents[d] <= 1) continue;
    if (stride % size == 0) {
      quotient.affine.strides[d] = stride / size;
      continue;
    }
    if (stride < 0 || stride > size) return false;
    if (stride * (extents[d] - 1) >= size) {
      const std::int64_t inner = size / stride;
      if (size % stride == 0 && extents[d] % inner == 0) refine = Refine{d, inner};
      return false;
    }
    remainder.affine.strides[d] = stride;
  }
  for (const Indirect& indirect : term.indirect) {
    if (indirect.stride % size != 0) return false;
    quotient.indirect.push_back({indirect.index, indirect.stride / size, indirect.size});
  }
  return range_of(remainder.affine, extents).second < size;
}

IndexTerm linear(const TensorIndex& index, const Shape& shape, std::size_t rank) {
  const std::vector<std::int64_t> strides = ir::strides_of(shape);
  IndexTerm result{zero_affine(rank), {}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    result.affine = add(std::move(result.affine), index[d].affine, strides[d]);
    for (Indirect indirect : index[d].indirect) {
      indirect.stride *= strides[d];
      result.indirect.push_back(indirect);
    }
  }
  return result;
}

bool unflatten(const IndexTerm& element, const Shape& shape, const Shape& extents,
               TensorIndex& index, std::optional<Refine>& refine) {
  index.assign(shape.size(), {zero_affine(extents.size()), {}});
  IndexTerm rest = element;
  std::size_t outermost = 0;  // takes what is left: its range needs no check
  while (outermost < shape.size() && shape[outermost] == 1) ++outermost;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (d == outermost) {
      index[d] = rest;
      break;
    }
    IndexTerm quotient;
    if (!split(rest, shape[d], extents, quotient, index[d], refine)) return false;
    rest = std::move(quotient);
  }
  return true;
}

TensorIndex identity_index(std::size_t rank) {
  TensorIndex index(rank, {zero_affine(rank), {}});
  for (std::size_t d = 0; d < rank; ++d) index[d].affine.strides[d] = 1;
  return index;
}

void refine_affine(Affine& affine, const Refine& refine) {
  const std::int64_t stride = affine.strides[refine.dimension];
  affine.strides[refine.dimension] = stride * refine.inner;
  affine.strides.insert(affine.strides.begin() + static_cast<std::ptrdiff_t>(refine.dimension) + 1,
                        stride);
}

void refine_extents(Shape& extents, const Refine& refine) {
  extents[refine.dimension] /= refine.inner;
  extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(refine.dimension) + 1, refine.inner);
}

}  // namespace riffle::codegen
