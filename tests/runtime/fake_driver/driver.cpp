// Libraries that pass for libcuda.so.1 up to a point; which point is a macro
// (tests/CMakeLists.txt).
#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
enum { kSuccess = 0, kStub = 34, kNoDevice = 100, kDriverMismatch = 803 };
[[maybe_unused]] int nothing() { return kSuccess; }
[[maybe_unused]] int name_of(int code, const char** name) {
  *name = code == kNoDevice ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
  return kSuccess;
}
[[maybe_unused]] int text_of(int, const char** text) {
  *text = "the versions differ";
  return kSuccess;
}
[[maybe_unused]] int init(unsigned) {
#if defined(FAKE_NO_DEVICE)
  return kNoDevice;
#elif defined(FAKE_BROKEN)
  return kDriverMismatch;
#else
  return kSuccess;
#endif
}
[[maybe_unused]] int device_count(int* count) {
  *count = 0;
  return kSuccess;
}
}  // namespace

#if !defined(FAKE_UNRELATED)
EXPORT int cuDriverGetVersion(int* version) {
#if defined(FAKE_STUB)
  return kStub;
#elif defined(FAKE_OLD)
  *version = 11040;
#elif defined(FAKE_INCOMPLETE)
  *version = 12000;
#else
  *version = 12040;
#endif
  return kSuccess;
}

#if !defined(FAKE_OLD) && !defined(FAKE_STUB)
EXPORT int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* status) {
  *status = 0;
  *function = reinterpret_cast<void*>(&nothing);
  if (std::strcmp(name, "cuInit") == 0) *function = reinterpret_cast<void*>(&init);
  if (std::strcmp(name, "cuDeviceGetCount") == 0)
    *function = reinterpret_cast<void*>(&device_count);
  if (std::strcmp(name, "cuGetErrorName") == 0) *function = reinterpret_cast<void*>(&name_of);
  if (std::strcmp(name, "cuGetErrorString") == 0) *function = reinterpret_cast<void*>(&text_of);
#if defined(FAKE_INCOMPLETE)
  if (std::strcmp(name, "cuLaunchKernel") == 0) {
    *function = nullptr;
    *status = 2;
  }
#endif
  return kSuccess;
}
#endif
#else
EXPORT int unrelated() { return kSuccess; }
#endif
