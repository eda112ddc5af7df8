#include "io/dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "io/file.h"
#include "support/random.h"

namespace riffle::io {
namespace {

std::string place(const std::string& path, std::int64_t line, std::size_t column) {
  return path + ":" + std::to_string(line) + ":" + std::to_string(column);
}

/// The numbers of one line; false when a field is not a number (and `bad` is its column).
bool parse_line(std::string_view line, std::vector<double>& numbers, std::size_t& bad) {
  numbers.clear();
  std::size_t begin = 0;
  while (begin <= line.size()) {
    std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view field = line.substr(begin, end - begin);
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    while (!field.empty() && (field.back() == ' ' || field.back() == '\r')) field.remove_suffix(1);
    double number = 0;
    auto [last, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (error != std::errc{} || last != field.data() + field.size() || field.empty()) {
      bad = begin + 1;
      return false;
    }
    numbers.push_back(number);
    begin = end + 1;
  }
  return true;
}

/// Words in every field: a line with a number in it is a damaged row.
bool is_header(std::string_view line) {
  std::vector<double> number;
  std::size_t ignored = 0;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(','), line.size());
    std::string_view field = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (parse_line(field, number, ignored)) return false;
    const bool has_letter = std::any_of(field.begin(), field.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0 || c == '_';
    });
    if (!has_letter) return false;
  }
  return true;
}

}  // namespace

Dataset read_csv(const std::string& path) {
  const std::vector<std::byte> bytes = read_maybe_gzip(path);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Dataset data{.name = path, .features = {}, .labels = {}};
  std::vector<double> numbers;
  double largest = 0;
  for (std::int64_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line == "\r") continue;
    std::size_t bad = 0;
    if (!parse_line(line, numbers, bad)) {
      if (line_number == 1 && is_header(line)) continue;
      throw IoError({.what = "expected a number", .where = place(path, line_number, bad)});
    }
    const auto columns = static_cast<std::int64_t>(numbers.size()) - 1;
    if (columns < 1)
      throw IoError(
          {.what = "expected features and a class", .where = place(path, line_number, 1)});
    if (data.rows() > 0 && columns != data.columns)
      throw IoError({.what = "this line has " + std::to_string(columns + 1) +
                             " numbers, those above " + std::to_string(data.columns + 1),
                     .where = place(path, line_number, 1)});
    data.columns = columns;
    const double label = numbers.back();
    if (!(label >= 0 && label < 1e6) || label != std::floor(label))
      throw IoError({.what = "the class (last number) must be a natural number below 1000000",
                     .where = place(path, line_number, line.rfind(',') + 2)});
    for (std::int64_t i = 0; i < columns; ++i) {
      data.features.push_back(static_cast<float>(numbers[i]));
      if (std::isfinite(numbers[i])) largest = std::max(largest, std::abs(numbers[i]));
    }
    data.labels.push_back(static_cast<std::int64_t>(label));
    data.classes = std::max(data.classes, data.labels.back() + 1);
  }
  if (data.rows() == 0) throw IoError({.what = "holds no rows", .where = path});
  if (largest > 0)
    for (float& feature : data.features) feature = static_cast<float>(feature / largest);
  return data;
}

void shuffle(std::vector<std::int64_t>& indices, std::uint64_t seed) {
  for (std::size_t i = indices.size(); i > 1; --i) {
    // The high half of a 64 × 64-bit product: even to within 2^-64.
    const auto product =
        static_cast<unsigned __int128>(mix_bits(seed + (i + 1) * 0x9e3779b97f4a7c15ULL)) *
        static_cast<unsigned __int128>(i);
    std::swap(indices[i - 1], indices[static_cast<std::size_t>(product >> 64)]);
  }
}

TrainTestSplit split_rows(std::int64_t rows, double fraction, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) order[i] = i;
  shuffle(order, seed);
  const auto train = static_cast<std::ptrdiff_t>(std::floor(static_cast<double>(rows) * fraction));
  return {{order.begin(), order.begin() + train}, {order.begin() + train, order.end()}};
}

Batch make_batch(const Dataset& data, const std::vector<std::int64_t>& order, std::int64_t begin,
                 std::int64_t end) {
  std::vector<float> features;
  std::vector<std::int64_t> labels;
  features.reserve(static_cast<std::size_t>((end - begin) * data.columns));
  for (std::int64_t i = begin; i < end; ++i) {
    const float* row = data.features.data() + order[i] * data.columns;
    features.insert(features.end(), row, row + data.columns);
    labels.push_back(data.labels[order[i]]);
  }
  return {HostTensor::from<float>({DType::f32, {end - begin, data.columns}}, features),
          HostTensor::from<std::int64_t>({DType::i64, {end - begin}}, labels)};
}

}  // namespace riffle::io
