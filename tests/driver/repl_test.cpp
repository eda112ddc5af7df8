// The prompt, typed at through a pseudo-terminal.
#include <poll.h>
#include <pty.h>

#include <cstdlib>

#include "tests/driver/program.h"

namespace riffle::test {
namespace {

/// The program, started on a terminal of its own; what is typed may be there before it reads.
class TypedAhead : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    winsize size{.ws_row = 40, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::setenv("HOME", folder.c_str(), 1);
      ::setenv("TERM", "xterm", 1);
      ::setenv("NO_COLOR", "1", 1);
      ::setenv("RIFFLE_CACHE_DIR", (testing::TempDir() + "/riffle_driver_cache").c_str(), 1);
      if (::chdir(folder.c_str()) == 0) ::execl(RIFFLE_PROGRAM, "riffle", nullptr);
      _exit(127);
    }
  }
  void TearDown() override {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (terminal_ >= 0) ::close(terminal_);
    ProgramTest::TearDown();
  }

  void type(const std::string& text) {
    ASSERT_EQ(::write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// Reads until `text` was said since the last match; fails after a while.
  void wait_for(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (said_.find(text, seen_) == std::string::npos) {
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      if (std::chrono::steady_clock::now() > end) {
        FAIL() << "not said: " << text << "\nsince: " << said_.substr(seen_);
      }
      if (::poll(&ready, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t got = ::read(terminal_, bytes, sizeof bytes);
      if (got <= 0) FAIL() << "ended before it said " << text << "\nsince: " << said_.substr(seen_);
      said_.append(bytes, static_cast<std::size_t>(got));
    }
    seen_ = said_.find(text, seen_) + text.size();
  }
  /// -1 when it did not end within a while: TearDown sees to it.
  int exit_status() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      // What it still says is read, so that it can end.
      char bytes[4096];
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      const bool hung_up = ::poll(&ready, 1, 20) > 0 && ::read(terminal_, bytes, sizeof bytes) <= 0;
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      if (hung_up) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return -1;
  }

  std::string said_;
  std::size_t seen_ = 0;

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
};

class Prompt : public TypedAhead {
 protected:
  void SetUp() override {
    TypedAhead::SetUp();
    wait_for("riffle> ");
  }
};

TEST_F(Prompt, APastedGraphIsLoadedAndTrained) {
  type(
      "graph @tiny {\n  %x = input : f32[4, 4]\n  %w = param : f32[4, 4]\n  %y = linear(%x, %w)\n"
      "  %loss = mean(%y)\n  return %loss\n}\ninit\nstep 2\n");
  wait_for("   ...> ");
  wait_for("loaded @tiny");
  wait_for("iteration 1, loss ");
}

TEST_F(Prompt, AGraphsErrorHasItsLineAndThePromptLivesOn) {
  type("graph @tiny {\n  %x = nonsense(%y)\n  return %x\n}\n");
  wait_for("<prompt>:2:");
  type("version\n");
  wait_for("riffle 0.1.0, LLVM");
}

TEST_F(Prompt, TabCompletesCommandsFilesAndParameters) {
  type("load exa\t");
  wait_for("mples/");
  type("graph_break_s\t\n");
  wait_for("loaded @graph_break_small");
  wait_for("riffle> ");
  type("ini\t\n");
  wait_for("initialised");
  wait_for("riffle> ");
  type("print param/net3.w\t\n");
  wait_for("param/net3.weight : f32[32, 32]");
  wait_for("riffle> ");
  type("hook add net4.b\t\tprint\n");
  wait_for("print on 1 parameters (net4.bias)");
}

TEST_F(Prompt, HistoryIsThereWithTheArrowAndNextTime) {
  type("version\n");
  wait_for("LLVM");
  wait_for("riffle> ");
  type("\x1b[A");
  wait_for("version");
  type("\n");
  wait_for("LLVM");
  wait_for("riffle> ");
  type("quit\n");
  EXPECT_EQ(exit_status(), 0);
  EXPECT_NE(read(".riffle_history").find("version"), std::string::npos);
}

TEST_F(Prompt, AnInterruptCancelsTheCommandAndKeepsTheSession) {
  type("load examples/graph_break_small.rfl\ninit\nhook add * delay 50\n");
  wait_for("hook 1: delay 50 ms");
  wait_for("riffle> ");
  type("step 100000\n");
  wait_for("iteration 0");
  type("\x03");
  wait_for("error: ");
  wait_for("riffle> ");
  type("hook rm all\n");
  wait_for("removed all");
  type("step\n");
  wait_for("iteration ");
  wait_for("riffle> ");
  type("quit\n");
  EXPECT_EQ(exit_status(), 0);
}

TEST_F(Prompt, AnInterruptDropsTheLineAndTheGraphBeingTyped) {
  type("half a line");
  wait_for("half a line");
  type("\x03");
  wait_for("riffle> ");
  type("graph @a {\n");
  wait_for("   ...> ");
  type("\x03");
  wait_for("riffle> ");
  type("version\n");
  wait_for("riffle 0.1.0, LLVM");
  EXPECT_EQ(said_.find("error"), std::string::npos) << said_;
}

TEST_F(Prompt, ErrorsCarryNoColourWhereItIsNotWanted) {
  type("nonsense\n");
  wait_for("<prompt>:1:1: error: there is no command");
  EXPECT_EQ(said_.find("\x1b[1;31m"), std::string::npos);
}

TEST_F(Prompt, ANulIsNotTheEnd) {
  type(std::string(1, '\0') + "version\n");
  wait_for("riffle 0.1.0, LLVM");
}

// The moment the prompt stands there, the terminal's mode may not have been switched yet.
TEST_F(Prompt, EndOfInputEndsIt) {
  type("\x04");
  EXPECT_EQ(exit_status(), 0);
}

TEST_F(Prompt, EndOfInputTypedWhileACommandRunsEndsItAfterwards) {
  type("load examples/graph_break_small.rfl\ninit\nhook add * delay 20\n");
  wait_for("hook 1: delay 20 ms");
  wait_for("riffle> ");
  type("step 2\n");
  wait_for("iteration 0");
  type("\x04");
  wait_for("iteration 1");
  EXPECT_EQ(exit_status(), 0);
}

TEST_F(TypedAhead, EndOfInputBeforeThePromptEndsIt) {
  type("\x04");
  EXPECT_EQ(exit_status(), 0);
}

TEST_F(TypedAhead, LinesAreCommandsAndTheLastMayBeUnfinished) {
  type("version\nhelp ver");
  wait_for("riffle 0.1.0, LLVM");
  wait_for("riffle> ");
  type("sion\n");
  wait_for("Versions of riffle");
  type("\x04");
  EXPECT_EQ(exit_status(), 0);
}

}  // namespace
}  // namespace riffle::test
