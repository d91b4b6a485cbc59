//! Tests that commands cannot escape. The same attempts run on every layer.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::sandbox::fixture::{CommandRun, Fixture, LAYERS};

/// Runs a line that must print only `check_held`.
async fn check_held(fixture: &Fixture, line: &str) -> CommandRun {
    let ran = fixture.shell(line).await;
    let layer = fixture.sandbox.layer().name();
    let output = format!("{line}\n{}{}", ran.text("stdout"), ran.text("stderr"));
    assert_eq!(ran.text("stdout"), "held\n", "{layer}: {output}");
    ran
}

#[tokio::test]
async fn secrets_cannot_be_read() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let (data, home) = (fixture.data.display(), fixture.home.display());
        check_held(&fixture, &format!("cat {data}/token || echo held")).await;
        check_held(&fixture, &format!("ls {data} {home}/.ssh 2>/dev/null | grep -E 'token|id' || echo held"))
            .await;
        check_held(&fixture, "cat ../../token || echo held").await;
        check_held(&fixture, &format!("cat {home}/.ssh/id || echo held")).await;
        check_held(&fixture, &format!("ln -s {data}/token link && cat link || echo held")).await;
        check_held(&fixture, "cat /etc/shadow || echo held").await;
        check_held(&fixture, "(cd /proc/self/root && cat etc/shadow) || echo held").await;
        // A hard link would be a file of the workspace.
        check_held(&fixture, &format!("ln {data}/token hard 2>/dev/null && cat hard || echo held")).await;
    }
}

#[tokio::test]
async fn nothing_is_written_outside() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let (data, home) = (fixture.data.display(), fixture.home.display());
        std::os::unix::fs::symlink(&fixture.home, fixture.workspace.join("way_out")).unwrap();
        check_held(&fixture, "(echo x > way_out/new) || echo held").await;
        check_held(&fixture, "(echo x > way_out/.ssh/id) || echo held").await;
        // If folders of that name exist, they are private ones that are deleted with the command.
        check_held(&fixture, &format!("(echo x > {data}/new) 2>/dev/null; echo held")).await;
        check_held(&fixture, "(echo x > ../../new) 2>/dev/null; echo held").await;
        check_held(&fixture, "(echo x > /etc/new) || echo held").await;
        check_held(&fixture, "(echo x > /usr/new) || echo held").await;
        check_held(&fixture, &format!("mv file {home}/file 2>/dev/null || echo held")).await;
        check_held(&fixture, &format!("rm -rf {data}/token {home}/.ssh 2>/dev/null; echo held")).await;
        check_held(&fixture, &format!("truncate -s 0 {home}/.ssh/id 2>/dev/null || echo held")).await;
        check_held(&fixture, &format!("mkdir -p {home}/made 2>/dev/null; echo held")).await;
        assert_eq!(std::fs::read_to_string(fixture.home.join(".ssh/id")).unwrap(), "the-key\n");
        assert_eq!(std::fs::read_to_string(fixture.data.join("token")).unwrap(), "the-token\n");
        for new in [fixture.home.join("new"), fixture.home.join("made"), fixture.data.join("new")] {
            assert!(!new.exists(), "{mode:?} made {}", new.display());
        }
    }
}

#[tokio::test]
async fn no_process_outside_is_reached() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let path = fixture.home.join("socket");
        let unix = UnixListener::bind(&path).unwrap();
        unix.set_nonblocking(true).unwrap();
        let name = format!("recount-test-{}-{mode:?}", std::process::id());
        let hidden = SocketAddr::from_abstract_name(&name).unwrap();
        let hidden = UnixListener::bind_addr(&hidden).unwrap();
        hidden.set_nonblocking(true).unwrap();

        check_held(&fixture, &format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo held")).await;
        check_held(&fixture, "(echo x > /dev/udp/127.0.0.1/9) 2>/dev/null || echo held").await;
        for address in [path.display().to_string(), format!("\\0{name}")] {
            let perl = format!(
                "perl -e 'use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1; \
                 connect($s, pack_sockaddr_un(\"{address}\")) or exit 1' || echo held"
            );
            check_held(&fixture, &perl).await;
        }
        assert!(tcp.accept().is_err() && unix.accept().is_err() && hidden.accept().is_err(), "{mode:?}");
    }
}

#[tokio::test]
async fn other_processes_keep_their_secrets() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let own = std::process::id();
        for what in ["environ", "mem", "maps", "fd/0", "root/etc/hostname", "cwd/Cargo.toml", "exe"] {
            check_held(&fixture, &format!("head -c 1 /proc/{own}/{what} 2>/dev/null || echo held")).await;
        }
        check_held(&fixture, &format!("kill -9 {own} 2>/dev/null || echo held")).await;
        check_held(&fixture, &format!("kill -0 {own} 2>/dev/null || echo held")).await;
        check_held(&fixture, &format!("renice 19 -p {own} >/dev/null 2>&1 || echo held")).await;
        check_held(&fixture, &format!("prlimit --pid {own} --nofile=8 2>/dev/null || echo held")).await;
        // The command cannot kill the warden: the call ends normally.
        let ran = fixture.shell("kill -9 -1 2>/dev/null; kill -9 $PPID 2>/dev/null; echo done").await;
        assert!(ran.exited()["exit_code"] == 0 || ran.exited()["signal"] == "SIGKILL", "{:?}", ran.exited());
        if fixture.is_bwrap() {
            check_held(&fixture, &format!("test -e /proc/{own} || echo held")).await;
        }
    }
}

#[tokio::test]
async fn there_are_no_privileges() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let ran =
            fixture.shell("grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status").await;
        for line in ran.text("stdout").lines() {
            let (name, value) = line.split_once(":\t").unwrap();
            let expected = match name {
                "NoNewPrivs" => "1",
                "Seccomp" => "2",
                // An ordinary user cannot change this set, and with no_new_privs it has no effect.
                "CapBnd" if !rustix::process::geteuid().is_root() => continue,
                _ => "0000000000000000",
            };
            assert_eq!(value, expected, "{mode:?}: {line}");
        }
        assert_eq!(ran.text("stdout").lines().count(), 6);
        for line in [
            "unshare -U true",
            "unshare -m true",
            "mount -t tmpfs none /tmp",
            "chroot / true",
            "mknod device b 8 0",
            "strace true",
            "dmesg",
        ] {
            check_held(&fixture, &format!("{line} >/dev/null 2>&1 || echo held")).await;
        }
        assert_eq!(fixture.shell("ulimit -c").await.text("stdout"), "0\n");
    }
}

#[tokio::test]
async fn descriptors_and_variables_of_the_server_stay_with_it() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let leaked = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let ran =
            fixture.shell("ls /proc/self/fd | wc -l; env | grep -c CARGO; readlink /proc/self/fd/0").await;
        // The three standard descriptors, and the listed folder.
        assert_eq!(ran.text("stdout"), "4\n0\n/dev/null\n", "{mode:?}");
        drop(leaked);
    }
}

#[tokio::test]
async fn modes_and_times_are_changed_in_the_workspace_only() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let (data, home) = (fixture.data.display(), fixture.home.display());
        let before = std::fs::metadata(fixture.data.join("token")).unwrap();
        std::os::unix::fs::symlink(fixture.data.join("token"), fixture.workspace.join("way_out")).unwrap();
        check_held(&fixture, &format!("chmod 777 {data}/token 2>/dev/null || echo held")).await;
        check_held(&fixture, &format!("chmod 000 {home} 2>/dev/null; test -x {home}; echo held")).await;
        check_held(&fixture, "chmod 777 way_out ../../token 2>/dev/null; echo held").await;
        check_held(&fixture, &format!("touch -d 2001-01-01 {data}/token 2>/dev/null; echo held")).await;
        check_held(&fixture, "chmod 777 /usr/bin/env 2>/dev/null || echo held").await;
        check_held(&fixture, "perl -e 'open(F, \"/usr/bin/env\"); chmod(0777, *F) or print \"held\\n\"'")
            .await;
        check_held(&fixture, &format!("chown 1:1 {data}/token 2>/dev/null || echo held")).await;
        let after = std::fs::metadata(fixture.data.join("token")).unwrap();
        let facts = |about: &std::fs::Metadata| (about.mode(), about.mtime(), about.uid());
        assert_eq!(facts(&after), facts(&before), "{mode:?}");
        // A setuid program that any process outside could start.
        check_held(&fixture, "touch s; chmod u+s s 2>/dev/null || echo held").await;
        let perl = "perl -e 'use Fcntl; sysopen(F, \"t\", O_CREAT | O_WRONLY, 04755) or print \"held\\n\"'";
        check_held(&fixture, perl).await;
        let line = "echo x > a; chmod 755 a && cd / && chmod o-x $OLDPWD/a && cd $OLDPWD && touch -d @1000000000 a \
                    && touch -h -d @900000000 way_out && cp -p a b && install -m 700 a c && chown $(id -u) a \
                    && mkdir d && chmod -R 711 d && echo held";
        check_held(&fixture, line).await;
        let about = |name: &str| std::fs::metadata(fixture.workspace.join(name)).unwrap();
        assert_eq!(about("a").permissions().mode() & 0o7777, 0o754);
        assert_eq!((about("a").mtime(), about("b").mtime()), (1_000_000_000, 1_000_000_000));
        assert_eq!(about("c").permissions().mode() & 0o777, 0o700);
        assert_eq!(about("d").permissions().mode() & 0o777, 0o711);
    }
}
