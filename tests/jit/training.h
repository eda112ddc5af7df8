// Training steps through the public API, remembered to the bit: what suites compare runs by.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/array.h"
#include "ir/graph.h"
#include "riffle/session.h"

namespace riffle::test {

HostTensor to_tensor(const ir::Array& array);
ir::Array to_array(const HostTensor& tensor);
Graph to_public(ir::Graph graph);

/// `arrays`: for graph.inputs(), then graph.parameters().
void bind_arrays(Executable& executable, const ir::Graph& graph, std::span<const ir::Array> arrays);

/// All that get() knows after a step, and which hooks ran.
struct Snapshot {
  std::map<std::string, HostTensor> tensors;
  std::vector<std::string> hooks;
};

/// Adds to every parameter a host hook and a stream hook that read the gradient, and before both
/// one that halves it. Their calls go to `log`, which must outlive them. A host hook and a stream
/// hook on one gradient may run at once, so each stream has a log of its own.
struct HookLog {
  std::vector<std::string> host, stream;
};
void add_hooks(Executable& executable, HookLog& log);

/// `steps` training steps, each remembered.
std::vector<Snapshot> train(Executable& executable, int steps, HookLog& log);

/// "" when every tensor of both runs has the same bits (all NaNs are equal) and the same hooks ran,
/// otherwise what differs first.
std::string difference(const std::vector<Snapshot>& a, const std::vector<Snapshot>& b);

/// Halves the floating numbers of `bytes`.
void halve(DType dtype, std::span<std::byte> bytes);

}  // namespace riffle::test
