// The key that ends input (Ctrl-D), kept a key like any other while a prompt is in use.
#pragma once

#include <termios.h>

#include <deque>

namespace riffle::driver {

/// A line editor reads keys, but while a command runs, and until a prompt is shown, the terminal
/// collects lines: an end-of-input key that it gets then becomes a mark in its queue, which reads
/// as a NUL once the editor has switched the mode. So the terminal forgets, while this lives, that
/// the key is anything special, and marks that were there before come back as the key.
class EndKey {
 public:
  explicit EndKey(int terminal);
  ~EndKey();
  EndKey(const EndKey&) = delete;
  EndKey& operator=(const EndKey&) = delete;

  /// The terminal's own choice, Ctrl-D as a rule; 0 when it has none.
  char key() const noexcept { return key_; }
  /// The next byte of what was typed before this began to live; false when there is none left.
  bool take(char& byte);

 private:
  void collect_lines();
  int terminal_;
  termios before_{};
  bool changed_ = false;
  char key_ = 0;
  std::deque<char> typed_;
};

}  // namespace riffle::driver
