// Graph: a training graph, loaded from text or traced from a C++ function.
//
//   riffle::Graph g = riffle::trace("mlp", [](riffle::Tracer& t) {
//     auto x = t.input("x", {riffle::DType::f32, {64, 784}});
//     auto w = t.param("w", {riffle::DType::f32, {10, 784}});
//     auto y = t.input("y", {riffle::DType::i64, {64}});
//     return riffle::cross_entropy(riffle::linear(x, w), y);
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "riffle/error.h"
#include "riffle/types.h"

namespace riffle {

namespace ir {
struct Graph;
class Builder;
}  // namespace ir

/// An immutable graph; copying shares it. Thread-safe.
class RIFFLE_API Graph {
 public:
  struct Named {
    std::string name;
    TensorType type;
  };
  /// Parses the text form (docs/text-format.md). Throws GraphError with line and column.
  static Graph parse(std::string_view text, std::string_view file_name = "<text>");
  /// Throws IoError or GraphError.
  static Graph load(const std::string& path);
  std::string text() const;   ///< parse(text()) is an equal graph
  std::string table() const;  ///< opcode, name, target, args, kwargs
  std::vector<Named> inputs() const;
  std::vector<Named> parameters() const;
  std::vector<Named> outputs() const;

  explicit Graph(std::shared_ptr<const ir::Graph> graph);
  const ir::Graph& ir() const noexcept { return *graph_; }

 private:
  std::shared_ptr<const ir::Graph> graph_;
};

/// A symbolic tensor during a trace. Cheap to copy; valid while its trace runs.
class RIFFLE_API Tensor {
 public:
  Tensor() = default;
  const TensorType& type() const;
  explicit operator bool() const noexcept { return builder_ != nullptr; }

 private:
  friend class Tracer;
  friend struct TensorAccess;
  Tensor(ir::Builder* builder, std::int32_t id) : builder_(builder), id_(id) {}
  ir::Builder* builder_ = nullptr;
  std::int32_t id_ = -1;
};

using Where = std::source_location;

/// Where inputs and parameters of a trace come from.
class RIFFLE_API Tracer {
 public:
  Tensor input(std::string_view name, TensorType type, bool requires_grad = false,
               Where where = Where::current());
  Tensor param(std::string_view name, TensorType type, bool frozen = false,
               Where where = Where::current());
  Tensor full(const Shape& size, double value, DType dtype = DType::f32,
              Where where = Where::current());
  /// An explicit graph break: `split markers` cuts here.
  void graph_break();
  /// Names the value in the text form; the name is made unique.
  Tensor named(Tensor value, std::string_view name);

  explicit Tracer(ir::Builder& builder) : builder_(&builder) {}

 private:
  ir::Builder* builder_;
};

/// Runs `model` once and returns the graph of what it computed. The first result is the loss when
/// it is a floating scalar. Throws GraphError at the caller's line for shapes that do not fit.
RIFFLE_API Graph trace(std::string_view name, const std::function<Tensor(Tracer&)>& model);
RIFFLE_API Graph trace(std::string_view name,
                       const std::function<std::vector<Tensor>(Tracer&)>& model);

}  // namespace riffle
