//! The face in process: routes and streams over an engine on a store in memory, without a socket.

mod entitlement;
mod handshake;
mod many;
mod replies;
mod resume;
mod rooms;
mod stage;
mod streams;
mod terms;
mod verify;
