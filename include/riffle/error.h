// The errors of riffle: one small hierarchy, thrown by every public function.
//
// Each error says what went wrong, where (a place in a file, a node, a command), and what to try.
// Codes of foreign libraries (LLVM, the operating system, later CUDA, NCCL, MPI) are kept by name.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#if defined(__GNUC__)
#define RIFFLE_API __attribute__((visibility("default")))
#else
#define RIFFLE_API
#endif

namespace riffle {

/// The parts of an error's message. `what` is required; the others may be empty.
struct ErrorText {
  std::string what;       ///< one sentence: what went wrong
  std::string where{};    ///< "FILE:LINE:COL", "%node in @graph", a path, a command
  std::string hint{};     ///< what to try
  std::string foreign{};  ///< name of a foreign library's code, e.g. "ENOSPC"
};

/// Base of every exception that riffle throws on bad input or a failing world.
/// Thread-safe to copy and rethrow. `what()` is "WHERE: WHAT [FOREIGN]. Try: HINT".
class RIFFLE_API Error : public std::exception {
 public:
  explicit Error(ErrorText text);
  ~Error() override;
  const char* what() const noexcept override;
  /// The bare sentence, without place and hint.
  std::string_view message() const noexcept;
  std::string_view where() const noexcept;
  std::string_view hint() const noexcept;
  std::string_view foreign() const noexcept;
  /// "GraphError", "CompileError", …
  virtual std::string_view kind() const noexcept;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;  // shared: copying an exception must not throw
};

/// A graph, a type, a shape or a text that is not valid.
class RIFFLE_API GraphError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};
/// Code could not be generated, linked or loaded.
class RIFFLE_API CompileError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};
/// A device, its memory, or a schedule that may not run on it.
class RIFFLE_API DeviceError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};
/// A collective that failed, mismatched or timed out.
class RIFFLE_API CommError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};
/// A file that cannot be read or written, or whose content is not what it says.
class RIFFLE_API IoError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};
/// A call that the state of a session or a bad argument does not allow.
class RIFFLE_API UsageError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};
/// The running command was cancelled (Ctrl-C, or `Executable::cancel`).
class RIFFLE_API Cancelled : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override;
};

}  // namespace riffle
