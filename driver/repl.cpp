#include "driver/repl.h"

#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <filesystem>
#include <memory>

#include "driver/command.h"
#include "driver/end_key.h"
#include "support/env.h"

namespace riffle::driver {
namespace {

struct CloseEditLine {
  void operator()(EditLine* edit) const { el_end(edit); }
};
struct CloseHistory {
  void operator()(History* history) const { history_end(history); }
};

/// libedit's callbacks get only the EditLine: this hangs on its client data.
struct Prompt {
  Context* context;
  Interpreter* interpreter;
  EndKey* end_key;
};

char* prompt_text(EditLine* edit) {
  Prompt* prompt = nullptr;
  el_get(edit, EL_CLIENTDATA, &prompt);
  static char fresh[] = "riffle> ", inside[] = "   ...> ";
  return prompt->interpreter->inside_graph() ? inside : fresh;
}

/// Waits for a key or an interrupt; libedit takes wide characters.
int read_character(EditLine* edit, wchar_t* character) {
  Prompt* prompt = nullptr;
  el_get(edit, EL_CLIENTDATA, &prompt);
  std::mbstate_t state{};
  for (;;) {
    char byte = 0;
    const bool typed_before = prompt->end_key->take(byte);
    pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                      {.fd = InterruptScope::descriptor(), .events = POLLIN, .revents = 0}};
    if ((!typed_before && poll(ready, 2, -1) < 0) || InterruptScope::pending()) {
      errno = EINTR;
      return -1;
    }
    const ssize_t got = typed_before ? 1 : read(STDIN_FILENO, &byte, 1);
    if (got <= 0) return static_cast<int>(got);
    const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-2)) continue;  // more bytes of it are to come
    if (used == static_cast<std::size_t>(-1)) *character = L'?';
    return 1;
  }
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string> files_like(const std::string& begin) {
  namespace fs = std::filesystem;
  const fs::path typed(begin);
  const fs::path folder = typed.has_parent_path() ? typed.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = (typed.has_parent_path() ? entry.path() : entry.path().filename()).string();
    if (entry.is_directory(ignored)) name += "/";
    names.push_back(std::move(name));
  }
  return names;
}

/// What the word being typed may become.
std::vector<std::string> candidates(Context& context, const std::vector<std::string>& before,
                                    const std::string& word) {
  std::vector<std::string> all;
  if (before.empty()) {
    for (const Command* command : all_commands()) all.emplace_back(command->name);
  } else if (const Command* command = find_command(before.front())) {
    switch (command->completes) {
      case Completes::nothing:
        break;
      case Completes::file:
        all = files_like(word);
        break;
      case Completes::command:
        for (const Command* other : all_commands()) all.emplace_back(other->name);
        break;
      case Completes::words:
        if (before.size() == 1) all = split_words(command->words);
        break;
      case Completes::parameter:
      case Completes::value:
        if (context.has_executable()) all = context.executable().names();
        break;
    }
    if (command->name == "hook" && before.size() == 2 && context.has_executable())
      all = context.executable().matching_parameters("*");
  }
  std::erase_if(all, [&](const std::string& name) { return !name.starts_with(word); });
  std::sort(all.begin(), all.end());
  return all;
}

unsigned char complete(EditLine* edit, int) {
  Prompt* prompt = nullptr;
  el_get(edit, EL_CLIENTDATA, &prompt);
  const LineInfo* info = el_line(edit);
  const std::string typed(info->buffer, info->cursor);
  std::vector<std::string> words = split_words(typed);
  std::string word;
  if (!typed.empty() && typed.back() != ' ' && !words.empty()) {
    word = words.back();
    words.pop_back();
  }
  std::vector<std::string> found;
  try {
    found = candidates(*prompt->context, words, word);
  } catch (const std::exception&) {  // none may pass through libedit
    return CC_ERROR;  // a word that cannot be completed is no reason to disturb the line
  }
  if (found.empty()) return CC_ERROR;
  std::string common = found.front();
  for (const std::string& name : found)
    common.resize(static_cast<std::size_t>(
        std::mismatch(common.begin(), common.end(), name.begin(), name.end()).first -
        common.begin()));
  std::string more = common.substr(word.size());
  if (found.size() == 1 && !common.ends_with('/')) more += ' ';
  if (!more.empty() && el_insertstr(edit, more.c_str()) == 0) return CC_REFRESH;
  std::fputc('\n', stdout);
  for (const std::string& name : found) std::printf("%s  ", name.c_str());
  std::fputc('\n', stdout);
  return CC_REDISPLAY;
}

std::string history_file() {
  if (auto home = environment("HOME")) return *home + "/.riffle_history";
  return {};
}

}  // namespace

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (auto columns = environment("COLUMNS")) {
    try {
      return std::clamp(static_cast<int>(parse_integer(*columns, "COLUMNS")), 40, 400);
    } catch (const Error&) {
      return 100;  // an unreadable COLUMNS is as good as none
    }
  }
  return 100;
}

int repl(Context& context, Interpreter& interpreter) {
  std::setlocale(LC_CTYPE, "");
  std::unique_ptr<EditLine, CloseEditLine> edit(el_init("riffle", stdin, stdout, stderr));
  std::unique_ptr<History, CloseHistory> history(history_init());
  if (!edit || !history) throw IoError({.what = "the terminal cannot be opened for editing"});
  // After el_init, which sets the keys anew; libedit adopts the change when it first switches
  // modes.
  EndKey end_key(STDIN_FILENO);
  Prompt prompt{&context, &interpreter, &end_key};
  HistEvent event;
  ::history(history.get(), &event, H_SETSIZE, 1000);
  ::history(history.get(), &event, H_SETUNIQUE, 1);
  const std::string file = history_file();
  if (!file.empty()) ::history(history.get(), &event, H_LOAD, file.c_str());
  el_set(edit.get(), EL_CLIENTDATA, &prompt);
  el_set(edit.get(), EL_PROMPT, prompt_text);
  el_set(edit.get(), EL_GETCFN, read_character);
  el_set(edit.get(), EL_EDITOR, "emacs");
  el_set(edit.get(), EL_SIGNAL, 0);  // Ctrl-C is ours: it cancels the running command
  el_set(edit.get(), EL_HIST, ::history, history.get());
  el_set(edit.get(), EL_ADDFN, "riffle-complete", "Complete", complete);
  el_set(edit.get(), EL_BIND, "^I", "riffle-complete", nullptr);
  // The switch of modes that binds the terminal's keys, NUL for the missing one among them: now,
  // so that what follows has the last word.
  el_set(edit.get(), EL_PREP_TERM, 1);
  el_set(edit.get(), EL_BIND, "^@", "em-set-mark", nullptr);
  if (const char key[] = {end_key.key(), '\0'}; key[0])
    el_set(edit.get(), EL_BIND, key, "em-delete-or-list", nullptr);
  el_source(edit.get(), nullptr);

  std::printf("riffle " RIFFLE_VERSION ". help lists the commands; quit or Ctrl-D ends.\n");
  int line_number = 0, status = kOk;
  while (!context.quit) {
    InterruptScope::clear();
    int count = 0;
    const char* line = el_gets(edit.get(), &count);
    if (InterruptScope::pending()) {  // Ctrl-C while typing: drop the line
      interpreter.drop_pending();
      std::fputc('\n', stdout);
      el_reset(edit.get());
      continue;
    }
    if (!line || count <= 0) {  // Ctrl-D: the shell's prompt gets a line of its own
      std::fputc('\n', stdout);
      break;
    }
    std::string text(line, static_cast<std::size_t>(count));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    ++line_number;
    if (text.find_first_not_of(" \t") == std::string::npos && !interpreter.inside_graph()) continue;
    ::history(history.get(), &event, H_ENTER, line);
    context.history.push_back(text);
    status = interpreter.run_line(text, line_number);
  }
  if (!file.empty()) ::history(history.get(), &event, H_SAVE, file.c_str());
  return status == kInterrupted ? kInterrupted : kOk;
}

}  // namespace riffle::driver
