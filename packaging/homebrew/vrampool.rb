# Formula for a tap of one's own: builds from source with Apple's clang, so that nothing needs signing.
class Vrampool < Formula
  desc "One pool out of the memory of several machines"
  homepage "https://github.com/vrampool/vrampool"
  url "https://github.com/vrampool/vrampool.git", branch: "main"
  version "0.1.0"
  license "Apache-2.0"

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "flatbuffers" => :build
  depends_on "ninja" => :build
  depends_on "tomlplusplus" => :build
  depends_on "boost"
  depends_on "fmt"
  depends_on "openssl@3"
  depends_on "spdlog"
  depends_on "sqlite"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DVP_TESTS=OFF", "-DVP_EXAMPLES=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  # As root (sudo brew services): a LaunchDaemon may use the local network, an agent of a user may not.
  service do
    run [opt_bin/"vrampoold", "--config", etc/"vrampool/vrampoold.toml"]
    require_root true
    keep_alive crashed: true
    log_path var/"log/vrampool.log"
    error_log_path var/"log/vrampool.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/vrampool version")
  end
end
