// safetensors: named tensors in one file (8-byte length, JSON header, data), as
// https://github.com/huggingface/safetensors describes the format.
#pragma once

#include <map>
#include <string>

#include "riffle/session.h"

namespace riffle::io {

using NamedTensors = std::map<std::string, HostTensor>;

/// Every size is checked before anything is allocated. Throws IoError saying which tensor and why:
/// truncated, overlapping, a dtype that riffle lacks, sizes that do not fit the offsets.
NamedTensors read_safetensors(const std::string& path);

/// Through a temporary name. Throws IoError.
void write_safetensors(const std::string& path, const NamedTensors& tensors);

}  // namespace riffle::io
