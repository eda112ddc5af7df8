// Compares our declarations of NCCL's API with the installed header, where there is one with the
// toolkit's headers that it includes. Nothing here is compiled otherwise: riffle builds without
// NCCL.
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)

#include <nccl.h>

#include <type_traits>

#include "runtime/collectives/nccl/abi.h"

namespace riffle::runtime::nccl {
namespace {

// Equal in how a call passes it: size, pointer or not, class or not.
template <typename Ours, typename Theirs>
constexpr bool passes_alike() {
  return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
         std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         std::is_class_v<Ours> == std::is_class_v<Theirs> &&
         std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
}
template <typename Ours, typename Theirs>
struct Same : std::false_type {};
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Same<OurResult(Ours...), TheirResult(Theirs...)>
    : std::bool_constant<passes_alike<OurResult, TheirResult>() &&
                         (passes_alike<Ours, Theirs>() && ...)> {};

#define NCCL_FUNCTION(kind, version, Type, Name, parameters)          \
  static_assert(Same<Type parameters, decltype(::nccl##Name)>::value, \
                "nccl" #Name " is declared otherwise in the installed nccl.h");
#include "runtime/collectives/nccl/nccl_api.def"

static_assert(sizeof(UniqueId) == sizeof(::ncclUniqueId));

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == theirs)
SAME(kSuccess, ::ncclSuccess);
SAME(kUnhandledCudaError, ::ncclUnhandledCudaError);
SAME(kSystemError, ::ncclSystemError);
SAME(kInternalError, ::ncclInternalError);
SAME(kInvalidArgument, ::ncclInvalidArgument);
SAME(kInvalidUsage, ::ncclInvalidUsage);
SAME(kRemoteError, ::ncclRemoteError);
SAME(kInProgress, ::ncclInProgress);
SAME(kInt32, ::ncclInt32);
SAME(kInt64, ::ncclInt64);
SAME(kFloat16, ::ncclFloat16);
SAME(kFloat32, ::ncclFloat32);
SAME(kFloat64, ::ncclFloat64);
SAME(kBfloat16, ::ncclBfloat16);
SAME(kSum, ::ncclSum);
SAME(kMax, ::ncclMax);
SAME(kMin, ::ncclMin);
SAME(kAvg, ::ncclAvg);
#undef SAME

static_assert(offsetof(Config, size) == offsetof(::ncclConfig_t, size) &&
              offsetof(Config, magic) == offsetof(::ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(::ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(::ncclConfig_t, blocking));
constexpr ::ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(Config{}.magic == kTheirs.magic && Config{}.blocking == kTheirs.blocking);

}  // namespace
}  // namespace riffle::runtime::nccl

#endif
