#include "driver/interpreter.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include "driver/command.h"
#include "io/file.h"

namespace riffle::driver {
namespace {

/// One command of a text, with its place.
struct Piece {
  std::string_view text;
  int line = 1, column = 1;
  bool is_graph = false;
};

bool starts_graph(std::string_view text) {
  return text.starts_with("graph") && text.size() > 5 && (text[5] == ' ' || text[5] == '\t') &&
         text.find('@') != std::string_view::npos;
}

/// Cuts a text at newlines and semicolons, outside quotes, comments and graphs.
class Pieces {
 public:
  explicit Pieces(std::string_view text) : text_(text) {}

  bool next(Piece& piece) {
    skip_blank();
    if (at_ >= text_.size()) return false;
    piece = {.text = {}, .line = line_, .column = column_};
    const std::size_t begin = at_;
    std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
    piece.is_graph = starts_graph(line);
    piece.is_graph ? skip_graph() : skip_command();
    piece.text = text_.substr(begin, at_ - begin);
    return true;
  }

 private:
  void step() {
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 0;
    }
    ++column_;
    ++at_;
  }
  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') step();
  }
  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        skip_comment();
      else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';')
        step();
      else
        return;
    }
  }
  void skip_command() {
    char quote = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') return;
      if (quote)
        quote = c == quote ? 0 : quote;
      else if (c == '"' || c == '\'')
        quote = c;
      else if (c == ';' || c == '#')
        return;
      step();
    }
  }
  void skip_graph() {  // to the closing brace, outside of strings and comments
    bool quoted = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') quoted = false;  // strings end with their line
      if (quoted) {
        if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') step();
        quoted = c != '\'';
        step();
        continue;
      }
      quoted = c == '\'';
      if (c == '#') {
        skip_comment();
        continue;
      }
      step();
      if (c == '}') return;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (char c : text) {
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) throw UsageError({.what = std::string("a quote ") + quote + " is not closed"});
  if (in_word) words.push_back(std::move(word));
  return words;
}

std::string place(const std::string& name, int line, int column) {
  return name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

/// Graphs are parsed with their place in the surrounding text: blank lines stand in for it.
Graph parse_graph(std::string_view text, const std::string& name, int line, int column) {
  std::string padded(static_cast<std::size_t>(line - 1), '\n');
  padded.append(static_cast<std::size_t>(column - 1), ' ');
  padded += text;
  return Graph::parse(padded, name);
}

void dispatch(Context& context, std::string_view text) {
  std::vector<std::string> words = words_of(text);
  if (words.empty()) return;
  const std::string name = words.front();
  words.erase(words.begin());
  const Command* command = find_command(name);
  if (!command) throw UsageError({.what = "there is no command '" + name + "'", .hint = "help"});
  Arguments arguments(std::move(words));
  try {
    command->run(context, arguments);
    arguments.finish();
  } catch (const UsageError& error) {
    if (!error.hint().empty()) throw;
    throw UsageError({.what = name + ": " + std::string(error.message()),
                      .where = std::string(error.where()),
                      .hint = std::string(command->usage)});
  }
}

int status_of(const Error& error) {
  if (dynamic_cast<const ComparisonFailed*>(&error)) return kComparisonFailed;
  if (dynamic_cast<const BackendAbsent*>(&error)) return kBackendAbsent;
  if (dynamic_cast<const CommError*>(&error)) return kCommunicationFailed;
  if (dynamic_cast<const Cancelled*>(&error)) return kInterrupted;
  return kCommandFailed;
}

}  // namespace

int Interpreter::run_command(std::string_view text, const std::string& name, int line, int column) {
  const std::string where = place(name, line, column);
  Output& output = context_.output();
  const auto begin = std::chrono::steady_clock::now();
  int status = kOk;
  try {
    if (starts_graph(text)) {
      context_.load(parse_graph(text, name, line, column));
      const Graph& graph = context_.graph();
      output.result({{"command", "graph"}, {"name", graph.ir().name}},
                    "loaded @" + graph.ir().name);
    } else {
      dispatch(context_, text);
    }
  } catch (const Error& error) {
    // An error that knows its own place in a file says so itself.
    output.error(where, error.kind(), error.what());
    status = status_of(error);
  } catch (const std::bad_alloc&) {
    output.error(where, "DeviceError", "out of memory. Try: a smaller batch, or set memory.limit");
    status = kCommandFailed;
  } catch (const std::exception& error) {  // a hook's own exception
    output.error(where, "exception", error.what());
    status = kCommandFailed;
  }
  if (context_.timer && status == kOk) {
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    output.note("took " + std::to_string(ms) + " ms");
  }
  if (InterruptScope::pending()) status = kInterrupted;
  return status;
}

int Interpreter::run(std::string_view text, const std::string& name) {
  Pieces pieces(text);
  Piece piece;
  int first_failure = kOk;
  while (!context_.quit && pieces.next(piece)) {
    const int status = run_command(piece.text, name, piece.line, piece.column);
    if (status == kOk) continue;
    if (first_failure == kOk) first_failure = status;
    if (!keep_going_ || status == kInterrupted) break;
  }
  return first_failure;
}

int Interpreter::run_line(const std::string& line, int line_number) {
  if (pending_.empty()) {
    std::string_view trimmed(line);
    trimmed.remove_prefix(std::min(trimmed.find_first_not_of(" \t"), trimmed.size()));
    if (!starts_graph(trimmed) || trimmed.find('}') != std::string_view::npos) {
      Pieces pieces(line);
      Piece piece;
      int status = kOk;
      while (status == kOk && !context_.quit && pieces.next(piece))
        status = run_command(piece.text, "<prompt>", line_number, piece.column);
      return status;
    }
    pending_line_ = line_number;
  }
  pending_ += line + "\n";
  if (line.find('}') == std::string::npos) return kOk;
  const std::string graph = std::exchange(pending_, {});
  Pieces pieces(graph);
  Piece piece;
  pieces.next(piece);
  return run_command(piece.text, "<prompt>", pending_line_, piece.column);
}

void run_script(Context& context, const std::string& path) {
  constexpr int kMostScriptsInside = 32;
  struct Inside {
    int& depth;
    explicit Inside(int& d) : depth(d) { ++depth; }
    ~Inside() { --depth; }
  } const inside(context.scripts_inside);
  if (context.scripts_inside > kMostScriptsInside)
    throw UsageError({.what = "scripts within scripts, " + std::to_string(kMostScriptsInside) +
                              " deep: does one source itself?",
                      .where = path});
  const std::string text = io::read_text(path, std::int64_t{64} << 20);
  Interpreter interpreter(context, false);
  const int status = interpreter.run(text, path);
  if (status == kInterrupted) throw Cancelled({.what = "interrupted", .where = path});
  if (status == kComparisonFailed)
    throw ComparisonFailed({.what = "a comparison failed", .where = path});
  if (status == kBackendAbsent)
    throw BackendAbsent({.what = "a back end is absent", .where = path});
  if (status != kOk)
    throw UsageError(
        {.what = "a command of the script failed", .where = path, .hint = "the error above"});
}

}  // namespace riffle::driver
