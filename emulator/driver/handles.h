// Handles are numbers that are never handed out twice, so that a destroyed one is told from one
// that never was, and none can be dereferenced.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace emulator {

template <class Object, class Handle>
class Handles {
 public:
  Handles(std::uint64_t tag, const char* noun) : first_(tag << 36), next_(first_), noun_(noun) {}

  Handle add(std::shared_ptr<Object> object) {
    next_ += 16;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
    const Handle handle = reinterpret_cast<Handle>(next_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  void erase(Handle handle) { objects_.erase(handle); }
  void clear() { objects_.clear(); }
  std::size_t size() const { return objects_.size(); }
  const std::map<Handle, std::shared_ptr<Object>>& all() const { return objects_; }

  /// Why `handle` names nothing: "a destroyed stream", "no event".
  std::string explain(Handle handle) const {
    const auto number = reinterpret_cast<std::uint64_t>(handle);
    if (number > first_ && number <= next_ && number % 16 == 0) {
      return std::string("a destroyed ") + noun_;
    }
    return std::string("no ") + noun_ + (number == 0 ? " (null)" : "");
  }

 private:
  std::uint64_t first_, next_;
  const char* noun_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace emulator
