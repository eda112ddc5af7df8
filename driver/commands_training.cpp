// init, data, optimizer, compile, step, train, eval, time.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "driver/command.h"
#include "driver/emulation.h"
#include "driver/progress.h"
#include "ir/array.h"

namespace riffle::driver {
namespace {

void say_notes(Context& context, const StepResult& result) {
  for (const std::string& note : result.notes) context.output().note(note);
}

void init(Context& context, Arguments& arguments) {
  const std::int64_t seed = arguments.integer_option("--seed", 0);
  arguments.finish();
  context.executable().init(static_cast<std::uint64_t>(seed));
  context.losses.clear();
  context.output().result({{"command", "init"}, {"seed", seed}},
                          fmt::format("initialised parameters and inputs, seed {}", seed));
}

/// A data set's file: as named, or a shipped one by its bare name.
std::string find_data(const std::string& name) {
  namespace fs = std::filesystem;
  if (fs::exists(name)) return name;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string tried = name;
  for (const fs::path& base :
       {fs::path("examples/data"), program / "../examples/data", program / "../share/riffle/data"})
    for (const char* ending : {".csv.gz", ".csv"}) {
      const fs::path path = base / (name + ending);
      if (fs::exists(path)) return path.lexically_normal().string();
      tried += ", " + path.string();
    }
  throw IoError({.what = "there is no data set '" + name + "' (tried " + tried + ")",
                 .hint = "data digits, or a CSV file with the class in the last column"});
}

/// The inputs that take features [N, columns] and classes [N].
void bind_inputs(const Graph& graph, BoundData& bound) {
  for (const Graph::Named& input : graph.inputs()) {
    const bool features = is_floating(input.type.dtype) && input.type.rank() == 2 &&
                          input.type.shape[1] == bound.data.columns;
    const bool labels = input.type.dtype == DType::i64 && input.type.rank() == 1;
    if (features && bound.features.empty()) {
      bound.features = input.name;
      if (bound.batch == 0) bound.batch = input.type.shape[0];
    } else if (labels && bound.labels.empty()) {
      bound.labels = input.name;
    }
  }
  if (bound.features.empty() || bound.labels.empty())
    throw GraphError(
        {.what = fmt::format("the graph has no inputs for {} features and a class a row",
                             bound.data.columns),
         .hint = fmt::format("%x = input : f32[N, {}] and %target = input : i64[N]",
                             bound.data.columns)});
  if (bound.batch == 0)
    throw UsageError({.what = "a batch of 0 rows would never come to the end of the data",
                      .where = "%" + bound.features,
                      .hint = "data NAME --batch 64"});
}

void set_batch(Executable& executable, const BoundData& bound,
               const std::vector<std::int64_t>& order, std::int64_t begin, std::int64_t end) {
  io::Batch batch = io::make_batch(bound.data, order, begin, end);
  executable.set(bound.features, std::move(batch.features));
  executable.set(bound.labels, std::move(batch.labels));
}

void data(Context& context, Arguments& arguments) {
  BoundData bound;
  bound.batch = arguments.integer_option("--batch", 0);
  bound.seed = static_cast<std::uint64_t>(arguments.integer_option("--seed", 0));
  const std::string name = arguments.take("a data set's name or file");
  arguments.finish();
  if (bound.batch < 0) throw UsageError({.what = "--batch must be positive"});
  bound.data = io::read_csv(find_data(name));
  bound.data.name = name;
  bound.split = io::split_rows(bound.data.rows(), 0.8, bound.seed);
  bind_inputs(context.graph(), bound);
  const auto train = static_cast<std::int64_t>(bound.split.train.size());
  set_batch(context.executable(), bound, bound.split.train, 0, std::min(bound.batch, train));
  const std::string text = fmt::format(
      "data {}: {} rows of {} features, {} classes; {} for training, {} for test (80/20, seed {}); "
      "batch {}",
      name, bound.data.rows(), bound.data.columns, bound.data.classes, train,
      bound.split.test.size(), bound.seed, bound.batch);
  const Json object = {{"command", "data"},
                       {"name", name},
                       {"rows", bound.data.rows()},
                       {"columns", bound.data.columns},
                       {"classes", bound.data.classes},
                       {"train", train},
                       {"test", bound.split.test.size()},
                       {"batch", bound.batch}};
  context.data = std::move(bound);
  context.output().result(object, text);
}

void optimizer(Context& context, Arguments& arguments) {
  OptimizerSpec spec{.name = arguments.take("a name: sgd, adam, adamw or none")};
  if (spec.name == "adam" || spec.name == "adamw") spec.lr = 1e-3;
  if (spec.name == "adamw") spec.weight_decay = 0.01;
  struct Key {
    std::string_view name;
    double* value;
  };
  const Key keys[] = {
      {"lr", &spec.lr},       {"momentum", &spec.momentum}, {"weight_decay", &spec.weight_decay},
      {"beta1", &spec.beta1}, {"beta2", &spec.beta2},       {"eps", &spec.eps}};
  for (const std::string& word : arguments.take_rest()) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "nesterov") {
      spec.nesterov = value.empty() || value == "True" || value == "true" || value == "1";
      continue;
    }
    auto row = std::find_if(std::begin(keys), std::end(keys),
                            [&](const Key& candidate) { return candidate.name == key; });
    if (row == std::end(keys) || equals == std::string::npos)
      throw UsageError({.what = "optimizer has no setting '" + word + "'",
                        .hint = "lr= momentum= weight_decay= beta1= beta2= eps= nesterov=True"});
    *row->value = parse_number(value, key);
  }
  context.executable().set_optimizer(spec);
  context.output().result({{"command", "optimizer"},
                           {"name", spec.name},
                           {"lr", spec.lr},
                           {"momentum", spec.momentum},
                           {"weight_decay", spec.weight_decay}},
                          fmt::format("optimizer {}: lr {}, momentum {}, weight_decay {}",
                                      spec.name, spec.lr, spec.momentum, spec.weight_decay));
}

void compile(Context& context, Arguments& arguments) {
  arguments.finish();
  const CompileReport report = context.executable().compile();
  const std::size_t partitions = context.executable().partition_count();
  context.output().result(
      {{"command", "compile"},
       {"partitions", partitions},
       {"modules", report.modules},
       {"compiled", report.compiled},
       {"from_memory", report.from_memory},
       {"from_disk", report.from_disk},
       {"optimizer_compiled", report.optimizer_compiled},
       {"kernels", report.kernels},
       {"ms", report.milliseconds}},
      fmt::format(
          "compiled all {} modules in {:.1f} ms: {} kernels, forward and backward ({} of {} parts "
          "generated, {} from memory, {} from the disk cache; {} generated for the optimizer)",
          partitions, report.milliseconds, report.kernels, report.compiled, report.modules,
          report.from_memory, report.from_disk, report.optimizer_compiled));
}

void step(Context& context, Arguments& arguments) {
  const std::string lr = arguments.option("--lr", "");
  const std::int64_t count = arguments.empty() ? 1 : arguments.take_integer("a number of steps");
  arguments.finish();
  if (count < 0) throw UsageError({.what = "the number of steps must not be negative"});
  Executable& executable = context.executable();
  if (!lr.empty()) executable.set_learning_rate(parse_number(lr, "--lr"));
  announce_emulated_steps(context, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const StepResult result = executable.step();
    say_notes(context, result);
    context.losses.push_back({result.step, result.loss});
    context.output().result(
        {{"command", "step"},
         {"iteration", result.step},
         {"loss",
          std::isfinite(result.loss) ? Json(result.loss) : Json(fmt::format("{}", result.loss))},
         {"ms", result.milliseconds}},
        fmt::format("iteration {}, loss {:.6g} ({:.2f} ms)", result.step, result.loss,
                    result.milliseconds));
    if (context.interrupted()) throw Cancelled({.what = "interrupted"});
  }
}

/// Rows of logits whose largest value is at the label.
std::int64_t count_correct(const HostTensor& logits, const HostTensor& labels) {
  const ir::Array scores = ir::array_from_bytes(logits.type, logits.bytes);
  const auto classes = labels.as<std::int64_t>();
  const std::int64_t columns = logits.type.shape.back();
  if (logits.type.shape.front() != labels.type.shape.front())
    throw GraphError({.what = fmt::format("the class scores {} are not one row for each of {} rows",
                                          to_string(logits.type), labels.type.shape.front()),
                      .hint = "return logits of shape [N, classes]"});
  std::int64_t correct = 0;
  for (std::size_t row = 0; row < classes.size(); ++row) {
    const double* begin = scores.data.data() + static_cast<std::int64_t>(row) * columns;
    correct += std::max_element(begin, begin + columns) - begin == classes[row];
  }
  return correct;
}

/// The output that holds class scores [N, classes]; empty when there is none.
std::string logits_name(Context& context) {
  for (const Graph::Named& output : context.graph().outputs())
    if (output.type.rank() == 2 && output.type.shape[1] >= context.data->data.classes)
      return output.name;
  return {};
}

/// Puts the inputs back as they were: a step after `eval` must not train on test rows.
class InputsRestored {
 public:
  InputsRestored(Executable& executable, const BoundData& bound)
      : executable_(executable), bound_(bound) {
    if (executable.has(bound.features)) features_ = executable.get(bound.features);
    if (executable.has(bound.labels)) labels_ = executable.get(bound.labels);
  }
  ~InputsRestored() {
    try {
      if (features_) executable_.set(bound_.features, std::move(*features_));
      if (labels_) executable_.set(bound_.labels, std::move(*labels_));
    } catch (const std::exception&) {  // they fitted before; only memory can be short
    }
  }
  InputsRestored(const InputsRestored&) = delete;
  InputsRestored& operator=(const InputsRestored&) = delete;

 private:
  Executable& executable_;
  const BoundData& bound_;
  std::optional<HostTensor> features_, labels_;
};

struct Evaluation {
  double loss = 0, accuracy = std::nan("");
};

Evaluation evaluate_rows(Context& context, const std::vector<std::int64_t>& rows) {
  const BoundData& bound = *context.data;
  Executable& executable = context.executable();
  const std::string logits = logits_name(context);
  const InputsRestored restored(executable, bound);
  double loss = 0;
  std::int64_t correct = 0;
  const auto total = static_cast<std::int64_t>(rows.size());
  for (std::int64_t begin = 0; begin < total; begin += bound.batch) {
    const std::int64_t end = std::min(begin + bound.batch, total);
    set_batch(executable, bound, rows, begin, end);
    const StepResult result = executable.evaluate();
    say_notes(context, result);
    loss += result.loss * static_cast<double>(end - begin);
    if (!logits.empty())
      correct += count_correct(executable.get(logits), executable.get(bound.labels));
    if (context.interrupted()) throw Cancelled({.what = "interrupted"});
  }
  Evaluation evaluation{.loss = loss / static_cast<double>(std::max<std::int64_t>(1, total))};
  if (!logits.empty())
    evaluation.accuracy = static_cast<double>(correct) / static_cast<double>(total);
  return evaluation;
}

std::string accuracy_text(double accuracy) {
  return std::isnan(accuracy) ? "" : fmt::format("   accuracy {:6.2f}%", 100 * accuracy);
}

void evaluate(Context& context, Arguments& arguments) {
  arguments.finish();
  if (!context.data) {
    const StepResult result = context.executable().evaluate();
    say_notes(context, result);
    context.output().result({{"command", "eval"}, {"loss", result.loss}},
                            fmt::format("eval: loss {:.6g}", result.loss));
    return;
  }
  const Evaluation test = evaluate_rows(context, context.data->split.test);
  if (!std::isnan(test.accuracy)) context.test_accuracy = test.accuracy;
  context.output().result(
      {{"command", "eval"},
       {"rows", context.data->split.test.size()},
       {"loss", test.loss},
       {"accuracy", std::isnan(test.accuracy) ? Json() : Json(test.accuracy)}},
      fmt::format("eval on {} test rows   loss {:.4f}{}", context.data->split.test.size(),
                  test.loss, accuracy_text(test.accuracy)));
}

void train(Context& context, Arguments& arguments) {
  const std::int64_t epochs = arguments.integer_option("--epochs", 1);
  const std::string lr = arguments.option("--lr", "");
  arguments.finish();
  if (!context.data)
    throw UsageError({.what = "there is no data to train on", .hint = "data digits, then train"});
  if (epochs < 0) throw UsageError({.what = "--epochs must not be negative"});
  Executable& executable = context.executable();
  if (!lr.empty()) executable.set_learning_rate(parse_number(lr, "--lr"));
  const BoundData& bound = *context.data;
  const std::string logits = logits_name(context);
  std::vector<std::int64_t> order = bound.split.train;
  const auto rows = static_cast<std::int64_t>(order.size());
  announce_emulated_steps(context, epochs * ((rows + bound.batch - 1) / bound.batch));
  Progress progress(context.output(), epochs * rows, "train");
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    // Two `train --epochs 10` are one `train --epochs 20`.
    order = bound.split.train;
    io::shuffle(order, bound.seed + 1 + static_cast<std::uint64_t>(context.data->epochs));
    progress.restart_clock();
    double loss = 0;
    std::int64_t correct = 0;
    for (std::int64_t begin = 0; begin < rows; begin += bound.batch) {
      const std::int64_t end = std::min(begin + bound.batch, rows);
      set_batch(executable, bound, order, begin, end);
      const StepResult result = executable.step();
      say_notes(context, result);
      context.losses.push_back({result.step, result.loss});
      loss += result.loss * static_cast<double>(end - begin);
      if (!logits.empty())
        correct += count_correct(executable.get(logits), executable.get(bound.labels));
      const double seen = static_cast<double>(end);
      progress.advance(
          end - begin,
          fmt::format("epoch {}/{} loss {:.4f}{}", epoch + 1, epochs, loss / seen,
                      logits.empty() ? "" : accuracy_text(static_cast<double>(correct) / seen)));
      if (context.interrupted())
        throw Cancelled({.what = "interrupted", .hint = "train goes on from here"});
    }
    ++context.data->epochs;
    const double mean = loss / static_cast<double>(rows);
    const double accuracy =
        logits.empty() ? std::nan("") : static_cast<double>(correct) / static_cast<double>(rows);
    context.output().result({{"command", "train"},
                             {"epoch", epoch + 1},
                             {"loss", mean},
                             {"accuracy", std::isnan(accuracy) ? Json() : Json(accuracy)},
                             {"samples_per_second", progress.rate()}},
                            fmt::format("epoch {:>{}}/{}   loss {:.4f}{}   {:>7.0f} samples/s",
                                        epoch + 1, std::to_string(epochs).size(), epochs, mean,
                                        accuracy_text(accuracy), progress.rate()));
  }
  // A full batch again, for `step` and `time` after the last, short one.
  set_batch(executable, bound, order, 0, std::min(bound.batch, rows));
}

class TracingPaused {
 public:
  explicit TracingPaused(Executable& executable) : executable_(executable) {
    jit::pause_tracing(executable, true);
  }
  ~TracingPaused() { jit::pause_tracing(executable_, false); }
  TracingPaused(const TracingPaused&) = delete;
  TracingPaused& operator=(const TracingPaused&) = delete;

 private:
  Executable& executable_;
};

void time_steps(Context& context, Arguments& arguments) {
  const std::int64_t count = arguments.empty() ? 20 : arguments.take_integer("a number of steps");
  arguments.finish();
  if (count < 1) throw UsageError({.what = "the number of steps must be positive"});
  Executable& executable = context.executable();
  announce_emulated_steps(context, count + 1);
  std::vector<double> times;
  {
    const TracingPaused paused(executable);
    executable.step();  // compiles, warms up
    for (std::int64_t i = 0; i < count && !context.interrupted(); ++i)
      times.push_back(executable.step().milliseconds);
  }
  if (times.empty()) throw Cancelled({.what = "interrupted"});
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  context.output().result(
      {{"command", "time"},
       {"steps", times.size()},
       {"median_ms", median},
       {"best_ms", times.front()},
       {"worst_ms", times.back()}},
      fmt::format("{} steps: median {:.3f} ms, best {:.3f}, worst {:.3f} (the updates are kept)",
                  times.size(), median, times.front(), times.back()));
}

constexpr Command kCommands[] = {
    {"init", "init [--seed N]", "Fills parameters and inputs from a seeded generator.", init},
    {"data", "data NAME|FILE [--batch N] [--seed N]",
     "Binds a data set to the graph's inputs, split 80/20 into training and test.", data,
     Completes::file},
    {"optimizer", "optimizer NAME key=value…", "sgd, adam, adamw or none, with fresh state.",
     optimizer, Completes::words, "sgd adam adamw none"},
    {"compile", "compile", "Compiles every partition, forward and backward.", compile},
    {"step", "step [N] [--lr X]", "Runs N training steps on the inputs as they are.", step},
    {"train", "train [--epochs N] [--lr X]", "Trains on the data's training rows.", train},
    {"eval", "eval", "Forward only, on the test rows, or on the inputs without data.", evaluate},
    {"time", "time [N]", "Times N steps: median, best, worst.", time_steps},
};

}  // namespace

std::span<const Command> training_commands() { return kCommands; }

}  // namespace riffle::driver
