// What goes wrong on the emulated device: one exception, raised where it is noticed, completed by
// whoever knows more on its way up (memory knows the allocation, the interpreter the place in the
// kernel, the driver the stream), and turned into a CUresult and a line of the report at the top.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace emulator {

enum class FaultKind : std::uint8_t {
  illegal_address,       ///< outside every allocation, or past the end of one
  freed_memory,          ///< inside an allocation that was freed
  uninitialised_memory,  ///< read of bytes that nobody wrote
  uninitialised_register,
  misaligned_address,
  read_only_violation,  ///< a write to bytes that this launch read by ld.global.nc, or the reverse
  barrier_divergence,   ///< bar or a .sync operation that some named, living thread never reaches
  invalid_lane,         ///< shfl, vote or match that names an exited or absent lane
  asynchronous_copy,    ///< bytes of a cp.async used before its wait
  shared_race,          ///< two threads of a block touch shared bytes without a barrier between
  illegal_instruction,  ///< not decoded, or an operand that PTX does not allow there
  trap,
  stuck,  ///< more instructions than the limit allows
};

/// Name as the report prints it: "illegal address".
const char* name(FaultKind kind) noexcept;

class Fault : public std::exception {
 public:
  Fault(FaultKind kind, std::string what) : kind_(kind), what_(std::move(what)) {}
  FaultKind kind() const noexcept { return kind_; }
  const char* what() const noexcept override { return what_.c_str(); }
  /// Appends ", kernel k0_add, line 41, block (0,0,0), thread (33,0,0)" and the like.
  void add_place(const std::string& place) { what_ += place; }

 private:
  FaultKind kind_;
  std::string what_;
};

}  // namespace emulator
