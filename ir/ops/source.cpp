// Sources: input, param, full, arange; and the marker `break`.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "ir/array.h"
#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

// A constant of an integer dtype must be that integer: silently truncating 0.5 helps nobody.
TensorType infer_full(const TypeQuery& q) {
  const DType dtype = q.attrs.dtype("dtype");
  const double value = q.attrs.number("fill_value");
  if (is_integer(dtype)) {
    const double limit = dtype == DType::i32 ? 0x1p31 : 0x1p63;
    if (!(value >= -limit && value < limit) || value != std::trunc(value))
      rules::fail(fmt::format("fill_value={} does not fit dtype={}", value, name_of(dtype)));
  }
  return {dtype, q.attrs.ints("size")};
}

TensorType infer_arange(const TypeQuery& q) {
  const std::int64_t end = q.attrs.integer("end");
  const DType dtype = q.attrs.dtype("dtype");
  if (end < 0) rules::fail(fmt::format("end={} does not fit: expected 0 or more", end));
  if (dtype == DType::boolean)
    rules::fail("dtype=bool does not fit: expected a floating or integer dtype");
  return {dtype, {end}};
}

Array reference_full(std::span<const Array>, const Attrs& attrs, const TensorType& result) {
  Array out(result);
  double value = attrs.number("fill_value");
  if (result.dtype == DType::boolean) value = value != 0;
  std::fill(out.data.begin(), out.data.end(), value);
  return out;
}

Array reference_arange(std::span<const Array>, const Attrs&, const TensorType& result) {
  Array out(result);
  std::iota(out.data.begin(), out.data.end(), 0.0);
  return out;
}

std::vector<Sample> full_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kAllDTypes)
    for (const Ints& size : {Ints{}, Ints{67}, Ints{2, 0}, Ints{3, 5}})
      samples.push_back(
          {.operands = {}, .attrs = {{"size", size}, {"fill_value", 1.0}, {"dtype", dtype}}});
  return samples;
}

std::vector<Sample> arange_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kAllDTypes)
    for (std::int64_t end : {0, 1, 130})
      if (dtype != DType::boolean)
        samples.push_back({.operands = {}, .attrs = {{"end", end}, {"dtype", dtype}}});
  return samples;
}

}  // namespace

// Their types are given, not inferred (Builder::append_source).
const OpBlock op_input = {};
const OpBlock op_param = {};
const OpBlock op_break_ = {};

const OpBlock op_full = {
    .infer = infer_full, .reference_array = reference_full, .samples = full_samples};
const OpBlock op_arange = {
    .infer = infer_arange, .reference_array = reference_arange, .samples = arange_samples};

}  // namespace riffle::ir
