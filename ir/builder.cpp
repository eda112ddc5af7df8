#include "ir/builder.h"

#include <cassert>
#include <numeric>

#include <fmt/format.h>

#include "ir/ops/rules.h"

namespace riffle::ir {

Builder::Builder(std::string graph_name) { graph_.name = std::move(graph_name); }

Builder::Builder(Graph graph) : graph_(std::move(graph)) {
  for (const Node& node : graph_.nodes)
    if (!node.name.empty()) names_.take(node.name);
}

namespace {
// Adds the place to an error that does not know it.
[[noreturn]] void rethrow_at(const GraphError& error, const SourceLocation& location,
                             const std::string& graph_name) {
  std::string where(error.where());
  if (where.empty()) where = to_string(location);
  if (where.empty() && !graph_name.empty()) where = "@" + graph_name;
  throw GraphError(
      {.what = std::string(error.message()), .where = where, .hint = std::string(error.hint())});
}
}  // namespace

Value Builder::append(Op op, std::span<const Value> operands, Attrs attrs, std::string_view name) {
  const OpInfo& row = info(op);
  assert(op != Op::input && op != Op::param && op != Op::break_);
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.location = location_;
  node.program_id = program_id_ < 0 ? graph_.size() : program_id_;
  std::vector<TensorType> types;
  for (Value operand : operands) {
    assert(operand.id >= 0 && operand.id < graph_.size() && graph_[operand.id].op != Op::break_);
    node.operands.push_back(operand.id);
    types.push_back(graph_[operand.id].type);
  }
  try {
    complete_attrs(op, types, node.attrs);
    node.type = infer_type(op, {types, node.attrs});
  } catch (const GraphError& error) {
    rethrow_at(error, location_, graph_.name);
  }
  node.name = names_.unique(name.empty() ? row.text : name);
  graph_.nodes.push_back(std::move(node));
  return {graph_.size() - 1};
}

Value Builder::append(Op op, std::initializer_list<Value> operands, Attrs attrs,
                      std::string_view name) {
  return append(op, std::span<const Value>(operands.begin(), operands.size()), std::move(attrs),
                name);
}

Value Builder::append_source(Op op, TensorType type, std::string_view name, Attrs attrs) {
  assert(op == Op::input || op == Op::param);
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.location = location_;
  node.program_id = program_id_ < 0 ? graph_.size() : program_id_;
  try {
    complete_attrs(op, {}, node.attrs);
    check_size(type);
  } catch (const GraphError& error) {
    rethrow_at(error, location_, graph_.name);
  }
  node.type = std::move(type);
  node.name = names_.unique(name.empty() ? info(op).text : name);
  graph_.nodes.push_back(std::move(node));
  return {graph_.size() - 1};
}

void Builder::append_break() {
  Node node;
  node.op = Op::break_;
  node.location = location_;
  node.program_id = program_id_ < 0 ? graph_.size() : program_id_;
  graph_.nodes.push_back(std::move(node));
}

Value Builder::full(const Shape& shape, double value, DType dtype) {
  return append(Op::full, {}, {{"size", shape}, {"fill_value", value}, {"dtype", dtype}});
}

Value Builder::cast(Value x, DType dtype) {
  return type(x).dtype == dtype ? x : append(Op::to, {x}, {{"dtype", dtype}});
}

Value Builder::add(Value a, Value b) { return append(Op::add, {a, b}); }
Value Builder::sub(Value a, Value b) { return append(Op::sub, {a, b}); }
Value Builder::mul(Value a, Value b) { return append(Op::mul, {a, b}); }
Value Builder::div(Value a, Value b) { return append(Op::div, {a, b}); }
Value Builder::mul(Value a, double b) { return mul(a, scalar(b, type(a).dtype)); }
Value Builder::add(Value a, double b) { return add(a, scalar(b, type(a).dtype)); }
Value Builder::neg(Value a) { return append(Op::neg, {a}); }
Value Builder::where(Value condition, Value a, Value b) {
  return append(Op::where_, {condition, a, b});
}

Value Builder::reshape(Value x, const Shape& shape) {
  return type(x).shape == shape ? x : append(Op::reshape, {x}, {{"shape", shape}});
}

Value Builder::expand(Value x, const Shape& shape) {
  return type(x).shape == shape ? x : append(Op::expand, {x}, {{"size", shape}});
}

Value Builder::permute(Value x, const Ints& dims) {
  Ints identity(dims.size());
  std::iota(identity.begin(), identity.end(), 0);
  return dims == identity && type(x).shape.size() == dims.size()
             ? x
             : append(Op::permute, {x}, {{"dims", dims}});
}

Value Builder::transpose_last_two(Value x) {
  Ints dims(type(x).shape.size());
  assert(dims.size() >= 2);
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return permute(x, dims);
}

Value Builder::sum(Value x, const Ints& dims, bool keepdim) {
  return reduce(Op::sum, x, dims, keepdim);
}

Value Builder::reduce(Op op, Value x, const Ints& dims, bool keepdim) {
  return append(op, {x}, {{"dim", dims}, {"keepdim", keepdim}});
}

Value Builder::matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  return append(Op::matmul, {a, b},
                {{"transpose_x", transpose_a}, {"transpose_other", transpose_b}});
}

Value Builder::sum_to(Value x, const Shape& shape) {
  const Shape from = type(x).shape;
  assert(rules::broadcasts_to(shape, from));
  const std::size_t added = from.size() - shape.size();
  Ints dims;
  for (std::size_t d = 0; d < from.size(); ++d)
    if (d < added || (shape[d - added] == 1 && from[d] != 1))
      dims.push_back(static_cast<std::int64_t>(d));
  if (!dims.empty()) x = sum(x, dims);
  return reshape(x, shape);
}

Value Builder::zeros_like(Value x) {
  const TensorType like = type(x);
  return full(like.shape, 0, like.dtype);
}

void Builder::rename(Value value, std::string_view name) {
  graph_[value.id].name = names_.unique(name);
}

Graph Builder::finish(const std::vector<Value>& outputs) {
  graph_.outputs.clear();
  for (Value output : outputs) {
    assert(output.id >= 0 && output.id < graph_.size());
    graph_.outputs.push_back(output.id);
  }
  return std::move(graph_);
}

}  // namespace riffle::ir
