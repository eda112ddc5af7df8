// What an op is: one row in ops.def, one block (an OpBlock) beside its family in ir/ops/*.cpp.
//
// Printer, parser, verifier, reference evaluator, code generation, gradient checks and the fuzzer
// read this table; none of them names an op that it could reach through it. An elementwise op says
// once, against a ScalarBuilder, how an element is computed; a composite says once, against a
// Builder, which primitives it stands for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "riffle/types.h"

namespace riffle::ir {

struct Node;
class Builder;
class ScalarBuilder;
struct Scalar;
struct Array;

/// A handle to a value under construction in a Builder.
struct Value {
  std::int32_t id = -1;
  explicit operator bool() const noexcept { return id >= 0; }
  bool operator==(const Value&) const = default;
};

enum class Op : std::uint16_t {
#define RIFFLE_OP(name, text, family, signature, traits) name,
#include "ir/ops.def"
#undef RIFFLE_OP
};

enum class OpFamily : std::uint8_t {
  source,       ///< input, param, full, arange: no operands
  marker,       ///< break
  elementwise,  ///< one element of the result from one element of each (broadcast) operand
  shape,        ///< moves elements: reshape, permute, expand, slice, cat, pad
  reduce,       ///< sum, amax, amin, prod, argmax
  matmul,
  indexed,    ///< gather, scatter_add
  composite,  ///< defined over primitives by `decompose`
};

/// Facts about an op that passes ask for. Bits.
enum OpTraits : std::uint32_t {
  kNone = 0,
  kCommutative = 1,        ///< bit-exactly so: a+b, a*b, min, max (never reassociated)
  kNotDifferentiable = 2,  ///< result carries no gradient (compare, argmax, integer results)
  kCheap = 4,              ///< recompute rather than save
  kTranscendental = 8,     ///< elementwise: tens of instructions, worth a store
  kExtended = 16,          ///< elementwise: several times that (sums of two floats)
  kSlowInstruction = 32,   ///< elementwise: one, but slow: division, square root
  kLoss = 64,              ///< ends a training graph: policies that count nodes start before it
};

enum class AttrKind : std::uint8_t { flag, integer, number, dtype, text, ints };

/// One argument of a signature, in PyTorch's order: an operand or an attribute.
struct ArgumentSpec {
  enum class Role : std::uint8_t { operand, optional_operand, operand_list, attribute };
  std::string name;
  Role role = Role::operand;
  AttrKind kind = AttrKind::integer;       ///< attributes only
  std::optional<AttrValue> default_value;  ///< attributes only; nullopt: required

  bool is_operand() const noexcept { return role != Role::attribute; }
};

/// Operand types and attributes, as a type rule sees them.
struct TypeQuery {
  std::span<const TensorType> operands;
  const Attrs& attrs;
};

/// What a VJP rule gets: values in the graph that it extends.
struct VjpQuery {
  Builder& b;
  const Attrs& attrs;
  std::span<const Value> operands;
  Value result;
  Value cotangent;           ///< d loss / d result, of the result's type
  std::vector<bool> wanted;  ///< per operand: is its gradient wanted
};

/// One set of arguments on which every test of the op runs (values, gradients, all dtypes it
/// takes).
struct Sample {
  std::vector<TensorType> operands;  ///< dtype f32 stands for "the dtype under test"
  Attrs attrs;
  double low = -2.0, high = 2.0;  ///< range of random floating operands
  std::int64_t index_limit = 0;   ///< integer operands are drawn from [0, index_limit)
  bool smooth = true;             ///< false: skip the numeric gradient check (kinks, ties)
};

/// The block beside the family. Unused members stay null.
struct OpBlock {
  /// Result type, or throws GraphError saying what would fit. Without it: elementwise broadcast
  /// of equal dtypes.
  TensorType (*infer)(const TypeQuery&) = nullptr;
  /// Brings checked, complete attributes to the one form that equal nodes share: negative
  /// dimensions counted from the front, -1 sizes filled in, ends clamped. Throws as `infer` does.
  void (*normalize)(std::span<const TensorType> operands, Attrs&) = nullptr;
  /// Elementwise: how one element is computed, rounding as the dtype does; used by every target.
  Scalar (*emit)(ScalarBuilder&, std::span<const Scalar>, const Attrs&) = nullptr;
  /// Elementwise: the same function on doubles, as exactly as libm can: the reference.
  double (*reference)(std::span<const double>, const Attrs&) = nullptr;
  /// Other primitives: the reference on whole arrays of doubles.
  Array (*reference_array)(std::span<const Array>, const Attrs&,
                           const TensorType& result) = nullptr;
  /// Composite: builds it from primitives and returns its value. Operands arrive in, and the
  /// result leaves in, their own dtype: the block casts to compute_dtype and rounds once.
  Value (*decompose)(Builder&, std::span<const Value>, const Attrs&) = nullptr;
  /// Gradients per operand (an empty Value where none flows). A composite may leave it out: its
  /// decomposition is then differentiated.
  std::vector<Value> (*vjp)(const VjpQuery&) = nullptr;
  std::vector<Sample> (*samples)() = nullptr;
  /// Dtypes allowed for the floating "dtype under test"; empty = all floating.
  std::vector<DType> (*dtypes)() = nullptr;
};

/// Row and block together.
struct OpInfo {
  Op op{};
  std::string_view enumerator;  ///< "where_"
  std::string_view text;        ///< "where": PyTorch's name
  OpFamily family{};
  std::uint32_t traits = 0;
  std::vector<ArgumentSpec> arguments;
  OpBlock block;

  bool has(OpTraits trait) const noexcept { return (traits & trait) != 0; }
  std::size_t required_operands() const noexcept;
  std::size_t maximum_operands() const noexcept;  ///< SIZE_MAX for a list
  const ArgumentSpec* attribute(std::string_view name) const noexcept;
};

const OpInfo& info(Op op);
/// By text name; nullptr when there is no such op.
const OpInfo* find_op(std::string_view text);
/// Every op, in the order of ops.def.
std::span<const OpInfo> all_ops();
/// Checks operand count and attributes against the signature, converts attributes to their declared
/// kind (integer → number, integer → [integer]), fills in defaults, normalises. What
/// Builder::append does first; idempotent. Throws GraphError.
void complete_attrs(Op op, std::span<const TensorType> operands, Attrs& attrs);
/// The block's type rule, then a check that the element count is sane. `attrs` must be complete.
/// Throws GraphError whose message starts with the op's text name.
TensorType infer_type(Op op, const TypeQuery& query);
/// Sizes are not negative and their product (zeros taken as one) is at most 2^48: byte counts and
/// strides then fit 64 bits everywhere. At most 64 dimensions. Throws GraphError.
void check_size(const TensorType& type);

/// The nearest text names to a misspelt one, for error messages.
std::vector<std::string_view> similar_ops(std::string_view text);

}  // namespace riffle::ir
