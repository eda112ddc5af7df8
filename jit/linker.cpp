// Object bytes → callable kernels, through ORC and JITLink.
//
// One ExecutionSession per Linker; each object gets a JITDylib and a ResourceTracker of its own, so
// that its code can be dropped alone. Objects are position independent and refer to nothing outside
// themselves (but to a sanitizer's runtime, through JITLink's stubs), so it does not matter how far
// apart two modules lie. Everything that LLVM reports becomes a CompileError in `checked`. Start
// reading at Linker::link.
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <string>
#include <utility>

#include "codegen/host/target.h"
#include "jit/compile_partition.h"
#include "riffle/error.h"

namespace riffle::jit {
namespace {

namespace orc = llvm::orc;

/// ORC tells the session, not the caller, why a link failed; links run on the calling thread, so
/// this points at the text that the running link collects. Trivial type: nothing to destroy.
thread_local std::string* g_reported = nullptr;

[[noreturn]] void fail(const std::string& what, const std::string& where) {
  throw CompileError({.what = what,
                      .where = where,
                      .hint = "clear the cache directory; if it stays, this is a bug of riffle",
                      .foreign = "LLVM JITLink"});
}

void checked(llvm::Error error, const char* doing, const std::string& where) {
  if (!error) return;
  std::string text = llvm::toString(std::move(error));
  if (g_reported && !g_reported->empty()) text += ": " + *g_reported;
  fail(std::string("could not ") + doing + ": " + text, where);
}

template <class T>
T checked(llvm::Expected<T> value, const char* doing, const std::string& where) {
  checked(value.takeError(), doing, where);
  return std::move(*value);
}

/// Collects what ORC reports on this thread while it lives.
class CollectReports {
 public:
  CollectReports() : outer_(std::exchange(g_reported, &text_)) {}
  ~CollectReports() { g_reported = outer_; }

 private:
  std::string text_;
  std::string* outer_;
};

void report(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  if (!g_reported) return;
  if (!g_reported->empty()) *g_reported += "; ";
  *g_reported += text;
}

std::unique_ptr<orc::ExecutorProcessControl> make_process_control() {
  return checked(orc::SelfExecutorProcessControl::Create(
                     nullptr, std::make_unique<orc::InPlaceTaskDispatcher>()),
                 "start the linker", "linker");
}

}  // namespace

struct Linker::Impl {
  Impl()
      : session(make_process_control()),
        layer(session, session.getExecutorProcessControl().getMemMgr()) {
    session.setErrorReporter(report);
  }
  ~Impl() { llvm::consumeError(session.endSession()); }

  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  std::atomic<std::uint64_t> serial{0};
  std::atomic<std::size_t> live{0};
};

namespace {

/// What dies together: the dylib, its tracker, the code; keeps the session alive until then.
template <class Impl>
class LinkedCode {
 public:
  LinkedCode(std::shared_ptr<Impl> impl, orc::JITDylib& dylib)
      : impl_(std::move(impl)), dylib_(dylib), tracker_(dylib.createResourceTracker()) {
    ++impl_->live;
  }
  ~LinkedCode() {
    // Nothing to tell anybody if this fails: the memory then stays until the session ends.
    llvm::consumeError(tracker_->remove());
    tracker_ = nullptr;
    llvm::consumeError(impl_->session.removeJITDylib(dylib_));
    // Names would otherwise pile up in the pool: 10,000 modules, 10,000 dead names.
    impl_->session.getSymbolStringPool()->clearDeadEntries();
    --impl_->live;
  }
  LinkedCode(const LinkedCode&) = delete;
  LinkedCode& operator=(const LinkedCode&) = delete;

  orc::JITDylib& dylib() { return dylib_; }
  const orc::ResourceTrackerSP& tracker() { return tracker_; }

 private:
  std::shared_ptr<Impl> impl_;
  orc::JITDylib& dylib_;
  orc::ResourceTrackerSP tracker_;
};

}  // namespace

Linker::Linker() : impl_(std::make_shared<Impl>()) {}
Linker::~Linker() = default;

std::size_t Linker::live_modules() const noexcept { return impl_->live; }

Linker::Linked Linker::link(const codegen::HostObject& object, const std::string& name,
                            CodeTarget target) {
  Linked linked;
  CollectReports reports;
  orc::ExecutionSession& session = impl_->session;
  orc::JITDylib& dylib = session.createBareJITDylib(name + "#" + std::to_string(impl_->serial++));
  auto code = std::make_shared<LinkedCode<Impl>>(impl_, dylib);

  dylib.addGenerator(checked(
      orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
          '\0',
          [](const orc::SymbolStringPtr& symbol) { return codegen::is_sanitizer_symbol(*symbol); }),
      "look into this process", name));

  // Not copied: linking is over when the look-up below returns.
  auto buffer = llvm::MemoryBuffer::getMemBuffer(
      llvm::StringRef(reinterpret_cast<const char*>(object.object.data()), object.object.size()),
      name, /*RequiresNullTerminator=*/false);
  if (!object.entries.empty()) {
    checked(impl_->layer.add(code->tracker(), std::move(buffer)), "read the object", name);
    orc::SymbolLookupSet wanted;
    std::vector<orc::SymbolStringPtr> symbols;
    auto want = [&](llvm::StringRef symbol) {
      symbols.push_back(session.intern(symbol));
      wanted.add(symbols.back());
    };
    if (target == CodeTarget::device)
      want(runtime::kDeviceModuleSymbol);
    else
      for (const codegen::HostEntry& entry : object.entries) want(entry.symbol);
    wanted.removeDuplicates();
    orc::SymbolMap found = checked(
        session.lookup({{&dylib, orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted)),
        "link", name);
    if (target == CodeTarget::device)
      linked.device = found[symbols[0]].getAddress().toPtr<const runtime::DeviceModule*>();
    else
      for (const orc::SymbolStringPtr& symbol : symbols)
        linked.functions.push_back(found[symbol].getAddress().toPtr<runtime::HostKernel>());
  }
  linked.owner = std::move(code);
  return linked;
}

}  // namespace riffle::jit
