#include "runtime/collectives/communicator.h"

#include <fmt/format.h>

namespace riffle::runtime {
namespace {
using Kind = CollectiveCall::Kind;

bool reduces(Kind kind) { return kind == Kind::all_reduce || kind == Kind::reduce_scatter; }

void enqueue_one(Communicator& communicator, Stream& stream, const CollectiveCall& call,
                 const Command* command) {
  communicator.enqueue(stream, {&call, 1}, command);
}
}  // namespace

std::string_view name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "?";
}

std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::all_reduce:
      return "all_reduce";
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::all_gather:
      return "all_gather";
    case Kind::broadcast:
      return "broadcast";
    case Kind::barrier:
      return "barrier";
  }
  return "?";
}

std::string describe(const CollectiveCall& call) {
  const std::string_view kind = name_of(call.kind);
  if (call.kind == Kind::barrier) return std::string(kind);
  const std::string data = fmt::format("{}[{}]", name_of(call.dtype), call.count);
  if (reduces(call.kind)) return fmt::format("{}({}, {})", kind, name_of(call.op), data);
  if (call.kind == Kind::broadcast)
    return fmt::format("{}({} from rank {})", kind, data, call.root);
  return fmt::format("{}({})", kind, data);
}

std::string describe(std::span<const CollectiveCall> group) {
  // A bucket plan may group hundreds; a message names the first.
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < group.size() && i < kShown; ++i)
    text += (i ? " + " : "") + describe(group[i]);
  if (group.size() > kShown) text += fmt::format(" + {} more", group.size() - kShown);
  return text;
}

void check_calls(std::span<const CollectiveCall> group, int size) {
  for (const CollectiveCall& call : group) {
    const auto refuse = [&](std::string what, std::string hint) {
      throw UsageError({.what = std::move(what), .where = describe(call), .hint = std::move(hint)});
    };
    if (call.kind == Kind::barrier) continue;
    if (call.count < 0) refuse("a collective of a negative number of elements", {});
    if (call.count > 0 && !call.data) refuse("a collective without data", {});
    if (call.dtype == DType::boolean)
      refuse("no collective takes booleans", "f32, f64, bf16, f16, i64 or i32");
    if (call.kind == Kind::broadcast && (call.root < 0 || call.root >= size))
      refuse(fmt::format("there is no rank {}", call.root), fmt::format("0 to {}", size - 1));
  }
}

void Communicator::all_reduce(Stream& stream, void* data, std::int64_t count, DType dtype,
                              ReduceOp op, const Command* command) {
  enqueue_one(*this, stream,
              {.kind = Kind::all_reduce, .data = data, .count = count, .dtype = dtype, .op = op},
              command);
}
void Communicator::reduce_scatter(Stream& stream, void* data, std::int64_t count, DType dtype,
                                  ReduceOp op, const Command* command) {
  enqueue_one(
      *this, stream,
      {.kind = Kind::reduce_scatter, .data = data, .count = count, .dtype = dtype, .op = op},
      command);
}
void Communicator::all_gather(Stream& stream, void* data, std::int64_t count, DType dtype,
                              const Command* command) {
  enqueue_one(*this, stream,
              {.kind = Kind::all_gather, .data = data, .count = count, .dtype = dtype}, command);
}
void Communicator::broadcast(Stream& stream, void* data, std::int64_t count, DType dtype, int root,
                             const Command* command) {
  enqueue_one(*this, stream,
              {.kind = Kind::broadcast, .data = data, .count = count, .dtype = dtype, .root = root},
              command);
}
void Communicator::barrier(Stream& stream, const Command* command) {
  enqueue_one(*this, stream, {.kind = Kind::barrier}, command);
}

}  // namespace riffle::runtime
