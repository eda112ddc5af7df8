// The table of a graph, in the shape of torch.fx's print_tabular.
#include <algorithm>
#include <array>
#include <string>

#include "ir/literals.h"
#include "ir/text.h"

namespace riffle::ir {
namespace {

/// A Python tuple: "()", "(x,)", "(x, y)".
std::string tuple(const std::vector<std::string>& items) {
  std::string text = "(";
  for (std::size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + items[i];
  return text + (items.size() == 1 ? ",)" : ")");
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId id : values) names.push_back(graph[id].name);
  return names;
}

/// A Python dictionary of the attributes that differ from their defaults, in signature order.
std::string keywords(const Node& node) {
  std::string text = "{";
  for (const ArgumentSpec& spec : info(node.op).arguments) {
    const AttrValue* value = spec.is_operand() ? nullptr : node.attrs.find(spec.name);
    if (!value || is_default(spec, *value)) continue;
    text += (text.size() > 1 ? ", '" : "'") + spec.name + "': " + to_string(*value);
  }
  return text + "}";
}

using Cells = std::array<std::string, 5>;

}  // namespace

std::vector<TableRow> table_rows(const Graph& graph) {
  std::vector<TableRow> rows;
  for (const Node& node : graph.nodes) {
    const bool placeholder = node.op == Op::input || node.op == Op::param;
    if (info(node.op).family == OpFamily::marker) {
      rows.push_back({std::string(info(node.op).text), "", "", "()", "{}"});
      continue;
    }
    rows.push_back({placeholder ? "placeholder" : "call_function", node.name,
                    placeholder ? node.name : std::string(info(node.op).text),
                    tuple(names_of(graph, node.operands)), keywords(node)});
  }
  // One result is returned itself, several as a tuple; fx puts either into the args.
  std::vector<std::string> results = names_of(graph, graph.outputs);
  if (results.size() != 1) results = {tuple(results)};
  rows.push_back({"output", "output", "output", tuple(results), "{}"});
  return rows;
}

std::string format_table(const std::vector<TableRow>& rows) {
  std::vector<Cells> lines = {{"opcode", "name", "target", "args", "kwargs"}, {}};
  for (const TableRow& row : rows)
    lines.push_back({row.opcode, row.name, row.target, row.args, row.kwargs});
  std::array<std::size_t, 5> widths{};
  for (const Cells& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], width_of(cells[i]));
  for (std::size_t i = 0; i < widths.size(); ++i) lines[1][i] = std::string(widths[i], '-');

  std::string out;
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += cells[i];
      line.append(widths[i] - width_of(cells[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace riffle::ir
