// The page's data from names that no parser would let through.
#include <gtest/gtest.h>

#include "driver/report/run_report.h"

namespace riffle::driver {
namespace {

TEST(ReportPage, NamesCannotCloseTheScriptOrOpenATag) {
  const std::string evil = "</script><script>alert(1)</script><!--@SCRIPT@";
  const Json run = {{"graph", evil}, {"streams", {evil}}, {"fallbacks", {{evil, 1}}}};
  const std::string page = report_page(std::span(&run, 1));
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<!--@"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cscript>alert(1)"), std::string::npos);
  std::size_t closes = 0;
  for (std::size_t at = page.find("</script>"); at != std::string::npos;
       at = page.find("</script>", at + 1))
    ++closes;
  EXPECT_EQ(closes, 2U);  // the data's and the code's
}

TEST(ReportPage, BytesThatAreNoTextDoNotSpoilIt) {
  const Json run = {{"graph", "\xff\xfe"}};
  EXPECT_NE(report_page(std::span(&run, 1)).find("\xef\xbf\xbd"), std::string::npos);
}

}  // namespace
}  // namespace riffle::driver
