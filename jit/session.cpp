#include "jit/session.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

#include "jit/session_impl.h"
#include "runtime/cuda/device.h"
#include "support/env.h"

namespace riffle {
namespace {

std::unique_ptr<runtime::Device> make_device(const SessionOptions& options) {
  const runtime::DeviceOptions device{.threads = options.threads,
                                      .memory_limit = options.memory_limit};
  if (options.device == "cpu") return runtime::make_cpu_device(device);
  if (options.device == "null") return runtime::make_null_device(device);
  const std::string_view name = options.device;
  const std::string_view kind = name.substr(0, name.find(':'));
  runtime::CudaOptions cuda{.emulated = kind == "cuda-emulated",
                            .context = options.cuda.context,
                            .compute_stream = options.cuda.compute_stream,
                            .communication_stream = options.cuda.communication_stream,
                            .graphs = options.cuda.graphs};
  if (kind == "cuda" || kind == "cuda-emulated") {
    if (kind.size() == name.size()) return runtime::make_cuda_device(device, cuda);
    const std::string_view index = name.substr(kind.size() + 1);
    const auto [end, error] =
        std::from_chars(index.data(), index.data() + index.size(), cuda.device_index);
    if (error == std::errc() && end == index.data() + index.size() && !index.empty())
      return runtime::make_cuda_device(device, cuda);
  }
  throw DeviceError({.what = "there is no device '" + options.device + "' in this build",
                     .hint = "cpu, cuda, cuda:1, cuda-emulated or null"});
}

jit::CompilerOptions compiler_options(const SessionOptions& options,
                                      const runtime::Device& device) {
  jit::CompilerOptions compiler;
  compiler.target = codegen::detect_host();
#if defined(RIFFLE_SANITIZE_NAME)
  compiler.target.sanitizer = RIFFLE_SANITIZE_NAME;
#endif
  if (const runtime::GpuInfo* gpu = device.gpu()) {
    compiler.gpu = codegen::nvptx_target(gpu->sm, gpu->driver_version);
    compiler.gpu->tf32 = options.cuda.tf32;
  }
  compiler.fusion.fuse = options.fuse;
  compiler.cache_directory = options.cache_directory == "default" ? jit::default_cache_directory()
                                                                  : options.cache_directory;
  compiler.threads = options.threads;
  compiler.kept_modules = static_cast<std::size_t>(std::max(options.kept_modules, 0));
  return compiler;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

Session::Impl::Impl(SessionOptions o)
    : options(std::move(o)),
      device(make_device(options)),
      compiler_owner(std::make_shared<jit::Compiler>(compiler_options(options, *device))),
      compiler(*compiler_owner) {}
Session::Impl::Impl(SessionOptions o, std::shared_ptr<jit::Compiler> shared)
    : options(std::move(o)),
      device(make_device(options)),
      compiler_owner(std::move(shared)),
      compiler(*compiler_owner) {}

Session::Session(SessionOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}
Session::Session(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Executable Session::compile(const Graph& graph, const CompileOptions& options) {
  return jit::create(*this, graph, ir::make_split_policy(words_of(options.split)));
}
const SessionOptions& Session::options() const noexcept { return impl_->options; }

namespace jit {

runtime::Device& device(const Session& session) noexcept { return *session.impl().device; }
Compiler& compiler(const Session& session) noexcept { return session.impl().compiler; }
Session beside(const Session& session, SessionOptions options) {
  auto impl = std::make_shared<Session::Impl>(std::move(options), session.impl().compiler_owner);
  impl->cancel_flag = session.impl().cancel_flag;
  return Session(std::move(impl));
}
void cancel_while(Session& session, const std::atomic<bool>& flag) noexcept {
  session.impl().cancel_flag = &flag;
}
Executable create(const Session& session, const Graph& graph,
                  std::unique_ptr<ir::SplitPolicy> policy) {
  return Executable(std::make_unique<Executable::Impl>(session.impl().shared_from_this(), graph,
                                                       std::move(policy)));
}

}  // namespace jit
}  // namespace riffle
