// Index maps: how the elements of one tensor are found from the loop indices of a kernel.
//
// A tensor's index is one IndexTerm a dimension; shape ops map the index of their result to the
// index of their operand. `split` is the one partial function: an affine index has an affine
// quotient and remainder only when the loop dimensions fit the tensor's.
#pragma once

#include <optional>
#include <vector>

#include "codegen/kernel_spec.h"

namespace riffle::codegen {

/// One dimension's index: an affine part plus stride × (value of an expression).
struct IndexTerm {
  Affine affine;
  std::vector<Indirect> indirect;
};
using TensorIndex = std::vector<IndexTerm>;

/// A loop dimension would have to be split into (extent / inner, inner) to express an index.
struct Refine {
  std::size_t dimension = 0;
  std::int64_t inner = 0;
};

Affine zero_affine(std::size_t rank);
Affine add(Affine a, const Affine& b, std::int64_t factor = 1);
/// Strides of loop dimensions with one iteration are 0, so that equal addresses compare equal.
void normalise(Affine& affine, const Shape& extents);
/// offset … offset + Σ stride·(extent − 1), smallest and largest.
std::pair<std::int64_t, std::int64_t> range_of(const Affine& affine, const Shape& extents);
/// Row-major over the loop dimensions where mask is true (all, when it is empty).
Affine dense_affine(const Shape& extents, const std::vector<bool>& mask = {});

/// term = quotient · size + remainder with 0 ≤ remainder < size at every point. False when neither
/// is affine; `refine` then says which loop dimension would have to be split, if that would do.
bool split(const IndexTerm& term, std::int64_t size, const Shape& extents, IndexTerm& quotient,
           IndexTerm& remainder, std::optional<Refine>& refine);

/// Row-major element number.
IndexTerm linear(const TensorIndex& index, const Shape& shape, std::size_t rank);
/// Inverse of linear.
bool unflatten(const IndexTerm& element, const Shape& shape, const Shape& extents,
               TensorIndex& index, std::optional<Refine>& refine);
/// Loop dimension d indexes tensor dimension d.
TensorIndex identity_index(std::size_t rank);

void refine_affine(Affine& affine, const Refine& refine);
void refine_extents(Shape& extents, const Refine& refine);

}  // namespace riffle::codegen
