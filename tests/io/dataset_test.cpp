// Data sets: rows and classes, splits and batches, and files that are not what they should be.
#include "io/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "riffle/error.h"
#include "tests/io/temporary_folder.h"

namespace riffle::io {
namespace {

class Datasets : public test::TemporaryFolder {
 protected:
  Dataset read(const std::string& text) const {
    write("d.csv", text);
    return read_csv(path("d.csv"));
  }
  /// The error's text.
  std::string refusal(const std::string& text) const {
    try {
      read(text);
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  }
};

TEST_F(Datasets, RowsAreFeaturesScaledToOneAndAClass) {
  const Dataset data = read("0,8,2\r\n16, 4 ,0\n\n");
  EXPECT_EQ(data.rows(), 2);
  EXPECT_EQ(data.columns, 2);
  EXPECT_EQ(data.classes, 3);
  EXPECT_EQ(data.features, (std::vector<float>{0, 0.5F, 1, 0.25F}));
  EXPECT_EQ(data.labels, (std::vector<std::int64_t>{2, 0}));
}

TEST_F(Datasets, AHeaderAndAMissingLastNewlineAreFine) {
  EXPECT_EQ(read("width,height,class\n1,2,0\n3,4,1").rows(), 2);
}

TEST_F(Datasets, ZerosAreNotScaled) { EXPECT_EQ(read("0,0,1\n").features[0], 0); }

TEST_F(Datasets, NaNAndInfinityAreKeptAndDoNotScale) {
  const Dataset data = read("nan,2,0\ninf,-4,1\n");
  EXPECT_TRUE(std::isnan(data.features[0]));
  EXPECT_TRUE(std::isinf(data.features[2]));
  EXPECT_EQ(data.features[3], -1);
}

TEST_F(Datasets, BadRowsSayTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no rows"},
      {"\n\n", "no rows"},
      {"a,b\n", "no rows"},
      {"1\n", ":1:1"},
      {"1,2,0\n1,0\n", ":2:1"},
      {"1,x,0\n1,2,0\n", ":1:3"},
      {"x,2,0\n1,2,0\n", ":1:1"},
      {",,\n1,2,0\n", ":1:1"},
      {"1,2,0\n1,2,3,0\n", ":2:1"},
      {"1,2,0\n1,x,0\n", ":2:3"},
      {"1,2,0\n1,,0\n", ":2:3"},
      {"1,2,-1\n", ":1:5"},
      {"1,2,0.5\n", ":1:5"},
      {"1,2,nan\n", ":1:5"},
      {"1,2,1e9\n", ":1:5"},
  };
  for (const auto& [text, said] : cases) {
    const std::string error = refusal(text);
    EXPECT_NE(error.find(said), std::string::npos) << text << " → " << error;
  }
}

TEST_F(Datasets, AMissingFileIsRefused) { EXPECT_THROW(read_csv(path("nowhere")), IoError); }

TEST(DatasetSplit, ASeedDividesRowsOnceAndForAll) {
  const TrainTestSplit split = split_rows(100, 0.8, 7);
  EXPECT_EQ(split.train.size(), 80U);
  EXPECT_EQ(split.test.size(), 20U);
  std::vector<std::int64_t> all = split.train;
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(split_rows(100, 0.8, 7).train, split.train);
  EXPECT_NE(split_rows(100, 0.8, 8).train, split.train);
  // The same on every machine: these are part of what a stated seed means.
  EXPECT_EQ((std::vector<std::int64_t>(split.train.begin(), split.train.begin() + 3)),
            (std::vector<std::int64_t>{0, 77, 15}));
}

TEST(DatasetBatch, HoldsTheRowsItWasAskedFor) {
  Dataset data{
      .name = "d", .columns = 2, .classes = 3, .features = {1, 2, 3, 4, 5, 6}, .labels = {0, 1, 2}};
  const Batch batch = make_batch(data, {2, 0, 1}, 0, 2);
  EXPECT_EQ(batch.features.type, (TensorType{DType::f32, {2, 2}}));
  EXPECT_EQ(batch.features.as<float>()[0], 5);
  EXPECT_EQ(batch.features.as<float>()[3], 2);
  EXPECT_EQ(batch.labels.as<std::int64_t>()[0], 2);
  EXPECT_EQ(make_batch(data, {2, 0, 1}, 1, 1).features.type.shape[0], 0);
}

}  // namespace
}  // namespace riffle::io
