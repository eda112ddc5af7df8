// Runs the built program as a user does, in a folder of its own, and keeps what it said.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace riffle::test {

struct Ran {
  int status = -1;  ///< exit status; 128 + signal
  std::string out, err;
  std::vector<std::string> lines() const {
    std::istringstream stream(out);
    std::vector<std::string> found;
    for (std::string line; std::getline(stream, line);) found.push_back(line);
    return found;
  }
  std::vector<nlohmann::json> objects() const {
    std::vector<nlohmann::json> found;
    for (const std::string& line : lines()) {
      nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(object.is_object()) << "not one JSON object: " << line;
      found.push_back(std::move(object));
    }
    return found;
  }
  std::size_t count(const std::string& text) const {
    std::size_t found = 0;
    for (std::size_t at = out.find(text); at != std::string::npos; at = out.find(text, at + 1))
      ++found;
    return found;
  }
};

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The program runs in `folder`, where `examples` is the project's; the disk cache is the suite's.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder = std::filesystem::path(testing::TempDir()) /
             ("riffle_driver_" + std::to_string(::getpid()) + "_" + name);
    std::filesystem::create_directories(folder);
    std::filesystem::create_directory_symlink(RIFFLE_SOURCE_DIR "/examples", folder / "examples");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  std::string read(const std::string& name) const { return read_all(folder / name); }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder / name); }

  /// `interrupt_after` sends Ctrl-C's signal once the program has printed that text, and again
  /// somewhat later, `interrupts` times in all.
  Ran run(std::vector<std::string> arguments, const std::string& input = "",
          const std::string& interrupt_after = "", int interrupts = 1) const {
    write("stdin", input);
    arguments.insert(arguments.begin(), RIFFLE_PROGRAM);
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(folder.c_str()) != 0) _exit(126);
      auto redirect = [](const char* path, int flags, int target) {
        const int descriptor = ::open(path, flags, 0644);
        ::dup2(descriptor, target);
      };
      redirect("stdin", O_RDONLY, 0);
      redirect("stdout", O_WRONLY | O_CREAT | O_TRUNC, 1);
      redirect("stderr", O_WRONLY | O_CREAT | O_TRUNC, 2);
      ::setenv("RIFFLE_CACHE_DIR", (testing::TempDir() + "/riffle_driver_cache").c_str(), 1);
      ::unsetenv("COLUMNS");
      ::execv(RIFFLE_PROGRAM, words.data());
      _exit(127);
    }
    if (!interrupt_after.empty()) {
      for (int i = 0; i < 3000 && read("stdout").find(interrupt_after) == std::string::npos; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (interrupts > 1)  // in the middle of what is to be stopped
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
      ::kill(child, SIGINT);
      for (int i = 1; i < interrupts; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        ::kill(child, SIGINT);
      }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    Ran ran{.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    ran.out = read("stdout");
    ran.err = read("stderr");
    return ran;
  }
  Ran commands(const std::string& text, std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"-c", text});
    return run(std::move(options));
  }

  std::filesystem::path folder;
};

}  // namespace riffle::test
