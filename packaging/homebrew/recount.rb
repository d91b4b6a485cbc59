# Template: `fill.sh` writes the version, the address and the checksums of a release into it.
class Recount < Formula
  desc "Durable, verifiable event log of AI agent runs"
  homepage "@RELEASES@"
  version "@VERSION@"
  license any_of: ["Apache-2.0", "MIT"]

  on_macos do
    on_arm do
      url "@RELEASES@/download/v@VERSION@/recount-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256:aarch64-apple-darwin@"
    end
    on_intel do
      url "@RELEASES@/download/v@VERSION@/recount-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@RELEASES@/download/v@VERSION@/recount-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@RELEASES@/download/v@VERSION@/recount-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "recount"
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/bash/recount"
    zsh_completion.install "completions/zsh/_recount"
    fish_completion.install "completions/fish/recount.fish"
  end

  service do
    run [opt_bin/"recount", "serve"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/recount --version")
  end
end
