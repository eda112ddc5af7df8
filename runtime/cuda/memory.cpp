#include "runtime/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace riffle::runtime::cuda {
namespace {
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kKeptStagings = 2;  // as many transfers at once without pinning anew
constexpr std::int64_t kAlignment = 256;
}  // namespace

PinnedMemory::PinnedMemory(std::shared_ptr<const Context> context, std::size_t bytes)
    : context_(std::move(context)) {
  CUDA_CALL(*context_, MemHostAlloc, &data_, bytes, kHostAllocPortable);
}
PinnedMemory::~PinnedMemory() {
  if (const Bind bind(*context_, std::nothrow); bind) context_->api().MemFreeHost(data_);
}

DriverEvent::DriverEvent(std::shared_ptr<const Context> context, unsigned flags)
    : context_(std::move(context)) {
  CUDA_CALL(*context_, EventCreate, &event_, flags);
}
DriverEvent::~DriverEvent() {
  if (const Bind bind(*context_, std::nothrow); bind) context_->api().EventDestroy(event_);
}

/// Two chunks: one is filled or emptied by the host while the other travels.
struct Memory::Staging {
  explicit Staging(const std::shared_ptr<const Context>& context)
      : pinned(context, 2 * kChunk),
        arrived{DriverEvent(context, kEventDisableTiming | kEventBlockingSync),
                DriverEvent(context, kEventDisableTiming | kEventBlockingSync)} {}
  PinnedMemory pinned;
  DriverEvent arrived[2];
};

class Memory::Lease {
 public:
  explicit Lease(Memory& memory) : memory_(memory) {
    {
      const std::lock_guard lock(memory_.mutex_);
      if (!memory_.staging_.empty()) {
        staging_ = std::move(memory_.staging_.back());
        memory_.staging_.pop_back();
      }
    }
    if (!staging_) staging_ = std::make_unique<Staging>(memory_.context_);
  }
  ~Lease() {
    // A transfer that failed half-way may still use the chunks.
    if (in_flight_) memory_.context_->api().StreamSynchronize(memory_.copies_);
    const std::lock_guard lock(memory_.mutex_);
    if (memory_.staging_.size() < kKeptStagings) memory_.staging_.push_back(std::move(staging_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::byte* chunk(std::size_t i) const { return staging_->pinned.data() + i % 2 * kChunk; }
  void depart(std::size_t i) {
    in_flight_ = true;
    CUDA_CALL(*memory_.context_, EventRecord, staging_->arrived[i % 2].handle(), memory_.copies_);
  }
  void arrive(std::size_t i) const {
    CUDA_CALL(*memory_.context_, EventSynchronize, staging_->arrived[i % 2].handle());
  }
  void departing() { in_flight_ = true; }
  void done() { in_flight_ = false; }

 private:
  Memory& memory_;
  std::unique_ptr<Staging> staging_;
  bool in_flight_ = false;
};

Memory::Memory(std::shared_ptr<const Context> context, std::int64_t release_threshold)
    : context_(std::move(context)) {
  const Bind bind(*context_);
  const DriverApi& api = context_->api();
  int least = 0, greatest = 0;
  CUDA_CALL(*context_, CtxGetStreamPriorityRange, &least, &greatest);
  CUDA_CALL(*context_, StreamCreateWithPriority, &copies_, kStreamNonBlocking, least);
  try {
    int pools = 0;
    if (api.MemPoolCreate && api.MemPoolDestroy && api.MemPoolSetAttribute && api.MemPoolTrimTo &&
        api.MemAllocFromPoolAsync && api.MemFreeAsync)
      CUDA_CALL(*context_, DeviceGetAttribute, &pools, kMemoryPoolsSupported, context_->device());
    if (pools == 0) return;  // virtualised devices: cuMemAlloc serves, more slowly
    PoolProperties properties;
    properties.location.id = context_->device();
    CUDA_CALL(*context_, MemPoolCreate, &pool_, &properties);
    auto threshold = static_cast<std::uint64_t>(std::max<std::int64_t>(release_threshold, 0));
    CUDA_CALL(*context_, MemPoolSetAttribute, pool_, kPoolReleaseThreshold, &threshold);
  } catch (...) {
    if (pool_) api.MemPoolDestroy(pool_);
    api.StreamDestroy(copies_);
    throw;
  }
}

Memory::~Memory() {
  staging_.clear();
  const Bind bind(*context_, std::nothrow);
  if (!bind) return;
  const DriverApi& api = context_->api();
  api.StreamSynchronize(copies_);  // frees that are still queued
  if (pool_) api.MemPoolDestroy(pool_);
  api.StreamDestroy(copies_);
}

Result Memory::try_allocate(DevicePointer& pointer, std::size_t bytes, const char*& call) {
  const DriverApi& api = context_->api();
  if (!pool_) {
    call = "cuMemAlloc";
    return api.MemAlloc(&pointer, bytes);
  }
  call = "cuMemAllocFromPoolAsync";
  const Result code = api.MemAllocFromPoolAsync(&pointer, bytes, pool_, copies_);
  if (code != kSuccess) return code;
  // Other streams may use it at once.
  const Result arrived = api.StreamSynchronize(copies_);
  if (arrived == kSuccess) return kSuccess;
  call = "cuStreamSynchronize";
  api.MemFreeAsync(pointer, copies_);
  return arrived;
}

DevicePointer Memory::allocate(std::int64_t bytes, std::string_view purpose) {
  const Bind bind(*context_);
  const DriverApi& api = context_->api();
  // Never null, so that an empty tensor has an address too.
  const auto size = static_cast<std::size_t>((std::max<std::int64_t>(bytes, 1) + kAlignment - 1) /
                                             kAlignment * kAlignment);
  DevicePointer pointer = 0;
  const char* call = "";
  Result code = try_allocate(pointer, size, call);
  if (code == kOutOfMemory) {
    // What is still running may free, and the pool may hold what was freed.
    CUDA_CALL(*context_, CtxSynchronize);
    if (pool_) CUDA_CALL(*context_, MemPoolTrimTo, pool_, 0);
    code = try_allocate(pointer, size, call);
  }
  if (code == kOutOfMemory) {
    std::size_t free = 0, total = 0;
    const bool known = api.MemGetInfo(&free, &total) == kSuccess;
    throw DeviceError(
        {.what = fmt::format("out of memory: the device has no {} bytes for {}{}", bytes, purpose,
                             known ? fmt::format(" ({} of its {} are free)", free, total) : ""),
         .where = call,
         .hint = "a smaller batch, or closing other programs that use the device",
         .foreign = name_of(api, code)});
  }
  context_->check(code, call, purpose);
  return pointer;
}

void Memory::free(DevicePointer pointer) noexcept {
  const Bind bind(*context_, std::nothrow);
  if (!bind) return;
  if (pool_)
    context_->api().MemFreeAsync(pointer, copies_);
  else
    context_->api().MemFree(pointer);
}

void Memory::write(DevicePointer to, std::span<const std::byte> from) {
  if (from.empty()) return;
  const Bind bind(*context_);
  Lease lease(*this);
  std::size_t chunk = 0;
  for (std::size_t at = 0; at < from.size(); at += kChunk, ++chunk) {
    const std::size_t size = std::min(kChunk, from.size() - at);
    if (chunk >= 2) lease.arrive(chunk);
    std::memcpy(lease.chunk(chunk), from.data() + at, size);
    lease.departing();
    CUDA_CALL(*context_, MemcpyHtoDAsync, to + at, lease.chunk(chunk), size, copies_);
    lease.depart(chunk);
  }
  lease.arrive(chunk - 1);  // in order: the others have arrived too
  lease.done();
}

void Memory::read(DevicePointer from, std::span<std::byte> to) {
  if (to.empty()) return;
  const Bind bind(*context_);
  Lease lease(*this);
  const auto size_of = [&](std::size_t chunk) {
    return std::min(kChunk, to.size() - chunk * kChunk);
  };
  const auto depart = [&](std::size_t chunk) {
    lease.departing();
    CUDA_CALL(*context_, MemcpyDtoHAsync, lease.chunk(chunk), from + chunk * kChunk, size_of(chunk),
              copies_);
    lease.depart(chunk);
  };
  const std::size_t chunks = (to.size() + kChunk - 1) / kChunk;
  for (std::size_t i = 0; i < std::min<std::size_t>(chunks, 2); ++i) depart(i);
  for (std::size_t i = 0; i < chunks; ++i) {
    lease.arrive(i);
    std::memcpy(to.data() + i * kChunk, lease.chunk(i), size_of(i));
    if (i + 2 < chunks) depart(i + 2);
  }
  lease.done();
}

CudaBuffer::~CudaBuffer() {
  memory_->free(pointer_);
  account_->give(bytes_);
}

void CudaBuffer::require_inside(std::int64_t offset, std::size_t size) const {
  if (offset < 0 || offset > bytes_ || static_cast<std::int64_t>(size) > bytes_ - offset)
    throw UsageError({.what = fmt::format("bytes [{}, {}) are not inside a buffer of {}", offset,
                                          offset + static_cast<std::int64_t>(size), bytes_)});
}

void CudaBuffer::write(std::int64_t offset, std::span<const std::byte> from) {
  require_inside(offset, from.size());
  memory_->write(pointer_ + static_cast<DevicePointer>(offset), from);
}
void CudaBuffer::read(std::int64_t offset, std::span<std::byte> to) {
  require_inside(offset, to.size());
  memory_->read(pointer_ + static_cast<DevicePointer>(offset), to);
}

}  // namespace riffle::runtime::cuda
