// The text form (.rfl): print and parse. docs/text-format.md is its reference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace riffle::ir {

/// Parsing what was printed gives a structurally equal graph with the same names.
std::string print(const Graph& graph);

/// Parses one graph. Throws GraphError with "FILE:LINE:COL" and what was expected.
Graph parse(std::string_view text, std::string_view file_name);

/// Whether the attribute has the signature's default: print and table leave it out.
bool is_default(const ArgumentSpec& spec, const AttrValue& value);

/// One row a node, as torch.fx's print_tabular shows it.
struct TableRow {
  std::string
      opcode;  ///< placeholder, get_attr, call_function, output (call_module, getitem: stitched)
  std::string name, target, args, kwargs;
};
std::vector<TableRow> table_rows(const Graph& graph);
/// Aligned columns: opcode, name, target, args, kwargs. Ends with a newline.
std::string format_table(const std::vector<TableRow>& rows);

}  // namespace riffle::ir
