// Library: one loaded libnccl and its table of functions (nccl_api.def). Any number may be loaded
// in one process, the real one and the emulator's among them; each communicator holds its own.
//
// Loading ends in a table or in one of three CommErrors that differ in what the reader must do: not
// found (every path tried), too old (found and needed), a function missing.
#pragma once

#include <memory>
#include <string>

#include "runtime/collectives/nccl/abi.h"

namespace riffle::runtime::nccl {

/// Members are null where the library lacks an optional function.
struct NcclApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator
#define NCCL_FUNCTION(kind, version, Type, Name, parameters) Type(*Name) parameters = nullptr;
#include "runtime/collectives/nccl/nccl_api.def"
};

/// 2.14: the first with communicators that do not block, hence can be given up.
inline constexpr int kOldestLibrary = 21400;
/// 22809 → "2.28.9", as ncclGetVersion codes it; before 2.9 2708 is "2.7.8".
std::string version_text(int version);

class Library {
 public:
  /// `path` as for dlopen, or empty for RIFFLE_NCCL, then "libnccl.so.2". Throws CommError.
  static std::shared_ptr<const Library> load(const std::string& path);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const NcclApi& api() const noexcept { return api_; }
  int version() const noexcept { return version_; }
  /// As it was given to dlopen.
  const std::string& path() const noexcept { return path_; }

 private:
  Library() = default;
  void open(const std::string& path);
  void ask_version();
  void resolve();

  NcclApi api_;
  void* library_ = nullptr;  // never closed: its threads may still run when the process ends
  std::string path_;
  int version_ = 0;
};

}  // namespace riffle::runtime::nccl
