// The program from outside: exit statuses, places of errors, scripts, JSON, interrupts.
#include "tests/driver/program.h"

#include <cmath>
#include <cstdlib>

namespace riffle::test {
namespace {

constexpr const char* kSmall = "load examples/graph_break_small.rfl; init --seed 0; ";

class Program : public ProgramTest {};

TEST_F(Program, TheMainJobPrintsEightHooksAnIterationAndComparesEqual) {
  const Ran ran = commands(
      "load examples/graph_break.rfl; init --seed 0; split nodes 3; compile; hook print; step 3; "
      "dump o.safetensors; compare unsplit; compare reference");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.count("gradient hook fired: "), 24U);
  EXPECT_EQ(ran.count("compiled all 3 modules in "), 1U);
  EXPECT_EQ(ran.count("compare unsplit: bit-identical"), 1U);
  EXPECT_EQ(ran.count("compare reference: within tolerance"), 1U);
  EXPECT_TRUE(exists("o.safetensors"));
}

TEST_F(Program, HooksAtPartitionsPrintBetweenTheLinesOfTheirPartition) {
  const Ran ran =
      commands(std::string(kSmall) + "split nodes 3; set hooks.at partition; hook print; step");
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<std::string> said;
  for (const std::string& line : ran.lines())
    if (line.starts_with("gradient") || line.starts_with("backward of") ||
        line.starts_with("iteration"))
      said.push_back(line.substr(0, line.find(", loss")));
  EXPECT_EQ(said, (std::vector<std::string>{
                      "backward of partition_2 starts", "backward of partition_2 ends",
                      "gradient hook fired: net4.bias", "gradient hook fired: net4.weight",
                      "gradient hook fired: net3.bias", "gradient hook fired: net3.weight",
                      "backward of partition_1 starts", "backward of partition_1 ends",
                      "gradient hook fired: net2.bias", "gradient hook fired: net2.weight",
                      "backward of partition_0 starts", "backward of partition_0 ends",
                      "gradient hook fired: net1.bias", "gradient hook fired: net1.weight",
                      "iteration 0"}));
}

TEST_F(Program, AFailedCommandEndsAScriptWithStatus1AndItsPlace) {
  write("a.rfls", "version\n  load nowhere.rfl\nversion\n");
  const Ran ran = run({"a.rfls"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.lines().size(), 1U) << ran.out;
  EXPECT_TRUE(ran.err.starts_with("a.rfls:2:3: error: ")) << ran.err;
  EXPECT_NE(ran.err.find("nowhere.rfl"), std::string::npos);
}

/// A machine without a GPU and without the emulator, whatever this one has.
void without_cuda() {
  ::setenv("RIFFLE_CUDA_DRIVER", "none", 1);
  ::setenv("RIFFLE_EMULATOR", "/nowhere", 1);
}

TEST_F(Program, KeepGoingRunsTheRestAndKeepsTheFirstStatus) {
  without_cuda();
  write("a.rfls", "version\nload nowhere.rfl\ndevice cuda\nversion\n");
  const Ran ran = run({"--keep-going", "a.rfls"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.lines().size(), 2U) << ran.out;
}

TEST_F(Program, BadUsageOfTheProgramIsStatus2) {
  EXPECT_EQ(run({"--no-such-option"}).status, 2);
  EXPECT_EQ(run({"nowhere.rfls"}).status, 2);
  EXPECT_EQ(run({"--threads", "-1"}).status, 2);
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_EQ(run({"--version"}).status, 0);
}

TEST_F(Program, AnAbsentBackEndIsStatus77) {
  without_cuda();
  for (const char* text : {"device cuda", "device cuda-emulated"}) {
    const Ran ran = commands(text);
    EXPECT_EQ(ran.status, 77) << text;
    EXPECT_NE(ran.err.find("cuda"), std::string::npos) << ran.err;
  }
  EXPECT_EQ(commands(std::string(kSmall) + "backend 0 cuda").status, 77);
  EXPECT_EQ(commands(std::string(kSmall) + "show ptx 0").status, 77);
}

TEST_F(Program, AfterALostDeviceAnotherOneGoesOnWithoutItsValues) {
  ::unsetenv("RIFFLE_CUDA_DRIVER");
  ::unsetenv("RIFFLE_EMULATOR");
  ::setenv("RIFFLE_EMULATOR_FAIL_LAUNCH", "20", 1);
  const Ran ran = commands(std::string(kSmall) +
                               "split nodes 3; hook norm; device cuda-emulated; step; step; "
                               "device cpu; step; init; step; device cuda-emulated; step",
                           {"--keep-going"});
  ::unsetenv("RIFFLE_EMULATOR_FAIL_LAUNCH");
  EXPECT_EQ(ran.count("device cpu"), 1U) << ran.err;
  EXPECT_EQ(ran.count("iteration "), 2U) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("closed by an earlier error"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("device cpu"), std::string::npos) << "what to try: " << ran.err;
  EXPECT_NE(ran.err.find("were lost with the device"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("has no value yet"), std::string::npos) << ran.err;
}

TEST_F(Program, ADeviceWithoutRoomIsNotAbsent) {
  ::unsetenv("RIFFLE_CUDA_DRIVER");
  ::unsetenv("RIFFLE_EMULATOR");
  ::setenv("RIFFLE_EMULATOR_MEMORY", "1000", 1);
  const Ran ran = commands(std::string(kSmall) + "device cuda-emulated");
  ::unsetenv("RIFFLE_EMULATOR_MEMORY");
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_NE(ran.err.find("out of memory"), std::string::npos) << ran.err;
}

TEST_F(Program, ASecondInterruptEndsWhatTheFirstCannotStop) {
  ::unsetenv("RIFFLE_CUDA_DRIVER");
  ::unsetenv("RIFFLE_EMULATOR");
  // One kernel of minutes, which nothing can stop.
  write("long.rfl",
        "graph @long {\n  %x = input : f32[2048, 4096]\n  %w = param : f32[4096, 4096]\n"
        "  %m = matmul(%x, %w)\n  %loss = mean(%m)\n  return %loss\n}\n");
  const auto begin = std::chrono::steady_clock::now();
  const Ran ran = run({"-c", "load long.rfl; init; device cuda-emulated; compile; step"}, "",
                      "compiled", /*interrupts=*/2);
  EXPECT_EQ(ran.status, 130) << ran.err;
  EXPECT_NE(ran.err.find("interrupted twice"), std::string::npos) << ran.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

// f32 overflows where the double-precision reference does not: an honest difference.
constexpr const char* kOverflow = R"(graph @overflow {
  %x    = input : f32[16]
  %w    = param : f32[16]
  %big  = mul(%w, 900)
  %high = exp(%big)
  %sum  = mul(%high, %x)
  %loss = mean(%sum)
  return %loss
}
)";

TEST_F(Program, AComparisonThatFailsIsStatus3AndBisectNamesThePartition) {
  write("overflow.rfl", kOverflow);
  const std::string begin = "load overflow.rfl; init --seed 0; split nodes 1; ";
  const Ran compared = commands(begin + "compare reference");
  EXPECT_EQ(compared.status, 3) << compared.out << compared.err;
  EXPECT_NE(compared.out.find("compare reference: DIFFERENT"), std::string::npos) << compared.out;
  const Ran bisected = commands(begin + "bisect");
  EXPECT_EQ(bisected.status, 3);
  EXPECT_NE(bisected.out.find("first to leave the reference: forward partition_1"),
            std::string::npos)
      << bisected.out;
  // Splitting changes nothing, whatever the numbers are.
  EXPECT_EQ(commands(begin + "compare unsplit").status, 0);
}

TEST_F(Program, SourceHandsOnAStatus) {
  without_cuda();
  write("overflow.rfl", kOverflow);
  write("a.rfls", "load overflow.rfl; init; compare reference\n");
  EXPECT_EQ(commands("source a.rfls").status, 3);
  write("b.rfls", "device cuda\n");
  EXPECT_EQ(commands("source b.rfls").status, 77);
  write("c.rfls", "nonsense\n");
  EXPECT_EQ(commands("source c.rfls").status, 1);
}

TEST_F(Program, AnInterruptCancelsAStepWithStatus130) {
  const Ran ran = run({"-c", std::string(kSmall) + "hook add * delay 20; step 100000; version"}, "",
                      "iteration 0");
  EXPECT_EQ(ran.status, 130) << ran.err;
  EXPECT_EQ(ran.out.find("riffle 0.1.0"), std::string::npos);
}

TEST_F(Program, AnInterruptCancelsTraining) {
  const Ran ran = run({"-c",
                       "load examples/mlp_digits.rfl; data digits; init; hook add * delay 1; "
                       "train --epochs 1000"},
                      "", "hook 1");
  EXPECT_EQ(ran.status, 130) << ran.err;
}

TEST_F(Program, ReadsCommandsFromStandardInput) {
  const Ran ran = run({}, "load examples/graph_break_small.rfl\ninit; step 2\nprint loss\n");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.count("iteration "), 2U);
  EXPECT_EQ(ran.out.find("riffle>"), std::string::npos);
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  const Ran failed = run({}, "\nversion\nnonsense\n");
  EXPECT_EQ(failed.status, 1);
  EXPECT_TRUE(failed.err.starts_with("<stdin>:3:1: error: ")) << failed.err;
}

TEST_F(Program, AGraphMayStandAmongCommands) {
  const Ran ran = run({}, std::string(kOverflow) + "init\nstep\nshow graph\n");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.count("loaded @overflow"), 1U);
  const Ran bad = run({}, "version\ngraph @a {\n  %x = nonsense(%y)\n  return %x\n}\n");
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.err.find("<stdin>:3:"), std::string::npos) << bad.err;
}

TEST_F(Program, JsonIsOneObjectALine) {
  const Ran ran = commands(std::string(kSmall) +
                               "split nodes 3; compile; hook print; step 2; print "
                               "loss; show graph; overlap; explain; show memory; show settings; "
                               "hook list; compare unsplit; bisect; time 2; timeline; help",
                           {"--json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto objects = ran.objects();
  std::size_t hooks = 0, steps = 0;
  for (const auto& object : objects) {
    hooks += object.value("event", "") == "hook";
    steps += object.value("command", "") == "step";
    EXPECT_TRUE(object.contains("command") || object.contains("event")) << object;
  }
  EXPECT_EQ(hooks, 8U * (2 + 3));  // step 2, and time: a first one and two
  EXPECT_EQ(steps, 2U);
  const Ran failed = commands("load nowhere.rfl", {"--json"});
  ASSERT_EQ(failed.objects().size(), 1U);
  EXPECT_EQ(failed.objects()[0]["kind"], "IoError");
  EXPECT_EQ(failed.objects()[0]["where"], "-c:1:1");
}

TEST_F(Program, QuitEndsAScript) {
  const Ran ran = commands("version; quit; nonsense");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.lines().size(), 1U);
}

TEST_F(Program, ThePresentedScriptTrainsDigitsToTheirAccuracy) {
  const Ran ran = run({"--json", "examples/demo.rfls"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  double accuracy = 0;
  std::size_t hooks = 0;
  for (const auto& object : ran.objects()) {
    if (object.value("command", "") == "eval") accuracy = object["accuracy"];
    hooks += object.value("event", "") == "hook";
  }
  EXPECT_GE(accuracy, 0.97);
  EXPECT_EQ(hooks, 24U);
  EXPECT_TRUE(exists("report.html"));
  EXPECT_TRUE(exists("trace.json"));
  // The last short batch, in training and in evaluation, is said once each.
  EXPECT_NE(ran.err.find("recompiled: x f32[64,64] → f32[29,64], target i64[64] → i64[29]"),
            std::string::npos);
  std::size_t notes = 0;
  for (std::size_t at = ran.err.find("recompiled"); at != std::string::npos;
       at = ran.err.find("recompiled", at + 1))
    ++notes;
  EXPECT_EQ(notes, 2U) << ran.err;
}

}  // namespace
}  // namespace riffle::test
