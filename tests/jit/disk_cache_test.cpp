#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "jit/compile_partition.h"

namespace riffle::jit {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        fs::temp_directory_path() / ("riffle_cache_" + std::to_string(::getpid()) + "_" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  static CacheKey key(std::uint64_t low = 1) {
    return {.ir = {7, low}, .target = "x86-64", .options = "fuse=1", .llvm_version = "19"};
  }
  static codegen::HostObject object(std::size_t bytes = 40) {
    codegen::HostObject object;
    for (std::size_t i = 0; i < bytes; ++i) object.object.push_back(std::byte(i * 37));
    object.entries = {{"k_add", {.tasks = 3, .scratch_bytes = 64, .work_ns = 1.5}}, {"k_mul", {}}};
    return object;
  }
  static void expect_equal(const codegen::HostObject& a, const codegen::HostObject& b) {
    EXPECT_EQ(a.object, b.object);
    ASSERT_EQ(a.entries.size(), b.entries.size());
    for (std::size_t i = 0; i < a.entries.size(); ++i) {
      EXPECT_EQ(a.entries[i].symbol, b.entries[i].symbol);
      EXPECT_EQ(a.entries[i].geometry.tasks, b.entries[i].geometry.tasks);
      EXPECT_EQ(a.entries[i].geometry.scratch_bytes, b.entries[i].geometry.scratch_bytes);
      EXPECT_EQ(a.entries[i].geometry.work_ns, b.entries[i].geometry.work_ns);
    }
  }
  std::string path(const CacheKey& k) const {
    return (directory_ / (k.file_name() + ".o")).string();
  }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }
  std::size_t files() const {
    std::error_code error;
    fs::directory_iterator it(directory_, error);
    return error ? 0 : static_cast<std::size_t>(std::distance(it, fs::directory_iterator()));
  }

  fs::path directory_;
};

TEST_F(DiskCacheTest, GivesBackWhatWasStored) {
  DiskCache(directory_).store(key(), object());
  DiskCache cache(directory_);
  codegen::HostObject loaded;
  ASSERT_TRUE(cache.load(key(), loaded));
  expect_equal(loaded, object());
  EXPECT_EQ(cache.statistics().disk_hits, 1);
  EXPECT_FALSE(cache.load(key(2), loaded));
  EXPECT_EQ(files(), 1u) << "a temporary file was left";
}

TEST_F(DiskCacheTest, EveryFieldOfTheKeyDecides) {
  DiskCache cache(directory_);
  cache.store(key(), object());
  std::vector<CacheKey> others(6, key());
  others[0].ir.high++;
  others[1].ir.low++;
  others[2].target += "+avx";
  others[3].options = "fuse=0";
  others[4].llvm_version = "20";
  others[5].kernel_abi++;
  for (const CacheKey& other : others) {
    EXPECT_NE(other.file_name(), key().file_name());
    codegen::HostObject loaded;
    EXPECT_FALSE(cache.load(other, loaded));
    // Were two names to collide, the key inside would tell; that file is another's and stays.
    fs::copy_file(path(key()), path(other));
    EXPECT_FALSE(cache.load(other, loaded));
    EXPECT_TRUE(fs::exists(path(other)));
  }
  EXPECT_EQ(cache.statistics().disk_damaged, 0);
}

TEST_F(DiskCacheTest, AnyFlippedByteIsFoundAndTheEntryDropped) {
  DiskCache cache(directory_);
  cache.store(key(), object());
  const std::string good = read(path(key()));
  ASSERT_LT(good.size(), 1000u);
  codegen::HostObject loaded;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write(path(key()), bad);
    EXPECT_FALSE(cache.load(key(), loaded)) << "byte " << i;
    EXPECT_FALSE(fs::exists(path(key()))) << "byte " << i;
  }
  EXPECT_EQ(cache.statistics().disk_damaged, static_cast<std::int64_t>(good.size()));
  cache.store(key(), object());
  EXPECT_TRUE(cache.load(key(), loaded));
}

TEST_F(DiskCacheTest, AnyTruncationOrAdditionIsFound) {
  DiskCache cache(directory_);
  cache.store(key(), object());
  const std::string good = read(path(key()));
  codegen::HostObject loaded;
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(path(key()), good.substr(0, size));
    EXPECT_FALSE(cache.load(key(), loaded)) << size;
  }
  write(path(key()), good + "x");
  EXPECT_FALSE(cache.load(key(), loaded));
}

TEST_F(DiskCacheTest, NoDirectoryOnlyDisablesWriting) {
  DiskCache cache("");
  codegen::HostObject loaded;
  cache.store(key(), object());
  EXPECT_FALSE(cache.load(key(), loaded));
  EXPECT_EQ(cache.statistics().disk_unwritable, 1);
}

TEST_F(DiskCacheTest, AnUnwritableDirectoryOnlyDisablesWriting) {
  DiskCache(directory_).store(key(), object());
  // A file where a directory should be: fails for root too, unlike permissions.
  DiskCache cache(path(key()) + "/riffle");
  cache.store(key(2), object());
  cache.store(key(3), object());
  EXPECT_EQ(cache.statistics().disk_unwritable, 1);
  EXPECT_EQ(cache.statistics().disk_writes, 0);
}

TEST_F(DiskCacheTest, AReadOnlyDirectoryStillGivesHits) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  DiskCache(directory_).store(key(), object());
  ::chmod(directory_.c_str(), 0500);
  DiskCache cache(directory_);
  cache.store(key(2), object());
  codegen::HostObject loaded;
  EXPECT_TRUE(cache.load(key(), loaded));
  EXPECT_EQ(cache.statistics().disk_unwritable, 1);
  ::chmod(directory_.c_str(), 0700);
}

TEST_F(DiskCacheTest, AFailingWriteLeavesNothingBehind) {
  DiskCache cache(directory_);
  cache.store(key(), object());
  // write() fails part way, as on a full disk: here because of a limit on the size of files.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 10000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cache.store(key(2), object(50000));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(cache.statistics().disk_unwritable, 1);
  EXPECT_EQ(files(), 1u);
  codegen::HostObject loaded;
  EXPECT_FALSE(cache.load(key(2), loaded));
  EXPECT_TRUE(cache.load(key(), loaded));
}

TEST_F(DiskCacheTest, KeepsToItsCapacityDroppingTheOldest) {
  DiskCache cache(directory_, 10000);
  for (std::uint64_t i = 0; i < 30; ++i) cache.store(key(i), object(1000));
  std::uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(directory_)) total += entry.file_size();
  EXPECT_LE(total, 10000u);
  codegen::HostObject loaded;
  EXPECT_TRUE(cache.load(key(29), loaded));
  EXPECT_FALSE(cache.load(key(0), loaded));
  cache.store(key(50), object(20000));  // larger than the whole cache: not kept, not a fault
  EXPECT_FALSE(cache.load(key(50), loaded));
  EXPECT_EQ(cache.statistics().disk_unwritable, 0);
}

TEST_F(DiskCacheTest, ManyWritersAndReadersOfOneKey) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  DiskCache cache(directory_);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        cache.store(key(), object(3000));
        codegen::HostObject loaded;
        if (!cache.load(key(), loaded) || loaded.object != object(3000).object) ++wrong;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.statistics().disk_damaged, 0);
}

TEST(GeneratorIdentity, IsThereAndStays) {
  EXPECT_GE(generator_identity().size(), 16u);
  EXPECT_EQ(generator_identity(), generator_identity());
}

}  // namespace
}  // namespace riffle::jit
