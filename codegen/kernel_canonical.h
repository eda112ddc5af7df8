// Loop spaces in canonical form: no loop of one iteration, adjacent loops that every access walks
// as one are one, so that a contiguous elementwise kernel is a flat loop.
#pragma once

#include "codegen/kernel_spec.h"

namespace riffle::codegen {

void canonicalise(LoopBody& body);
void canonicalise(RowBody& body);
void canonicalise(MatmulBody& body);
void canonicalise(ScatterBody& body);

/// The (written, read) pairs that KernelSpec::may_alias documents.
std::vector<std::pair<std::int32_t, std::int32_t>> aliasable_operands(const KernelSpec& kernel,
                                                                      const KernelProgram& program);

}  // namespace riffle::codegen
