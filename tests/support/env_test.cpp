#include "support/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace riffle {
namespace {

TEST(Environment, ListsEachVariableOnceWithItsMeaning) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& v : environment_variables()) {
    EXPECT_TRUE(names.insert(v.name).second) << v.name;
    EXPECT_FALSE(v.meaning.empty()) << v.name;
  }
  EXPECT_TRUE(names.contains("RIFFLE_CACHE_DIR"));
}

TEST(Environment, EmptyCountsAsUnset) {
  ::setenv("RIFFLE_CPU", "x86-64-v3", 1);
  EXPECT_EQ(environment("RIFFLE_CPU"), "x86-64-v3");
  ::setenv("RIFFLE_CPU", "", 1);
  EXPECT_EQ(environment("RIFFLE_CPU"), std::nullopt);
  ::unsetenv("RIFFLE_CPU");
  EXPECT_EQ(environment("RIFFLE_CPU"), std::nullopt);
}

}  // namespace
}  // namespace riffle
