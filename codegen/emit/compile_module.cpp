// Runs LLVM on one module, outside ORC, and survives what LLVM does when it gives up.
//
// Each call owns a context, a target machine and its pass managers (LLJIT's default compiler shares
// one machine: concurrent look-ups crash). LLVM answers some inputs by calling exit; its
// fatal-error handler is therefore ours and throws to compile_module through LLVM's frames. These
// have unwind tables but no clean-up, so whatever they held is lost: the whole Compilation is
// abandoned, never destroyed, and counted (llvm_fatal_errors). Start reading at compile_module.
#include "codegen/emit/compile_module.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Instrumentation/AddressSanitizer.h>
#include <llvm/Transforms/Instrumentation/ThreadSanitizer.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/Scalarizer.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "codegen/emit/check_ir.h"
#include "codegen/emit/scalar_llvm.h"
#include "codegen/llvm_version.h"
#include "riffle/error.h"

namespace riffle::codegen {
namespace {

std::atomic<std::size_t> g_fatal_errors{0};
thread_local bool g_inside_llvm = false;

/// What our fatal-error handler throws; never leaves this file.
struct LlvmFatalError {
  std::string reason;
};

void on_fatal_error(void*, const char* reason, bool) {
  // Of a thread that did not come through compile_module: returning lets LLVM end the process.
  if (g_inside_llvm) throw LlvmFatalError{reason ? reason : "no reason given"};
}

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    llvm::install_fatal_error_handler(on_fatal_error);
  });
}

[[noreturn]] void fail(const std::string& what, const std::string& where) {
  throw CompileError({.what = what,
                      .where = where,
                      .hint = "`backend K reference` runs the partition without generated code; "
                              "please report this with `show llvm K`",
                      .foreign = std::string("LLVM ") + LLVM_VERSION_STRING});
}

/// All that a compilation owns. On the heap, so that it can be left behind.
struct Compilation {
  std::string where;
  std::string reported;  ///< by the diagnostic handler
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::ModulePassManager passes;
  llvm::legacy::PassManager code_passes;
  llvm::SmallVector<char, 0> output;
  std::unique_ptr<llvm::raw_svector_ostream> stream;
};

void on_diagnostic(const llvm::DiagnosticInfo* info, void* compilation) {
  if (info->getSeverity() != llvm::DS_Error) return;
  auto& text = static_cast<Compilation*>(compilation)->reported;
  if (!text.empty()) text += "; ";
  llvm::raw_string_ostream stream(text);
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
}

void check_reported(const Compilation& c) {
  if (!c.reported.empty()) fail("LLVM reports: " + c.reported, c.where);
}

std::unique_ptr<llvm::TargetMachine> make_machine(const CodeTarget& target,
                                                  const std::string& where) {
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!found) fail("no code generator for " + target.triple + ": " + error, where);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  static constexpr llvm::CodeGenOptLevel levels[] = {
      llvm::CodeGenOptLevel::None, llvm::CodeGenOptLevel::Less, llvm::CodeGenOptLevel::Default,
      llvm::CodeGenOptLevel::Aggressive};
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, levels[target.opt_level], /*JIT=*/true));
  if (!machine) fail("no target machine for " + target.triple, where);
  const std::string missing = missing_scalar_feature(*machine->getMCSubtargetInfo(), target.triple);
  if (!missing.empty())
    throw CompileError(
        {.what = "CPU '" + target.cpu + "' lacks " + missing + ", which kernels need",
         .where = "host target",
         .hint = "use the reference back end"});
  return machine;
}

/// Attributes that every function needs whatever wrote it.
void set_attributes(llvm::Module& module, const CodeTarget& target) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // No pass may turn a loop into a call of memset, or an expression into one of libm.
    function.addFnAttr("no-builtins");
    if (target.is_device) continue;
    // Otherwise LLVM splits 64-byte vectors on CPUs whose tuning prefers 32.
    const std::string bits = std::to_string(target.vector_bytes * 8);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
    if (target.sanitizer == "address") function.addFnAttr(llvm::Attribute::SanitizeAddress);
    if (target.sanitizer == "thread") function.addFnAttr(llvm::Attribute::SanitizeThread);
  }
}

/// A short list: what a loop vectoriser, an unroller or an inliner does is done already, and values
/// are in SSA form.
void run_passes(Compilation& c, const CodeTarget& target, bool optimise) {
  llvm::PassBuilder builder(c.machine.get());
  llvm::TargetLibraryInfoImpl no_library{llvm::Triple(target.triple)};
  no_library.disableAllFunctions();
  c.functions.registerPass([&] { return llvm::TargetLibraryAnalysis(no_library); });
  builder.registerModuleAnalyses(c.modules);
  builder.registerCGSCCAnalyses(c.sccs);
  builder.registerFunctionAnalyses(c.functions);
  builder.registerLoopAnalyses(c.loops);
  builder.crossRegisterProxies(c.loops, c.functions, c.sccs, c.modules);

  llvm::FunctionPassManager passes;
  // Loads and stores stay vectors: that is what they are for.
  if (target.is_device) passes.addPass(llvm::ScalarizerPass());
  if (optimise) {
    passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    passes.addPass(llvm::InstCombinePass());
    llvm::LoopPassManager loop_passes;
    loop_passes.addPass(llvm::LICMPass(llvm::LICMOptions()));
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loop_passes),
                                                         /*UseMemorySSA=*/true));
    passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/target.is_device));
    passes.addPass(llvm::SimplifyCFGPass());
  }
  if (target.sanitizer == "thread") passes.addPass(llvm::ThreadSanitizerPass());
  c.passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  // Without a constructor: the process that links this code has started the runtime already.
  if (target.sanitizer == "address")
    c.passes.addPass(llvm::AddressSanitizerPass(
        llvm::AddressSanitizerOptions(), /*UseGlobalGC=*/false, /*UseOdrIndicator=*/false,
        llvm::AsanDtorKind::None, llvm::AsanCtorKind::None));
  c.passes.run(*c.module, c.modules);
  check_reported(c);
}

void emit(Compilation& c, const CodeTarget& target, llvm::CodeGenFileType type) {
  llvm::TargetLibraryInfoImpl no_library{llvm::Triple(target.triple)};
  no_library.disableAllFunctions();
  c.code_passes.add(new llvm::TargetLibraryInfoWrapperPass(no_library));
  c.stream = std::make_unique<llvm::raw_svector_ostream>(c.output);
  if (c.machine->addPassesToEmitFile(c.code_passes, *c.stream, nullptr, type,
                                     /*DisableVerify=*/true))
    fail("this target cannot emit objects", c.where);
  c.code_passes.run(*c.module);
  check_reported(c);
}

void check_undefined_symbols(Compilation& c) {
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(c.output.data(), c.output.size()), c.where));
  if (!object) fail("LLVM wrote a bad object: " + llvm::toString(object.takeError()), c.where);
  std::string undefined;
  for (const llvm::object::SymbolRef& symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      continue;
    }
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined) || name->empty()) continue;
    if (is_sanitizer_symbol(*name)) continue;
    undefined += (undefined.empty() ? "" : ", ") + name->str();
  }
  if (!undefined.empty())
    fail("generated code calls functions that it may not: " + undefined, c.where);
}

ModuleResult run(Compilation& c, const CodeTarget& target, const ModuleOptions& options,
                 const std::function<void(Compilation&)>& fill) {
  c.context.setDiagnosticHandlerCallBack(on_diagnostic, &c);
  c.machine = make_machine(target, c.where);
  c.module = std::make_unique<llvm::Module>(c.where, c.context);
  auto describe_target = [&] {
    c.module->setTargetTriple(target.triple);
    c.module->setDataLayout(c.machine->createDataLayout());
  };
  describe_target();
  fill(c);
  describe_target();  // `fill` may have made another module
  check_ir(*c.module, options.rules, c.where);
  std::string invalid;
  llvm::raw_string_ostream complaint(invalid);
  if (llvm::verifyModule(*c.module, &complaint)) fail("malformed IR: " + complaint.str(), c.where);
  set_attributes(*c.module, target);
  run_passes(c, target, options.optimise);

  ModuleResult result;
  if (options.want_text) {
    llvm::raw_string_ostream stream(result.llvm_ir);
    c.module->print(stream, nullptr);
    stream.flush();
    emit(c, target, llvm::CodeGenFileType::AssemblyFile);
    result.assembly.assign(c.output.data(), c.output.size());
    return result;
  }
  emit(c, target, llvm::CodeGenFileType::ObjectFile);
  check_undefined_symbols(c);
  result.object.resize(c.output.size());
  std::memcpy(result.object.data(), c.output.data(), c.output.size());
  return result;
}

/// Marks the thread as one whose fatal errors we catch.
class InsideLlvm {
 public:
  InsideLlvm() : outer_(g_inside_llvm) { g_inside_llvm = true; }
  ~InsideLlvm() { g_inside_llvm = outer_; }
  InsideLlvm(const InsideLlvm&) = delete;
  InsideLlvm& operator=(const InsideLlvm&) = delete;

 private:
  bool outer_;
};

ModuleResult guarded(const CodeTarget& target, const std::string& where,
                     const ModuleOptions& options, const std::function<void(Compilation&)>& fill) {
  initialise_llvm();
  auto compilation = std::make_unique<Compilation>();
  compilation->where = where;
  const InsideLlvm inside;
  try {
    return run(*compilation, target, options, fill);
  } catch (const LlvmFatalError& error) {
    g_fatal_errors.fetch_add(1, std::memory_order_relaxed);
    // Half-way through a pass: nothing of it can be destroyed safely.
    (void)compilation.release();  // NOLINT(bugprone-unused-return-value): abandoned on purpose
    fail("LLVM gave up: " + error.reason, where);
  }
}

}  // namespace

ModuleResult compile_module(const CodeTarget& target, const std::string& where,
                            const ModuleOptions& options,
                            const std::function<void(llvm::Module&)>& fill) {
  return guarded(target, where, options, [&](Compilation& c) { fill(*c.module); });
}

ModuleResult compile_text(const CodeTarget& target, const std::string& llvm_ir,
                          const ModuleOptions& options) {
  return guarded(target, "text", options, [&](Compilation& c) {
    llvm::SMDiagnostic diagnostic;
    c.module = llvm::parseAssemblyString(llvm_ir, diagnostic, c.context);
    if (!c.module)
      throw CompileError({.what = "cannot parse LLVM IR: " + diagnostic.getMessage().str(),
                          .where = "line " + std::to_string(diagnostic.getLineNo())});
  });
}

bool is_sanitizer_symbol(std::string_view name) {
  return std::ranges::any_of(std::array{"__asan_", "__tsan_", "__ubsan_", "__sanitizer_"},
                             [&](const char* prefix) { return name.starts_with(prefix); });
}

std::size_t llvm_fatal_errors() noexcept { return g_fatal_errors.load(std::memory_order_relaxed); }
std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace riffle::codegen
