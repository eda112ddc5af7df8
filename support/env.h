// Every environment variable that riffle reads, in one table (support/env.cpp; `help environment`).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace riffle {

struct EnvironmentVariable {
  std::string_view name, meaning;
};
std::span<const EnvironmentVariable> environment_variables() noexcept;

/// Value of a variable of the table; nullopt when unset or empty. Naming one that is not in the
/// table is a bug (assert).
std::optional<std::string> environment(std::string_view name);
/// Is a variable of the table set, and to nothing? (CUDA_VISIBLE_DEVICES= means no device.)
bool environment_is_empty(std::string_view name);

}  // namespace riffle
