// Ops that move elements: expand, reshape, permute, slice, pad, cat.
#include <algorithm>

#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

using Types = std::span<const TensorType>;

// expand: -1 keeps x's size.
void normalize_expand(Types operands, Attrs& attrs) {
  const TensorType& x = operands[0];
  Ints size = attrs.ints("size");
  if (size.size() < x.shape.size())
    rules::fail(fmt::format("size {} has fewer dimensions than {}: expected at least {}",
                            to_string(size), to_string(x), x.rank()));
  const std::size_t added = size.size() - x.shape.size();
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (size[d] == -1 && d >= added) size[d] = x.shape[d - added];
    if (size[d] < 0)
      rules::fail(fmt::format("size {} has a negative size for a new dimension", to_string(size)));
  }
  attrs.set("size", size);
}

TensorType infer_expand(const TypeQuery& q) {
  const TensorType& x = q.operands[0];
  const Ints& size = q.attrs.ints("size");
  if (!rules::broadcasts_to(x.shape, size))
    rules::fail(
        fmt::format("{} does not expand to {}: aligned at the last dimension, sizes must "
                    "be equal or 1",
                    to_string(x), to_string(size)));
  return {x.dtype, size};
}

// reshape: one -1 stands for what remains.
void normalize_reshape(Types operands, Attrs& attrs) {
  const TensorType& x = operands[0];
  Ints shape = attrs.ints("shape");
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open == shape.end()) return;
  if (std::count(shape.begin(), shape.end(), -1) > 1)
    rules::fail(fmt::format("shape {} leaves more than one size open", to_string(shape)));
  std::int64_t known = 1;
  for (std::int64_t size : shape) {
    if (size == -1) continue;
    if (size < 0 || __builtin_mul_overflow(known, size, &known))
      rules::fail(fmt::format("shape {} does not fit {}: expected {} elements", to_string(shape),
                              to_string(x), x.elements()));
  }
  if (known == 0)
    rules::fail(fmt::format("the open size of shape {} is ambiguous: the other sizes have no "
                            "elements",
                            to_string(shape)),
                "write the size out");
  if (x.elements() % known != 0)
    rules::fail(fmt::format("shape {} does not fit {}: {} elements are not a multiple of {}",
                            to_string(shape), to_string(x), x.elements(), known));
  *open = x.elements() / known;
  attrs.set("shape", shape);
}

TensorType infer_reshape(const TypeQuery& q) {
  const TensorType& x = q.operands[0];
  const TensorType result = {x.dtype, q.attrs.ints("shape")};
  check_size(result);
  if (result.elements() != x.elements())
    rules::fail(fmt::format("shape {} does not fit {}: expected {} elements, not {}",
                            to_string(result.shape), to_string(x), x.elements(),
                            result.elements()));
  return result;
}

void normalize_permute(Types operands, Attrs& attrs) {
  const TensorType& x = operands[0];
  Ints dims = attrs.ints("dims");
  rules::sorted_dims(dims, x);  // each at most once and in range
  if (dims.size() != x.shape.size())
    rules::fail(fmt::format("dims {} do not fit {}: expected each of its {} dimensions once",
                            to_string(dims), to_string(x), x.rank()));
  for (std::int64_t& d : dims) d = rules::dim(d, x);
  attrs.set("dims", dims);
}

TensorType infer_permute(const TypeQuery& q) {
  TensorType result = q.operands[0];
  const Ints& dims = q.attrs.ints("dims");
  for (std::size_t d = 0; d < dims.size(); ++d)
    result.shape[d] = q.operands[0].shape[static_cast<std::size_t>(dims[d])];
  return result;
}

// slice, as x[start:end:step] in Python: negative ends count from the back, all are clamped.
void normalize_slice(Types operands, Attrs& attrs) {
  const TensorType& x = operands[0];
  rules::normalize_dim(attrs, "dim", x);
  const std::int64_t size = x.shape[static_cast<std::size_t>(attrs.integer("dim"))];
  if (attrs.integer("step") < 1)
    rules::fail(fmt::format("step={} does not fit: expected 1 or more", attrs.integer("step")));
  const auto clamped = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t start = clamped(attrs.integer("start"));
  attrs.set("start", start);
  attrs.set("end", std::max(start, clamped(attrs.integer("end"))));
}

TensorType infer_slice(const TypeQuery& q) {
  TensorType result = q.operands[0];
  const std::int64_t length = q.attrs.integer("end") - q.attrs.integer("start");
  const std::int64_t step = q.attrs.integer("step");
  result.shape[static_cast<std::size_t>(q.attrs.integer("dim"))] =
      length / step + (length % step != 0);
  return result;
}

TensorType infer_pad(const TypeQuery& q) {
  TensorType result = q.operands[0];
  for (std::string_view side : {"low", "high"}) {
    const Ints& widths = q.attrs.ints(side);
    if (widths.size() != result.shape.size())
      rules::fail(fmt::format("{}={} does not fit {}: expected {} widths, one a dimension", side,
                              to_string(widths), to_string(q.operands[0]), q.operands[0].rank()));
    for (std::size_t d = 0; d < widths.size(); ++d) {
      if (widths[d] < 0)
        rules::fail(fmt::format("{}={} has a negative width", side, to_string(widths)),
                    "slice removes elements");
      if (__builtin_add_overflow(result.shape[d], widths[d], &result.shape[d]))
        rules::fail(fmt::format("{}={} is too wide", side, to_string(widths)));
    }
  }
  return result;
}

void normalize_cat(Types operands, Attrs& attrs) {
  rules::normalize_dim(attrs, "dim", operands[0]);
}

TensorType infer_cat(const TypeQuery& q) {
  TensorType result = q.operands[0];
  const auto dim = static_cast<std::size_t>(q.attrs.integer("dim"));
  for (std::size_t i = 1; i < q.operands.size(); ++i) {
    const TensorType& next = q.operands[i];
    Shape expected = result.shape;
    bool fits = next.dtype == result.dtype && next.shape.size() == expected.size();
    if (fits) {
      expected[dim] = next.shape[dim];
      fits = next.shape == expected;
    }
    if (!fits)
      rules::fail(
          fmt::format("tensor {} is {}, which does not fit {}: expected equal dtypes and "
                      "sizes but for dim {}",
                      i, to_string(next), to_string(q.operands[0]), dim));
    if (__builtin_add_overflow(result.shape[dim], next.shape[dim], &result.shape[dim]))
      rules::fail("the result is too large");
  }
  return result;
}

}  // namespace

const OpBlock op_expand = {.infer = infer_expand, .normalize = normalize_expand};
const OpBlock op_reshape = {.infer = infer_reshape, .normalize = normalize_reshape};
const OpBlock op_permute = {.infer = infer_permute, .normalize = normalize_permute};
const OpBlock op_slice = {.infer = infer_slice, .normalize = normalize_slice};
const OpBlock op_pad = {.infer = infer_pad};
const OpBlock op_cat = {.infer = infer_cat, .normalize = normalize_cat};

}  // namespace riffle::ir
