#include "driver/end_key.h"

#include <poll.h>
#include <unistd.h>

namespace riffle::driver {

EndKey::EndKey(int terminal) : terminal_(terminal) {
  if (tcgetattr(terminal_, &before_) != 0) return;  // no terminal: nothing is special
  const cc_t key = before_.c_cc[VEOF];
  if (key == _POSIX_VDISABLE || !(before_.c_lflag & ICANON)) return;
  key_ = static_cast<char>(key);
  termios plain = before_;
  plain.c_cc[VEOF] = _POSIX_VDISABLE;
  changed_ = tcsetattr(terminal_, TCSANOW, &plain) == 0;
  // From here on no new marks are made; those that lie in the queue still read as ends.
  collect_lines();
}

EndKey::~EndKey() {
  if (changed_) tcsetattr(terminal_, TCSADRAIN, &before_);
}

void EndKey::collect_lines() {
  for (;;) {
    pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 0) <= 0 || ready.revents != POLLIN) return;  // no whole line, or hung up
    char bytes[4096];
    const ssize_t got = read(terminal_, bytes, sizeof bytes);
    if (got < 0) return;
    if (got == 0) typed_.push_back(key_);
    typed_.insert(typed_.end(), bytes, bytes + got);
  }
}

bool EndKey::take(char& byte) {
  if (typed_.empty()) return false;
  byte = typed_.front();
  typed_.pop_front();
  return true;
}

}  // namespace riffle::driver
