//! What commands read: nothing, or what is written to them.

use recount_agent::sandbox::{Mode, Order};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::sandbox::ground::{Ground, LAYERS};

#[tokio::test]
async fn a_command_reads_what_is_written_to_it_and_sees_its_end() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let ground = Ground::new(mode).await;
        let argv = ["/bin/sh", "-c", "cat && echo over"].map(str::to_owned).to_vec();
        let order = Order { argv, root: &ground.workspace, network: false, environment: Vec::new() };
        let (mut process, mut input) = ground.sandbox.start_with_input(order).await.unwrap();
        let (mut stdout, _stderr) = process.outputs().unwrap();
        let mut read = [0; 4];
        for said in [b"one\n", b"two\n"] {
            input.write_all(said).await.unwrap();
            stdout.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, said, "{mode:?}");
        }
        drop(input);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).await.unwrap();
        assert_eq!((rest.as_str(), process.ended().await.code), ("over\n", Some(0)), "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_that_is_given_nothing_reads_nothing() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let ground = Ground::new(mode).await;
        let ran = ground.shell("cat && echo over").await;
        assert_eq!((ran.how(), ran.text("stdout").as_str()), ("completed", "over\n"), "{mode:?}");
    }
}
