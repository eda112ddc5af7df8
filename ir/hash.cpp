#include "ir/hash.h"

#include <xxhash.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "ir/node_bytes.h"

namespace riffle::ir {
namespace {

// Integers are written little-endian whatever the machine: hashes name entries of disk caches.
void append_integer(std::string& bytes, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
}

void append_text(std::string& bytes, std::string_view text) {
  append_integer(bytes, text.size());
  bytes += text;
}

void append_ints(std::string& bytes, const std::vector<std::int64_t>& values) {
  append_integer(bytes, values.size());
  for (const std::int64_t value : values) append_integer(bytes, static_cast<std::uint64_t>(value));
}

void append_value(std::string& bytes, const AttrValue& value) {
  bytes += static_cast<char>(value.index());
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>)
          append_text(bytes, v);
        else if constexpr (std::is_same_v<T, Ints>)
          append_ints(bytes, v);
        else if constexpr (std::is_same_v<T, double>)
          append_integer(bytes, std::bit_cast<std::uint64_t>(
                                    std::isnan(v) ? std::numeric_limits<double>::quiet_NaN() : v));
        else
          append_integer(bytes, static_cast<std::uint64_t>(v));
      },
      value);
}

void append_outputs(std::string& bytes, const Graph& graph) {
  append_integer(bytes, graph.outputs.size());
  for (const ValueId id : graph.outputs) append_integer(bytes, static_cast<std::uint64_t>(id));
}

}  // namespace

void append_bytes(std::string& bytes, const Node& node, std::span<const ValueId> operands) {
  append_text(bytes, info(node.op).text);
  append_integer(bytes, operands.size());
  for (const ValueId id : operands) append_integer(bytes, static_cast<std::uint64_t>(id));
  append_integer(bytes, node.attrs.entries().size());
  for (const auto& [name, value] : node.attrs.entries()) {
    append_text(bytes, name);
    append_value(bytes, value);
  }
  if (node.op == Op::break_) return;  // has no type
  append_text(bytes, name_of(node.type.dtype));
  append_ints(bytes, node.type.shape);
}

std::string to_string(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

Hash128 structural_hash(const Graph& graph) {
  std::string bytes;
  append_integer(bytes, graph.nodes.size());
  for (const Node& node : graph.nodes) append_bytes(bytes, node, node.operands);
  append_outputs(bytes, graph);
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

bool structurally_equal(const Graph& a, const Graph& b) {
  if (a.nodes.size() != b.nodes.size() || a.outputs != b.outputs) return false;
  std::string left, right;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    left.clear();
    right.clear();
    append_bytes(left, a.nodes[i], a.nodes[i].operands);
    append_bytes(right, b.nodes[i], b.nodes[i].operands);
    if (left != right) return false;
  }
  return true;
}

}  // namespace riffle::ir
