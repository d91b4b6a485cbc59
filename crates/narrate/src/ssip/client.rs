//! A connection to speech-dispatcher: [`SsipClient`]. One utterance is spoken at a time, and its end is reported.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::address::SsipAddress;
use super::codec::{self, SsipDecoder, SsipReply};
use super::error::SsipError;
use super::start::start;
use crate::limits;
use crate::utterance::Utterance;

/// A socket, of either kind.
trait SpeechSocket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> SpeechSocket for S {}

#[cfg(unix)]
async fn connect_local(path: &Path) -> io::Result<Box<dyn SpeechSocket>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

#[cfg(not(unix))]
async fn connect_local(_: &Path) -> io::Result<Box<dyn SpeechSocket>> {
    let why = "this system has no such sockets; set SPEECHD_ADDRESS to inet_socket:HOST:PORT";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// The outcome of an utterance, with the id that [`SsipClient::speak`] returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpeechEvent {
    Began(String),
    Ended(String),
    /// It was stopped before its end.
    Cancelled(String),
}

/// Voice settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VoiceSettings {
    /// From -100 to 100; `None` leaves the user's own setting.
    pub rate: Option<i8>,
}

/// One connection.
pub struct SsipClient {
    socket: Box<dyn SpeechSocket>,
    decoder: SsipDecoder,
    /// Notifications that arrived while a reply was awaited.
    events: VecDeque<SpeechEvent>,
    language: String,
    priority: &'static str,
}

impl SsipClient {
    /// Connects to the user's speech-dispatcher. If none runs and `SPEECHD_ADDRESS` names none, it is started.
    pub async fn find(
        variable: impl Fn(&str) -> Option<String>,
        settings: VoiceSettings,
    ) -> Result<SsipClient, SsipError> {
        let is_named = variable("SPEECHD_ADDRESS").is_some_and(|address| !address.is_empty());
        let address = SsipAddress::find(variable)?;
        match (SsipClient::open(&address, settings).await, &address) {
            (Err(SsipError::Unreachable { .. }), SsipAddress::Unix(path)) if !is_named => {
                if let Some(folder) = path.parent() {
                    // If the folder cannot be created, the start fails and reports it.
                    tokio::fs::create_dir_all(folder).await.ok();
                }
                start(path).await;
                SsipClient::open(&address, settings).await
            }
            (opened, _) => opened,
        }
    }

    /// Connects, with the name that the user's speech settings know.
    pub async fn open(address: &SsipAddress, settings: VoiceSettings) -> Result<SsipClient, SsipError> {
        let unreachable = |why: &dyn std::fmt::Display| SsipError::Unreachable {
            at: address.to_string(),
            why: why.to_string(),
        };
        let connected = async {
            let socket: io::Result<Box<dyn SpeechSocket>> = match address {
                SsipAddress::Unix(path) => connect_local(path).await,
                SsipAddress::Tcp { host, port } => {
                    TcpStream::connect((host.as_str(), *port)).await.map(|socket| Box::new(socket) as _)
                }
            };
            socket
        };
        let socket = match tokio::time::timeout(limits::SSIP_WAIT, connected).await {
            Ok(socket) => socket.map_err(|why| unreachable(&why))?,
            Err(_) => {
                return Err(unreachable(&format!(
                    "no connection within {} ms",
                    limits::SSIP_WAIT.as_millis()
                )));
            }
        };
        let mut client = SsipClient {
            socket,
            decoder: SsipDecoder::default(),
            events: VecDeque::new(),
            language: String::new(),
            priority: "",
        };
        client.command("SET SELF CLIENT_NAME unknown:recount:narrate").await?;
        for notification in ["BEGIN", "END", "CANCEL"] {
            client.command(&format!("SET SELF NOTIFICATION {notification} ON")).await?;
        }
        // Texts are spoken literally: `<` is not markup.
        client.command("SET SELF SSML_MODE OFF").await?;
        if let Some(rate) = settings.rate {
            client.command(&format!("SET SELF RATE {}", rate.clamp(-100, 100))).await?;
        }
        Ok(client)
    }

    /// Sends an utterance. Returns its id, which events name.
    pub async fn speak(&mut self, utterance: &Utterance) -> Result<String, SsipError> {
        let language = codec::word(&utterance.language);
        if language != self.language && !language.is_empty() {
            // A language without a voice is spoken with the default voice.
            match self.command(&format!("SET SELF LANGUAGE {language}")).await {
                Ok(_) | Err(SsipError::Refused { .. }) => self.language = language,
                Err(why) => return Err(why),
            }
        }
        let priority = utterance.priority.ssip();
        if priority != self.priority {
            self.command(&format!("SET SELF PRIORITY {priority}")).await?;
            self.priority = priority;
        }
        self.command("SPEAK").await?;
        let reply = self.exchange("SPEAK", codec::data(&utterance.text)).await?;
        let id = reply.message_id().map(str::to_owned);
        id.ok_or_else(|| SsipError::Protocol(format!("the reply {reply:?} has no message id")))
    }

    /// Stops the current utterance and discards waiting ones of this client.
    pub async fn cancel(&mut self) -> Result<(), SsipError> {
        self.command("CANCEL SELF").await.map(drop)
    }

    /// The next event. Cancel-safe.
    pub async fn next(&mut self) -> Result<SpeechEvent, SsipError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let reply = self.read().await?;
            self.note(&reply);
        }
    }

    /// Ends the connection and stops speech.
    pub async fn close(mut self) -> Result<(), SsipError> {
        self.cancel().await?;
        self.command("QUIT").await.map(drop)
    }

    async fn command(&mut self, command: &str) -> Result<SsipReply, SsipError> {
        self.exchange(command, format!("{command}\r\n")).await
    }

    /// Sends text and waits for the reply.
    async fn exchange(&mut self, name: &str, text: String) -> Result<SsipReply, SsipError> {
        let answered = async {
            self.socket.write_all(text.as_bytes()).await?;
            self.socket.flush().await?;
            loop {
                let reply = self.read().await?;
                if !reply.is_notification() {
                    return Ok(reply);
                }
                self.note(&reply);
            }
        };
        let reply = within(name, answered).await?;
        if reply.is_success() {
            return Ok(reply);
        }
        Err(SsipError::Refused {
            command: name.to_owned(),
            code: reply.code,
            words: reply.words().to_owned(),
        })
    }

    fn note(&mut self, reply: &SsipReply) {
        let Some(id) = reply.message_id().map(str::to_owned) else { return };
        let event = match reply.code {
            701 => SpeechEvent::Began(id),
            702 => SpeechEvent::Ended(id),
            703 => SpeechEvent::Cancelled(id),
            _ => return,
        };
        if self.events.len() >= limits::SSIP_EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    async fn read(&mut self) -> Result<SsipReply, SsipError> {
        loop {
            if let Some(reply) = self.decoder.next()? {
                return Ok(reply);
            }
            let mut buffer = [0; limits::SSIP_READ_BYTES];
            let count = self.socket.read(&mut buffer).await?;
            if count == 0 {
                return Err(SsipError::Closed);
            }
            self.decoder.feed(&buffer[..count]);
        }
    }
}

async fn within<T>(
    command: &str,
    answered: impl Future<Output = Result<T, SsipError>>,
) -> Result<T, SsipError> {
    match tokio::time::timeout(limits::SSIP_WAIT, answered).await {
        Ok(answered) => answered,
        Err(_) => Err(SsipError::Silent { command: command.to_owned(), waited: limits::SSIP_WAIT }),
    }
}
