//! Stands between a verb and its server, and does something at one of its requests: what happens to a server while a verb
//! is under way happens at a known moment. It must not depend on the requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use recount_world::{Kind, World};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{CommandOutput, PATIENCE, Server, recount};

/// What happens at a request.
pub(crate) enum Then {
    /// This, once, before the server hears of it.
    First(Box<dyn FnOnce() + Send>),
    /// The server never hears of it: this is the answer, each time.
    CommandOutput(String),
}

/// It ends with the tests.
pub(crate) struct Between {
    port: u16,
}

impl Between {
    /// `target` is what the request's line contains.
    pub(crate) fn at(server: &Server, target: &str, then: Then) -> Self {
        let (address, target) = (server.address.clone(), target.to_owned());
        let then = Arc::new(Mutex::new(Some(then)));
        let (port_sender, port_receiver) = channel();
        recount_world::thread("between", move || {
            let world = World::real();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
                let port = listener.local_addr().unwrap().port();
                port_sender.send(port).unwrap();
                while let Ok((from, _)) = listener.accept().await {
                    let (address, target, then) = (address.clone(), target.clone(), then.clone());
                    world.tasks.spawn(Kind::Connection, |_| async move {
                        let to = TcpStream::connect(&address).await.unwrap();
                        // The server answers only who calls it by its own name.
                        let names = (format!("127.0.0.1:{port}"), address);
                        // Either side may end it.
                        drop(carry(from, to, &names, &target, &then).await);
                    });
                }
            });
        });
        Between { port: port_receiver.recv_timeout(PATIENCE).unwrap() }
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(
            recount().args(["--url", &format!("http://127.0.0.1:{}", self.port)]).args(arguments),
        )
    }
}

/// Sends this response in place of the server, if there is one.
fn happen(then: &Mutex<Option<Then>>) -> Option<String> {
    let mut then = then.lock().unwrap();
    match then.take() {
        Some(Then::First(first)) => {
            first();
            None
        }
        Some(Then::CommandOutput(answer)) => {
            *then = Some(Then::CommandOutput(answer.clone()));
            Some(answer)
        }
        None => None,
    }
}

/// Carries requests there and answers back. Verbs that read send a request in one piece, and the next one after the answer.
async fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    (called, real): &(String, String),
    target: &str,
    then: &Mutex<Option<Then>>,
) -> std::io::Result<()> {
    let (mut request, mut reply) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = from.read(&mut request) => {
                let request = &request[..read?];
                if request.is_empty() {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(request);
                let is_meant = text.lines().next().is_some_and(|line| line.contains(target));
                let answer = if is_meant { happen(then) } else { None };
                match answer {
                    Some(answer) => from.write_all(answer.as_bytes()).await?,
                    None => to.write_all(text.replace(called, real).as_bytes()).await?,
                }
            }
            read = to.read(&mut reply) => {
                let reply = &reply[..read?];
                if reply.is_empty() {
                    return Ok(());
                }
                from.write_all(reply).await?;
            }
        }
    }
}
