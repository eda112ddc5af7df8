// Sources: input, param, full, arange; and the marker `break`.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

TensorType infer_full(const TypeQuery& q) { return {q.attrs.dtype("dtype"), q.attrs.ints("size")}; }

TensorType infer_arange(const TypeQuery& q) {
  const std::int64_t end = q.attrs.integer("end");
  const DType dtype = q.attrs.dtype("dtype");
  if (end < 0) rules::fail(fmt::format("end={} does not fit: expected 0 or more", end));
  if (dtype == DType::boolean)
    rules::fail("dtype=bool does not fit: expected a floating or integer dtype");
  return {dtype, {end}};
}

}  // namespace

// Their types are given, not inferred (Builder::append_source).
const OpBlock op_input = {};
const OpBlock op_param = {};
const OpBlock op_break_ = {};

const OpBlock op_full = {.infer = infer_full};
const OpBlock op_arange = {.infer = infer_arange};

}  // namespace riffle::ir
