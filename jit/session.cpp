#include "jit/session.h"

#include "jit/session_impl.h"
#include "support/env.h"

namespace riffle::jit {
namespace {

std::unique_ptr<runtime::Device> make_device(const SessionOptions& options) {
  const runtime::DeviceOptions device{.threads = options.threads,
                                      .memory_limit = options.memory_limit};
  if (options.device == "cpu") return runtime::make_cpu_device(device);
  if (options.device == "null") return runtime::make_null_device(device);
  throw DeviceError(
      {.what = "there is no device '" + options.device + "' in this build", .hint = "cpu or null"});
}

CompilerOptions compiler_options(const SessionOptions& options) {
  CompilerOptions compiler;
  compiler.target = codegen::detect_host();
#if defined(RIFFLE_SANITIZE_NAME)
  compiler.target.sanitizer = RIFFLE_SANITIZE_NAME;
#endif
  compiler.fusion.fuse = options.fuse;
  compiler.cache_directory = options.cache_directory;
  compiler.threads = options.threads;
  return compiler;
}

}  // namespace

Session::Impl::Impl(SessionOptions o)
    : options(std::move(o)), device(make_device(options)), compiler(compiler_options(options)) {}

Session::Session(SessionOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}
Session::~Session() = default;

std::unique_ptr<Executable> Session::create(ir::Graph graph,
                                            std::unique_ptr<ir::SplitPolicy> policy) {
  return std::make_unique<Executable>(
      std::make_unique<Executable::Impl>(impl_, std::move(graph), std::move(policy)));
}
runtime::Device& Session::device() noexcept { return *impl_->device; }
Compiler& Session::compiler() noexcept { return impl_->compiler; }
const SessionOptions& Session::options() const noexcept { return impl_->options; }

std::string default_cache_directory() {
  if (auto directory = environment("RIFFLE_CACHE_DIR")) return *directory;
  if (auto directory = environment("XDG_CACHE_HOME")) return *directory + "/riffle";
  if (auto directory = environment("HOME")) return *directory + "/.cache/riffle";
  return {};
}

}  // namespace riffle::jit
