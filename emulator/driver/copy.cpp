// Copies and sets. What each promises about the host is the driver manual's "API synchronization
// behavior"; where that says "may", a seeded choice is made, and nothing is taken to be ordered
// that the manual does not promise.
#include <cstring>

#include "emulator/driver/call.h"

namespace emulator::abi {
namespace {

struct Request {
  std::uint64_t to = 0, from = 0, bytes = 0;
  Expect to_expect = Expect::any, from_expect = Expect::any;
};

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

CopyWork copy_work(const Call& c, const Request& request) {
  const End to = classify(c, request.to, request.bytes, request.to_expect, "the destination");
  const End from = classify(c, request.from, request.bytes, request.from_expect, "the source");
  return {to.address, from.address, request.bytes, to.place, from.place, nullptr};
}

void stage(CopyWork& work) {
  work.staged = std::make_shared<std::vector<std::byte>>(work.bytes);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
  std::memcpy(work.staged->data(), reinterpret_cast<const void*>(work.from), work.bytes);
}

CUresult copy(const char* name, const Request& request) {
  return call(name, Needs::context, [&](Call& c) {
    if (request.bytes == 0) return;
    c.forbid_in_capture();
    const auto context = c.context();
    CopyWork work = copy_work(c, request);
    const bool to_device = work.to_place == Place::device;
    const bool between_devices = to_device && work.from_place == Place::device;
    const bool pageable_source = work.from_place == Place::pageable;
    if (pageable_source && to_device) stage(work);
    const auto operation = enqueue(c, *context->legacy, std::move(work), name);
    if (between_devices) return;  // ordered in the legacy stream, but nobody waits
    if (pageable_source && to_device) {
      // The bytes have left the source; they may not have arrived.
      if (c.d.chance()) wait_for(c.d, c.lock, {operation});
      return;
    }
    c.synchronise(*context, {operation});
  });
}

CUresult copy_async(const char* name, const Request& request, CUstream handle) {
  return call(name, Needs::context, [&](Call& c) {
    const auto stream = c.stream(handle);
    if (request.bytes == 0) return;
    CopyWork work = copy_work(c, request);
    const bool pageable = work.from_place == Place::pageable || work.to_place == Place::pageable;
    if (!pageable || stream->capture) {
      enqueue(c, *stream, std::move(work), name);
      return;
    }
    bool waits = c.d.chance();
    if (work.from_place == Place::pageable && c.d.chance()) {
      stage(work);
      waits = false;
    }
    const auto operation = enqueue(c, *stream, std::move(work), name);
    if (waits) wait_for(c.d, c.lock, {operation});
  });
}

FillWork fill_work(const Call& c, std::uint64_t to, std::uint32_t value, std::uint32_t element,
                   std::uint64_t count, bool& pinned) {
  if (to % element != 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "the address is not aligned");
  const End end = classify(c, to, count * element, Expect::device, "the destination");
  pinned = end.place == Place::pinned;
  return {end.address, value, element, count};
}

CUresult fill(const char* name, std::uint64_t to, std::uint32_t value, std::uint32_t element,
              std::uint64_t count) {
  return call(name, Needs::context, [&](Call& c) {
    if (count == 0) return;
    c.forbid_in_capture();
    const auto context = c.context();
    bool pinned = false;
    const auto operation =
        enqueue(c, *context->legacy, fill_work(c, to, value, element, count, pinned), name);
    if (pinned) c.synchronise(*context, {operation});
  });
}

CUresult fill_async(const char* name, std::uint64_t to, std::uint32_t value, std::uint32_t element,
                    std::uint64_t count, CUstream handle) {
  return call(name, Needs::context, [&](Call& c) {
    const auto stream = c.stream(handle);
    if (count == 0) return;
    bool pinned = false;
    enqueue(c, *stream, fill_work(c, to, value, element, count, pinned), name);
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy("cuMemcpyHtoD", {to, number(from), bytes, Expect::device, Expect::host});
}
EMULATOR_EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy("cuMemcpyDtoH", {number(to), from, bytes, Expect::host, Expect::device});
}
EMULATOR_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy("cuMemcpyDtoD", {to, from, bytes, Expect::device, Expect::device});
}
EMULATOR_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy("cuMemcpy", {to, from, bytes});
}
EMULATOR_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, std::size_t bytes) {
  return copy("cuMemcpyPeer", {to, from, bytes, Expect::device, Expect::device});
}

EMULATOR_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                                              CUstream stream) {
  return copy_async("cuMemcpyHtoDAsync", {to, number(from), bytes, Expect::device, Expect::host},
                    stream);
}
EMULATOR_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes,
                                              CUstream stream) {
  return copy_async("cuMemcpyDtoHAsync", {number(to), from, bytes, Expect::host, Expect::device},
                    stream);
}
EMULATOR_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                              CUstream stream) {
  return copy_async("cuMemcpyDtoDAsync", {to, from, bytes, Expect::device, Expect::device}, stream);
}
EMULATOR_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                       CUstream stream) {
  return copy_async("cuMemcpyAsync", {to, from, bytes}, stream);
}
EMULATOR_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                           CUcontext from_context, std::size_t bytes,
                                           CUstream stream) {
  return copy_async("cuMemcpyPeerAsync", {to, from, bytes, Expect::device, Expect::device}, stream);
}

EMULATOR_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) {
  return fill("cuMemsetD8", to, value, 1, count);
}
EMULATOR_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count) {
  return fill("cuMemsetD16", to, value, 2, count);
}
EMULATOR_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) {
  return fill("cuMemsetD32", to, value, 4, count);
}
EMULATOR_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count,
                                         CUstream stream) {
  return fill_async("cuMemsetD8Async", to, value, 1, count, stream);
}
EMULATOR_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count,
                                          CUstream stream) {
  return fill_async("cuMemsetD16Async", to, value, 2, count, stream);
}
EMULATOR_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count,
                                          CUstream stream) {
  return fill_async("cuMemsetD32Async", to, value, 4, count, stream);
}

}  // namespace emulator::abi
