#include "riffle/error.h"

namespace riffle {

struct Error::Parts {
  ErrorText text;
  std::string full;
};

namespace {
std::string join(const ErrorText& text) {
  std::string full;
  if (!text.where.empty()) full += text.where + ": ";
  full += text.what;
  if (!text.foreign.empty()) full += " [" + text.foreign + "]";
  if (!text.hint.empty()) full += ". Try: " + text.hint;
  return full;
}
}  // namespace

Error::Error(ErrorText text) {
  auto parts = std::make_shared<Parts>();
  parts->full = join(text);
  parts->text = std::move(text);
  parts_ = std::move(parts);
}
Error::~Error() = default;

const char* Error::what() const noexcept { return parts_->full.c_str(); }
std::string_view Error::message() const noexcept { return parts_->text.what; }
std::string_view Error::where() const noexcept { return parts_->text.where; }
std::string_view Error::hint() const noexcept { return parts_->text.hint; }
std::string_view Error::foreign() const noexcept { return parts_->text.foreign; }

std::string_view Error::kind() const noexcept { return "Error"; }
std::string_view GraphError::kind() const noexcept { return "GraphError"; }
std::string_view CompileError::kind() const noexcept { return "CompileError"; }
std::string_view DeviceError::kind() const noexcept { return "DeviceError"; }
std::string_view CommError::kind() const noexcept { return "CommError"; }
std::string_view IoError::kind() const noexcept { return "IoError"; }
std::string_view UsageError::kind() const noexcept { return "UsageError"; }
std::string_view Cancelled::kind() const noexcept { return "Cancelled"; }

}  // namespace riffle
