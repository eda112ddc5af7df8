// The table of split policies, and the reading of their arguments. A new policy is a file beside
// this one and a row here.
#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "ir/split.h"

namespace riffle::ir {

std::vector<SplitPolicyInfo> split_policies() {
  using Kind = SplitArgument::Kind;
  using Values = std::span<const std::int64_t>;
  return {
      {"none", {}, "one partition", [](Values) { return split_none(); }},
      {"nodes",
       {{"N", Kind::count, "compute nodes a partition"}},
       "N compute nodes a partition, counted from the output",
       [](Values v) { return split_by_nodes(v[0]); }},
      {"params",
       {{"N", Kind::count, "trainable parameters a partition"}},
       "at least N trainable parameters a partition, counted from the output",
       [](Values v) { return split_by_params(v[0]); }},
      {"bytes",
       {{"CAP", Kind::bytes, "bytes of trainable parameters a partition"},
        {.name = "first",
         .kind = Kind::bytes,
         .help = "bytes in the partition at the output",
         .option = true,
         .default_value = std::int64_t{1} << 20}},
       "at least CAP bytes of trainable parameters a partition, counted from the output",
       [](Values v) { return split_by_bytes(v[0], v[1]); }},
      {"markers", {}, "at the graph's explicit breaks", [](Values) { return split_at_markers(); }},
      {"at",
       {{.name = "CUT",
         .kind = Kind::count,
         .help = "number of compute nodes before the cut",
         .repeated = true}},
       "exactly there",
       [](Values v) {
         std::vector<std::size_t> cuts;
         for (std::int64_t cut : v) {
           if (cut < 0) {
             throw UsageError({.what = fmt::format("split at: a cut cannot be at {}", cut),
                               .hint = "the number of compute nodes before the cut"});
           }
           cuts.push_back(static_cast<std::size_t>(cut));
         }
         return split_at(std::move(cuts));
       }},
  };
}

std::string SplitPolicyInfo::usage() const {
  std::string text(name);
  for (const SplitArgument& argument : arguments) {
    if (argument.option) {
      text += fmt::format(" [--{} {}]", argument.name,
                          argument.kind == SplitArgument::Kind::bytes ? "BYTES" : "N");
    } else {
      text += fmt::format(" {}{}", argument.name, argument.repeated ? "…" : "");
    }
  }
  return text;
}

namespace {

/// Factor of a byte suffix, or 0.
std::int64_t byte_factor(std::string_view suffix) {
  struct Row {
    std::string_view text;
    std::int64_t factor;
  };
  static constexpr Row kRows[] = {{"", 1},          {"b", 1},          {"k", 1 << 10},
                                  {"kib", 1 << 10}, {"kb", 1000},      {"m", 1 << 20},
                                  {"mib", 1 << 20}, {"mb", 1000000},   {"g", 1 << 30},
                                  {"gib", 1 << 30}, {"gb", 1000000000}};
  std::string lower;
  for (char c : suffix) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const Row& row : kRows) {
    if (row.text == lower) return row.factor;
  }
  return 0;
}

std::int64_t read_value(const SplitPolicyInfo& policy, const SplitArgument& argument,
                        const std::string& word) {
  std::int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  const std::int64_t factor = argument.kind == SplitArgument::Kind::bytes
                                  ? byte_factor({rest, static_cast<std::size_t>(end - rest)})
                                  : (rest == end ? 1 : 0);
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  if (error != std::errc{} || factor == 0 || value > limit / factor || value < -(limit / factor)) {
    throw UsageError(
        {.what = fmt::format(
             "split {}: {} is not {}", policy.name, word,
             argument.kind == SplitArgument::Kind::bytes ? "a number of bytes" : "a whole number"),
         .hint = argument.kind == SplitArgument::Kind::bytes
                     ? fmt::format("split {}, where bytes are written 4096, 512KiB, 25MiB or 1GB",
                                   policy.usage())
                     : fmt::format("split {}", policy.usage())});
  }
  return value * factor;
}

}  // namespace

std::unique_ptr<SplitPolicy> make_split_policy(std::span<const std::string> words) {
  const std::vector<SplitPolicyInfo> table = split_policies();
  const SplitPolicyInfo* policy = nullptr;
  std::string usages;
  for (const SplitPolicyInfo& row : table) {
    if (!words.empty() && row.name == words[0]) policy = &row;
    usages += fmt::format("{}split {}", usages.empty() ? "" : " | ", row.usage());
  }
  if (policy == nullptr) {
    throw UsageError({.what = words.empty() ? "split needs a policy"
                                            : fmt::format("no split policy '{}'", words[0]),
                      .hint = usages});
  }
  const std::string hint = fmt::format("split {}", policy->usage());

  std::vector<const SplitArgument*> positional;
  std::vector<std::optional<std::int64_t>> values;  // by index of the argument
  for (const SplitArgument& argument : policy->arguments) {
    if (!argument.option) positional.push_back(&argument);
    values.push_back(argument.default_value);
  }
  std::vector<std::int64_t> repeated;
  std::size_t next = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const SplitArgument* argument = nullptr;
    if (word.starts_with("--")) {
      for (const SplitArgument& a : policy->arguments) {
        if (a.option && word.substr(2) == a.name) argument = &a;
      }
      if (argument == nullptr) {
        throw UsageError(
            {.what = fmt::format("split {} has no option {}", policy->name, word), .hint = hint});
      }
      if (++i == words.size()) {
        throw UsageError(
            {.what = fmt::format("split {}: {} needs a value", policy->name, word), .hint = hint});
      }
    } else {
      if (next == positional.size()) {
        throw UsageError({.what = fmt::format("split {} takes {} argument{}, not {}", policy->name,
                                              positional.size(), positional.size() == 1 ? "" : "s",
                                              words.size() - 1),
                          .hint = hint});
      }
      argument = positional[next];
      if (!argument->repeated) ++next;
    }
    const std::int64_t value = read_value(*policy, *argument, words[i]);
    if (argument->repeated) {
      repeated.push_back(value);
    } else {
      values[static_cast<std::size_t>(argument - policy->arguments.data())] = value;
    }
  }

  std::vector<std::int64_t> complete;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SplitArgument& argument = policy->arguments[i];
    if (argument.repeated) continue;
    if (!values[i]) {
      throw UsageError(
          {.what = fmt::format("split {} needs {}", policy->name, argument.name), .hint = hint});
    }
    complete.push_back(*values[i]);
  }
  complete.insert(complete.end(), repeated.begin(), repeated.end());
  return policy->make(complete);
}

}  // namespace riffle::ir
