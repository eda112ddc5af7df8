#include "ir/graph.h"

#include <fmt/format.h>

namespace riffle::ir {

std::string to_string(const SourceLocation& location) {
  if (location.file.empty()) return {};
  if (location.line <= 0) return location.file;
  if (location.column <= 0) return fmt::format("{}:{}", location.file, location.line);
  return fmt::format("{}:{}:{}", location.file, location.line, location.column);
}

ValueId Graph::find(std::string_view value_name) const noexcept {
  if (value_name.empty()) return kNoValue;
  for (ValueId id = 0; id < size(); ++id)
    if ((*this)[id].name == value_name) return id;
  return kNoValue;
}

namespace {
std::vector<ValueId> nodes_with(const Graph& graph, Op op) {
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < graph.size(); ++id)
    if (graph[id].op == op) ids.push_back(id);
  return ids;
}
}  // namespace

std::vector<ValueId> Graph::inputs() const { return nodes_with(*this, Op::input); }
std::vector<ValueId> Graph::parameters() const { return nodes_with(*this, Op::param); }

bool is_compute(const Node& node) noexcept {
  switch (node.op) {
    case Op::input:
    case Op::param:
    case Op::full:
    case Op::arange:
    case Op::break_:
      return false;
    default:
      return true;
  }
}

bool is_trainable(const Node& node) noexcept {
  if (node.op != Op::param || !is_floating(node.type.dtype)) return false;
  const AttrValue* frozen = node.attrs.find("frozen");
  return !(frozen && std::get<bool>(*frozen));
}

std::vector<std::vector<ValueId>> users_of(const Graph& graph) {
  std::vector<std::vector<ValueId>> users(graph.nodes.size());
  for (ValueId id = 0; id < graph.size(); ++id)
    for (ValueId operand : graph[id].operands)
      users[static_cast<std::size_t>(operand)].push_back(id);
  return users;
}

std::string NameScope::unique(std::string_view wanted) {
  std::string name(wanted);
  if (taken_.insert(name).second) return name;
  int& suffix = next_suffix_.try_emplace(name, 1).first->second;
  for (;; ++suffix) {
    std::string candidate = name + "_" + std::to_string(suffix);
    if (taken_.insert(candidate).second) {
      ++suffix;
      return candidate;
    }
  }
}

void NameScope::take(std::string_view name) { taken_.emplace(name); }
bool NameScope::taken(std::string_view name) const { return taken_.count(std::string(name)) != 0; }

}  // namespace riffle::ir
