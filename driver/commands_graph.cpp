// load, split, tensors, dump, print, show.
#include <fmt/format.h>

#include "codegen/host/host_codegen.h"
#include "driver/command.h"
#include "driver/format.h"
#include "driver/show_code.h"
#include "io/safetensors.h"

namespace riffle::driver {
namespace {

void load(Context& context, Arguments& arguments) {
  const std::string path = arguments.take("a file");
  arguments.finish();
  context.load(Graph::load(path));
  const Graph& graph = context.graph();
  context.output().result(
      {{"command", "load"},
       {"name", graph.ir().name},
       {"inputs", graph.inputs().size()},
       {"parameters", graph.parameters().size()},
       {"nodes", graph.ir().nodes.size()}},
      fmt::format("loaded @{}: {} inputs, {} parameters, {} nodes", graph.ir().name,
                  graph.inputs().size(), graph.parameters().size(), graph.ir().nodes.size()));
}

void split(Context& context, Arguments& arguments) {
  context.graph();
  context.set_split(arguments.take_rest());
  const ir::PartitionedGraph& graph = jit::partitioned(context.executable());
  std::string text = fmt::format("split {}: {} partition{}", graph.policy, graph.partitions.size(),
                                 graph.partitions.size() == 1 ? "" : "s");
  Json partitions = Json::array();
  for (std::size_t p = 0; p < graph.partitions.size(); ++p) {
    std::string names;
    const ir::Graph shown = graph.shown(p);
    Json nodes = Json::array();
    for (const ir::Node& node : shown.nodes)
      if (ir::is_compute(node)) {
        names += (names.empty() ? "" : ", ") + node.name;
        nodes.push_back(node.name);
      }
    text += fmt::format("\n  {}: {{{}}}", graph.partitions[p].name, names);
    partitions.push_back({{"name", graph.partitions[p].name}, {"nodes", nodes}});
  }
  context.output().result(
      {{"command", "split"}, {"policy", graph.policy}, {"partitions", partitions}}, text);
}

void tensors(Context& context, Arguments& arguments) {
  const std::string path = arguments.take("a safetensors file");
  arguments.finish();
  Executable& executable = context.executable();
  const ir::Graph& graph = context.graph().ir();
  io::NamedTensors settable;
  std::string ignored;
  for (auto& [name, tensor] : io::read_safetensors(path)) {
    // A dump holds more than can be set: outputs and gradients.
    const std::string bare = name.starts_with("param/") ? name.substr(6) : name;
    const ir::ValueId id = graph.find(bare);
    if (id != ir::kNoValue && (graph[id].op == ir::Op::input || graph[id].op == ir::Op::param))
      settable[bare] = std::move(tensor);
    else
      ignored += (ignored.empty() ? "" : ", ") + name;
  }
  // All or none: a file that does not fit changes nothing.
  for (const auto& [name, tensor] : settable) jit::check_tensor(executable, name, tensor);
  const std::size_t used = settable.size();
  for (auto& [name, tensor] : settable) executable.set(name, std::move(tensor));
  if (!ignored.empty()) context.output().note("not inputs or parameters, left out: " + ignored);
  context.output().result({{"command", "tensors"}, {"set", used}},
                          fmt::format("set {} tensors from {}", used, path));
}

void dump(Context& context, Arguments& arguments) {
  const std::string path = arguments.take("a file name");
  arguments.finish();
  Executable& executable = context.executable();
  if (!executable.has("loss") && !executable.has(context.graph().outputs().front().name))
    throw UsageError({.what = "nothing was computed yet", .hint = "step, then dump"});
  io::NamedTensors named;
  for (const std::string& name : executable.names()) named[name] = executable.get(name);
  io::write_safetensors(path, named);
  context.output().result({{"command", "dump"}, {"file", path}, {"tensors", named.size()}},
                          fmt::format("wrote {} tensors to {}", named.size(), path));
}

void print(Context& context, Arguments& arguments) {
  std::string text;
  for (const std::string& word : arguments.take_rest()) text += word;
  if (text.empty()) throw UsageError({.what = "expected a value", .hint = "print loss"});
  const std::size_t bracket = text.find('[');
  const std::string name =
      text.substr(text.starts_with('%') ? 1 : 0, bracket - (text.starts_with('%') ? 1 : 0));
  const std::string slice = bracket == std::string::npos ? "" : text.substr(bracket);
  const ir::Array array = sliced(context.executable().get(name), slice, name);
  context.output().result(
      {{"command", "print"},
       {"name", name},
       {"type", to_string(array.type)},
       {"data", json_of(array)}},
      name + slice + " : " + to_string(array.type) + "\n" + format_array(array));
}

std::size_t partition_argument(Arguments& arguments) {
  const std::int64_t partition = arguments.take_integer("a partition's number");
  if (partition < 0) throw UsageError({.what = "partitions count from 0"});
  return static_cast<std::size_t>(partition);
}

std::string partition_tables(const ir::PartitionedGraph& graph) {
  std::string text;
  for (std::size_t p = 0; p < graph.partitions.size(); ++p)
    text += fmt::format("{}{}\n{}", p ? "\n" : "", graph.partitions[p].name,
                        ir::format_table(ir::table_rows(graph.shown(p))));
  return text;
}

std::string show_memory(Context& context) {
  const MemoryReport memory = context.executable().memory();
  std::string text;
  auto row = [&](std::string_view name, std::int64_t bytes, std::string_view remark = {}) {
    text += fmt::format("{:<28}{:>14}  {}\n", name, format_bytes(bytes), remark);
  };
  row("parameters", memory.parameters);
  row("gradients", memory.gradients, "one bucket, hooks see it in place");
  row("optimizer state", memory.optimizer);
  row("inputs", memory.inputs);
  row("outputs", memory.outputs);
  row("temporaries, planned peak", memory.arena,
      fmt::format("lower bound {}", format_bytes(memory.lower_bound)));
  row("  of which residuals", memory.residuals);
  row("device, allocated", memory.device_allocated,
      fmt::format("peak {}", format_bytes(memory.device_peak)));
  return text;
}

std::string show_cache(Context& context) {
  const jit::Compiler& compiler = jit::compiler(context.session());
  const jit::CacheStatistics s = compiler.statistics();
  const std::string& directory = compiler.options().cache_directory;
  return fmt::format(
      "directory  {}\ncompiled   {}\nfrom memory {}\nfrom disk  {}\nwritten    {}\ndamaged    {}\n"
      "unwritable {}\nlive       {} modules\n",
      directory.empty() ? "(none)" : directory, s.compiles, s.memory_hits, s.disk_hits,
      s.disk_writes, s.disk_damaged, s.disk_unwritable, compiler.live_modules());
}

void show(Context& context, Arguments& arguments) {
  const std::string what = arguments.take("what to show");
  std::string text;
  if (what == "settings") {
    text = format_settings(context);
  } else if (what == "graph") {
    if (arguments.take_if("text"))
      text = context.graph().text();
    else
      text = context.graph().table();
  } else if (what == "partitions") {
    text = partition_tables(jit::partitioned(context.executable()));
  } else if (what == "stitched") {
    text = ir::format_table(jit::partitioned(context.executable()).stitched_rows());
  } else if (what == "forward" || what == "backward") {
    const std::size_t k = partition_argument(arguments);
    const auto& parts = jit::differentiated(context.executable()).partitions;
    if (k >= parts.size())
      throw UsageError(
          {.what = fmt::format("there is no partition {}", k), .hint = "show partitions"});
    const ir::Graph& graph = what == "forward" ? parts[k].forward : parts[k].backward;
    text = graph.outputs.empty() ? "(nothing to compute)\n" : ir::print(graph);
  } else if (what == "kernels") {
    text = kernels_text(context, partition_argument(arguments));
  } else if (what == "schedule") {
    text = runtime::print(*jit::schedule(context.executable()));
  } else if (what == "memory") {
    text = show_memory(context);
  } else if (what == "llvm" || what == "asm" || what == "ptx") {
    text = code_text(context, partition_argument(arguments), what);
  } else if (what == "cache") {
    text = show_cache(context);
  } else {
    throw UsageError({.what = "cannot show '" + what + "'"});
  }
  arguments.finish();
  context.output().result({{"command", "show"}, {"what", what}, {"text", text}}, text);
}

constexpr Command kCommands[] = {
    {"load", "load FILE", "Loads a graph in text form (.rfl).", load, Completes::file},
    {"tensors", "tensors FILE.safetensors", "Sets inputs and parameters by name.", tensors,
     Completes::file},
    {"split", "split nodes N | params N | bytes CAP [--first BYTES] | markers | none | at K…",
     "Cuts the graph into partitions, counted from the output.", split, Completes::words,
     "nodes params bytes markers none at"},
    {"show",
     "show graph [text] | partitions | stitched | forward K | backward K | kernels K | schedule | "
     "memory | llvm K | asm K | ptx K | cache | settings",
     "Prints what riffle made of the graph.", show, Completes::words,
     "graph partitions stitched forward backward kernels schedule memory llvm asm ptx cache "
     "settings"},
    {"print", "print VALUE[slice]", "Prints a tensor: print grad/net1.weight[0, :8]", print,
     Completes::value},
    {"dump", "dump FILE.safetensors",
     "Writes what the last step computed: loss, outputs, grad/…, param/….", dump, Completes::file},
};

}  // namespace

std::span<const Command> graph_commands() { return kCommands; }

}  // namespace riffle::driver
