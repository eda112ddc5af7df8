// Device: Buffer, Stream, Event and Module behind one small interface. Implementations: cpu/,
// cuda/, null/ (records, runs nothing). docs/adding-a-device.md says how to add one (one folder).
//
// Nothing that enqueues blocks on compute. Errors of enqueued work ride in the Event that follows
// it: after a failure a stream skips what is queued, and events recorded on it carry the first
// error to whoever waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "riffle/error.h"
#include "runtime/kernel_abi.h"
#include "runtime/schedule.h"

namespace riffle::runtime {

class Trace;

/// Device memory. Freed by the destructor; the device must outlive it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::int64_t bytes() const noexcept = 0;
  /// Host address where the device shares memory with the host (cpu), else nullptr. 64-byte
  /// aligned.
  virtual std::byte* host() noexcept = 0;
  /// The address that launches, copies and fills on this device take.
  virtual std::byte* address() noexcept = 0;
  /// False: nothing is kept (null). Hooks then get no bytes, and zeros are read.
  virtual bool keeps_bytes() const noexcept { return true; }
  /// Moves bytes between the host and [offset, offset + size); blocks until they have arrived. Any
  /// thread. Not ordered with streams: nothing that is enqueued may touch these bytes. Throws
  /// DeviceError.
  virtual void write(std::int64_t offset, std::span<const std::byte> from);
  virtual void read(std::int64_t offset, std::span<std::byte> to);
};

/// Host code that runs a kernel on its operands' host addresses.
using HostCall = std::function<void(void* const* operands)>;

/// Kernels ready to launch.
struct KernelEntry {
  std::string name;
  KernelGeometry geometry;
  HostKernel function = nullptr;  ///< cpu
  /// cpu, instead of `function`: host code such as the reference back end; runs as one task.
  HostCall host_function;
};
/// What a module is made from; `owner` keeps the code alive as long as the module.
struct ModuleImage {
  std::string name;
  std::vector<KernelEntry> kernels;
  const DeviceModule* device = nullptr;  ///< GPUs: row i is kernel i; lives as long as `owner`
  std::shared_ptr<void> owner;
};
class Module {
 public:
  virtual ~Module() = default;
  virtual const std::string& name() const noexcept = 0;
  virtual std::size_t kernel_count() const noexcept = 0;
  /// The kernel as host code that the executor has to bring the operands to (runtime/staging.h);
  /// null: the device launches it.
  virtual const HostCall* host_kernel(std::int32_t kernel) const noexcept { return nullptr; }
};

/// One-shot until recorded again; never recorded counts as complete. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  /// Complete (successfully or not)?
  virtual bool query() const noexcept = 0;
  /// Blocks the calling host thread; throws the first error that it carries.
  virtual void synchronize() = 0;
};

/// The first error of a stream, and when it happened (steady clock): it travels with events, so
/// that among several failed streams the earliest failure can be told.
struct Failure {
  std::exception_ptr error;
  std::int64_t at_ns = 0;
  explicit operator bool() const noexcept { return error != nullptr; }
};

/// A queue of work, in order. Enqueueing and draining are done by one thread at a time. What is
/// enqueued begins at the latest when the stream is flushed or drained, or when somebody waits for
/// an event that was recorded on it. The destructor drains.
class Stream {
 public:
  virtual ~Stream() = default;
  /// `operands[i]` addresses: (buffer, byte offset) resolved by the executor.
  virtual void launch(Module& module, std::int32_t kernel, std::span<void* const> operands,
                      const Command* command) = 0;
  virtual void copy(void* destination, const void* source, std::int64_t bytes,
                    const Command* command) = 0;
  virtual void fill(void* destination, std::uint8_t byte, std::int64_t bytes,
                    const Command* command) = 0;
  virtual void record(Event& event, const Command* command = nullptr) = 0;
  /// What follows waits for the most recent record of `event` enqueued so far, on any stream.
  virtual void wait(Event& event, const Command* command = nullptr) = 0;
  /// Runs `function` on the stream's thread, in order. What it throws fails the stream.
  virtual void host_call(std::function<void()> function, const Command* command) = 0;
  /// Launches, copies, fills and records between the two are one unit that comes again with the
  /// same key, step after step: a device may then start all of it at once (a CUDA graph). Records
  /// in it may count as enqueued only from end_segment on. A wait or a host call ends it too.
  virtual void begin_segment(std::int64_t key) { static_cast<void>(key); }
  virtual void end_segment() {}
  /// Lets the work begin although nobody waits yet. Never blocks.
  virtual void flush() = 0;
  /// From any thread: the stream fails with `failure` (unless it already has) and skips what has
  /// not begun yet.
  virtual void fail(const Failure& failure) noexcept = 0;
  /// Blocks until all that was enqueued is done, running it on this thread where the stream allows
  /// (StreamInfo::driven_by_waiter). `cancelled`, if given, is polled between commands and while
  /// blocked; once true the stream fails with Cancelled. Returns the first failure and clears it:
  /// the stream can be used again.
  virtual Failure drain(const std::function<bool()>* cancelled) = 0;
  /// The CUstream that it is; null where it is none.
  virtual void* native() const noexcept { return nullptr; }
  /// Calls `call` with native(), the device's context current, once all that was enqueued here has
  /// been handed to the driver: usually at once, on this thread; behind a host call, later on the
  /// stream's. What it enqueues is in order with the rest. What it throws fails the stream. Throws
  /// DeviceError on a device without native streams.
  virtual void enqueue_native(std::function<void(void* stream)> call, const Command* command);
  /// Drains; throws the failure.
  void synchronize() {
    if (const Failure failure = drain(nullptr)) std::rethrow_exception(failure.error);
  }
};

struct DeviceOptions {
  int threads = 0;                ///< pool workers including the caller; 0: the machine's cores
  std::int64_t memory_limit = 0;  ///< bytes; 0: none. Beyond it `allocate` throws (tests, users)
};

/// What code generation needs to know of a GPU.
struct GpuInfo {
  std::string name;
  int sm = 0;              ///< compute capability × 10: 90
  int driver_version = 0;  ///< cuDriverGetVersion: 12040 is CUDA 12.4
  std::int64_t memory_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const noexcept = 0;  ///< "cpu", "null", "cuda"
  /// Not null: launches take ModuleImage::device, made for this GPU. Null: they take host code.
  virtual const GpuInfo* gpu() const noexcept { return nullptr; }
  /// Empty while the device works; else the error that closed it: what was in its memory is gone,
  /// and every call fails until there is a new device, for most errors in a new process.
  virtual std::string closed() const { return {}; }
  virtual std::unique_ptr<Buffer> allocate(std::int64_t bytes, std::string_view purpose) = 0;
  /// `id` marks the stream's spans.
  virtual std::unique_ptr<Stream> create_stream(const StreamInfo& info, StreamId id = 0) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  virtual std::unique_ptr<Module> load(ModuleImage image) = 0;
  virtual std::int64_t allocated_bytes() const noexcept = 0;
  virtual std::int64_t peak_bytes() const noexcept = 0;
  /// While set, streams append spans to it. Set only while every stream is idle.
  virtual void set_trace(Trace* trace) noexcept = 0;
  virtual Trace* trace() const noexcept = 0;
};

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);
/// Addresses are fake, launches are recorded and complete at once; waits and records keep order.
std::unique_ptr<Device> make_null_device(const DeviceOptions& options);

}  // namespace riffle::runtime
