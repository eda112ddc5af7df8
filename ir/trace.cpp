// The public Graph, Tensor and Tracer over ir::Graph and ir::Builder.
#include <filesystem>
#include <fstream>
#include <system_error>

#include "ir/builder.h"
#include "ir/passes.h"
#include "ir/tensor_access.h"
#include "ir/text.h"
#include "riffle/graph.h"

namespace riffle {
namespace {

std::vector<Graph::Named> named(const ir::Graph& graph, const std::vector<ir::ValueId>& ids) {
  std::vector<Graph::Named> result;
  for (ir::ValueId id : ids) result.push_back({graph[id].name, graph[id].type});
  return result;
}

}  // namespace

Graph::Graph(std::shared_ptr<const ir::Graph> graph) : graph_(std::move(graph)) {}

Graph Graph::parse(std::string_view text, std::string_view file_name) {
  return Graph(std::make_shared<const ir::Graph>(ir::parse(text, file_name)));
}

Graph Graph::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw IoError(
        {.what = "cannot open the graph", .where = path, .hint = "a file in text form (.rfl)"});
  constexpr std::streamsize kMostBytes = std::streamsize{1} << 28, kChunk = 1 << 16;
  std::string text, chunk(kChunk, 0);
  while (file.read(chunk.data(), kChunk) || file.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(file.gcount()));
    if (static_cast<std::streamsize>(text.size()) > kMostBytes)
      throw IoError({.what = "a graph's text is at most " + std::to_string(kMostBytes) + " bytes",
                     .where = path,
                     .hint = "a file in text form (.rfl)"});
  }
  std::error_code ignored;
  if (file.bad() || std::filesystem::is_directory(path, ignored))
    throw IoError(
        {.what = "cannot read the graph", .where = path, .hint = "a file in text form (.rfl)"});
  return parse(text, path);
}

std::string Graph::text() const { return ir::print(*graph_); }
std::string Graph::table() const { return ir::format_table(ir::table_rows(*graph_)); }
std::vector<Graph::Named> Graph::inputs() const { return named(*graph_, graph_->inputs()); }
std::vector<Graph::Named> Graph::parameters() const { return named(*graph_, graph_->parameters()); }
std::vector<Graph::Named> Graph::outputs() const { return named(*graph_, graph_->outputs); }

const TensorType& Tensor::type() const {
  if (!builder_) throw UsageError({.what = "an empty Tensor has no type"});
  return builder_->type({id_});
}

Tensor Tracer::input(std::string_view name, TensorType type, bool requires_grad, Where where) {
  TensorAccess::locate(*builder_, where);
  return TensorAccess::make(*builder_, builder_->append_source(ir::Op::input, std::move(type), name,
                                                               {{"requires_grad", requires_grad}}));
}
Tensor Tracer::param(std::string_view name, TensorType type, bool frozen, Where where) {
  TensorAccess::locate(*builder_, where);
  return TensorAccess::make(*builder_, builder_->append_source(ir::Op::param, std::move(type), name,
                                                               {{"frozen", frozen}}));
}
Tensor Tracer::full(const Shape& size, double value, DType dtype, Where where) {
  TensorAccess::locate(*builder_, where);
  return TensorAccess::make(*builder_, builder_->full(size, value, dtype));
}
void Tracer::graph_break() { builder_->append_break(); }

Tensor Tracer::named(Tensor value, std::string_view name) {
  builder_->rename(TensorAccess::value(value), name);
  return value;
}

Graph trace(std::string_view name, const std::function<Tensor(Tracer&)>& model) {
  return trace(name, [&](Tracer& tracer) { return std::vector<Tensor>{model(tracer)}; });
}

Graph trace(std::string_view name, const std::function<std::vector<Tensor>(Tracer&)>& model) {
  ir::Builder builder{std::string(name)};
  Tracer tracer(builder);
  std::vector<ir::Value> outputs;
  const std::vector<Tensor> results = model(tracer);
  if (results.empty())
    throw GraphError({.what = "the model of trace \"" + std::string(name) + "\" returns nothing",
                      .hint = "return the loss first, then what else is wanted"});
  for (const Tensor& tensor : results) {
    if (TensorAccess::builder(tensor) != &builder)
      throw GraphError({.what = "a result of trace \"" + std::string(name) +
                                "\" is empty or belongs to another trace",
                        .hint = "return tensors made from this trace's Tracer"});
    outputs.push_back(TensorAccess::value(tensor));
  }
  auto graph = std::make_shared<ir::Graph>(builder.finish(std::move(outputs)));
  ir::verify(*graph);
  return Graph(std::move(graph));
}

}  // namespace riffle
