// The executable definition of a well-formed graph.
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "ir/literals.h"
#include "ir/passes.h"

namespace riffle::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    for (ValueId id = 0; id < graph_.size(); ++id) node(id);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId id = graph_.outputs[i];
      if (id < 0 || id >= graph_.size())
        fail(
            fmt::format("output {} is value {}, but the graph has {} nodes", i, id, graph_.size()));
      if (graph_[id].op == Op::break_)
        fail(fmt::format("output {} is node {}, a break, which has no value", i, id));
    }
  }

 private:
  [[noreturn]] void fail(std::string what, std::string hint = {}) const {
    throw GraphError({std::move(what), "@" + name_literal(graph_.name), std::move(hint)});
  }
  [[noreturn]] void fail(ValueId id, std::string_view what, std::string hint = {}) const {
    const Node& node = graph_[id];
    std::string where = fmt::format(
        "{} in @{}", node.name.empty() ? fmt::format("node {}", id) : "%" + name_literal(node.name),
        name_literal(graph_.name));
    if (const std::string written = to_string(node.location); !written.empty())
      where = written + ": " + where;
    throw GraphError({std::string(what), std::move(where), std::move(hint)});
  }

  void node(ValueId id) {
    const Node& node = graph_[id];
    if (static_cast<std::size_t>(node.op) >= all_ops().size())
      fail(id, fmt::format("op number {} is not in the op table", static_cast<int>(node.op)));
    name(id);
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < node.operands.size(); ++i) types.push_back(operand(id, i));
    if (node.op == Op::break_) {
      if (!node.operands.empty() || !node.attrs.entries().empty())
        fail(id, "a break has neither operands nor attributes");
      return;
    }
    types_fit(id, types);
  }

  void name(ValueId id) {
    const std::string& name = graph_[id].name;
    if (graph_[id].op == Op::break_) {
      if (!name.empty()) fail(id, "a break has no name");
      return;
    }
    if (name.empty()) fail(id, "a value needs a name");
    if (name.find('\0') != std::string::npos) fail(id, "a name may not hold a zero byte");
    if (!names_.insert(name).second) fail(id, "another value has the same name");
  }

  const TensorType& operand(ValueId id, std::size_t position) {
    const ValueId operand = graph_[id].operands[position];
    if (operand < 0 || operand >= graph_.size())
      fail(id, fmt::format("operand {} is value {}, but the graph has {} nodes", position, operand,
                           graph_.size()));
    if (operand >= id)
      fail(id, fmt::format("operand {} is node {}, which does not come before node {}", position,
                           operand, id));
    if (graph_[operand].op == Op::break_)
      fail(id,
           fmt::format("operand {} is node {}, a break, which has no value", position, operand));
    return graph_[operand].type;
  }

  void types_fit(ValueId id, const std::vector<TensorType>& types) {
    const Node& node = graph_[id];
    Attrs complete = node.attrs;
    TensorType inferred = node.type;
    try {
      complete_attrs(node.op, types, complete);
      if (node.op == Op::input || node.op == Op::param)
        check_size(node.type);
      else
        inferred = infer_type(node.op, {types, complete});
    } catch (const GraphError& error) {
      fail(id, error.message(), std::string(error.hint()));
    }
    if (complete != node.attrs) {
      for (const auto& [key, value] : complete.entries()) {
        const AttrValue* stored = node.attrs.find(key);
        if (!stored) fail(id, fmt::format("attribute '{}' is missing", key));
        if (!(Attrs{{key, value}} == Attrs{{key, *stored}}))
          fail(id, fmt::format("attribute '{}' is {}, expected its normal form {}", key,
                               to_string(*stored), to_string(value)));
      }
      fail(id, "the attributes are not those of the op");
    }
    if (inferred != node.type)
      fail(id, fmt::format("the type is {}, but {} gives {}", to_string(node.type),
                           info(node.op).text, to_string(inferred)));
  }

  const Graph& graph_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace riffle::ir
