// Planted mistakes: each kind of fault is found, named and placed; and what looks like one but is
// allowed passes.
#include "tests/emulator/machine.h"

namespace emulator::testing {
namespace {

/// A kernel `k` with a pointer parameter: %rd1 holds it, %r1 the thread's number, %rd2 the address
/// of the thread's own 4 bytes.
std::string kernel(const std::string& body, const std::string& before = "") {
  return ".version 7.8\n.target sm_80\n.address_size 64\n" + before +
         "\n.visible .entry k(.param .u64 p)\n{\n"
         ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 "
         "%rd<16>;\n"
         ".shared .align 16 .b8 tile[4096];\n.local .align 8 .b8 depot[64];\n"
         "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, "
         "%rd1, %rd2;\n" +
         body + "\nret;\n}\n";
}

std::string run_fault(const std::string& text, FaultKind kind, std::uint32_t threads = 64,
                      bool independent = false) {
  Machine m(text);
  m.options.independent_threads = independent;
  const auto p = m.upload(std::vector<std::uint32_t>(1024, 7));
  return fault_text([&] { m.launch({1}, {threads}, p); }, kind);
}
std::vector<std::uint32_t> run_good(const std::string& text, std::uint32_t threads = 64) {
  std::vector<std::uint32_t> first;
  for (const bool independent : {false, true}) {
    Machine m(text);
    m.options.independent_threads = independent;
    m.options.instruction_limit = 1000000;
    const auto p = m.upload(std::vector<std::uint32_t>(1024, 7));
    m.launch({1}, {threads}, p);
    const auto result = m.download<std::uint32_t>(p, 1024);
    if (independent) {
      EXPECT_EQ(result, first);
    } else {
      first = result;
    }
  }
  return first;
}
#define EXPECT_HAS(text, part) EXPECT_NE(text.find(part), std::string::npos) << text

TEST(Faults, AddressesAreChecked) {
  const auto text =
      run_fault(kernel("ld.global.u32 %r2, [%rd2+4000];"), FaultKind::illegal_address);
  EXPECT_HAS(text, "kernel k, line");
  EXPECT_HAS(text, "block (0,0,0), thread (24,0,0)");
  EXPECT_HAS(text, "allocation");
  run_fault(kernel("mov.u64 %rd3, 64; st.global.u32 [%rd3], %r1;"), FaultKind::illegal_address);
  run_fault(kernel("ld.global.u32 %r2, [%rd2+2];"), FaultKind::misaligned_address);
  run_fault(kernel("ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd2];"), FaultKind::misaligned_address);
  run_fault(kernel("mov.u32 %r2, 4096; ld.shared.u32 %r3, [%r2];"), FaultKind::illegal_address);
  run_fault(kernel("st.shared.u32 [tile+2], %r1;"), FaultKind::misaligned_address);
  run_fault(kernel("mov.u64 %rd3, depot; st.local.u32 [%rd3+64], %r1;"),
            FaultKind::illegal_address);
  run_fault(kernel("mov.u64 %rd3, 6; ld.param.u64 %rd4, [%rd3];"), FaultKind::illegal_address);
}

TEST(Faults, FreedMemory) {
  Machine m(kernel("ld.global.u32 %r2, [%rd1];"));
  const auto p = m.upload(std::vector<std::uint32_t>(16, 7));
  m.memory.release(p, "cuMemFree");
  fault_text([&] { m.launch({1}, {1}, p); }, FaultKind::freed_memory);
}

TEST(Faults, NothingIsReadBeforeItIsWritten) {
  Machine m(kernel("ld.global.u32 %r2, [%rd2];"));
  const auto p = m.allocate(4096);
  fault_text([&] { m.launch({1}, {32}, p); }, FaultKind::uninitialised_memory);
  run_fault(kernel("ld.shared.u32 %r3, [tile];"), FaultKind::uninitialised_memory);
  run_fault(kernel("mov.u64 %rd3, depot; st.local.u32 [%rd3], %r1; ld.local.u64 %rd4, [%rd3];"),
            FaultKind::uninitialised_memory);
  const auto text =
      run_fault(kernel("setp.lt.u32 %p1, %r1, 40;\n@%p1 mov.u32 %r2, 1;\nadd.u32 %r3, %r2, 1;"),
                FaultKind::uninitialised_register);
  EXPECT_HAS(text, "add.u32");
  EXPECT_HAS(text, "thread (40,0,0)");
  run_fault(kernel("@%p3 mov.u32 %r2, 1;"), FaultKind::uninitialised_register);
  run_fault(kernel("mov.b32 %r2, {%h1, %h2}; st.global.u32 [%rd2], %r2;"),
            FaultKind::uninitialised_register);
  // Undefined values may be copied: LLVM does.
  run_good(kernel("mov.u32 %r3, %r2; mov.b32 %r4, {%h1, %h2}; mov.b32 {%h3, %h4}, %r4;"));
}

TEST(Faults, ReadOnlyMeansThat) {
  run_fault(kernel("ld.global.nc.u32 %r2, [%rd2]; st.global.u32 [%rd2], %r2;"),
            FaultKind::read_only_violation);
  run_fault(kernel("st.global.u32 [%rd2], %r1; ld.global.nc.u32 %r2, [%rd2];"),
            FaultKind::read_only_violation);
}

TEST(Faults, BarriersMustBeReachedByAll) {
  const auto text = run_fault(kernel("setp.lt.u32 %p1, %r1, 5;\n@%p1 bra SKIP;\nbar.sync 0;\nSKIP: "
                                     "add.u32 %r2, %r1, 1;\nbar.sync 1;"),
                              FaultKind::barrier_divergence);
  EXPECT_HAS(text, "bar.sync");
  EXPECT_HAS(text, "waits at line");
  run_fault(kernel("setp.lt.u32 %p1, %r1, 32;\n@%p1 bra SKIP;\nbar.sync 0;\nSKIP: bar.sync 1;"),
            FaultKind::barrier_divergence);
  run_fault(
      kernel(
          "setp.eq.u32 %p1, %r1, 3;\n@%p1 bra SKIP;\nbar.warp.sync 0xffffffff;\nSKIP: bar.sync 0;"),
      FaultKind::barrier_divergence);
  run_fault(kernel("mov.u32 %r2, 48; bar.sync 0, %r2;"), FaultKind::illegal_instruction);
  run_fault(kernel("bar.sync 0, 128;"), FaultKind::barrier_divergence);
  run_fault(kernel("mov.u32 %r2, 16; barrier.sync %r2;"), FaultKind::illegal_instruction);
  // Threads that have exited count as arrived; a warp may reach another barrier of the same number.
  run_good(kernel("setp.lt.u32 %p1, %r1, 37;\n@%p1 ret;\nbar.sync 0;"));
  run_good(
      kernel("setp.lt.u32 %p1, %r1, 32;\n@%p1 bra OTHER;\nbar.sync 0;\nbra END;\nOTHER: bar.sync "
             "0;\nEND:"));
  run_good(
      kernel("setp.lt.u32 %p1, %r1, 32;\n@%p1 bra OTHER;\nbar.arrive 1, 64;\nbra END;\nOTHER: "
             "bar.sync 1, 64;\nEND:"));
  run_good(
      kernel("setp.lt.u32 %p1, %r1, 5;\n@%p1 bra OTHER;\nbarrier.sync 0;\nbra END;\nOTHER: "
             "barrier.sync 0;\nEND:"));
}

TEST(Faults, LanesMustBeThere) {
  run_fault(kernel("shfl.sync.down.b32 %r2, %r1, 1, 0x1f, 0xf;"), FaultKind::invalid_lane);
  run_fault(kernel("shfl.sync.idx.b32 %r2, %r1, 40, 0x1f, 0xffffffff;"), FaultKind::invalid_lane,
            5);
  run_fault(
      kernel(
          "setp.lt.u32 %p1, %r1, 4;\n@%p1 ret;\nshfl.sync.idx.b32 %r2, %r1, 0, 0x1f, 0xffffffff;"),
      FaultKind::invalid_lane);
  run_fault(kernel("mov.b32 %r2, 0;\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                   "{%f0,%f1,%f2,%f3}, {%r2,%r2}, {%r2}, {%f0,%f1,%f2,%f3};"),
            FaultKind::invalid_lane, 20);
}

TEST(Faults, SharedRaces) {
  const std::string own =
      "shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;\nst.shared.u32 [%r3], %r1;\n";
  const std::string other =
      "xor.b32 %r4, %r2, 4; mov.u32 %r5, tile; add.u32 %r5, %r5, %r4; ld.shared.u32 %r6, [%r5];\n";
  const std::string far =
      "xor.b32 %r4, %r2, 128; mov.u32 %r5, tile; add.u32 %r5, %r5, %r4; ld.shared.u32 %r6, "
      "[%r5];\n";
  const std::string give = "st.global.u32 [%rd2], %r6;\n";
  for (const bool independent : {false, true}) {
    // Independent threads meet the unwritten bytes first.
    const auto kind = independent ? FaultKind::uninitialised_memory : FaultKind::shared_race;
    const auto text = run_fault(kernel(own + other), kind, 64, independent);
    EXPECT_HAS(text, "thread (");
    run_fault(kernel(own + "bar.warp.sync 0xffffffff;\n" + far),
              independent ? kind : FaultKind::uninitialised_memory);
    run_fault(
        kernel(own + "bar.sync 0;\n" + far + "xor.b32 %r6, %r6, 1; st.shared.u32 [%r3], %r6;\n"),
        FaultKind::shared_race, 64, independent);
    run_fault(kernel("st.shared.u32 [tile], %r1;"), FaultKind::shared_race, 64, independent);
    run_fault(kernel("st.shared.u32 [tile], 0;\nbar.sync 0;\natom.shared.add.u32 %r2, [tile], "
                     "1;\nld.shared.u32 %r3, [tile];"),
              FaultKind::shared_race, 64, independent);
  }
  const auto near_values = run_good(kernel(own + "bar.warp.sync 0xffffffff;\n" + other + give));
  EXPECT_EQ(near_values[6], 7u);
  const auto far_values = run_good(kernel(own + "bar.sync 0;\n" + far + give));
  EXPECT_EQ(far_values[6], 38u);
  run_good(kernel("st.shared.u32 [tile], 5;"));  // the same value from all
  run_good(
      kernel("st.shared.u32 [tile], 0;\nbar.sync 0;\natom.shared.add.u32 %r2, [tile], 1;\nbar.sync "
             "0;\nld.shared.u32 %r3, [tile];\nst.global.u32 [%rd2], %r3;"));
  // Neighbouring bytes are not shared.
  run_good(
      kernel("mov.u32 %r3, tile; add.u32 %r3, %r3, %r1;\nst.shared.u8 [%r3], %r1;\nld.shared.u8 "
             "%r4, [%r3];\nst.global.u32 [%rd2], %r4;"));
  // Pairs of lanes meet by themselves.
  run_good(kernel(own +
                  "shr.u32 %r7, %r1, 1; shl.b32 %r7, %r7, 1; and.b32 %r7, %r7, 31; mov.u32 %r8, 3; "
                  "shl.b32 %r8, %r8, %r7;\nbar.warp.sync %r8;\n" +
                  other + give));
}

TEST(Faults, AsynchronousCopies) {
  const std::string copy =
      "mov.u32 %r3, tile; shl.b32 %r2, %r1, 2; add.u32 %r3, %r3, %r2;\ncp.async.ca.shared.global "
      "[%r3], [%rd2], 4;\n";
  run_fault(kernel(copy + "ld.shared.u32 %r4, [%r3];"), FaultKind::asynchronous_copy);
  run_fault(
      kernel(copy + "cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r4, [%r3];"),
      FaultKind::asynchronous_copy);
  run_fault(kernel(copy + "cp.async.wait_group 0;\nld.shared.u32 %r4, [%r3];"),
            FaultKind::asynchronous_copy);  // never committed
  run_fault(kernel(copy + "st.shared.u32 [%r3], %r1;"), FaultKind::asynchronous_copy);
  // Lanes 16 and up have not waited for what the barrier seems to hand over.
  run_fault(kernel(copy + "setp.lt.u32 %p1, %r1, 16;\n@%p1 cp.async.wait_all;\nbar.sync 0;\n"
                          "mov.u32 %r5, tile; xor.b32 %r2, %r2, 64; add.u32 %r5, %r5, %r2; "
                          "ld.shared.u32 %r4, [%r5];"),
            FaultKind::asynchronous_copy);
  const auto values =
      run_good(kernel(copy + "cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 %r4, "
                             "[%r3];\nadd.u32 %r4, %r4, %r1;\nst.global.u32 [%rd2], %r4;"));
  EXPECT_EQ(values[5], 12u);
  // Bytes beyond the source's size are zero, and not read.
  const auto zeros =
      run_good(kernel("mov.u32 %r3, tile; shl.b32 %r2, %r1, 4; add.u32 %r3, %r3, %r2; mov.u32 %r4, "
                      "4; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd1, %rd3;\n"
                      "cp.async.cg.shared.global [%r3], [%rd3], 16, "
                      "%r4;\ncp.async.wait_all;\nld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r3];\n"
                      "st.global.v4.u32 [%rd3], {%r8,%r6,%r7,%r5};"));
  EXPECT_EQ(zeros[4], 0u);
  EXPECT_EQ(zeros[7], 7u);
}

TEST(Faults, TrapAndStuck) {
  EXPECT_HAS(run_fault(kernel("setp.eq.u32 %p1, %r1, 9;\n@%p1 trap;"), FaultKind::trap),
             "thread (9,0,0)");
  Machine m(kernel("LOOP: bra LOOP;"));
  m.options.instruction_limit = 5000;
  const auto p = m.upload(std::vector<std::uint32_t>(16, 7));
  fault_text([&] { m.launch({1}, {64}, p); }, FaultKind::stuck);
}

TEST(Schedules, AWaitingLaneDoesNotStarveTheOneItWaitsFor) {
  // A lock within a warp, and one between warps of a block: both need a fair schedule.
  const std::string lock =
      "mov.u32 %r5, 0;\nLOOP: atom.global.cas.b32 %r2, [%rd1], 7, 1;\nsetp.ne.u32 %p1, %r2, "
      "7;\n@%p1 bra LOOP;\n"
      "ld.global.u32 %r3, [%rd1+4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%rd1+4], "
      "%r3;\natom.global.exch.b32 %r4, [%rd1], 7;";
  EXPECT_EQ(run_good(kernel(lock))[1], 7u + 64);
}

TEST(Schedules, BlocksOnWorkersAddUp) {
  Machine m(
      kernel("mov.u32 %r2, %ctaid.x;\nred.global.add.u32 [%rd1], %r2;\natom.global.add.f32 %f1, "
             "[%rd1+4], 0f3F800000;"));
  m.options.workers = 2;
  m.options.seed = 3;
  const auto p = m.upload(std::vector<std::uint32_t>{0, 0});
  const LaunchStatistics s = m.launch({100}, {32}, p);
  EXPECT_EQ(m.download<std::uint32_t>(p, 1)[0], 32u * 4950);
  EXPECT_EQ(m.download<float>(p, 2)[1], 3200.0f);
  EXPECT_EQ(s.thread_instructions, 100u * 32 * 8);
  ASSERT_EQ(m.footprint.writes.size(), 1u);
  EXPECT_EQ(m.footprint.writes[0].end - m.footprint.writes[0].begin, 8u);
}

TEST(Schedules, ASeedMovesApproximateResultsWithinTheirBound) {
  Machine m(
      kernel("ld.global.f32 %f1, [%rd2]; ex2.approx.ftz.f32 %f1, %f1; st.global.f32 [%rd2], %f1;"));
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(0.01f * static_cast<float>(i) + 0.003f);
  std::vector<float> results[3];
  for (const std::uint64_t seed : {0, 1, 1}) {
    m.options.seed = seed;
    const auto p = m.upload(x);
    m.launch({1}, {64}, p);
    auto r = m.download<float>(p, 64);
    (results[seed].empty() ? results[seed] : results[2]) = r;
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_EQ(results[1], results[2]);
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(results[1][i], results[0][i], results[0][i] * 0x1p-22f);
}

}  // namespace
}  // namespace emulator::testing
