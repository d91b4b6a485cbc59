//! Configuration of the rooms of the accessibility face: which clients may reach them, and whether one has an agent.
//!
//! Start at [`Rooms`]. It must never know the messages in a room.

use std::net::SocketAddr;

use crate::StartError;

/// Which clients may reach `/aaep/legacy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoomAccess {
    /// Clients on this machine.
    #[default]
    Loopback,
    /// All clients with access to the server.
    Everywhere,
    Off,
}

/// The checked settings of rooms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rooms {
    pub access: RoomAccess,
    /// A further address whose root is a room.
    pub bind: Option<SocketAddr>,
    /// Whether the room `conformance` has an agent that plays scripts.
    pub agent: bool,
    /// Whether the id of each session comes before it.
    pub announces_sessions: bool,
}

impl Rooms {
    /// The room at the root of the further address.
    pub(crate) fn at_root(self) -> &'static str {
        if self.agent { "conformance" } else { "all" }
    }

    /// Refuses a further address where rooms would be unreachable, or reachable by clients without access.
    pub(crate) fn check(self, allows_anonymous: bool) -> Result<(), StartError> {
        let Some(bind) = self.bind else { return Ok(()) };
        let is_near = bind.ip().to_canonical().is_loopback();
        let refused = |why: &str| Err(StartError::usage(format!("aaep.room_bind is {bind}, {why}")));
        match self.access {
            RoomAccess::Off => {
                refused("and aaep.rooms is off; set aaep.rooms to loopback, or remove aaep.room_bind")
            }
            RoomAccess::Loopback if !is_near => refused(
                "which is not a loopback address; use a loopback address, or set aaep.rooms to everywhere",
            ),
            RoomAccess::Everywhere if !is_near && allows_anonymous => refused(
                "which is not a loopback address, and no token is required; set access.require_token to \
                 true, or use a loopback address",
            ),
            RoomAccess::Loopback | RoomAccess::Everywhere => Ok(()),
        }
    }
}
