// Libraries that pass for libnccl.so.2 up to a point; which point is a macro
// (tests/CMakeLists.txt).
#define EXPORT extern "C" __attribute__((visibility("default")))

#if defined(FAKE_UNRELATED)
EXPORT int something_else() { return 0; }
#else
EXPORT int ncclGetVersion(int* version) {
#if defined(FAKE_OLD)
  *version = 2708;
#elif defined(FAKE_INCOMPLETE)
  *version = 22809;
#endif
#if defined(FAKE_MUTE)
  return 3;
#else
  return 0;
#endif
}
#if !defined(FAKE_OLD)
// One that a library of any age has; the test must not stop at the first row.
EXPORT int ncclGetUniqueId(void*) { return 0; }
#endif
#endif
