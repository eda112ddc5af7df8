// Numbers against numbers: bit by bit, or within a dtype's tolerance.
#pragma once

#include <string>
#include <vector>

#include "ir/array.h"
#include "riffle/session.h"

namespace riffle::driver {

/// Elements whose bits differ; all NaNs count as equal.
std::int64_t different_elements(const HostTensor& a, const HostTensor& b);

/// ‖a − b‖₂ / ‖b‖₂ (‖a‖₂ where b is zero; infinity where only one is NaN or infinite). Below
/// the normal numbers of b's dtype only the absolute error counts. Overflow of the dtype is an
/// error. `squares` are of the terms that b's elements are sums of (see reference_scale.h): where
/// they cancel, the error is relative to them.
double relative_error(const ir::Array& a, const ir::Array& reference,
                      const ir::Array* squares = nullptr);

/// What a result may differ from the double-precision reference, as a relative error. A sum of K
/// rounded terms is off by about √K·ε: the tolerances are ε·1000, room for K of a million. bf16 and
/// f16 round at every primitive on the way too, hence a hundred steps of ε at most: ε·10 of norm.
double reference_tolerance(DType dtype) noexcept;

struct ComparedTensor {
  std::string name;
  std::int64_t elements = 0, different = 0;
  double error = 0;
  bool fits = true;
};

}  // namespace riffle::driver
