// Start reading at `random_graph`: a pool of values grows by one node at a time, each drawn from a
// table of weighted moves; a move that does not fit what it drew declines and another is tried.
#include "tests/support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/builder.h"
#include "support/random.h"

namespace riffle::test {

using ir::Attrs;
using ir::Builder;
using ir::Ints;
using ir::Op;
using ir::Value;

std::uint64_t Random::next() { return mix_bits(state_ += 0x9e3779b97f4a7c15u); }

std::int64_t Random::below(std::int64_t bound) {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
}

double Random::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
}

namespace {

/// A value and what is known about its elements.
struct Known {
  Value value;
  double bound = 2;        ///< absolute value, roughly
  double least = 0;        ///< > 0: every element is at least this
  std::int64_t limit = 0;  ///< integers: all in 0 … limit-1; 0: unknown
};

constexpr double kLargest = 40;  ///< values above it are only squashed

class Grower {
 public:
  Grower(std::uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), options_(options), b_("random") {}

  ir::Graph grow() {
    start();
    // One node at least is left for the loss.
    const std::int64_t nodes = random_.below(std::max(1, options_.max_nodes - 1)) + 1;
    for (int attempt = 0; attempt < 1000 && compute_nodes() < nodes; ++attempt) {
      if (options_.breaks && random_.chance(0.05)) b_.append_break();
      move();
    }
    return finish();
  }

 private:
  // What there is.

  const TensorType& type(Value v) const { return b_.type(v); }

  Value input(TensorType t, bool requires_grad = false) {
    return b_.append_source(Op::input, std::move(t), "x", {{"requires_grad", requires_grad}});
  }

  Value add_pool(Value v, double bound, double least = 0, std::int64_t limit = 0) {
    pool_.push_back({v, bound, least, limit});
    return v;
  }

  void start() {
    dtype_ = DType::f32;
    if (options_.other_dtypes && random_.chance(0.25)) {
      dtype_ = random_.pick(std::vector{DType::f64, DType::bf16, DType::bf16, DType::f16});
    }
    rows_ = 1 + random_.below(5);
    columns_ = 1 + random_.below(6);
    if (options_.zero_sizes && random_.chance(0.05)) rows_ = 0;
    rows_ *= options_.scale;
    columns_ *= options_.scale;
    add_pool(input({dtype_, {rows_, columns_}}, random_.chance(0.25)), 2);
    if (random_.chance(0.3)) add_pool(input({dtype_, {rows_, columns_}}, random_.chance(0.3)), 2);
    if (random_.chance(0.15)) add_pool(input({dtype_, {}}, random_.chance(0.5)), 2);
    if (random_.chance(0.1)) param({columns_});  // perhaps never used
    if (random_.chance(0.2)) add_pool(param({rows_, columns_}), 1);
  }

  /// A parameter of this shape: a new one, or one that is there already.
  Value param(const Shape& shape) {
    std::vector<Value> same;
    for (Value p : params_) {
      if (type(p) == TensorType{dtype_, shape}) same.push_back(p);
    }
    if (!same.empty() && random_.chance(0.4)) return random_.pick(same);
    const Value p =
        b_.append_source(Op::param, {dtype_, shape}, "w", {{"frozen", random_.chance(0.1)}});
    params_.push_back(p);
    return p;
  }

  /// A floating value; recent ones more often, so that graphs get deep as well as wide.
  std::optional<Known> value(std::int64_t least_rank = 0, bool small = true) {
    std::vector<Known> fit;
    for (const Known& k : pool_) {
      const TensorType& t = type(k.value);
      if (is_floating(t.dtype) && t.rank() >= least_rank && (!small || k.bound <= kLargest)) {
        fit.push_back(k);
      }
    }
    if (fit.empty()) return std::nullopt;
    if (random_.chance(0.5)) return fit.back();
    return random_.pick(fit);
  }

  // One node more. False: what was drawn did not fit.

  bool move() {
    try {
      const std::int64_t draw = random_.below(100);
      if (draw < 20) return unary();
      if (draw < 38) return binary();
      if (draw < 48) return linear();
      if (draw < 52) return matmul();
      if (draw < 60) return reduce();
      if (draw < 68) return reshape();
      if (draw < 75) return normalize();
      if (draw < 79) return embed();
      if (draw < 83) return gather();
      if (draw < 93) return compare_or_select();
      if (draw < 95) return attention();
      if (draw < 98) return cast();
      return squash();
    } catch (const GraphError&) {
      return false;
    }
  }

  bool unary() {
    auto x = value();
    if (!x) return false;
    for (const Known& k : pool_) {
      if (k.least > 0.02 && k.bound <= kLargest && random_.chance(0.4)) x = k;
    }
    const double m = x->bound;
    struct Choice {
      Op op;
      double bound, least;
      bool allowed;
    };
    const bool positive = x->least > 0.02;
    const std::vector<Choice> choices = {
        {Op::neg, m, 0, true},
        {Op::abs, m, x->least, true},
        {Op::sign, 1, 0, true},
        {Op::exp, std::exp(m), std::exp(-m), m <= 3},
        {Op::exp, std::exp(m), std::exp(-m), m <= 3},
        {Op::sin, 1, 0, true},
        {Op::cos, 1, 0, true},
        {Op::tanh, 1, 0, true},
        {Op::erf, 1, 0, true},
        {Op::floor, m + 1, 0, true},
        {Op::relu, m, 0, true},
        {Op::relu, m, 0, true},
        {Op::gelu, m, 0, true},
        {Op::silu, m, 0, true},
        {Op::sigmoid, 1, m < 3 ? 0.04 : 0, true},
        {Op::sigmoid, 1, m < 3 ? 0.04 : 0, true},
        {Op::log, std::abs(std::log(std::max(x->least, 1e-3))) + std::log1p(m), 0, positive},
        {Op::sqrt, std::sqrt(m), std::sqrt(x->least), positive},
        {Op::rsqrt, positive ? 1 / std::sqrt(x->least) : 0, 1 / std::sqrt(m + 1), positive},
        {Op::reciprocal, positive ? 1 / x->least : 0, 1 / (m + 1), positive},
    };
    // log and its like fit rarely, so they are taken when they fit.
    const std::size_t last = choices.size() - 1;
    const Choice& choice = positive && random_.chance(0.5)
                               ? choices[last - static_cast<std::size_t>(random_.below(4))]
                               : random_.pick(choices);
    if (!choice.allowed) return false;
    Attrs attrs;
    if (choice.op == Op::gelu && random_.chance(0.5)) attrs.set("approximate", std::string("tanh"));
    add_pool(b_.append(choice.op, {x->value}, attrs), choice.bound, choice.least);
    return true;
  }

  /// Something that broadcasts with x: another value, a parameter, a constant, x itself.
  Known partner(const Known& x) {
    const TensorType t = type(x.value);
    if (random_.chance(0.1)) return x;
    if (t.dtype == dtype_ && random_.chance(0.35)) {
      Shape shape = t.shape;
      if (!shape.empty() && random_.chance(0.6)) shape.erase(shape.begin());
      if (!shape.empty() && random_.chance(0.2)) shape[0] = 1;
      if (random_.chance(0.15)) shape.clear();
      return {param(shape), 1};
    }
    if (random_.chance(0.2)) {
      const double c = 0.5 + 0.25 * static_cast<double>(random_.below(5));
      return {b_.scalar(c, t.dtype), c, c};
    }
    std::vector<Known> fit;
    for (const Known& k : pool_) {
      if (type(k.value).dtype == t.dtype && k.bound <= kLargest) fit.push_back(k);
    }
    return fit.empty() ? x : random_.pick(fit);
  }

  bool binary() {
    const auto x = value();
    if (!x) return false;
    const Known y = partner(*x);
    const double m = x->bound, n = y.bound;
    switch (random_.below(8)) {
      case 0:
      case 1:
        add_pool(b_.add(x->value, y.value), m + n,
                 x->least > 0 && y.least > 0 ? x->least + y.least : 0);
        return true;
      case 2:
        add_pool(b_.sub(x->value, y.value), m + n);
        return true;
      case 3:
      case 4:
        if (m * n > 4 * kLargest) return false;
        add_pool(b_.mul(x->value, y.value), m * n, x->least * y.least);
        return true;
      case 5:
        if (y.least < 0.1) {
          add_pool(b_.div(x->value, b_.scalar(1.5, type(x->value).dtype)), m, x->least / 1.5);
        } else {
          add_pool(b_.div(x->value, y.value), m / y.least, x->least / (n + 1));
        }
        return true;
      case 6:
        add_pool(b_.binary(Op::maximum, x->value, y.value), std::max(m, n),
                 std::max(x->least, y.least));
        return true;
      default:
        if (m < 6 && random_.chance(0.5)) {
          const double exponent = x->least > 0.02 && random_.chance(0.5) ? 1.5 : 2;
          add_pool(b_.binary(Op::pow, x->value, b_.scalar(exponent, type(x->value).dtype)),
                   std::pow(m, exponent), std::pow(x->least, exponent));
          return true;
        }
        add_pool(b_.binary(Op::minimum, x->value, y.value), std::max(m, n),
                 std::min(x->least, y.least));
        return true;
    }
  }

  bool linear() {
    const auto x = value(1);
    if (!x || type(x->value).dtype != dtype_) return false;
    const std::int64_t in = type(x->value).shape.back(), out = 1 + random_.below(6);
    const Value weight = param({random_.chance(0.4) ? in : out, in});
    std::vector<Value> operands = {x->value, weight};
    if (random_.chance(0.7)) operands.push_back(param({type(weight).shape[0]}));
    add_pool(b_.append(Op::linear, operands), x->bound * std::sqrt(static_cast<double>(in)) + 1);
    return true;
  }

  bool matmul() {
    const auto x = value(2);
    if (!x) return false;
    const TensorType t = type(x->value);
    const double k = std::sqrt(static_cast<double>(t.shape.back())) + 1;
    if (random_.chance(0.5) && t.dtype == dtype_) {
      const bool transposed = random_.chance(0.5);
      const std::int64_t out = 1 + random_.below(5);
      const Value w = param(transposed ? Shape{out, t.shape.back()} : Shape{t.shape.back(), out});
      add_pool(b_.matmul(x->value, w, false, transposed), x->bound * k);
      return true;
    }
    if (x->bound * x->bound * k > 4 * kLargest) return false;
    const bool gram = random_.chance(0.5);  // x·xᵀ or xᵀ·x
    add_pool(b_.matmul(x->value, x->value, !gram, gram), x->bound * x->bound * k);
    return true;
  }

  bool reduce() {
    const auto x = value(1);
    if (!x) return false;
    const TensorType t = type(x->value);
    const std::int64_t dim = random_.below(t.rank());
    const std::int64_t size = t.shape[static_cast<std::size_t>(dim)];
    const bool keepdim = random_.chance(0.4);
    Ints dims = {dim};
    if (random_.chance(0.25)) dims = {};
    const double count =
        dims.empty() ? static_cast<double>(t.elements()) : static_cast<double>(size);
    switch (random_.below(7)) {
      case 0:
      case 1:
        add_pool(b_.sum(x->value, dims, keepdim), x->bound * std::max(1.0, std::sqrt(count)));
        return true;
      case 2:
      case 3:
        add_pool(b_.append(Op::mean, {x->value}, {{"dim", dims}, {"keepdim", keepdim}}), x->bound,
                 x->least);
        return true;
      case 4:
        if (count < 1) return false;
        add_pool(b_.reduce(random_.chance(0.5) ? Op::amax : Op::amin, x->value, dims, keepdim),
                 x->bound, x->least);
        return true;
      case 5:
        if (std::pow(x->bound, count) > kLargest) return false;
        add_pool(b_.reduce(Op::prod, x->value, dims, keepdim), std::pow(x->bound, count));
        return true;
      default:
        if (size < 1) return false;
        add_pool(b_.append(Op::argmax, {x->value}, {{"dim", dim}, {"keepdim", keepdim}}),
                 static_cast<double>(size), 0, size);
        return true;
    }
  }

  bool reshape() {
    const auto x = value();
    if (!x) return false;
    const TensorType t = type(x->value);
    const auto last = static_cast<std::size_t>(std::max<std::int64_t>(t.rank() - 1, 0));
    auto keep = [&](Value v, double least) {
      add_pool(v, x->bound, least);
      return true;
    };
    switch (random_.below(7)) {
      case 0: {
        const std::int64_t n = t.elements();
        std::vector<Shape> shapes = {{n}, {n, 1}, {1, n}, {1, 1, n}};
        for (std::int64_t d = 2; d <= n; ++d) {
          if (n % d == 0) shapes.push_back({d, n / d});
        }
        if (n == 1) shapes.push_back({});
        const Shape& shape = random_.pick(shapes);
        return shape != t.shape &&
               keep(b_.append(Op::reshape, {x->value}, {{"shape", shape}}), x->least);
      }
      case 1: {
        if (t.rank() < 2) return false;
        Ints dims;
        for (std::int64_t d = 0; d < t.rank(); ++d) dims.push_back(d);
        std::swap(dims[static_cast<std::size_t>(random_.below(t.rank()))], dims[last]);
        return keep(b_.append(Op::permute, {x->value}, {{"dims", dims}}), x->least);
      }
      case 2: {
        if (t.rank() < 1 || t.shape[last] < 2) return false;
        const std::int64_t start = random_.below(t.shape[last] - 1);
        return keep(b_.append(Op::slice, {x->value},
                              {{"dim", t.rank() - 1},
                               {"start", start},
                               {"end", t.shape[last]},
                               {"step", 1 + random_.below(2)}}),
                    x->least);
      }
      case 3: {
        if (t.rank() < 1) return false;
        Known y = random_.chance(0.4) ? *x : partner(*x);
        add_pool(
            b_.append(Op::cat, {x->value, y.value, x->value}, {{"dim", random_.below(t.rank())}}),
            std::max(x->bound, y.bound), std::min(x->least, y.least));
        return true;
      }
      case 4: {
        if (t.rank() < 1) return false;
        Ints low(t.shape.size(), 0), high(t.shape.size(), 0);
        low[last] = random_.below(2);
        high[last] = 1 + random_.below(2);
        return keep(b_.append(Op::pad, {x->value}, {{"low", low}, {"high", high}}), 0);
      }
      case 5: {
        Shape shape = t.shape;
        for (std::int64_t& size : shape) {
          if (size == 1) size = 2;
        }
        if (shape == t.shape) shape.insert(shape.begin(), 2);
        if (element_count(shape) > 400) return false;
        return keep(b_.append(Op::expand, {x->value}, {{"size", shape}}), x->least);
      }
      default: {
        // The same value again under another name: what two users of one value look like.
        add_pool(b_.mul(x->value, b_.scalar(0.5, t.dtype)), x->bound / 2, x->least / 2);
        return true;
      }
    }
  }

  bool normalize() {
    const auto x = value(1, false);
    if (!x) return false;
    const TensorType t = type(x->value);
    const std::int64_t last = t.shape.back();
    if (last < 1) return false;
    switch (random_.below(3)) {
      case 0:
        add_pool(b_.append(Op::softmax, {x->value}, {{"dim", random_.below(t.rank())}}), 1);
        return true;
      case 1:
        add_pool(b_.append(Op::log_softmax, {x->value}, {{"dim", t.rank() - 1}}), 2 * x->bound + 2);
        return true;
      default: {
        // Of one or two equal elements the variance is about 0, and the derivative huge.
        if (last < 3 || t.dtype != dtype_) return false;
        std::vector<Value> operands = {x->value};
        if (random_.chance(0.7)) {
          operands.push_back(param({last}));
          if (random_.chance(0.7)) operands.push_back(param({last}));
        }
        add_pool(
            b_.append(Op::layer_norm, operands, {{"normalized_shape", Ints{last}}, {"eps", 0.1}}),
            3);
        return true;
      }
    }
  }

  /// An integer value, all of whose elements are below `limit`; a new input when there is none.
  Value index(const Shape& shape, std::int64_t limit) {
    for (const Known& k : pool_) {
      if (is_integer(type(k.value).dtype) && type(k.value).shape == shape && k.limit > 0 &&
          k.limit <= limit) {
        if (random_.chance(0.7)) return k.value;
      }
    }
    if (shape.size() == 1 && shape[0] >= 1 && shape[0] <= limit && random_.chance(0.3)) {
      const Value all = b_.append(Op::arange, {}, {{"end", shape[0]}});
      return add_pool(all, static_cast<double>(limit), 0, shape[0]);
    }
    const Value i = b_.append_source(
        Op::input, {random_.chance(0.8) ? DType::i64 : DType::i32, shape}, "index");
    add_pool(i, static_cast<double>(limit), 0, limit);
    return i;
  }

  bool embed() {
    const std::int64_t rows = 2 + random_.below(6);
    Shape shape = {rows_};
    if (random_.chance(0.3)) shape.push_back(2);
    const Value indices = index(shape, rows);
    add_pool(b_.append(Op::embedding, {indices, param({rows, columns_})}), 1);
    return true;
  }

  bool gather() {
    const auto x = value(1);
    if (!x) return false;
    const TensorType t = type(x->value);
    const std::int64_t dim = random_.below(t.rank());
    const std::int64_t size = t.shape[static_cast<std::size_t>(dim)];
    if (size < 1) return false;
    Shape shape = t.shape;
    shape[static_cast<std::size_t>(dim)] = 1 + random_.below(3);
    const Value indices = index(shape, size);
    if (random_.chance(0.6) || compute_nodes() + 3 > options_.max_nodes) {
      add_pool(b_.append(Op::gather, {x->value, indices}, {{"dim", dim}}), x->bound, x->least);
      return true;
    }
    const Value src = random_.chance(0.5) && t.dtype == dtype_
                          ? param(shape)
                          : b_.append(Op::gather, {x->value, indices}, {{"dim", dim}});
    add_pool(b_.append(Op::scatter_add, {x->value, indices, src}, {{"dim", dim}}), 4 * x->bound);
    return true;
  }

  bool compare_or_select() {
    const auto x = value();
    if (!x) return false;
    const Known y = partner(*x);
    std::vector<Value> conditions;
    for (const Known& k : pool_) {
      if (type(k.value).dtype == DType::boolean) conditions.push_back(k.value);
    }
    if (conditions.empty() || random_.chance(0.25)) {
      const Op op = random_.pick(std::vector{Op::gt, Op::ge, Op::lt, Op::le, Op::eq, Op::ne});
      add_pool(b_.binary(op, x->value, y.value), 1);
      return true;
    }
    if (random_.chance(0.5)) {
      const Value c = random_.pick(conditions), d = random_.pick(conditions);
      const Op op = random_.pick(std::vector{Op::logical_not, Op::logical_and, Op::logical_or});
      add_pool(op == Op::logical_not ? b_.unary(op, c) : b_.binary(op, c, d), 1);
      return true;
    }
    add_pool(b_.where(random_.pick(conditions), x->value, y.value), std::max(x->bound, y.bound),
             std::min(x->least, y.least));
    return true;
  }

  bool attention() {
    const auto x = value(2);
    if (!x || x->bound > 10) return false;
    const TensorType t = type(x->value);
    if (t.elements() == 0) return false;
    std::vector<Value> same;
    for (const Known& k : pool_) {
      if (type(k.value) == t) same.push_back(k.value);
    }
    add_pool(b_.append(Op::scaled_dot_product_attention,
                       {x->value, random_.pick(same), random_.pick(same)},
                       {{"is_causal", random_.chance(0.5)}}),
             x->bound);
    return true;
  }

  bool cast() {
    if (!options_.other_dtypes) return false;
    const Known x = random_.pick(pool_);
    const DType from = type(x.value).dtype;
    DType to = random_.pick(std::vector{DType::f32, DType::f64, DType::bf16});
    if (random_.chance(0.6)) to = dtype_;
    if (from == to || x.bound > kLargest) return false;
    add_pool(b_.cast(x.value, to), x.bound, x.least * 0.98);
    return true;
  }

  /// Brings what has grown large back into range.
  bool squash() {
    std::vector<Known> large;
    for (const Known& k : pool_) {
      if (is_floating(type(k.value).dtype) && k.bound > kLargest / 4) large.push_back(k);
    }
    if (large.empty()) return false;
    const Known x = random_.pick(large);
    if (random_.chance(0.3)) {
      add_pool(b_.unary(Op::tanh, x.value), 1);
    } else {
      add_pool(b_.mul(x.value,
                      b_.scalar(std::exp2(-std::ceil(std::log2(x.bound))), type(x.value).dtype)),
               1);
    }
    return true;
  }

  // The end.

  /// Scalar, with one node; or nothing.
  std::optional<Value> loss_of(const Known& x) {
    const TensorType t = type(x.value);
    const std::string reduction = random_.chance(0.7) ? "mean" : "sum";
    try {
      switch (random_.below(6)) {
        case 0:
        case 1:
          return b_.append(Op::mse_loss, {x.value, input(t)}, {{"reduction", reduction}});
        case 2:
        case 3: {
          if (t.rank() != 2 || t.shape[1] < 1) return std::nullopt;
          return b_.append(random_.chance(0.8) ? Op::cross_entropy : Op::nll_loss,
                           {x.value, index({t.shape[0]}, t.shape[1])}, {{"reduction", reduction}});
        }
        case 4:
          return b_.append(Op::mean, {x.value}, {});
        default:
          return b_.sum(x.value, {});
      }
    } catch (const GraphError&) {
      return std::nullopt;
    }
  }

  /// Per value: does a gradient flow from it to a parameter, as far as floating operands tell.
  std::vector<bool> trained() const {
    const ir::Graph& graph = b_.graph();
    std::vector<bool> result(graph.nodes.size(), false);
    for (ir::ValueId v = 0; v < graph.size(); ++v) {
      bool t = ir::is_trainable(graph[v]);
      for (ir::ValueId operand : graph[v].operands)
        t = t || result[static_cast<std::size_t>(operand)];
      result[static_cast<std::size_t>(v)] = t && is_floating(graph[v].type.dtype);
    }
    return result;
  }

  Value make_loss() {
    const bool train = random_.chance(0.95);
    const std::vector<bool> is_trained = trained();
    for (int attempt = 0; attempt < 20; ++attempt) {
      const auto x = value();
      if (!x) break;
      const bool fits = is_trained[static_cast<std::size_t>(x->value.id)] || attempt > 10;
      if (train && !fits) continue;
      const auto loss = loss_of(*x);
      if (loss) return *loss;
    }
    return b_.append(Op::mean, {pool_.front().value}, {}, "loss");
  }

  int compute_nodes() const {
    int count = 0;
    for (const ir::Node& node : b_.graph().nodes) count += ir::is_compute(node) ? 1 : 0;
    return count;
  }

  ir::Graph finish() {
    const std::vector<bool> is_trained = trained();
    const bool any = std::find(is_trained.begin(), is_trained.end(), true) != is_trained.end();
    for (int attempt = 0; !any && attempt < 5 && compute_nodes() + 1 < options_.max_nodes;
         ++attempt) {
      if (linear()) break;
    }
    Value loss = make_loss();
    if (compute_nodes() < options_.max_nodes && random_.chance(0.25)) {
      // Scalar arithmetic after it: weighted, or with a term of another scalar.
      std::vector<Value> scalars = {b_.scalar(0.5, type(loss).dtype)};
      for (const Known& k : pool_) {
        if (type(k.value) == type(loss) && k.bound <= kLargest) scalars.push_back(k.value);
      }
      loss = random_.chance(0.5) ? b_.mul(loss, scalars[0]) : b_.add(loss, random_.pick(scalars));
    }
    std::vector<Value> outputs = {loss};
    if (random_.chance(0.5)) {
      const std::int64_t more = 1 + random_.below(3);
      for (std::int64_t i = 0; i < more; ++i) outputs.push_back(random_.pick(pool_).value);
      if (random_.chance(0.2)) outputs.push_back(outputs.back());
      if (random_.chance(0.1)) outputs.push_back(loss);
      if (!params_.empty() && random_.chance(0.1)) outputs.push_back(random_.pick(params_));
    }
    return b_.finish(outputs);
  }

  Random random_;
  RandomGraphOptions options_;
  Builder b_;
  DType dtype_ = DType::f32;
  std::int64_t rows_ = 1, columns_ = 1;
  std::vector<Known> pool_;
  std::vector<Value> params_;
};

}  // namespace

ir::Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options) {
  return Grower(seed, options).grow();
}

}  // namespace riffle::test
