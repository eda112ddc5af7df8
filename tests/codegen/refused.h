// What code generation must refuse, and with which words.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "riffle/error.h"

namespace riffle::codegen::testing {

/// The message of the CompileError that `compile` must throw.
template <class Compile>
std::string refused(Compile compile) {
  try {
    compile();
  } catch (const CompileError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no CompileError";
  return {};
}

}  // namespace riffle::codegen::testing
