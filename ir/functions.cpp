// The public ops: each appends its node at the caller's line.
#include "riffle/functions.h"

#include "ir/tensor_access.h"

namespace riffle {
namespace {

using ir::Attrs;
using ir::Op;

/// Appends `op` on the operands given; trailing empty ones are optional operands left out.
Tensor append(Op op, std::vector<Tensor> operands, Attrs attrs, const Where& where) {
  while (!operands.empty() && !operands.back()) operands.pop_back();
  const std::string place = std::string(where.file_name()) + ":" + std::to_string(where.line());
  ir::Builder* builder = nullptr;
  std::vector<ir::Value> values;
  for (const Tensor& operand : operands) {
    ir::Builder* owner = TensorAccess::builder(operand);
    if (!owner || (builder && owner != builder))
      throw GraphError({.what = std::string(ir::info(op).text) + ": an operand " +
                                (owner ? "belongs to another trace" : "is empty"),
                        .where = place});
    builder = owner;
    values.push_back(TensorAccess::value(operand));
  }
  if (!builder)
    throw GraphError(
        {.what = std::string(ir::info(op).text) + " needs an operand", .where = place});
  TensorAccess::locate(*builder, where);
  return TensorAccess::make(*builder, builder->append(op, values, std::move(attrs)));
}

std::string text(std::string_view view) { return std::string(view); }

/// A number as a scalar of the dtype that its partner has.
Tensor tensor_of(const Operand& operand, const Tensor& partner) {
  if (!operand.is_number) return operand.tensor;
  ir::Builder* builder = TensorAccess::builder(partner);
  if (!builder) throw GraphError({.what = "an operand is empty"});
  TensorAccess::locate(*builder, operand.where);
  return TensorAccess::make(*builder, builder->scalar(operand.number, partner.type().dtype));
}

Tensor binary(Op op, Tensor x, const Operand& other) {
  return append(op, {x, tensor_of(other, x)}, {}, other.where);
}
Tensor binary(Op op, double x, const Operand& other) {
  const Tensor y = other.tensor;
  return append(op, {tensor_of(Operand(x, other.where), y), y}, {}, other.where);
}
Tensor reduce(Op op, Tensor x, const Shape& dim, bool keepdim, const Where& where) {
  return append(op, {x}, {{"dim", dim}, {"keepdim", keepdim}}, where);
}

}  // namespace

Tensor operator+(Tensor x, Operand other) { return binary(Op::add, x, other); }
Tensor operator-(Tensor x, Operand other) { return binary(Op::sub, x, other); }
Tensor operator*(Tensor x, Operand other) { return binary(Op::mul, x, other); }
Tensor operator/(Tensor x, Operand other) { return binary(Op::div, x, other); }
Tensor operator+(double x, Operand other) { return binary(Op::add, x, other); }
Tensor operator-(double x, Operand other) { return binary(Op::sub, x, other); }
Tensor operator*(double x, Operand other) { return binary(Op::mul, x, other); }
Tensor operator/(double x, Operand other) { return binary(Op::div, x, other); }
Tensor operator-(Operand x) { return append(Op::neg, {x.tensor}, {}, x.where); }

#define RIFFLE_UNARY(name) \
  Tensor name(Tensor x, Where where) { return append(Op::name, {x}, {}, where); }
#define RIFFLE_BINARY(name)                          \
  Tensor name(Tensor x, Tensor other, Where where) { \
    return append(Op::name, {x, other}, {}, where);  \
  }
#include "riffle/elementwise.def"
#undef RIFFLE_UNARY
#undef RIFFLE_BINARY

Tensor where(Tensor condition, Tensor x, Tensor other, Where where) {
  return append(Op::where_, {condition, x, other}, {}, where);
}
Tensor to(Tensor x, DType dtype, Where where) {
  return append(Op::to, {x}, {{"dtype", dtype}}, where);
}
Tensor expand(Tensor x, const Shape& size, Where where) {
  return append(Op::expand, {x}, {{"size", size}}, where);
}
Tensor reshape(Tensor x, const Shape& shape, Where where) {
  return append(Op::reshape, {x}, {{"shape", shape}}, where);
}
Tensor permute(Tensor x, const Shape& dims, Where where) {
  return append(Op::permute, {x}, {{"dims", dims}}, where);
}
Tensor slice(Tensor x, std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step,
             Where where) {
  return append(Op::slice, {x}, {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}},
                where);
}
Tensor pad(Tensor x, const Shape& low, const Shape& high, double value, Where where) {
  return append(Op::pad, {x}, {{"low", low}, {"high", high}, {"value", value}}, where);
}
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim, Where where) {
  return append(Op::cat, tensors, {{"dim", dim}}, where);
}
Tensor sum(Tensor x, const Shape& dim, bool keepdim, Where where) {
  return reduce(Op::sum, x, dim, keepdim, where);
}
Tensor mean(Tensor x, const Shape& dim, bool keepdim, Where where) {
  return reduce(Op::mean, x, dim, keepdim, where);
}
Tensor amax(Tensor x, const Shape& dim, bool keepdim, Where where) {
  return reduce(Op::amax, x, dim, keepdim, where);
}
Tensor amin(Tensor x, const Shape& dim, bool keepdim, Where where) {
  return reduce(Op::amin, x, dim, keepdim, where);
}
Tensor prod(Tensor x, const Shape& dim, bool keepdim, Where where) {
  return reduce(Op::prod, x, dim, keepdim, where);
}
Tensor argmax(Tensor x, std::int64_t dim, bool keepdim, Where where) {
  return append(Op::argmax, {x}, {{"dim", dim}, {"keepdim", keepdim}}, where);
}
Tensor matmul(Tensor x, Tensor other, bool transpose_x, bool transpose_other, Where where) {
  return append(Op::matmul, {x, other},
                {{"transpose_x", transpose_x}, {"transpose_other", transpose_other}}, where);
}
Tensor gather(Tensor x, std::int64_t dim, Tensor index, Where where) {
  return append(Op::gather, {x, index}, {{"dim", dim}}, where);
}
Tensor scatter_add(Tensor x, std::int64_t dim, Tensor index, Tensor src, Where where) {
  return append(Op::scatter_add, {x, index, src}, {{"dim", dim}}, where);
}
Tensor linear(Tensor x, Tensor weight, Tensor bias, Where where) {
  return append(Op::linear, {x, weight, bias}, {}, where);
}
Tensor gelu(Tensor x, std::string_view approximate, Where where) {
  return append(Op::gelu, {x}, {{"approximate", text(approximate)}}, where);
}
Tensor softmax(Tensor x, std::int64_t dim, Where where) {
  return append(Op::softmax, {x}, {{"dim", dim}}, where);
}
Tensor log_softmax(Tensor x, std::int64_t dim, Where where) {
  return append(Op::log_softmax, {x}, {{"dim", dim}}, where);
}
Tensor cross_entropy(Tensor x, Tensor target, std::int64_t ignore_index, std::string_view reduction,
                     Where where) {
  return append(Op::cross_entropy, {x, target},
                {{"ignore_index", ignore_index}, {"reduction", text(reduction)}}, where);
}
Tensor nll_loss(Tensor x, Tensor target, std::int64_t ignore_index, std::string_view reduction,
                Where where) {
  return append(Op::nll_loss, {x, target},
                {{"ignore_index", ignore_index}, {"reduction", text(reduction)}}, where);
}
Tensor mse_loss(Tensor x, Tensor target, std::string_view reduction, Where where) {
  return append(Op::mse_loss, {x, target}, {{"reduction", text(reduction)}}, where);
}
Tensor layer_norm(Tensor x, const Shape& normalized_shape, Tensor weight, Tensor bias, double eps,
                  Where where) {
  return append(Op::layer_norm, {x, weight, bias},
                {{"normalized_shape", normalized_shape}, {"eps", eps}}, where);
}
Tensor embedding(Tensor input, Tensor weight, Where where) {
  return append(Op::embedding, {input, weight}, {}, where);
}
Tensor scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor attn_mask,
                                    bool is_causal, Where where) {
  return append(Op::scaled_dot_product_attention, {query, key, value, attn_mask},
                {{"is_causal", is_causal}}, where);
}

}  // namespace riffle
