// Start reading at Driver::load.
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "riffle/error.h"
#include "support/env.h"

namespace riffle::runtime::cuda {
namespace {

// The toolkit's stub answers to libcuda.so, so the driver's own name comes first and alone.
constexpr char kDriverName[] = "libcuda.so.1";
constexpr char kDisabled[] = "none";

using GetProcAddress = Result (*)(const char*, void**, int, std::uint64_t, int*);

[[noreturn]] void throw_not_found(const std::vector<std::string>& tried, bool ours) {
  throw DeviceError(
      {.what = fmt::format("the CUDA driver was not found (tried: {})", fmt::join(tried, "; ")),
       .hint = ours ? "install the NVIDIA driver, name it in RIFFLE_CUDA_DRIVER, or use device "
                      "cuda-emulated or cpu"
                    : "a path to a libcuda.so.1",
       .foreign = "dlopen"});
}
[[noreturn]] void throw_stub(const std::string& path) {
  throw DeviceError({.what = fmt::format("{} is the CUDA toolkit's stub, not a driver", path),
                     .hint = "install the NVIDIA driver; take the toolkit's lib64/stubs folder out "
                             "of LD_LIBRARY_PATH",
                     .foreign = "CUDA_ERROR_STUB_LIBRARY"});
}
[[noreturn]] void throw_too_old(const std::string& path, int version, std::string_view missing) {
  throw DeviceError(
      {.what = fmt::format("the CUDA driver {} is too old: it is for CUDA {}, riffle needs {}{}",
                           path, version > 0 ? version_text(version) : "of an unknown version",
                           version_text(kOldestDriver),
                           missing.empty() ? "" : fmt::format(" ({} is missing)", missing)),
       .hint = "a newer NVIDIA driver"});
}
[[noreturn]] void throw_disabled(std::string_view why) {
  throw DeviceError({.what = fmt::format("CUDA is disabled: {}", why),
                     .hint = "unset that variable, or use device cuda-emulated or cpu"});
}
[[noreturn]] void throw_no_device(const std::string& path, std::string_view foreign) {
  throw DeviceError({.what = fmt::format("the CUDA driver {} finds no device", path),
                     .hint = "nvidia-smi lists the devices and what is wrong with them; inside a "
                             "container, pass them on (--gpus all)",
                     .foreign = std::string(foreign)});
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

ForkGuard::ForkGuard() noexcept : pid_(::getpid()) {
#ifdef MADV_WIPEONFORK
  void* page =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), MADV_WIPEONFORK) != 0) {
    ::munmap(page, sizeof(int));
    return;
  }
  page_ = static_cast<int*>(page);
  *page_ = 1;
#endif
}
ForkGuard::~ForkGuard() {
  if (page_) ::munmap(const_cast<int*>(page_), sizeof(int));
}
// A load from memory where the kernel wipes the page: getpid is a system call, too dear a launch.
bool ForkGuard::forked() const noexcept { return page_ ? *page_ == 0 : ::getpid() != pid_; }

std::shared_ptr<const Driver> Driver::load(const std::string& library) {
  std::string path = library;
  if (path.empty()) {
    path = environment("RIFFLE_CUDA_DRIVER").value_or(kDriverName);
    if (path == kDisabled) throw_disabled("RIFFLE_CUDA_DRIVER is none");
    if (environment_is_empty("CUDA_VISIBLE_DEVICES"))
      throw_disabled("CUDA_VISIBLE_DEVICES is empty");
  }
  const std::shared_ptr<Driver> driver(new Driver);
  driver->open(path);
  driver->resolve();
  driver->initialise();
  return driver;
}

void Driver::open(const std::string& path) {
  path_ = path;
  // Local: the functions of two drivers must not be taken for one another.
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_) return;
  std::vector<std::string> tried;
  const char* why = ::dlerror();
  tried.push_back(why ? why : path);
  if (path == kDriverName) {
    // Where containers and WSL put it without telling the loader.
    for (const char* place :
         {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
          "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
          "/usr/lib/aarch64-linux-gnu/libcuda.so.1"}) {
      library_ = ::dlopen(place, RTLD_NOW | RTLD_LOCAL);
      if (library_) {
        path_ = place;
        return;
      }
      tried.emplace_back(place);
    }
  }
  throw_not_found(tried, path == kDriverName);
}

double Driver::emulated_speed() const noexcept {
  // emulator/control.h, which stands alone: its riffle_emulator_statistics.
  struct Statistics {
    std::uint64_t launches, operations, thread_instructions;
    double kernel_seconds, instructions_per_second;
  } statistics{};
  const auto get =
      reinterpret_cast<void (*)(Statistics*)>(::dlsym(library_, "riffle_emulator_get_statistics"));
  if (!get) return 0;
  get(&statistics);
  return statistics.instructions_per_second;
}

void Driver::resolve() {
  // Asked of every driver in the same way, however old, to say how old.
  const auto get_version =
      reinterpret_cast<Result (*)(int*)>(::dlsym(library_, "cuDriverGetVersion"));
  if (!get_version)
    throw DeviceError(
        {.what = fmt::format("{} is not a CUDA driver: it has no cuDriverGetVersion", path_),
         .hint = "the libcuda.so.1 of an NVIDIA driver in RIFFLE_CUDA_DRIVER; the emulator's in "
                 "RIFFLE_EMULATOR"});
  const Result asked = get_version(&version_);
  if (asked == kStubLibrary) throw_stub(path_);
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(library_, "cuGetProcAddress_v2"));
  if (asked != kSuccess) version_ = 0;
  if (!get || (version_ > 0 && version_ < kOldestDriver))
    throw_too_old(path_, version_, get ? "" : "cuGetProcAddress_v2");

  const auto find = [&](const char* name, int version) -> void* {
    void* function = nullptr;
    int status = kSymbolFound;
    const Result code = get(name, &function, version, kProcAddressLegacyStream, &status);
    if (code == kStubLibrary) throw_stub(path_);
    return code == kSuccess && status == kSymbolFound ? function : nullptr;
  };
  constexpr bool REQUIRED = true, OPTIONAL = false;
#define CUDA_FUNCTION(kind, version, Name, parameters)                          \
  api_.Name = reinterpret_cast<decltype(api_.Name)>(find("cu" #Name, version)); \
  if ((kind) && !api_.Name) throw_too_old(path_, version_, "cu" #Name);
#include "runtime/cuda/driver_api.def"
}

void Driver::initialise() {
  const auto name_of = [&](Result code) {
    const char* name = nullptr;
    return api_.GetErrorName(code, &name) == kSuccess && name ? std::string(name)
                                                              : fmt::format("CUresult {}", code);
  };
  const Result code = api_.Init(0);
  if (code == kStubLibrary) throw_stub(path_);
  if (code == kNoDevice) throw_no_device(path_, name_of(code));
  if (code != kSuccess) {
    const char* text = nullptr;
    if (api_.GetErrorString(code, &text) != kSuccess) text = nullptr;
    throw DeviceError(
        {.what = fmt::format("the CUDA driver {} (CUDA {}) could not be initialised: {}", path_,
                             version_text(version_), text ? text : "no reason given"),
         .where = "cuInit",
         .hint = code == kSystemDriverMismatch
                     ? "the kernel module and libcuda are of different versions: reboot, or "
                       "reinstall the driver"
                     : "nvidia-smi says more; where it works, restart this program",
         .foreign = name_of(code)});
  }
  const Result counted = api_.DeviceGetCount(&devices_);
  if (counted != kSuccess || devices_ <= 0)
    throw_no_device(path_, counted == kSuccess ? "" : name_of(counted));
}

Driver::~Driver() {
  // Never closed in a child, nor where calls may still be on their way out at exit: libcuda starts
  // threads of its own, and unloading code that they run would end the process.
}

std::string find_emulator() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const auto given = environment("RIFFLE_EMULATOR")) {
    places = {*given, fs::path(*given) / kDriverName};
  } else {
    Dl_info here{};
    fs::path folder;
    std::error_code error;
    if (::dladdr(reinterpret_cast<void*>(&find_emulator), &here) != 0 && here.dli_fname)
      folder = fs::canonical(here.dli_fname, error).parent_path();
    if (folder.empty()) folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    // The build folder and its test programs; an installed library or program.
    for (const char* relative : {"emulator", "../emulator", "riffle", "../lib/riffle",
                                 "../lib64/riffle", "../lib/x86_64-linux-gnu/riffle"})
      places.push_back((folder / relative / kDriverName).lexically_normal());
  }
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place.string();
  }
  std::vector<std::string> tried;
  for (const fs::path& place : places) tried.push_back(place.string());
  throw DeviceError({.what = fmt::format("the emulator's CUDA driver was not found (tried: {})",
                                         fmt::join(tried, "; ")),
                     .hint = "RIFFLE_EMULATOR names the folder with the emulator's libcuda.so.1"});
}

}  // namespace riffle::runtime::cuda
