//! The client against a mail server on a real socket, with TLS and STARTTLS.

use std::collections::VecDeque;
use std::sync::Mutex;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use recount_world::{Kind, World};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;

use super::*;

/// A mail server: replies to commands by its script, otherwise as every command succeeds.
#[derive(Clone)]
pub(in crate::webhooks) struct MailReceiver {
    pub(in crate::webhooks) address: SocketAddr,
    /// Each command and each mail, in order; those before the encryption begin with `!`.
    received: Arc<Mutex<Vec<String>>>,
    /// The beginning of a command, and the reply to the next such command. `.` is a mail.
    script: Arc<Mutex<VecDeque<(&'static str, String)>>>,
    tls: Option<Arc<ServerConfig>>,
    /// What EHLO offers.
    offers: &'static [&'static str],
}

impl MailReceiver {
    pub(in crate::webhooks) async fn start(world: &World, script: &[(&'static str, &str)]) -> Self {
        Self::with(world, MailEncryption::None, None, &["AUTH LOGIN PLAIN"], script).await
    }

    async fn with(
        world: &World,
        encryption: MailEncryption,
        tls: Option<Arc<ServerConfig>>,
        offers: &'static [&'static str],
        script: &[(&'static str, &str)],
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = script.iter().map(|(command, reply)| (*command, (*reply).to_owned())).collect();
        let receiver = MailReceiver {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            script: Arc::new(Mutex::new(script)),
            tls,
            offers,
        };
        let served = receiver.clone();
        world.tasks.spawn_until_shutdown(Kind::Service, async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                served.connection(stream, encryption).await;
            }
        });
        receiver
    }

    async fn connection(&self, stream: TcpStream, encryption: MailEncryption) {
        let encrypted = async |stream| {
            tokio_rustls::TlsAcceptor::from(self.tls.clone().unwrap()).accept(stream).await.ok()
        };
        if encryption == MailEncryption::Tls {
            let Some(stream) = encrypted(stream).await else { return };
            self.session(stream, "", true).await;
        } else if let Some(stream) = self.session(stream, "!", true).await {
            let Some(stream) = encrypted(stream).await else { return };
            self.session(stream, "", false).await;
        }
    }

    /// Serves one session; returns its stream if TLS follows.
    async fn session<S>(&self, stream: S, mark: &str, greets: bool) -> Option<S>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stream = BufReader::new(stream);
        let mut is_data = false;
        let mut mail = String::new();
        if greets {
            stream.write_all(self.reply_to("connect", "220 mail").as_bytes()).await.ok()?;
        }
        loop {
            stream.flush().await.ok()?;
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            if is_data && line != ".\r\n" {
                mail += line.strip_prefix('.').unwrap_or(&line);
                continue;
            }
            let received = if is_data { std::mem::take(&mut mail) } else { line.trim_end().to_owned() };
            self.received.lock().unwrap().push(format!("{mark}{received}"));
            let (command, usual) = match line.get(..4).unwrap_or(".") {
                _ if is_data => (".".to_owned(), "250 queued".to_owned()),
                "EHLO" => {
                    let offers = self.offers.iter().map(|offer| format!("250-{offer}\r\n"));
                    (line.clone(), format!("250-mail\r\n{}250 HELP", offers.collect::<String>()))
                }
                "STAR" => (line.clone(), "220 go".to_owned()),
                "DATA" => (line.clone(), "354 go".to_owned()),
                "AUTH" if !line.contains("LOGIN") => (line.clone(), "235 in".to_owned()),
                "QUIT" => return None,
                _ => (line.clone(), "250 fine".to_owned()),
            };
            let reply = self.reply_to(&command, &usual);
            is_data = reply.starts_with("354");
            stream.write_all(reply.as_bytes()).await.ok()?;
            stream.flush().await.ok()?;
            if command.starts_with("STARTTLS") && reply.starts_with("220") {
                return Some(stream.into_inner());
            }
        }
    }

    fn reply_to(&self, command: &str, usual: &str) -> String {
        let mut script = self.script.lock().unwrap();
        let is_next = script.front().is_some_and(|(expected, _)| command.starts_with(expected));
        let reply = script.pop_front().filter(|_| is_next).map(|(_, reply)| reply);
        reply.unwrap_or_else(|| usual.to_owned()) + "\r\n"
    }

    pub(in crate::webhooks) fn received(&self, beginning: &str) -> Vec<String> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|line| line.starts_with(beginning)).cloned().collect()
    }
}

/// A server's certificate for this machine, and the authority that issued it.
fn certificate() -> (Arc<ServerConfig>, RootCertStore) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    (Arc::new(config), roots)
}

const MAIL: &str = "Subject: x\r\n\r\n.\r\n..two\r\nlast\r\n";

fn settings(url: &str) -> MailSettings {
    let server = MailServer::parse(url).unwrap();
    MailSettings { server, from: "recount@b.example".to_owned(), to: "ada@c.example".to_owned() }
}

async fn send(url: &str, roots: RootCertStore) -> Result<(), MailFailure> {
    let settings = settings(url);
    let client = SmtpClient::trusting(&settings.server, roots).unwrap();
    client.send(&settings, MAIL.as_bytes()).await
}

#[tokio::test]
async fn a_mail_arrives_whole_over_tls_after_a_sign_in() {
    let (world, (tls, roots)) = (World::real(), certificate());
    for (encryption, scheme, offers) in [
        (MailEncryption::Tls, "smtps", &["AUTH PLAIN"][..]),
        (MailEncryption::StartTls, "smtp", &["STARTTLS", "AUTH PLAIN"][..]),
    ] {
        let receiver = MailReceiver::with(&world, encryption, Some(tls.clone()), offers, &[]).await;
        let url = format!("{scheme}://ada:p%40ss@{}", receiver.address);
        assert_eq!(send(&url, roots.clone()).await, Ok(()));
        let secret = STANDARD.encode("\0ada\0p@ss");
        let expected = [
            "EHLO [127.0.0.1]",
            &format!("AUTH PLAIN {secret}"),
            "MAIL FROM:<recount@b.example>",
            "RCPT TO:<ada@c.example>",
            "DATA",
            MAIL,
        ];
        let received = receiver.received("");
        let encrypted: Vec<&String> = received.iter().filter(|line| !line.starts_with('!')).collect();
        assert_eq!(encrypted[..6], expected, "{scheme}");
        let unencrypted = receiver.received("!");
        let before = if scheme == "smtp" { &["!EHLO [127.0.0.1]", "!STARTTLS"][..] } else { &[] };
        assert_eq!(unencrypted, before, "{scheme}");

        // An unknown authority learns nothing.
        let refused = send(&url, RootCertStore::empty()).await;
        assert!(matches!(&refused, Err(Failed(why)) if why.starts_with("TLS failed: ")), "{refused:?}");
        assert_eq!(receiver.received("AUTH").len(), 1);
    }
}

#[tokio::test]
async fn without_encryption_nothing_is_sent_and_early_bytes_are_no_replies() {
    let (world, (tls, roots)) = (World::real(), certificate());
    let start = async |offers, script: &[(&'static str, &str)]| {
        MailReceiver::with(&world, MailEncryption::StartTls, Some(tls.clone()), offers, script).await
    };
    for (offers, script, words) in [
        (&["AUTH PLAIN"][..], &[][..], "does not offer STARTTLS; nothing was sent"),
        (
            &["STARTTLS"],
            &[("connect", "220 x"), ("EHLO", "250 STARTTLS"), ("STARTTLS", "454 no")],
            "454 to STARTTLS",
        ),
        (
            &["STARTTLS"],
            &[("connect", "220 x"), ("EHLO", "250 STARTTLS"), ("STARTTLS", "220 go\r\n250 AUTH PLAIN")],
            "sent data before the encryption",
        ),
    ] {
        let receiver = start(offers, script).await;
        let sent = send(&format!("smtp://ada:hush@{}", receiver.address), roots.clone()).await;
        assert!(matches!(&sent, Err(Failed(why)) if why.contains(words)), "{words}: {sent:?}");
        assert_eq!(receiver.received("!AUTH").len() + receiver.received("AUTH").len(), 0);
    }
}

#[tokio::test]
async fn replies_about_the_mail_refuse_it_and_others_are_retried() {
    let world = World::real();
    let long = "x".repeat(5_000);
    for (script, is_refused, words) in [
        (&[("connect", "554 no service")][..], false, "554 to the connection: no service"),
        (&[("connect", "hello")], false, "does not reply as a mail server"),
        (&[("connect", &*long)], false, "does not reply as a mail server"),
        (
            &[("connect", "220 x"), ("EHLO", "250 AUTH PLAIN"), ("AUTH", "535 wrong")],
            false,
            "535 to the sign-in: wrong",
        ),
        (&[("connect", "220 x"), ("EHLO", "250 SIZE")], false, "offers no sign-in"),
        (
            &[("connect", "220 x"), ("EHLO", "250 AUTH PLAIN"), ("AUTH", "235 x"), ("MAIL", "530 sign in")],
            false,
            "530",
        ),
        (
            &[("connect", "220 x"), ("EHLO", "250 AUTH PLAIN"), ("AUTH", "235 x"), ("MAIL", "451 busy")],
            false,
            "451",
        ),
        (
            &[
                ("connect", "220 x"),
                ("EHLO", "250 AUTH PLAIN"),
                ("AUTH", "235 x"),
                ("MAIL", "250 x"),
                ("RCPT", "550-5.1.1 no\r\n550 ada\u{1b}"),
            ],
            true,
            "550 to RCPT TO:<ada@c.example>: 5.1.1 no ada\\u{1b}",
        ),
    ] {
        let receiver = MailReceiver::start(&world, script).await;
        let sent =
            send(&format!("smtp://a:hush@{}?tls=none", receiver.address), RootCertStore::empty()).await;
        let (found, why) = match sent {
            Err(Refused(why)) => (true, why),
            Err(Failed(why)) => (false, why),
            Ok(()) => panic!("{words}"),
        };
        assert!(found == is_refused && why.contains(words) && !why.contains("hush"), "{words}: {why}");
    }
    let login = [
        ("connect", "220 x"),
        ("EHLO", "250 AUTH LOGIN"),
        ("AUTH LOGIN", "334 x"),
        ("YQ==", "334 x"),
        ("aHVzaA==", "235 in"),
    ];
    let receiver = MailReceiver::start(&world, &login).await;
    assert_eq!(
        send(&format!("smtp://a:hush@{}?tls=none", receiver.address), RootCertStore::empty()).await,
        Ok(())
    );
}
