// Declares every op's block, so that op.cpp and the family files agree on names and linkage.
#pragma once

#include "ir/op.h"

namespace riffle::ir {
#define RIFFLE_OP(name, text, family, signature, traits) extern const OpBlock op_##name;
#include "ir/ops.def"
#undef RIFFLE_OP
}  // namespace riffle::ir
