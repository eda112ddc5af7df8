// How compile time grows with the graph: sums of many parameters, long chains and deep
// transformers in one partition, from the graph to object bytes, a column of CPU time a stage.
//
//   build/bench/planning_bench [FILTER] [--plan]
//
// --plan leaves LLVM out. A stage that takes time in proportion to the graph doubles from one row
// of a model to the next.
#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <functional>

#include "codegen/host/host_codegen.h"
#include "ir/autodiff.h"
#include "ir/split.h"
#include "riffle/riffle.h"

namespace {

using namespace riffle;  // NOLINT: a program's main file

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

/// Σ pᵢ², the shape of a regulariser: forward one reduction, backward a gradient a parameter.
Graph sum_of_parameters(std::int64_t count, const Shape& shape) {
  return trace("sum", [&](Tracer& t) {
    Tensor total;
    for (std::int64_t i = 0; i < count; ++i) {
      Tensor p = t.param(fmt::format("p{}", i), f32(shape));
      Tensor square = p * p;
      total = i == 0 ? square : total + square;
    }
    return sum(total);
  });
}

/// The same with a reduction a parameter.
Graph sum_of_sums(std::int64_t count, const Shape& shape) {
  return trace("sums", [&](Tracer& t) {
    Tensor total;
    for (std::int64_t i = 0; i < count; ++i) {
      Tensor p = t.param(fmt::format("p{}", i), f32(shape));
      Tensor part = sum(p * p);
      total = i == 0 ? part : total + part;
    }
    return total;
  });
}

/// Elementwise ops, and now and then a reduction, a transpose and a product.
Graph chain(std::int64_t count) {
  return trace("chain", [&](Tracer& t) {
    Tensor x = t.param("x", f32({64, 64})), w = t.param("w", f32({64, 64}));
    Tensor y = x;
    for (std::int64_t i = 0; i < count; ++i) {
      switch (i % 10) {
        case 3:
          y = tanh(y);
          break;
        case 5:
          y = y - mean(y, {1}, true);
          break;
        case 7:
          y = permute(y, {1, 0});
          break;
        case 9:
          y = i % 50 == 9 ? matmul(y, w) : exp(-y);
          break;
        default:
          y = i % 2 == 0 ? y + x : y * w;
      }
    }
    return sum(y);
  });
}

Graph gpt(std::int64_t layers) {
  constexpr std::int64_t kBatch = 2, kTokens = 32, kHeads = 4, kWidth = 64, kWords = 128;
  return trace("gpt", [&](Tracer& t) {
    const auto dense = [&](Tensor x, const std::string& name, std::int64_t in, std::int64_t out) {
      return linear(x, t.param(name + ".weight", f32({out, in})),
                    t.param(name + ".bias", f32({out})));
    };
    const auto norm = [&](Tensor x, const std::string& name) {
      return layer_norm(x, {kWidth}, t.param(name + ".weight", f32({kWidth})),
                        t.param(name + ".bias", f32({kWidth})));
    };
    const auto heads = [&](Tensor x) {
      return permute(reshape(x, {kBatch, kTokens, kHeads, kWidth / kHeads}), {0, 2, 1, 3});
    };
    Tensor tokens = t.input("tokens", {DType::i64, {kBatch, kTokens}});
    Tensor target = t.input("target", {DType::i64, {kBatch * kTokens}});
    Tensor words = t.param("words", f32({kWords, kWidth}));
    Tensor x = embedding(tokens, words) + t.param("places", f32({kTokens, kWidth}));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const std::string name = fmt::format("h{}.", layer);
      Tensor n = norm(x, name + "ln1");
      Tensor a =
          scaled_dot_product_attention(heads(dense(n, name + "query", kWidth, kWidth)),
                                       heads(dense(n, name + "key", kWidth, kWidth)),
                                       heads(dense(n, name + "value", kWidth, kWidth)), {}, true);
      Tensor joined = reshape(permute(a, {0, 2, 1, 3}), {kBatch, kTokens, kWidth});
      x = x + dense(joined, name + "proj", kWidth, kWidth);
      Tensor wide = gelu(dense(norm(x, name + "ln2"), name + "fc", kWidth, 4 * kWidth), "tanh");
      x = x + dense(wide, name + "out", 4 * kWidth, kWidth);
    }
    Tensor logits = linear(norm(x, "ln"), words);
    return cross_entropy(reshape(logits, {kBatch * kTokens, kWords}), target);
  });
}

/// Of this process's CPU time: the machine may be shared.
double milliseconds(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void measure(const std::string& name, const Graph& graph, bool with_llvm) {
  ir::DifferentiatedGraph gradients;
  const double front = milliseconds(
      [&] { gradients = ir::differentiate(ir::split(graph.ir(), *ir::split_none())); });
  const codegen::HostTarget target = codegen::detect_host();
  double planning = 0, llvm = 0;
  std::size_t nodes = 0, kernels = 0;
  for (const ir::PartitionGradient& partition : gradients.partitions)
    for (const ir::Graph* half : {&partition.forward, &partition.backward}) {
      codegen::KernelProgram program;
      planning += milliseconds([&] { program = codegen::build_kernels(*half, {}); });
      nodes += half->nodes.size();
      kernels += program.kernels.size();
      if (with_llvm)
        llvm += milliseconds([&] { codegen::compile_host(program, target, "bench_"); });
    }
  fmt::print("{:<16} {:>7} {:>8} {:>12.1f} {:>12.1f} {:>12.1f}\n", name, nodes, kernels, front,
             planning, llvm);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string filter;
  bool with_llvm = true;
  for (int i = 1; i < argc; ++i)
    if (!std::strcmp(argv[i], "--plan"))
      with_llvm = false;
    else
      filter = argv[i];
  fmt::print("{:<16} {:>7} {:>8} {:>12} {:>12} {:>12}\n", "model", "nodes", "kernels",
             "gradients ms", "plan ms", "LLVM ms");
  const auto row = [&](const std::string& name, const std::function<Graph()>& graph) {
    if (name.find(filter) != std::string::npos) measure(name, graph(), with_llvm);
  };
  try {
    for (std::int64_t n : {100, 200, 400, 800}) {
      row(fmt::format("sum tiny {}", n), [n] { return sum_of_parameters(n, {64}); });
      row(fmt::format("sum {}", n), [n] { return sum_of_parameters(n, {256, 256}); });
      row(fmt::format("sums tiny {}", n), [n] { return sum_of_sums(n, {64}); });
      row(fmt::format("sums {}", n), [n] { return sum_of_sums(n, {256, 256}); });
    }
    for (std::int64_t n : {250, 500, 1000, 2000})
      row(fmt::format("chain {}", n), [n] { return chain(n); });
    for (std::int64_t n : {3, 6, 12, 24}) row(fmt::format("gpt {}", n), [n] { return gpt(n); });
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
