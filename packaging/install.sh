#!/bin/sh
# Installs the program recount below a prefix, without root: downloads a release, compares its checksum, and moves the files into
# their places. If anything fails, a program that was installed before stays as it was.
#
#   sh install.sh                                     the newest release, to ~/.local
#   sh install.sh --version 0.2.0 --prefix /opt/recount
#   sh install.sh --uninstall                         removes the program, not its data
#
# RECOUNT_RELEASE_URL: the address of a folder with SHA256SUMS and the archives, instead of that of published releases.
# RECOUNT_TARGET: the archive to install, such as x86_64-unknown-linux-musl.
set -eu

releases='@RELEASES@'

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

download() { # URL FILE
    case $1 in https://*) only=https ;; *) only=http,https,file ;; esac
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --proto "=$only" --output "$2" "$1" ||
            fail "cannot download $1; nothing was installed"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document="$2" "$1" || fail "cannot download $1; nothing was installed"
    else
        fail "curl and wget are missing; install one of them"
    fi
}

sum_of() { # FILE
    if command -v sha256sum >/dev/null; then
        sha256sum <"$1"
    elif command -v shasum >/dev/null; then
        shasum -a 256 <"$1"
    elif command -v openssl >/dev/null; then
        openssl dgst -sha256 -r <"$1"
    else
        fail "sha256sum, shasum and openssl are missing; install one of them"
    fi | cut -d ' ' -f 1
}

# Targets whose programs run here, the best first.
targets() {
    if [ -n "${RECOUNT_TARGET:-}" ]; then
        echo "$RECOUNT_TARGET"
        return
    fi
    case $(uname -m) in
        x86_64 | amd64) machine=x86_64 ;;
        aarch64 | arm64) machine=aarch64 ;;
        *) fail "there is no program for the processor $(uname -m); build it from source" ;;
    esac
    case $(uname -s) in
        Linux) echo "$machine-unknown-linux-musl $machine-unknown-linux-gnu" ;;
        Darwin) echo "$machine-apple-darwin" ;;
        MINGW* | MSYS* | CYGWIN*) fail "this script is not for Windows; unpack the archive for $machine-pc-windows-msvc" ;;
        *) fail "there is no program for $(uname -s); build it from source" ;;
    esac
}

# Puts files of the unpacked archive below the prefix.
place() { # FOLDER FILE…
    mkdir -p "$prefix/$1" || fail "cannot create $prefix/$1"
    to=$prefix/$1
    shift
    mv -f "$@" "$to/" || fail "cannot write to $to"
}

uninstall() {
    rm -f "$prefix/bin/recount" "$prefix/share/bash-completion/completions/recount" \
        "$prefix/share/zsh/site-functions/_recount" "$prefix/share/fish/vendor_completions.d/recount.fish" \
        "$prefix"/share/man/man1/recount.1 "$prefix"/share/man/man1/recount-*.1
    echo "removed recount from $prefix; its data are where they were"
}

main() {
    prefix=${HOME:+$HOME/.local} version='' action=install
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix | --version)
                [ $# -ge 2 ] || fail "$1 needs a value"
                if [ "$1" = --prefix ]; then prefix=$2; else version=${2#v}; fi
                shift
                ;;
            --uninstall) action=uninstall ;;
            *) fail "unknown option $1; the options are --prefix DIR, --version VERSION and --uninstall" ;;
        esac
        shift
    done
    [ -n "$prefix" ] || fail "HOME is not set; use --prefix DIR"
    if [ $action = uninstall ]; then
        uninstall
        return
    fi

    if [ -n "${RECOUNT_RELEASE_URL:-}" ]; then
        from=${RECOUNT_RELEASE_URL%/}
    else
        case $releases in @*) fail "this copy names no address of releases; set RECOUNT_RELEASE_URL" ;; esac
        from=$releases/latest/download
        [ -z "$version" ] || from=$releases/download/v$version
    fi
    found=$(targets) || exit 1

    # On the same file system as the program, so that its last step is one rename.
    mkdir -p "$prefix" || fail "cannot create $prefix"
    work=$(mktemp -d "$prefix/.recount-install.XXXXXX") || fail "cannot write to $prefix"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP

    download "$from/SHA256SUMS" "$work/SHA256SUMS"
    archive=
    for target in $found; do
        [ -n "$archive" ] || archive=$(awk -v end="-$target.tar.gz" -v version="${version:+recount-$version-}" \
            'substr($2, length($2) - length(end) + 1) == end && index($2, version) == 1 { print $2; exit }' \
            "$work/SHA256SUMS")
    done
    [ -n "$archive" ] || fail "$from has no archive for $found${version:+ of version $version}"
    case $archive in */*) fail "SHA256SUMS names a file in another folder: $archive" ;; esac
    download "$from/$archive" "$work/$archive"
    expected=$(awk -v name="$archive" '$2 == name { print $1; exit }' "$work/SHA256SUMS")
    actual=$(sum_of "$work/$archive")
    [ "$actual" = "$expected" ] ||
        fail "the checksum of $archive is $actual, but SHA256SUMS has $expected; nothing was installed"

    tar -xzf "$work/$archive" -C "$work" || fail "cannot unpack $archive; nothing was installed"
    files=$work/${archive%.tar.gz}
    installed=$("$files/recount" --version) || fail "the program for $target does not run here; nothing was installed"
    place share/man/man1 "$files"/man/man1/*
    place share/bash-completion/completions "$files/completions/bash/recount"
    place share/zsh/site-functions "$files/completions/zsh/_recount"
    place share/fish/vendor_completions.d "$files/completions/fish/recount.fish"
    place bin "$files/recount"
    echo "installed $installed as $prefix/bin/recount"
    case :$PATH: in *:"$prefix/bin":*) ;; *) echo "add $prefix/bin to PATH to run it as recount" ;; esac
}

# A copy of this script that was cut does nothing.
main "$@"
