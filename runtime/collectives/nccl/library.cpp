// Start reading at Library::load.
#include "runtime/collectives/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "riffle/error.h"
#include "support/env.h"

namespace riffle::runtime::nccl {
namespace {

constexpr char kLibraryName[] = "libnccl.so.2";
// Where packages and toolkits put it without telling the loader.
constexpr std::array kPlaces = {"/usr/lib/x86_64-linux-gnu/libnccl.so.2",
                                "/usr/lib/aarch64-linux-gnu/libnccl.so.2",
                                "/usr/lib64/libnccl.so.2",
                                "/usr/local/lib/libnccl.so.2",
                                "/usr/local/cuda/lib64/libnccl.so.2",
                                "/usr/local/cuda/lib/libnccl.so.2"};

std::string why_not_opened(const std::string& path) {
  const char* why = ::dlerror();
  return why ? why : path;
}

}  // namespace

std::string version_text(int version) {
  // NCCL_VERSION of nccl.h: the digits of the minor version became two with 2.9.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
  return fmt::format("{}.{}.{}", major, minor, version % 100);
}

std::shared_ptr<const Library> Library::load(const std::string& path) {
  const std::shared_ptr<Library> library(new Library);
  library->open(path.empty() ? environment("RIFFLE_NCCL").value_or(kLibraryName) : path);
  library->ask_version();
  library->resolve();
  return library;
}

void Library::open(const std::string& path) {
  path_ = path;
  // Local: the functions of two libraries must not be taken for one another.
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_) return;
  std::vector<std::string> tried = {why_not_opened(path)};
  if (path == kLibraryName)
    for (const char* place : kPlaces) {
      library_ = ::dlopen(place, RTLD_NOW | RTLD_LOCAL);
      if (library_) {
        path_ = place;
        return;
      }
      tried.push_back(why_not_opened(place));
    }
  throw CommError({.what = fmt::format("NCCL was not found (tried: {})", fmt::join(tried, "; ")),
                   .hint = path == kLibraryName
                               ? "install NCCL (libnccl2), or name its libnccl.so.2 in RIFFLE_NCCL"
                               : "a path to a libnccl.so.2",
                   .foreign = "dlopen"});
}

void Library::ask_version() {
  const auto get_version = reinterpret_cast<Result (*)(int*)>(::dlsym(library_, "ncclGetVersion"));
  if (!get_version)
    throw CommError({.what = fmt::format("{} is not NCCL: it has no ncclGetVersion", path_),
                     .hint = "the path of a libnccl.so.2 in RIFFLE_NCCL"});
  const Result asked = get_version(&version_);
  if (asked != kSuccess)
    throw CommError({.what = fmt::format("NCCL {} does not say its version", path_),
                     .hint = "reinstall NCCL",
                     .foreign = fmt::format("ncclResult_t {}", asked)});
  if (version_ < kOldestLibrary)
    throw CommError({.what = fmt::format("NCCL {} is too old: it is {}, riffle needs {}", path_,
                                         version_text(version_), version_text(kOldestLibrary)),
                     .hint = "a newer NCCL"});
}

void Library::resolve() {
  const auto missing = [&](std::string_view name, int version) {
    throw CommError(
        {.what = fmt::format("NCCL {} says that it is {} but has no {}, which came with {}", path_,
                             version_text(version_), name, version_text(version)),
         .hint = "reinstall NCCL; RIFFLE_NCCL names another libnccl.so.2"});
  };
  constexpr bool REQUIRED = true, OPTIONAL = false;
  // NOLINTBEGIN(bugprone-macro-parentheses): a member
#define NCCL_FUNCTION(kind, version, Type, Name, parameters)                            \
  if (version_ >= (version))                                                            \
    api_.Name = reinterpret_cast<decltype(api_.Name)>(::dlsym(library_, "nccl" #Name)); \
  if (kind && !api_.Name) missing("nccl" #Name, version);
#include "runtime/collectives/nccl/nccl_api.def"
  // NOLINTEND(bugprone-macro-parentheses)
}

}  // namespace riffle::runtime::nccl
