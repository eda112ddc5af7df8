// The samples of the op table, made runnable: what every suite that goes through all ops starts
// from.
//
//   for (const ir::OpInfo& op : ir::all_ops())
//     for (DType dtype : tested_dtypes(op))
//       for (const ir::Sample& sample : samples_of(op))
//         … sample_graph(op, sample, dtype), random_operands(sample, dtype, random) …
#pragma once

#include <string>
#include <vector>

#include "ir/array.h"
#include "ir/graph.h"
#include "ir/op.h"
#include "tests/support/random_graph.h"

namespace riffle::test {

/// Empty for input, param and break, which compute nothing.
std::vector<ir::Sample> samples_of(const ir::OpInfo& op);
/// The dtypes that take f32's place in samples.
std::vector<DType> tested_dtypes(const ir::OpInfo& op);
/// False when no operand or attribute of the sample depends on the dtype under test.
bool depends_on_dtype(const ir::Sample& sample);

/// The sample's operand types with f32 replaced.
std::vector<TensorType> operand_types(const ir::Sample& sample, DType dtype);
/// Random values in the sample's range, exact in their dtypes.
std::vector<ir::Array> random_operands(const ir::Sample& sample, DType dtype, Random& random);
/// In [-1, 1], exact in the type's dtype.
ir::Array random_array(const TensorType& type, Random& random);

/// Inputs a0, a1, … and the op on them.
ir::Graph sample_graph(const ir::OpInfo& op, const ir::Sample& sample, DType dtype);

/// Operands that may have a gradient: floating, of an op whose result is floating too.
std::vector<std::size_t> differentiable_operands(const ir::OpInfo& op, const ir::Sample& sample,
                                                 DType dtype);
/// Inputs a0, a1, … and `cotangent`, of the result's type; one output for each entry of `wanted`
/// (operand numbers), its gradient, zeros where none flows. Composites without a rule of their own
/// are differentiated through their primitives. Throws GraphError when a primitive has no rule.
ir::Graph gradient_graph(const ir::OpInfo& op, const ir::Sample& sample, DType dtype,
                         const std::vector<std::size_t>& wanted);

/// "matmul(f32[3, 5], f32[5, 4], transpose_x=False, …)", for messages.
std::string describe(const ir::OpInfo& op, const ir::Sample& sample, DType dtype);

}  // namespace riffle::test
