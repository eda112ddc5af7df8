// The inside of a public Tensor, for the files that implement the public functions.
#pragma once

#include "ir/builder.h"
#include "riffle/graph.h"

namespace riffle {

struct TensorAccess {
  static Tensor make(ir::Builder& builder, ir::Value value) { return {&builder, value.id}; }
  static ir::Builder* builder(const Tensor& tensor) { return tensor.builder_; }
  static ir::Value value(const Tensor& tensor) { return {tensor.id_}; }
  static void locate(ir::Builder& builder, const Where& where) {
    builder.set_location(
        {where.file_name(), static_cast<int>(where.line()), static_cast<int>(where.column())});
  }
};

}  // namespace riffle
