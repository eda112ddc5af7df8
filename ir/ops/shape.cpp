// Ops that move elements: expand, reshape, permute, slice, pad, cat.
#include <algorithm>

#include <fmt/format.h>

#include "ir/array.h"
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/reference.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"

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

// Reference: every one of them copies along strides.

// Element i of the result (row-major over its shape) is x[offset + strides · index].
Array strided_copy(const Array& x, const TensorType& result, std::int64_t offset,
                   const std::vector<std::int64_t>& strides) {
  Array out(result);
  std::size_t next = 0;
  rules::for_each(result.shape, {strides}, [&](std::span<const std::int64_t> at) {
    out.data[next++] = x.data[static_cast<std::size_t>(offset + at[0])];
  });
  return out;
}

// Writes x into `out` at an offset per dimension.
void place(const Array& x, Array& out, const Ints& at) {
  const std::vector<std::int64_t> strides = strides_of(out.type.shape);
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  std::size_t next = 0;
  rules::for_each(x.type.shape, {strides}, [&](std::span<const std::int64_t> to) {
    out.data[static_cast<std::size_t>(offset + to[0])] = x.data[next++];
  });
}

Array reference_expand(std::span<const Array> a, const Attrs&, const TensorType& result) {
  return strided_copy(a[0], result, 0, rules::broadcast_strides(a[0].type.shape, result.shape));
}

Array reference_reshape(std::span<const Array> a, const Attrs&, const TensorType& result) {
  Array out = a[0];
  out.type = result;
  return out;
}

Array reference_permute(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  const std::vector<std::int64_t> own = strides_of(a[0].type.shape);
  std::vector<std::int64_t> strides;
  for (std::int64_t d : attrs.ints("dims")) strides.push_back(own[static_cast<std::size_t>(d)]);
  return strided_copy(a[0], result, 0, strides);
}

Array reference_slice(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  std::vector<std::int64_t> strides = strides_of(a[0].type.shape);
  std::int64_t& along = strides[static_cast<std::size_t>(attrs.integer("dim"))];
  const std::int64_t offset = attrs.integer("start") * along;
  along *= attrs.integer("step");
  return strided_copy(a[0], result, offset, strides);
}

Array reference_pad(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  Array out(result);
  std::fill(out.data.begin(), out.data.end(), attrs.number("value"));
  place(a[0], out, attrs.ints("low"));
  return out;
}

Array reference_cat(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  Array out(result);
  const auto dim = static_cast<std::size_t>(attrs.integer("dim"));
  Ints at(result.shape.size(), 0);
  for (const Array& x : a) {
    place(x, out, at);
    at[dim] += x.type.shape[dim];
  }
  return out;
}

// Gradients: each moves the cotangent back.

Value slice_of(Builder& b, Value x, std::int64_t dim, std::int64_t start, std::int64_t end) {
  const std::int64_t size = b.type(x).shape[static_cast<std::size_t>(dim)];
  if (start == 0 && end == size) return x;
  return b.append(Op::slice, {x}, {{"dim", dim}, {"start", start}, {"end", end}});
}

// Zeros around x along one dimension.
Value pad_along(Builder& b, Value x, std::size_t dim, std::int64_t low, std::int64_t high) {
  if (low == 0 && high == 0) return x;
  Ints before(b.type(x).shape.size(), 0), after = before;
  before[dim] = low;
  after[dim] = high;
  return b.append(Op::pad, {x}, {{"low", before}, {"high", after}});
}

std::vector<Value> expand_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  return {rules::gradient_of(q.b, q.cotangent, q.operands[0])};
}

std::vector<Value> reshape_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  const Shape shape = q.b.type(q.operands[0]).shape;
  return {q.b.reshape(q.cotangent, shape)};
}

std::vector<Value> permute_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  const Ints& dims = q.attrs.ints("dims");
  Ints inverse(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d)
    inverse[static_cast<std::size_t>(dims[d])] = static_cast<std::int64_t>(d);
  return {q.b.permute(q.cotangent, inverse)};
}

// A step is undone by giving every element a dimension of its own, padded to the step and folded
// back: [n] → [n, 1] → [n, step] → [n·step].
std::vector<Value> slice_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  Builder& b = q.b;
  const auto dim = static_cast<std::size_t>(q.attrs.integer("dim"));
  const std::int64_t start = q.attrs.integer("start"), step = q.attrs.integer("step");
  const std::int64_t size = b.type(q.operands[0]).shape[dim];
  Value dx = q.cotangent;
  Shape shape = b.type(dx).shape;
  std::int64_t length = shape[dim];
  if (length == 0) return {b.zeros_like(q.operands[0])};
  if (step > 1) {
    Shape split = shape;
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(dim) + 1, 1);
    dx = pad_along(b, b.reshape(dx, split), dim + 1, 0, step - 1);
    shape[dim] = length * step;
    dx = b.reshape(dx, shape);
    length = std::min(length * step, size - start);
    dx = slice_of(b, dx, static_cast<std::int64_t>(dim), 0, length);
  }
  return {pad_along(b, dx, dim, start, size - start - length)};
}

std::vector<Value> pad_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  const Shape shape = q.b.type(q.operands[0]).shape;
  const Ints& low = q.attrs.ints("low");
  Value dx = q.cotangent;
  for (std::size_t d = 0; d < low.size(); ++d)
    dx = slice_of(q.b, dx, static_cast<std::int64_t>(d), low[d], low[d] + shape[d]);
  return {dx};
}

std::vector<Value> cat_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(q.operands.size());
  const std::int64_t dim = q.attrs.integer("dim");
  std::int64_t start = 0;
  for (std::size_t i = 0; i < q.operands.size(); ++i) {
    const std::int64_t size = q.b.type(q.operands[i]).shape[static_cast<std::size_t>(dim)];
    if (q.wanted[i]) gradients[i] = slice_of(q.b, q.cotangent, dim, start, start + size);
    start += size;
  }
  return gradients;
}

using rules::t;

std::vector<Sample> expand_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Ints& size) {
    samples.push_back({.operands = {t(x)}, .attrs = {{"size", size}}});
  };
  add({}, {});
  add({}, {67});
  add({1}, {130});
  add({3, 1}, {3, 67});
  add({1, 67}, {5, -1});
  add({67}, {2, 3, 67});
  add({1, 3}, {0, 3});
  add({2, 1, 5}, {4, 2, 3, 5});
  return samples + rules::with_dtype(samples, DType::i64) +
         rules::with_dtype(samples, DType::boolean);
}

std::vector<Sample> reshape_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Ints& shape) {
    samples.push_back({.operands = {t(x)}, .attrs = {{"shape", shape}}});
  };
  add({}, {1, 1});
  add({67}, {67, 1});
  add({6, 5}, {-1});
  add({2, 3, 130}, {6, -1});
  add({0, 4}, {2, 0});
  add({1}, {});
  return samples + rules::with_dtype(samples, DType::i32);
}

std::vector<Sample> permute_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Ints& dims) {
    samples.push_back({.operands = {t(x)}, .attrs = {{"dims", dims}}});
  };
  add({}, {});
  add({67, 130}, {1, 0});
  add({3, 67}, {0, 1});
  add({2, 3, 4, 5}, {-1, 0, 2, 1});
  add({2, 0, 3}, {2, 1, 0});
  return samples + rules::with_dtype(samples, DType::i64);
}

std::vector<Sample> slice_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Attrs& attrs) {
    samples.push_back({.operands = {t(x)}, .attrs = attrs});
  };
  using I = std::int64_t;
  add({67}, {{"dim", I{0}}});
  add({130}, {{"dim", I{0}}, {"start", I{3}}, {"end", I{70}}});
  add({5, 67}, {{"dim", I{-1}}, {"start", I{1}}, {"step", I{2}}});
  add({67, 5}, {{"dim", I{0}}, {"start", I{2}}, {"end", I{-3}}, {"step", I{7}}});
  add({10, 3}, {{"dim", I{0}}, {"start", I{1}}, {"end", I{9}}, {"step", I{4}}});
  add({4, 6}, {{"dim", I{1}}, {"start", I{4}}, {"end", I{2}}});
  add({0, 6}, {{"dim", I{1}}, {"start", I{1}}});
  return samples + rules::with_dtype(samples, DType::i64);
}

std::vector<Sample> pad_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Ints& low, const Ints& high, double value) {
    samples.push_back(
        {.operands = {t(x)}, .attrs = {{"low", low}, {"high", high}, {"value", value}}});
  };
  add({}, {}, {}, 0);
  add({67}, {0}, {3}, 0);
  add({67}, {2}, {0}, -1);
  add({3, 130}, {1, 4}, {0, 7}, 0.5);
  add({0, 3}, {2, 0}, {1, 1}, 2);
  add({2, 3}, {0, 0}, {0, 0}, 1);
  return samples;
}

std::vector<Sample> cat_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const std::vector<Shape>& shapes, std::int64_t dim) {
    Sample sample{.operands = {}, .attrs = {{"dim", dim}}};
    for (const Shape& shape : shapes) sample.operands.push_back(t(shape));
    samples.push_back(sample);
  };
  add({{67}}, 0);
  add({{67}, {3}, {130}}, 0);
  add({{2, 5}, {3, 5}}, 0);
  add({{5, 67}, {5, 0}, {5, 1}}, -1);
  add({{0, 3}, {0, 3}}, 0);
  add({{2, 3, 4}, {2, 5, 4}, {2, 1, 4}}, 1);
  return samples + rules::with_dtype(samples, DType::i64);
}

}  // namespace

const OpBlock op_expand = {.infer = infer_expand,
                           .normalize = normalize_expand,
                           .reference_array = reference_expand,
                           .vjp = expand_vjp,
                           .samples = expand_samples};
const OpBlock op_reshape = {.infer = infer_reshape,
                            .normalize = normalize_reshape,
                            .reference_array = reference_reshape,
                            .vjp = reshape_vjp,
                            .samples = reshape_samples};
const OpBlock op_permute = {.infer = infer_permute,
                            .normalize = normalize_permute,
                            .reference_array = reference_permute,
                            .vjp = permute_vjp,
                            .samples = permute_samples};
const OpBlock op_slice = {.infer = infer_slice,
                          .normalize = normalize_slice,
                          .reference_array = reference_slice,
                          .vjp = slice_vjp,
                          .samples = slice_samples};
const OpBlock op_pad = {
    .infer = infer_pad, .reference_array = reference_pad, .vjp = pad_vjp, .samples = pad_samples};
const OpBlock op_cat = {.infer = infer_cat,
                        .normalize = normalize_cat,
                        .reference_array = reference_cat,
                        .vjp = cat_vjp,
                        .samples = cat_samples};

}  // namespace riffle::ir
