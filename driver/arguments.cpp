// The words of a command, taken one after the other, each with what was expected there.
#include <algorithm>
#include <charconv>

#include "driver/command.h"

namespace riffle::driver {

std::int64_t parse_integer(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw UsageError(
        {.what = std::string(what) + " must be a whole number, not '" + std::string(text) + "'"});
  return value;
}

double parse_number(std::string_view text, std::string_view what) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw UsageError(
        {.what = std::string(what) + " must be a number, not '" + std::string(text) + "'"});
  return value;
}

std::string Arguments::take(std::string_view what) {
  if (empty()) throw UsageError({.what = "expected " + std::string(what)});
  return words_[next_++];
}

bool Arguments::take_if(std::string_view word) {
  if (empty() || words_[next_] != word) return false;
  ++next_;
  return true;
}

std::string Arguments::option(std::string_view name, std::string default_value) {
  auto found = std::find(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end(), name);
  if (found == words_.end()) return default_value;
  if (std::next(found) == words_.end())
    throw UsageError({.what = std::string(name) + " needs a value"});
  std::string value = *std::next(found);
  words_.erase(found, found + 2);
  return value;
}

std::int64_t Arguments::integer_option(std::string_view name, std::int64_t default_value) {
  if (!has_option(name)) return default_value;
  return parse_integer(option(name, ""), name);
}

bool Arguments::has_option(std::string_view name) const {
  return std::find(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end(), name) !=
         words_.end();
}

std::int64_t Arguments::take_integer(std::string_view what) {
  return parse_integer(take(what), what);
}

std::vector<std::string> Arguments::take_rest() {
  std::vector<std::string> rest(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
  next_ = words_.size();
  return rest;
}

void Arguments::finish() const {
  if (next_ < words_.size()) throw UsageError({.what = "unexpected '" + words_[next_] + "'"});
}

}  // namespace riffle::driver
