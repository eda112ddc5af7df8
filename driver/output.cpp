#include "driver/output.h"

#include <cstdio>

namespace riffle::driver {
namespace {

void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stream);
  std::fflush(stream);
}

}  // namespace

void Output::clear_progress() {
  if (!std::exchange(progress_shown_, false)) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void Output::result(const Json& object, std::string_view text) {
  std::scoped_lock lock(mutex_);
  clear_progress();
  if (options_.json)
    put(stdout, object.dump(-1, ' ', false, Json::error_handler_t::replace));
  else if (!text.empty())
    put(stdout, text);
}

void Output::note(std::string_view text) {
  std::scoped_lock lock(mutex_);
  clear_progress();
  put(stderr, "note: " + std::string(text));
}

void Output::progress(std::string_view line) {
  std::scoped_lock lock(mutex_);
  if (!options_.progress) return;
  std::fputs("\r\x1b[K", stderr);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  progress_shown_ = !line.empty();
}

void Output::error(std::string_view where, std::string_view kind, std::string_view message) {
  std::scoped_lock lock(mutex_);
  clear_progress();
  if (options_.json) {
    const Json object = {{"error", message}, {"kind", kind}, {"where", where}};
    put(stdout, object.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  std::string line;
  if (!where.empty()) line += std::string(where) + ": ";
  line += options_.color ? "\x1b[1;31merror:\x1b[0m " : "error: ";
  put(stderr, line + std::string(message));
}

}  // namespace riffle::driver
