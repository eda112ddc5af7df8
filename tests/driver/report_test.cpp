// The report page in a browser: its figures are the session's, and names cannot become markup.
#include "driver/report/run_report.h"
#include "tests/driver/program.h"

namespace riffle::test {
namespace {

class Report : public ProgramTest {
 protected:
  static std::string browser() {
    for (const char* path :
         {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
      if (::access(path, X_OK) == 0) return path;
    return {};
  }
  /// The document after its script ran.
  std::string document(const std::string& page) const {
    const std::string command =
        "timeout 60 " + browser() + " --headless --no-sandbox --disable-gpu --user-data-dir='" +
        (folder / "profile").string() + "' --dump-dom 'file://" + (folder / page).string() +
        "' >'" + (folder / "dom.html").string() + "' 2>/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return read("dom.html");
  }
  /// The value that the document gives for a figure.
  static double figure(const std::string& dom, const std::string& key) {
    const std::string mark = "data-figure=\"" + key + "\" data-value=\"";
    const std::size_t at = dom.find(mark);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no figure " << key;
      return -1;
    }
    return std::stod(dom.substr(at + mark.size()));
  }
};

TEST_F(Report, HoldsTheSessionsFiguresInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here: the page is not opened";
  const Ran ran = commands(
      "load examples/graph_break_small.rfl; init; split nodes 3; hook add * delay 0.2; step 3; "
      "overlap; report r.html",
      {"--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto objects = ran.objects();
  const nlohmann::json overlap = objects[objects.size() - 2];
  const std::string dom = document("r.html");
  for (const char* key : {"wall_ms", "compute_ms", "hook_ms", "hidden_ms", "exposed_ms"})
    EXPECT_DOUBLE_EQ(figure(dom, key), overlap[key].get<double>()) << key;
  for (const auto& object : objects) {
    if (object["command"] != "step" || object["iteration"] != 2) continue;
    EXPECT_DOUBLE_EQ(figure(dom, "last_loss"), object["loss"].get<double>());
  }
  EXPECT_GE(figure(dom, "arena"), figure(dom, "lower_bound"));
  EXPECT_GT(figure(dom, "parameters"), 0);
  for (const char* text : {"@graph_break_small", "partition_0", "partition_2", "linear_2, relu_2",
                           "split nodes 3: 3 partitions", "backward", "class=\"arrow\"",
                           "class=\"curve\"", "None: everything was compiled"})
    EXPECT_NE(dom.find(text), std::string::npos) << text;
}

TEST_F(Report, DrawsEveryHookAndAnArrowToEach) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here: the page is not opened";
  ASSERT_EQ(
      commands("load examples/graph_break_small.rfl; init; split nodes 3; hook add * delay 0; "
               "step; report r.html")
          .status,
      0);
  const std::string dom = document("r.html");
  std::size_t hooks = 0, arrows = 0;
  for (std::size_t at = dom.find("fill=\"var(--hook)\""); at != std::string::npos;
       at = dom.find("fill=\"var(--hook)\"", at + 1))
    ++hooks;
  for (std::size_t at = dom.find("class=\"arrow\""); at != std::string::npos;
       at = dom.find("class=\"arrow\"", at + 1))
    ++arrows;
  EXPECT_EQ(hooks, 8U);
  EXPECT_EQ(arrows, 8U);
}

TEST_F(Report, IsSelfContained) {
  ASSERT_EQ(commands("load examples/graph_break_small.rfl; init; step; report r.html").status, 0);
  const std::string page = read("r.html");
  for (const char* text : {"src=", "<link", "@import", "url(http", "fetch("})
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

// The text form allows few characters in names; a graph made in C++ allows any.
TEST_F(Report, NamesFromAGraphStayText) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here: the page is not opened";
  ASSERT_EQ(
      commands("load examples/graph_break_small.rfl; init; split nodes 3; hook add * delay 0; "
               "step; report r.html")
          .status,
      0);
  const std::string page = read("r.html");
  const std::size_t data = page.find("id=\"data\">") + 10;
  auto runs = driver::Json::parse(page.substr(data, page.find("</script>", data) - data))["runs"];
  const std::string evil =
      "</script><script>document.title='owned'</script><img src=x "
      "onerror=\"document.title='owned'\">";
  runs[0]["graph"] = evil;
  runs[0]["partitions"][0]["name"] = evil;
  runs[0]["partitions"][1]["nodes"] = {evil};
  runs[0]["streams"][0] = evil;
  runs[0]["fallbacks"][evil] = 1;
  for (auto& span : runs[0]["steps"][0]["spans"]) span["label"] = evil;
  const std::vector<driver::Json> list(runs.begin(), runs.end());
  write("evil.html", driver::report_page(list));
  const std::string dom = document("evil.html");
  EXPECT_EQ(dom.find("<title>owned"), std::string::npos);
  EXPECT_EQ(dom.find("<img"), std::string::npos);
  EXPECT_NE(dom.find("@&lt;/script&gt;&lt;script&gt;document.title='owned'"), std::string::npos);
}

TEST_F(Report, KeepsTheRunsOfEarlierGraphs) {
  const Ran ran = commands(
      "load examples/graph_break_small.rfl; init; step; load examples/tied_weights.rfl; init; "
      "step; "
      "report r.html",
      {"--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.objects().back()["graphs"], (nlohmann::json{"graph_break_small", "tied_weights"}));
}

TEST_F(Report, OfNothingTracedSaysSo) {
  ASSERT_EQ(commands("load examples/graph_break_small.rfl; report r.html").status, 0);
  if (browser().empty()) GTEST_SKIP() << "no chromium here: the page is not opened";
  EXPECT_NE(document("r.html").find("Nothing was traced"), std::string::npos);
}

}  // namespace
}  // namespace riffle::test
