#include "tests/jit/training.h"

#include <fmt/format.h>

#include <utility>

#include "tests/support/reference_runner.h"

namespace riffle::test {

HostTensor to_tensor(const ir::Array& array) {
  HostTensor tensor{array.type, std::vector<std::byte>(array.type.bytes())};
  ir::array_to_bytes(array, tensor.bytes);
  return tensor;
}
ir::Array to_array(const HostTensor& tensor) {
  return ir::array_from_bytes(tensor.type, tensor.bytes);
}
Graph to_public(ir::Graph graph) {
  return Graph(std::make_shared<const ir::Graph>(std::move(graph)));
}

void bind_arrays(Executable& executable, const ir::Graph& graph,
                 std::span<const ir::Array> arrays) {
  std::size_t next = 0;
  for (ir::ValueId id : graph.inputs()) executable.set(graph[id].name, to_tensor(arrays[next++]));
  for (ir::ValueId id : graph.parameters())
    executable.set(graph[id].name, to_tensor(arrays[next++]));
}

void halve(DType dtype, std::span<std::byte> bytes) {
  const TensorType type{dtype, {static_cast<std::int64_t>(bytes.size()) / size_of(dtype)}};
  ir::Array array = ir::array_from_bytes(type, bytes);
  for (double& x : array.data) x *= 0.5;
  ir::array_to_bytes(array, bytes);
}

namespace {
std::string checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 14695981039346656037u;  // FNV-1a
  for (std::byte b : bytes) sum = (sum ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
  return fmt::format("{:x}", sum);
}
}  // namespace

void add_hooks(Executable& executable, HookLog& log) {
  executable.add_hook({.pattern = "*",
                       .description = "halve",
                       .writes_gradient = true,
                       .function = [&log](const GradientView& g) {
                         log.host.push_back("halve " + std::string(g.parameter));
                         halve(g.type.dtype, g.bytes);
                       }});
  executable.add_hook(
      {.pattern = "*", .description = "read", .function = [&log](const GradientView& g) {
         log.host.push_back(std::string(g.parameter) + " " + checksum(g.bytes));
       }});
  executable.add_hook({.pattern = "*",
                       .description = "read on the stream",
                       .is_stream_hook = true,
                       .function = [&log](const GradientView& g) {
                         g.stream->call([&log, name = std::string(g.parameter), bytes = g.bytes] {
                           log.stream.push_back(name + " " + checksum(bytes));
                         });
                       }});
}

std::vector<Snapshot> train(Executable& executable, int steps, HookLog& log) {
  std::vector<Snapshot> snapshots;
  for (int i = 0; i < steps; ++i) {
    log = {};
    executable.step();
    Snapshot snapshot;
    for (const std::string& name : executable.names())
      snapshot.tensors.emplace(name, executable.get(name));
    snapshot.hooks = log.host;
    snapshot.hooks.insert(snapshot.hooks.end(), log.stream.begin(), log.stream.end());
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

namespace {
std::string difference(const HostTensor& a, const HostTensor& b) {
  if (a.type != b.type) return to_string(a.type) + " and " + to_string(b.type);
  if (a.bytes == b.bytes) return "";
  const ir::Array x = to_array(a), y = to_array(b);
  if (identical(x, y)) return "";  // NaNs of different bits
  for (std::size_t i = 0; i < x.data.size(); ++i)
    if (!(x.data[i] == y.data[i]) && (x.data[i] == x.data[i] || y.data[i] == y.data[i]))
      return fmt::format("element {} is {:.17g} and {:.17g}", i, x.data[i], y.data[i]);
  return "zeros of different sign";
}
std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + "; ";
  return text;
}
}  // namespace

std::string difference(const std::vector<Snapshot>& a, const std::vector<Snapshot>& b) {
  if (a.size() != b.size()) return "numbers of steps";
  for (std::size_t step = 0; step < a.size(); ++step) {
    if (a[step].tensors.size() != b[step].tensors.size())
      return fmt::format("step {}: numbers of tensors", step);
    for (const auto& [name, tensor] : a[step].tensors) {
      auto other = b[step].tensors.find(name);
      if (other == b[step].tensors.end()) return fmt::format("step {}: no {}", step, name);
      if (std::string found = difference(tensor, other->second); !found.empty())
        return fmt::format("step {}, {}: {}", step, name, found);
    }
    if (a[step].hooks != b[step].hooks)
      return fmt::format("step {}: hooks\n  {}\n  {}", step, join(a[step].hooks),
                         join(b[step].hooks));
  }
  return "";
}

}  // namespace riffle::test
