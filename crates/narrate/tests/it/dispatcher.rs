//! A speech-dispatcher of a test's own, without sound: its module `dummy` makes none, its module `writer` writes what it
//! would speak into a file.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long anything may take; reached only when it will never come.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often a test looks whether something has happened.
const LOOK: Duration = Duration::from_millis(5);

const MISSING: &str = "speech-dispatcher cannot be started; install it: apt-get install -y --no-install-recommends speech-dispatcher";

pub(crate) struct Dispatcher {
    folder: tempfile::TempDir,
    child: Child,
}

impl Dispatcher {
    /// With the module `dummy` or `writer`. An utterance takes the writer so many seconds.
    pub(crate) fn start(module: &str, utterance_seconds: &str) -> Dispatcher {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir_all(folder.path().join("conf/modules")).unwrap();
        std::fs::create_dir(folder.path().join("log")).unwrap();
        // Only `libao` opens without a sound card.
        let settings = format!(
            "LogLevel 3\nLogDir \"{}\"\nAudioOutputMethod \"libao\"\nAddModule \"dummy\" \"sd_dummy\" \"\"\n\
             AddModule \"writer\" \"sd_generic\" \"writer.conf\"\nDefaultModule {module}\n",
            path("log")
        );
        let writer = format!(
            "GenericExecuteSynth \"printf '%s\\\\n' \\'$DATA\\' >> {}; sleep {utterance_seconds}\"\n\
             GenericCmdDependency \"printf\"\nGenericLanguage \"en\" \"en\" \"utf-8\"\nGenericDelimiters \"ˈ\"\n\
             GenericMaxChunkLength 65000\nAddVoice \"en\" \"male1\" \"one\"\n",
            path("spoken")
        );
        std::fs::write(folder.path().join("conf/speechd.conf"), settings).unwrap();
        std::fs::write(folder.path().join("conf/modules/writer.conf"), writer).unwrap();
        let child = Command::new("speech-dispatcher")
            .args(["--run-single", "--timeout", "0", "--communication-method", "unix_socket"])
            .args(["--config-dir", &path("conf"), "--socket-path", &path("socket")])
            .args(["--pid-file", &path("pid"), "--log-dir", &path("log")])
            .env("HOME", folder.path())
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect(MISSING);
        let mut dispatcher = Dispatcher { folder, child };
        let until = recount_world::moment() + PATIENCE;
        // The file exists a moment before it accepts connections.
        while UnixStream::connect(dispatcher.socket()).is_err() {
            assert!(recount_world::moment() < until, "it opens no socket: {}", dispatcher.log());
            let ended = dispatcher.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", dispatcher.log());
            std::thread::park_timeout(LOOK);
        }
        dispatcher
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// What `SPEECHD_ADDRESS` is set to for its clients.
    pub(crate) fn address(&self) -> String {
        format!("unix_socket:{}", self.socket().display())
    }

    /// What the writer has spoken so far.
    pub(crate) fn spoken(&self) -> String {
        read(&self.folder.path().join("spoken"))
    }

    /// Waits until the writer has started to speak this.
    #[allow(dead_code, reason = "each test program uses some of it")]
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let until = recount_world::moment() + PATIENCE;
        while !self.spoken().contains(text) {
            assert!(recount_world::moment() < until, "{text:?} is not spoken; there is: {}", self.spoken());
            std::thread::park_timeout(LOOK);
        }
    }

    fn log(&self) -> String {
        read(&self.folder.path().join("log/speech-dispatcher.log"))
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
