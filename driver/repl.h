// The prompt: line editing, history and completion through libedit.
#pragma once

#include "driver/interpreter.h"

namespace riffle::driver {

/// Runs until `quit` or end of input. Ctrl-C cancels the running command, or drops the line being
/// typed; the session lives on. Returns kOk, or kInterrupted when the last command was.
int repl(Context& context, Interpreter& interpreter);

/// Columns of the terminal on stdout; COLUMNS, else 100, when it is none.
int terminal_width();

}  // namespace riffle::driver
