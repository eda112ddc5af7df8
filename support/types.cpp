#include "riffle/types.h"

namespace riffle {
namespace {
struct DTypeRow {
  std::string_view name;
  std::int64_t size;
};
constexpr DTypeRow kRows[] = {{"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2},
                              {"i64", 8}, {"i32", 4}, {"bool", 1}};
static_assert(std::size(kRows) == kAllDTypes.size());
}  // namespace

std::string_view name_of(DType dtype) noexcept { return kRows[static_cast<int>(dtype)].name; }
std::int64_t size_of(DType dtype) noexcept { return kRows[static_cast<int>(dtype)].size; }

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (DType dtype : kAllDTypes)
    if (name_of(dtype) == name) return dtype;
  return std::nullopt;
}

std::int64_t element_count(const Shape& shape) noexcept {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string to_string(const TensorType& type) {
  return std::string(name_of(type.dtype)) + to_string(type.shape);
}

}  // namespace riffle
