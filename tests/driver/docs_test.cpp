// docs/driver.md against the command and setting tables.
#include <gtest/gtest.h>

#include "driver/command.h"
#include "driver/settings.h"
#include "tests/driver/program.h"

namespace riffle::test {
namespace {

TEST(DriverDocs, NameEveryCommandWithItsUsageAndHelp) {
  const std::string text = read_all(RIFFLE_SOURCE_DIR "/docs/driver.md");
  for (const driver::Command* command : driver::all_commands()) {
    const std::string entry =
        "- `" + std::string(command->usage) + "`\n  " + std::string(command->help) + "\n";
    EXPECT_NE(text.find(entry), std::string::npos) << "docs/driver.md lacks\n" << entry;
  }
}

TEST(DriverDocs, NameEverySetting) {
  const std::string text = read_all(RIFFLE_SOURCE_DIR "/docs/driver.md");
  std::istringstream names{std::string(driver::kSettingNames)};
  for (std::string name; names >> name;)
    EXPECT_NE(text.find("- `" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace riffle::test
