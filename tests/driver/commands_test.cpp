// Commands: what they print, what they refuse, and that a refusal harms nothing.
#include <zlib.h>

#include <cstring>

#include "driver/command.h"
#include "io/safetensors.h"
#include "tests/driver/program.h"
#include "tests/support/golden.h"

namespace riffle::test {
namespace {

constexpr const char* kSmall = "load examples/graph_break_small.rfl; init --seed 0; ";

class Commands : public ProgramTest {};

std::string shown(const Ran& ran) {
  EXPECT_EQ(ran.status, 0) << ran.err;
  return ran.objects().back().value("text", "");
}

TEST_F(Commands, TablesOfTheExperimentAreGolden) {
  const std::string begin = "load examples/graph_break.rfl; split nodes 3; ";
  expect_golden(shown(commands(begin + "show graph", {"--json"})),
                "driver/golden/graph_break_graph.txt");
  expect_golden(shown(commands(begin + "show partitions", {"--json"})),
                "driver/golden/graph_break_partitions.txt");
  expect_golden(shown(commands(begin + "show stitched", {"--json"})),
                "driver/golden/graph_break_stitched.txt");
}

TEST_F(Commands, EveryCommandRefusesWordsItDoesNotKnow) {
  for (const driver::Command* command : driver::all_commands()) {
    const std::string name(command->name);
    if (name == "say") continue;  // takes any words
    const Ran ran = commands(std::string(kSmall) + name + " --no-such-word 1 2 3 4");
    EXPECT_EQ(ran.status, 1) << name << ran.out;
    EXPECT_NE(ran.err.find("error: "), std::string::npos) << name;
    EXPECT_NE(ran.err.find("Try: "), std::string::npos) << name << ": " << ran.err;
  }
}

TEST_F(Commands, CommandsThatNeedAGraphSayHowToGetOne) {
  for (const char* text : {"init", "step", "compile", "show graph", "split none", "print loss",
                           "hook print", "compare", "bisect", "overlap", "report r.html", "eval",
                           "dump o.safetensors", "time 2", "explain", "trace t.json"}) {
    const Ran ran = commands(text);
    EXPECT_EQ(ran.status, 1) << text;
    EXPECT_NE(ran.err.find("no graph is loaded"), std::string::npos) << text << ran.err;
  }
  EXPECT_FALSE(exists("r.html"));
}

TEST_F(Commands, RefusedValuesSayWhatWouldFit) {
  const std::pair<const char*, const char*> cases[] = {
      {"split nodes 0", "split"},
      {"split sideways", "sideways"},
      {"step -1", "negative"},
      {"step many", "whole number"},
      {"optimizer sgd lr=fast", "number"},
      {"optimizer lion", "lion"},
      {"optimizer sgd lr=-1", "lr"},
      {"hook add nothing.* print", "matches no parameter"},
      {"hook add * jump", "jump"},
      {"hook add * delay -5", "delay"},
      {"hook rm 7", "no hook 7"},
      {"set hooks.at sometimes", "gradient or partition"},
      {"set no.such 1", "no.such"},
      {"set threads -2", "0 to 1024"},
      {"print nothing", "nothing"},
      {"print net1.weight[99]", "out of range"},
      {"print net1.weight[0,0,0]", "indices"},
      {"print net1.weight[0", "slice"},
      {"backend 9 reference", "partition 9"},
      {"show forward 9", "partition 9"},
      {"show kernels -1", "count from 0"},
      {"show everything", "everything"},
      {"device abacus", "abacus"},
      {"train", "no data"},
      {"explain kernel nothing", "nothing"},
      {"ddp", "one rank"},
      {"help nothing", "nothing"},
      {"print 'net1", "quote"},
  };
  for (const auto& [text, part] : cases) {
    // Afterwards the session goes on.
    const Ran ran = commands(std::string(kSmall) + text + "\nstep", {"--keep-going"});
    EXPECT_EQ(ran.status, 1) << text << ran.out;
    EXPECT_NE(ran.err.find(part), std::string::npos) << text << ": " << ran.err;
    EXPECT_NE(ran.out.find("iteration 0, loss "), std::string::npos) << text;
  }
}

TEST_F(Commands, PrintSlicesAsNumPyDoes) {
  const Ran ran = commands(std::string(kSmall) +
                               "print net1.weight; print net1.weight[0]; print net1.weight[0, :3]; "
                               "print net1.weight[-1, -1]; print net1.weight[:, 5]; print "
                               "net1.weight[4:2]; print net1.weight[30:99, 0]",
                           {"--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto objects = ran.objects();
  const nlohmann::json whole = objects[2]["data"];
  EXPECT_EQ(objects[2]["type"], "f32[32, 32]");
  EXPECT_EQ(objects[3]["data"], whole[0]);
  EXPECT_EQ(objects[4]["data"], (nlohmann::json{whole[0][0], whole[0][1], whole[0][2]}));
  EXPECT_EQ(objects[5]["data"], whole[31][31]);
  EXPECT_EQ(objects[5]["type"], "f32[]");
  EXPECT_EQ(objects[6]["data"].size(), 32U);
  EXPECT_EQ(objects[6]["data"][7], whole[7][5]);
  EXPECT_EQ(objects[7]["type"], "f32[0, 32]");
  EXPECT_EQ(objects[8]["data"], (nlohmann::json{whole[30][0], whole[31][0]}));
}

TEST_F(Commands, ADumpReadBackGivesTheSameNextStep) {
  const Ran ran = commands(std::string(kSmall) +
                               "step 2; dump a.safetensors; step; tensors a.safetensors; step; "
                               "dump b.safetensors",
                           {"--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<double> losses;
  for (const auto& object : ran.objects())
    if (object["command"] == "step") losses.push_back(object["loss"]);
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_EQ(losses[2], losses[3]);  // plain SGD: parameters are all of the state
  const io::NamedTensors tensors = io::read_safetensors((folder / "a.safetensors").string());
  EXPECT_TRUE(tensors.contains("loss"));
  EXPECT_TRUE(tensors.contains("grad/net1.weight"));
  EXPECT_TRUE(tensors.contains("param/net4.bias"));
  EXPECT_EQ(tensors.size(), 1U + 8 + 8);
}

TEST_F(Commands, HooksComeAndGoByPattern) {
  const Ran ran = commands(std::string(kSmall) +
                           "hook add net1.* print; hook add *.bias norm; step; hook list; hook rm "
                           "1; step; hook rm all; step; hook list");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.count("gradient hook fired: net1."), 2U);
  EXPECT_EQ(ran.count("gradient norm net"), 8U);
  EXPECT_EQ(ran.lines().back(), "no hooks");
}

TEST_F(Commands, ASplitKeepsParametersHooksAndTheirNumbers) {
  const Ran ran =
      commands(std::string(kSmall) +
               "hook add net1.* delay 0; hook rm 1; hook add net2.* print; set hooks.at "
               "partition; split nodes 3; hook list; step; hook rm 2; hook list");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.count("gradient hook fired: net2."), 2U);
  EXPECT_EQ(ran.count("backward of partition_1 ends"), 1U);
  EXPECT_EQ(ran.lines().back(), "no hooks");
}

// All that a user gave goes on; the notes say what does not.
TEST_F(Commands, AChangeOfSessionKeepsTheTraining) {
  const std::string begin =
      std::string(kSmall) +
      "split nodes 3; optimizer adamw lr=0.01; hook add net2.* print; step 2; ";
  const std::string end = "hook list; step 2; print net1.weight; backend 1 reference";
  const Ran expected = commands(begin + end, {"--json"});
  ASSERT_EQ(expected.status, 0) << expected.err;
  for (const std::string change : {"set threads 3", "set fuse off", "set cache.directory none",
                                   "set memory.limit 100000000", "device cpu", "split nodes 3"}) {
    const Ran ran = commands(begin + change + "; " + end, {"--json"});
    ASSERT_EQ(ran.status, 0) << change << ran.err;
    auto kept = [](const Ran& r, std::size_t back) {
      std::vector<nlohmann::json> found;
      for (nlohmann::json object : r.objects()) {
        object.erase("ms");
        found.push_back(std::move(object));
      }
      found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(back));
      return found;
    };
    EXPECT_EQ(kept(ran, 9), kept(expected, 9)) << change;
    EXPECT_NE(ran.err.find("note: the steps so far stay in the report"), std::string::npos)
        << change << ran.err;
  }
}

TEST_F(Commands, ASessionsBackEndsStayWithTheirPartitions) {
  const std::string begin = std::string(kSmall) + "split nodes 3; backend 1 reference; step; ";
  const Ran same = commands(begin + "set threads 1; report same.html");
  EXPECT_NE(read("same.html").find("partitions on the reference evaluator"), std::string::npos);
  EXPECT_EQ(same.err.find("run on the device again"), std::string::npos) << same.err;
  const Ran other = commands(begin + "split nodes 2");
  EXPECT_NE(other.err.find("run on the device again"), std::string::npos) << other.err;
}

TEST_F(Commands, TheNullDevicesMissingValuesAreSaid) {
  const Ran there = commands(std::string(kSmall) + "step; device null; step");
  EXPECT_EQ(there.status, 0) << there.err;
  EXPECT_NE(there.err.find("keeps no values"), std::string::npos) << there.err;
  const Ran back = commands(std::string(kSmall) + "device null; device cpu; step");
  EXPECT_EQ(back.status, 1) << back.out;
  EXPECT_NE(back.err.find("init or tensors"), std::string::npos) << back.err;
}

TEST_F(Commands, WhatDoesNotFitChangesNothing) {
  const Ran ran = commands(std::string(kSmall) +
                               "split nodes 3; step; split at 40; set memory.limit 64; step; "
                               "hook print; step; show settings; split nodes 3",
                           {"--keep-going"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("split at 40: there is no place 40 to cut: the model has 7 compute nodes"),
            std::string::npos)
      << ran.err;
  EXPECT_EQ(ran.count("iteration 2, loss "), 1U) << ran.out << ran.err;
  EXPECT_EQ(ran.count("memory.limit     0 "), 1U) << ran.out;
}

TEST_F(Commands, AReportHoldsTheStepsBeforeASplit) {
  const Ran ran = commands(std::string(kSmall) + "step 2; split nodes 2; step; report r.html");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(read("r.html").find(R"("split":"none")"), std::string::npos);
  EXPECT_NE(read("r.html").find(R"("split":"nodes 2")"), std::string::npos);
}

TEST_F(Commands, TheReferenceBackEndIsAFallbackThatAgrees) {
  const Ran ran =
      commands(std::string(kSmall) + "split nodes 3; backend 1 reference; step; compare reference");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.count("runs on the reference evaluator"), 1U);
}

TEST_F(Commands, AResultThatCancelsToNothingAgreesWithTheReference) {
  write("cancels.rfl",
        "graph @cancels {\n  %x = input : f32[64, 33]\n  %w = param : f32[33, 33]\n"
        "  %h = linear(%x, %w)\n  %n = layer_norm(%h, normalized_shape=[33])\n"
        "  %loss = sum(%n)\n  return %loss, %n\n}\n");
  const Ran ran = commands("load cancels.rfl; init; compare reference; bisect");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
}

TEST_F(Commands, ASoftmaxThatIsAlmostSureAgreesWithTheReference) {
  // Loss and gradient are sums of terms of size 1 that leave 3e-4.
  const Ran ran = commands(
      "load examples/tied_weights.rfl; init; split nodes 1; step 2; compare reference; bisect");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
}

TEST_F(Commands, AFunctionOfWhatCancelsAgreesWithTheReference) {
  // The sums of centred rows are what rounding left: so are their squares, logs by 1 + x, and what
  // where, gather and maximum choose of them.
  write("bent.rfl",
        "graph @bent {\n  %x = input : f32[64, 33]\n  %w = param : f32[33, 33]\n"
        "  %h = linear(%x, %w)\n  %n = layer_norm(%h, normalized_shape=[33])\n"
        "  %s = sum(%n, [1])\n  %o = add(%s, 1)\n  %log = log(%o)\n  %square = pow(%s, 2)\n"
        "  %sin = sin(%s)\n  %most = maximum(%s, %log)\n  %up = gt(%x, 0)\n"
        "  %n0 = sum(%n, [1], keepdim=True)\n  %pick = where(%up, %n0, 0)\n"
        "  %i = full([64, 1], 0, dtype=i64)\n  %first = gather(%n0, 1, %i)\n"
        "  %loss = sum(%n)\n  return %loss, %log, %square, %sin, %most, %pick, %first\n}\n");
  const Ran ran = commands("load bent.rfl; init; compare reference");
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
}

TEST_F(Commands, TwoTrainingsAreOneOfTheirLength) {
  const std::string begin =
      "load examples/mlp_digits.rfl; data digits --batch 64; init; optimizer adamw; ";
  auto loss = [&](const std::string& training) {
    const Ran ran = commands(begin + training, {"--json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.objects().back()["loss"].get<double>();
  };
  EXPECT_EQ(loss("train --epochs 3; eval"), loss("train --epochs 1; eval; train --epochs 2; eval"));
}

TEST_F(Commands, NaNInDataIsAllowedAndSaid) {
  std::string rows;
  for (int i = 0; i < 20; ++i)
    rows += (i % 3 == 0 ? "nan,1" : std::to_string(i) + ",2") + "," + std::to_string(i % 2) + "\n";
  write("rows.csv", rows);
  write("model.rfl",
        "graph @model {\n  %x = input : f32[16, 2]\n  %t = input : i64[16]\n  %w = param : f32[2, "
        "2]\n  %y = linear(%x, %w)\n  %loss = cross_entropy(%y, %t)\n  return %loss, %y\n}\n");
  const Ran ran = commands("load model.rfl; data rows.csv; init; data rows.csv; step; step");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("NaN in input x"), std::string::npos) << ran.err;
}

TEST_F(Commands, HostileFilesAreRefusedAndTheSessionGoesOn) {
  const std::string digits = read_all(RIFFLE_SOURCE_DIR "/examples/data/digits.csv.gz");
  write("cut.csv.gz", digits.substr(0, digits.size() / 2));
  std::string flipped = digits;
  for (std::size_t i = 100; i < 140; ++i) flipped[i] = static_cast<char>(~flipped[i]);
  write("damaged.csv.gz", flipped);
  write("empty.csv", "");
  write("words.csv", "a,b\nc,d\n");
  write("random.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  write("short.safetensors", "abc");
  write("binary.rfl", std::string("\0\x01\x02\xff", 4));
  const char* const cases[] = {"data cut.csv.gz",
                               "data damaged.csv.gz",
                               "data empty.csv",
                               "data words.csv",
                               "data nowhere.csv",
                               "tensors random.safetensors",
                               "tensors short.safetensors",
                               "tensors nowhere.safetensors",
                               "tensors examples",
                               "load binary.rfl",
                               "load examples",
                               "source nowhere.rfls",
                               "dump nowhere/o.safetensors",
                               "trace nowhere/t.json",
                               "report nowhere/r.html"};
  for (const char* text : cases) {
    const Ran ran = commands(std::string(kSmall) + "step\n" + text + "\nstep", {"--keep-going"});
    EXPECT_EQ(ran.status, 1) << text << ran.err;
    EXPECT_NE(ran.err.find("error: "), std::string::npos) << text;
    EXPECT_EQ(ran.count("iteration 1, loss "), 1U) << text << ran.err;
  }
}

TEST_F(Commands, AGraphWithoutALossIsEvaluatedButNotTrained) {
  write("forward.rfl",
        "graph @forward {\n  %x = input : f32[2, 3]\n  %y = relu(%x)\n  return %y\n}\n");
  EXPECT_EQ(commands("load forward.rfl; init; eval; print y; timeline").status, 0);
  const Ran ran = commands("load forward.rfl; init; step");
  EXPECT_EQ(ran.status, 1) << ran.out;
}

TEST_F(Commands, ExplainNamesTheKernelsThatRan) {
  const Ran ran = commands(std::string(kSmall) + "split nodes 3; hook add * delay 1; step; explain",
                           {"--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const nlohmann::json explained = ran.objects().back();
  EXPECT_EQ(explained["hooks"].size(), 8U);
  EXPECT_EQ(explained["partitions"].size(), 3U + 3 + 1);
  double last = std::numeric_limits<double>::infinity();
  double kernels = 0;
  for (const auto& kernel : explained["kernels"]) {
    EXPECT_LE(kernel["ms"].get<double>(), last) << "sorted by time";
    last = kernel["ms"];
    kernels += last;
    EXPECT_GT(kernel["bytes"].get<double>(), 0);
  }
  EXPECT_LE(kernels, explained["wall_ms"].get<double>() * 1.001);
  EXPECT_EQ(explained["bound_by"], "exposed hooks");  // 8 ms of hooks, a step of microseconds
}

TEST_F(Commands, TimeKeepsWhatWasTraced) {
  const Ran ran = commands(std::string(kSmall) + "step 2; overlap; time 5; overlap", {"--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto objects = ran.objects();
  EXPECT_EQ(objects[objects.size() - 3], objects.back());
}

}  // namespace
}  // namespace riffle::test
