//! The client of speech-dispatcher, against a real one.

use recount_narrate::ssip::{SpeechEvent, SsipAddress, SsipClient, SsipError, VoiceSettings};
use recount_narrate::{SpeechPriority, Utterance};

use crate::dispatcher::Dispatcher;

async fn client(dispatcher: &Dispatcher) -> SsipClient {
    let variable = |name: &str| (name == "SPEECHD_ADDRESS").then(|| dispatcher.address());
    SsipClient::find(variable, VoiceSettings { rate: Some(40) }).await.unwrap()
}

fn utterance(priority: SpeechPriority, text: &str, language: &str) -> Utterance {
    Utterance::own(priority, text, language)
}

#[tokio::test]
async fn an_utterance_is_spoken_and_its_end_is_reported() {
    for module in ["dummy", "writer"] {
        let dispatcher = Dispatcher::start(module, "0");
        let mut client = client(&dispatcher).await;
        for priority in [
            SpeechPriority::Progress,
            SpeechPriority::Text,
            SpeechPriority::Message,
            SpeechPriority::Important,
        ] {
            let id = client.speak(&utterance(priority, "It is <b>done</b>.\n.", "de-AT")).await.unwrap();
            assert_eq!(client.next().await.unwrap(), SpeechEvent::Began(id.clone()), "{module} {priority:?}");
            assert_eq!(client.next().await.unwrap(), SpeechEvent::Ended(id), "{module} {priority:?}");
        }
        if module == "writer" {
            assert!(dispatcher.spoken().starts_with("It is <b>done</b>."), "{}", dispatcher.spoken());
        }
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_utterance_that_is_cancelled_ends_at_once() {
    let dispatcher = Dispatcher::start("writer", "3");
    let mut client = client(&dispatcher).await;
    let id = client.speak(&utterance(SpeechPriority::Text, "A long story.", "en")).await.unwrap();
    assert_eq!(client.next().await.unwrap(), SpeechEvent::Began(id.clone()));
    // The module of this service ignores a cancellation that comes before it has started its program.
    dispatcher.wait_for("A long story.");
    client.cancel().await.unwrap();
    assert_eq!(client.next().await.unwrap(), SpeechEvent::Cancelled(id));
    let id = client.speak(&utterance(SpeechPriority::Important, "A prompt.", "en")).await.unwrap();
    assert_eq!(client.next().await.unwrap(), SpeechEvent::Began(id));
    dispatcher.wait_for("A long story.\nA prompt.\n");
}

#[tokio::test]
async fn a_service_that_is_missing_or_ends_is_reported() {
    let nowhere = SsipAddress::Unix("/nowhere/speechd.sock".into());
    let why = SsipClient::open(&nowhere, VoiceSettings::default()).await.err().unwrap();
    let begin = "no response from speech-dispatcher at /nowhere/speechd.sock: ";
    assert!(why.to_string().starts_with(begin), "{why}");

    let dispatcher = Dispatcher::start("dummy", "0");
    let mut client = client(&dispatcher).await;
    drop(dispatcher);
    assert!(matches!(client.next().await, Err(SsipError::Closed | SsipError::Broken(_))));
    client.speak(&utterance(SpeechPriority::Text, "Hello.", "en")).await.unwrap_err();
}
