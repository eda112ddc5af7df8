// Builder: appends nodes to a Graph, inferring and checking types as it goes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace riffle::ir {

/// Not thread-safe; owns its graph until `finish`.
class Builder {
 public:
  explicit Builder(std::string graph_name);
  /// Goes on with an existing graph.
  explicit Builder(Graph graph);

  /// Appends a node. Fills in the attributes' defaults, normalises negative dimensions, infers the
  /// result type. The name is made unique; empty means the op's text name.
  /// Throws GraphError at `location` saying what would fit.
  Value append(Op op, std::span<const Value> operands, Attrs attrs = {},
               std::string_view name = {});
  Value append(Op op, std::initializer_list<Value> operands, Attrs attrs = {},
               std::string_view name = {});
  /// input or param, whose type is given rather than inferred.
  Value append_source(Op op, TensorType type, std::string_view name, Attrs attrs = {});
  void append_break();
  /// Gives a value another name, made unique.
  void rename(Value value, std::string_view name);

  // Shorthand for op blocks. A cast to the same dtype, a reshape to the same shape and the like
  // return the operand itself.
  Value full(const Shape& shape, double value, DType dtype);
  Value scalar(double value, DType dtype) { return full({}, value, dtype); }
  Value cast(Value x, DType dtype);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value mul(Value a, double b);
  Value add(Value a, double b);
  Value neg(Value a);
  Value unary(Op op, Value a) { return append(op, {a}); }
  Value binary(Op op, Value a, Value b) { return append(op, {a, b}); }
  Value where(Value condition, Value a, Value b);
  Value reshape(Value x, const Shape& shape);
  Value expand(Value x, const Shape& shape);
  Value permute(Value x, const Ints& dims);
  Value transpose_last_two(Value x);
  Value sum(Value x, const Ints& dims, bool keepdim = false);
  Value reduce(Op op, Value x, const Ints& dims, bool keepdim = false);
  Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
  /// Sums x over the dimensions that broadcasting to x's shape from `shape` added or stretched.
  Value sum_to(Value x, const Shape& shape);
  Value zeros_like(Value x);

  const TensorType& type(Value v) const { return graph_[v.id].type; }
  const Graph& graph() const noexcept { return graph_; }
  Graph& graph() noexcept { return graph_; }

  /// Location and program_id given to nodes appended from now on.
  void set_location(SourceLocation location) { location_ = std::move(location); }
  void set_program_id(std::int64_t id) { program_id_ = id; }  // -1: the node's own index

  /// Takes the graph, with these outputs.
  Graph finish(const std::vector<Value>& outputs);

 private:
  Graph graph_;
  NameScope names_;
  SourceLocation location_;
  std::int64_t program_id_ = -1;
};

}  // namespace riffle::ir
