// safetensors: what was written is read; hostile headers are refused before anything is allocated.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/file.h"
#include "tests/io/temporary_folder.h"

namespace riffle::io {
namespace {

HostTensor zeros(TensorType type) {
  HostTensor tensor;
  tensor.bytes.resize(static_cast<std::size_t>(type.bytes()));
  tensor.type = std::move(type);
  return tensor;
}

class Safetensors : public test::TemporaryFolder {
 protected:
  static std::string file(const std::string& header, const std::string& data,
                          std::int64_t length = -1) {
    const std::uint64_t size = length < 0 ? header.size() : static_cast<std::uint64_t>(length);
    std::string bytes(sizeof size, '\0');
    std::memcpy(bytes.data(), &size, sizeof size);
    return bytes + header + data;
  }
  /// The error's text; empty when the file was read.
  std::string refusal(const std::string& bytes) const {
    write("f", bytes);
    try {
      read_safetensors(path("f"));
      return "";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(path("f")), std::string::npos) << error.what();
      return error.what();
    }
  }
};

TEST_F(Safetensors, WhatWasWrittenIsRead) {
  NamedTensors tensors;
  for (DType dtype : kAllDTypes) {
    HostTensor tensor = zeros({dtype, {2, 3}});
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
      tensor.bytes[i] = static_cast<std::byte>(i % 2);
    tensors["t/" + std::string(name_of(dtype))] = std::move(tensor);
  }
  tensors["scalar"] = zeros({DType::f64, {}});
  tensors["empty"] = zeros({DType::f32, {0, 5}});
  tensors["name \"quoted\"\n€"] = zeros({DType::i32, {1}});
  write_safetensors(path("f"), tensors);
  const NamedTensors back = read_safetensors(path("f"));
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(back.contains(name)) << name;
    EXPECT_EQ(back.at(name).type, tensor.type) << name;
    EXPECT_EQ(back.at(name).bytes, tensor.bytes) << name;
  }
  write_safetensors(path("g"), {});
  EXPECT_TRUE(read_safetensors(path("g")).empty());
}

TEST_F(Safetensors, MetadataIsPassedOver) {
  EXPECT_EQ(
      refusal(file(
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          "abcd")),
      "");
}

TEST_F(Safetensors, HostileHeadersAreRefused) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(refusal(file(good, "12345678")), "");
  struct Case {
    const char* what;
    std::string bytes;
    const char* said;
  };
  const std::string huge = std::to_string(std::int64_t{1} << 62);
  auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const Case cases[] = {
      {"empty file", "", "shorter than its length field"},
      {"seven bytes", "1234567", "shorter than its length field"},
      {"length beyond the file", file(good, "12345678", 1000), "header length"},
      {"length of 2^63", file(good, "12345678", std::int64_t{1} << 62), "header length"},
      {"no header", file("", ""), "not JSON"},
      {"not JSON", file("{]", ""), "not JSON"},
      {"a list", file("[1,2]", ""), "not an object"},
      {"deep nesting", file(std::string(5000, '[') + std::string(5000, ']'), ""), ""},
      {"not UTF-8", file("{\"\xff\xfe\":1}", ""), "not JSON"},
      {"entry is a number", file(R"({"a":5})", ""), "lacks"},
      {"no shape", file(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"), "lacks"},
      {"dtype is a number", file(entry("7", "[1]", "[0,4]"), "1234"), "lacks"},
      {"no boolean", file(entry(R"("BOOL")", "[3]", "[0,3]"), std::string("\0\1\2", 3)),
       "element 2 of 'a'"},
      {"unknown dtype", file(entry(R"("F8_E4M3")", "[4]", "[0,4]"), "1234"), "F8_E4M3"},
      {"shape is a word", file(entry(R"("F32")", R"("x")", "[0,4]"), "1234"), "not a list"},
      {"negative size", file(entry(R"("F32")", "[-1]", "[0,4]"), "1234"), "natural number"},
      {"fractional size", file(entry(R"("F32")", "[1.5]", "[0,4]"), "1234"), "natural number"},
      {"size beyond i64", file(entry(R"("F32")", "[18446744073709551615]", "[0,4]"), "1234"), ""},
      {"product overflows", file(entry(R"("F32")", "[" + huge + "," + huge + "]", "[0,4]"), "1234"),
       "too large"},
      {"product wraps to small", file(entry(R"("F32")", "[4294967296,4294967296,1]", "[0,0]"), ""),
       "too large"},
      {"huge dimension", file(entry(R"("F32")", "[" + huge + "]", "[0,4]"), "1234"), "too large"},
      {"one offset", file(entry(R"("F32")", "[1]", "[0]"), "1234"), "data_offsets"},
      {"negative offset", file(entry(R"("F32")", "[1]", "[-4,0]"), "1234"), "data_offsets"},
      {"offsets reversed", file(entry(R"("F32")", "[1]", "[4,0]"), "1234"), "end of the file"},
      {"cut short", file(good, "1234"), "cut short"},
      {"offset beyond u63",
       file(entry(R"("F32")", "[1]", "[18446744073709551612,18446744073709551615]"), "1234"),
       "end of the file"},
      {"too few bytes for the shape", file(entry(R"("F32")", "[3]", "[0,8]"), "12345678"),
       "offsets hold"},
      {"too many bytes for the shape", file(entry(R"("F32")", "[1]", "[0,8]"), "12345678"),
       "offsets hold"},
      {"overlap",
       file(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
           "123456"),
       "overlap"},
      {"a name twice",
       file(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           "12345678"),
       "twice"},
  };
  for (const Case& c : cases) {
    const std::string said = refusal(c.bytes);
    EXPECT_FALSE(said.empty()) << c.what << " was read";
    EXPECT_NE(said.find(c.said), std::string::npos) << c.what << ": " << said;
  }
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  write_safetensors(path("whole"),
                    {{"a", zeros({DType::f32, {2}})}, {"b", zeros({DType::i64, {1}})}});
  const std::string whole = read_text(path("whole"));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal(whole.substr(0, length)), "") << length;
}

TEST_F(Safetensors, AFailedWriteLeavesNothing) {
  EXPECT_THROW(write_safetensors(path("no/such/folder"), {}), IoError);
  EXPECT_EQ(entries(), 0U);
}

}  // namespace
}  // namespace riffle::io
