#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "support/bool_bytes.h"

namespace riffle::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<DType, std::string_view>, 7> kNames = {{{DType::f32, "F32"},
                                                                       {DType::f64, "F64"},
                                                                       {DType::bf16, "BF16"},
                                                                       {DType::f16, "F16"},
                                                                       {DType::i64, "I64"},
                                                                       {DType::i32, "I32"},
                                                                       {DType::boolean, "BOOL"}}};
static_assert(kNames.size() == kAllDTypes.size());

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw IoError({.what = "not a valid safetensors file: " + why, .where = path});
}

DType dtype_of(const std::string& path, const std::string& tensor, const std::string& name) {
  for (auto [dtype, text] : kNames)
    if (text == name) return dtype;
  throw IoError({.what = "tensor '" + tensor + "' has dtype " + name + ", which riffle lacks",
                 .where = path,
                 .hint = "F32, F64, BF16, F16, I64, I32 or BOOL"});
}

/// Sizes are untrusted: their product must not overflow.
Shape shape_of(const std::string& path, const std::string& tensor, const Json& sizes) {
  Shape shape;
  std::int64_t elements = 1;
  if (!sizes.is_array()) damaged(path, "the shape of '" + tensor + "' is not a list");
  for (const Json& size : sizes) {
    if (!size.is_number_integer() || size.get<std::int64_t>() < 0)
      damaged(path, "the shape of '" + tensor + "' has a size that is not a natural number");
    shape.push_back(size.get<std::int64_t>());
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > std::int64_t{1}
                                                                                    << 48)
      damaged(path, "the shape of '" + tensor + "' is too large");
  }
  return shape;
}

struct Entry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0, end = 0;
};

Entry parse_entry(const std::string& path, const std::string& name, const Json& value,
                  std::uint64_t data_bytes) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets") || !value["dtype"].is_string())
    damaged(path, "'" + name + "' lacks dtype, shape or data_offsets");
  Entry entry{.name = name, .type = {}};
  entry.type.dtype = dtype_of(path, name, value["dtype"].get<std::string>());
  entry.type.shape = shape_of(path, name, value["shape"]);
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    damaged(path, "data_offsets of '" + name + "' are not two natural numbers");
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes)
    damaged(path, "'" + name + "' reaches beyond the end of the file (cut short?)");
  if (entry.end - entry.begin != static_cast<std::uint64_t>(entry.type.bytes()))
    damaged(path, "'" + name + "' : " + to_string(entry.type) + " takes " +
                      std::to_string(entry.type.bytes()) + " bytes, its offsets hold " +
                      std::to_string(entry.end - entry.begin));
  return entry;
}

Json parse_header(const std::string& path, std::string_view text) {
  bool repeated = false;
  std::vector<std::string> keys;  // of the outermost object; nlohmann keeps the last of two
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      const auto key = parsed.get<std::string>();
      repeated |= std::find(keys.begin(), keys.end(), key) != keys.end();
      keys.push_back(key);
    }
    return depth <= 8;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    damaged(path, std::string("its header is not JSON (") + error.what() + ")");
  }
  if (repeated) damaged(path, "a tensor's name occurs twice");
  if (!header.is_object()) damaged(path, "its header is not an object");
  return header;
}

}  // namespace

NamedTensors read_safetensors(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) damaged(path, "it is shorter than its length field");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const std::uint64_t rest = bytes.size() - sizeof header_bytes;
  if (header_bytes > rest || header_bytes > kMostHeaderBytes)
    damaged(path, "its header length is " + std::to_string(header_bytes) + ", the file has " +
                      std::to_string(bytes.size()) + " bytes");
  const Json header = parse_header(
      path, {reinterpret_cast<const char*>(bytes.data()) + sizeof header_bytes, header_bytes});
  const std::uint64_t data_bytes = rest - header_bytes;
  const std::byte* data = bytes.data() + sizeof header_bytes + header_bytes;

  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items())
    if (name != "__metadata__") entries.push_back(parse_entry(path, name, value, data_bytes));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].begin < entries[i - 1].end)
      damaged(path, "'" + entries[i - 1].name + "' and '" + entries[i].name + "' overlap");

  for (const Entry& entry : entries)
    if (entry.type.dtype == DType::boolean)
      if (const auto bad = first_bad_bool({data + entry.begin, data + entry.end}))
        damaged(path, "element " + std::to_string(*bad) + " of '" + entry.name +
                          "' : " + to_string(entry.type) + " is neither 0 nor 1");

  NamedTensors tensors;
  for (Entry& entry : entries)
    tensors[entry.name] = {std::move(entry.type), {data + entry.begin, data + entry.end}};
  return tensors;
}

void write_safetensors(const std::string& path, const NamedTensors& tensors) {
  Json header = Json::object();
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::uint64_t begin = end;
    end += tensor.bytes.size();
    const auto dtype = std::find_if(kNames.begin(), kNames.end(), [&](const auto& row) {
      return row.first == tensor.type.dtype;
    });
    header[name] = {
        {"dtype", dtype->second}, {"shape", tensor.type.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw IoError({.what = "a tensor's name is not UTF-8, which this format needs",
                   .where = path,
                   .hint = "another name",
                   .foreign = error.what()});
  }
  text.append((8 - text.size() % 8) % 8, ' ');  // the data then starts aligned
  const std::uint64_t header_bytes = text.size();
  std::vector<std::byte> bytes(sizeof header_bytes + text.size() + end);
  std::memcpy(bytes.data(), &header_bytes, sizeof header_bytes);
  std::memcpy(bytes.data() + sizeof header_bytes, text.data(), text.size());
  std::byte* place = bytes.data() + sizeof header_bytes + text.size();
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.bytes.empty()) std::memcpy(place, tensor.bytes.data(), tensor.bytes.size());
    place += tensor.bytes.size();
  }
  write_file(path, bytes);
}

}  // namespace riffle::io
