// Tensors by name: inputs, parameters, outputs, gradients.
#include <algorithm>
#include <cstring>

#include "ir/array.h"
#include "jit/initialise.h"
#include "jit/session_impl.h"
#include "support/bool_bytes.h"

namespace riffle {
namespace {

using namespace jit;  // NOLINT: the implementation of one class, in its own file

constexpr std::string_view kGradientPrefix = "grad/", kParameterPrefix = "param/";

[[noreturn]] void unknown_name(std::string_view name, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  throw UsageError({.what = "there is no tensor '" + std::string(name) + "'",
                    .hint = list.empty() ? "" : "one of " + list});
}

void check_fits(const ir::Node& node, const HostTensor& tensor) {
  const TensorType &want = node.type, &have = tensor.type;
  bool fits = want.dtype == have.dtype && want.rank() == have.rank();
  // The leading size of an input may differ: a last short batch.
  for (std::size_t i = 0; fits && i < want.shape.size(); ++i)
    fits = want.shape[i] == have.shape[i] || (i == 0 && node.op == ir::Op::input);
  if (!fits)
    throw GraphError(
        {.what = to_string(have) + " does not fit %" + node.name + " : " + to_string(want),
         .where = to_string(node.location),
         .hint = node.op == ir::Op::input
                     ? "the same dtype and shape; only the leading size may differ"
                     : "the same dtype and shape"});
  if (static_cast<std::int64_t>(tensor.bytes.size()) != have.bytes())
    throw UsageError({.what = "%" + node.name + " : " + to_string(have) + " takes " +
                              std::to_string(have.bytes()) + " bytes, not " +
                              std::to_string(tensor.bytes.size())});
  if (have.dtype == DType::boolean)
    if (const auto bad = first_bad_bool(tensor.bytes))
      throw UsageError({.what = "%" + node.name + " : element " + std::to_string(*bad) + " is " +
                                std::to_string(std::to_integer<int>(tensor.bytes[*bad])) +
                                ", no boolean",
                        .hint = "bytes 0 and 1"});
}

template <typename Element, typename Test>
bool any_element(const HostTensor& tensor, Test test) {
  bool found = false;  // no early exit: this vectorises, and data without NaN is the rule
  for (std::size_t i = 0; i + sizeof(Element) <= tensor.bytes.size(); i += sizeof(Element)) {
    Element element;
    std::memcpy(&element, tensor.bytes.data() + i, sizeof(Element));
    found |= test(element);
  }
  return found;
}

bool holds_nan(const HostTensor& tensor) {
  switch (tensor.type.dtype) {
    case DType::f32:
      return any_element<float>(tensor, [](float x) { return x != x; });
    case DType::f64:
      return any_element<double>(tensor, [](double x) { return x != x; });
    case DType::bf16:
      return any_element<std::uint16_t>(tensor,
                                        [](std::uint16_t x) { return (x & 0x7fff) > 0x7f80; });
    case DType::f16:
      return any_element<std::uint16_t>(tensor,
                                        [](std::uint16_t x) { return (x & 0x7fff) > 0x7c00; });
    default:
      return false;
  }
}

HostTensor host_tensor(const ir::Array& array) {
  HostTensor tensor{array.type, std::vector<std::byte>(array.type.bytes())};
  ir::array_to_bytes(array, tensor.bytes);
  return tensor;
}

}  // namespace

ir::ValueId Executable::Impl::check_tensor(std::string_view name, const HostTensor& tensor) const {
  if (name.starts_with(kParameterPrefix)) name.remove_prefix(kParameterPrefix.size());
  const ir::ValueId id = whole().find(name);
  if (id == ir::kNoValue || (whole()[id].op != ir::Op::input && whole()[id].op != ir::Op::param)) {
    std::vector<std::string> names;
    for (const ir::Node& node : whole().nodes)
      if (node.op == ir::Op::input || node.op == ir::Op::param) names.push_back(node.name);
    unknown_name(name, names);
  }
  check_fits(whole()[id], tensor);
  return id;
}

void Executable::Impl::set_tensor(std::string_view name, HostTensor tensor) {
  const ir::ValueId id = check_tensor(name, tensor);
  if (whole()[id].op == ir::Op::param) {
    state->write(state->layout().parameters[id], tensor.bytes);
    parameter_set[id] = true;
  } else {
    if (holds_nan(tensor))
      inputs_with_nan.emplace(name);
    else
      inputs_with_nan.erase(std::string(name));
    inputs.insert_or_assign(std::string(name), std::move(tensor));
    input_versions[std::string(name)] = next_version++;
  }
}

HostTensor Executable::Impl::get_tensor(std::string_view name) const {
  const bool gradient = name.starts_with(kGradientPrefix);
  const bool parameter = name.starts_with(kParameterPrefix);
  std::string_view bare = name;
  if (gradient) bare.remove_prefix(kGradientPrefix.size());
  if (parameter) bare.remove_prefix(kParameterPrefix.size());

  const bool has_run = last && last_ran;
  auto from_outputs = [&](const Region& region) {
    HostTensor tensor{region.type, std::vector<std::byte>(region.type.bytes())};
    last->outputs->read(region.offset, tensor.bytes);
    return tensor;
  };
  const ir::ValueId id = whole().find(bare);
  if (gradient && id != ir::kNoValue) {
    if (state->layout().gradients[id] && steps > 0)
      return {whole()[id].type, state->read(state->layout().gradients[id])};
    if (has_run && last->training && last->io.input_gradients[id])
      return from_outputs(last->io.input_gradients[id]);
  } else if (!gradient) {
    if (has_run && !parameter) {
      // The loss is what the step computed, also where it is a parameter that the step then
      // updated.
      if (bare == "loss" && partitioned.has_loss) return from_outputs(last->io.outputs[0]);
      const std::vector<ir::ValueId>& outputs = whole().outputs;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i] == id && whole()[id].op != ir::Op::param)
          return from_outputs(last->io.outputs[i]);
    }
    if (id != ir::kNoValue && whole()[id].op == ir::Op::param)
      return {whole()[id].type, state->read(state->layout().parameters[id])};
    if (auto input = inputs.find(bare); input != inputs.end() && !parameter) return input->second;
  }
  unknown_name(name, tensor_names());
}

std::vector<std::string> Executable::Impl::tensor_names() const {
  std::vector<std::string> names;
  const bool has_run = last && last_ran;
  if (has_run) {
    for (std::size_t i = 0; i < whole().outputs.size(); ++i) {
      std::string name = i == 0 && partitioned.has_loss ? "loss" : whole()[whole().outputs[i]].name;
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
    for (ir::ValueId id : differentiated.gradient_parameters)
      if (steps > 0) names.push_back(std::string(kGradientPrefix) + whole()[id].name);
    if (last->training)
      for (ir::ValueId id : differentiated.gradient_inputs)
        names.push_back(std::string(kGradientPrefix) + whole()[id].name);
  }
  for (ir::ValueId id : whole().parameters())
    names.push_back(std::string(kParameterPrefix) + whole()[id].name);
  return names;
}

void Executable::Impl::initialise(std::uint64_t seed) {
  for (ir::ValueId id : whole().parameters())
    set_tensor(whole()[id].name, host_tensor(initial_parameter(whole(), id, seed)));
  for (ir::ValueId id : whole().inputs())
    set_tensor(whole()[id].name, host_tensor(initial_input(whole(), id, seed)));
  state->reset_optimizer(optimizer);
  optimizer_steps = 0;
  ++configuration;  // the optimizer's buffers are new
}

}  // namespace riffle
