// docs/text-format.md against the code: its op table is generated here, its examples are parsed.
// With RIFFLE_UPDATE_GOLDEN set the table on the page is written instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "ir/passes.h"
#include "ir/text.h"

namespace riffle::ir {
namespace {

constexpr const char* kPath = RIFFLE_SOURCE_DIR "/docs/text-format.md";
constexpr std::string_view kBegin =
    "<!-- ops: generated from ir/ops.def by tests/ir/text_format_test.cpp -->\n";
constexpr std::string_view kEnd = "<!-- end of ops -->\n";

std::string read_page() {
  std::ifstream file(kPath);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string_view word_of(AttrKind kind) {
  switch (kind) {
    case AttrKind::flag:
      return "flag";
    case AttrKind::integer:
      return "integer";
    case AttrKind::number:
      return "number";
    case AttrKind::dtype:
      return "dtype";
    case AttrKind::text:
      return "string";
    case AttrKind::ints:
      break;
  }
  return "ints";
}

/// No default: a new family does not compile until it has a heading.
std::string_view heading_of(OpFamily family) {
  switch (family) {
    case OpFamily::source:
      return "Sources";
    case OpFamily::marker:
      return "Markers";
    case OpFamily::elementwise:
      return "Elementwise";
    case OpFamily::shape:
      return "Moving elements";
    case OpFamily::reduce:
      return "Reductions (`dim=[]` means all dimensions)";
    case OpFamily::matmul:
      return "Matrix products";
    case OpFamily::indexed:
      return "Indexed";
    case OpFamily::composite:
      break;
  }
  return "Composites";
}

std::string signature_of(const OpInfo& op) {
  std::string text;
  for (const ArgumentSpec& spec : op.arguments) {
    text += text.empty() ? "" : ", ";
    if (spec.role == ArgumentSpec::Role::operand_list)
      text += "[" + spec.name + ", …]";
    else
      text += spec.name;
    if (spec.role == ArgumentSpec::Role::optional_operand) text += " = None";
    if (spec.is_operand()) continue;
    text += ": " + std::string(word_of(spec.kind));
    if (spec.default_value) text += " = " + to_string(*spec.default_value);
  }
  return std::string(op.text) + (text.empty() ? "" : "(" + text + ")");
}

std::string notes_of(const OpInfo& op) {
  std::string notes;
  if (op.has(kCommutative)) notes = "commutative";
  if (op.has(kNotDifferentiable)) notes += notes.empty() ? "no gradient" : ", no gradient";
  return notes;
}

std::string op_table() {
  std::string table;
  std::string_view heading;
  for (const OpInfo& op : all_ops()) {
    if (heading_of(op.family) != heading) {
      heading = heading_of(op.family);
      table += "\n### " + std::string(heading) + "\n\n| op | notes |\n|---|---|\n";
    }
    table += "| `" + signature_of(op) + "` | " + notes_of(op) + " |\n";
  }
  return table + "\n";
}

TEST(TextFormat, ThePageListsTheOpsAsTheTableHasThem) {
  const std::string page = read_page();
  const std::size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t first = begin + kBegin.size();
  if (std::getenv("RIFFLE_UPDATE_GOLDEN")) {
    std::ofstream(kPath) << page.substr(0, first) << op_table() << page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(first, end - first), op_table())
      << "run this test with RIFFLE_UPDATE_GOLDEN=1 and look at the difference";
}

TEST(TextFormat, TheGraphOnThePageParses) {
  const std::string page = read_page();
  const std::size_t begin = page.find("    graph @example {");
  ASSERT_NE(begin, std::string::npos);
  const std::string text = page.substr(begin, page.find("\n    }\n", begin) + 7 - begin);
  const Graph graph = parse(text, kPath);
  verify(graph);
  EXPECT_EQ(graph.outputs.size(), 2u);
}

}  // namespace
}  // namespace riffle::ir
