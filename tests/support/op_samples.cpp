#include "tests/support/op_samples.h"

#include <cmath>

#include "ir/builder.h"

namespace riffle::test {

using namespace ir;

std::vector<Sample> samples_of(const OpInfo& op) {
  return op.block.samples ? op.block.samples() : std::vector<Sample>{};
}

std::vector<DType> tested_dtypes(const OpInfo& op) {
  if (op.block.dtypes) return op.block.dtypes();
  return {DType::f32, DType::f64, DType::bf16, DType::f16};
}

bool depends_on_dtype(const Sample& sample) {
  for (const TensorType& operand : sample.operands)
    if (operand.dtype == DType::f32) return true;
  return false;
}

std::vector<TensorType> operand_types(const Sample& sample, DType dtype) {
  std::vector<TensorType> types = sample.operands;
  for (TensorType& type : types)
    if (type.dtype == DType::f32) type.dtype = dtype;
  return types;
}

namespace {

// Rounded to the type's dtype by a trip through its bytes.
Array rounded(Array array) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(array.type.bytes()));
  array_to_bytes(array, bytes);
  return array_from_bytes(array.type, bytes);
}

double random_element(DType dtype, const Sample& sample, Random& random) {
  if (dtype == DType::boolean) return random.chance(0.5) ? 1 : 0;
  if (is_floating(dtype)) return random.uniform(sample.low, sample.high);
  if (sample.index_limit > 0) return static_cast<double>(random.below(sample.index_limit));
  return std::floor(random.uniform(sample.low, sample.high + 1));
}

std::vector<Value> append_operands(Builder& b, const Sample& sample, DType dtype) {
  std::vector<Value> operands;
  for (const TensorType& type : operand_types(sample, dtype))
    operands.push_back(b.append_source(Op::input, type, "a" + std::to_string(operands.size())));
  return operands;
}

// Reverse mode over the primitives first … result.id of b's graph, for composites without a rule.
std::vector<Value> differentiate_primitives(Builder& b, std::int32_t first, Value result,
                                            Value cotangent, const std::vector<Value>& operands) {
  const std::int32_t last = result.id;
  std::vector<Value> gradients(static_cast<std::size_t>(last) + 1);
  gradients.back() = cotangent;
  for (std::int32_t id = last; id >= first; --id) {
    const Value dy = gradients[static_cast<std::size_t>(id)];
    const Node node = b.graph()[id];
    const OpInfo& op = info(node.op);
    if (!dy || op.has(kNotDifferentiable) || node.operands.empty()) continue;
    if (!op.block.vjp) throw GraphError({.what = std::string(op.text) + " has no gradient rule"});
    std::vector<Value> values;
    std::vector<bool> wanted;
    for (ValueId operand : node.operands) {
      values.push_back({operand});
      wanted.push_back(is_floating(b.graph()[operand].type.dtype));
    }
    const auto parts = op.block.vjp({b, node.attrs, values, {id}, dy, wanted});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i]) continue;
      Value& sum = gradients[static_cast<std::size_t>(node.operands[i])];
      sum = sum ? b.add(sum, parts[i]) : parts[i];
    }
  }
  std::vector<Value> of_operands;
  for (Value operand : operands)
    of_operands.push_back(gradients[static_cast<std::size_t>(operand.id)]);
  return of_operands;
}

}  // namespace

std::vector<Array> random_operands(const Sample& sample, DType dtype, Random& random) {
  std::vector<Array> arrays;
  for (const TensorType& type : operand_types(sample, dtype)) {
    Array array(type);
    for (double& x : array.data) x = random_element(type.dtype, sample, random);
    arrays.push_back(rounded(std::move(array)));
  }
  return arrays;
}

Array random_array(const TensorType& type, Random& random) {
  Array array(type);
  for (double& x : array.data) x = random.uniform(-1, 1);
  return rounded(std::move(array));
}

Graph sample_graph(const OpInfo& op, const Sample& sample, DType dtype) {
  Builder b{std::string(op.text)};
  const std::vector<Value> operands = append_operands(b, sample, dtype);
  const Value result = b.append(op.op, operands, sample.attrs);
  return b.finish({result});
}

std::vector<std::size_t> differentiable_operands(const OpInfo& op, const Sample& sample,
                                                 DType dtype) {
  std::vector<std::size_t> operands;
  if (op.has(kNotDifferentiable)) return operands;
  const Graph graph = sample_graph(op, sample, dtype);
  if (!is_floating(graph[graph.outputs[0]].type.dtype)) return operands;
  const std::vector<TensorType> types = operand_types(sample, dtype);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (is_floating(types[i].dtype)) operands.push_back(i);
  return operands;
}

Graph gradient_graph(const OpInfo& op, const Sample& sample, DType dtype,
                     const std::vector<std::size_t>& wanted) {
  const Graph forward = sample_graph(op, sample, dtype);
  const Node& node = forward.nodes.back();
  Builder b{std::string(op.text) + "_gradient"};
  const std::vector<Value> operands = append_operands(b, sample, dtype);
  const Value cotangent = b.append_source(Op::input, node.type, "cotangent");
  std::vector<Value> gradients;
  if (op.block.vjp || op.family != OpFamily::composite) {
    if (!op.block.vjp) throw GraphError({.what = std::string(op.text) + " has no gradient rule"});
    const Value result = b.append(op.op, operands, sample.attrs);
    std::vector<bool> flags(operands.size(), false);
    for (std::size_t i : wanted) flags[i] = true;
    gradients = op.block.vjp({b, node.attrs, operands, result, cotangent, flags});
  } else {
    const std::int32_t first = b.graph().size();
    const Value result = op.block.decompose(b, operands, node.attrs);
    gradients = differentiate_primitives(b, first, result, cotangent, operands);
  }
  std::vector<Value> outputs;
  for (std::size_t i : wanted)
    outputs.push_back(gradients.at(i) ? gradients[i] : b.zeros_like(operands[i]));
  return b.finish(outputs);
}

std::string describe(const OpInfo& op, const Sample& sample, DType dtype) {
  std::string text = std::string(op.text) + "(";
  bool first = true;
  const auto separate = [&] {
    if (!first) text += ", ";
    first = false;
  };
  for (const TensorType& type : operand_types(sample, dtype)) {
    separate();
    text += to_string(type);
  }
  for (const auto& [name, value] : sample.attrs.entries()) {
    separate();
    text += name + "=" + ir::to_string(value);
  }
  return text + ")";
}

}  // namespace riffle::test
