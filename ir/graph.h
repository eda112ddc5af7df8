// Graph: a typed SSA tensor program, in program order.
//
// A node computes one value; the value is named by the node's index (ValueId), so operands always
// have smaller indices than their users. Inputs, parameters, constants and explicit graph breaks
// are nodes too. Program order is the order of effects and the order in which gradients
// accumulate, so passes keep it. Start reading at `Node`; ops live in ir/ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/attrs.h"
#include "ir/op.h"
#include "riffle/types.h"

namespace riffle::ir {

/// Index of the node that computes the value.
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

/// Where a node was written: a text file's place or a C++ caller's line. Empty file = unknown.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  bool operator==(const SourceLocation&) const = default;
};
/// "FILE:LINE:COL", without what is unknown.
std::string to_string(const SourceLocation& location);

struct Node {
  Op op = Op::input;
  std::string name;               ///< without '%', unique in the graph; empty for `break`
  std::vector<ValueId> operands;  ///< optional trailing operands may be missing
  Attrs attrs;                    ///< complete: defaults are filled in
  TensorType type;                ///< of the result; f32[] and meaningless for `break`
  SourceLocation location;        ///< not part of equality
  /// Position in the program that the user wrote; survives splitting and differentiation, so that
  /// random streams and the order of gradient contributions do not depend on the cuts.
  std::int64_t program_id = 0;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  /// The results; the first is the loss when the graph has one. A value may occur twice.
  std::vector<ValueId> outputs;

  const Node& operator[](ValueId id) const { return nodes[static_cast<std::size_t>(id)]; }
  Node& operator[](ValueId id) { return nodes[static_cast<std::size_t>(id)]; }
  ValueId size() const noexcept { return static_cast<ValueId>(nodes.size()); }
  /// The value of that name (without '%'), or kNoValue. Linear.
  ValueId find(std::string_view value_name) const noexcept;
  std::vector<ValueId> inputs() const;      ///< in program order
  std::vector<ValueId> parameters() const;  ///< in program order
};

/// What split policies count: all but input, param, constants (full, arange) and break.
bool is_compute(const Node& node) noexcept;
/// A parameter whose gradient is wanted (not `frozen`).
bool is_trainable(const Node& node) noexcept;

/// users[v] = nodes that read v, in program order (a node that reads it twice occurs twice).
std::vector<std::vector<ValueId>> users_of(const Graph& graph);

/// Names in use in one graph.
class NameScope {
 public:
  /// `wanted` when it is free, otherwise `wanted_1`, `wanted_2`, …; takes it.
  std::string unique(std::string_view wanted);
  void take(std::string_view name);
  bool taken(std::string_view name) const;

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_suffix_;
};

}  // namespace riffle::ir
