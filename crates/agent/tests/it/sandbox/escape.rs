//! What commands try in vain. The same table on every layer.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::sandbox::ground::{Ground, LAYERS, Ran};

/// Runs a line that is to say `held` and nothing of what it tries to see.
async fn held(ground: &Ground, line: &str) -> Ran {
    let ran = ground.shell(line).await;
    let layer = ground.sandbox.layer().name();
    let told = format!("{line}\n{}{}", ran.text("stdout"), ran.text("stderr"));
    assert_eq!(ran.text("stdout"), "held\n", "{layer}: {told}");
    ran
}

#[tokio::test]
async fn secrets_are_not_read() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let (data, home) = (ground.data.display(), ground.home.display());
        held(&ground, &format!("cat {data}/token || echo held")).await;
        held(&ground, &format!("ls {data} {home}/.ssh 2>/dev/null | grep -E 'token|id' || echo held")).await;
        held(&ground, "cat ../../token || echo held").await;
        held(&ground, &format!("cat {home}/.ssh/id || echo held")).await;
        held(&ground, &format!("ln -s {data}/token link && cat link || echo held")).await;
        held(&ground, "cat /etc/shadow || echo held").await;
        held(&ground, "(cd /proc/self/root && cat etc/shadow) || echo held").await;
        // A hard link would be a file of the workspace.
        held(&ground, &format!("ln {data}/token hard 2>/dev/null && cat hard || echo held")).await;
    }
}

#[tokio::test]
async fn nothing_is_written_outside() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let (data, home) = (ground.data.display(), ground.home.display());
        std::os::unix::fs::symlink(&ground.home, ground.workspace.join("way_out")).unwrap();
        held(&ground, "(echo x > way_out/new) || echo held").await;
        held(&ground, "(echo x > way_out/.ssh/id) || echo held").await;
        // Where there are folders of that name, they are others, which go with the command.
        held(&ground, &format!("(echo x > {data}/new) 2>/dev/null; echo held")).await;
        held(&ground, "(echo x > ../../new) 2>/dev/null; echo held").await;
        held(&ground, "(echo x > /etc/new) || echo held").await;
        held(&ground, "(echo x > /usr/new) || echo held").await;
        held(&ground, &format!("mv file {home}/file 2>/dev/null || echo held")).await;
        held(&ground, &format!("rm -rf {data}/token {home}/.ssh 2>/dev/null; echo held")).await;
        held(&ground, &format!("truncate -s 0 {home}/.ssh/id 2>/dev/null || echo held")).await;
        held(&ground, &format!("mkdir -p {home}/made 2>/dev/null; echo held")).await;
        assert_eq!(std::fs::read_to_string(ground.home.join(".ssh/id")).unwrap(), "the-key\n");
        assert_eq!(std::fs::read_to_string(ground.data.join("token")).unwrap(), "the-token\n");
        for new in [ground.home.join("new"), ground.home.join("made"), ground.data.join("new")] {
            assert!(!new.exists(), "{mode:?} made {}", new.display());
        }
    }
}

#[tokio::test]
async fn nobody_outside_is_reached() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let path = ground.home.join("socket");
        let unix = UnixListener::bind(&path).unwrap();
        unix.set_nonblocking(true).unwrap();
        let name = format!("recount-test-{}-{mode:?}", std::process::id());
        let hidden = SocketAddr::from_abstract_name(&name).unwrap();
        let hidden = UnixListener::bind_addr(&hidden).unwrap();
        hidden.set_nonblocking(true).unwrap();

        held(&ground, &format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo held")).await;
        held(&ground, "(echo x > /dev/udp/127.0.0.1/9) 2>/dev/null || echo held").await;
        for address in [path.display().to_string(), format!("\\0{name}")] {
            let perl = format!(
                "perl -e 'use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1; \
                 connect($s, pack_sockaddr_un(\"{address}\")) or exit 1' || echo held"
            );
            held(&ground, &perl).await;
        }
        assert!(tcp.accept().is_err() && unix.accept().is_err() && hidden.accept().is_err(), "{mode:?}");
    }
}

#[tokio::test]
async fn other_processes_keep_their_secrets() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let own = std::process::id();
        for what in ["environ", "mem", "maps", "fd/0", "root/etc/hostname", "cwd/Cargo.toml", "exe"] {
            held(&ground, &format!("head -c 1 /proc/{own}/{what} 2>/dev/null || echo held")).await;
        }
        held(&ground, &format!("kill -9 {own} 2>/dev/null || echo held")).await;
        held(&ground, &format!("kill -0 {own} 2>/dev/null || echo held")).await;
        held(&ground, &format!("renice 19 -p {own} >/dev/null 2>&1 || echo held")).await;
        held(&ground, &format!("prlimit --pid {own} --nofile=8 2>/dev/null || echo held")).await;
        // The warden is nobody's to end, either: whatever this kills, the call ends as any other.
        let ran = ground.shell("kill -9 -1 2>/dev/null; kill -9 $PPID 2>/dev/null; echo done").await;
        assert!(ran.exited()["exit_code"] == 0 || ran.exited()["signal"] == "SIGKILL", "{:?}", ran.exited());
        if ground.is_bwrap() {
            held(&ground, &format!("test -e /proc/{own} || echo held")).await;
        }
    }
}

#[tokio::test]
async fn there_are_no_privileges() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let ran =
            ground.shell("grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status").await;
        for line in ran.text("stdout").lines() {
            let (name, value) = line.split_once(":\t").unwrap();
            let wanted = match name {
                "NoNewPrivs" => "1",
                "Seccomp" => "2",
                // An ordinary user cannot change it, and with no new privileges it gives nothing.
                "CapBnd" if !rustix::process::geteuid().is_root() => continue,
                _ => "0000000000000000",
            };
            assert_eq!(value, wanted, "{mode:?}: {line}");
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
            held(&ground, &format!("{line} >/dev/null 2>&1 || echo held")).await;
        }
        assert_eq!(ground.shell("ulimit -c").await.text("stdout"), "0\n");
    }
}

#[tokio::test]
async fn descriptors_and_variables_of_the_server_stay_with_it() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let leaked = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let ran =
            ground.shell("ls /proc/self/fd | wc -l; env | grep -c CARGO; readlink /proc/self/fd/0").await;
        // The three of every process, and the folder that is listed.
        assert_eq!(ran.text("stdout"), "4\n0\n/dev/null\n", "{mode:?}");
        drop(leaked);
    }
}

#[tokio::test]
async fn modes_and_times_are_changed_in_the_workspace_only() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let (data, home) = (ground.data.display(), ground.home.display());
        let before = std::fs::metadata(ground.data.join("token")).unwrap();
        std::os::unix::fs::symlink(ground.data.join("token"), ground.workspace.join("way_out")).unwrap();
        held(&ground, &format!("chmod 777 {data}/token 2>/dev/null || echo held")).await;
        held(&ground, &format!("chmod 000 {home} 2>/dev/null; test -x {home}; echo held")).await;
        held(&ground, "chmod 777 way_out ../../token 2>/dev/null; echo held").await;
        held(&ground, &format!("touch -d 2001-01-01 {data}/token 2>/dev/null; echo held")).await;
        held(&ground, "chmod 777 /usr/bin/env 2>/dev/null || echo held").await;
        held(&ground, "perl -e 'open(F, \"/usr/bin/env\"); chmod(0777, *F) or print \"held\\n\"'").await;
        held(&ground, &format!("chown 1:1 {data}/token 2>/dev/null || echo held")).await;
        let after = std::fs::metadata(ground.data.join("token")).unwrap();
        let facts = |about: &std::fs::Metadata| (about.mode(), about.mtime(), about.uid());
        assert_eq!(facts(&after), facts(&before), "{mode:?}");
        // A program that runs as its owner, for anybody outside.
        held(&ground, "touch s; chmod u+s s 2>/dev/null || echo held").await;
        let perl = "perl -e 'use Fcntl; sysopen(F, \"t\", O_CREAT | O_WRONLY, 04755) or print \"held\\n\"'";
        held(&ground, perl).await;
        let line = "echo x > a; chmod 755 a && cd / && chmod o-x $OLDPWD/a && cd $OLDPWD && touch -d @1000000000 a \
                    && touch -h -d @900000000 way_out && cp -p a b && install -m 700 a c && chown $(id -u) a \
                    && mkdir d && chmod -R 711 d && echo held";
        held(&ground, line).await;
        let about = |name: &str| std::fs::metadata(ground.workspace.join(name)).unwrap();
        assert_eq!(about("a").permissions().mode() & 0o7777, 0o754);
        assert_eq!((about("a").mtime(), about("b").mtime()), (1_000_000_000, 1_000_000_000));
        assert_eq!(about("c").permissions().mode() & 0o777, 0o700);
        assert_eq!(about("d").permissions().mode() & 0o777, 0o711);
    }
}
