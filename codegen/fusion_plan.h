// FusionPlan: which values get memory, and which kernel computes each of the others.
//
// Nodes are placed one after the other, in program order. A value is
//   source   an input or a parameter: in memory already;
//   free     computable anywhere from memory and constants: recomputed by whoever reads it;
//   member   computed by one group (a kernel to be): a matmul, a reduction, or what follows from
//            one at the same point of the group's space. It has a `home`: its element number as
//            an affine function of the space. Another group that reads it makes it `stored`.
// A reshape is never placed: it is another view of its root's bytes. Groups depend on the groups
// whose stored values they read; no join may close a cycle (GroupGraph).
//
// Planning takes time in proportion to the graph: a value looks at a bounded number of groups and
// at a bounded number of values before it (FusionLimits); a walk stops at what its group has
// computed already. Start reading at FusionPlan::plan in fusion_plan.cpp, which places nodes;
// fusion_join.cpp says when a group takes one on. How a value is computed at an index is
// ExprWalker's (fusion_walk.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/fusion_index.h"
#include "codegen/group_graph.h"
#include "codegen/kernel_spec.h"

namespace riffle::codegen {

class ExprWalker;

/// Bounds on what one kernel takes on, and on what planning looks at.
struct FusionLimits {
  /// Of the ops that one group computes (op_weight): LLVM's register allocator dominates the
  /// compile time of large blocks.
  static constexpr std::size_t kWeight = 512;
  /// Of the ops that one free value stands for: each group that reads it computes them again.
  static constexpr std::size_t kFreeWeight = 64;
  static constexpr std::size_t kLeastRoom = 16;  ///< with less weight to go, a group is full
  static constexpr std::size_t kOperands = 24;
  /// Groups that a value tries to join: the latest of those that it touches, and of others.
  static constexpr std::size_t kCandidates = 16;
  /// Groups that are looked at in search of the latter, for each value read.
  static constexpr std::size_t kReaders = 32;
  /// Free values that a value which needs no memory may bring along when it joins a group: each
  /// of them was refused before.
  static constexpr std::size_t kReach = 64;
};

/// Roughly the arithmetic instructions that an op becomes.
std::size_t op_weight(ir::Op op);

/// How much looking around planning took, over all passes: tests hold it against the graph's size.
struct PlanWork {
  std::size_t joins = 0;   ///< (value, group) pairs tried
  std::size_t walked = 0;  ///< expressions written to find out
  std::size_t visits = 0;  ///< groups and values looked at besides
};

struct FusionGroup {
  enum class Kind : std::uint8_t { loop, row, matmul, scatter, cat };
  Kind kind = Kind::loop;
  Shape space{};                          ///< row: of the reduced tensor; matmul: of the result
  std::vector<bool> reduced{};            ///< row: per dimension of space
  bool lanes = true;                      ///< row
  ir::ValueId anchor = ir::kNoValue;      ///< matmul, scatter, cat
  std::vector<ir::ValueId> reductions{};  ///< row: in order of joining
  std::vector<ir::ValueId> members{};     ///< values that it computes
  std::vector<ir::ValueId> stored{};      ///< of these, those that it writes to memory
  std::set<ir::ValueId> leaves{};         ///< values that it reads from memory
  std::size_t weight = 0;                 ///< of the ops that it computes

  std::int64_t outer_elements() const noexcept;
  /// Takes on nothing more, or only what is hardly worth asking for.
  bool full() const noexcept {
    return leaves.size() + stored.size() > FusionLimits::kOperands ||
           weight + FusionLimits::kLeastRoom > FusionLimits::kWeight;
  }
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
  /// Groups whose stored values the group reads.
  const std::set<int>& depends(int id) const { return group_graph_.depends(id); }
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
  PlanWork work() const noexcept;

 private:
  // fusion_plan.cpp
  void find_roots();
  void find_slots();
  void plan();
  std::int64_t stored_bytes() const;
  /// Places `v`, giving memory to what turns out to need it first.
  void place_value(ir::ValueId v);
  void give_memory(ir::ValueId v);
  void place_node(ir::ValueId v);
  void place_mapped(ir::ValueId v);
  void place_reduce(ir::ValueId v);
  void place_matmul(ir::ValueId v);
  void place_scatter(ir::ValueId v);
  void place_cat(ir::ValueId v);
  void place_loop(ir::ValueId v);
  int open(FusionGroup group);
  Placement& add_member(ir::ValueId v, int group);
  void store(ir::ValueId v);
  /// What computing a value takes from where all but the free ones are known.
  struct Cone {
    std::size_t values = 0, weight = 0, leaves = 0;
    std::vector<int> groups;    ///< that compute leaves
    std::vector<int> unstored;  ///< that compute leaves which are not in memory
    bool fits() const noexcept;
  };
  /// Looks no further once it does not fit.
  Cone cone_of(ir::ValueId v);

  // fusion_join.cpp
  struct Home {
    Affine element;
    bool outer = false;
  };
  std::vector<Home> home_candidates(ir::ValueId v, int group) const;
  bool join(ir::ValueId v, int group, bool needs_unstored);
  bool join_reduce(ir::ValueId v, int group);
  bool try_home(ir::ValueId v, int group, Home home, bool needs_unstored);
  bool fits(const FusionGroup& group, const ExprWalker& walker);
  /// Whether `group` may take on what the walker met; does it when it may.
  bool accept(int group, const ExprWalker& walker);
  void add_leaf(int group, ir::ValueId leaf);
  /// Makes the group known to tiny values of as many elements.
  void offer_tiny(int group, std::int64_t elements);
  bool refine(int group, const Refine& refine);
  /// Whether unrelated work of the same shape gains by sharing a kernel.
  bool worth_sharing(const FusionGroup& group, const std::set<ir::ValueId>& leaves) const;
  /// Of groups that compute something a cone reads, those that might take it on: latest first.
  std::vector<int> touched_groups(const Cone& cone, std::vector<int> groups) const;
  /// Groups that might take `v` on though they compute nothing that it reads: latest first.
  std::vector<int> sharing_groups(ir::ValueId v);
  std::vector<bool> reduced_mask(ir::ValueId v, const TensorIndex& index, std::size_t rank) const;

  const ir::Graph& graph_;
  FusionOptions options_;
  std::vector<ir::ValueId> roots_;
  std::vector<bool> live_;
  std::set<ir::ValueId> forced_;   ///< found to need memory, in this pass or an earlier one
  std::set<ir::ValueId> slots_;    ///< values that get memory whatever is fused
  std::set<ir::ValueId> outputs_;  ///< roots of the graph's outputs
  std::set<ir::ValueId> hints_;    ///< values that the previous plan stored
  std::vector<Placement> places_;
  std::vector<FusionGroup> groups_;
  GroupGraph group_graph_;
  std::unordered_map<ir::ValueId, std::vector<int>> readers_;  ///< groups by what they read
  std::map<std::int64_t, std::vector<int>> tiny_;              ///< tiny groups by elements
  std::vector<std::size_t> met_;  ///< number of the last cone_of that met the value
  std::size_t cones_ = 0;
  PlanWork work_;
};

/// Dimensions that a reduction reduces, normalised.
std::vector<std::int64_t> reduced_dimensions(const ir::Graph& graph, ir::ValueId v);

}  // namespace riffle::codegen
