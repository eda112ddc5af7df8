// Data sets for classification: rows of features and a class each, split and batched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "riffle/session.h"

namespace riffle::io {

/// Row-major features [rows, columns] and a class per row.
struct Dataset {
  std::string name;
  std::int64_t columns = 0, classes = 0;
  std::vector<float> features;
  std::vector<std::int64_t> labels;

  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(labels.size()); }
};

/// Numbers separated by commas, the class last; optionally gzip-compressed. A first line that is
/// not numbers is a header. Features are scaled by 1/largest magnitude to [−1, 1]. NaN is allowed.
/// Throws IoError naming line and column.
Dataset read_csv(const std::string& path);

/// Indices of rows, shuffled by the seed: the first `fraction` for training, the rest for test.
struct TrainTestSplit {
  std::vector<std::int64_t> train, test;
};
TrainTestSplit split_rows(std::int64_t rows, double fraction, std::uint64_t seed);

/// Fisher–Yates with a counter-based generator: equal seeds give equal orders everywhere.
void shuffle(std::vector<std::int64_t>& indices, std::uint64_t seed);

/// Rows [begin, end) of `order` as tensors f32[n, columns] and i64[n].
struct Batch {
  HostTensor features, labels;
};
Batch make_batch(const Dataset& data, const std::vector<std::int64_t>& order, std::int64_t begin,
                 std::int64_t end);

}  // namespace riffle::io
