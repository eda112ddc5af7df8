// What a careless or hostile user types: each ends in an error with a place, never in a crash.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "driver/comparison.h"
#include "driver/interpreter.h"
#include "driver/reference_scale.h"
#include "io/file.h"
#include "ir/builder.h"
#include "ir/evaluator.h"
#include "riffle/error.h"

namespace riffle::driver {
namespace {

class Hostile : public testing::Test {
 protected:
  Hostile() : directory_(testing::TempDir() + "hostile." + std::to_string(::getpid())) {
    std::filesystem::create_directories(directory_);
  }
  ~Hostile() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  /// Runs commands; the status, and what was said in out_ and err_.
  int run(const std::string& commands) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = interpreter_.run(commands, "-c");
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }

  std::string directory_, out_, err_;
  Output output_{{}};
  Context context_{{.threads = 2, .cache_directory = ""}, output_};
  Interpreter interpreter_{context_, false};
};

constexpr const char* kTiny =
    "graph @tiny {\n %x = input : f32[2]\n %w = param : f32[2]\n %p = mul(%x, %w)\n"
    " %loss = sum(%p)\n return %loss\n}\ninit\n";

TEST_F(Hostile, AScriptThatSourcesItselfIsRefused) {
  const std::string script = write("again.rfls", "source " + path("again.rfls") + "\n");
  EXPECT_EQ(run("source " + script), kCommandFailed);
  EXPECT_NE(err_.find("scripts within scripts"), std::string::npos) << err_;
  EXPECT_EQ(run("version"), kOk);  // and the depth is counted down again
  EXPECT_EQ(run("source " + write("once.rfls", "version\n")), kOk);
}

TEST_F(Hostile, AGraphWithoutEndIsNotReadForever) {
  if (!std::filesystem::is_character_file("/dev/zero")) GTEST_SKIP() << "no /dev/zero";
  EXPECT_EQ(run("load /dev/zero"), kCommandFailed);
  EXPECT_NE(err_.find("at most"), std::string::npos) << err_;
}

TEST_F(Hostile, ADirectoryIsNoGraph) {
  EXPECT_EQ(run("load " + directory_), kCommandFailed);
  EXPECT_NE(err_.find("cannot read the graph"), std::string::npos) << err_;
}

TEST_F(Hostile, BracesInNamesAndCommentsDoNotEndAGraph) {
  EXPECT_EQ(run("graph @odd {\n # }\n %'a}\\'b' = param : f32[]\n return %'a}\\'b'\n}\nshow graph"),
            kOk)
      << err_;
}

TEST_F(Hostile, HooksAtIsKeptForGraphsToCome) {
  EXPECT_EQ(run(std::string("set hooks.at partition\n") + kTiny + "hook print\nstep"), kOk) << err_;
  EXPECT_NE(out_.find("backward of partition_0 starts"), std::string::npos) << out_;
  // A new session has no hooks; adding one again brings the partitions' lines again.
  EXPECT_EQ(run("set threads 1\ninit\nhook print\nstep"), kOk) << err_;
  EXPECT_NE(out_.find("backward of partition_0 starts"), std::string::npos) << out_;
}

TEST_F(Hostile, ACoarseDtypeOnTheWayIsNoDifferenceFromTheReference) {
  EXPECT_EQ(
      run("graph @narrow {\n %w = param : f64[9]\n %n = to(%w, bf16)\n %b = to(%n, f64)\n"
          " %q = mul(%b, %w)\n %loss = sum(%q)\n return %loss, %b\n}\ninit\ncompare reference"),
      kOk)
      << out_;
}

TEST_F(Hostile, APipeIsWrittenNotReplaced) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  io::write_text(pipe, "text");
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  ::close(reader);
}

TEST(RelativeError, CountsOverflowButNotUnderflow) {
  const auto one = [](double value, DType dtype = DType::f32) {
    ir::Array array(TensorType{dtype, {}});
    array.data[0] = value;
    return array;
  };
  EXPECT_EQ(relative_error(one(HUGE_VAL), one(1e100)), HUGE_VAL);
  EXPECT_EQ(relative_error(one(1), one(1e100)), 1);
  EXPECT_LT(relative_error(one(0), one(1e-200)), reference_tolerance(DType::f32));
  EXPECT_GT(relative_error(one(0), one(1e-30)), reference_tolerance(DType::f32));
  EXPECT_EQ(relative_error(one(0, DType::f64), one(1e-100, DType::f64)), 1);
}

TEST(RelativeError, IsOfTheTermsWhereTheyCancel) {
  ir::Builder b("g");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {4}}, "x");
  const ir::Value total = b.append(ir::Op::sum, {x}, {{"dim", ir::Ints{}}, {"keepdim", false}});
  const ir::Graph graph = b.finish({total});
  ir::Array in(TensorType{DType::f32, {4}});
  in.data = {3, -3, 4, -4};
  const auto values = ir::evaluate_all(graph, std::vector{in});
  const auto scales = squared_scales(graph, values, {squares_of(in)});
  ASSERT_EQ(values.back().data[0], 0);
  EXPECT_EQ(scales.back().data[0], 50) << "3² + 3² + 4² + 4²";
  ir::Array found = values.back();
  found.data[0] = 1e-6;  // what rounding leaves
  EXPECT_GT(relative_error(found, values.back()), 1e3 * reference_tolerance(DType::f32));
  EXPECT_LT(relative_error(found, values.back(), &scales.back()), reference_tolerance(DType::f32));
  found.data[0] = 0.01;  // a wrong sum
  EXPECT_GT(relative_error(found, values.back(), &scales.back()), reference_tolerance(DType::f32));
  // Where nothing cancels the scale is no larger than the value.
  in.data = {3, 3, 4, 4};
  EXPECT_LT(squared_scales(graph, ir::evaluate_all(graph, std::vector{in}), {squares_of(in)})
                .back()
                .data[0],
            14 * 14);
}

}  // namespace
}  // namespace riffle::driver
