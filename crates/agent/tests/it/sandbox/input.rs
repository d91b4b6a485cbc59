//! Tests of standard input: empty, or written by the caller.

use recount_agent::sandbox::{Mode, SandboxCommand};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::sandbox::fixture::{Fixture, LAYERS};

#[tokio::test]
async fn a_command_reads_its_input_up_to_the_end() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let argv = ["/bin/sh", "-c", "cat && echo over"].map(str::to_owned).to_vec();
        let order =
            SandboxCommand { argv, root: &fixture.workspace, network: false, environment: Vec::new() };
        let (mut process, mut input) = fixture.sandbox.start_with_input(order).await.unwrap();
        let (mut stdout, _stderr) = process.outputs().unwrap();
        let mut read = [0; 4];
        for line in [b"one\n", b"two\n"] {
            input.write_all(line).await.unwrap();
            stdout.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, line, "{mode:?}");
        }
        drop(input);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).await.unwrap();
        assert_eq!((rest.as_str(), process.ended().await.code), ("over\n", Some(0)), "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_without_input_reads_nothing() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let ran = fixture.shell("cat && echo over").await;
        assert_eq!((ran.status(), ran.text("stdout").as_str()), ("completed", "over\n"), "{mode:?}");
    }
}
