// Start reading at `differentiate_joint`.
#include "ir/reverse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "ir/builder.h"

namespace riffle::ir {
namespace {

/// Nodes that have been appended to the joint graph and wait for their reverse visit: a
/// partition's, or the pieces of one composite.
struct Tape {
  const Graph* graph = nullptr;
  std::vector<Value> values;      ///< per node: in the joint graph
  std::vector<bool> wanted;       ///< per node
  std::vector<Value> cotangents;  ///< per node; empty until something contributes
  struct Pieces;
  std::map<ValueId, std::unique_ptr<Pieces>> pieces;  ///< of the composites taken apart

  void reset(const Graph& g) {
    graph = &g;
    values.assign(g.nodes.size(), Value{});
    cotangents.assign(g.nodes.size(), Value{});
  }
};

struct Tape::Pieces {
  Graph graph;  ///< its inputs are the composite's operands, one each; its output the result
  Tape tape;
};

class Reverse {
 public:
  explicit Reverse(std::string name) : b_(std::move(name)) {}

  Builder& builder() { return b_; }

  Value append(Tape& tape, ValueId v, std::string_view name) {
    const Node& node = (*tape.graph)[v];
    std::vector<Value> operands;
    bool flows = false;
    for (ValueId operand : node.operands) {
      operands.push_back(tape.values[static_cast<std::size_t>(operand)]);
      flows = flows || tape.wanted[static_cast<std::size_t>(operand)];
    }
    const OpBlock& block = info(node.op).block;
    const bool take_apart = flows && tape.wanted[static_cast<std::size_t>(v)] && !block.vjp &&
                            block.decompose != nullptr;
    if (!take_apart) return b_.append(node.op, operands, node.attrs, name);

    auto pieces = std::make_unique<Tape::Pieces>();
    Builder scratch{std::string(name)};
    std::vector<Value> inputs;
    for (Value operand : operands) {
      inputs.push_back(scratch.append_source(Op::input, b_.type(operand), "operand"));
    }
    const Value result = block.decompose(scratch, inputs, node.attrs);
    pieces->graph = scratch.finish({result});

    Tape& inner = pieces->tape;
    inner.reset(pieces->graph);
    std::vector<bool> roots(pieces->graph.nodes.size(), false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto input = static_cast<std::size_t>(inputs[i].id);
      inner.values[input] = operands[i];
      roots[input] = tape.wanted[static_cast<std::size_t>(node.operands[i])];
    }
    inner.wanted = differentiable_from(pieces->graph, roots);
    for (ValueId piece = 0; piece < pieces->graph.size(); ++piece) {
      const Node& part = pieces->graph[piece];
      if (part.op == Op::input) continue;
      const std::string piece_name =
          piece == result.id ? std::string(name) : fmt::format("{}.{}", name, part.name);
      inner.values[static_cast<std::size_t>(piece)] = append(inner, piece, piece_name);
    }
    const Value value = inner.values[static_cast<std::size_t>(result.id)];
    tape.pieces.emplace(v, std::move(pieces));
    return value;
  }

  /// Adds one contribution to the cotangent of `v`; the first is stored.
  void contribute(Tape& tape, ValueId v, Value contribution, const Node& from) {
    const auto i = static_cast<std::size_t>(v);
    if (!contribution || !tape.wanted[i]) return;
    const TensorType& type = (*tape.graph)[v].type;
    if (b_.type(contribution) != type) {
      throw GraphError({.what = fmt::format("the derivative of {} gives {} for an operand of {}",
                                            info(from.op).text, to_string(b_.type(contribution)),
                                            to_string(type)),
                        .where = fmt::format("%{}", from.name),
                        .hint = "this is an error in riffle; please report it with the graph"});
    }
    Value& cotangent = tape.cotangents[i];
    cotangent = cotangent ? b_.add(cotangent, contribution) : contribution;
  }

  /// Per operand of `v`: what `v` contributes. Empty where nothing flows.
  std::vector<Value> contributions(Tape& tape, ValueId v) {
    const Node& node = (*tape.graph)[v];
    const Value cotangent = tape.cotangents[static_cast<std::size_t>(v)];
    if (auto it = tape.pieces.find(v); it != tape.pieces.end()) {
      Tape::Pieces& pieces = *it->second;
      pieces.tape.cotangents[static_cast<std::size_t>(pieces.graph.outputs[0])] = cotangent;
      visit_all(pieces.tape);
      std::vector<Value> result;
      for (ValueId input : pieces.graph.inputs()) {
        result.push_back(pieces.tape.cotangents[static_cast<std::size_t>(input)]);
      }
      return result;
    }
    const OpInfo& row = info(node.op);
    if (row.has(kNotDifferentiable)) return std::vector<Value>(node.operands.size());
    if (!row.block.vjp) {
      throw GraphError({.what = fmt::format("{} has no derivative", row.text),
                        .where = fmt::format("%{}", node.name),
                        .hint = "freeze the parameters that it depends on"});
    }
    std::vector<Value> operands;
    std::vector<bool> wanted;
    for (ValueId operand : node.operands) {
      operands.push_back(tape.values[static_cast<std::size_t>(operand)]);
      wanted.push_back(tape.wanted[static_cast<std::size_t>(operand)]);
    }
    std::vector<Value> result = row.block.vjp(
        {b_, node.attrs, operands, tape.values[static_cast<std::size_t>(v)], cotangent, wanted});
    result.resize(operands.size());
    return result;
  }

  /// Visits the nodes of an inner tape.
  void visit_all(Tape& tape) {
    for (ValueId v = tape.graph->size(); v-- > 0;) {
      visit(tape, v, [](ValueId) {});
    }
  }

  /// Visits node `v`; `contributed` hears of each operand that got something. Operands are visited
  /// last to first, so that everything about gradients happens in reverse.
  template <typename Listener>
  void visit(Tape& tape, ValueId v, Listener contributed) {
    const Node& node = (*tape.graph)[v];
    if (!tape.cotangents[static_cast<std::size_t>(v)] || node.operands.empty()) return;
    const std::vector<Value> parts = contributions(tape, v);
    for (std::size_t i = node.operands.size(); i-- > 0;) {
      if (!parts[i] || !tape.wanted[static_cast<std::size_t>(node.operands[i])]) continue;
      contribute(tape, node.operands[i], parts[i], node);
      contributed(node.operands[i]);
    }
  }

 private:
  Builder b_;
};

}  // namespace

std::vector<bool> differentiable_from(const Graph& graph, const std::vector<bool>& is_root) {
  std::vector<bool> depends = is_root;
  for (ValueId v = 0; v < graph.size(); ++v) {
    const Node& node = graph[v];
    if (!is_floating(node.type.dtype) || info(node.op).has(kNotDifferentiable)) continue;
    for (ValueId operand : node.operands) {
      if (depends[static_cast<std::size_t>(operand)]) depends[static_cast<std::size_t>(v)] = true;
    }
  }
  return depends;
}

JointGraph differentiate_joint(const ReverseQuery& query) {
  const Partition& partition = query.graph.partitions[query.partition];
  const Graph& whole = query.graph.whole;
  const Graph& graph = partition.graph;
  JointGraph joint;

  // The value in the whole graph, for every node that is not a constant.
  std::vector<ValueId> whole_of(graph.nodes.size(), kNoValue);
  for (ValueId v = 0; v < graph.size(); ++v) {
    whole_of[static_cast<std::size_t>(v)] = query.by_name.at(graph[v].name);
  }

  Reverse reverse(partition.name);
  Builder& b = reverse.builder();
  Tape tape;
  tape.reset(graph);
  for (ValueId v = 0; v < graph.size(); ++v) {
    tape.wanted.push_back(
        query.wanted[static_cast<std::size_t>(whole_of[static_cast<std::size_t>(v)])]);
  }

  // Forward.
  for (ValueId v = 0; v < graph.size(); ++v) {
    const Node& node = graph[v];
    b.set_location(node.location);
    b.set_program_id(node.program_id);
    tape.values[static_cast<std::size_t>(v)] =
        node.op == Op::input || node.op == Op::param
            ? b.append_source(node.op, node.type, node.name, node.attrs)
            : reverse.append(tape, v, node.name);
  }
  std::vector<Value> outputs;
  for (ValueId v : graph.outputs) outputs.push_back(tape.values[static_cast<std::size_t>(v)]);

  // What later partitions have added up so far, of values that are computed or used here.
  auto start = [&](ValueId v) {
    const ValueId w = whole_of[static_cast<std::size_t>(v)];
    if (!query.started[static_cast<std::size_t>(w)]) return;
    tape.cotangents[static_cast<std::size_t>(v)] =
        b.append_source(Op::input, graph[v].type, "grad." + graph[v].name);
    joint.cotangent_inputs.push_back(w);
  };
  for (ValueId v = 0; v < graph.size(); ++v) {
    if (tape.wanted[static_cast<std::size_t>(v)]) start(v);
  }

  const ValueId loss = whole.outputs[0];
  Value seed;
  if (query.seed) {
    seed = b.append_source(Op::input, whole[loss].type, "grad." + whole[loss].name);
    joint.has_seed = true;
  }

  std::vector<ValueId> touched;  // values from outside, in the order of their last contributions
  auto contributed = [&](ValueId v) {
    if (is_compute(graph[v])) return;
    std::erase(touched, v);
    touched.push_back(v);
  };
  bool loss_is_here = false;
  for (ValueId v = graph.size(); v-- > 0;) {
    const Node& node = graph[v];
    b.set_location(node.location);
    b.set_program_id(node.program_id);
    if (seed && whole_of[static_cast<std::size_t>(v)] == loss) {
      loss_is_here = true;
      reverse.contribute(tape, v, seed, node);
      contributed(v);
    }
    reverse.visit(tape, v, contributed);
  }
  for (ValueId v : touched) {
    outputs.push_back(tape.cotangents[static_cast<std::size_t>(v)]);
    joint.cotangent_outputs.push_back(whole_of[static_cast<std::size_t>(v)]);
  }
  if (seed && !loss_is_here) {  // an input or parameter returned as the loss, not used here
    outputs.push_back(seed);
    joint.cotangent_outputs.push_back(loss);
  }
  joint.graph = b.finish(outputs);
  return joint;
}

}  // namespace riffle::ir
