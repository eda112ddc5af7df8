// How large the terms were that a result is the sum of: what rounding errors are measured by where
// the terms cancel.
#pragma once

#include <vector>

#include "ir/array.h"
#include "ir/graph.h"

namespace riffle::driver {

/// For every node of `graph`, whose values are `values` (ir::evaluate_all), the element-wise sum of
/// the squares of the terms that were added up for it; `sources` holds the same for inputs followed
/// by parameters. A node that adds, scales or moves elements hands on what its operands have, as
/// variances of independent errors go through it; a function of an element does so by its slope,
/// unless its own value is larger; any other has the square of its value.
///
/// Terms of independent sign add up to a value of just that size, so this says no more than the
/// value itself, unless the terms cancel: the sum of a centred row is 0, its terms are not.
std::vector<ir::Array> squared_scales(const ir::Graph& graph, const std::vector<ir::Array>& values,
                                      const std::vector<ir::Array>& sources);

/// The squares of an array's elements: the scale of a value that is given.
ir::Array squares_of(const ir::Array& array);

}  // namespace riffle::driver
