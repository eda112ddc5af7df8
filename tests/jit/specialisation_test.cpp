// One Executable over many shapes and settings, and what a Session survives.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>

#include "jit/session.h"
#include "riffle/riffle.h"
#include "tests/jit/training.h"
#include "tests/support/random_graph.h"

namespace riffle::test {
namespace {

SessionOptions options() { return {.threads = 2, .cache_directory = ""}; }

constexpr std::int64_t kRows = 8;
Graph classifier() {
  return Graph::parse(R"(graph @classifier {
    %x          = input : f32[8, 6]
    %target     = input : i64[8]
    %fc1.weight = param : f32[10, 6]
    %fc1.bias   = param : f32[10]
    %fc2.weight = param : f32[4, 10]
    %hidden     = linear(%x, %fc1.weight, %fc1.bias)
    %relu       = relu(%hidden)
    %logits     = linear(%relu, %fc2.weight)
    %loss       = cross_entropy(%logits, %target)
    return %loss, %logits
  })",
                      "classifier.rfl");
}

/// Inputs of `rows` rows; equal seeds have equal leading rows.
void set_batch(Executable& executable, std::int64_t rows, std::uint64_t seed = 1) {
  ir::Array x(TensorType{DType::f32, {rows, 6}}), target(TensorType{DType::i64, {rows}});
  Random random(seed), classes(seed + 1);
  for (double& v : x.data) v = static_cast<float>(random.uniform(-1, 1));
  for (double& v : target.data) v = static_cast<double>(classes.below(4));
  executable.set("x", to_tensor(x));
  executable.set("target", to_tensor(target));
}
Executable ready(Session& session, const std::string& split = "nodes 1") {
  Executable executable = session.compile(classifier(), {.split = split});
  executable.init(2);
  set_batch(executable, kRows);
  return executable;
}
bool has_note(const StepResult& result, const std::string& text) {
  return std::any_of(result.notes.begin(), result.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}
std::vector<std::byte> parameter_bytes(const Executable& executable) {
  std::vector<std::byte> all;
  for (const std::string& name : executable.names())
    if (name.starts_with("param/")) {
      const HostTensor tensor = executable.get(name);
      all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
  return all;
}

/// Runs `call`, which must throw an E, and returns the error.
template <typename E, typename F>
E error_of(F call) {
  try {
    call();
  } catch (const E& error) {
    return error;
  }
  throw std::logic_error("nothing was thrown");
}
/// A tensor of zeros that claims a type; its own number of bytes, unless another is given.
HostTensor zeros(const TensorType& type, std::int64_t bytes = -1) {
  HostTensor tensor;
  tensor.type = type;
  tensor.bytes.resize(static_cast<std::size_t>(bytes < 0 ? type.bytes() : bytes));
  return tensor;
}
void expect_holds(std::string_view text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string_view::npos) << text << "\ndoes not hold\n" << part;
}

TEST(Specialisations, AShortLastBatchIsASecondShape) {
  Session session(options());
  Executable executable = ready(session);
  EXPECT_TRUE(executable.step().notes.empty());
  set_batch(executable, 3);
  const StepResult second = executable.step();
  EXPECT_TRUE(has_note(second, "recompiled: x f32[8,6] → f32[3,6], target i64[8] → i64[3]"))
      << (second.notes.empty() ? "no note" : second.notes[0]);
  EXPECT_EQ(executable.get("logits").type, (TensorType{DType::f32, {3, 4}}));
  EXPECT_EQ(jit::specialisation_count(executable), 2u);

  const std::int64_t compiles = jit::compiler(session).statistics().compiles;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const std::int64_t rows : {kRows, std::int64_t{3}}) {
      set_batch(executable, rows);
      EXPECT_TRUE(executable.step().notes.empty());
    }
  EXPECT_EQ(jit::compiler(session).statistics().compiles, compiles);
  EXPECT_EQ(executable.steps_done(), 8);
}

TEST(Specialisations, HaveABoundedNumberAndSayWhatWasDropped) {
  Session session(options());
  Executable executable = ready(session, "none");
  for (std::int64_t rows = 1; rows <= 12; ++rows) {
    set_batch(executable, rows);
    executable.step();
    EXPECT_EQ(executable.get("logits").type.shape[0], rows);
  }
  EXPECT_LE(jit::specialisation_count(executable), 8u);
  EXPECT_EQ(executable.fallbacks().begin()->second, 4);
  set_batch(executable, 1);  // long dropped: compiled again
  EXPECT_TRUE(has_note(executable.step(), "recompiled"));
}

TEST(Specialisations, EvaluationSharesParametersAndChangesNone) {
  Session session(options());
  Executable executable = ready(session), other = ready(session);
  const double before = executable.evaluate().loss;
  EXPECT_FALSE(executable.has("grad/fc1.weight"));
  const auto parameters = parameter_bytes(executable);
  EXPECT_EQ(executable.evaluate().loss, before);
  EXPECT_EQ(parameter_bytes(executable), parameters);
  EXPECT_EQ(executable.steps_done(), 0);

  EXPECT_EQ(executable.step().loss, before) << "the loss is of the parameters before the update";
  const double after = executable.evaluate().loss;
  EXPECT_NE(after, before);
  EXPECT_EQ(executable.step().loss, after);
  for (int i = 0; i < 2; ++i) other.step();
  EXPECT_EQ(parameter_bytes(executable), parameter_bytes(other)) << "evaluating left a mark";

  set_batch(executable, 2);
  EXPECT_NO_THROW(executable.evaluate());
  EXPECT_EQ(executable.get("logits").type.shape[0], 2);
}

TEST(Specialisations, HooksRunInTrainingOnly) {
  Session session(options());
  Executable executable = ready(session);
  int calls = 0;
  executable.add_hook({.function = [&](const GradientView&) { ++calls; }});
  executable.evaluate();
  EXPECT_EQ(calls, 0);
  executable.step();
  EXPECT_EQ(calls, 3);
}

TEST(Settings, OptimizersAndLearningRatesMayChange) {
  Session session(options());
  Executable executable = ready(session);
  executable.set_optimizer({.name = "none"});
  const auto start = parameter_bytes(executable);
  executable.step();
  EXPECT_EQ(parameter_bytes(executable), start);

  executable.set_optimizer({.name = "sgd", .lr = 0.5});
  executable.step();
  const auto moved = parameter_bytes(executable);
  EXPECT_NE(moved, start);
  const std::int64_t compiles = jit::compiler(session).statistics().compiles;
  executable.set_learning_rate(0);
  executable.step();
  EXPECT_EQ(parameter_bytes(executable), moved);
  EXPECT_EQ(jit::compiler(session).statistics().compiles, compiles);
  executable.set_learning_rate(0.25);
  EXPECT_EQ(executable.optimizer().lr, 0.25);

  const HostTensor weight = executable.get("fc1.weight");
  executable.step();
  const HostTensor gradient = executable.get("grad/fc1.weight"), now = executable.get("fc1.weight");
  for (std::size_t i = 0; i < weight.as<float>().size(); ++i)
    EXPECT_EQ(now.as<float>()[i], weight.as<float>()[i] - gradient.as<float>()[i] * 0.25f);

  executable.set_optimizer({.name = "adam", .lr = 0.01});
  for (int i = 0; i < 3; ++i) executable.step();
  EXPECT_GT(executable.memory().optimizer, 0);
  EXPECT_THROW(executable.set_optimizer({.name = "lion"}), UsageError);
  EXPECT_THROW(executable.set_optimizer({.lr = -1}), UsageError);
  EXPECT_THROW(executable.set_learning_rate(std::numeric_limits<double>::quiet_NaN()), UsageError);
  EXPECT_EQ(executable.optimizer().name, "adam");
  EXPECT_NO_THROW(executable.step());
}

TEST(Settings, FreshStateAfterInit) {
  Session session(options());
  Executable executable = ready(session), other = ready(session);
  for (Executable* e : {&executable, &other}) e->set_optimizer({.name = "adam", .lr = 0.1});
  executable.step();
  executable.init(2);
  set_batch(executable, kRows);
  for (Executable* e : {&executable, &other}) e->step();
  EXPECT_EQ(parameter_bytes(executable), parameter_bytes(other));
}

TEST(Input, NaNIsAllowedAndSaid) {
  Session session(options());
  Executable executable = ready(session);
  HostTensor x = executable.get("x");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(x.bytes.data() + 4 * sizeof nan, &nan, sizeof nan);
  executable.set("x", x);
  const StepResult result = executable.step();
  EXPECT_TRUE(has_note(result, "NaN in input x"));
  EXPECT_TRUE(has_note(result, "the loss is NaN"));
  EXPECT_TRUE(std::isnan(result.loss));
  executable.init(2);
  set_batch(executable, kRows);
  const StepResult next = executable.step();
  EXPECT_TRUE(next.notes.empty());
  EXPECT_TRUE(std::isfinite(next.loss));
}

TEST(Input, ABatchWithoutRowsWorks) {
  Session session(options());
  for (const char* split : {"none", "nodes 1"}) {
    Executable executable = ready(session, split);
    set_batch(executable, 0);
    const StepResult result = executable.step();
    EXPECT_TRUE(std::isnan(result.loss)) << "the mean of nothing";
    EXPECT_EQ(executable.get("logits").type, (TensorType{DType::f32, {0, 4}}));
    executable.init(2);
    set_batch(executable, kRows);
    EXPECT_TRUE(std::isfinite(executable.step().loss));
  }
}

TEST(Input, BadNamesShapesAndDtypesAreTypedErrors) {
  Session session(options());
  Executable executable = ready(session);
  const auto set = [&](std::string_view name, const TensorType& type, std::int64_t bytes = -1) {
    executable.set(name, zeros(type, bytes));
  };
  const UsageError name = error_of<UsageError>([&] { set("wieght", {DType::f32, {1}}); });
  expect_holds(name.what(), "wieght");
  expect_holds(name.hint(), "fc1.weight");
  const GraphError shape = error_of<GraphError>([&] { set("x", {DType::f32, {8, 5}}); });
  expect_holds(shape.what(), "f32[8, 5]");
  expect_holds(shape.what(), "f32[8, 6]");
  expect_holds(shape.where(), "classifier.rfl:2");
  expect_holds(shape.hint(), "leading");
  EXPECT_THROW(set("x", {DType::f64, {8, 6}}), GraphError);
  EXPECT_THROW(set("x", {DType::f32, {48}}), GraphError);
  EXPECT_THROW(set("fc1.bias", {DType::f32, {11}}), GraphError);
  const UsageError bytes = error_of<UsageError>([&] { set("x", {DType::f32, {8, 6}}, 3); });
  expect_holds(bytes.what(), "192");
  EXPECT_THROW((void)executable.get("nothing"), UsageError);
  EXPECT_THROW((void)executable.get("loss"), UsageError) << "nothing ran yet";
  EXPECT_NO_THROW(executable.step());
  EXPECT_NO_THROW((void)executable.get("loss"));
}

TEST(Input, ABooleanIsZeroOrOne) {
  Session session(options());
  Executable executable = session.compile(Graph::parse(R"(graph @g {
    %m = input : bool[3]
    %y = logical_not(%m)
    return %y
  })"));
  const std::vector<std::uint8_t> good = {0, 1, 1}, bad = {0, 1, 2};
  executable.set("m", HostTensor::from<std::uint8_t>({DType::boolean, {3}}, good));
  const UsageError error = error_of<UsageError>(
      [&] { executable.set("m", HostTensor::from<std::uint8_t>({DType::boolean, {3}}, bad)); });
  expect_holds(error.what(), "element 2 is 2");
  executable.evaluate();
  EXPECT_EQ(executable.get("y").bytes[2], std::byte{0}) << "the refused value changed nothing";
}

TEST(Graphs, MayNotTakeTheNamesOfGradientsAndTheLoss) {
  Session session(options());
  const std::pair<const char*, const char*> cases[] = {
      {"'grad/w'", "grad/"}, {"'param/w'", "param/"}, {"loss", "the first output"}};
  for (const auto& [name, said] : cases) {
    const std::string text = std::string(R"(graph @g {
      %x = input : f32[2, 3]
      %w = param : f32[3]
      %)") + name + R"( = mul(%x, %w)
      %sum = sum(%)" + name + R"()
      return %sum, %)" + name +
                             R"(
    })";
    const GraphError error =
        error_of<GraphError>([&] { (void)session.compile(Graph::parse(text, "names.rfl")); });
    expect_holds(error.what(), said);
    expect_holds(error.where(), "names.rfl:4");
  }
}

TEST(Input, LeadingSizesMustAgree) {
  Session session(options());
  Executable executable = ready(session);
  set_batch(executable, 3);
  executable.set("target", zeros({DType::i64, {5}}));
  const GraphError error = error_of<GraphError>([&] { executable.step(); });
  expect_holds(error.what(), "cross_entropy");
  set_batch(executable, 5);
  EXPECT_NO_THROW(executable.step());
}

TEST(Input, WhatIsMissingIsSaid) {
  Session session(options());
  Executable executable = session.compile(classifier());
  const UsageError parameter = error_of<UsageError>([&] { executable.step(); });
  expect_holds(parameter.what(), "fc1.weight");
  EXPECT_FALSE(parameter.hint().empty());
}

TEST(Input, AnIndexOutOfRangeNamesKernelAndValue) {
  Session session(options());
  Executable executable = ready(session);
  HostTensor target = executable.get("target");
  const std::int64_t bad = 17;
  std::memcpy(target.bytes.data() + 2 * sizeof bad, &bad, sizeof bad);
  const auto before = parameter_bytes(executable);
  executable.set("target", target);
  const DeviceError error = error_of<DeviceError>([&] { executable.step(); });
  expect_holds(error.what(), "17");
  expect_holds(error.what(), "[0, 4)");
  expect_holds(error.what(), "kernel k");
  EXPECT_EQ(parameter_bytes(executable), before);
  EXPECT_THROW((void)executable.get("loss"), UsageError);
  set_batch(executable, kRows);
  EXPECT_NO_THROW(executable.step());
}

TEST(Graphs, AParameterMayBeTheLoss) {
  Session session(options());
  Executable executable =
      session.compile(Graph::parse("graph @g {\n%w = param : f32[]\nreturn %w\n}"));
  executable.set_optimizer({.name = "sgd", .lr = 0.25});
  const float three = 3;
  executable.set("w", HostTensor::from<float>({DType::f32, {}}, {&three, 1}));
  executable.step();
  EXPECT_EQ(executable.get("loss").as<float>()[0], 3) << "as it was when the step read it";
  EXPECT_EQ(executable.get("w").as<float>()[0], 2.75F);
}

TEST(Graphs, ThatCannotBeTrainedSayWhyAndEvaluate) {
  Session session(options());
  const Graph graph = Graph::parse(R"(graph @g {
    %x = input : f32[2, 3]
    %w = param : f32[3]
    %y = mul(%x, %w)
    return %y
  })");
  Executable executable = session.compile(graph);
  executable.init(0);
  EXPECT_THROW(executable.step(), GraphError);
  EXPECT_NO_THROW(executable.evaluate());
  EXPECT_EQ(executable.get("y").type, (TensorType{DType::f32, {2, 3}}));
  EXPECT_THROW((void)session.compile(graph, {.split = "nods 3"}), UsageError);
  EXPECT_THROW((void)session.compile(graph, {.split = "nodes 0"}), UsageError);
}

TEST(Memory, BeyondTheLimitIsAnErrorThatTheSessionSurvives) {
  SessionOptions limited = options();
  limited.memory_limit = 64 << 10;
  Session session(limited);
  Executable executable = ready(session);
  executable.step();
  const std::int64_t before = executable.memory().device_allocated;
  set_batch(executable, 4000);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const DeviceError error = error_of<DeviceError>([&] { executable.step(); });
    expect_holds(error.what(), "out of memory");
    expect_holds(error.hint(), "smaller batch");
  }
  set_batch(executable, kRows);
  EXPECT_NO_THROW(executable.step());
  EXPECT_EQ(executable.memory().device_allocated, before) << "a failed attempt keeps memory";
}

TEST(Sessions, RunInTwoThreadsAtOnce) {
  std::vector<std::byte> results[2];
  auto work = [&](int which) {
    Session session(options());
    Executable executable = ready(session);
    executable.set_optimizer({.name = "adamw", .lr = 0.05});
    std::size_t calls = 0;
    executable.add_hook({.function = [&](const GradientView&) { ++calls; }});
    for (int i = 0; i < 20; ++i) executable.step();
    EXPECT_EQ(calls, 60u);
    results[which] = parameter_bytes(executable);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(results[0], results[1]);
}

TEST(Sessions, OfOneThreadEachShareASessionsCompiler) {
  Session session(options());
  std::vector<std::thread> threads;
  std::vector<std::byte> results[4];
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Session mine = jit::beside(session, options());
      Executable executable = ready(mine);
      for (int step = 0; step < 5; ++step) executable.step();
      results[i] = parameter_bytes(executable);
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 1; i < 4; ++i) EXPECT_EQ(results[i], results[0]);
}

// Each counts its own modules, whatever the others compile meanwhile.
TEST(Sessions, OfASharedCompilerCountTheirOwnModules) {
  Session session(options());
  std::vector<std::thread> threads;
  std::array<CompileReport, 4> reports;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Session mine = jit::beside(session, options());
      for (int again = 0; again < 8; ++again) {
        const CompileReport report = ready(mine).compile();
        reports[i].modules += report.modules;
        reports[i].compiled += report.compiled;
        reports[i].from_memory += report.from_memory;
        reports[i].from_disk += report.from_disk;
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::size_t compiled = 0;
  for (const CompileReport& report : reports) {
    EXPECT_GT(report.modules, 0U);
    EXPECT_EQ(report.compiled + report.from_memory + report.from_disk, report.modules);
    compiled += report.compiled;
  }
  EXPECT_LE(compiled, reports[0].modules / 8) << "equal modules are compiled once";
}

TEST(Sessions, MayMoveAndGoBeforeTheirExecutables) {
  std::optional<Executable> executable;
  {
    Session first(options());
    executable.emplace(ready(first));
    executable->step();
    Session second = std::move(first);
    set_batch(*executable, 3);  // compiles, by the session that moved
    executable->step();
    second = Session(options());
  }
  set_batch(*executable, 5);
  EXPECT_NO_THROW(executable->step());
  Executable moved = std::move(*executable);
  EXPECT_EQ(moved.step().step, 3);
  EXPECT_EQ(moved.steps_done(), 4);
}

TEST(Sessions, WithoutSuchADeviceSayWhatThereIs) {
  const DeviceError error =
      error_of<DeviceError>([] { Session session({.device = "tpu", .cache_directory = ""}); });
  expect_holds(error.what(), "tpu");
  expect_holds(error.hint(), "cpu");
}

}  // namespace
}  // namespace riffle::test
