// Composites → primitives, through the op blocks' `decompose`. One sweep replaces one level; the
// sweeps go on until no composite is left.
#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/passes.h"

namespace riffle::ir {
namespace {

bool is_composite(const Node& node) { return info(node.op).family == OpFamily::composite; }

class Sweep {
 public:
  explicit Sweep(const Graph& from) : from_(from), builder_(from.name) {}

  Graph run() {
    for (const Node& node : from_.nodes) {
      if (is_composite(node))
        replace(node);
      else
        copy(node);
    }
    std::vector<Value> outputs;
    for (const ValueId id : from_.outputs) outputs.push_back(value_of(id));
    Graph graph = builder_.finish(std::move(outputs));
    name_nodes(graph);
    return graph;
  }

 private:
  /// Where a new node's name comes from. The Builder's own names are overwritten: it numbers them
  /// without knowing the names further down.
  struct Origin {
    const Node* node;
    bool inner;  ///< within the composite `node`, but not its result
  };

  Value value_of(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }

  void copy(const Node& node) {
    Node copied = node;
    for (ValueId& id : copied.operands) id = value_of(id).id;
    builder_.graph().nodes.push_back(std::move(copied));
    origins_.push_back({&node, false});
    values_.push_back({builder_.graph().size() - 1});
  }

  void replace(const Node& node) {
    const OpInfo& op = info(node.op);
    if (!op.block.decompose)
      throw GraphError({fmt::format("{} has no decomposition", op.text), to_string(node.location)});
    std::vector<Value> operands;
    for (const ValueId id : node.operands) operands.push_back(value_of(id));
    builder_.set_location(node.location);
    builder_.set_program_id(node.program_id);
    const Value result = op.block.decompose(builder_, operands, node.attrs);
    assert(builder_.type(result) == node.type);
    while (origins_.size() < builder_.graph().nodes.size()) {
      const bool inner = static_cast<std::size_t>(result.id) != origins_.size();
      origins_.push_back({&node, inner});
    }
    values_.push_back(result);
  }

  void name_nodes(Graph& graph) const {
    NameScope names;
    for (const Origin& origin : origins_)
      if (!origin.inner) names.take(origin.node->name);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Origin& origin = origins_[i];
      Node& node = graph.nodes[i];
      node.name = origin.inner
                      ? names.unique(fmt::format("{}_{}", origin.node->name, info(node.op).text))
                      : origin.node->name;
    }
  }

  const Graph& from_;
  Builder builder_;
  std::vector<Value> values_;    // by node of from_
  std::vector<Origin> origins_;  // by node of the new graph
};

}  // namespace

Graph decompose(const Graph& graph) {
  Graph result = graph;
  constexpr int kDeepest = 16;  // composites within composites; more is a cycle in the op blocks
  for (int depth = 0; std::any_of(result.nodes.begin(), result.nodes.end(), is_composite);
       ++depth) {
    if (depth == kDeepest)
      throw GraphError({"the decomposition of a composite leads back to it", "@" + graph.name});
    result = Sweep(result).run();
  }
  return result;
}

}  // namespace riffle::ir
