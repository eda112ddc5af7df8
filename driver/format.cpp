#include "driver/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/command.h"

namespace riffle::driver {
namespace {

constexpr std::int64_t kEdge = 4;  // items shown on either side of a cut

std::string format_number(double value, DType dtype) {
  if (dtype == DType::boolean) return value != 0 ? "True" : "False";
  if (!is_floating(dtype)) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{:.6g}", value);
}

struct Range {
  std::int64_t begin = 0, end = 0;
  bool dropped = false;  // a single index: the dimension goes
};

std::vector<std::string> slice_fields(std::string_view slice, std::string_view name) {
  if (slice.empty()) return {};
  if (slice.front() != '[' || slice.back() != ']')
    throw UsageError({.what = "expected a slice like [0, 2:5]", .where = std::string(name)});
  slice = slice.substr(1, slice.size() - 2);
  std::vector<std::string> fields(1);
  for (char c : slice) {
    if (c == ',')
      fields.emplace_back();
    else if (c != ' ')
      fields.back() += c;
  }
  return fields;
}

Range parse_range(const std::string& field, std::int64_t size, std::string_view name) {
  auto index = [&](const std::string& text, std::int64_t otherwise) {
    if (text.empty()) return otherwise;
    std::int64_t value = parse_integer(text, "an index");
    return value < 0 ? value + size : value;
  };
  const std::size_t colon = field.find(':');
  if (colon == std::string::npos) {
    const std::int64_t at = index(field, -1);
    if (at < 0 || at >= size)
      throw UsageError(
          {.what = fmt::format("index {} is out of range for a dimension of {}", field, size),
           .where = std::string(name)});
    return {at, at + 1, true};
  }
  Range range{index(field.substr(0, colon), 0), index(field.substr(colon + 1), size)};
  range.begin = std::clamp<std::int64_t>(range.begin, 0, size);
  range.end = std::clamp(range.end, range.begin, size);
  return range;
}

void format_dimension(const ir::Array& array, std::size_t dim, std::int64_t offset,
                      const std::vector<std::int64_t>& strides, std::string& text) {
  if (dim == array.type.shape.size()) {
    text += format_number(array.data[offset], array.type.dtype);
    return;
  }
  const std::int64_t size = array.type.shape[dim];
  const bool innermost = dim + 1 == array.type.shape.size();
  text += '[';
  for (std::int64_t i = 0; i < size; ++i) {
    if (i) text += innermost ? ", " : ",\n" + std::string(dim + 1, ' ');
    if (size > 2 * kEdge && i == kEdge) {
      text += "…";
      i = size - kEdge - 1;
      continue;
    }
    format_dimension(array, dim + 1, offset + i * strides[dim], strides, text);
  }
  text += ']';
}

Json json_dimension(const ir::Array& array, std::size_t dim, std::int64_t offset,
                    const std::vector<std::int64_t>& strides) {
  if (dim == array.type.shape.size()) {
    const double value = array.data[offset];
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    if (array.type.dtype == DType::boolean) return value != 0;
    if (!is_floating(array.type.dtype)) return static_cast<std::int64_t>(value);
    return value;
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < array.type.shape[dim]; ++i)
    list.push_back(json_dimension(array, dim + 1, offset + i * strides[dim], strides));
  return list;
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* unit = "KiB";
  double value = static_cast<double>(bytes) / 1024;
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

ir::Array sliced(const HostTensor& tensor, std::string_view slice, std::string_view name) {
  const ir::Array whole = ir::array_from_bytes(tensor.type, tensor.bytes);
  const std::vector<std::string> fields = slice_fields(slice, name);
  if (fields.size() > tensor.type.shape.size())
    throw UsageError(
        {.what = fmt::format("{} indices for {}", fields.size(), to_string(tensor.type)),
         .where = std::string(name)});
  std::vector<Range> ranges;
  TensorType type{tensor.type.dtype, {}};
  for (std::size_t d = 0; d < tensor.type.shape.size(); ++d) {
    const std::int64_t size = tensor.type.shape[d];
    ranges.push_back(d < fields.size() ? parse_range(fields[d], size, name) : Range{0, size});
    if (!ranges.back().dropped) type.shape.push_back(ranges.back().end - ranges.back().begin);
  }
  ir::Array result(type);
  const std::vector<std::int64_t> strides = ir::strides_of(tensor.type.shape);
  std::vector<std::int64_t> index;
  for (const Range& range : ranges) index.push_back(range.begin);
  for (double& element : result.data) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
    element = whole.data[offset];
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < ranges[d].end) break;
      index[d] = ranges[d].begin;
    }
  }
  return result;
}

std::string format_array(const ir::Array& array) {
  std::string text;
  format_dimension(array, 0, 0, ir::strides_of(array.type.shape), text);
  return text;
}

Json json_of(const ir::Array& array) {
  return json_dimension(array, 0, 0, ir::strides_of(array.type.shape));
}

}  // namespace riffle::driver
