#include "emulator/driver/report.h"

namespace emulator {
namespace {

constexpr std::size_t kMostLines = 1000;

}  // namespace

void Report::add(const std::string& kind, const std::string& text, const std::string& key) {
  const std::string& same = key.empty() ? text : key;
  const std::lock_guard lock(mutex_);
  for (Line& line : lines_) {
    if (line.kind == kind && line.key == same) {
      ++line.times;
      return;
    }
  }
  if (lines_.size() == kMostLines) {
    ++dropped_;
    return;
  }
  lines_.push_back({kind, text, same});
}

std::string Report::text() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const Line& line : lines_) {
    all += line.kind + ": " + line.text;
    if (line.times > 1) all += " (" + std::to_string(line.times) + " times)";
    all += "\n";
  }
  if (dropped_ > 0) all += "and " + std::to_string(dropped_) + " more lines\n";
  return all;
}

std::size_t Report::count(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const Line& line : lines_) {
    if (kind.empty() ? line.kind != "note" : line.kind == kind) count += line.times;
  }
  return count;
}

void Report::clear() {
  const std::lock_guard lock(mutex_);
  lines_.clear();
  dropped_ = 0;
}

}  // namespace emulator
