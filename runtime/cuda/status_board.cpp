#include "runtime/cuda/status_board.h"

#include <algorithm>
#include <cstring>

namespace riffle::runtime::cuda {
namespace {
constexpr std::size_t kSlots = 512;
}

StatusBoard::~StatusBoard() {
  for (const Chunk& chunk : chunks_) memory_->free(chunk.device);
}

// The slots of a module that is gone, or nothing.
bool StatusBoard::reuse(std::size_t count, Range& range) {
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it)
    if (it->second.count == count && it->second.module.expired()) {
      range = it->second;
      ranges_.erase(it);
      return true;
    }
  return false;
}

const StatusBoard::Range& StatusBoard::range(const std::shared_ptr<const LoadedModule>& module) {
  if (latest_ && latest_id_ == module->id()) return *latest_;
  auto found = ranges_.find(module->id());
  if (found == ranges_.end()) {
    const std::size_t count = module->kernels().size();
    Range range;
    if (!reuse(count, range)) {
      if (chunks_.empty() || chunks_.back().used + count > chunks_.back().size) {
        Chunk chunk;
        chunk.size = std::max(kSlots, count);
        const std::size_t bytes = chunk.size * sizeof(KernelStatus);
        chunk.host = std::make_unique<PinnedMemory>(memory_->context(), bytes);
        chunk.launched.resize(chunk.size);
        chunks_.reserve(chunks_.size() + 1);
        chunk.device = memory_->allocate(static_cast<std::int64_t>(bytes), "kernel status");
        const Result code =
            memory_->context()->api().MemsetD8Async(chunk.device, 0, bytes, stream_);
        if (code != kSuccess) memory_->free(chunk.device);
        memory_->context()->check(code, "cuMemsetD8Async", "kernel status");
        chunks_.push_back(std::move(chunk));
      }
      range = {
          .chunk = chunks_.size() - 1, .first = chunks_.back().used, .count = count, .module = {}};
      chunks_.back().used += count;
    }
    range.module = module;
    latest_ = nullptr;
    found = ranges_.emplace(module->id(), std::move(range)).first;
  }
  latest_ = &found->second;  // stays where it is: a node
  latest_id_ = module->id();
  return found->second;
}

DevicePointer StatusBoard::slot(const std::shared_ptr<const LoadedModule>& module,
                                std::int32_t kernel) {
  const Range& place = range(module);
  const std::size_t index = place.first + static_cast<std::size_t>(kernel);
  Chunk& chunk = chunks_[place.chunk];
  chunk.launched[index] = ++launches_;
  dirty_ = true;
  return chunk.device + index * sizeof(KernelStatus);
}

void StatusBoard::enqueue_read() {
  if (!dirty_) return;
  for (const Chunk& chunk : chunks_)
    CUDA_CALL(*memory_->context(), MemcpyDtoHAsync, chunk.host->data(), chunk.device,
              chunk.used * sizeof(KernelStatus), stream_);
  dirty_ = false;
  read_ = true;
}

std::optional<StatusBoard::Report> StatusBoard::take() {
  if (!read_) return std::nullopt;
  read_ = false;
  const Context& context = *memory_->context();
  std::uint64_t first = ~std::uint64_t{0};
  KernelStatus report;
  std::size_t in_chunk = 0, in_slot = 0;
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    for (std::size_t s = 0; s < chunks_[c].used; ++s) {
      KernelStatus status;
      std::memcpy(&status, chunks_[c].host->data() + s * sizeof status, sizeof status);
      if (status.code == 0 || chunks_[c].launched[s] >= first) continue;
      first = chunks_[c].launched[s];
      report = status;
      in_chunk = c;
      in_slot = s;
    }
  if (report.code == 0) return std::nullopt;
  for (const Chunk& chunk : chunks_)
    CUDA_CALL(context, MemsetD8Async, chunk.device, 0, chunk.used * sizeof(KernelStatus), stream_);
  for (const auto& [id, range] : ranges_)
    if (range.chunk == in_chunk && in_slot >= range.first && in_slot < range.first + range.count)
      if (const auto module = range.module.lock())
        return Report{report, module->kernels()[in_slot - range.first].name, module->name()};
  return Report{report, "of a module that is gone", {}};
}

}  // namespace riffle::runtime::cuda
