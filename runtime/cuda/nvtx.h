// Ranges for NVIDIA's profilers, where libnvToolsExt can be loaded; nothing otherwise.
#pragma once

#include <memory>
#include <string>

namespace riffle::runtime::cuda {

class Nvtx {
 public:
  /// Never null; does nothing where the library is missing.
  static std::shared_ptr<const Nvtx> load();

  /// A range on this thread for its lifetime.
  class Range {
   public:
    Range(const Nvtx& nvtx, const std::string* label) : nvtx_(nvtx), open_(label && nvtx.push_) {
      if (open_) nvtx_.push_(label->c_str());
    }
    ~Range() {
      if (open_) nvtx_.pop_();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const Nvtx& nvtx_;
    const bool open_;
  };

 private:
  int (*push_)(const char*) = nullptr;
  int (*pop_)() = nullptr;
};

}  // namespace riffle::runtime::cuda
