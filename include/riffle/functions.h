// The ops, as functions of symbolic tensors: names, argument order and defaults are PyTorch's.
// docs/text-format.md lists their types. Each throws GraphError at the caller's line, saying what
// was given and what would fit.
//
// Calls are nodes in the order in which they happen. Within one expression C++ leaves that to the
// compiler (`f(x) + g(x)`): statements of their own give the same graph everywhere.
#pragma once

#include <limits>

#include "riffle/graph.h"

namespace riffle {

/// An operand of an operator, with the line it stands on: `x + y`, `x * 2.0`.
struct Operand {
  Tensor tensor;
  double number = 0;
  bool is_number = false;
  Where where;
  Operand(Tensor t, Where w = Where::current()) : tensor(t), where(w) {}                   // NOLINT
  Operand(double n, Where w = Where::current()) : number(n), is_number(true), where(w) {}  // NOLINT
};

// Elementwise, with broadcasting; dtypes must be equal, numbers take the other operand's dtype.
RIFFLE_API Tensor operator+(Tensor x, Operand other);
RIFFLE_API Tensor operator-(Tensor x, Operand other);
RIFFLE_API Tensor operator*(Tensor x, Operand other);
RIFFLE_API Tensor operator/(Tensor x, Operand other);
RIFFLE_API Tensor operator+(double x, Operand other);
RIFFLE_API Tensor operator-(double x, Operand other);
RIFFLE_API Tensor operator*(double x, Operand other);
RIFFLE_API Tensor operator/(double x, Operand other);
RIFFLE_API Tensor operator-(Operand x);

#define RIFFLE_UNARY(name) RIFFLE_API Tensor name(Tensor x, Where where = Where::current());
#define RIFFLE_BINARY(name) \
  RIFFLE_API Tensor name(Tensor x, Tensor other, Where where = Where::current());
#include "riffle/elementwise.def"
#undef RIFFLE_UNARY
#undef RIFFLE_BINARY

RIFFLE_API Tensor where(Tensor condition, Tensor x, Tensor other, Where where = Where::current());
/// Numeric conversion. Float → integer truncates and saturates, NaN → 0.
RIFFLE_API Tensor to(Tensor x, DType dtype, Where where = Where::current());

RIFFLE_API Tensor expand(Tensor x, const Shape& size, Where where = Where::current());
/// One size may be −1.
RIFFLE_API Tensor reshape(Tensor x, const Shape& shape, Where where = Where::current());
RIFFLE_API Tensor permute(Tensor x, const Shape& dims, Where where = Where::current());
RIFFLE_API Tensor slice(Tensor x, std::int64_t dim, std::int64_t start = 0,
                        std::int64_t end = std::numeric_limits<std::int64_t>::max(),
                        std::int64_t step = 1, Where where = Where::current());
RIFFLE_API Tensor pad(Tensor x, const Shape& low, const Shape& high, double value = 0,
                      Where where = Where::current());
RIFFLE_API Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0,
                      Where where = Where::current());

/// Reductions: no `dim` means all dimensions.
RIFFLE_API Tensor sum(Tensor x, const Shape& dim = {}, bool keepdim = false,
                      Where where = Where::current());
RIFFLE_API Tensor mean(Tensor x, const Shape& dim = {}, bool keepdim = false,
                       Where where = Where::current());
RIFFLE_API Tensor amax(Tensor x, const Shape& dim = {}, bool keepdim = false,
                       Where where = Where::current());
RIFFLE_API Tensor amin(Tensor x, const Shape& dim = {}, bool keepdim = false,
                       Where where = Where::current());
RIFFLE_API Tensor prod(Tensor x, const Shape& dim = {}, bool keepdim = false,
                       Where where = Where::current());
/// i64 indices of the first of equal maxima.
RIFFLE_API Tensor argmax(Tensor x, std::int64_t dim, bool keepdim = false,
                         Where where = Where::current());

/// [..., m, k] × [..., k, n]; leading dimensions broadcast.
RIFFLE_API Tensor matmul(Tensor x, Tensor other, bool transpose_x = false,
                         bool transpose_other = false, Where where = Where::current());
RIFFLE_API Tensor gather(Tensor x, std::int64_t dim, Tensor index, Where where = Where::current());
RIFFLE_API Tensor scatter_add(Tensor x, std::int64_t dim, Tensor index, Tensor src,
                              Where where = Where::current());

/// x [..., in], weight [out, in], bias [out] → [..., out].
RIFFLE_API Tensor linear(Tensor x, Tensor weight, Tensor bias = {}, Where where = Where::current());
/// approximate: "none" or "tanh".
RIFFLE_API Tensor gelu(Tensor x, std::string_view approximate = "none",
                       Where where = Where::current());
RIFFLE_API Tensor softmax(Tensor x, std::int64_t dim = -1, Where where = Where::current());
RIFFLE_API Tensor log_softmax(Tensor x, std::int64_t dim = -1, Where where = Where::current());
/// x [N, C], target integer [N]; reduction: "mean", "sum" or "none".
RIFFLE_API Tensor cross_entropy(Tensor x, Tensor target, std::int64_t ignore_index = -100,
                                std::string_view reduction = "mean",
                                Where where = Where::current());
RIFFLE_API Tensor nll_loss(Tensor x, Tensor target, std::int64_t ignore_index = -100,
                           std::string_view reduction = "mean", Where where = Where::current());
RIFFLE_API Tensor mse_loss(Tensor x, Tensor target, std::string_view reduction = "mean",
                           Where where = Where::current());
RIFFLE_API Tensor layer_norm(Tensor x, const Shape& normalized_shape, Tensor weight = {},
                             Tensor bias = {}, double eps = 1e-5, Where where = Where::current());
RIFFLE_API Tensor embedding(Tensor input, Tensor weight, Where where = Where::current());
RIFFLE_API Tensor scaled_dot_product_attention(Tensor query, Tensor key, Tensor value,
                                               Tensor attn_mask = {}, bool is_causal = false,
                                               Where where = Where::current());

}  // namespace riffle
