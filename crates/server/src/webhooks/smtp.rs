//! Sends one mail to one address by SMTP (RFC 5321): with TLS, or unencrypted on this machine. Replies are bounded.
//!
//! Start at [`SmtpClient::send`]. It must not know events, or how a mail is made. The reasons for a client of our own are in
//! decision 0149.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_command_line::clean;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::{MailAccount, MailEncryption, MailServer, MailSettings};
use crate::limits;

/// Why a mail was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MailFailure {
    /// The server refused this mail for good.
    Refused(String),
    /// The mail may be sent later.
    Failed(String),
}

use MailFailure::{Failed, Refused};

pub(super) struct SmtpClient {
    tls: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The end of a connection to a mail server that this client has.
struct Session<S> {
    stream: BufReader<S>,
}

struct Reply {
    code: u16,
    /// The text of each line, without the code.
    lines: Vec<String>,
}

impl SmtpClient {
    /// A client that trusts the authorities of the system. Reads their files.
    pub(super) fn new(server: &MailServer) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if server.encryption != MailEncryption::None {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Self::trusting(server, roots)
    }

    fn trusting(server: &MailServer, roots: RootCertStore) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| format!("cannot set up TLS: {why}"))?;
        let tls = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let name = ServerName::try_from(server.host.clone()).map_err(|why| why.to_string())?;
        Ok(SmtpClient { tls, name })
    }

    /// Sends a mail; returns once the server has accepted it.
    pub(super) async fn send(&self, settings: &MailSettings, mail: &[u8]) -> Result<(), MailFailure> {
        let limit = limits::MAIL_TIMEOUT;
        match timeout(limit, self.deliver(settings, mail)).await {
            Ok(sent) => sent,
            Err(_) => {
                Err(Failed(format!("the mail server did not accept the mail within {} s", limit.as_secs())))
            }
        }
    }

    async fn deliver(&self, settings: &MailSettings, mail: &[u8]) -> Result<(), MailFailure> {
        let server = &settings.server;
        let limit = limits::WEBHOOK_CONNECT;
        let connecting = TcpStream::connect((server.host.as_str(), server.port));
        let stream = match timeout(limit, connecting).await {
            Ok(connected) => connected.map_err(fault)?,
            Err(_) => return Err(Failed(format!("no connection within {} s", limit.as_secs()))),
        };
        let client = client_name(stream.local_addr().map_err(fault)?);
        match server.encryption {
            MailEncryption::None => {
                let mut session = Session::new(stream);
                session.greeting().await?;
                session.transfer(&client, settings, mail).await
            }
            MailEncryption::Tls => {
                let mut session = Session::new(self.encrypted(stream).await?);
                session.greeting().await?;
                session.transfer(&client, settings, mail).await
            }
            MailEncryption::StartTls => {
                let mut session = Session::new(stream);
                session.greeting().await?;
                let offered = session.hello(&client).await?;
                if !offered.lines.iter().any(|line| line.eq_ignore_ascii_case("STARTTLS")) {
                    let why = "the mail server does not offer STARTTLS; nothing was sent";
                    return Err(Failed(why.to_owned()));
                }
                session.expect("STARTTLS", 220).await?;
                // Bytes that came unencrypted must not count as replies to what is encrypted.
                if !session.stream.buffer().is_empty() {
                    return Err(Failed("the mail server sent data before the encryption".to_owned()));
                }
                let mut session = Session::new(self.encrypted(session.stream.into_inner()).await?);
                session.transfer(&client, settings, mail).await
            }
        }
    }

    async fn encrypted(&self, stream: TcpStream) -> Result<impl AsyncRead + AsyncWrite + Unpin, MailFailure> {
        let connector = tokio_rustls::TlsConnector::from(self.tls.clone());
        connector.connect(self.name.clone(), stream).await.map_err(|why| Failed(format!("TLS failed: {why}")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    fn new(stream: S) -> Self {
        Session { stream: BufReader::new(stream) }
    }

    async fn greeting(&mut self) -> Result<(), MailFailure> {
        self.reply().await?.expect("the connection", 220).map(drop)
    }

    async fn hello(&mut self, client: &str) -> Result<Reply, MailFailure> {
        self.expect(&format!("EHLO {client}"), 250).await
    }

    /// Introduces this client, signs in, and sends the mail.
    async fn transfer(
        &mut self,
        client: &str,
        settings: &MailSettings,
        mail: &[u8],
    ) -> Result<(), MailFailure> {
        let offered = self.hello(client).await?;
        if let Some(account) = &settings.server.account {
            self.authenticate(account, &offered).await?;
        }
        let MailSettings { from, to, .. } = settings;
        for (command, code) in
            [(format!("MAIL FROM:<{from}>"), 250), (format!("RCPT TO:<{to}>"), 250), ("DATA".to_owned(), 354)]
        {
            self.command(&command).await?.about_mail(&command, code)?;
        }
        self.stream.write_all(&transparent(mail)).await.map_err(fault)?;
        self.stream.flush().await.map_err(fault)?;
        self.reply().await?.about_mail("the mail", 250)?;
        // The mail is accepted, whatever happens to the connection now.
        let quit = async {
            self.stream.write_all(b"QUIT\r\n").await?;
            self.stream.flush().await
        };
        drop(timeout(limits::MAIL_QUIT_WAIT, quit).await);
        Ok(())
    }

    async fn authenticate(&mut self, account: &MailAccount, offered: &Reply) -> Result<(), MailFailure> {
        let words = offered.lines.iter().map(|line| line.to_ascii_uppercase());
        let words: Vec<String> = words.filter(|line| line.starts_with("AUTH ")).collect();
        let offers = |name: &str| words.iter().any(|line| line.split(' ').any(|word| word == name));
        let (user, password) = (&account.user, account.password.reveal());
        if offers("PLAIN") {
            let proof = STANDARD.encode(format!("\0{user}\0{password}"));
            self.command(&format!("AUTH PLAIN {proof}")).await?.expect("the sign-in", 235)?;
        } else if offers("LOGIN") {
            self.expect("AUTH LOGIN", 334).await?;
            self.command(&STANDARD.encode(user)).await?.expect("the sign-in", 334)?;
            self.command(&STANDARD.encode(password)).await?.expect("the sign-in", 235)?;
        } else {
            let why = "the mail server offers no sign-in with PLAIN or LOGIN; remove the user name and the password, or \
                       use another port";
            return Err(Failed(why.to_owned()));
        }
        Ok(())
    }

    async fn expect(&mut self, command: &str, code: u16) -> Result<Reply, MailFailure> {
        self.command(command).await?.expect(command, code)
    }

    async fn command(&mut self, command: &str) -> Result<Reply, MailFailure> {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).await.map_err(fault)?;
        self.stream.flush().await.map_err(fault)?;
        self.reply().await
    }

    /// Reads the lines of one reply: `250-…` and at last `250 …`.
    async fn reply(&mut self) -> Result<Reply, MailFailure> {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            let most = limits::MAIL_REPLY_LINE_BYTES_MAX;
            (&mut self.stream).take(most as u64).read_until(b'\n', &mut line).await.map_err(fault)?;
            if line.is_empty() {
                return Err(Failed("the mail server closed the connection".to_owned()));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.strip_suffix('\n').map(|text| text.trim_end_matches('\r'));
            let parts = text.and_then(|text| Some((text.get(..3)?, text.get(3..)?)));
            let parts = parts.and_then(|(code, rest)| Some((code.parse::<u16>().ok()?, rest)));
            let Some((code @ 200..=599, rest)) = parts else {
                return Err(Failed("the receiver does not reply as a mail server".to_owned()));
            };
            lines.push(rest.get(1..).unwrap_or_default().to_owned());
            if !rest.starts_with('-') {
                return Ok(Reply { code, lines });
            }
            if lines.len() >= limits::MAIL_REPLY_LINES_MAX {
                return Err(Failed("the reply of the mail server is too long".to_owned()));
            }
        }
    }
}

impl Reply {
    /// A reply to a command that is not about one mail: another code is a failure that may pass.
    fn expect(self, command: &str, code: u16) -> Result<Reply, MailFailure> {
        match self.code == code {
            true => Ok(self),
            false => Err(Failed(self.failure(command))),
        }
    }

    /// A reply to a command about one mail: codes from 500 on refuse it, except 530, which requests a sign-in or encryption.
    fn about_mail(self, command: &str, code: u16) -> Result<Reply, MailFailure> {
        match self.code {
            250..=252 if code == 250 => Ok(self),
            found if found == code => Ok(self),
            500..=529 | 531..=599 => Err(Refused(self.failure(command))),
            _ => Err(Failed(self.failure(command))),
        }
    }

    fn failure(&self, command: &str) -> String {
        let text = clean::line(&self.lines.join(" "));
        let shown: String = text.chars().take(limits::MAIL_REPLY_CHARS_MAX).collect();
        format!("the mail server replied {} to {command}: {shown}", self.code)
    }
}

/// The name of this client, by its address.
fn client_name(address: SocketAddr) -> String {
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(address) => format!("[{address}]"),
        std::net::IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

/// The mail as it is sent: lines that begin with a point have another one, and a point alone is the end.
fn transparent(mail: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mail.len() + 8);
    for line in mail.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    out.extend_from_slice(b".\r\n");
    out
}

fn fault(why: std::io::Error) -> MailFailure {
    Failed(why.to_string())
}

#[cfg(test)]
pub(super) mod tests;
