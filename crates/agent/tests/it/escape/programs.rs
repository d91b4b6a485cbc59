//! Tests that common programs work in the sandbox: interpreters, compilers and version control.

use std::path::PathBuf;

use recount_agent::sandbox::{Mode, Sandbox, SandboxContext, SandboxSettings};

use crate::escape::fixture::{OutsideResources, as_ordinary_user, run, run_with, warden};

/// A program that must exist, and a line that succeeds only if the program works.
const LINES: &[(&str, &str)] = &[
    (
        "sh",
        "(id -un || ! getent passwd \"$(id -u)\") && test \"$(id -u)\" = \"$(stat -c %u .)\" && echo x > /dev/stderr && echo x | tee /dev/null",
    ),
    (
        "git",
        "git init -q r && cd r && git config user.email a@b.c && git config user.name a && echo x > f && git add f \
             && git commit -qm x && git status --short && git gc -q && git log --oneline",
    ),
    (
        "python3",
        "python3 - <<'E'\nimport threading, subprocess, tempfile, os, select, socket, asyncio, mmap, getpass\n\
                 t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
                 assert subprocess.run(['true']).returncode == 0\n\
                 f = tempfile.NamedTemporaryFile(); f.write(b'x' * 5000); f.flush(); mmap.mmap(f.fileno(), 0)\n\
                 a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n\
                 asyncio.run(asyncio.create_subprocess_exec('true'))\nE",
    ),
    (
        "node",
        "node -e \"const {execSync} = require('child_process'); const {Worker} = require('worker_threads'); \
              execSync('true'); require('fs').writeFileSync('n', 'x'); require('fs').chmodSync('n', 0o755); \
              new Worker('process.exit(0)', {eval: true}).on('exit', () => console.log('ok'))\"",
    ),
    (
        "gcc",
        "printf '#include <stdio.h>\\n#include <pthread.h>\\nint main(){puts(\"ok\");}' > c.c && gcc -pthread -O1 c.c -o c && ./c",
    ),
    (
        "java",
        "printf 'public class J { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> \
              System.out.println(1)); t.start(); t.join(); new ProcessBuilder(\"true\").start().waitFor(); } }' > J.java && \
              java -Xmx64m -XX:+UseSerialGC J.java",
    ),
    ("perl", "perl -e 'my $p = fork; exit 0 unless $p; waitpid $p, 0; print $?'"),
    ("tar", "mkdir t && echo x > t/f && tar czf t.tgz t && rm -r t && tar xzf t.tgz && cat t/f"),
    (
        "make",
        "printf 'all: a b\\na:\\n\\techo a > a\\nb: a\\n\\tcp a b\\n' > Makefile && make -j4 && cmp a b",
    ),
    ("rsync", "mkdir from && echo x > from/f && rsync -a from/ to/ && cmp from/f to/f"),
    (
        "sqlite3",
        "sqlite3 d 'pragma journal_mode=wal; create table t(x); insert into t values(1); select x from t'",
    ),
    ("npm", "npm --version && mkdir n1 && cd n1 && npm init -y && npm pack --offline"),
    (
        "go",
        "mkdir g && cd g && printf 'module g\\n' > go.mod && printf 'package main\\nfunc main(){println(1)}' > m.go \
             && GOFLAGS=-mod=mod GOTOOLCHAIN=local GOCACHE=$PWD/c go build -o m . && ./m",
    ),
    (
        "cp",
        "echo x > s && cp -a s s2 && cp --reflink=auto s s3 && mv s3 s4 && ln s s5 && ln -s s s6 && touch -d @1 s",
    ),
];

/// Programs that need shared memory or Unix sockets, which Landlock does not allow.
const WITH_NAMESPACES: &[(&str, &str)] = &[(
    "python3",
    "python3 - <<'E'\nfrom multiprocessing import Pool, Manager\n\
                 with Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]\n\
                 with Manager() as m: assert m.list([1])[0] == 1\nE",
)];

#[tokio::test]
async fn programs_work_in_every_layer() {
    for mode in [Mode::Bubblewrap, Mode::Landlock] {
        let outside = OutsideResources::make();
        let sandbox = outside.sandbox(mode, false).await;
        let workspace = outside.path("workspace");
        let shell = |line: &str| ["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()];
        let mut worked = 0;
        let more = if mode == Mode::Bubblewrap { WITH_NAMESPACES } else { &[] };
        for (program, line) in LINES.iter().chain(more) {
            let found = run(&sandbox, &workspace, &shell(&format!("command -v {program}"))).await;
            // A program in a home is hidden from commands.
            if found.2 != Some(0) {
                eprintln!("{mode:?}: {program} is not on this machine");
                continue;
            }
            let (stdout, stderr, code) = run(&sandbox, &workspace, &shell(line)).await;
            assert_eq!(code, Some(0), "{mode:?}: {program}: {stdout}{stderr}");
            worked += 1;
        }
        assert!(worked >= 4, "{mode:?}: of the programs only {worked} are on this machine");
    }
}

/// The same for a server without root.
#[test]
fn programs_of_an_ordinary_user_work() {
    for test in
        ["programs::programs_work_in_every_layer", "programs::programs_use_a_network_that_was_granted"]
    {
        let Some(output) = as_ordinary_user(test) else { return };
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}{stderr}");
    }
}

/// Builds a crate, runs its test, and rebuilds it after a change: processes, locks, pipes and a linker.
const CARGO: &str = "export CARGO_NET_OFFLINE=true && cargo --version && cargo init -q --vcs none --name tiny . && \
    printf 'pub fn two() -> u32 { 2 }\\n#[test]\\nfn is() { assert_eq!(two(), 2) }\\n' > src/lib.rs && cargo build -q && \
    ./target/debug/tiny && cargo test -q && touch src/main.rs && cargo build -q && cargo clean -q && test ! -e target";

#[tokio::test]
async fn cargo_builds_in_every_layer() {
    let sysroot = std::process::Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|stdout| String::from_utf8_lossy(&stdout.stdout).trim().to_owned());
    let Some(sysroot) = sysroot.ok().map(PathBuf::from).filter(|path| path.join("bin/cargo").exists()) else {
        eprintln!("there is no toolchain that this user may use");
        return;
    };
    for mode in [Mode::Bubblewrap, Mode::Landlock] {
        let outside = OutsideResources::make();
        let path = format!("{}:/usr/bin:/bin", sysroot.join("bin").display());
        let environment = [("PATH".to_owned(), path)].into();
        let settings =
            SandboxSettings { mode, readable: vec![sysroot.clone()], environment, ..Default::default() };
        let context = SandboxContext { data: None, home: Some(outside.path("home")), helper: Some(warden()) };
        let sandbox = Sandbox::probe(settings, context).await.unwrap_or_else(|error| panic!("{error}"));
        let argv = ["/bin/sh", "-c", CARGO].map(str::to_owned);
        let (stdout, stderr, code) = run(&sandbox, &outside.path("workspace"), &argv).await;
        assert_eq!(code, Some(0), "{mode:?}: {stdout}{stderr}");
        assert!(stdout.contains("Hello, world!") && stdout.contains("1 passed"), "{mode:?}: {stdout}");
    }
}

/// A server and its clients, all inside the sandbox: programs that fetch packages.
const NETWORK: &[(&str, &str)] = &[
    (
        "/usr/bin/python3",
        "/usr/bin/python3 - <<'E'\nimport http.server, threading, urllib.request, socket\n\
             s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
             threading.Thread(target=s.serve_forever, daemon=True).start()\n\
             assert urllib.request.urlopen(f'http://127.0.0.1:{s.server_port}/').status == 200\n\
             assert socket.getaddrinfo('localhost', 80)\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.sendto(b'x', u.getsockname())\n\
             assert u.recv(1) == b'x'\nE",
    ),
    (
        "git",
        "git init -q --bare r.git && git init -q w && cd w && git config user.email a@b.c && git config user.name a && \
             echo x > f && git add f && git commit -qm x && git push -q ../r.git HEAD && cd ../r.git && git update-server-info && \
             cd .. && (/usr/bin/python3 -u -m http.server --bind 127.0.0.1 0 > log 2>&1 & echo $! > pid) && \
             until grep -q 'port [0-9]' log; do :; done && port=$(sed -n 's/.*port \\([0-9]*\\).*/\\1/p' log | head -1) && \
             git clone -q \"http://127.0.0.1:$port/r.git\" c && cmp w/f c/f && kill $(cat pid)",
    ),
    (
        "node",
        "node -e \"const h = require('http'); const s = h.createServer((q, r) => r.end('x')).listen(0, '127.0.0.1', () => \
              h.get({port: s.address().port, host: '127.0.0.1'}, r => { r.resume(); r.on('end', () => process.exit(0)) }))\"",
    ),
];

#[tokio::test]
async fn programs_use_a_network_that_was_granted() {
    for mode in [Mode::Bubblewrap, Mode::Landlock] {
        let outside = OutsideResources::make();
        let sandbox = outside.sandbox(mode, false).await;
        let workspace = outside.path("workspace");
        let shell = |line: &str| ["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()];
        for (program, line) in NETWORK {
            // The line for git uses python's server.
            let needed = format!("command -v {program} && command -v {}", NETWORK[0].0);
            if run(&sandbox, &workspace, &shell(&needed)).await.2 != Some(0) {
                eprintln!("{mode:?}: {program} is not on this machine");
                continue;
            }
            let (stdout, stderr, code) = run_with(&sandbox, &workspace, &shell(line), true).await;
            assert_eq!(code, Some(0), "{mode:?}: {program}: {stdout}{stderr}");
        }
    }
}

/// A readable folder below a writable one: a named pipe in it can be written, which is reported as a gap, and `strict`
/// refuses it.
#[tokio::test]
async fn writable_named_pipes_are_reported_as_a_gap() {
    let shown = tempfile::tempdir_in("/tmp").unwrap();
    let pipe = shown.path().join("pipe");
    let (mode, kind) = (rustix::fs::Mode::from_raw_mode(0o666), rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    // A process outside reads the pipe.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let reader = rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()).unwrap();
    for mode in [Mode::Bubblewrap, Mode::Landlock] {
        let outside = OutsideResources::make();
        let settings =
            SandboxSettings { mode, readable: vec![shown.path().to_owned()], ..SandboxSettings::default() };
        let context = SandboxContext { data: None, home: Some(outside.path("home")), helper: Some(warden()) };
        let sandbox =
            Sandbox::probe(settings.clone(), context.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        let line = format!("echo words > {}", pipe.display());
        let argv = ["/bin/sh".to_owned(), "-c".to_owned(), line];
        run(&sandbox, &outside.path("workspace"), &argv).await;
        let mut came = [0; 16];
        let was_written = rustix::io::read(&reader, &mut came).is_ok_and(|count| count > 0);
        assert_eq!(
            sandbox.label(false).contains("named_pipes"),
            was_written,
            "{mode:?}: {}",
            sandbox.label(false)
        );
        let strict = Sandbox::probe(SandboxSettings { strict: true, ..settings }, context).await;
        assert!(strict.unwrap_err().to_string().contains("sandbox.strict is set"), "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_of_root_is_another_user() {
    let outside = OutsideResources::make();
    let sandbox = outside.sandbox(Mode::Bubblewrap, false).await;
    let workspace = outside.path("workspace");
    let line = "id -u; cut -c1-10,11-22 /proc/self/uid_map | tr -s ' '; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; \
                echo x > made; umask 077; mkdir folder; echo y > /dev/stdout";
    let argv = ["/bin/sh", "-c", line].map(str::to_owned);
    let (stdout, stderr, code) = run(&sandbox, &workspace, &argv).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let own = rustix::process::geteuid().as_raw();
    // On disk the file belongs to the server's user.
    let about = std::fs::metadata(workspace.join("made")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&about), own);
    if own == 0 {
        assert!(stdout.starts_with("1000\n"), "{stdout}");
        assert!(!stdout.contains(" 0 0 ") && stdout.contains("CapBnd:\t0000000000000000"), "{stdout}");
    }
}

#[tokio::test]
async fn strict_refuses_layers_with_gaps() {
    let outside = OutsideResources::make();
    let sandbox = outside.sandbox(Mode::Bubblewrap, true).await;
    // The memory limit of an ordinary user is only polled.
    let label =
        |sandbox: &recount_agent::sandbox::Sandbox| sandbox.label(false).replace(" memory=watched", "");
    assert_eq!(label(&sandbox), "bwrap");
    assert_eq!(label(&outside.sandbox(Mode::Bubblewrap, false).await), "bwrap open=readable_sockets");
    let settings =
        recount_agent::sandbox::SandboxSettings { mode: Mode::Landlock, strict: true, ..Default::default() };
    let context = recount_agent::sandbox::SandboxContext {
        data: None,
        home: Some(outside.path("home")),
        helper: Some(crate::escape::fixture::warden()),
    };
    let refused = recount_agent::sandbox::Sandbox::probe(settings, context).await.unwrap_err();
    assert!(refused.to_string().contains("sandbox.strict is set"), "{refused}");
}
