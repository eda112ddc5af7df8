// Graph → text, one value a line, with the types of computed values as comments.
#include <algorithm>
#include <string>
#include <vector>

#include "ir/literals.h"
#include "ir/text.h"

namespace riffle::ir {
namespace {

std::string reference(const Graph& graph, ValueId id) { return "%" + name_literal(graph[id].name); }

/// "(%x, [64, 10], dim=1)", or nothing when there is no argument to write. Operands and required
/// attributes go by position, attributes that differ from their default by keyword.
std::string arguments_of(const Graph& graph, const Node& node) {
  std::string text;
  std::size_t next_operand = 0;
  bool by_keyword = false;  // once one argument is, the rest must be
  const auto write = [&](const ArgumentSpec& spec, const std::string& value) {
    text += text.empty() ? "" : ", ";
    text += by_keyword ? spec.name + "=" + value : value;
  };
  for (const ArgumentSpec& spec : info(node.op).arguments) {
    if (spec.role == ArgumentSpec::Role::operand_list) {
      std::string list = "[";
      for (; next_operand < node.operands.size(); ++next_operand)
        list += (list.size() > 1 ? ", " : "") + reference(graph, node.operands[next_operand]);
      write(spec, list + "]");
    } else if (spec.is_operand()) {
      if (next_operand < node.operands.size())
        write(spec, reference(graph, node.operands[next_operand++]));
      else
        by_keyword = true;
    } else {
      by_keyword |= spec.default_value.has_value();
      const AttrValue* value = node.attrs.find(spec.name);
      if (value && !is_default(spec, *value)) write(spec, to_string(*value));
    }
  }
  return text.empty() ? text : "(" + text + ")";
}

struct Line {
  std::string name, definition, type;
};

}  // namespace

bool is_default(const ArgumentSpec& spec, const AttrValue& value) {
  return spec.default_value && Attrs{{"", *spec.default_value}} == Attrs{{"", value}};
}

std::string print(const Graph& graph) {
  std::vector<Line> lines;
  std::size_t name_width = 0, definition_width = 0;
  for (const Node& node : graph.nodes) {
    Line line;
    if (node.op != Op::break_) line.name = "%" + name_literal(node.name);
    line.definition = std::string(info(node.op).text) + arguments_of(graph, node);
    if (node.op == Op::input || node.op == Op::param)
      line.definition += " : " + to_string(node.type);
    else if (node.op != Op::break_)
      line.type = to_string(node.type);
    name_width = std::max(name_width, width_of(line.name));
    definition_width =
        std::max(definition_width, line.type.empty() ? 0 : width_of(line.definition));
    lines.push_back(std::move(line));
  }
  constexpr std::size_t kWidest = 60;  // a longer line pushes its own comment only
  definition_width = std::min(definition_width, kWidest);

  const auto pad = [](const std::string& text, std::size_t width) {
    const std::size_t have = width_of(text);
    return have < width ? std::string(width - have, ' ') : std::string();
  };
  std::string out = "graph @" + name_literal(graph.name) + " {\n";
  for (const Line& line : lines) {
    out += "  ";
    if (!line.name.empty()) out += line.name + pad(line.name, name_width) + " = ";
    out += line.definition;
    if (!line.type.empty()) out += pad(line.definition, definition_width) + "  # " + line.type;
    out += '\n';
  }
  out += "  return";
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    out += (i ? ", " : " ") + reference(graph, graph.outputs[i]);
  return out + "\n}\n";
}

}  // namespace riffle::ir
