// FusionPlan: which values get memory, and which kernel computes each of the others.
//
// Nodes are placed one after the other, in program order. A value is
//   source   an input or a parameter: in memory already;
//   free     computable anywhere from memory and constants: recomputed by whoever reads it;
//   member   computed by one group (a kernel to be): a matmul, a reduction, or what follows from
//            one at the same point of the group's space. It has a `home`: its element number as
//            an affine function of the space. Another group that reads it makes it `stored`.
// A reshape is never placed: it is another view of its root's bytes. Groups depend on the groups
// whose stored values they read; no join may close a cycle. Start reading at FusionPlan::plan;
// how a value is computed at an index is ExprWalker's (fusion_walk.h).
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "codegen/fusion_index.h"
#include "codegen/kernel_spec.h"

namespace riffle::codegen {

class ExprWalker;

struct FusionGroup {
  enum class Kind : std::uint8_t { loop, row, matmul, scatter, cat };
  Kind kind = Kind::loop;
  Shape space{};                          ///< row: of the reduced tensor; matmul: of the result
  std::vector<bool> reduced{};            ///< row: per dimension of space
  bool lanes = true;                      ///< row
  ir::ValueId anchor = ir::kNoValue;      ///< matmul, scatter, cat
  std::vector<ir::ValueId> reductions{};  ///< row: in order of joining
  std::vector<ir::ValueId> stored{};      ///< values that it writes to memory
  std::set<int> depends{};                ///< groups whose stored values it reads
  std::set<ir::ValueId> leaves{};         ///< values that it reads from memory

  std::int64_t outer_elements() const noexcept;
};

struct Placement {
  enum class Kind : std::uint8_t { dead, source, free, member };
  Kind kind = Kind::dead;
  int group = -1;
  bool anchor = false;  ///< the product, or a reduction's result: exists at its home only
  bool outer = false;   ///< row groups: one a row, rather than one a point
  bool stored = false;
  Affine home{};

  bool in_memory() const noexcept { return kind == Kind::source || stored; }
};

/// A matmul operand as strides over another value's bytes.
struct MatrixView {
  ir::ValueId base = ir::kNoValue;
  Affine address;  ///< over the dimensions of the operand
};

class FusionPlan {
 public:
  FusionPlan(const ir::Graph& graph, const FusionOptions& options);

  const ir::Graph& graph() const noexcept { return graph_; }
  const std::vector<FusionGroup>& groups() const noexcept { return groups_; }
  const FusionGroup& group(int id) const { return groups_[static_cast<std::size_t>(id)]; }
  const Placement& place(ir::ValueId root) const { return places_[static_cast<std::size_t>(root)]; }
  /// The value whose bytes `v` is: itself, except for reshapes.
  ir::ValueId root(ir::ValueId v) const { return roots_[static_cast<std::size_t>(v)]; }
  /// Looks through permute, expand, slice, reshape and exact widening casts.
  MatrixView matrix_view(ir::ValueId operand) const;
  bool is_zero_fill(ir::ValueId v) const;
  /// Whether a value is in memory, or was in the previous plan and so probably will be.
  bool expects_memory(ir::ValueId root) const {
    return place(root).in_memory() || hints_.contains(root);
  }
  /// Group ids such that each comes after those it depends on.
  std::vector<int> order() const;

 private:
  void find_roots();
  void find_slots();
  void plan();
  void attempt();
  std::int64_t stored_bytes() const;
  void place_node(ir::ValueId v);
  void place_mapped(ir::ValueId v);
  void place_reduce(ir::ValueId v);
  void place_matmul(ir::ValueId v);
  void place_scatter(ir::ValueId v);
  void place_cat(ir::ValueId v);
  void place_loop(ir::ValueId v);
  void store(ir::ValueId v);

  struct Home {
    Affine element;
    bool outer = false;
  };
  std::vector<Home> home_candidates(ir::ValueId v, int group) const;
  bool join(ir::ValueId v, int group, bool needs_unstored);
  bool join_reduce(ir::ValueId v, int group);
  bool try_home(ir::ValueId v, int group, Home home, bool needs_unstored);
  /// Whether `group` may take on what the walker met; does it when it may.
  bool accept(int group, const ExprWalker& walker);
  bool refine(int group, const Refine& refine);
  bool depends_on(int group, int other) const;
  /// Whether unrelated work of the same shape gains by sharing a kernel.
  bool worth_sharing(const FusionGroup& group, const std::set<ir::ValueId>& leaves) const;
  bool wide_enough(std::int64_t elements, std::int64_t outer) const noexcept;
  /// Groups that might take `v` on though they compute nothing that it reads: latest first.
  std::vector<int> sharing_groups(ir::ValueId v) const;
  std::vector<int> touched_groups(ir::ValueId v) const;
  std::size_t depth_as_free(ir::ValueId v) const;
  std::vector<bool> reduced_mask(ir::ValueId v, const TensorIndex& index, std::size_t rank) const;

  const ir::Graph& graph_;
  FusionOptions options_;
  std::vector<ir::ValueId> roots_;
  std::vector<bool> live_;
  std::set<ir::ValueId> forced_;   ///< found to need memory by earlier attempts
  std::set<ir::ValueId> slots_;    ///< values that get memory whatever is fused
  std::set<ir::ValueId> outputs_;  ///< roots of the graph's outputs
  std::set<ir::ValueId> hints_;    ///< values that the previous plan stored
  std::vector<Placement> places_;
  std::vector<std::set<int>> touched_;  ///< groups that a free value's operands belong to
  std::vector<std::size_t> depths_;     ///< of a free value: the longest chain of such up to it
  std::vector<FusionGroup> groups_;
};

/// Dimensions that a reduction reduces, normalised.
std::vector<std::int64_t> reduced_dimensions(const ir::Graph& graph, ir::ValueId v);

}  // namespace riffle::codegen
