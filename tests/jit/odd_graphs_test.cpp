// Graphs that nobody means to write: each trains, answers by name and agrees with its splits.
#include <gtest/gtest.h>

#include <cstring>

#include "riffle/riffle.h"
#include "tests/jit/training.h"

namespace riffle::test {
namespace {

SessionOptions options() { return {.threads = 2, .cache_directory = ""}; }

float scalar(const HostTensor& tensor) {
  float value = 0;
  std::memcpy(&value, tensor.bytes.data(), sizeof value);
  return value;
}

TEST(OddGraphs, ALossThatIsAParameterIsReadAsTheStepSawIt) {
  Session session(options());
  Executable executable = session.compile(Graph::parse(R"(graph @bare {
    %w = param : f32[]
    %u = param : f32[2]
    return %w, %u, %w
  })"));
  executable.init(3);
  executable.set_optimizer({.name = "sgd", .lr = 0.5});
  const float before = scalar(executable.get("param/w"));
  const StepResult result = executable.step();
  EXPECT_EQ(result.loss, before);
  EXPECT_EQ(scalar(executable.get("loss")), before);
  EXPECT_EQ(scalar(executable.get("param/w")), before - 0.5F);
  for (const std::string& name : executable.names()) EXPECT_NO_THROW(executable.get(name)) << name;
}

TEST(OddGraphs, AParameterNamedLossIsNotTheLoss) {
  Session session(options());
  Executable executable = session.compile(Graph::parse(R"(graph @named {
    %loss  = param : f32[]
    %total = mul(%loss, 3)
    return %total
  })"));
  executable.init(3);
  executable.set_optimizer({.name = "sgd", .lr = 0});
  const float parameter = scalar(executable.get("param/loss"));
  executable.step();
  EXPECT_EQ(scalar(executable.get("param/loss")), parameter);
  EXPECT_EQ(scalar(executable.get("loss")), 3 * parameter);
  EXPECT_EQ(scalar(executable.get("total")), 3 * parameter);
  EXPECT_FALSE(executable.has("param/total"));
}

}  // namespace
}  // namespace riffle::test
