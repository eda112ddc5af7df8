// scaled_dot_product_attention.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

// query [..., L, E], key [..., S, E], value [..., S, Ev] → [..., L, Ev]
TensorType infer_attention(const TypeQuery& q) {
  const TensorType &query = q.operands[0], &key = q.operands[1], &value = q.operands[2];
  rules::require_floating(query, "query");
  rules::require_same_dtype(query, "query", key, "key");
  rules::require_same_dtype(query, "query", value, "value");
  if (query.rank() < 2)
    rules::fail(fmt::format("query {} does not fit: expected [..., L, E]", to_string(query)));
  if (key.rank() < 2 || key.shape.back() != query.shape.back())
    rules::fail(fmt::format("key {} does not fit query {}: expected [..., S, {}]", to_string(key),
                            to_string(query), query.shape.back()));
  const auto last_but_one = [](const TensorType& t) { return t.shape[t.shape.size() - 2]; };
  if (value.rank() < 2 || last_but_one(value) != last_but_one(key))
    rules::fail(fmt::format("value {} does not fit key {}: expected [..., {}, Ev]",
                            to_string(value), to_string(key), last_but_one(key)));
  const auto leading = [](const TensorType& t) {
    return Shape(t.shape.begin(), t.shape.end() - 2);
  };
  auto batch = rules::broadcast(leading(query), leading(key));
  if (batch) batch = rules::broadcast(*batch, leading(value));
  if (!batch)
    rules::fail(
        fmt::format("the leading dimensions of query {}, key {} and value {} do not "
                    "broadcast",
                    to_string(query), to_string(key), to_string(value)));
  if (q.operands.size() > 3) {
    const TensorType& mask = q.operands[3];
    if (q.attrs.flag("is_causal"))
      rules::fail("attn_mask and is_causal=True exclude each other",
                  "leave one out; a mask may be causal itself");
    if (mask.dtype != DType::boolean && mask.dtype != query.dtype)
      rules::fail(fmt::format("attn_mask {} does not fit: expected bool or {}", to_string(mask),
                              name_of(query.dtype)));
    Shape scores = *batch;
    scores.push_back(last_but_one(query));
    scores.push_back(last_but_one(key));
    if (!rules::broadcasts_to(mask.shape, scores))
      rules::fail(fmt::format("attn_mask {} does not broadcast to the scores {}", to_string(mask),
                              to_string(scores)));
  }
  Shape shape = *batch;
  shape.push_back(last_but_one(query));
  shape.push_back(value.shape.back());
  return {query.dtype, shape};
}

}  // namespace

const OpBlock op_scaled_dot_product_attention = {.infer = infer_attention};

}  // namespace riffle::ir
