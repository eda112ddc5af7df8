// Objects on disk. A cache may lose anything at any time; it must never give wrong bytes, never
// block a compile and never throw. Start reading at DiskCache::load and ::store.
//
// An entry is: magic, body, xxh128 of magic and body. The checksum is looked at first, over the
// whole file, so that no damaged length is ever believed; the lengths are checked all the same.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include "jit/compile_partition.h"
#include "support/file_descriptor.h"

namespace riffle::jit {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'r', 'i', 'f', 'f', 'l', 'e', 'O', '1'};
constexpr std::size_t kChecksumBytes = 16;
constexpr std::string_view kExtension = ".o";
constexpr std::string_view kTemporary = ".tmp";
constexpr auto kStaleTemporary = std::chrono::hours(1);

using Bytes = std::vector<std::byte>;

struct Checksum {
  XXH128_canonical_t digest;
  explicit Checksum(const std::byte* data, std::size_t size) {
    XXH128_canonicalFromHash(&digest, XXH3_128bits(data, size));
  }
};
static_assert(sizeof(XXH128_canonical_t) == kChecksumBytes);

class Writer {
 public:
  void raw(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  }
  template <class T>
  void number(T value) {
    raw(&value, sizeof value);  // read back on the machine that wrote it, or not at all: see target
  }
  void text(const std::string& value) {
    number<std::uint64_t>(value.size());
    raw(value.data(), value.size());
  }
  Bytes bytes;
};

/// Reads past the end give zeros and make `ok` false.
class Reader {
 public:
  Reader(const std::byte* data, std::size_t size) : at_(data), left_(size) {}
  template <class T>
  T number() {
    T value{};
    if (const std::byte* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint64_t>();
    const std::byte* from = take(size);
    return from ? std::string(reinterpret_cast<const char*>(from), size) : std::string();
  }
  const std::byte* take(std::uint64_t size) {
    if (size > left_) ok = false;
    if (!ok) return nullptr;
    const std::byte* from = at_;
    at_ += size;
    left_ -= size;
    return from;
  }
  std::uint64_t left() const { return left_; }
  bool ok = true;

 private:
  const std::byte* at_;
  std::uint64_t left_;
};

Bytes encode(const CacheKey& key, const codegen::HostObject& object) {
  Writer out;
  out.raw(kMagic, sizeof kMagic);
  out.number(key.ir.high);
  out.number(key.ir.low);
  out.text(key.target);
  out.text(key.options);
  out.text(key.llvm_version);
  out.number(key.kernel_abi);
  out.number<std::uint64_t>(object.entries.size());
  for (const codegen::HostEntry& entry : object.entries) {
    out.text(entry.symbol);
    out.number(entry.geometry.tasks);
    out.number(entry.geometry.scratch_bytes);
    out.number(entry.geometry.work_ns);
  }
  out.number<std::uint64_t>(object.object.size());
  out.raw(object.object.data(), object.object.size());
  const Checksum checksum(out.bytes.data(), out.bytes.size());
  out.raw(&checksum.digest, sizeof checksum.digest);
  return std::move(out.bytes);
}

enum class Content { good, other_key, damaged };

Content decode(const Bytes& bytes, const CacheKey& key, codegen::HostObject& object) {
  if (bytes.size() < sizeof kMagic + kChecksumBytes) return Content::damaged;
  const std::size_t size = bytes.size() - kChecksumBytes;
  const Checksum checksum(bytes.data(), size);
  if (std::memcmp(bytes.data() + size, &checksum.digest, kChecksumBytes) != 0 ||
      std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return Content::damaged;
  Reader in(bytes.data() + sizeof kMagic, size - sizeof kMagic);
  CacheKey written;
  written.ir.high = in.number<std::uint64_t>();
  written.ir.low = in.number<std::uint64_t>();
  written.target = in.text();
  written.options = in.text();
  written.llvm_version = in.text();
  written.kernel_abi = in.number<std::uint32_t>();
  if (!in.ok) return Content::damaged;
  if (!(written == key)) return Content::other_key;
  const auto count = in.number<std::uint64_t>();
  codegen::HostObject read;
  for (std::uint64_t i = 0; i < count && in.ok; ++i) {
    codegen::HostEntry entry;
    entry.symbol = in.text();
    entry.geometry.tasks = in.number<std::int64_t>();
    entry.geometry.scratch_bytes = in.number<std::int64_t>();
    entry.geometry.work_ns = in.number<double>();
    read.entries.push_back(std::move(entry));
  }
  const auto payload = in.number<std::uint64_t>();
  const std::byte* from = in.take(payload);
  if (!in.ok || in.left() != 0) return Content::damaged;
  read.object.assign(from, from + payload);
  object = std::move(read);
  return Content::good;
}

/// The file's bytes; nullopt when it is not there, cannot be read, or is larger than `limit`.
std::optional<Bytes> read_file(const std::string& path, std::int64_t limit) {
  const FileDescriptor file(path, O_RDONLY | O_NONBLOCK);  // a FIFO must not make us wait
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size > limit)
    return std::nullopt;
  Bytes bytes(static_cast<std::size_t>(status.st_size));
  const std::ptrdiff_t filled = read_all(file.get(), bytes);
  if (filled < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(filled));  // truncated under us: the checksum will say so
  ::futimens(file.get(), nullptr);  // recently used; a read-only file system says no, and may
  return bytes;
}

}  // namespace

struct DiskCache::State {
  std::atomic<std::int64_t> hits{0}, writes{0}, damaged{0}, unwritable{0};
  std::atomic<bool> writable{true};
  std::atomic<std::uint64_t> serial{0};
  std::mutex mutex;
  std::optional<std::int64_t> bytes_on_disk;  ///< as of our last look plus what we added

  void disable() {
    writable = false;
    ++unwritable;
  }

  /// Removes the oldest entries until `capacity` is kept with a quarter to spare.
  void trim(const std::string& directory, std::int64_t capacity);
};

void DiskCache::State::trim(const std::string& directory, std::int64_t capacity) {
  struct Entry {
    fs::file_time_type time;
    std::int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto time = it->last_write_time(ignored);
    const auto extension = it->path().extension();
    if (extension == kTemporary && now - time > kStaleTemporary) fs::remove(it->path(), ignored);
    if (extension != kExtension) continue;
    const auto bytes = static_cast<std::int64_t>(it->file_size(ignored));
    if (ignored) continue;  // another process removed it
    entries.push_back({time, bytes, it->path()});
    total += bytes;
  }
  if (total > capacity) {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.time < b.time; });
    for (const Entry& entry : entries) {
      if (total <= capacity - capacity / 4) break;
      fs::remove(entry.path, error);
      total -= entry.bytes;
    }
  }
  bytes_on_disk = total;
}

DiskCache::DiskCache(std::string directory, std::int64_t capacity_bytes)
    : directory_(std::move(directory)),
      capacity_(capacity_bytes),
      state_(std::make_shared<State>()) {
  if (directory_.empty()) state_->disable();
}

bool DiskCache::load(const CacheKey& key, codegen::HostObject& object) {
  if (directory_.empty()) return false;
  try {
    const std::string path = directory_ + "/" + key.file_name() + std::string(kExtension);
    const std::optional<Bytes> bytes = read_file(path, capacity_);
    if (!bytes) return false;  // a fault of the world, not of the content: the file stays
    const Content content = decode(*bytes, key, object);
    if (content == Content::damaged) drop(key);
    if (content != Content::good) return false;
    ++state_->hits;
    return true;
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

void DiskCache::drop(const CacheKey& key) {
  ++state_->damaged;
  const std::string path = directory_ + "/" + key.file_name() + std::string(kExtension);
  ::unlink(path.c_str());
}

void DiskCache::store(const CacheKey& key, const codegen::HostObject& object) {
  if (!state_->writable) return;
  try {
    const Bytes bytes = encode(key, object);
    if (static_cast<std::int64_t>(bytes.size()) > capacity_) return;
    std::error_code error;
    fs::create_directories(directory_, error);
    const std::string path = directory_ + "/" + key.file_name() + std::string(kExtension);
    const std::string temporary =
        fmt::format("{}.{}.{}{}", path, ::getpid(), state_->serial++, kTemporary);
    FileDescriptor file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (!file) return state_->disable();
    // The write first: close must happen, and its answer counts too.
    const int written = write_all(file.get(), bytes);
    if (file.close() != 0 || written != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
      ::unlink(temporary.c_str());
      return state_->disable();
    }
    ++state_->writes;
    const std::lock_guard lock(state_->mutex);
    if (state_->bytes_on_disk) *state_->bytes_on_disk += static_cast<std::int64_t>(bytes.size());
    if (!state_->bytes_on_disk || *state_->bytes_on_disk > capacity_)
      state_->trim(directory_, capacity_);
  } catch (const std::exception&) {
    state_->disable();
  }
}

CacheStatistics DiskCache::statistics() const {
  CacheStatistics statistics;
  statistics.disk_hits = state_->hits;
  statistics.disk_writes = state_->writes;
  statistics.disk_damaged = state_->damaged;
  statistics.disk_unwritable = state_->unwritable;
  return statistics;
}

}  // namespace riffle::jit
