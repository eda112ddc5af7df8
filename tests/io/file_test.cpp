// Files that are missing, damaged or cannot be written; nothing half-written is left.
#include "io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "riffle/error.h"
#include "tests/io/temporary_folder.h"

namespace riffle::io {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

class Files : public TemporaryFolder {};

std::string gzipped(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(Files, DevicesAndLinksAreWrittenIntoNotReplaced) {
  write_text("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const std::string file = path("file"), link = path("link");
  write_text(file, "old");
  fs::create_symlink(file, link);
  write_text(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_text(file), "new");
}

TEST_F(Files, WhatWasWrittenIsRead) {
  for (const std::string& text :
       {std::string(), std::string("a\0b\n", 4), std::string(1 << 20, 'x')}) {
    write_text(path("f"), text);
    EXPECT_EQ(read_text(path("f")), text);
  }
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, AMissingFileSaysItsNameAndTheSystemsCode) {
  try {
    read_file(path("nowhere"));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.where(), path("nowhere"));
    EXPECT_EQ(error.foreign(), "ENOENT");
  }
}

TEST_F(Files, FoldersDevicesAndLargeFilesAreRefused) {
  EXPECT_THROW(read_file(folder()), IoError);
  EXPECT_THROW(read_file("/dev/zero"), IoError);
  write("f", "12345");
  EXPECT_THROW(read_file(path("f"), 4), IoError);
  EXPECT_EQ(read_text(path("f"), 5), "12345");
}

TEST_F(Files, AFailedWriteLeavesNothingAndTheOldFileWhole) {
  EXPECT_THROW(write_text(path("no/such/folder"), "x"), IoError);
  fs::create_directory(path("taken"));
  write("taken/inside", "x");
  EXPECT_THROW(write_text(path("taken"), "x"), IoError);  // rename onto a folder fails
  EXPECT_EQ(entries(), 1U) << "a temporary name was left behind";
}

TEST_F(Files, AFullDiskLeavesNothing) {
  // A limit on file sizes stands in for a full disk: the write fails half-way.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  try {
    write_text(path("f"), std::string(1 << 16, 'x'));
    ADD_FAILURE() << "was written";
  } catch (const IoError& error) {
    EXPECT_EQ(error.foreign(), "EFBIG");
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Files, AnUnwritableFolderIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::permissions(folder(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(write_text(path("f"), "x"), IoError);
  fs::permissions(folder(), fs::perms::owner_all);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Files, GzipIsUnpackedAndPlainFilesPass) {
  const std::string text(300'000, 'z');
  write("f.gz", gzipped(text));
  EXPECT_EQ(text_of(read_maybe_gzip(path("f.gz"))), text);
  write("plain", "1,2\n");
  EXPECT_EQ(text_of(read_maybe_gzip(path("plain"))), "1,2\n");
  write("none.gz", gzipped(""));
  EXPECT_TRUE(read_maybe_gzip(path("none.gz")).empty());
}

TEST_F(Files, EveryTruncationOfGzipIsRefused) {
  const std::string packed = gzipped("0,1,2\n3,4,5\n");
  for (std::size_t length = 2; length < packed.size(); ++length) {
    write("f.gz", packed.substr(0, length));
    EXPECT_THROW(read_maybe_gzip(path("f.gz")), IoError) << length;
  }
}

TEST_F(Files, AChangedByteOfGzipIsRefusedOrHarmless) {
  const std::string text = "0,1,2\n3,4,5\n";
  const std::string packed = gzipped(text);
  for (std::size_t at = 2; at < packed.size(); ++at) {
    std::string changed = packed;
    changed[at] = static_cast<char>(~changed[at]);
    write("f.gz", changed);
    try {
      EXPECT_EQ(text_of(read_maybe_gzip(path("f.gz"))), text) << at;  // header bytes: time, system
    } catch (const IoError&) {
    }
  }
}

TEST_F(Files, AGzipBombStopsAtItsBound) {
  write("bomb.gz", gzipped(std::string(4 << 20, '0')));
  EXPECT_THROW(read_maybe_gzip(path("bomb.gz"), 1 << 20), IoError);
}

}  // namespace
}  // namespace riffle::io
